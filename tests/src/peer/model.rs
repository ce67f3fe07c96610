//! The model as a peer.

use anyhow::{Context, Result};
use model::{Cache, ModelSession};

use super::{ClientId, Peer, Received};
use crate::play::REFERENCE_VERSION;

/// memcached's default `-I`.
const ITEM_SIZE_MAX: usize = 1024 * 1024;

/// The Unix time at the start. It is long after 1970, so that a time thirty days earlier is still
/// larger than the thirty days up to which a client's time is relative.
const START_S: u64 = 1_700_000_000;

/// The model: a cache and its sessions.
#[derive(Debug)]
pub struct ModelPeer {
    cache: Cache,
    clients: Vec<(ModelSession, Vec<u8>)>,
    now_s: u64,
}

impl ModelPeer {
    /// A model without items or clients.
    #[must_use]
    pub fn new() -> Self {
        Self {
            cache: Cache::new(ITEM_SIZE_MAX),
            clients: Vec::new(),
            now_s: START_S,
        }
    }
}

impl Default for ModelPeer {
    fn default() -> Self {
        Self::new()
    }
}

impl Peer for ModelPeer {
    fn version(&self) -> &str {
        REFERENCE_VERSION
    }

    fn reset(&mut self) -> Result<()> {
        *self = Self::new();
        Ok(())
    }

    fn connect(&mut self) -> Result<ClientId> {
        self.clients.push((ModelSession::new(), Vec::new()));
        Ok(ClientId(self.clients.len() - 1))
    }

    fn send(&mut self, client: ClientId, bytes: &[u8]) -> Result<()> {
        let (session, answers) = self.clients.get_mut(client.0).context("no such client")?;
        if !session.is_closed() {
            answers.extend(session.receive(&mut self.cache, self.now_s, bytes));
        }
        Ok(())
    }

    fn receive(&mut self, client: ClientId) -> Result<Received> {
        let (session, answers) = self.clients.get_mut(client.0).context("no such client")?;
        Ok(if !answers.is_empty() {
            Received::Bytes(std::mem::take(answers))
        } else if session.is_closed() {
            Received::End
        } else {
            Received::Nothing
        })
    }

    fn has_clock(&self) -> bool {
        true
    }

    fn tick(&mut self, seconds: u64) -> Result<()> {
        self.now_s += seconds;
        Ok(())
    }
}
