//! Connections of clients, and what was done with each of their requests.

use std::collections::{HashMap, VecDeque};

use chain::Next;
use rapidhash::fast::RandomState;
use roce::connect::{Attempt, QueuePair};
use roce::wire::{Addresses, Ip, NakCode, Psn};

use crate::frames::Frames;
use crate::limits::{FLOWS_MAX, RECORDS};

/// A queue pair at a host: address (of IPv4 in the low bits) and number.
pub(crate) type Endpoint = (u128, u32);

/// The sender's and the receiver's address.
pub(crate) fn ip_numbers(addresses: &Addresses) -> (u128, u128) {
    let short = |bytes: [u8; 4]| u128::from(u32::from_be_bytes(bytes));
    match &addresses.ip {
        Ip::V4(ip) => (short(ip.source), short(ip.target)),
        Ip::V6(ip) => (
            u128::from_be_bytes(ip.source),
            u128::from_be_bytes(ip.target),
        ),
    }
}

/// Where a request is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum State {
    /// In the connection's queue.
    Held,
    /// On its way, or at the memory node.
    Open,
    /// Answered by the memory node; the client's answer waits for those before.
    Done,
    /// Answered to the client, at least once.
    Answered,
}

/// What a request is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Kind {
    Write,
    /// `is_node`: with the steerable key, so that the response is a node of a chain.
    Read {
        is_node: bool,
    },
    Swap(Swap),
    Add,
}

/// A compare-and-swap.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Swap {
    /// The client's operand.
    pub(crate) compare: u64,
    /// The operand that was sent, and the address.
    pub(crate) expected: u64,
    pub(crate) target: u64,
    /// The word to be stored.
    pub(crate) word: u64,
    /// Index and number of the chain, if it is known; its epoch if the chain counts this as
    /// pending.
    pub(crate) chain: Option<(u32, u64)>,
    pub(crate) epoch: Option<u32>,
    /// It was not steered, and keeps others of its chain from being predicted.
    pub(crate) is_barrier: bool,
    /// It became a WRITE.
    pub(crate) is_converted: bool,
    /// The chain is one of those to be steered.
    pub(crate) is_hot: bool,
}

impl Swap {
    /// Whether it succeeds at tails only. Others move the beginning of a chain.
    pub(crate) fn is_at_tail(&self) -> bool {
        matches!(Next::from_word(self.expected), Some(Next::Empty { .. }))
    }
}

/// A request of a connection.
#[derive(Debug)]
pub(crate) struct Record {
    pub(crate) psn: Psn,
    pub(crate) state: State,
    pub(crate) kind: Kind,
    /// The shared queue pair that it is on.
    pub(crate) shared: u32,
    /// The original value that the client sees.
    pub(crate) original: u64,
    /// A response that waits for earlier ones.
    pub(crate) response: Option<Vec<u8>>,
}

// Decision 022 states the memory that a connection takes.
const _: () = assert!(size_of::<Option<Record>>() <= 120);

/// What the oldest request in a connection's queue waits for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Wait {
    Chain(u32),
    Shared(u32),
}

/// What is agreed at the set-up of a connection.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Agreed {
    pub(crate) attempt: Attempt,
    pub(crate) to_client: Addresses,
    pub(crate) client: Endpoint,
    pub(crate) server: Endpoint,
    /// The queue pair of the memory node, as its reply had it.
    pub(crate) accepted: QueuePair,
    /// Index of the memory node.
    pub(crate) node: u8,
    pub(crate) mtu: u32,
    /// The first sequence number of requests.
    pub(crate) first: Psn,
}

/// A connection of a client.
#[derive(Debug)]
pub(crate) struct Flow {
    pub(crate) agreed: Agreed,
    /// The request that is expected.
    pub(crate) next: Psn,
    /// The oldest one that the client has no answer for.
    pub(crate) answered: Psn,
    records: Vec<Option<Record>>,
    /// Requests that wait, oldest first.
    pub(crate) queue: VecDeque<(Psn, Vec<u8>)>,
    pub(crate) wait: Option<Wait>,
    /// Number of requests on shared queue pairs.
    pub(crate) open: u32,
    /// A negative acknowledgement that is to be sent once everything before it is answered.
    pub(crate) nak: Option<NakCode>,
    /// A NAK for missing requests was sent to the client, or will be.
    pub(crate) is_reported: bool,
    pub(crate) has_failed: bool,
    pub(crate) used_ns: u64,
}

impl Flow {
    /// The message number of the answer to a request: all have one packet.
    pub(crate) fn msn(&self, psn: Psn) -> u32 {
        let count = psn.distance_from(self.agreed.first) + 1;
        count.cast_unsigned() & 0xff_ffff
    }

    fn slot(psn: Psn) -> usize {
        psn.number() as usize % RECORDS
    }

    /// What was done with a request, if that is still known.
    pub(crate) fn record(&mut self, psn: Psn) -> Option<&mut Record> {
        let record = self.records[Self::slot(psn)].as_mut();
        record.filter(|record| record.psn == psn)
    }

    /// Remembers a request.
    pub(crate) fn remember(&mut self, psn: Psn, state: State, kind: Kind, frames: &mut Frames) {
        let slot = &mut self.records[Self::slot(psn)];
        if let Some(response) = slot.take().and_then(|record| record.response) {
            frames.put(response);
        }
        *slot = Some(Record {
            psn,
            state,
            kind,
            shared: 0,
            original: 0,
            response: None,
        });
    }

    /// Drops what waits. Requests on shared queue pairs stay there.
    pub(crate) fn fail(&mut self, frames: &mut Frames) {
        self.has_failed = true;
        self.wait = None;
        for (_, frame) in self.queue.drain(..) {
            frames.put(frame);
        }
        for record in self.records.iter_mut().flatten() {
            if let Some(response) = record.response.take() {
                frames.put(response);
            }
        }
    }

    /// Its compare-and-swap operations without an answer.
    pub(crate) fn open_swaps(&self) -> impl Iterator<Item = Swap> {
        self.records
            .iter()
            .flatten()
            .filter_map(|record| match record.kind {
                Kind::Swap(swap) if record.state == State::Open => Some(swap),
                _ => None,
            })
    }
}

/// All connections, at most [`FLOWS_MAX`].
#[derive(Debug, Default)]
pub(crate) struct Flows {
    flows: Vec<Flow>,
    by_server: HashMap<Endpoint, u32, RandomState>,
    by_client: HashMap<Endpoint, u32, RandomState>,
}

impl Flows {
    pub(crate) fn get(&mut self, index: u32) -> &mut Flow {
        &mut self.flows[index as usize]
    }

    /// The connection whose requests go to this queue pair.
    pub(crate) fn by_server(&self, server: Endpoint) -> Option<u32> {
        self.by_server.get(&server).copied()
    }

    /// The connection whose responses go to this queue pair.
    pub(crate) fn by_client(&self, client: Endpoint) -> Option<u32> {
        self.by_client.get(&client).copied()
    }

    pub(crate) fn iter_mut(&mut self) -> impl Iterator<Item = &mut Flow> {
        self.flows.iter_mut()
    }

    pub(crate) fn len(&self) -> usize {
        self.flows.len()
    }

    /// The connection that a new one would replace: of the same queue pair of the client or the
    /// memory node, or, if there is no space, the idle one that was not used for the longest time.
    /// `Err` if there is no space and none is idle.
    pub(crate) fn replaced(&self, new: &Agreed) -> Result<Option<u32>, ()> {
        if let Some(index) = self.by_client(new.client) {
            return Ok(Some(index));
        }
        if let Some(index) = self.by_server(new.server) {
            return Ok(Some(index));
        }
        if self.flows.len() < FLOWS_MAX {
            return Ok(None);
        }
        let idle = (0..)
            .zip(&self.flows)
            .filter(|(_, flow)| flow.open == 0 && flow.queue.is_empty())
            .min_by_key(|(_, flow)| (!flow.has_failed, flow.used_ns));
        idle.map(|(index, _)| Some(index)).ok_or(())
    }

    /// Adds a connection, under the index of `replaced` if there is one. Nothing may be on its way
    /// of that one any more.
    pub(crate) fn insert(
        &mut self,
        now_ns: u64,
        new: Agreed,
        replaced: Option<u32>,
        frames: &mut Frames,
    ) -> u32 {
        let flow = Flow {
            agreed: new,
            next: new.first,
            answered: new.first,
            records: (0..RECORDS).map(|_| None).collect(),
            queue: VecDeque::new(),
            wait: None,
            open: 0,
            nak: None,
            is_reported: false,
            has_failed: false,
            used_ns: now_ns,
        };
        let index = match replaced {
            Some(index) => {
                let old = &mut self.flows[index as usize];
                old.fail(frames);
                let Agreed { client, server, .. } = old.agreed;
                // Another connection may have come to one of them since.
                if self.by_client.get(&client) == Some(&index) {
                    self.by_client.remove(&client);
                }
                if self.by_server.get(&server) == Some(&index) {
                    self.by_server.remove(&server);
                }
                *old = flow;
                index
            }
            None => {
                self.flows.push(flow);
                self.flows.len() as u32 - 1
            }
        };
        self.by_client.insert(new.client, index);
        self.by_server.insert(new.server, index);
        index
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use roce::endpoint::Mtu;
    use roce::wire::{Ethernet, Ipv4};

    #[test]
    fn a_replaced_connection_leaves_the_queue_pair_that_another_has_taken_over() {
        let new = |client: u32, server: u32| Agreed {
            attempt: Attempt {
                client: client.into(),
                index: 0,
                attempt: 1,
            },
            to_client: Addresses {
                ethernet: Ethernet {
                    source: [2; 6],
                    target: [4; 6],
                },
                ip: Ip::V4(Ipv4::between([10, 0, 0, 1], [10, 0, 0, 2])),
                udp_source: 0xc000,
            },
            client: (1, client),
            server: (2, server),
            accepted: QueuePair {
                qpn: server,
                first_psn: Psn::default(),
                mtu: Mtu::Bytes1024,
            },
            node: 0,
            mtu: 1024,
            first: Psn::default(),
        };
        let (mut flows, mut frames) = (Flows::default(), Frames::default());
        let mut insert = |flows: &mut Flows, new: Agreed| {
            let replaced = flows.replaced(&new).unwrap();
            flows.insert(0, new, replaced, &mut frames)
        };
        insert(&mut flows, new(10, 20));
        insert(&mut flows, new(11, 21));
        // Client 10 gets the memory node's queue pair 21, and client 11 another.
        assert_eq!(insert(&mut flows, new(10, 21)), 0);
        assert_eq!(insert(&mut flows, new(11, 22)), 1);
        assert_eq!(flows.by_server((2, 21)), Some(0));
        assert_eq!(flows.by_server((2, 22)), Some(1));
    }
}
