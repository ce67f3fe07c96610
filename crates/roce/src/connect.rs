//! How a client and a server agree on a reliable connection: messages in unreliable datagrams.
//!
//! ```text
//! client ── Connect ──▶ server      the client repeats it until it is answered
//!        ◀── Accept ───             or Refuse
//! ```
//!
//! A client has a number, and numbers its connections (`index`). Each further attempt for the same
//! connection has a higher number than the last one. The server answers a repeated `Connect` as it
//! did before, destroys the old queue pair before it accepts a higher attempt, and ignores lower
//! ones. So no packet of an old connection takes effect after a new one was accepted.
//!
//! `Disconnect` names a client, whose queue pairs are then destroyed, and no new ones accepted.
//!
//! Of InfiniBand's communication management (specification, volume 1, chapter 12) these are the
//! messages REQ, REP, REJ, DREQ and DREP, with what this crate's ends have to know and no more.

use crate::endpoint::Mtu;
use crate::wire::Psn;

/// The queue pair of each host that receives these messages.
pub const QPN: u32 = 2;
/// The key of that queue.
pub const QUEUE_KEY: u32 = 0x8001_0000;
/// Length of every message, in bytes.
pub const MESSAGE_LEN: usize = 28;
/// The version of the messages.
const VERSION: u8 = 1;

/// Which connection a message is about.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Attempt {
    /// The number of the client.
    pub client: u64,
    /// The number of its connection.
    pub index: u16,
    /// The number of the attempt: 1 or more.
    pub attempt: u32,
}

/// The queue pair at the sender of a message.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct QueuePair {
    /// Its number, 24 bits.
    pub qpn: u32,
    /// The first sequence number of requests from it.
    pub first_psn: Psn,
    /// The path MTU.
    pub mtu: Mtu,
}

/// Why a connection is refused.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Reason {
    /// The server has as many queue pairs as it can.
    Full,
    /// The client was disconnected.
    Disconnected,
}

/// A message.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Message {
    /// A client requests a connection (REQ).
    Connect(Attempt, QueuePair),
    /// The server has created a queue pair (REP). Sequence numbers of requests are those that the
    /// client chose; the MTU is that of the connection.
    Accept(Attempt, QueuePair),
    /// The server creates none (REJ).
    Refuse(Attempt, Reason),
    /// All queue pairs of a client are to be destroyed (DREQ).
    Disconnect {
        /// The number of the client.
        client: u64,
    },
    /// They are (DREP).
    Disconnected {
        /// The number of the client.
        client: u64,
    },
}

impl Message {
    /// Reads a message; nothing if the bytes are none.
    pub fn parse(bytes: &[u8]) -> Option<Self> {
        let bytes: &[u8; MESSAGE_LEN] = bytes.try_into().ok()?;
        if bytes[0] != VERSION {
            return None;
        }
        let attempt = Attempt {
            client: number(&bytes[4..12]),
            index: number(&bytes[2..4]) as u16,
            attempt: number(&bytes[12..16]) as u32,
        };
        let queue_pair = || {
            Some(QueuePair {
                qpn: number(&bytes[17..20]) as u32,
                first_psn: Psn::new(number(&bytes[21..24]) as u32),
                mtu: mtu_from_code(bytes[24])?,
            })
        };
        let client = attempt.client;
        match bytes[1] {
            1 => Some(Self::Connect(attempt, queue_pair()?)),
            2 => Some(Self::Accept(attempt, queue_pair()?)),
            3 => {
                let reason = match bytes[24] {
                    1 => Reason::Full,
                    2 => Reason::Disconnected,
                    _ => return None,
                };
                Some(Self::Refuse(attempt, reason))
            }
            4 => Some(Self::Disconnect { client }),
            5 => Some(Self::Disconnected { client }),
            _ => None,
        }
    }

    /// The bytes of the message.
    pub fn emit(&self) -> [u8; MESSAGE_LEN] {
        let mut bytes = [0; MESSAGE_LEN];
        bytes[0] = VERSION;
        let (kind, attempt) = match self {
            Self::Connect(attempt, pair) => {
                emit_pair(pair, &mut bytes);
                (1, *attempt)
            }
            Self::Accept(attempt, pair) => {
                emit_pair(pair, &mut bytes);
                (2, *attempt)
            }
            Self::Refuse(attempt, reason) => {
                bytes[24] = match reason {
                    Reason::Full => 1,
                    Reason::Disconnected => 2,
                };
                (3, *attempt)
            }
            Self::Disconnect { client } => (4, attempt_of(*client)),
            Self::Disconnected { client } => (5, attempt_of(*client)),
        };
        bytes[1] = kind;
        bytes[2..4].copy_from_slice(&attempt.index.to_be_bytes());
        bytes[4..12].copy_from_slice(&attempt.client.to_be_bytes());
        bytes[12..16].copy_from_slice(&attempt.attempt.to_be_bytes());
        bytes
    }
}

fn attempt_of(client: u64) -> Attempt {
    Attempt {
        client,
        index: 0,
        attempt: 0,
    }
}

fn emit_pair(pair: &QueuePair, bytes: &mut [u8; MESSAGE_LEN]) {
    bytes[16..20].copy_from_slice(&(pair.qpn & 0xff_ffff).to_be_bytes());
    bytes[20..24].copy_from_slice(&pair.first_psn.number().to_be_bytes());
    bytes[24] = mtu_code(pair.mtu);
}

/// The specification's codes of the path MTU.
const fn mtu_code(mtu: Mtu) -> u8 {
    match mtu {
        Mtu::Bytes256 => 1,
        Mtu::Bytes512 => 2,
        Mtu::Bytes1024 => 3,
        Mtu::Bytes2048 => 4,
        Mtu::Bytes4096 => 5,
    }
}

const fn mtu_from_code(code: u8) -> Option<Mtu> {
    match code {
        1 => Some(Mtu::Bytes256),
        2 => Some(Mtu::Bytes512),
        3 => Some(Mtu::Bytes1024),
        4 => Some(Mtu::Bytes2048),
        5 => Some(Mtu::Bytes4096),
        _ => None,
    }
}

/// The number in these bytes, most significant first.
fn number(bytes: &[u8]) -> u64 {
    bytes
        .iter()
        .fold(0, |number, byte| (number << 8) | u64::from(*byte))
}
