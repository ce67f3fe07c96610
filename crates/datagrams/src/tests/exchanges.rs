//! The exchanges of datagrams with a service that follows a script. All datagrams of a test are in
//! the socket before the thread starts, so they are one burst.

use std::net::{Ipv4Addr, UdpSocket};
use std::sync::atomic::{AtomicU32, Ordering};
use std::sync::mpsc::{Receiver, Sender, channel};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use service::{
    Abandoned, Next, NoPin, Output, Progress, Service, Session, Ticket, Tickets, Worker,
};

use crate::{Count, Counts, ReplyLimit, Running};

const TIMEOUT: Duration = Duration::from_secs(10);
const HEADER_LEN: usize = 8;

/// A service whose requests are lines:
///
/// - `part`: has the reply `part`;
/// - `ticket`: issues a ticket, and has the reply `result` after its result;
/// - `complete`: completes all tickets, the last one first, and has the reply `completed`;
/// - others: wait for memory that never comes.
#[derive(Clone, Default)]
struct Script {
    tickets: Arc<Mutex<Vec<Ticket<Token>>>>,
    /// The turns that waited for memory.
    memory_turns: Arc<AtomicU32>,
    /// Receives a message at the first of these.
    first_memory_turn: Option<Sender<()>>,
}

/// A result. Its end is reported.
struct Token(Option<Sender<()>>);

impl Drop for Token {
    fn drop(&mut self) {
        if let Some(dropped) = &self.0 {
            let _ = dropped.send(());
        }
    }
}

/// The present ticket of a session, and whether its result has been delivered.
#[derive(Default)]
struct ScriptSession {
    is_waiting: bool,
    has_result: bool,
}

impl Session for ScriptSession {}

struct ScriptWorker {
    script: Script,
    is_online: bool,
    /// It was offline since the end of the last burst, as it has to be while replies are sent.
    was_offline: bool,
}

impl Service for Script {
    type Worker = ScriptWorker;

    fn worker(&self) -> ScriptWorker {
        ScriptWorker {
            script: self.clone(),
            is_online: false,
            was_offline: true,
        }
    }

    fn rejection(&self) -> &'static [u8] {
        b""
    }
}

impl Worker for ScriptWorker {
    type Session = ScriptSession;
    type Request<'i> = ();
    type Pin = NoPin;
    type Completion = Token;

    fn open(&self) -> ScriptSession {
        assert!(self.is_online);
        ScriptSession::default()
    }

    fn online(&mut self) {
        self.is_online = true;
    }

    fn offline(&mut self) {
        self.is_online = false;
        self.was_offline = true;
    }

    fn begin_burst(&mut self, _: u64) {
        assert!(self.is_online);
    }

    fn prepare(&self, _: &mut ScriptSession, _: &[u8], _: usize, _: &mut Vec<()>) -> usize {
        assert!(self.is_online);
        0
    }

    fn answer(
        &mut self,
        session: &mut ScriptSession,
        _: &[()],
        input: &[u8],
        mut tickets: Tickets<'_, Token>,
        out: &mut Output<NoPin>,
    ) -> Progress {
        assert!(self.is_online);
        let mut consumed = 0;
        for line in input.split_inclusive(|&byte| byte == b'\n') {
            let reply = match line {
                b"part\n" => "part\n",
                b"ticket\n" if session.has_result => {
                    *session = ScriptSession::default();
                    "result\n"
                }
                b"ticket\n" => {
                    if !session.is_waiting {
                        session.is_waiting = true;
                        let ticket = tickets.issue(0).unwrap();
                        self.script.tickets.lock().unwrap().push(ticket);
                    }
                    let next = Next::Completion;
                    return Progress { consumed, next };
                }
                b"complete\n" => {
                    let mut tickets = self.script.tickets.lock().unwrap();
                    let last_first = tickets.drain(..).rev();
                    last_first.for_each(|ticket| ticket.complete(Token(None)));
                    "completed\n"
                }
                _ => {
                    let before = self.script.memory_turns.fetch_add(1, Ordering::Relaxed);
                    if let (0, Some(first)) = (before, &self.script.first_memory_turn) {
                        first.send(()).unwrap();
                    }
                    let next = Next::Memory;
                    return Progress { consumed, next };
                }
            };
            out.bytes_mut().extend_from_slice(reply.as_bytes());
            consumed += line.len();
        }
        let next = Next::Input;
        Progress { consumed, next }
    }

    fn complete(&mut self, session: &mut ScriptSession, _: u32, _: Result<Token, Abandoned>) {
        assert!(self.is_online && session.is_waiting);
        session.has_result = true;
    }

    fn end_burst(&mut self, _: Option<u64>) {
        assert!(self.is_online);
        self.was_offline = false;
    }

    fn maintain(&mut self, _: u64, _: usize) -> bool {
        assert!(self.is_online && self.was_offline);
        false
    }
}

/// A client, and the thread that serves it.
struct Served {
    client: UdpSocket,
    counts: Arc<Counts>,
    running: Running,
}

impl Served {
    /// Sends these requests, numbered from 0, and then starts the thread.
    fn start(script: &Script, requests: &[&[u8]]) -> Self {
        let socket = UdpSocket::bind((Ipv4Addr::LOCALHOST, 0)).unwrap();
        socket.set_nonblocking(true).unwrap();
        let client = UdpSocket::bind((Ipv4Addr::LOCALHOST, 0)).unwrap();
        client.connect(socket.local_addr().unwrap()).unwrap();
        client.set_read_timeout(Some(TIMEOUT)).unwrap();
        for (number, request) in requests.iter().enumerate() {
            let header = [0, number as u8, 0, 0, 0, 1, 0, 0];
            client.send(&[&header, *request].concat()).unwrap();
        }
        let counts = Arc::<Counts>::default();
        let limit = ReplyLimit::default();
        let running = crate::start(script, vec![socket], limit, Arc::clone(&counts)).unwrap();
        Self {
            client,
            counts,
            running,
        }
    }

    /// Receives a reply of one datagram to the request of this number.
    fn reply(&self, number: u8) -> Vec<u8> {
        let mut buffer = [0; 2048];
        let len = self.client.recv(&mut buffer).unwrap();
        assert_eq!(buffer[..HEADER_LEN], [0, number, 0, 0, 0, 1, 0, 0]);
        buffer[HEADER_LEN..len].to_vec()
    }
}

#[test]
fn results_reach_all_exchanges_of_a_burst() {
    let requests: [&[u8]; 5] = [
        b"ticket\n",
        b"part\nticket\npart\n",
        b"ticket\n",
        b"complete\n",
        b"part\n",
    ];
    let served = Served::start(&Script::default(), &requests);
    assert_eq!(served.reply(0), b"result\n");
    assert_eq!(served.reply(1), b"part\nresult\npart\n");
    assert_eq!(served.reply(2), b"result\n");
    assert_eq!(served.reply(3), b"completed\n");
    assert_eq!(served.reply(4), b"part\n");
    assert_eq!(served.counts.of(Count::TimedOut), 0);
    served.running.stop().unwrap();
}

/// Otherwise it would count as a ticket of the worker, of which there is a maximum.
#[test]
fn late_results_are_dropped_when_they_arrive() {
    let script = Script::default();
    let served = Served::start(&script, &[b"ticket\n", b"part\n"]);
    assert_eq!(served.reply(0), b"SERVER_ERROR timed out\r\n");
    assert_eq!(served.reply(1), b"part\n");
    let (dropped, is_dropped): (_, Receiver<()>) = channel();
    let ticket = script.tickets.lock().unwrap().pop().unwrap();
    ticket.complete(Token(Some(dropped)));
    is_dropped.recv_timeout(TIMEOUT).unwrap();
    served.running.stop().unwrap();
}

#[test]
fn stop_waits_for_no_exchange() {
    let (first, is_first) = channel();
    let script = Script {
        first_memory_turn: Some(first),
        ..Script::default()
    };
    let served = Served::start(&script, &[b"memory\n".as_slice(); 32]);
    is_first.recv_timeout(TIMEOUT).unwrap();
    served.running.stop().unwrap();
    // Exchanges that do not stop have 4096 turns each without a wait. Those that time out before
    // the stop have 100 each.
    let turns = script.memory_turns.load(Ordering::Relaxed);
    assert!(turns < 4096, "{turns}");
}

/// A part of the reply would look like the whole.
#[test]
fn exchange_that_times_out_has_an_error_for_a_reply() {
    let binary: &[u8] = &[&[0x80, 0x0a, 0, 0][..], &[0; 20], b"\n"].concat();
    let requests: [&[u8]; 3] = [b"part\nticket\n", b"part\nmemory\n", binary];
    let served = Served::start(&Script::default(), &requests);
    assert_eq!(served.reply(0), b"SERVER_ERROR timed out\r\n");
    assert_eq!(served.reply(1), b"SERVER_ERROR timed out\r\n");
    let reply = served.reply(2);
    assert_eq!(
        (reply[0], reply[1], &reply[6..8]),
        (0x81, 0x0a, &[0, 0x84][..])
    );
    assert_eq!(served.counts.of(Count::TimedOut), 3);
    served.running.stop().unwrap();
}
