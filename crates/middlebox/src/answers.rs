//! Packets that the middlebox writes: answers to clients, and WRITEs in place of compare-and-swap
//! operations.

use roce::wire::{
    Addresses, Aeth, Body, Bth, NakCode, Packet, Psn, Repr, Reth, Syndrome, Transport,
};

use crate::flows::{Kind, State, Swap};
use crate::middlebox::{Emit, Middlebox, Side, View};

impl Middlebox {
    /// Answers a request of which the result is known, but for a READ.
    pub(crate) fn answer(&mut self, index: u32, psn: Psn, emit: Emit) {
        let flow = self.flows.get(index);
        let aeth = Aeth {
            syndrome: Syndrome::UNLIMITED,
            msn: flow.msn(psn),
        };
        let Some(record) = flow.record(psn) else {
            return;
        };
        let body = match record.kind {
            Kind::Write => Body::Acknowledge { aeth },
            Kind::Swap(_) | Kind::Add => Body::AtomicAcknowledge {
                aeth,
                original: record.original,
            },
            Kind::Read { .. } => return,
        };
        self.counters.acks_injected += 1;
        self.send_answer(index, psn, body, emit);
    }

    /// Tells a client that its request was not executed. This acknowledges all before it.
    pub(crate) fn refuse(&mut self, index: u32, psn: Psn, code: NakCode, emit: Emit) {
        let flow = self.flows.get(index);
        let aeth = Aeth {
            syndrome: Syndrome::Nak(code),
            msn: flow.msn(psn.previous()),
        };
        self.counters.naks_sent += 1;
        self.send_answer(index, psn, Body::Acknowledge { aeth }, emit);
    }

    fn send_answer(&mut self, index: u32, psn: Psn, body: Body, emit: Emit) {
        let flow = self.flows.get(index);
        let repr = Repr {
            addresses: flow.agreed.to_client,
            transport: Transport {
                bth: Bth::new(flow.agreed.client.1, psn),
                body,
            },
        };
        // There is no payload, so this does not fail.
        if repr.emit(&mut self.scratch).is_ok() {
            self.counters.sent += 1;
            emit(Side::Client, &self.scratch);
        }
    }

    /// Sends the response of a READ to its client: from a shared queue pair.
    pub(crate) fn send_response(&mut self, index: u32, psn: Psn, packet: &mut View, emit: Emit) {
        let flow = self.flows.get(index);
        packet.set_route(&flow.agreed.to_client, flow.agreed.client.1, psn);
        packet.set_msn(flow.msn(psn));
        self.counters.sent += 1;
        emit(Side::Client, packet.frame());
    }

    /// Sends all answers that are due, in the order of the requests.
    pub(crate) fn flush(&mut self, index: u32, emit: Emit) {
        loop {
            let flow = self.flows.get(index);
            let psn = flow.answered;
            if flow.has_failed || psn == flow.next {
                break;
            }
            let Some(record) = flow
                .record(psn)
                .filter(|record| record.state == State::Done)
            else {
                return;
            };
            record.state = State::Answered;
            let response = record.response.take();
            flow.answered = psn.plus(1);
            if let Some(mut frame) = response {
                if let Ok(mut packet) = Packet::new_checked(frame.as_mut_slice()) {
                    self.send_response(index, psn, &mut packet, emit);
                }
                self.frames.put(frame);
            } else {
                self.answer(index, psn, emit);
            }
        }
        let flow = self.flows.get(index);
        if let Some(code) = flow.nak.take() {
            let psn = flow.answered;
            flow.has_failed |= code != NakCode::PsnSequence;
            self.refuse(index, psn, code, emit);
        }
    }

    /// Replaces `frame` by a WRITE of the word that a compare-and-swap would store.
    pub(crate) fn write_converted(
        &self,
        addresses: Addresses,
        qpn: u32,
        psn: Psn,
        swap: &Swap,
        frame: &mut Vec<u8>,
    ) {
        let body = Body::WriteOnly {
            reth: Reth {
                address: swap.target,
                key: self.config.keys.steerable,
                len: 8,
            },
            immediate: None,
            // In the order of the memory, where the packet of a compare-and-swap has numbers.
            payload: &swap.word.to_le_bytes(),
        };
        let bth = Bth {
            ack_requested: true,
            ..Bth::new(qpn, psn)
        };
        let transport = Transport { bth, body };
        let repr = Repr {
            addresses,
            transport,
        };
        // Eight bytes are not too many.
        let _ = repr.emit(frame);
    }
}

/// Changes the address and the compare operand of a compare-and-swap to those that were decided.
pub(crate) fn redirect(packet: &mut View, swap: &Swap) {
    let address = packet.atomic_eth().map(|atomic| atomic.address);
    if address != Some(swap.target) {
        packet.set_address(swap.target);
    }
    if swap.expected != swap.compare {
        packet.set_compare(swap.expected);
    }
}
