//! A server whose items are in a memory pool, as a peer of transcripts.
//!
//! A pool cannot be flushed. Before each case, the peer ends the requests of earlier cases and
//! deletes the keys that they have named.

use std::collections::{BTreeMap, BTreeSet};
use std::io::{Read, Write};
use std::time::{Duration, Instant};

use anyhow::{Result, bail, ensure};
use protocol::binary::reply::Reply;
use protocol::binary::{Header, Opcode, REQUEST_MAGIC, Status};
use protocol::limits::{BINARY_HEADER_LEN, KEY_MAX};

use crate::binary_frame::binary_frame;
use crate::client::Client;
use crate::peer::{Address, ClientId, Peer, Received, SocketPeer};

/// Commands whose next word is a key, or which have only keys.
const WITH_KEYS: &[&str] = &[
    "get", "gets", "gat", "gats", "set", "add", "replace", "append", "prepend", "cas", "delete",
    "incr", "decr", "touch", "mg", "ms", "md", "ma", "me",
];

/// How long the pool may take to execute the requests of a case, and to delete the keys.
const TIMEOUT: Duration = Duration::from_secs(10);

const GET: Opcode = Opcode(0x00);
const DELETE: Opcode = Opcode(0x04);

/// A running server whose items are in a pool.
#[derive(Debug)]
pub struct PoolPeer {
    address: Address,
    peer: SocketPeer,
    /// What follows `md ` to delete each key.
    keys: BTreeSet<String>,
    /// The keys of frames of the binary protocol.
    binary_keys: BTreeSet<Vec<u8>>,
    /// What each client that has sent bytes has sent, by client.
    sent: BTreeMap<usize, Sent>,
}

/// What a client has sent.
#[derive(Debug)]
struct Sent {
    /// Whether it speaks the binary protocol, which its first byte decides.
    is_binary: bool,
    /// The beginning of the line or frame that it has not sent completely.
    begun: Vec<u8>,
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
            sent: BTreeMap::new(),
        })
    }

    /// Ends a connection behind its requests. The server executes `quit` after all of them, also
    /// those without a reply. Closing the connection here would not wait for them.
    fn end(&mut self, client: ClientId, is_binary: bool) -> Result<()> {
        let quit = match is_binary {
            true => binary_frame(Opcode::QUIT.0, &[], b"", b""),
            // Behind a line that may be incomplete.
            false => b"\r\nquit\r\n".to_vec(),
        };
        self.peer.send(client, &quit)?;
        loop {
            match self.peer.receive(client)? {
                Received::Bytes(_) => {}
                Received::End => return Ok(()),
                Received::Nothing => bail!("the server does not execute the requests of a case"),
            }
        }
    }

    /// Remembers the keys that a client's requests may name. Words of values are harmless.
    fn remember(&mut self, client: ClientId, bytes: &[u8]) {
        let sent = self.sent.entry(client.0).or_insert_with(|| Sent {
            is_binary: bytes.first() == Some(&REQUEST_MAGIC),
            begun: Vec::new(),
        });
        let begun = &mut sent.begun;
        begun.extend_from_slice(bytes);
        if sent.is_binary {
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

/// Deletes items by lines. Returns whether no key has an item any more.
fn delete(keys: &BTreeSet<String>, address: &Address) -> Result<bool> {
    let mut client = Client::connect(address)?;
    let mut is_all = true;
    for key in keys {
        client.request(&format!("md {key}"))?;
        let reply = client.request(&format!("mg {key}"))?;
        // Words that are not keys are rejected.
        is_all &= reply == "EN" || reply.starts_with("CLIENT_ERROR ");
    }
    Ok(is_all)
}

/// Deletes items by frames. Returns whether no key has an item any more.
fn delete_by_frames(keys: &BTreeSet<Vec<u8>>, address: &Address) -> Result<bool> {
    let mut frames = Vec::new();
    for key in keys {
        frames.extend(binary_frame(DELETE.0, &[], key, b""));
        frames.extend(binary_frame(GET.0, &[], key, b""));
    }
    frames.extend(binary_frame(Opcode::NOOP.0, &[], b"", b""));
    let mut socket = address.connect(TIMEOUT)?;
    socket.write_all(&frames)?;
    let (mut replies, mut buffer) = (Vec::new(), [0; 4096]);
    let mut is_all = true;
    loop {
        match Reply::read(&replies) {
            Ok(Some((reply, len))) => {
                match reply.header.head.opcode {
                    Opcode::NOOP => return Ok(is_all),
                    GET => is_all &= reply.header.status == Status::NotFound as u16,
                    _ => {}
                }
                replies.drain(..len);
            }
            Ok(None) => {
                let len = socket.read(&mut buffer)?;
                ensure!(len > 0, "the server has closed the connection");
                replies.extend_from_slice(&buffer[..len]);
            }
            Err(_) => bail!("{} is no reply", replies.escape_ascii()),
        }
    }
}

impl Peer for PoolPeer {
    fn version(&self) -> &str {
        self.peer.version()
    }

    fn reset(&mut self) -> Result<()> {
        for (client, sent) in std::mem::take(&mut self.sent) {
            self.end(ClientId(client), sent.is_binary)?;
        }
        self.peer.disconnect();
        let deadline = Instant::now() + TIMEOUT;
        // An operation fails if the pool does not complete it in time. It is then repeated.
        while !(delete(&self.keys, &self.address)?
            && delete_by_frames(&self.binary_keys, &self.address)?)
        {
            ensure!(Instant::now() < deadline, "keys cannot be deleted");
        }
        self.keys.clear();
        self.binary_keys.clear();
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

    fn set_patience(&mut self, patience: Duration) {
        self.peer.set_patience(patience);
    }

    fn has_clock(&self) -> bool {
        false
    }

    fn tick(&mut self, seconds: u64) -> Result<()> {
        self.peer.tick(seconds)
    }
}
