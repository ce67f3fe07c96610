//! The end that serves memory.
//!
//! Executes requests in the order of their sequence numbers (specification, 9.7). A
//! request before the expected number is a duplicate: WRITEs and SENDs are acknowledged again,
//! READs executed again, and atomic operations answered from a buffer of their results, which is
//! as long as the requester may have atomic operations unanswered. A request after the expected
//! number means that packets are missing, which is reported once.

use std::collections::VecDeque;

use super::emitter::{Connection, Emitter, Mtu};
use super::memory::Memory;
use super::regions::{Access, Regions};
use crate::limits::{MESSAGE_LEN_MAX, MTU_MAX, READS_MAX, RECEIVES_MAX};
use crate::wire::{Aeth, AtomicEth, Body, Bth, NakCode, Psn, Reth, Syndrome, Transport};

/// The serving end of a connection.
#[derive(Debug)]
pub struct Responder {
    emitter: Emitter,
    qpn: u32,
    mtu: Mtu,
    /// What the peer may access.
    pub regions: Regions,
    /// The sequence number of the next request.
    expected: Psn,
    /// Messages completed, modulo 2²⁴.
    msn: u32,
    /// The message of which more packets are expected.
    partial: Option<Partial>,
    /// A request was refused or is missing, and the peer was told so. Until the expected request
    /// arrives, later ones are dropped without a word.
    is_reported: bool,
    /// Requests were executed, or arrived again, that must be acknowledged.
    is_ack_due: bool,
    /// The original values of the last atomic operations.
    originals: VecDeque<(Psn, u64)>,
    /// How many more messages can be received.
    receives: usize,
    /// The encoded time that a peer waits if none can.
    not_ready_timer: u8,
    has_failed: bool,
    counters: ResponderCounters,
}

/// A message of several packets.
#[derive(Debug)]
enum Partial {
    /// Where the next bytes of a WRITE go, and how many are missing.
    Write { address: u64, left: u32 },
    /// What was received of a SEND.
    Send { bytes: Vec<u8> },
}

/// What the host of a responder has to know.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Event {
    /// A message was received by SEND.
    Received {
        /// The message.
        bytes: Vec<u8>,
        /// Its immediate data.
        immediate: Option<u32>,
    },
    /// A WRITE with immediate data is complete.
    Written {
        /// The immediate data.
        immediate: u32,
    },
    /// A request was refused. The connection serves no more.
    Failed(NakCode),
}

/// Counts of packets, each modulo 2⁶⁴.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct ResponderCounters {
    /// Requests executed.
    pub executed: u64,
    /// Requests that arrived again.
    pub duplicates: u64,
    /// Requests that arrived before others that are missing.
    pub out_of_sequence: u64,
    /// Responses, packets for other queue pairs, and all packets after a failure.
    pub ignored: u64,
    /// Negative acknowledgements sent.
    pub naks: u64,
}

/// Why a request is not executed.
enum Refusal {
    Nak(NakCode),
    NotReady,
}

impl Responder {
    /// An end that serves nothing yet: see [`Responder::regions`].
    ///
    /// A peer that sends to an empty receive queue waits for the time of `not_ready_timer`, a code
    /// below 32 (the specification's table of RNR NAK timers).
    pub fn new(connection: &Connection, not_ready_timer: u8) -> Self {
        Self {
            emitter: Emitter::new(connection),
            qpn: connection.local_qpn,
            mtu: connection.mtu,
            regions: Regions::default(),
            expected: connection.first_psn,
            msn: 0,
            partial: None,
            is_reported: false,
            is_ack_due: false,
            originals: VecDeque::with_capacity(READS_MAX),
            receives: 0,
            not_ready_timer: not_ready_timer & 0x1f,
            has_failed: false,
            counters: ResponderCounters::default(),
        }
    }

    /// The counts so far.
    pub fn counters(&self) -> ResponderCounters {
        self.counters
    }

    /// Lets the peer send one more message, or one more WRITE with immediate data; false if
    /// [`RECEIVES_MAX`] may be sent already.
    pub fn post_receive(&mut self) -> bool {
        let has_space = self.receives < RECEIVES_MAX;
        self.receives += usize::from(has_space);
        has_space
    }

    /// Takes a packet. Answers of READs and atomic operations, and refusals, are sent at once;
    /// other requests are acknowledged by [`Responder::acknowledge`].
    pub fn handle(
        &mut self,
        packet: &Transport,
        memory: &mut impl Memory,
        send: &mut impl FnMut(&[u8]),
    ) -> Option<Event> {
        let Transport { bth, body } = packet;
        if self.has_failed || bth.qpn != self.qpn || body.opcode().is_response() {
            self.counters.ignored += 1;
            return None;
        }
        let distance = bth.psn.distance_from(self.expected);
        if distance < 0 {
            self.counters.duplicates += 1;
            self.answer_again(bth.psn, body, memory, send);
            return None;
        }
        if distance > 0 {
            self.counters.out_of_sequence += 1;
            if !self.is_reported {
                self.refuse(Syndrome::Nak(NakCode::PsnSequence), send);
            }
            return None;
        }
        match self.execute(bth, body, memory, send) {
            Ok(event) => {
                self.counters.executed += 1;
                self.is_reported = false;
                event
            }
            Err(Refusal::NotReady) => {
                let timer = self.not_ready_timer;
                self.refuse(Syndrome::ReceiverNotReady { timer }, send);
                None
            }
            Err(Refusal::Nak(nak)) => {
                self.refuse(Syndrome::Nak(nak), send);
                self.has_failed = true;
                self.partial = None;
                Some(Event::Failed(nak))
            }
        }
    }

    /// Sends one acknowledgement for all requests that need one (coalesced acknowledge messages:
    /// specification, 9.7.5.1.2). To be called when there are no more packets to handle for now.
    pub fn acknowledge(&mut self, send: &mut impl FnMut(&[u8])) {
        if self.is_ack_due {
            self.is_ack_due = false;
            let aeth = self.aeth(Syndrome::UNLIMITED);
            let psn = self.expected.previous();
            self.emitter
                .send(psn, false, Body::Acknowledge { aeth }, send);
        }
    }

    /// Tells the peer that the expected request was not executed. This acknowledges those before.
    fn refuse(&mut self, syndrome: Syndrome, send: &mut impl FnMut(&[u8])) {
        self.is_reported = true;
        self.is_ack_due = false;
        self.counters.naks += 1;
        let aeth = self.aeth(syndrome);
        let body = Body::Acknowledge { aeth };
        self.emitter.send(self.expected, false, body, send);
    }

    fn aeth(&self, syndrome: Syndrome) -> Aeth {
        Aeth {
            syndrome,
            msn: self.msn,
        }
    }

    /// Executes the expected request.
    fn execute(
        &mut self,
        bth: &Bth,
        body: &Body,
        memory: &mut impl Memory,
        send: &mut impl FnMut(&[u8]),
    ) -> Result<Option<Event>, Refusal> {
        match *body {
            Body::ReadRequest { reth } => {
                self.check_first()?;
                let is_too_long = reth.len as usize > MESSAGE_LEN_MAX;
                refuse_if(is_too_long, NakCode::InvalidRequest)?;
                self.check_access(&reth, Access::Read)?;
                self.complete(self.mtu.packets(reth.len as usize));
                self.respond(bth.psn, &reth, memory, send);
                self.is_ack_due = false;
                Ok(None)
            }
            Body::CompareSwap(operands) | Body::FetchAdd(operands) => {
                self.check_first()?;
                self.check_atomic(&operands)?;
                let AtomicEth { address, .. } = operands;
                let original = if matches!(body, Body::CompareSwap(_)) {
                    memory.compare_swap(address, operands.compare, operands.swap_or_add)
                } else {
                    memory.fetch_add(address, operands.swap_or_add)
                };
                if self.originals.len() == READS_MAX {
                    self.originals.pop_front();
                }
                self.originals.push_back((bth.psn, original));
                self.complete(1);
                self.respond_atomic(bth.psn, original, send);
                self.is_ack_due = false;
                Ok(None)
            }
            Body::SendFirst { payload } | Body::SendMiddle { payload } => {
                self.receive(matches!(body, Body::SendFirst { .. }), payload, false)?;
                self.advance(bth);
                Ok(None)
            }
            Body::SendLast { immediate, payload } | Body::SendOnly { immediate, payload } => {
                let is_first = matches!(body, Body::SendOnly { .. });
                self.receive(is_first, payload, true)?;
                self.advance(bth);
                Ok(self.finish(immediate))
            }
            _ => {
                self.write(body, memory)?;
                self.advance(bth);
                match body {
                    Body::WriteLast { immediate, .. } | Body::WriteOnly { immediate, .. } => {
                        Ok(self.finish(*immediate))
                    }
                    _ => Ok(None),
                }
            }
        }
    }

    /// Counts an executed packet of a WRITE or SEND.
    fn advance(&mut self, bth: &Bth) {
        self.expected = self.expected.plus(1);
        self.is_ack_due |= bth.ack_requested;
    }

    /// Ends a message of WRITE or SEND, whose last packet was counted.
    fn finish(&mut self, immediate: Option<u32>) -> Option<Event> {
        self.complete(0);
        match self.partial.take() {
            Some(Partial::Send { bytes }) => Some(Event::Received { bytes, immediate }),
            _ => immediate.map(|immediate| Event::Written { immediate }),
        }
    }

    /// Counts a completed message, whose number of packets is `packets` beyond those counted.
    fn complete(&mut self, packets: u32) {
        self.expected = self.expected.plus(packets);
        self.msn = (self.msn + 1) & 0xff_ffff;
    }

    /// A message must not begin within another.
    fn check_first(&self) -> Result<(), Refusal> {
        refuse_if(self.partial.is_some(), NakCode::InvalidRequest)
    }

    /// The key of a request without bytes is not checked (specification, 9.7).
    fn check_access(&self, reth: &Reth, access: Access) -> Result<(), Refusal> {
        let len = u64::from(reth.len);
        let is_allowed = len == 0 || self.regions.allow(reth.key, reth.address, len, access);
        refuse_if(!is_allowed, NakCode::RemoteAccess)
    }

    fn check_atomic(&self, operands: &AtomicEth) -> Result<(), Refusal> {
        refuse_if(!operands.address.is_multiple_of(8), NakCode::InvalidRequest)?;
        let is_allowed = self
            .regions
            .allow(operands.key, operands.address, 8, Access::Atomic);
        refuse_if(!is_allowed, NakCode::RemoteAccess)
    }

    /// Takes one of the receives that the host posted.
    fn take_receive(&mut self) -> Result<(), Refusal> {
        self.receives = self.receives.checked_sub(1).ok_or(Refusal::NotReady)?;
        Ok(())
    }

    /// Executes a packet of a WRITE; its whole range is checked with the first.
    fn write(&mut self, body: &Body, memory: &mut impl Memory) -> Result<(), Refusal> {
        let mtu = self.mtu.bytes() as u32;
        let payload = body.payload();
        // The payload is at most MTU_MAX long.
        let len = payload.len() as u32;
        let (address, left) = match (body, &self.partial) {
            (Body::WriteFirst { reth, .. } | Body::WriteOnly { reth, .. }, None) => {
                refuse_if(reth.len as usize > MESSAGE_LEN_MAX, NakCode::InvalidRequest)?;
                self.check_access(reth, Access::Write)?;
                (reth.address, reth.len)
            }
            (
                Body::WriteMiddle { .. } | Body::WriteLast { .. },
                Some(Partial::Write { address, left }),
            ) => (*address, *left),
            _ => return Err(Refusal::Nak(NakCode::InvalidRequest)),
        };
        let (has_right_len, immediate) = match *body {
            Body::WriteLast { immediate, .. } | Body::WriteOnly { immediate, .. } => {
                (len == left && len <= mtu, immediate)
            }
            _ => (len == mtu && left > mtu, None),
        };
        refuse_if(!has_right_len, NakCode::InvalidRequest)?;
        if immediate.is_some() {
            self.take_receive()?;
        }
        if len > 0 {
            memory.write(address, payload);
        }
        self.partial = (left > len).then(|| Partial::Write {
            address: address + u64::from(len),
            left: left - len,
        });
        Ok(())
    }

    /// Adds a packet of a SEND to the message.
    fn receive(&mut self, is_first: bool, payload: &[u8], is_last: bool) -> Result<(), Refusal> {
        let mtu = self.mtu.bytes();
        let len = match (&self.partial, is_first) {
            (None, true) => 0,
            (Some(Partial::Send { bytes }), false) => bytes.len(),
            _ => return Err(Refusal::Nak(NakCode::InvalidRequest)),
        };
        let has_right_len = if is_last {
            payload.len() <= mtu
        } else {
            payload.len() == mtu
        };
        let is_too_long = len + payload.len() > MESSAGE_LEN_MAX;
        refuse_if(is_too_long || !has_right_len, NakCode::InvalidRequest)?;
        if is_first {
            self.take_receive()?;
            self.partial = Some(Partial::Send { bytes: Vec::new() });
        }
        if let Some(Partial::Send { bytes }) = &mut self.partial {
            bytes.extend_from_slice(payload);
        }
        Ok(())
    }

    /// Answers a request that was executed before.
    fn answer_again(
        &mut self,
        psn: Psn,
        body: &Body,
        memory: &impl Memory,
        send: &mut impl FnMut(&[u8]),
    ) {
        match body {
            Body::ReadRequest { reth } => {
                let len = reth.len as usize;
                let is_known = len <= MESSAGE_LEN_MAX && {
                    let end = psn.plus(self.mtu.packets(len));
                    end.distance_from(self.expected) <= 0
                };
                if is_known && self.check_access(reth, Access::Read).is_ok() {
                    self.respond(psn, reth, memory, send);
                }
            }
            Body::CompareSwap(_) | Body::FetchAdd(_) => {
                let known = self.originals.iter().find(|(known, _)| *known == psn);
                if let Some((_, original)) = known {
                    self.respond_atomic(psn, *original, send);
                }
            }
            _ => self.is_ack_due = true,
        }
    }

    /// Sends the packets of a READ's response.
    fn respond(
        &mut self,
        first: Psn,
        reth: &Reth,
        memory: &impl Memory,
        send: &mut impl FnMut(&[u8]),
    ) {
        let mut buffer = [0; MTU_MAX];
        let (len, mtu) = (reth.len as usize, self.mtu.bytes());
        let packets = self.mtu.packets(len);
        let aeth = self.aeth(Syndrome::UNLIMITED);
        for index in 0..packets {
            let offset = index as usize * mtu;
            let payload = &mut buffer[..mtu.min(len - offset)];
            if !payload.is_empty() {
                memory.read(reth.address + offset as u64, payload);
            }
            let payload = &*payload;
            let body = match (index == 0, index + 1 == packets) {
                (true, true) => Body::ReadResponseOnly { aeth, payload },
                (true, false) => Body::ReadResponseFirst { aeth, payload },
                (false, false) => Body::ReadResponseMiddle { payload },
                (false, true) => Body::ReadResponseLast { aeth, payload },
            };
            self.emitter.send(first.plus(index), false, body, send);
        }
    }

    fn respond_atomic(&mut self, psn: Psn, original: u64, send: &mut impl FnMut(&[u8])) {
        let aeth = self.aeth(Syndrome::UNLIMITED);
        let body = Body::AtomicAcknowledge { aeth, original };
        self.emitter.send(psn, false, body, send);
    }
}

fn refuse_if(is_wrong: bool, nak: NakCode) -> Result<(), Refusal> {
    if is_wrong {
        Err(Refusal::Nak(nak))
    } else {
        Ok(())
    }
}
