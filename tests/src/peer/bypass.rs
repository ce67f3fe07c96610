//! The runtime `bypass` as a peer, without a device: its clients are those of a host with a TCP/IP
//! stack of its own, at the other end of a link in memory, and the clock is virtual.

use anyhow::{Context, Result, bail};
use runtime::bypass::InMemory;
use session::CacheService;
use tcpip::testing::{ClientSocket, End, Faults, FaultyLink, Host, State};

use super::memory::{NS_PER_S, service, setup};
use super::{ClientId, Peer, Received};
use crate::play::REFERENCE_VERSION;

const SERVER: [u8; 4] = [192, 0, 2, 1];
const CLIENT: [u8; 4] = [192, 0, 2, 2];
const PORT: u16 = 11211;
/// The number of steps after which the server is considered stuck.
const STEPS_MAX: usize = 1_000_000;
/// How long to wait for more over a link without faults: longer than an acknowledgement is delayed.
const WAIT_NS: u64 = 50_000_000;
/// The same over a link with faults: longer than several retransmissions of one segment take.
const FAULTY_WAIT_NS: u64 = 16_000_000_000;

/// A server on the runtime `bypass`, a client host, and the link between them.
pub struct BypassPeer {
    server: InMemory<CacheService>,
    host: Host,
    link: FaultyLink,
    faults: Option<(Faults, u64)>,
    now_ns: u64,
    clients: Vec<Connected>,
}

/// A client's connection, with the replies that it has received and the test has not.
struct Connected {
    socket: ClientSocket,
    answers: Vec<u8>,
    has_ended: bool,
}

impl BypassPeer {
    /// Creates an empty server. `faults` are those of the link, with their seed.
    ///
    /// # Errors
    /// The store rejects its configuration.
    pub fn new(faults: Option<(Faults, u64)>) -> Result<Self> {
        let mut config = tcpip::Config::new([2, 0, 0, 0, 0, 1], SERVER.into(), vec![PORT]);
        // Small buffers, so that large replies wait for the client.
        config.receive_buffer = 8 * 1024;
        config.send_buffer = 8 * 1024;
        let (of_link, seed) = faults.unwrap_or_default();
        Ok(Self {
            server: InMemory::new(&service()?, setup(), config),
            host: Host::new([2, 0, 0, 0, 0, 2], CLIENT.into(), 1),
            link: FaultyLink::new(of_link, seed),
            faults,
            now_ns: 0,
            clients: Vec::new(),
        })
    }

    /// Exchanges frames until nothing more happens within the time to wait, or `is_done`.
    fn run(&mut self, mut is_done: impl FnMut(&mut Self) -> bool) -> Result<()> {
        let wait_ns = match self.faults {
            None => WAIT_NS,
            Some(_) => FAULTY_WAIT_NS,
        };
        let mut idle_until_ns = self.now_ns + wait_ns;
        for _ in 0..STEPS_MAX {
            let has_delivered = self.turn();
            if has_delivered {
                idle_until_ns = self.now_ns + wait_ns;
            }
            if is_done(self) {
                return Ok(());
            }
            let server_ns = self.server.wait_timeout_ns(self.now_ns);
            let next_ns = [
                self.link.next_arrival_ns(),
                server_ns.map(|wait_ns| self.now_ns + wait_ns),
                self.host.next_deadline_ns(self.now_ns),
            ];
            let next_ns = next_ns.into_iter().flatten().min();
            let next_ns = next_ns.filter(|&next_ns| next_ns <= idle_until_ns);
            match next_ns {
                Some(next_ns) => self.now_ns = next_ns.max(self.now_ns + 1_000),
                None => return Ok(()),
            }
        }
        bail!("frames are still exchanged after {STEPS_MAX} steps")
    }

    /// Does everything that is due now. Returns whether a frame has arrived at either end.
    fn turn(&mut self) -> bool {
        let now_ns = self.now_ns;
        let mut has_delivered = false;
        while let Some((to, frame)) = self.link.take(now_ns) {
            has_delivered = true;
            match to {
                End::Server => self.server.receive(&frame, now_ns),
                End::Client => self.host.receive(frame),
            }
        }
        let link = &mut self.link;
        self.server.run(now_ns, |frame| {
            link.send(End::Client, frame.to_vec(), now_ns);
        });
        self.host.poll(now_ns);
        for connected in &mut self.clients {
            let socket = self.host.socket(connected.socket);
            let mut buffer = [0; 4096];
            while let Ok(len @ 1..) = socket.recv_slice(&mut buffer) {
                connected.answers.extend_from_slice(&buffer[..len]);
            }
            connected.has_ended |= !socket.may_recv();
        }
        // What was read may have opened the window.
        self.host.poll(now_ns);
        while let Some(frame) = self.host.take_frame() {
            self.link.send(End::Server, frame, now_ns);
        }
        has_delivered
    }
}

impl Peer for BypassPeer {
    fn version(&self) -> &str {
        REFERENCE_VERSION
    }

    fn reset(&mut self) -> Result<()> {
        let faults = self.faults.map(|(faults, seed)| (faults, seed + 1));
        *self = Self::new(faults)?;
        Ok(())
    }

    fn connect(&mut self) -> Result<ClientId> {
        let socket = self.host.connect(SERVER.into(), PORT);
        let socket = socket.context("the client cannot connect")?;
        self.run(|it| it.host.socket(socket).state() == State::Established)?;
        self.clients.push(Connected {
            socket,
            answers: Vec::new(),
            has_ended: false,
        });
        Ok(ClientId(self.clients.len() - 1))
    }

    fn send(&mut self, client: ClientId, mut bytes: &[u8]) -> Result<()> {
        let socket = self.clients.get(client.0).context("no such client")?.socket;
        self.run(|it| {
            let socket = it.host.socket(socket);
            // The server may have closed the connection, which is not an error here.
            let sent = socket.send_slice(bytes).unwrap_or(bytes.len());
            bytes = &bytes[sent..];
            // All frames have arrived. Later ones are received apart from them.
            bytes.is_empty() && it.link.next_arrival_ns().is_none()
        })
    }

    fn receive(&mut self, client: ClientId) -> Result<Received> {
        self.run(|it| {
            let it = &it.clients[client.0];
            !it.answers.is_empty() || it.has_ended
        })?;
        let connected = self.clients.get_mut(client.0).context("no such client")?;
        Ok(Received::take(&mut connected.answers, connected.has_ended))
    }

    fn has_clock(&self) -> bool {
        // Retransmissions over a link with faults take seconds.
        self.faults.is_none()
    }

    fn tick(&mut self, seconds: u64) -> Result<()> {
        self.now_ns += seconds * NS_PER_S;
        Ok(())
    }
}
