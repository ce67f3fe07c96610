//! What happens on shared queue pairs: answers, losses, time-outs, the end.

use roce::connect::{self, Attempt, Message, QueuePair};
use roce::endpoint::Mtu;
use roce::wire::{Addresses, Datagram, NakCode, Opcode, Psn, Syndrome};

use crate::flows::{Kind, State, Wait};
use crate::middlebox::{Emit, Middlebox, Side, View};
use crate::shared::{Setup, SharedPair, Slot};

/// Numbers of clients from here on are those of middleboxes; the low bits are the shard.
pub(crate) const SHARED_CLIENTS: u64 = 0xffff_ffff_0000_0000;
/// Queue pairs at the clients' side from here on are those of middleboxes.
pub(crate) const SHARED_QPNS: u32 = 0xf0_0000;

/// The answer to a request on a shared queue pair.
enum Answer<'a, 'b> {
    /// Executed.
    Done,
    /// The original value.
    Original(u64),
    /// The memory that was read.
    Read(&'a mut View<'b>),
}

impl Middlebox {
    fn pair(&mut self, node: u8, pair: u32) -> &mut SharedPair {
        &mut self.nodes[usize::from(node)].pairs[pair as usize]
    }

    /// Adds a request that was just sent.
    pub(crate) fn push_shared(&mut self, now_ns: u64, node: u8, index: u32, slot: Slot) {
        let pair = self.pair(node, index);
        if pair.is_idle() {
            pair.moved_ns = now_ns;
        }
        pair.push(slot);
        self.arm(now_ns, node, index);
    }

    fn arm(&mut self, now_ns: u64, node: u8, index: u32) {
        let due_ns = now_ns.saturating_add(self.config.resend_ns.max(1));
        let pair = self.pair(node, index);
        if !pair.is_armed {
            pair.is_armed = true;
            self.resend_timers.push_back((due_ns, node, index));
        }
    }

    /// Takes a response that arrived for a shared queue pair.
    pub(crate) fn response_mapped(
        &mut self,
        now_ns: u64,
        node: u8,
        index: u32,
        mut packet: View,
        emit: Emit,
    ) {
        let psn = packet.psn();
        let pair = self.pair(node, index);
        if pair.setup != Setup::Connected || !pair.expects(psn) {
            self.counters.responses_ignored += 1;
            return;
        }
        match (packet.opcode(), packet.aeth().map(|aeth| aeth.syndrome)) {
            (Opcode::Acknowledge, Some(Syndrome::Ack { .. })) => {
                self.advance(now_ns, node, index, psn.plus(1), true, emit);
            }
            (Opcode::Acknowledge, Some(Syndrome::Nak(NakCode::PsnSequence))) => {
                self.counters.naks_received += 1;
                if self.advance(now_ns, node, index, psn, false, emit) {
                    self.go_back(now_ns, node, index, emit);
                }
            }
            (Opcode::Acknowledge, Some(Syndrome::Nak(code))) => {
                self.counters.naks_received += 1;
                self.advance(now_ns, node, index, psn, false, emit);
                self.reopen(now_ns, node, index, Some(code), emit);
            }
            (Opcode::Acknowledge, _) => {}
            // A response of another kind is to a request of before.
            (opcode, _) if !self.pair(node, index).is_answer(psn, opcode) => {
                self.counters.responses_ignored += 1;
            }
            (opcode, _) => {
                if self.advance(now_ns, node, index, psn, false, emit) {
                    let is_read = opcode == Opcode::ReadResponseOnly;
                    let original = packet.original();
                    let answer = match original {
                        Some(original) => Answer::Original(original),
                        None if is_read => Answer::Read(&mut packet),
                        None => return,
                    };
                    self.finish_front(now_ns, node, index, answer, emit);
                }
            }
        }
        self.wake_shared(now_ns, node, index, emit);
    }

    /// Counts all requests before `target` as executed; `is_last` if an acknowledgement names the
    /// last of them. False if the response of one of them is missing: it was lost, and everything
    /// from there on is sent again.
    fn advance(
        &mut self,
        now_ns: u64,
        node: u8,
        index: u32,
        target: Psn,
        is_last: bool,
        emit: Emit,
    ) -> bool {
        let injects_no_acks = self.config.faults.injects_no_acks;
        loop {
            let pair = self.pair(node, index);
            let left = target.distance_from(pair.acked);
            let Some(front) = pair.front().filter(|_| left > 0) else {
                return left <= 0;
            };
            if front.has_response {
                if !pair.has_gone_back {
                    pair.has_gone_back = true;
                    self.go_back(now_ns, node, index, emit);
                }
                return false;
            }
            if injects_no_acks && left > i32::from(is_last) {
                self.finish_silently(now_ns, node, index, emit);
            } else {
                self.finish_front(now_ns, node, index, Answer::Done, emit);
            }
        }
    }

    /// Only with the fault that leaves injection out: the client has to send again. What waited for
    /// this request reaches the memory.
    fn finish_silently(&mut self, now_ns: u64, node: u8, index: u32, emit: Emit) {
        let mut to_memory = |side: Side, frame: &[u8]| {
            if side == Side::Memory {
                emit(side, frame);
            }
        };
        self.finish_front(now_ns, node, index, Answer::Done, &mut to_memory);
    }

    /// The oldest request on a shared queue pair was executed.
    fn finish_front(&mut self, now_ns: u64, node: u8, index: u32, answer: Answer, emit: Emit) {
        let Some(slot) = self.pair(node, index).pop(now_ns) else {
            return;
        };
        let Slot {
            flow: owner,
            psn,
            frame,
            ..
        } = slot;
        let flow = self.flows.get(owner);
        flow.open -= 1;
        let (answered, has_failed) = (flow.answered, flow.has_failed);
        let Some(record) = flow
            .record(psn)
            .filter(|record| record.state == State::Open)
        else {
            self.frames.put(frame);
            return;
        };
        record.state = State::Done;
        let mut chain = None;
        let mut spare = Some(frame);
        match (record.kind, answer) {
            (Kind::Swap(swap), answer) => {
                let original = match answer {
                    Answer::Original(original) => original,
                    _ => swap.expected,
                };
                let (visible, waiting) = self.finish_swap(node, &swap, original);
                chain = waiting;
                if let Some(record) = self.flows.get(owner).record(psn) {
                    record.original = visible;
                }
            }
            (Kind::Add, Answer::Original(original)) => record.original = original,
            (Kind::Read { is_node }, Answer::Read(packet)) => {
                if psn.distance_from(answered) <= 0 && !has_failed {
                    record.state = State::Answered;
                    if psn == answered {
                        self.flows.get(owner).answered = psn.plus(1);
                    }
                    self.send_response(owner, psn, packet, emit);
                } else if !has_failed && let Some(mut copy) = spare.take() {
                    self.counters.responses_held += 1;
                    copy.clear();
                    copy.extend_from_slice(packet.frame());
                    record.response = Some(copy);
                }
                if is_node {
                    self.learn_read(node, packet.payload());
                }
            }
            _ => {}
        }
        if let Some(frame) = spare {
            self.frames.put(frame);
        }
        if !has_failed {
            self.flush(owner, emit);
        }
        if let Some(chain) = chain {
            self.wake_chain(now_ns, chain, emit);
        }
    }

    /// Lets the connections continue that wait for space on a shared queue pair.
    fn wake_shared(&mut self, now_ns: u64, node: u8, index: u32, emit: Emit) {
        let wait = Wait::Shared(index);
        while self.pair(node, index).has_space(false, 0)
            && let Some(flow) = self.pair(node, index).waiters.pop_front()
        {
            self.resume(now_ns, flow, wait, emit);
            if self.flows.get(flow).wait == Some(wait) {
                break;
            }
        }
    }

    /// Sends everything again that is unanswered on a shared queue pair, of all owners (go-back-N;
    /// specification, 9.7).
    pub(crate) fn go_back(&mut self, now_ns: u64, node: u8, index: u32, emit: Emit) {
        let is_limited = self.config.faults.resends_one_owner;
        let pair = &mut self.nodes[usize::from(node)].pairs[index as usize];
        pair.moved_ns = now_ns;
        let first_owner = pair.front().map(|slot| slot.flow);
        self.counters.resends += 1;
        for slot in pair.slots() {
            if is_limited && Some(slot.flow) != first_owner {
                continue;
            }
            self.counters.packets_resent += 1;
            self.counters.sent += 1;
            emit(Side::Memory, &slot.frame);
        }
    }

    /// Looks at a shared queue pair whose timer has run out.
    pub(crate) fn check_shared(&mut self, now_ns: u64, node: u8, index: u32, emit: Emit) {
        let (resend_ns, resends_max) = (self.config.resend_ns, self.config.resends_max);
        let pair = self.pair(node, index);
        pair.is_armed = false;
        match pair.setup {
            Setup::Connecting | Setup::Refused => {
                self.send_connect(node, index, emit);
                self.arm(now_ns, node, index);
            }
            Setup::Connected if pair.is_idle() => {}
            Setup::Connected => {
                if now_ns >= pair.moved_ns.saturating_add(resend_ns) {
                    pair.resends += 1;
                    if pair.resends > resends_max {
                        self.reopen(now_ns, node, index, None, emit);
                        self.reopen_idle(now_ns, node, emit);
                        return;
                    }
                    self.go_back(now_ns, node, index, emit);
                }
                self.arm(now_ns, node, index);
            }
        }
    }

    /// Ends a shared queue pair and opens it again. What was on its way fails for all owners,
    /// executed or not; with `code` for the oldest one.
    fn reopen(&mut self, now_ns: u64, node: u8, index: u32, code: Option<NakCode>, emit: Emit) {
        self.give_up_chains(node, |shared| shared == index);
        for (age, slot) in (0..).zip(self.pair(node, index).take_slots()) {
            self.frames.put(slot.frame);
            // An owner may have an older request on another shared queue pair.
            let code = code.filter(|_| age == 0);
            let flow = self.flows.get(slot.flow);
            flow.open -= 1;
            if !flow.has_failed {
                self.counters.flows_failed += 1;
                flow.fail(&mut self.frames);
                let answered = flow.answered;
                let code = code.filter(|_| slot.psn == answered);
                let code = code.unwrap_or(NakCode::RemoteOperation);
                self.refuse(slot.flow, answered, code, emit);
            }
        }
        self.connect_again(now_ns, node, index, emit);
    }

    /// Opens those shared queue pairs again that have nothing on their way. If one does not answer,
    /// the memory node may have been started again: it has none of them then, and each would be
    /// found dead only by a request of its own, long after the one before.
    fn reopen_idle(&mut self, now_ns: u64, node: u8, emit: Emit) {
        let pairs = &self.nodes[usize::from(node)].pairs;
        let is_idle = |pair: &SharedPair| pair.setup == Setup::Connected && pair.is_idle();
        let idle: Vec<bool> = pairs.iter().map(is_idle).collect();
        // There are many chains, so all are given up in one pass.
        self.give_up_chains(node, |shared| idle[shared as usize]);
        for (index, _) in (0..).zip(&idle).filter(|(_, is_idle)| **is_idle) {
            self.connect_again(now_ns, node, index, emit);
        }
    }

    /// Gives up the operations on their way of the chains whose shared queue pair is one of these.
    fn give_up_chains(&mut self, node: u8, is_lost: impl Fn(u32) -> bool) {
        for (_, chain) in self.chains.iter_mut() {
            if chain.node == node && chain.shared.is_some_and(&is_lost) {
                let was_owned = chain.give_up();
                self.counters.tails_disowned += u64::from(was_owned);
            }
        }
    }

    /// Begins another attempt for a shared queue pair that was connected.
    fn connect_again(&mut self, now_ns: u64, node: u8, index: u32, emit: Emit) {
        self.counters.shared_dead += 1;
        self.connect_pair(now_ns, node, index);
        self.send_connect(node, index, emit);
        self.arm(now_ns, node, index);
    }

    /// Opens the shared queue pairs of a memory node, unless they are.
    pub(crate) fn open_pairs(&mut self, now_ns: u64, node: u8, connect: &Datagram, emit: Emit) {
        if !self.nodes[usize::from(node)].pairs.is_empty() {
            return;
        }
        let (client, _) = crate::flows::ip_numbers(&connect.addresses);
        for index in 0..self.config.shared as u32 {
            let mut to_server = connect.addresses;
            to_server.udp_source = 0xc000 | index as u16;
            let shard = self.config.shard.index % 0x100;
            let qpn = SHARED_QPNS | shard << 12 | u32::from(node) << 8 | index;
            self.shared.insert((client, qpn), (node, index));
            let pairs = &mut self.nodes[usize::from(node)].pairs;
            pairs.push(SharedPair::new(to_server, qpn));
            self.connect_pair(now_ns, node, index);
            self.send_connect(node, index, emit);
            self.arm(now_ns, node, index);
        }
    }

    /// Begins another attempt. After the last number of attempts it has none that the memory node
    /// would accept: the pair stays closed.
    fn connect_pair(&mut self, now_ns: u64, node: u8, index: u32) {
        let instance = self.config.instance;
        let pair = self.pair(node, index);
        let next = pair.attempt.checked_add(1);
        let attempt = next.map_or(0, |next| instance.max(next));
        // Responses to the attempt before may still be on their way. Half of all numbers later,
        // none of them is expected.
        let first = if pair.attempt == 0 {
            // Another one at each start: see `accept_shared`.
            let start = (attempt ^ now_ns as u32).wrapping_mul(0x9e37_79b9);
            Psn::new(start.wrapping_add(index))
        } else {
            pair.next.plus(1 << 23)
        };
        pair.connect(attempt, first);
    }

    fn send_connect(&mut self, node: u8, index: u32, emit: Emit) {
        let client = SHARED_CLIENTS | u64::from(self.config.shard.index);
        let pair = self.pair(node, index);
        let attempt = Attempt {
            client,
            index: index as u16,
            attempt: pair.attempt,
        };
        let local = QueuePair {
            qpn: pair.local_qpn,
            first_psn: pair.first,
            mtu: Mtu::Bytes4096,
        };
        let addresses = pair.to_server;
        let message = Message::Connect(attempt, local);
        self.send_message(addresses, &message, Side::Memory, emit);
    }

    /// Sends a message about a connection.
    pub(crate) fn send_message(
        &mut self,
        addresses: Addresses,
        message: &Message,
        to: Side,
        emit: Emit,
    ) {
        let datagram = Datagram {
            addresses,
            qpn: connect::QPN,
            source_qpn: connect::QPN,
            queue_key: connect::QUEUE_KEY,
            payload: &message.emit(),
        };
        if datagram.emit(&mut self.scratch).is_ok() {
            self.counters.sent += 1;
            emit(to, &self.scratch);
        }
    }

    /// A memory node has opened a shared queue pair, or has one of an earlier start: then this one
    /// needs a higher attempt, which ends the other. To use that would be wrong: the memory node
    /// would take new requests for repetitions, and acknowledge WRITEs without executing them.
    pub(crate) fn accept_shared(
        &mut self,
        now_ns: u64,
        node: u8,
        attempt: &Attempt,
        server: &QueuePair,
        emit: Emit,
    ) {
        let index = u32::from(attempt.index);
        let memory = &mut self.nodes[usize::from(node)];
        let Some(pair) = memory.pairs.get_mut(index as usize) else {
            self.counters.setups_ignored += 1;
            return;
        };
        // Of an earlier start, whose number was not lower, or that has opened many again.
        let is_foreign = attempt.attempt > pair.attempt
            || (attempt.attempt == pair.attempt && server.first_psn != pair.first);
        if pair.setup != Setup::Connected && is_foreign {
            pair.attempt = attempt.attempt;
            self.counters.attempts_raised += 1;
            self.connect_pair(now_ns, node, index);
            self.send_connect(node, index, emit);
            return;
        }
        if pair.setup == Setup::Connected || pair.attempt != attempt.attempt {
            self.counters.setups_ignored += 1;
            return;
        }
        pair.setup = Setup::Connected;
        pair.server_qpn = server.qpn;
        memory.mtu = memory.mtu.min(server.mtu.bytes() as u32);
        self.wake_shared(now_ns, node, index, emit);
        self.wake_refused(now_ns, node, emit);
        self.settled(now_ns, node, emit);
    }

    /// A memory node refuses a shared queue pair. The one before is gone, and what needs one uses
    /// others until it is accepted.
    pub(crate) fn refuse_shared(&mut self, now_ns: u64, node: u8, attempt: &Attempt, emit: Emit) {
        let index = u32::from(attempt.index);
        let pairs = &mut self.nodes[usize::from(node)].pairs;
        let pair = pairs.get_mut(index as usize);
        let is_current = |pair: &&mut SharedPair| {
            pair.setup != Setup::Connected && pair.attempt == attempt.attempt
        };
        let Some(pair) = pair.filter(is_current) else {
            self.counters.setups_ignored += 1;
            return;
        };
        self.counters.shared_refused += 1;
        if pair.setup == Setup::Refused {
            return;
        }
        pair.setup = Setup::Refused;
        self.wake_refused(now_ns, node, emit);
        self.settled(now_ns, node, emit);
    }

    /// Lets the connections continue that wait for refused shared queue pairs: on others, if there
    /// are any. They wait again if all are refused.
    fn wake_refused(&mut self, now_ns: u64, node: u8, emit: Emit) {
        for index in 0..self.nodes[usize::from(node)].pairs.len() as u32 {
            let pair = self.pair(node, index);
            if pair.setup == Setup::Refused {
                for flow in std::mem::take(&mut pair.waiters) {
                    self.resume(now_ns, flow, Wait::Shared(index), emit);
                }
            }
        }
    }

    /// A shared queue pair is not connecting any more. If none is, chains may continue.
    fn settled(&mut self, now_ns: u64, node: u8, emit: Emit) {
        let memory = &mut self.nodes[usize::from(node)];
        if memory.unsettled().is_some() {
            // A compare-and-swap would wait again.
            return;
        }
        memory.is_fenced = true;
        for chain in 0..self.chains.len() as u32 {
            if !self.chains.get(chain).waiters.is_empty() {
                self.wake_chain(now_ns, chain, emit);
            }
        }
    }
}
