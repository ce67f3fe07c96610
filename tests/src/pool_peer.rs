//! A server whose items are in a memory pool, as a peer of transcripts.
//!
//! A pool cannot be flushed. Before each case, the peer deletes the keys that earlier cases have
//! named.

use std::collections::{BTreeMap, BTreeSet};
use std::io::{Read, Write};
use std::time::Duration;

use anyhow::{Result, ensure};
use protocol::binary::reply::Reply;
use protocol::binary::{self, Head, Header, Opcode, REQUEST_MAGIC, Request};
use protocol::limits::{BINARY_HEADER_LEN, KEY_MAX};

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
    /// The keys of frames of the binary protocol.
    binary_keys: BTreeSet<Vec<u8>>,
    /// The beginning of the line or frame that each client has not sent completely, by client.
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
            binary_keys: BTreeSet::new(),
            lines: BTreeMap::new(),
        })
    }

    /// Remembers the keys that a client's requests may name. Words of values are harmless.
    fn remember(&mut self, client: ClientId, bytes: &[u8]) {
        let begun = self.lines.entry(client.0).or_default();
        begun.extend_from_slice(bytes);
        if begun.first() == Some(&REQUEST_MAGIC) {
            return remember_frames(begun, &mut self.binary_keys);
        }
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

/// Takes the complete frames from the front of `begun` and remembers their keys.
fn remember_frames(begun: &mut Vec<u8>, keys: &mut BTreeSet<Vec<u8>>) {
    while let Some(header) = begun.first_chunk::<BINARY_HEADER_LEN>() {
        let header = Header::read(header);
        let (len, value_at) = (
            BINARY_HEADER_LEN + header.body_len as usize,
            header.value_at(),
        );
        if begun.len() < len.max(value_at) {
            return;
        }
        let key = &begun[value_at - usize::from(header.key_len)..value_at];
        if (1..=KEY_MAX).contains(&key.len()) {
            keys.insert(key.to_vec());
        }
        begun.drain(..len);
    }
}

/// Deletes items by frames, and waits for the replies.
fn delete(keys: &BTreeSet<Vec<u8>>, address: &Address) -> Result<()> {
    let mut frames = Vec::new();
    let head = |opcode| Head { opcode, opaque: 0 };
    let delete = Opcode(0x04);
    for key in keys {
        binary::write(&mut frames, head(delete), 0, &Request::Delete { key });
    }
    binary::write(&mut frames, head(Opcode::NOOP), 0, &Request::Noop);
    let mut socket = address.connect(Duration::from_secs(10))?;
    socket.write_all(&frames)?;
    let (mut replies, mut buffer) = (Vec::new(), [0; 4096]);
    loop {
        match Reply::read(&replies) {
            Ok(Some((reply, _))) if reply.header.head.opcode == Opcode::NOOP => return Ok(()),
            Ok(Some((_, len))) => drop(replies.drain(..len)),
            Ok(None) => {
                let len = socket.read(&mut buffer)?;
                ensure!(len > 0, "the server has closed the connection");
                replies.extend_from_slice(&buffer[..len]);
            }
            Err(_) => anyhow::bail!("{} is no reply", replies.escape_ascii()),
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
        delete(&std::mem::take(&mut self.binary_keys), &self.address)?;
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
