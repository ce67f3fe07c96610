//! A node: header, key, value.
//!
//! ```text
//!  0 next          8  │ Next: the only part that changes
//!  8 own           8  │ Link of this node
//! 16 chain         8  │ number of the chain
//! 24 client_flags  4  │ expiry_s 4
//! 32 value_len     4  │ key_len 2 │ kind 1 │ format 1
//! 40 reserved      4  │ crc 4, over 8 to 44, key and value
//! 48 key, value
//! ```

use thiserror::Error;

use crate::limits::{HEADER_LEN, KEY_LEN_MAX, NODE_LEN_MAX, PREFIX_LEN};
use crate::link::{Link, Next};

/// The version of the layout.
const FORMAT: u8 = 1;

/// What a node says of its key.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kind {
    /// The first node of a chain. The key has no value so far.
    Anchor,
    /// The key has this value.
    Value,
    /// The key was deleted.
    Tombstone,
}

impl Kind {
    const fn code(self) -> u8 {
        match self {
            Self::Anchor => 1,
            Self::Value => 2,
            Self::Tombstone => 3,
        }
    }

    const fn from_code(code: u8) -> Option<Self> {
        match code {
            1 => Some(Self::Anchor),
            2 => Some(Self::Value),
            3 => Some(Self::Tombstone),
            _ => None,
        }
    }
}

/// A node of a chain, as a value.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Node<'a> {
    /// What follows it.
    pub next: Next,
    /// The link to this node.
    pub own: Link,
    /// The number of its chain. None is given twice.
    pub chain: u64,
    /// What it says of the key.
    pub kind: Kind,
    /// Opaque flags of a value, for the client.
    pub client_flags: u32,
    /// When the value expires, in seconds of Unix time; 0 means never.
    pub expiry_s: u32,
    /// The key.
    pub key: &'a [u8],
    /// The value; empty in other kinds.
    pub value: &'a [u8],
}

/// Why bytes are no node. Messages continue "failed to read a node: ".
#[derive(Clone, Copy, Debug, PartialEq, Eq, Error)]
pub enum NodeError {
    /// The node is longer than the bytes.
    #[error("it has {len} bytes, of which some are missing")]
    Truncated {
        /// The length of the node in bytes. Not verified by the CRC, but within the bounds.
        len: usize,
    },
    /// A field has no meaning, or lengths are out of bounds.
    #[error("its header is no header of a node")]
    Header,
    /// The CRC is wrong.
    #[error("its CRC is wrong")]
    Crc,
}

/// Length in bytes of a node with a key and a value of these lengths.
pub const fn node_len(key_len: usize, value_len: usize) -> usize {
    HEADER_LEN + key_len + value_len
}

impl<'a> Node<'a> {
    /// Reads the node at the start of `bytes`. Later bytes are ignored.
    ///
    /// # Errors
    /// The bytes are no complete, intact node.
    pub fn parse(bytes: &'a [u8]) -> Result<Self, NodeError> {
        let header = bytes
            .get(..HEADER_LEN)
            .ok_or(NodeError::Truncated { len: HEADER_LEN })?;
        let fields = Header::parse(header).ok_or(NodeError::Header)?;
        let len = fields.node_len();
        let content = bytes
            .get(HEADER_LEN..len)
            .ok_or(NodeError::Truncated { len })?;
        if number(header, 44, 4) != u64::from(crc(header, content)) {
            return Err(NodeError::Crc);
        }
        let (key, value) = content.split_at(fields.key_len);
        Ok(Self {
            next: fields.prefix.next,
            own: fields.prefix.own,
            chain: fields.prefix.chain,
            kind: fields.kind,
            client_flags: fields.client_flags,
            expiry_s: fields.expiry_s,
            key,
            value,
        })
    }

    /// Length in bytes.
    pub fn len(&self) -> usize {
        node_len(self.key.len(), self.value.len())
    }

    /// Whether it has neither key nor value.
    pub fn is_empty(&self) -> bool {
        self.key.is_empty() && self.value.is_empty()
    }

    /// Replaces `bytes` by this node; false, and `bytes` are empty, if the key is longer than
    /// [`KEY_LEN_MAX`] or the node than [`NODE_LEN_MAX`].
    #[must_use]
    pub fn emit(&self, bytes: &mut Vec<u8>) -> bool {
        bytes.clear();
        if self.key.len() > KEY_LEN_MAX || self.len() > NODE_LEN_MAX {
            return false;
        }
        bytes.extend_from_slice(&self.next.word().to_le_bytes());
        bytes.extend_from_slice(&self.own.word().to_le_bytes());
        bytes.extend_from_slice(&self.chain.to_le_bytes());
        bytes.extend_from_slice(&self.client_flags.to_le_bytes());
        bytes.extend_from_slice(&self.expiry_s.to_le_bytes());
        // Both lengths were checked.
        bytes.extend_from_slice(&(self.value.len() as u32).to_le_bytes());
        bytes.extend_from_slice(&(self.key.len() as u16).to_le_bytes());
        bytes.extend_from_slice(&[self.kind.code(), FORMAT]);
        bytes.extend_from_slice(&[0; 8]);
        bytes.extend_from_slice(self.key);
        bytes.extend_from_slice(self.value);
        let (header, content) = bytes.split_at_mut(HEADER_LEN);
        let crc = crc(header, content);
        header[44..48].copy_from_slice(&crc.to_le_bytes());
        true
    }
}

/// The beginning of a node, which says what it is. No CRC protects it by itself.
///
/// A middlebox finds it in the payload of a WRITE, and a client that walks along a chain reads no
/// more than this.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Prefix {
    /// What follows the node.
    pub next: Next,
    /// The link to the node.
    pub own: Link,
    /// The number of its chain.
    pub chain: u64,
}

impl Prefix {
    /// Reads the start of a node; nothing if the bytes are too short, or one of the words has no
    /// meaning. If `next` is empty, it must be so in the node's own generation.
    pub fn parse(bytes: &[u8]) -> Option<Self> {
        let bytes = bytes.get(..PREFIX_LEN)?;
        let next = Next::from_word(number(bytes, 0, 8))?;
        let own = Link::from_word(number(bytes, 8, 8))?;
        let chain = number(bytes, 16, 8);
        let is_torn = matches!(next, Next::Empty { .. }) && next != own.empty();
        (!is_torn && chain != 0).then_some(Self { next, own, chain })
    }
}

/// The header of a node. No CRC protects it without key and value, so it counts only if the node is
/// known to be complete, as those in a chain are.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Header {
    /// Its beginning.
    pub prefix: Prefix,
    /// What the node says of its key.
    pub kind: Kind,
    /// As of [`Node`].
    pub client_flags: u32,
    /// As of [`Node`].
    pub expiry_s: u32,
    /// Length of the key in bytes.
    pub key_len: usize,
    /// Length of the value in bytes.
    pub value_len: usize,
}

impl Header {
    /// Reads the header at the start of `bytes`; nothing if they are too short, a field has no
    /// meaning, or lengths are out of bounds.
    pub fn parse(bytes: &[u8]) -> Option<Self> {
        let bytes = bytes.get(..HEADER_LEN)?;
        let header = Self {
            prefix: Prefix::parse(bytes)?,
            kind: Kind::from_code(bytes[38])?,
            client_flags: number(bytes, 24, 4) as u32,
            expiry_s: number(bytes, 28, 4) as u32,
            key_len: number(bytes, 36, 2) as usize,
            value_len: number(bytes, 32, 4) as usize,
        };
        let is_known = bytes[39] == FORMAT && number(bytes, 40, 4) == 0;
        let has_lens = header.key_len <= KEY_LEN_MAX && header.node_len() <= NODE_LEN_MAX;
        (is_known && has_lens).then_some(header)
    }

    /// Length of the node in bytes.
    pub const fn node_len(&self) -> usize {
        node_len(self.key_len, self.value_len)
    }
}

/// The CRC-32 of Ethernet over all but `next`, and the CRC itself.
fn crc(header: &[u8], content: &[u8]) -> u32 {
    let mut hasher = crc32fast::Hasher::new();
    hasher.update(&header[8..44]);
    hasher.update(content);
    hasher.finalize()
}

/// The little-endian number of at most eight bytes at an offset, all within `bytes`.
fn number(bytes: &[u8], offset: usize, len: usize) -> u64 {
    let mut number = [0; 8];
    number[..len].copy_from_slice(&bytes[offset..offset + len]);
    u64::from_le_bytes(number)
}
