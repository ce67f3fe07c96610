//! Requests with mapping: each is checked, remembered, given a slot of a shared queue pair, and
//! sent there.

use roce::limits::READS_MAX;
use roce::wire::{NakCode, Opcode, Packet, Psn};

use crate::answers::redirect;
use crate::flows::{Kind, State, Wait};
use crate::limits::{FRAMES_MAX, WINDOW};
use crate::middlebox::{Emit, Middlebox, Side, View};
use crate::shared::Slot;
use crate::steering::Steered;

impl Middlebox {
    pub(crate) fn request_mapped(&mut self, now_ns: u64, index: u32, packet: &View, emit: Emit) {
        let psn = packet.psn();
        let flow = self.flows.get(index);
        if flow.has_failed {
            let answered = flow.answered;
            self.refuse(index, answered, NakCode::RemoteOperation, emit);
            return;
        }
        let distance = psn.distance_from(flow.next);
        if distance < 0 {
            self.repeat(now_ns, index, packet, emit);
        } else if distance > 0 {
            self.counters.out_of_sequence += 1;
            if !flow.is_reported && flow.nak.is_none() {
                flow.is_reported = true;
                flow.nak = Some(NakCode::PsnSequence);
                // An acknowledgement of what is before would be wrong if that is not executed.
                if flow.answered == flow.next {
                    self.flush(index, emit);
                }
            }
        } else if !matches!(flow.nak, None | Some(NakCode::PsnSequence)) {
            // It was refused before. The refusal waits until everything before it is answered.
            self.counters.out_of_sequence += 1;
        } else {
            self.accept(now_ns, index, packet, emit);
        }
    }

    /// Takes the expected request.
    fn accept(&mut self, now_ns: u64, index: u32, packet: &View, emit: Emit) {
        let psn = packet.psn();
        let flow = self.flows.get(index);
        let node = &self.nodes[usize::from(flow.agreed.node)];
        let mtu = flow.agreed.mtu.min(node.mtu);
        if !node.is_fenced {
            self.counters.not_ready += 1;
            return;
        }
        if flow.next.distance_from(flow.answered) >= WINDOW.cast_signed() {
            self.counters.out_of_sequence += 1;
            return;
        }
        if let Some(code) = self.objection(packet, mtu) {
            self.counters.refused += 1;
            let flow = self.flows.get(index);
            flow.nak = Some(code);
            if flow.answered == flow.next {
                self.flush(index, emit);
            }
            return;
        }
        if self.frames.used() >= FRAMES_MAX {
            self.counters.no_frame += 1;
            return;
        }
        let kind = match packet.opcode() {
            Opcode::ReadRequest => Kind::Read { is_node: false },
            Opcode::WriteOnly => Kind::Write,
            // Until it is sent, an atomic operation is no more than that.
            _ => Kind::Add,
        };
        self.counters.swaps += u64::from(packet.opcode() == Opcode::CompareSwap);
        let flow = self.flows.get(index);
        flow.next = psn.plus(1);
        flow.is_reported = false;
        flow.nak = None;
        flow.remember(psn, State::Held, kind, &mut self.frames);
        let Some(copy) = self.frames.copy(packet.frame()) else {
            return;
        };
        let flow = self.flows.get(index);
        if !flow.queue.is_empty() {
            flow.queue.push_back((psn, copy));
        } else if let Err((wait, copy)) = self.dispatch_mapped(now_ns, index, psn, copy, emit) {
            self.flows.get(index).queue.push_back((psn, copy));
            self.wait_for(now_ns, index, wait);
        }
    }

    /// Why a request must not reach a shared queue pair, which its failure would destroy.
    fn objection(&self, packet: &View, mtu: u32) -> Option<NakCode> {
        let keys = self.config.keys;
        let (address, key, len) = match (packet.opcode(), packet.reth(), packet.atomic_eth()) {
            (Opcode::WriteOnly, Some(reth), _) => {
                let len = packet.payload().len();
                if reth.len as usize != len || len > mtu as usize {
                    return Some(NakCode::InvalidRequest);
                }
                let is_node = reth.key == keys.steerable;
                let prefix = chain::Prefix::parse(packet.payload()).filter(|_| is_node);
                if prefix.is_some_and(|prefix| !self.config.shard.has(prefix.chain)) {
                    return Some(NakCode::InvalidRequest);
                }
                (reth.address, reth.key, reth.len)
            }
            (Opcode::ReadRequest, Some(reth), _) if reth.len <= mtu => {
                (reth.address, reth.key, reth.len)
            }
            (Opcode::CompareSwap | Opcode::FetchAdd, _, Some(atomic)) => {
                // An addition would change a tail unnoticed.
                let is_add = packet.opcode() == Opcode::FetchAdd;
                let is_steerable = atomic.key == keys.steerable;
                if !atomic.address.is_multiple_of(8) || (is_add && is_steerable) {
                    return Some(NakCode::InvalidRequest);
                }
                (atomic.address, atomic.key, 8)
            }
            _ => return Some(NakCode::InvalidRequest),
        };
        let has_key = key == keys.steerable || key == keys.exact;
        let is_inside = self.is_in_memory(address, len.into());
        (!has_key || !is_inside).then_some(NakCode::RemoteAccess)
    }

    /// Handles a request that came before.
    fn repeat(&mut self, now_ns: u64, index: u32, packet: &View, emit: Emit) {
        let psn = packet.psn();
        let flow = self.flows.get(index);
        let node = flow.agreed.node;
        let mtu = flow.agreed.mtu.min(self.nodes[usize::from(node)].mtu);
        let Some(record) = flow.record(psn) else {
            self.counters.stale += 1;
            return;
        };
        self.counters.retransmitted += 1;
        match (record.state, record.kind) {
            (State::Held | State::Done, _) => {}
            (State::Open, _) => {
                let pair = record.shared;
                let moved_ns = self.nodes[usize::from(node)].pairs[pair as usize].moved_ns;
                if now_ns >= moved_ns.saturating_add(self.config.resend_ns / 2) {
                    self.go_back(now_ns, node, pair, emit);
                }
            }
            (State::Answered, Kind::Read { .. }) => {
                // Executed again, as by any memory node.
                if self.objection(packet, mtu).is_none()
                    && packet.opcode() == Opcode::ReadRequest
                    && let Some(copy) = self.frames.copy(packet.frame())
                    && let Err((_, copy)) = self.dispatch_mapped(now_ns, index, psn, copy, emit)
                {
                    self.frames.put(copy);
                }
            }
            (State::Answered, _) => self.answer(index, psn, emit),
        }
    }

    /// Sends a request on a shared queue pair; gives it back if it has to wait.
    pub(crate) fn dispatch_mapped(
        &mut self,
        now_ns: u64,
        index: u32,
        psn: Psn,
        mut frame: Vec<u8>,
        emit: Emit,
    ) -> Result<(), (Wait, Vec<u8>)> {
        let node = self.flows.get(index).agreed.node;
        let Ok(mut packet) = Packet::new_checked(frame.as_mut_slice()) else {
            self.frames.put(frame);
            return Ok(());
        };
        let opcode = packet.opcode();
        let mut kind = Kind::Write;
        let mut chain = None;
        let mut has_response = true;
        let mut address = None;
        match (opcode, packet.reth(), packet.atomic_eth()) {
            (Opcode::WriteOnly, Some(reth), _) => {
                chain = self.learn_node(node, &reth, packet.payload());
                has_response = false;
            }
            (Opcode::ReadRequest, Some(reth), _) => {
                let (read_chain, to) = self.steer_read(node, &reth);
                chain = read_chain;
                address = Some(to).filter(|to| *to != reth.address);
                let is_node = reth.key == self.config.keys.steerable;
                kind = Kind::Read { is_node };
            }
            (Opcode::CompareSwap, _, Some(atomic)) => {
                if let Some(pair) = self.nodes[usize::from(node)].unsettled() {
                    return Err((Wait::Shared(pair), frame));
                }
                chain = self.chain_of_swap(node, &atomic);
            }
            _ => kind = Kind::Add,
        }
        let pair = self.pair_of(index, node, chain);
        if !self.nodes[usize::from(node)].pairs[pair as usize].has_space(has_response, READS_MAX) {
            return Err((Wait::Shared(pair), frame));
        }
        if let Some(atomic) = packet.atomic_eth().filter(|_| kind == Kind::Write) {
            let swap = match self.steer_swap(now_ns, node, chain, &atomic) {
                Steered::Held(chain) => return Err((Wait::Chain(chain), frame)),
                Steered::Sent(swap) => swap,
            };
            redirect(&mut packet, &swap);
            has_response = !swap.is_converted;
            kind = Kind::Swap(swap);
        }
        if let Some(address) = address {
            packet.set_address(address);
        }
        let shared = &self.nodes[usize::from(node)].pairs[pair as usize];
        let (to_server, qpn, shared_psn) = (shared.to_server, shared.server_qpn, shared.next);
        match kind {
            Kind::Swap(swap) if swap.is_converted => {
                self.write_converted(to_server, qpn, shared_psn, &swap, &mut frame);
            }
            _ => {
                packet.set_route(&to_server, qpn, shared_psn);
            }
        }
        let flow = self.flows.get(index);
        flow.open += 1;
        if let Some(record) = flow.record(psn) {
            record.state = State::Open;
            record.kind = kind;
            record.shared = pair;
        }
        self.counters.sent += 1;
        emit(Side::Memory, &frame);
        let slot = Slot {
            flow: index,
            psn,
            frame,
            opcode,
            has_response,
        };
        self.push_shared(now_ns, node, pair, slot);
        Ok(())
    }

    /// The shared queue pair of a chain, or of a connection's other requests.
    fn pair_of(&mut self, index: u32, node: u8, chain: Option<u32>) -> u32 {
        let node = &mut self.nodes[usize::from(node)];
        let count = node.pairs.len() as u32;
        let Some(chain) = chain else {
            return node.usable(index % count);
        };
        let shared = &mut self.chains.get(chain).shared;
        let pair = match *shared {
            Some(pair) => node.usable(pair),
            None => {
                node.turn = node.usable((node.turn + 1) % count);
                node.turn
            }
        };
        *shared = Some(pair);
        pair
    }
}
