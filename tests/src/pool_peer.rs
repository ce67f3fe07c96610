//! A server whose items are in a memory pool, as a peer of transcripts.
//!
//! A pool cannot be flushed. Before each case, the peer deletes the keys that earlier cases have
//! named.

use std::collections::{BTreeMap, BTreeSet};

use anyhow::Result;

use crate::client::Client;
use crate::peer::{Address, ClientId, Peer, Received, SocketPeer};

/// Commands whose next word is a key, or which have only keys.
const WITH_KEYS: &[&str] = &[
    "get", "gets", "gat", "gats", "set", "add", "replace", "append", "prepend", "cas", "delete",
    "incr", "decr", "touch", "mg", "ms", "md", "ma", "me",
];

/// A running server whose items are in a pool.
#[derive(Debug)]
pub struct PoolPeer {
    address: Address,
    peer: SocketPeer,
    /// What follows `md ` to delete each key.
    keys: BTreeSet<String>,
    /// The beginning of the line that each client has not sent completely, by client.
    lines: BTreeMap<usize, Vec<u8>>,
}

impl PoolPeer {
    /// Uses the server that listens at `address`.
    ///
    /// # Errors
    /// No server listens there.
    pub fn new(address: Address) -> Result<Self> {
        Ok(Self {
            peer: SocketPeer::new(address.clone())?,
            address,
            keys: BTreeSet::new(),
            lines: BTreeMap::new(),
        })
    }

    /// Remembers the keys that a client's requests may name. Words of values are harmless.
    fn remember(&mut self, client: ClientId, bytes: &[u8]) {
        let begun = self.lines.entry(client.0).or_default();
        begun.extend_from_slice(bytes);
        let Some(end) = begun.iter().rposition(|&byte| byte == b'\n') else {
            return;
        };
        let lines: Vec<u8> = begun.drain(..=end).collect();
        for line in lines.split(|&byte| byte == b'\n') {
            let Ok(line) = std::str::from_utf8(line) else {
                continue;
            };
            let mut words = line.split_ascii_whitespace();
            let Some(command) = words.next().filter(|word| WITH_KEYS.contains(word)) else {
                continue;
            };
            let words: Vec<&str> = words.collect();
            let is_base64 = command.len() == 2 && words.contains(&"b");
            let is_long = |word: &&&str| word.len() > 350;
            for key in words.iter().take(64).filter(|word| !is_long(word)) {
                if is_base64 {
                    self.keys.insert(format!("{key} b"));
                }
                self.keys.insert((*key).to_owned());
            }
        }
    }
}

impl Peer for PoolPeer {
    fn version(&self) -> &str {
        self.peer.version()
    }

    fn reset(&mut self) -> Result<()> {
        let mut client = Client::connect(&self.address)?;
        for key in std::mem::take(&mut self.keys) {
            // Words that are not keys are rejected.
            client.request(&format!("md {key}"))?;
        }
        self.lines.clear();
        self.peer.disconnect();
        Ok(())
    }

    fn connect(&mut self) -> Result<ClientId> {
        self.peer.connect()
    }

    fn send(&mut self, client: ClientId, bytes: &[u8]) -> Result<()> {
        self.remember(client, bytes);
        self.peer.send(client, bytes)
    }

    fn receive(&mut self, client: ClientId) -> Result<Received> {
        self.peer.receive(client)
    }

    fn has_clock(&self) -> bool {
        false
    }

    fn tick(&mut self, seconds: u64) -> Result<()> {
        self.peer.tick(seconds)
    }
}
