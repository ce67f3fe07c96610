//! Peers: the implementations of a cache to which a transcript can be played.

mod bypass;
mod memory;
mod model;
mod session;
mod socket;

pub use bypass::BypassPeer;
pub use memory::{MemoryPeer, service as cache_service};
pub use model::ModelPeer;
pub use session::SessionPeer;
pub use socket::{Address, Socket, SocketPeer};

use std::time::Duration;

use anyhow::Result;

/// One client of a peer.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct ClientId(pub usize);

/// What a client receives.
#[derive(Debug, PartialEq, Eq)]
pub enum Received {
    /// At least one byte.
    Bytes(Vec<u8>),
    /// The end of the connection. All bytes before it have been received.
    End,
    /// Nothing. The peer sends nothing until it receives more bytes.
    Nothing,
}

impl Received {
    /// Takes the bytes that a client has received. `has_ended` says whether the connection ends
    /// behind them.
    fn take(bytes: &mut Vec<u8>, has_ended: bool) -> Self {
        if !bytes.is_empty() {
            Self::Bytes(std::mem::take(bytes))
        } else if has_ended {
            Self::End
        } else {
            Self::Nothing
        }
    }
}

/// A cache that replies as memcached does. It has several clients, which share its items.
pub trait Peer {
    /// The version of memcached whose replies the peer gives.
    fn version(&self) -> &str;

    /// Whether all items are evicted to a tier before bytes are sent.
    fn evicts_all(&self) -> bool {
        false
    }

    /// Removes all clients and empties the cache.
    ///
    /// # Errors
    /// The peer cannot be reached.
    fn reset(&mut self) -> Result<()>;

    /// Connects a new client.
    ///
    /// # Errors
    /// The peer cannot be reached.
    fn connect(&mut self) -> Result<ClientId>;

    /// Sends bytes as a client. If the peer has closed the connection, the bytes are lost, which is
    /// not an error.
    ///
    /// # Errors
    /// The peer cannot be reached.
    fn send(&mut self, client: ClientId, bytes: &[u8]) -> Result<()>;

    /// Receives as a client. A peer with a socket waits for its timeout before it returns
    /// [`Received::Nothing`].
    ///
    /// # Errors
    /// The peer cannot be reached.
    fn receive(&mut self, client: ClientId) -> Result<Received>;

    /// Sets how long clients that connect from now on wait to receive. A peer without a socket does
    /// not wait.
    fn set_patience(&mut self, _: Duration) {}

    /// Whether [`Peer::tick`] works.
    fn has_clock(&self) -> bool;

    /// Advances the time of the peer by a number of seconds.
    ///
    /// # Errors
    /// The time cannot be advanced.
    fn tick(&mut self, seconds: u64) -> Result<()>;
}

/// A peer that receives each byte of a short input in a call of its own. Longer inputs arrive in
/// one call.
#[derive(Debug)]
pub struct Trickle<P>(pub P);

/// The maximum length of an input that is sent byte by byte. Longer inputs are large values, where
/// splitting at every byte would take long and test nothing else.
const TRICKLE_MAX: usize = 8 * 1024;

impl<P: Peer> Peer for Trickle<P> {
    fn version(&self) -> &str {
        self.0.version()
    }

    fn evicts_all(&self) -> bool {
        self.0.evicts_all()
    }

    fn set_patience(&mut self, patience: Duration) {
        self.0.set_patience(patience);
    }

    fn reset(&mut self) -> Result<()> {
        self.0.reset()
    }

    fn connect(&mut self) -> Result<ClientId> {
        self.0.connect()
    }

    fn send(&mut self, client: ClientId, bytes: &[u8]) -> Result<()> {
        let size = if bytes.len() > TRICKLE_MAX {
            bytes.len()
        } else {
            1
        };
        bytes
            .chunks(size)
            .try_for_each(|some| self.0.send(client, some))
    }

    fn receive(&mut self, client: ClientId) -> Result<Received> {
        self.0.receive(client)
    }

    fn has_clock(&self) -> bool {
        self.0.has_clock()
    }

    fn tick(&mut self, seconds: u64) -> Result<()> {
        self.0.tick(seconds)
    }
}
