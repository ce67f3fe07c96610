//! The memory runtime as a peer. It runs the loop that otherwise serves sockets, over pipes in
//! memory and with a virtual clock.

use std::io::ErrorKind;
use std::sync::Arc;

use anyhow::{Context, Result, bail};
use runtime::limits::DRAIN_NS;
use runtime::memory::{Client, Memory};
use runtime::{ConnectionCounts, Scheduler, Setup, WaitPolicy};
use session::{Access, CacheService, Clock};
use store::Store;

use super::session::{CONFIG, NoControl};
use super::{ClientId, Peer, Received};
use crate::play::REFERENCE_VERSION;

pub(super) const NS_PER_S: u64 = 1_000_000_000;
/// The Unix time at which the virtual clock starts, as in the model.
const START_S: u64 = 1_700_000_000;
/// The number of requests answered in one turn. It is small, so that turns end within pipelines.
const REQUESTS_PER_TURN: usize = 3;
/// The number of steps after which the server is considered stuck.
const STEPS_MAX: usize = 100_000;

/// A server in memory, and its clients.
pub struct MemoryPeer {
    server: Memory<CacheService>,
    now_ns: u64,
    clients: Vec<Connected>,
    /// The capacity of a connection's pipe in each direction, in bytes.
    capacity: usize,
}

/// A client, with the replies that it has received and the test has not.
struct Connected {
    client: Client,
    answers: Vec<u8>,
    has_ended: bool,
}

/// An empty cache whose clock is virtual.
///
/// # Errors
/// The store rejects its configuration.
pub fn service() -> Result<CacheService> {
    Ok(CacheService {
        store: Store::new(CONFIG)?,
        control: Arc::new(NoControl),
        counters: Arc::default(),
        clock: Clock::new(0, START_S),
        latency: session::LatencyRecording::Every,
        tier: None,
        access: Access::default(),
    })
}

/// The parameters of a runtime with one worker and short turns.
pub(super) fn setup() -> Setup {
    Setup {
        workers: 1,
        requests_per_turn: REQUESTS_PER_TURN,
        wait_policy: WaitPolicy::default(),
        idle_s: None,
        drain_ns: DRAIN_NS,
        fibre_scheduler: Scheduler::Fair,
        counts: Arc::new(ConnectionCounts::new(1024, 64 << 20)),
    }
}

impl MemoryPeer {
    /// Creates an empty server. The pipes of a connection hold at most `capacity` bytes in each
    /// direction.
    ///
    /// # Errors
    /// The store rejects its configuration.
    pub fn new(capacity: usize) -> Result<Self> {
        Ok(Self {
            server: Memory::new(&service()?, setup()),
            now_ns: 0,
            clients: Vec::new(),
            capacity,
        })
    }

    /// Runs the server and receives the replies of all clients, until there are no more replies.
    fn run(&mut self) -> Result<()> {
        let mut buffer = [0; 4096];
        for _ in 0..STEPS_MAX {
            self.server.run(self.now_ns);
            let mut is_idle = true;
            for connected in &mut self.clients {
                match connected.client.receive(&mut buffer) {
                    Ok(0) => connected.has_ended = true,
                    Ok(len) => {
                        connected.answers.extend_from_slice(&buffer[..len]);
                        is_idle = false;
                    }
                    Err(error) if error.kind() == ErrorKind::WouldBlock => {}
                    Err(error) => return Err(error.into()),
                }
            }
            if is_idle {
                return Ok(());
            }
        }
        bail!("the server does not stop sending replies")
    }
}

impl Peer for MemoryPeer {
    fn version(&self) -> &str {
        REFERENCE_VERSION
    }

    fn reset(&mut self) -> Result<()> {
        *self = Self::new(self.capacity)?;
        Ok(())
    }

    fn connect(&mut self) -> Result<ClientId> {
        let client = self.server.connect(self.capacity, None, self.now_ns);
        self.clients.push(Connected {
            client,
            answers: Vec::new(),
            has_ended: false,
        });
        Ok(ClientId(self.clients.len() - 1))
    }

    fn send(&mut self, client: ClientId, mut bytes: &[u8]) -> Result<()> {
        for _ in 0..STEPS_MAX {
            let connected = self.clients.get(client.0).context("no such client")?;
            match connected.client.send(bytes) {
                Ok(len) => bytes = &bytes[len..],
                Err(error) if error.kind() == ErrorKind::WouldBlock => {}
                // The server has closed the connection, which is not an error here.
                Err(error) if error.kind() == ErrorKind::BrokenPipe => return self.run(),
                Err(error) => return Err(error.into()),
            }
            self.run()?;
            if bytes.is_empty() {
                return Ok(());
            }
        }
        bail!("the server does not receive all bytes")
    }

    fn receive(&mut self, client: ClientId) -> Result<Received> {
        self.run()?;
        let connected = self.clients.get_mut(client.0).context("no such client")?;
        Ok(Received::take(&mut connected.answers, connected.has_ended))
    }

    fn has_clock(&self) -> bool {
        true
    }

    fn tick(&mut self, seconds: u64) -> Result<()> {
        self.now_ns += seconds * NS_PER_S;
        Ok(())
    }
}
