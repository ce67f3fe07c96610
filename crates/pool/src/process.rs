//! Memory node, metadata service and clients as loops over a port.

use std::io;

use roce::endpoint::Memory;
use sys::clock::monotonic_ns;
use sys::poll::{Events, Interest, Poll, Waker};
use sys::shared_memory::SharedMemory;

use crate::layout::START;
use crate::limits::TURN_LATE_NS;
use crate::port::Port;
use crate::{Client, MemoryNode, Metadata};

/// Most frames that are taken before something is sent on.
const BURST: usize = 64;

/// The memory of a node.
#[derive(Debug)]
pub struct NodeMemory(pub SharedMemory);

impl NodeMemory {
    fn offset(address: u64) -> usize {
        address
            .checked_sub(START)
            .and_then(|offset| usize::try_from(offset).ok())
            .unwrap_or(usize::MAX)
    }
}

impl Memory for NodeMemory {
    fn read(&self, address: u64, bytes: &mut [u8]) {
        if !self.0.read(Self::offset(address), bytes) {
            bytes.fill(0);
        }
    }

    fn write(&mut self, address: u64, bytes: &[u8]) {
        self.0.write(Self::offset(address), bytes);
    }
}

/// A part that takes frames and sends frames.
trait Part {
    fn handle(&mut self, now_ns: u64, frame: &[u8], send: &mut impl FnMut(&[u8]));
    fn transmit(&mut self, now_ns: u64, send: &mut impl FnMut(&[u8]));
    fn deadline_ns(&self) -> Option<u64>;
    /// Whether the loop ends by itself.
    fn is_over(&self) -> bool {
        false
    }
}

struct Node<'a>(&'a mut MemoryNode, &'a mut NodeMemory);

impl Part for Node<'_> {
    fn handle(&mut self, now_ns: u64, frame: &[u8], send: &mut impl FnMut(&[u8])) {
        self.0.handle(now_ns, frame, self.1, send);
    }
    fn transmit(&mut self, _now_ns: u64, send: &mut impl FnMut(&[u8])) {
        self.0.acknowledge(send);
    }
    fn deadline_ns(&self) -> Option<u64> {
        None
    }
}

impl Part for &mut Metadata {
    fn handle(&mut self, now_ns: u64, frame: &[u8], _send: &mut impl FnMut(&[u8])) {
        Metadata::handle(self, now_ns, frame);
    }
    fn transmit(&mut self, now_ns: u64, send: &mut impl FnMut(&[u8])) {
        Metadata::transmit(self, now_ns, send);
    }
    fn deadline_ns(&self) -> Option<u64> {
        Metadata::deadline_ns(self)
    }
    fn is_over(&self) -> bool {
        self.error().is_some()
    }
}

/// Serves the memory until `stop` is signalled.
///
/// # Errors
/// The port fails.
pub fn run_node(
    node: &mut MemoryNode,
    memory: &mut NodeMemory,
    port: &mut Port,
    stop: &Waker,
) -> io::Result<()> {
    run(&mut Node(node, memory), port, stop)
}

/// Serves metadata until `stop` is signalled, or until the service has an error.
///
/// # Errors
/// The port fails.
pub fn run_metadata(metadata: &mut Metadata, port: &mut Port, stop: &Waker) -> io::Result<()> {
    run(&mut &mut *metadata, port, stop)
}

fn run(part: &mut impl Part, port: &mut Port, stop: &Waker) -> io::Result<()> {
    let poll = Poll::new()?;
    poll.add(&*port, 0, Interest::Read)?;
    poll.add(stop, 1, Interest::Read)?;
    let mut events = Events::with_capacity(2);
    let mut frame = Vec::new();
    while !part.is_over() {
        let mut count = 0;
        while count < BURST && port.receive(&mut frame)? {
            count += 1;
            part.handle(monotonic_ns(), &frame, &mut |frame| port.send(frame));
        }
        let now_ns = monotonic_ns();
        part.transmit(now_ns, &mut |frame| port.send(frame));
        let deadline_ns = part.deadline_ns();
        let timeout_ns = match count {
            // There may be more. Whether it is to stop is looked at in any case.
            BURST => Some(0),
            _ => deadline_ns.map(|deadline_ns| deadline_ns.saturating_sub(now_ns)),
        };
        poll.wait(&mut events, timeout_ns)?;
        if events.iter().any(|ready| ready.token == 1) {
            return Ok(());
        }
    }
    Ok(())
}

/// A client and its port, which are driven by the thread that uses them.
pub struct ClientPort {
    /// The client.
    pub client: Client,
    port: Port,
    poll: Poll,
    events: Events,
    frame: Vec<u8>,
}

impl ClientPort {
    /// A client at a port, whose station it must have.
    ///
    /// # Errors
    /// No descriptor is available.
    pub fn new(client: Client, port: Port) -> io::Result<Self> {
        let poll = Poll::new()?;
        poll.add(&port, 0, Interest::Read)?;
        Ok(Self {
            client,
            port,
            poll,
            events: Events::with_capacity(2),
            frame: Vec::new(),
        })
    }

    /// Also ends waits when this event is signalled.
    ///
    /// # Errors
    /// No descriptor is available.
    pub fn wake_by(&mut self, waker: &Waker) -> io::Result<()> {
        self.poll.add(waker, 1, Interest::Read)
    }

    /// Takes what has arrived and sends what is due. Waits for something to do if nothing has
    /// arrived or completed, but not longer than until `until_ns`.
    ///
    /// # Errors
    /// The port fails.
    pub fn turn(&mut self, until_ns: u64) -> io::Result<()> {
        let mut count = 0;
        let mut received = Ok(true);
        while count < BURST {
            received = self.port.receive(&mut self.frame);
            if !matches!(received, Ok(true)) {
                break;
            }
            count += 1;
            self.client.handle(monotonic_ns(), &self.frame);
        }
        let now_ns = monotonic_ns();
        let Self { client, port, .. } = self;
        // Also if the port fails: operations end in time.
        client.transmit(now_ns, &mut |frame| port.send(frame));
        received?;
        if count > 0 || until_ns <= now_ns || self.client.has_completion() {
            return Ok(());
        }
        let deadline_ns = self.client.deadline_ns().unwrap_or(u64::MAX).min(until_ns);
        let timeout_ns = deadline_ns.saturating_sub(now_ns);
        self.poll.wait(&mut self.events, Some(timeout_ns))?;
        let late_ns = monotonic_ns().saturating_sub(now_ns + timeout_ns);
        if late_ns > TURN_LATE_NS {
            // The lease has its own clock: others take what it protects.
            self.client.postpone(late_ns + timeout_ns);
        }
        Ok(())
    }
}
