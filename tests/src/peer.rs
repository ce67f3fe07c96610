//! Those who can hold a conversation.

mod memory;
mod model;
mod session;
mod socket;

pub use memory::MemoryPeer;
pub use model::ModelPeer;
pub use session::SessionPeer;
pub use socket::{Address, Socket, SocketPeer};

use anyhow::Result;

/// One client of a peer.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct ClientId(pub usize);

/// What a client hears.
#[derive(Debug, PartialEq, Eq)]
pub enum Received {
    /// At least one byte.
    Bytes(Vec<u8>),
    /// The peer has closed the connection, and everything before has been heard.
    End,
    /// Nothing, and nothing will come unless something is said.
    Nothing,
}

/// Anything that answers as a memcached does. Conversations with it are independent; the cache
/// behind them is one.
pub trait Peer {
    /// The version of memcached whose answers it gives.
    fn version(&self) -> &str;

    /// Forgets all clients and empties the cache.
    ///
    /// # Errors
    /// It cannot be talked to.
    fn reset(&mut self) -> Result<()>;

    /// Opens a conversation.
    ///
    /// # Errors
    /// It cannot be talked to.
    fn connect(&mut self) -> Result<ClientId>;

    /// Says something.
    ///
    /// # Errors
    /// It cannot be talked to. That it has closed the connection is no error here.
    fn send(&mut self, client: ClientId, bytes: &[u8]) -> Result<()>;

    /// Listens. A peer with a socket waits for a while before it reports [`Received::Nothing`].
    ///
    /// # Errors
    /// It cannot be talked to.
    fn receive(&mut self, client: ClientId) -> Result<Received>;

    /// Whether [`Peer::tick`] works.
    fn has_clock(&self) -> bool;

    /// Lets seconds pass.
    ///
    /// # Errors
    /// Its clock cannot be turned.
    fn tick(&mut self, seconds: u64) -> Result<()>;
}

/// A peer to whom everything short is said one byte at a time.
#[derive(Debug)]
pub struct Trickle<P>(pub P);

/// What is longer than this is said at once: a large value says nothing new about splitting.
const TRICKLE_MAX: usize = 8 * 1024;

impl<P: Peer> Peer for Trickle<P> {
    fn version(&self) -> &str {
        self.0.version()
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
