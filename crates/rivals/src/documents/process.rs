//! A process that serves one connection at a time, and blocks.

use std::io;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;
use std::task::Waker;
use std::thread;

use files::documents::{DocumentService, WallClock};
use files::limits::REQUESTS_PER_TURN;
use files::{Disk, FileSet};
use service::{ConnectionId, Next, OpenTickets, Output, Service, Tickets, Worker};
use sys::clock::{monotonic_ns, unix_ns};
use sys::socket::{Listener, Stream};

use super::limits::{ACCEPT_PAUSE, IDLE_NS, RECEIVE_LEN};

/// Serves connections until the process is killed.
pub(super) fn run<D: Disk>(listener: &Listener, files: Arc<FileSet<D>>) -> ! {
    let clock = WallClock {
        monotonic_ns: monotonic_ns(),
        unix_ns: unix_ns(),
    };
    let mut worker = DocumentService::new(files, clock).worker();
    worker.online();
    loop {
        let stream = match listener.accept() {
            Ok(stream) => stream,
            // The network has failed for a queued connection (accept(2)), or the system has no
            // descriptor left. Other processes are not worse off by the pause.
            Err(_) => {
                thread::sleep(ACCEPT_PAUSE);
                continue;
            }
        };
        // An error, or a panic, costs this connection.
        let served = catch_unwind(AssertUnwindSafe(|| serve(&mut worker, &stream)));
        if served.is_err() {
            worker.reset();
            // A worker that was reset may be offline, but this process continues to use it.
            worker.online();
        }
    }
}

/// Receives, answers and sends until one side closes the connection.
fn serve<W: Worker>(worker: &mut W, stream: &Stream) -> io::Result<()> {
    stream.set_blocking(IDLE_NS)?;
    stream.set_receive_timeout(IDLE_NS)?;
    stream.set_nodelay();
    let mut connection = Connection {
        session: worker.open(),
        input: Vec::new(),
        output: Output::default(),
        tickets: OpenTickets::default(),
    };
    let mut buffer = vec![0; RECEIVE_LEN];
    loop {
        let len = stream.recv(&mut buffer)?;
        connection.input.extend_from_slice(&buffer[..len]);
        loop {
            let next = connection.turn(worker);
            for slice in connection.output.slices(0) {
                send_all(stream, slice)?;
            }
            connection.output.clear();
            match next {
                Next::Yield | Next::OutputSpace => {}
                Next::Input if len > 0 => break,
                // Nothing completes tickets here: all operations block.
                _ => return Ok(()),
            }
        }
    }
}

fn send_all(stream: &Stream, mut bytes: &[u8]) -> io::Result<()> {
    while !bytes.is_empty() {
        let sent = stream.send(bytes)?;
        bytes = &bytes[sent..];
    }
    Ok(())
}

/// The state of the connection.
struct Connection<W: Worker> {
    session: W::Session,
    /// Input that is not consumed yet.
    input: Vec<u8>,
    output: Output<W::Pin>,
    tickets: OpenTickets,
}

impl<W: Worker> Connection<W> {
    /// Answers some requests of the input into the output.
    fn turn(&mut self, worker: &mut W) -> Next {
        worker.begin_burst(monotonic_ns());
        let (input, mut requests) = (&self.input[..], Vec::new());
        worker.prepare(&mut self.session, input, REQUESTS_PER_TURN, &mut requests);
        worker.prefetch(&mut requests);
        let tickets = Tickets {
            mailbox: &mut None,
            waker: Waker::noop(),
            connection: ConnectionId {
                slot: 0,
                generation: 0,
            },
            open: &mut self.tickets,
        };
        let (session, output) = (&mut self.session, &mut self.output);
        let progress = worker.answer(session, &requests, input, tickets, output);
        drop(requests);
        worker.end_burst(None);
        self.input.drain(..progress.consumed);
        progress.next
    }
}
