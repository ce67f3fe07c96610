//! The end that reads and writes the memory of the other.
//!
//! Operations wait in a queue, in the order in which they were posted. Each has a range of sequence
//! numbers, as long as its packets, or those of its response:
//!
//! ```text
//! acked ──────▶ cursor ──────▶ highest ──────▶ next
//!   sent, unacknowledged │ sent before, to be sent again │ not sent yet
//! ```
//!
//! On a time-out, a negative acknowledgement, or a response that shows that one before was lost,
//! the cursor goes back to `acked` (go-back-N; specification, 9.7). A READ that was
//! answered in part is sent again for the rest.

mod operation;
mod retries;

use std::collections::VecDeque;

use thiserror::Error;

pub use operation::Request;
use operation::{Operation, Step};
pub use retries::Retries;
use retries::{Deadline, not_ready_ns};

use super::emitter::{Connection, Emitter, Mtu};
use crate::limits::{MESSAGE_LEN_MAX, OPERATIONS_MAX, READS_MAX, WINDOW_MAX};
use crate::wire::{Aeth, Body, NakCode, Psn, Syndrome, Transport};

/// The requesting end of a connection.
#[derive(Debug)]
pub struct Requester {
    emitter: Emitter,
    qpn: u32,
    mtu: Mtu,
    window: u32,
    reads_max: usize,
    retries: Retries,
    /// Unacknowledged operations, oldest first.
    operations: VecDeque<Operation>,
    completions: VecDeque<Completion>,
    /// The oldest packet without an acknowledgement, or response that has not arrived.
    acked: Psn,
    /// The packet that is sent next.
    cursor: Psn,
    /// The packet after the last one that was ever sent.
    highest: Psn,
    /// The packet after those of all operations.
    next: Psn,
    deadline: Deadline,
    /// A loss was inferred since the last progress. Further responses that show it change nothing.
    has_gone_back: bool,
    has_failed: bool,
}

/// The end of an operation.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Completion {
    /// The number that the operation was posted with.
    pub id: u64,
    /// Its result.
    pub result: Result<Outcome, OperationError>,
}

/// The result of an operation.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Outcome {
    /// A WRITE or SEND was executed.
    Done,
    /// The memory that was read.
    Read(Vec<u8>),
    /// The original value, of an atomic operation.
    Original(u64),
}

/// Why an operation failed. Nothing after it on the connection is executed.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Error)]
pub enum OperationError {
    /// The responder refused it.
    #[error("the responder refused it: {0:?}")]
    Refused(NakCode),
    /// It was sent too often without any progress. Whether it was executed is unknown.
    #[error("it was sent again too often")]
    RetriesExceeded,
    /// The peer had nowhere to receive it for too long.
    #[error("the receive queue of the peer stayed empty")]
    NotReady,
    /// The response has another length than it should have.
    #[error("the response has a wrong length")]
    BadResponse,
    /// Another operation failed. Whether this one was executed is unknown if it was sent.
    #[error("another operation failed")]
    Flushed,
}

/// Why an operation cannot be posted. Messages continue "failed to post the operation: ".
#[derive(Clone, Copy, Debug, PartialEq, Eq, Error)]
pub enum PostError {
    /// [`OPERATIONS_MAX`] are posted, or completed and not taken.
    #[error("{OPERATIONS_MAX} are posted already")]
    Full,
    /// The message is longer than [`MESSAGE_LEN_MAX`].
    #[error("{0} bytes are more than {MESSAGE_LEN_MAX}")]
    TooLong(usize),
    /// An operation failed, and with it the connection.
    #[error("the connection has failed")]
    Failed,
}

impl Requester {
    /// An end without operations, which sends at most `window` packets (1 to [`WINDOW_MAX`]) and
    /// `reads_max` READs and atomic operations (1 to [`READS_MAX`]) ahead of the acknowledgements.
    pub fn new(connection: &Connection, window: u32, reads_max: usize, retries: Retries) -> Self {
        let first = connection.first_psn;
        Self {
            emitter: Emitter::new(connection),
            qpn: connection.local_qpn,
            mtu: connection.mtu,
            window: window.clamp(1, WINDOW_MAX),
            reads_max: reads_max.clamp(1, READS_MAX),
            retries,
            operations: VecDeque::new(),
            completions: VecDeque::new(),
            acked: first,
            cursor: first,
            highest: first,
            next: first,
            deadline: Deadline::default(),
            has_gone_back: false,
            has_failed: false,
        }
    }

    /// Adds an operation to the queue. With `is_fenced`, it is not sent before all READs and atomic
    /// operations before it are complete; otherwise a READ that is sent again may see it.
    ///
    /// # Errors
    /// The queue is full, the message too long, or the connection has failed.
    pub fn post(&mut self, id: u64, request: Request, is_fenced: bool) -> Result<(), PostError> {
        if self.has_failed {
            return Err(PostError::Failed);
        }
        if self.operations.len() + self.completions.len() >= OPERATIONS_MAX {
            return Err(PostError::Full);
        }
        let len = request.len();
        if len > MESSAGE_LEN_MAX {
            return Err(PostError::TooLong(len));
        }
        let operation = Operation::new(id, request, is_fenced, self.next, self.mtu);
        self.next = operation.end();
        self.operations.push_back(operation);
        Ok(())
    }

    /// Takes the completion of the oldest operation that has one.
    pub fn take_completion(&mut self) -> Option<Completion> {
        self.completions.pop_front()
    }

    /// Number of operations posted and not complete.
    pub fn pending(&self) -> usize {
        self.operations.len()
    }

    /// Whether an operation failed. Then none can be posted.
    pub fn has_failed(&self) -> bool {
        self.has_failed
    }

    /// When [`Requester::transmit`] is to be called at the latest, on the clock of `now_ns`.
    pub fn deadline_ns(&self) -> Option<u64> {
        if self.operations.is_empty() {
            return None;
        }
        let has_unsent = self.cursor != self.next;
        self.deadline.next_ns(has_unsent)
    }

    /// Sends what may be sent, and sends again what has not been acknowledged in time.
    pub fn transmit(&mut self, now_ns: u64, send: &mut impl FnMut(&[u8])) {
        if self.deadline.is_over(now_ns) && !self.operations.is_empty() {
            self.go_back(now_ns);
        }
        if self.deadline.is_pausing(now_ns) {
            return;
        }
        while let Some(index) = self.sendable() {
            let operation = &self.operations[index];
            let Step { body, packets } = operation.packet(self.cursor, self.mtu);
            // One packet of every half window, so that a window that is full is acknowledged.
            let half = (self.window / 2).max(1);
            let after = self.cursor.plus(packets);
            let ack_requested =
                after == operation.end() || self.cursor.number().is_multiple_of(half);
            self.emitter.send(self.cursor, ack_requested, body, send);
            self.cursor = after;
            if self.cursor.distance_from(self.highest) > 0 {
                self.highest = self.cursor;
            }
            self.deadline.start(now_ns, &self.retries);
        }
    }

    /// The index of the operation that the cursor is in, if its packet may be sent.
    fn sendable(&self) -> Option<usize> {
        let outstanding = self.cursor.distance_from(self.acked);
        if self.cursor == self.next || outstanding >= self.window.cast_signed() {
            return None;
        }
        let index = self.index_of(self.cursor)?;
        let operation = &self.operations[index];
        let is_limited = operation.is_read_or_atomic();
        if operation.is_fenced || is_limited {
            let before = self.operations.iter().take(index);
            let reads = before.filter(|other| other.is_read_or_atomic()).count();
            let is_waiting =
                (operation.is_fenced && reads > 0) || (is_limited && reads >= self.reads_max);
            if is_waiting {
                return None;
            }
        }
        Some(index)
    }

    /// The index of the operation with this sequence number.
    fn index_of(&self, psn: Psn) -> Option<usize> {
        let after = self
            .operations
            .partition_point(|operation| operation.first.distance_from(psn) <= 0);
        after.checked_sub(1)
    }

    /// Takes a response.
    pub fn handle(&mut self, now_ns: u64, packet: &Transport) {
        let Transport { bth, body } = packet;
        let psn = bth.psn;
        let is_sent = psn.distance_from(self.acked) >= 0 && psn.distance_from(self.highest) < 0;
        if self.has_failed || bth.qpn != self.qpn || !is_sent {
            return;
        }
        match *body {
            Body::Acknowledge { aeth } => self.handle_acknowledge(now_ns, psn, aeth),
            Body::AtomicAcknowledge { original, .. } => self.handle_atomic(now_ns, psn, original),
            Body::ReadResponseFirst { payload, .. }
            | Body::ReadResponseMiddle { payload }
            | Body::ReadResponseLast { payload, .. }
            | Body::ReadResponseOnly { payload, .. } => self.handle_read(now_ns, psn, payload),
            _ => {}
        }
    }

    fn handle_acknowledge(&mut self, now_ns: u64, psn: Psn, aeth: Aeth) {
        match aeth.syndrome {
            Syndrome::Ack { .. } => {
                self.advance(now_ns, psn.plus(1));
            }
            Syndrome::ReceiverNotReady { timer } => {
                if self.advance(now_ns, psn) {
                    if !self.deadline.count_not_ready(&self.retries) {
                        self.fail(OperationError::NotReady, psn);
                        return;
                    }
                    self.cursor = self.acked;
                    let pause_ns = not_ready_ns(timer);
                    self.deadline.pause(now_ns, pause_ns, &self.retries);
                }
            }
            Syndrome::Nak(NakCode::PsnSequence) => {
                // If a response before was lost too, the cursor has gone back already.
                if self.advance(now_ns, psn) {
                    self.go_back(now_ns);
                }
            }
            Syndrome::Nak(nak) => {
                self.advance(now_ns, psn);
                self.fail(OperationError::Refused(nak), psn);
            }
            Syndrome::Reserved(_) => {}
        }
    }

    fn handle_atomic(&mut self, now_ns: u64, psn: Psn, original: u64) {
        let is_next = self.advance(now_ns, psn);
        if is_next && self.operations.front().is_some_and(Operation::is_atomic) {
            self.finish_front(now_ns, Outcome::Original(original));
        }
    }

    fn handle_read(&mut self, now_ns: u64, psn: Psn, payload: &[u8]) {
        if !self.advance(now_ns, psn) {
            return;
        }
        let mtu = self.mtu.bytes();
        let Some(operation) = self.operations.front_mut() else {
            return;
        };
        let Request::Read { len, .. } = operation.request else {
            return;
        };
        let left = len as usize - operation.received.len();
        if payload.len() != left.min(mtu) {
            self.fail(OperationError::BadResponse, self.acked);
            return;
        }
        operation.received.extend_from_slice(payload);
        if payload.len() == left {
            let bytes = std::mem::take(&mut operation.received);
            self.finish_front(now_ns, Outcome::Read(bytes));
        } else {
            self.progress(now_ns, self.acked.plus(1));
        }
    }

    /// Counts all packets before `target` as acknowledged. False if a READ or atomic operation is
    /// among them whose response has not arrived: it was lost, and is requested again.
    fn advance(&mut self, now_ns: u64, target: Psn) -> bool {
        while target.distance_from(self.acked) > 0 {
            let Some(operation) = self.operations.front() else {
                return false;
            };
            if operation.is_read_or_atomic() {
                if !self.has_gone_back {
                    self.has_gone_back = true;
                    self.go_back(now_ns);
                }
                return false;
            }
            if target.distance_from(operation.end()) >= 0 {
                self.finish_front(now_ns, Outcome::Done);
            } else {
                self.progress(now_ns, target);
            }
        }
        true
    }

    /// Completes the oldest operation.
    fn finish_front(&mut self, now_ns: u64, outcome: Outcome) {
        if let Some(operation) = self.operations.pop_front() {
            self.completions.push_back(Completion {
                id: operation.id,
                result: Ok(outcome),
            });
            self.progress(now_ns, operation.end());
        }
    }

    /// Packets before `acked` need not be sent again.
    fn progress(&mut self, now_ns: u64, acked: Psn) {
        self.acked = acked;
        if acked.distance_from(self.cursor) > 0 {
            self.cursor = acked;
        }
        self.has_gone_back = false;
        self.deadline.reset();
        if self.acked != self.highest {
            self.deadline.start(now_ns, &self.retries);
        }
    }

    /// Sends everything again that was not acknowledged, unless that happened too often.
    fn go_back(&mut self, now_ns: u64) {
        if self.deadline.count_retry(now_ns, &self.retries) {
            self.cursor = self.acked;
        } else {
            self.fail(OperationError::RetriesExceeded, self.acked);
        }
    }

    /// Completes all operations with an error: that with this sequence number with `error`.
    fn fail(&mut self, error: OperationError, psn: Psn) {
        self.has_failed = true;
        let failed = self.index_of(psn);
        for (index, operation) in self.operations.drain(..).enumerate() {
            let error = if failed == Some(index) {
                error
            } else {
                OperationError::Flushed
            };
            self.completions.push_back(Completion {
                id: operation.id,
                result: Err(error),
            });
        }
    }
}
