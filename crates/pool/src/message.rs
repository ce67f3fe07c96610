//! What clients and the metadata service say to each other, in unreliable datagrams.
//!
//! A client has one request at a time unanswered, and repeats it. Requests are numbered, so a
//! repeated one has the same answer and no further effect.

use chain::Link;
use chain::limits::KEY_LEN_MAX;

use crate::limits::{MESSAGE_EDGES_MAX, MESSAGE_FREED_MAX};
use crate::station::Station;

/// The queue pair of each host that receives these messages.
pub const QPN: u32 = 3;
/// The key of that queue.
pub const QUEUE_KEY: u32 = 0x8001_0001;
const VERSION: u8 = 3;

/// In this chain, `new` was linked after `old`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Edge {
    /// The chain.
    pub chain: u64,
    /// The node that is not the last one any more; nothing if a middlebox may have chosen it.
    pub old: Option<Link>,
    /// Its successor.
    pub new: Link,
}

/// From a client.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Request {
    /// The number of the client; 0 before it has one.
    pub client: u64,
    /// The number of the service that has replied last; 0 before one has.
    pub service: u64,
    /// Increases by one with each request; of `Register`, a random number.
    pub sequence: u64,
    /// All operations that began before the client learnt of this epoch are complete.
    pub quiescent: u64,
    /// Unix time by the client's clock when it made the request, in seconds.
    pub unix_s: u64,
    /// What the client has linked.
    pub edges: Vec<Edge>,
    /// What the client needs to know.
    pub question: Question,
}

/// What a client needs to know.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Question {
    /// Nothing: the request renews the lease.
    Nothing,
    /// A number.
    Register,
    /// The chain of a key.
    Lookup {
        /// The key.
        key: Vec<u8>,
        /// Make a chain if there is none.
        create: bool,
        /// The chain of the key that the client has found closed.
        closed: Option<u64>,
    },
    /// A slab with slots of this length.
    Slab {
        /// Length of its slots in bytes.
        slot_len: u32,
    },
    /// The client ends, and has no operation that is not complete.
    Leave,
}

/// From the metadata service.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Reply {
    /// The number of the client; 0 for one that has none.
    pub client: u64,
    /// That of the request.
    pub sequence: u64,
    /// The number of the service. Services that begin later have larger ones.
    pub service: u64,
    /// The present epoch.
    pub epoch: u64,
    /// For how long the client's memory is its own, from the time it sent the request.
    pub lease_ns: u64,
    /// Nodes whose slots the client may use again.
    pub freed: Vec<Link>,
    /// The answer.
    pub answer: Answer,
}

/// An answer.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Answer {
    /// To `Nothing` and `Leave`.
    Nothing,
    /// To `Register`.
    Registered {
        /// The number of the client.
        client: u64,
        /// The memory node.
        node: Station,
        /// Length of a slab in bytes.
        slab_len: u32,
    },
    /// To `Lookup`.
    Chain {
        /// The number of the chain.
        chain: u64,
        /// Its first node.
        anchor: Link,
        /// A node at or near its end.
        tail: Link,
    },
    /// To `Lookup`: the key has no chain.
    Absent,
    /// To `Slab`.
    Slab {
        /// Address of the slab.
        address: u64,
        /// Length of its slots in bytes.
        slot_len: u32,
        /// Its slots were never used. Otherwise they are given later, as freed ones.
        is_fresh: bool,
    },
    /// There is no memory, or no number, for what was requested.
    Full,
    /// The lease has ended. The client needs a new number.
    Expired,
}

struct Writer(Vec<u8>);

impl Writer {
    fn u8(&mut self, value: u8) {
        self.0.push(value);
    }
    fn u16(&mut self, value: u16) {
        self.0.extend_from_slice(&value.to_be_bytes());
    }
    fn u32(&mut self, value: u32) {
        self.0.extend_from_slice(&value.to_be_bytes());
    }
    fn u64(&mut self, value: u64) {
        self.0.extend_from_slice(&value.to_be_bytes());
    }
}

struct Reader<'a>(&'a [u8]);

impl Reader<'_> {
    fn array<const LEN: usize>(&mut self) -> Option<[u8; LEN]> {
        let (array, rest) = self.0.split_first_chunk()?;
        self.0 = rest;
        Some(*array)
    }
    fn u8(&mut self) -> Option<u8> {
        self.array().map(u8::from_be_bytes)
    }
    fn u16(&mut self) -> Option<u16> {
        self.array().map(u16::from_be_bytes)
    }
    fn u32(&mut self) -> Option<u32> {
        self.array().map(u32::from_be_bytes)
    }
    fn u64(&mut self) -> Option<u64> {
        self.array().map(u64::from_be_bytes)
    }
    fn link(&mut self) -> Option<Link> {
        Link::from_word(self.u64()?)
    }
    fn bytes(&mut self, len: usize) -> Option<Vec<u8>> {
        let (bytes, rest) = self.0.split_at_checked(len)?;
        self.0 = rest;
        Some(bytes.to_vec())
    }
    fn end(&self) -> Option<()> {
        self.0.is_empty().then_some(())
    }
}

impl Request {
    /// The bytes. Edges beyond [`MESSAGE_EDGES_MAX`] and bytes of a key beyond the longest one are
    /// left out.
    pub fn emit(&self) -> Vec<u8> {
        let mut writer = Writer(Vec::with_capacity(128));
        writer.u8(VERSION);
        writer.u8(1);
        writer.u64(self.client);
        writer.u64(self.service);
        writer.u64(self.sequence);
        writer.u64(self.quiescent);
        writer.u64(self.unix_s);
        let edges = &self.edges[..self.edges.len().min(MESSAGE_EDGES_MAX)];
        writer.u8(edges.len() as u8);
        for edge in edges {
            writer.u64(edge.chain);
            writer.u64(edge.old.map_or(0, Link::word));
            writer.u64(edge.new.word());
        }
        match &self.question {
            Question::Nothing => writer.u8(0),
            Question::Register => writer.u8(1),
            Question::Lookup {
                key,
                create,
                closed,
            } => {
                writer.u8(2);
                writer.u8(u8::from(*create));
                // Chains are numbered from 1.
                writer.u64(closed.unwrap_or(0));
                let key = &key[..key.len().min(KEY_LEN_MAX)];
                writer.u8(key.len() as u8);
                writer.0.extend_from_slice(key);
            }
            Question::Slab { slot_len } => {
                writer.u8(3);
                writer.u32(*slot_len);
            }
            Question::Leave => writer.u8(4),
        }
        writer.0
    }

    /// Reads a request; nothing if the bytes are none.
    pub fn parse(bytes: &[u8]) -> Option<Self> {
        let mut reader = Reader(bytes);
        if (reader.u8()?, reader.u8()?) != (VERSION, 1) {
            return None;
        }
        let (client, service, sequence) = (reader.u64()?, reader.u64()?, reader.u64()?);
        let (quiescent, unix_s) = (reader.u64()?, reader.u64()?);
        let count = usize::from(reader.u8()?);
        if count > MESSAGE_EDGES_MAX {
            return None;
        }
        let mut edges = Vec::with_capacity(count);
        for _ in 0..count {
            edges.push(Edge {
                chain: reader.u64()?,
                old: match reader.u64()? {
                    0 => None,
                    word => Some(Link::from_word(word)?),
                },
                new: reader.link()?,
            });
        }
        let question = match reader.u8()? {
            0 => Question::Nothing,
            1 => Question::Register,
            2 => {
                let create = reader.u8()? != 0;
                let closed = Some(reader.u64()?).filter(|chain| *chain != 0);
                let len = usize::from(reader.u8()?);
                let key = reader.bytes(len)?;
                if len > KEY_LEN_MAX {
                    return None;
                }
                Question::Lookup {
                    key,
                    create,
                    closed,
                }
            }
            3 => Question::Slab {
                slot_len: reader.u32()?,
            },
            4 => Question::Leave,
            _ => return None,
        };
        reader.end()?;
        Some(Self {
            client,
            service,
            sequence,
            quiescent,
            unix_s,
            edges,
            question,
        })
    }
}

impl Reply {
    /// The bytes. Links beyond [`MESSAGE_FREED_MAX`] are left out.
    pub fn emit(&self) -> Vec<u8> {
        let mut writer = Writer(Vec::with_capacity(128));
        writer.u8(VERSION);
        writer.u8(2);
        writer.u64(self.client);
        writer.u64(self.sequence);
        writer.u64(self.service);
        writer.u64(self.epoch);
        writer.u64(self.lease_ns);
        let freed = &self.freed[..self.freed.len().min(MESSAGE_FREED_MAX)];
        writer.u8(freed.len() as u8);
        for link in freed {
            writer.u64(link.word());
        }
        match &self.answer {
            Answer::Nothing => writer.u8(0),
            Answer::Registered {
                client,
                node,
                slab_len,
            } => {
                writer.u8(1);
                writer.u64(*client);
                writer.0.extend_from_slice(&node.mac);
                writer.0.extend_from_slice(&node.ip);
                writer.u16(node.udp_source);
                writer.u32(*slab_len);
            }
            Answer::Chain {
                chain,
                anchor,
                tail,
            } => {
                writer.u8(2);
                writer.u64(*chain);
                writer.u64(anchor.word());
                writer.u64(tail.word());
            }
            Answer::Absent => writer.u8(3),
            Answer::Slab {
                address,
                slot_len,
                is_fresh,
            } => {
                writer.u8(4);
                writer.u64(*address);
                writer.u32(*slot_len);
                writer.u8(u8::from(*is_fresh));
            }
            Answer::Full => writer.u8(5),
            Answer::Expired => writer.u8(6),
        }
        writer.0
    }

    /// Reads a reply; nothing if the bytes are none.
    pub fn parse(bytes: &[u8]) -> Option<Self> {
        let mut reader = Reader(bytes);
        if (reader.u8()?, reader.u8()?) != (VERSION, 2) {
            return None;
        }
        let (client, sequence, service) = (reader.u64()?, reader.u64()?, reader.u64()?);
        let (epoch, lease_ns) = (reader.u64()?, reader.u64()?);
        let count = usize::from(reader.u8()?);
        if count > MESSAGE_FREED_MAX {
            return None;
        }
        let mut freed = Vec::with_capacity(count);
        for _ in 0..count {
            freed.push(reader.link()?);
        }
        let answer = match reader.u8()? {
            0 => Answer::Nothing,
            1 => Answer::Registered {
                client: reader.u64()?,
                node: Station {
                    mac: reader.array()?,
                    ip: reader.array()?,
                    udp_source: reader.u16()?,
                },
                slab_len: reader.u32()?,
            },
            2 => Answer::Chain {
                chain: reader.u64()?,
                anchor: reader.link()?,
                tail: reader.link()?,
            },
            3 => Answer::Absent,
            4 => Answer::Slab {
                address: reader.u64()?,
                slot_len: reader.u32()?,
                is_fresh: reader.u8()? != 0,
            },
            5 => Answer::Full,
            6 => Answer::Expired,
            _ => return None,
        };
        reader.end()?;
        Some(Self {
            client,
            sequence,
            service,
            epoch,
            lease_ns,
            freed,
            answer,
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn link(number: u64) -> Link {
        Link::new(number * 8, 3).expect("a link")
    }

    #[test]
    fn requests_and_replies_survive_a_round_trip() {
        let questions = [
            Question::Nothing,
            Question::Register,
            Question::Lookup {
                key: vec![7; KEY_LEN_MAX],
                create: true,
                closed: Some(u64::MAX),
            },
            Question::Lookup {
                key: vec![7],
                create: false,
                closed: None,
            },
            Question::Slab { slot_len: 640 },
            Question::Leave,
        ];
        for (count, question) in questions.into_iter().enumerate() {
            let edge = |number| Edge {
                chain: number,
                old: (number % 3 != 0).then(|| link(number)),
                new: link(number + 1),
            };
            let request = Request {
                client: 5,
                service: 1 << 40,
                sequence: u64::MAX,
                quiescent: 9,
                unix_s: 1_700_000_000,
                edges: (1..=count as u64 * 6).map(edge).collect(),
                question,
            };
            let bytes = request.emit();
            assert!(bytes.len() <= crate::limits::MESSAGE_LEN_MAX);
            assert_eq!(Request::parse(&bytes), Some(request));
            for cut in 0..bytes.len() {
                assert_eq!(Request::parse(&bytes[..cut]), None);
            }
            assert_eq!(Reply::parse(&bytes), None);
        }
        let answers = [
            Answer::Nothing,
            Answer::Registered {
                client: 17,
                node: Station::of_ip([10, 0, 0, 1], 4791),
                slab_len: 65_536,
            },
            Answer::Chain {
                chain: 3,
                anchor: link(1),
                tail: link(2),
            },
            Answer::Absent,
            Answer::Slab {
                address: 4096,
                slot_len: 64,
                is_fresh: true,
            },
            Answer::Full,
            Answer::Expired,
        ];
        for (count, answer) in answers.into_iter().enumerate() {
            let reply = Reply {
                client: 5,
                sequence: 6,
                service: 9,
                epoch: 7,
                lease_ns: 8,
                freed: (1..=count as u64 * 20).map(link).collect(),
                answer,
            };
            let bytes = reply.emit();
            assert!(bytes.len() <= crate::limits::MESSAGE_LEN_MAX);
            assert_eq!(Reply::parse(&bytes), Some(reply));
            for cut in 0..bytes.len() {
                assert_eq!(Reply::parse(&bytes[..cut]), None);
            }
        }
    }
}
