//! Connection set-up, seen in passing.

use roce::connect::{self, Attempt, Message, QueuePair};
use roce::limits::MTU_MAX;
use roce::wire::{Datagram, PacketError};

use crate::flows::{Agreed, ip_numbers};
use crate::limits::{FLOWS_MAX, NODES_MAX};
use crate::middlebox::{Emit, Middlebox, Side};
use crate::shared::MemoryNode;
use crate::shared_pairs::SHARED_CLIENTS;

impl Middlebox {
    /// Takes a frame that is no packet of a connection: perhaps one that opens or closes one.
    pub(crate) fn setup(&mut self, now_ns: u64, from: Side, frame: &mut [u8], emit: Emit) {
        let is_passed = match Datagram::parse(frame) {
            Ok(datagram) if datagram.qpn == connect::QPN => {
                let message = Message::parse(datagram.payload);
                match (from, message) {
                    (Side::Client, Some(Message::Connect(attempt, client))) => {
                        self.pass_connect(now_ns, &datagram, attempt, client, emit)
                    }
                    (Side::Memory, Some(Message::Accept(attempt, server))) => {
                        self.pass_accept(now_ns, &datagram, attempt, server, emit)
                    }
                    (Side::Client, Some(Message::Disconnect { client })) => {
                        let (_, target) = ip_numbers(&datagram.addresses);
                        let is_client = |attempt: &Attempt| attempt.client == client;
                        let is_settled = self.end_flows(now_ns, target, is_client, emit);
                        is_settled && !self.is_unsettled(target)
                    }
                    (Side::Memory, Some(Message::Refuse(attempt, _)))
                        if attempt.client >= SHARED_CLIENTS =>
                    {
                        if let Some(node) = self.node_of_reply(&datagram, &attempt) {
                            self.refuse_shared(now_ns, node, &attempt, emit);
                        }
                        false
                    }
                    _ => true,
                }
            }
            Err(PacketError::Icrc | PacketError::IpChecksum) => {
                self.counters.corrupted += 1;
                return;
            }
            _ => {
                self.counters.foreign += 1;
                true
            }
        };
        if is_passed {
            self.counters.sent += 1;
            emit(from.other(), frame);
        }
    }

    /// The index of a memory node, which is added if there is space.
    fn enter_node(&mut self, ip: u128) -> Option<u8> {
        if let Some(index) = self.nodes.iter().position(|node| node.ip == ip) {
            return Some(index as u8);
        }
        if self.nodes.len() == NODES_MAX {
            return None;
        }
        self.nodes.push(MemoryNode {
            ip,
            pairs: Vec::new(),
            is_fenced: false,
            mtu: MTU_MAX as u32,
            turn: 0,
        });
        Some(self.nodes.len() as u8 - 1)
    }

    /// Whether packets that were sent on a shared queue pair before it died may still take effect
    /// at this memory node. The connections of their owners have none open any more.
    fn is_unsettled(&self, ip: u128) -> bool {
        let node = self.nodes.iter().find(|node| node.ip == ip);
        node.is_some_and(|node| node.unsettled().is_some())
    }

    /// Whether a request to connect may pass.
    fn pass_connect(
        &mut self,
        now_ns: u64,
        datagram: &Datagram,
        attempt: Attempt,
        client: QueuePair,
        emit: Emit,
    ) -> bool {
        let (_, target) = ip_numbers(&datagram.addresses);
        if attempt.client >= SHARED_CLIENTS {
            self.counters.setups_ignored += 1;
            return false;
        }
        let is_older = |known: &Attempt| {
            known.client == attempt.client
                && known.index == attempt.index
                && known.attempt > attempt.attempt
        };
        let newer = self
            .flows
            .iter_mut()
            .find(|flow| flow.agreed.server.0 == target && is_older(&flow.agreed.attempt))
            .map(|flow| flow.agreed);
        if let Some(known) = newer {
            // A client that was started again has to know, perhaps at another address. The memory
            // node would say the same to any sender.
            self.counters.setups_ignored += 1;
            let message = Message::Accept(known.attempt, known.accepted);
            let to_client = datagram.addresses.reversed();
            self.send_message(to_client, &message, Side::Client, emit);
            return false;
        }
        let is_settled = self.end_flows(
            now_ns,
            target,
            |known| {
                known.client == attempt.client
                    && known.index == attempt.index
                    && known.attempt < attempt.attempt
            },
            emit,
        );
        if !is_settled {
            return false;
        }
        if self.config.switches.mapping {
            let Some(node) = self.enter_node(target) else {
                self.counters.setups_ignored += 1;
                return false;
            };
            self.open_pairs(now_ns, node, datagram, emit);
        }
        // Those with other attempts stay: a late repetition of an earlier one may follow.
        self.connects
            .retain(|(known, _, node)| (*known, *node) != (attempt, target));
        if self.connects.len() == FLOWS_MAX {
            self.connects.pop_front();
        }
        self.connects.push_back((attempt, client, target));
        true
    }

    /// Ends the connections to a memory node for which `is_old`. False if some of their operations
    /// are not settled; these connections remain known until they are.
    fn end_flows(
        &mut self,
        now_ns: u64,
        node_ip: u128,
        is_old: impl Fn(&Attempt) -> bool,
        emit: Emit,
    ) -> bool {
        let mut swaps = Vec::new();
        let mut open = 0;
        for flow in self.flows.iter_mut() {
            if flow.agreed.server.0 == node_ip && is_old(&flow.agreed.attempt) {
                if !flow.has_failed && !self.config.switches.mapping {
                    swaps.extend(flow.open_swaps());
                }
                if !flow.has_failed {
                    flow.fail(&mut self.frames);
                }
                open += flow.open;
            }
        }
        // Without mapping, the answers to these do not come through here any more.
        for swap in swaps {
            let Some((index, id)) = swap.chain else {
                continue;
            };
            let is_known = self.chains.checked(index, id).is_some();
            if is_known && swap.epoch == Some(self.chains.get(index).epoch) {
                self.chains.get(index).give_up();
                self.wake_chain(now_ns, index, emit);
            }
        }
        let is_settled = open == 0 || self.config.faults.connects_at_once;
        self.counters.connects_delayed += u64::from(!is_settled);
        is_settled
    }

    /// The memory node that replies to a request to connect of this middlebox.
    fn node_of_reply(&self, datagram: &Datagram, attempt: &Attempt) -> Option<u8> {
        let (source, _) = ip_numbers(&datagram.addresses);
        let is_ours = attempt.client & 0xffff_ffff == u64::from(self.config.shard.index);
        let node = self.nodes.iter().position(|node| node.ip == source);
        node.filter(|_| is_ours).map(|node| node as u8)
    }

    /// Whether the reply to a request to connect may pass.
    fn pass_accept(
        &mut self,
        now_ns: u64,
        datagram: &Datagram,
        attempt: Attempt,
        server: QueuePair,
        emit: Emit,
    ) -> bool {
        let (source, target) = ip_numbers(&datagram.addresses);
        if attempt.client >= SHARED_CLIENTS {
            if let Some(node) = self.node_of_reply(datagram, &attempt) {
                self.accept_shared(now_ns, node, &attempt, &server, emit);
            }
            return false;
        }
        let connects = self.connects.iter().filter(|(known, _, node)| {
            (known.client, known.index, *node) == (attempt.client, attempt.index, source)
                && known.attempt <= attempt.attempt
        });
        let connect = connects.max_by_key(|(known, ..)| known.attempt);
        let Some((known, client, _)) = connect.copied() else {
            self.counters.replies_dropped += 1;
            return false;
        };
        let Some(node) = self.enter_node(source) else {
            self.counters.replies_dropped += 1;
            return false;
        };
        let is_fenced = self.nodes[usize::from(node)].is_fenced && !self.is_unsettled(source);
        if self.config.switches.mapping && !is_fenced {
            self.counters.replies_dropped += 1;
            return false;
        }
        if known != attempt {
            // The client was started again, and learns from which number on it has to connect.
            return true;
        }
        let new = Agreed {
            attempt,
            to_client: datagram.addresses,
            client: (target, client.qpn),
            server: (source, server.qpn),
            accepted: server,
            node,
            mtu: client.mtu.bytes().min(server.mtu.bytes()) as u32,
            first: client.first_psn,
        };
        self.enter_flow(now_ns, new, emit)
    }

    /// Adds a connection, unless it is known; false if there is no space.
    fn enter_flow(&mut self, now_ns: u64, new: Agreed, emit: Emit) -> bool {
        let replaced = self.flows.replaced(&new);
        if let Ok(Some(index)) = replaced {
            let old = self.flows.get(index).agreed;
            if old.attempt == new.attempt && old.server == new.server {
                // A repeated reply.
                return true;
            }
            let is_eviction = old.client != new.client && old.server != new.server;
            let is_old = |attempt: &Attempt| *attempt == old.attempt;
            if !self.end_flows(now_ns, old.server.0, is_old, emit) {
                self.counters.replies_dropped += 1;
                return false;
            }
            self.counters.flows_evicted += u64::from(is_eviction);
        }
        let Ok(replaced) = replaced else {
            self.counters.replies_dropped += 1;
            return false;
        };
        self.flows.insert(now_ns, new, replaced, &mut self.frames);
        self.counters.connected += 1;
        true
    }
}
