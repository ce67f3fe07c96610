//! Requests and responses without mapping: each connection keeps its own queue pair at the memory
//! node, and its sequence numbers.

use roce::wire::{Opcode, Packet, Psn, Syndrome};

use crate::answers::redirect;
use crate::flows::{Flow, Kind, State, Swap, Wait};
use crate::limits::WINDOW;
use crate::middlebox::{Emit, Middlebox, Side, View};
use crate::steering::Steered;

impl Middlebox {
    pub(crate) fn request_plain(&mut self, now_ns: u64, index: u32, mut packet: View, emit: Emit) {
        let psn = packet.psn();
        let is_swap = packet.opcode() == Opcode::CompareSwap;
        let flow = self.flows.get(index);
        let is_waiting = !flow.queue.is_empty();
        let distance = psn.distance_from(flow.next);
        if flow.has_failed {
            // An old connection of a client that connects again.
            self.counters.stale += 1;
            return;
        }
        // A compare-and-swap must be the expected request, because it may have to wait. Others
        // pass, and the memory node says what is missing.
        if (is_waiting && distance != 0) || (is_swap && distance > 0) {
            self.counters.out_of_sequence += 1;
            return;
        }
        // What was done with the first has to be done again.
        let is_known = |flow: &mut Flow| {
            let record = flow.record(psn);
            record.is_some_and(|record| matches!(record.kind, Kind::Swap(_)))
        };
        if is_swap && distance < 0 && !is_known(self.flows.get(index)) {
            self.counters.stale += 1;
            return;
        }
        if is_waiting {
            self.enqueue(now_ns, index, None, &packet);
        } else if let Err(wait) = self.dispatch_plain(now_ns, index, &mut packet, emit) {
            self.enqueue(now_ns, index, Some(wait), &packet);
        }
    }

    /// Puts a request at the end of its connection's queue, if it is the expected one.
    fn enqueue(&mut self, now_ns: u64, index: u32, wait: Option<Wait>, packet: &View) {
        let flow = self.flows.get(index);
        if packet.psn() != flow.next || flow.queue.len() >= WINDOW as usize {
            self.counters.out_of_sequence += 1;
            return;
        }
        let Some(copy) = self.frames.copy(packet.frame()) else {
            self.counters.no_frame += 1;
            return;
        };
        flow.queue.push_back((packet.psn(), copy));
        flow.next = flow.next.plus(packets(packet, flow.agreed.mtu));
        if let Some(wait) = wait {
            self.wait_for(now_ns, index, wait);
        }
    }

    /// Sends a request that has waited; gives it back if it has to wait again.
    pub(crate) fn dispatch_held(
        &mut self,
        now_ns: u64,
        index: u32,
        mut frame: Vec<u8>,
        emit: Emit,
    ) -> Option<(Wait, Vec<u8>)> {
        let held = match Packet::new_checked(frame.as_mut_slice()) {
            Ok(mut packet) => self.dispatch_plain(now_ns, index, &mut packet, emit).err(),
            Err(_) => None,
        };
        match held {
            Some(wait) => Some((wait, frame)),
            None => {
                self.frames.put(frame);
                None
            }
        }
    }

    /// Sends a request, or says what it has to wait for.
    fn dispatch_plain(
        &mut self,
        now_ns: u64,
        index: u32,
        packet: &mut View,
        emit: Emit,
    ) -> Result<(), Wait> {
        let node = self.flows.get(index).agreed.node;
        match packet.opcode() {
            Opcode::CompareSwap => return self.dispatch_swap(now_ns, index, packet, emit),
            Opcode::WriteOnly | Opcode::WriteFirst => {
                if let Some(reth) = packet.reth() {
                    self.learn_node(node, &reth, packet.payload());
                }
            }
            Opcode::ReadRequest => {
                if let Some(reth) = packet.reth() {
                    // A READ of several packets is repeated in parts, which have addresses of
                    // their own.
                    if reth.len <= self.flows.get(index).agreed.mtu {
                        let (_, address) = self.steer_read(node, &reth);
                        if address != reth.address {
                            packet.set_address(address);
                        }
                    }
                    let is_node = reth.key == self.config.keys.steerable;
                    self.remember(index, packet.psn(), Kind::Read { is_node });
                }
            }
            Opcode::FetchAdd => self.remember(index, packet.psn(), Kind::Add),
            _ => {}
        }
        self.forward(index, packet, emit);
        Ok(())
    }

    fn dispatch_swap(
        &mut self,
        now_ns: u64,
        index: u32,
        packet: &mut View,
        emit: Emit,
    ) -> Result<(), Wait> {
        let psn = packet.psn();
        let flow = self.flows.get(index);
        let (node, is_again) = (flow.agreed.node, self.config.faults.steers_again);
        let seen = match flow.record(psn).map(|record| record.kind) {
            Some(Kind::Swap(swap)) if !is_again => Some(swap),
            _ => None,
        };
        // The memory node answers a duplicate with the result of the first, so it has to be
        // rewritten as the first was.
        let swap = if let Some(swap) = seen {
            self.counters.retransmitted += 1;
            swap
        } else {
            let Some(atomic) = packet.atomic_eth() else {
                return Ok(());
            };
            let chain = self.chain_of_swap(node, &atomic);
            let swap = match self.steer_swap(now_ns, node, chain, &atomic) {
                Steered::Held(chain) => return Err(Wait::Chain(chain)),
                Steered::Sent(swap) => swap,
            };
            self.counters.swaps += 1;
            self.remember(index, psn, Kind::Swap(swap));
            swap
        };
        if swap.is_converted {
            self.forward_converted(index, &swap, packet, emit);
            return Ok(());
        }
        redirect(packet, &swap);
        self.forward(index, packet, emit);
        Ok(())
    }

    fn remember(&mut self, index: u32, psn: Psn, kind: Kind) {
        let flow = self.flows.get(index);
        flow.remember(psn, State::Open, kind, &mut self.frames);
    }

    fn forward(&mut self, index: u32, packet: &View, emit: Emit) {
        self.note_sent(index, packet);
        emit(Side::Memory, packet.frame());
    }

    /// Moves the expected sequence number on if this request has it.
    fn note_sent(&mut self, index: u32, packet: &View) {
        let flow = self.flows.get(index);
        if packet.psn() == flow.next {
            flow.next = flow.next.plus(packets(packet, flow.agreed.mtu));
        }
        self.counters.sent += 1;
    }

    /// Only with the fault that allows conversion without mapping.
    fn forward_converted(&mut self, index: u32, swap: &Swap, packet: &View, emit: Emit) {
        self.note_sent(index, packet);
        let (addresses, qpn) = (packet.addresses(), packet.qpn());
        let mut frame = std::mem::take(&mut self.scratch);
        self.write_converted(addresses, qpn, packet.psn(), swap, &mut frame);
        emit(Side::Memory, &frame);
        self.scratch = frame;
    }

    pub(crate) fn response_plain(&mut self, now_ns: u64, index: u32, mut packet: View, emit: Emit) {
        let psn = packet.psn();
        let flow = self.flows.get(index);
        let node = flow.agreed.node;
        let kind = flow.record(psn).map(|record| record.kind);
        match (packet.opcode(), kind) {
            (Opcode::AtomicAcknowledge, Some(Kind::Swap(swap))) => {
                let (visible, chain) = self.original_of(index, psn, &swap, packet.original());
                packet.set_original(visible);
                self.counters.sent += 1;
                emit(Side::Client, packet.frame());
                if let Some(chain) = chain {
                    self.wake_chain(now_ns, chain, emit);
                }
                return;
            }
            (Opcode::AtomicAcknowledge, Some(Kind::Add)) => {}
            (Opcode::AtomicAcknowledge, _) => {
                // What was done with it is not known any more, so neither is what it means.
                self.counters.responses_ignored += 1;
                return;
            }
            (
                Opcode::ReadResponseOnly | Opcode::ReadResponseFirst,
                Some(Kind::Read { is_node: true }),
            ) => self.learn_read(node, packet.payload()),
            (Opcode::Acknowledge, _) if self.config.switches.conversion => {
                let aeth = packet.aeth().map(|aeth| aeth.syndrome);
                if matches!(aeth, Some(Syndrome::Ack { .. }))
                    && self.inject(now_ns, index, psn, emit)
                {
                    return;
                }
            }
            _ => {}
        }
        self.counters.sent += 1;
        emit(Side::Client, packet.frame());
    }

    /// The original value that the client sees, and the chain whose waiting connections may
    /// continue, if this is the first answer.
    fn original_of(
        &mut self,
        index: u32,
        psn: Psn,
        swap: &Swap,
        original: Option<u64>,
    ) -> (u64, Option<u32>) {
        let flow = self.flows.get(index);
        let node = flow.agreed.node;
        match flow.record(psn) {
            Some(record) if record.state == State::Open => {
                record.state = State::Answered;
                let (visible, chain) = self.finish_swap(node, swap, original.unwrap_or(0));
                if let Some(record) = self.flows.get(index).record(psn) {
                    record.original = visible;
                }
                (visible, chain)
            }
            Some(record) => (record.original, None),
            None => (0, None),
        }
    }

    /// Answers converted operations up to this number. Whether the last one was one of them.
    fn inject(&mut self, now_ns: u64, index: u32, last: Psn, emit: Emit) -> bool {
        let flow = self.flows.get(index);
        let count = last.plus(1).distance_from(flow.answered);
        if count <= 0 || count > WINDOW.cast_signed() {
            return false;
        }
        let mut was_converted = false;
        for _ in 0..count {
            let flow = self.flows.get(index);
            let psn = flow.answered;
            flow.answered = psn.plus(1);
            let kind = flow.record(psn).map(|record| record.kind);
            was_converted = false;
            if let Some(Kind::Swap(swap)) = kind
                && swap.is_converted
            {
                was_converted = true;
                let (_, chain) = self.original_of(index, psn, &swap, Some(swap.expected));
                self.answer(index, psn, emit);
                if let Some(chain) = chain {
                    self.wake_chain(now_ns, chain, emit);
                }
            }
        }
        was_converted
    }
}

/// How many sequence numbers a request takes.
fn packets(packet: &View, mtu: u32) -> u32 {
    match packet.reth() {
        Some(reth) if packet.opcode() == Opcode::ReadRequest => reth.len.div_ceil(mtu).max(1),
        _ => 1,
    }
}
