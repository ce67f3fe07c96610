//! The server on Curtail's own runtime: an io_uring per worker for connections, and as many threads
//! for datagrams.

use std::io;
use std::sync::Arc;

use runtime::limits::DRAIN_NS;
use runtime::{ConnectionCounts, Running, Scheduler, Setup, WaitPolicy};
use service::{Next, NoCompletion, NoPin, Output, Progress, Tickets};

use super::control::Control;
use super::counters::{WorkerCounters, add};
use super::exchange::{Buffers, serve_datagram};
use super::handler::Handler;
use super::limits::{CONNECTIONS_MAX, DATAGRAM_REQUEST_MAX, REQUEST_LEN_MAX};
use super::listen::Sockets;
use crate::textile::SharedCache;
use crate::textile::wire;

/// The protocol over TCP as a service of a runtime.
#[derive(Clone)]
pub(crate) struct TextileService {
    pub(crate) cache: Arc<dyn SharedCache>,
    pub(crate) control: Arc<Control>,
    pub(crate) counters: Arc<WorkerCounters>,
}

impl TextileService {
    pub(crate) fn handler(&self) -> Handler {
        let counters = Arc::clone(&self.counters);
        Handler::new(self.cache.handle(), counters, Arc::clone(&self.control))
    }
}

impl service::Service for TextileService {
    type Worker = TextileWorker;

    fn worker(&self) -> TextileWorker {
        TextileWorker(self.handler())
    }

    fn rejection(&self) -> &'static [u8] {
        wire::FULL
    }
}

/// A worker of [`TextileService`].
pub(crate) struct TextileWorker(Handler);

/// A connection: whether its request is answered.
#[derive(Default)]
pub(crate) struct TextileSession {
    is_answered: bool,
}

impl service::Session for TextileSession {}

impl service::Worker for TextileWorker {
    type Session = TextileSession;
    /// The request, without its NUL.
    type Request<'i> = &'i [u8];
    type Pin = NoPin;
    type Completion = NoCompletion;

    fn open(&self) -> TextileSession {
        TextileSession::default()
    }

    fn begin_burst(&mut self, _: u64) {}

    fn prepare<'i>(
        &self,
        session: &mut TextileSession,
        input: &'i [u8],
        max: usize,
        requests: &mut Vec<&'i [u8]>,
    ) -> usize {
        if session.is_answered || max == 0 {
            return 0;
        }
        match input.iter().position(|&byte| byte == 0) {
            Some(end) => requests.push(&input[..end]),
            // No request: it is answered as malformed.
            None if input.len() > REQUEST_LEN_MAX => requests.push(b""),
            None => return 0,
        }
        1
    }

    fn answer(
        &mut self,
        session: &mut TextileSession,
        requests: &[&[u8]],
        input: &[u8],
        _: Tickets<'_, NoCompletion>,
        out: &mut Output<NoPin>,
    ) -> Progress {
        if let Some(request) = requests.first() {
            self.0.answer_tcp(request, out.bytes_mut());
            session.is_answered = true;
        }
        match session.is_answered {
            true => Progress {
                consumed: input.len(),
                next: Next::Close,
            },
            false => Progress {
                consumed: 0,
                next: Next::Input,
            },
        }
    }
}

/// Starts the runtime for connections.
pub(crate) fn start(
    service: &TextileService,
    sockets: Sockets,
    workers: usize,
) -> io::Result<Running> {
    // Each connection may keep a request that is not complete.
    let buffered = CONNECTIONS_MAX * REQUEST_LEN_MAX as u64;
    let setup = Setup {
        workers,
        requests_per_turn: 1,
        wait_policy: WaitPolicy::default(),
        idle_s: None,
        drain_ns: DRAIN_NS,
        fibre_scheduler: Scheduler::Fair,
        counts: Arc::new(ConnectionCounts::new(CONNECTIONS_MAX, buffered)),
    };
    runtime::start_rings(service, setup, vec![sockets.tcp.into()])
}

/// Serves datagrams until the server stops. Several threads do so on one socket, each of which the
/// kernel wakes for a datagram of its own.
pub(crate) fn serve_datagrams(socket: &std::net::UdpSocket, service: &TextileService) {
    let mut handler = service.handler();
    let mut buffers = Buffers::default();
    let mut request = [0; DATAGRAM_REQUEST_MAX];
    while !service.control.is_stopping() {
        // The socket has a time-out, after which this thread checks whether to stop.
        match socket.recv_from(&mut request) {
            Ok((len, from)) => {
                serve_datagram(socket, &request[..len], from, &mut handler, &mut buffers);
            }
            Err(error) if error.kind() == io::ErrorKind::WouldBlock => {}
            Err(_) => add(&service.counters.lost, 1),
        }
    }
}
