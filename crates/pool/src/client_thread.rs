//! A client with a thread of its own, for users that must not wait.
//!
//! ```text
//! submit ─▶ queue ─▶ thread: client and port ─▶ the pool
//!                      └ complete ─▶ reply, on this thread
//! ```
//!
//! Invariants:
//! - Each reply is completed or refused once. It is dropped only if the result is not needed any
//!   more before the operation has begun, if the thread panics with the operation in progress, or
//!   if it ends before the pool has answered.
//! - Operations that are not complete are at most [`QUEUED_MAX`] and those of the client, and the
//!   values that they bring have at most [`VALUES_LEN_MAX`] bytes together. Besides, the client has
//!   the values that changes make of what was there: of the operations that go on, which are at
//!   most `outstanding_max`, and of those that wait for memory, with at most
//!   [`crate::limits::WAITING_DRAFTS_LEN_MAX`] bytes. Each value that is being written is copied
//!   for its packets.
//! - An operation completes within twice the time that the client allows for one: it waits for the
//!   client at most that long.

use std::collections::{HashMap, VecDeque};
use std::io;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, mpsc};
use std::thread::JoinHandle;

use sys::clock::monotonic_ns;
use sys::poll::Waker;

use crate::limits::{ERROR_PAUSE_NS, LEAVE_NS, QUEUED_MAX, TURN_NS, VALUES_LEN_MAX};
use crate::operation::{Completion, Operation, OperationError, Outcome, Refusal, SubmitError};
use crate::port::Port;
use crate::process::ClientPort;
use crate::{Client, ClientConfig, ClientCounters};

/// The result of an operation.
pub type Reply = Result<Outcome, OperationError>;

/// Takes the result of an operation.
pub trait ReplyTo: Send {
    /// Whether the result is not needed any more. An operation that has not begun is then left out.
    fn is_cancelled(&self) -> bool;

    /// Takes the result, on the client's thread or that of the caller. It must not wait.
    fn complete(self: Box<Self>, reply: Reply);

    /// The operation was not accepted, because too many wait. Nothing was done.
    fn refuse(self: Box<Self>);
}

/// The state of a client that another thread drives.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct ClientStatus {
    /// What the client has counted.
    pub counters: ClientCounters,
    /// Whether it has a lease and a connection.
    pub is_ready: bool,
    /// Operations that have been submitted and are not complete.
    pub pending: usize,
    /// Bytes of the values that they bring.
    pub pending_bytes: usize,
    /// Bytes of the values that those in progress have made of what was there.
    pub draft_bytes: usize,
    /// Operations that were not accepted, or have waited too long for the client.
    pub refused: u64,
}

/// A client and its thread. Dropping it ends both, and gives the lease back if the pool answers.
#[derive(Debug)]
pub struct ClientThread {
    shared: Arc<Shared>,
    thread: Option<JoinHandle<()>>,
}

struct Waiting {
    deadline_ns: u64,
    operation: Operation,
    reply_to: Box<dyn ReplyTo>,
    value: HeldValue,
}

/// The value of an operation, whose bytes count until this is dropped.
struct HeldValue {
    len: usize,
    shared: Arc<Shared>,
}

impl Drop for HeldValue {
    fn drop(&mut self) {
        self.shared
            .values_len
            .fetch_sub(self.len, Ordering::Relaxed);
    }
}

#[derive(Default)]
struct Queue {
    waiting: VecDeque<Waiting>,
    /// Operations that were not accepted, or have waited too long.
    refused: u64,
    /// The thread ends, or has ended.
    is_closed: bool,
}

struct Shared {
    queue: Mutex<Queue>,
    status: Mutex<ClientStatus>,
    /// Bytes of values of operations that are not complete. They increase under the queue's lock.
    values_len: AtomicUsize,
    /// Signalled when the queue is not empty any more, or is closed.
    waker: Waker,
    timeout_ns: u64,
}

impl std::fmt::Debug for Shared {
    fn fmt(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        formatter.debug_struct("Shared").finish_non_exhaustive()
    }
}

impl Shared {
    fn queue(&self) -> MutexGuard<'_, Queue> {
        self.queue.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn status(&self) -> MutexGuard<'_, ClientStatus> {
        self.status.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl ClientThread {
    /// Starts a client at a port, whose station it must have.
    ///
    /// # Errors
    /// No descriptor or thread is available.
    pub fn start(config: ClientConfig, port: Port) -> io::Result<Self> {
        let shared = Arc::new(Shared {
            queue: Mutex::default(),
            status: Mutex::default(),
            values_len: AtomicUsize::new(0),
            waker: Waker::new()?,
            timeout_ns: config.timeout_ns,
        });
        let (started, has_started) = mpsc::channel();
        let thread = std::thread::Builder::new().name("pool-client".to_owned());
        let thread = thread.spawn({
            let shared = Arc::clone(&shared);
            move || match Driver::new(config, port, shared) {
                Ok(driver) => {
                    let _ = started.send(Ok(()));
                    driver.run();
                }
                Err(error) => {
                    let _ = started.send(Err(error));
                }
            }
        })?;
        let this = Self {
            shared,
            thread: Some(thread),
        };
        // The thread always sends, unless it panics.
        let ended = |_| Err(io::Error::from(io::ErrorKind::BrokenPipe));
        has_started.recv().unwrap_or_else(ended)?;
        Ok(this)
    }

    /// Submits an operation. If too many wait already, or too long values, it is refused. If the
    /// thread has ended, it fails.
    pub fn submit(&self, operation: Operation, reply_to: Box<dyn ReplyTo>) {
        let deadline_ns = monotonic_ns().saturating_add(self.shared.timeout_ns);
        let len = operation.value_len();
        let mut queue = self.shared.queue();
        // Replies are code of the user, which may take other locks.
        if queue.is_closed {
            drop(queue);
            return reply_to.complete(Err(OperationError::Unavailable));
        }
        let values_len = self.shared.values_len.load(Ordering::Relaxed) + len;
        let is_too_long = len > 0 && values_len > VALUES_LEN_MAX;
        if queue.waiting.len() >= QUEUED_MAX || is_too_long {
            queue.refused += 1;
            drop(queue);
            return reply_to.refuse();
        }
        let was_empty = queue.waiting.is_empty();
        self.shared.values_len.fetch_add(len, Ordering::Relaxed);
        queue.waiting.push_back(Waiting {
            deadline_ns,
            operation,
            reply_to,
            value: HeldValue {
                len,
                shared: Arc::clone(&self.shared),
            },
        });
        drop(queue);
        if was_empty {
            self.shared.waker.wake();
        }
    }

    /// Ends the client. Operations in progress may still complete. Others are not accepted any
    /// more.
    pub fn close(&self) {
        self.shared.queue().is_closed = true;
        self.shared.waker.wake();
    }

    /// The state of the client a moment ago.
    #[must_use]
    pub fn status(&self) -> ClientStatus {
        let status = *self.shared.status();
        let queue = self.shared.queue();
        ClientStatus {
            pending: status.pending + queue.waiting.len(),
            pending_bytes: self.shared.values_len.load(Ordering::Relaxed),
            refused: queue.refused,
            ..status
        }
    }
}

impl Drop for ClientThread {
    fn drop(&mut self) {
        self.close();
        if let Some(thread) = self.thread.take() {
            // A panic of the thread has been printed. All its replies have been dropped.
            let _ = thread.join();
        }
    }
}

/// The state of the thread.
struct Driver {
    port: ClientPort,
    /// Where the results of submitted operations go.
    replies: HashMap<u64, (Box<dyn ReplyTo>, HeldValue)>,
    next_id: u64,
    shared: Arc<Shared>,
}

impl Drop for Driver {
    /// Completes the operations that wait, because none of them will begin.
    fn drop(&mut self) {
        let mut queue = self.shared.queue();
        queue.is_closed = true;
        let waiting = std::mem::take(&mut queue.waiting);
        drop(queue);
        self.shared.status().is_ready = false;
        for Waiting { reply_to, .. } in waiting {
            reply_to.complete(Err(OperationError::Unavailable));
        }
    }
}

impl Driver {
    /// The port waits by an epoll instance, which stays on the thread that has created it.
    fn new(config: ClientConfig, port: Port, shared: Arc<Shared>) -> io::Result<Self> {
        let mut port = ClientPort::new(Client::new(config), port)?;
        port.wake_by(&shared.waker)?;
        Ok(Self {
            port,
            replies: HashMap::new(),
            next_id: 0,
            shared,
        })
    }

    fn run(mut self) {
        let mut ends_at_ns = None;
        loop {
            self.shared.waker.clear();
            let has_more = self.submit_waiting();
            if self.shared.queue().is_closed {
                ends_at_ns.get_or_insert_with(|| monotonic_ns().saturating_add(LEAVE_NS));
                if !has_more {
                    self.port.client.leave();
                }
            }
            let until_ns = monotonic_ns().saturating_add(TURN_NS);
            if self.port.turn(ends_at_ns.unwrap_or(until_ns)).is_err() {
                std::thread::sleep(std::time::Duration::from_nanos(ERROR_PAUSE_NS));
            }
            while let Some(completion) = self.port.client.take_completion() {
                self.complete(completion);
            }
            self.publish();
            let is_late = ends_at_ns.is_some_and(|ends_at_ns| monotonic_ns() >= ends_at_ns);
            if is_late || self.port.client.has_left() {
                return;
            }
        }
    }

    /// Submits operations until the client takes no more. Returns whether some still wait.
    fn submit_waiting(&mut self) -> bool {
        loop {
            let Some(waiting) = self.shared.queue().waiting.pop_front() else {
                return false;
            };
            let now_ns = monotonic_ns();
            if waiting.reply_to.is_cancelled() {
                continue;
            }
            if waiting.deadline_ns <= now_ns {
                self.shared.queue().refused += 1;
                waiting.reply_to.complete(Err(OperationError::Unavailable));
                continue;
            }
            if self.port.client.is_full() {
                self.shared.queue().waiting.push_front(waiting);
                return true;
            }
            self.submit(now_ns, waiting);
        }
    }

    fn submit(&mut self, now_ns: u64, waiting: Waiting) {
        let Waiting {
            operation,
            reply_to,
            value,
            ..
        } = waiting;
        let id = self.next_id;
        match self.port.client.submit(now_ns, id, operation) {
            Ok(()) => {
                self.next_id += 1;
                self.replies.insert(id, (reply_to, value));
            }
            Err(SubmitError::TooLong) => {
                reply_to.complete(Ok(Outcome::Refused(Refusal::TooLong)));
            }
            // The client has space, unless it leaves.
            Err(SubmitError::Key | SubmitError::Busy) => reply_to.refuse(),
        }
    }

    fn complete(&mut self, completion: Completion) {
        if let Some((reply_to, _)) = self.replies.remove(&completion.id) {
            reply_to.complete(completion.result);
        }
    }

    fn publish(&self) {
        let client = &self.port.client;
        *self.shared.status() = ClientStatus {
            counters: client.counters(),
            is_ready: client.is_ready(monotonic_ns()),
            pending: client.pending(),
            pending_bytes: 0,
            draft_bytes: client.draft_bytes(),
            refused: 0,
        };
    }
}

#[cfg(test)]
mod tests {
    use std::sync::mpsc::{Receiver, RecvError, Sender};

    use super::*;
    use crate::Action;
    use crate::Station;
    use crate::port::UDP_PORT;

    struct Sink {
        /// None: it was refused.
        replies: Sender<Option<Reply>>,
        is_cancelled: bool,
    }

    impl ReplyTo for Sink {
        fn is_cancelled(&self) -> bool {
            self.is_cancelled
        }

        fn complete(self: Box<Self>, reply: Reply) {
            self.replies.send(Some(reply)).unwrap();
        }

        fn refuse(self: Box<Self>) {
            self.replies.send(None).unwrap();
        }
    }

    fn submit(thread: &ClientThread, is_cancelled: bool) -> Receiver<Option<Reply>> {
        submit_action(thread, Action::Get, is_cancelled)
    }

    fn submit_action(
        thread: &ClientThread,
        action: Action,
        is_cancelled: bool,
    ) -> Receiver<Option<Reply>> {
        let (replies, receiver) = mpsc::channel();
        let operation = Operation {
            key: b"key".to_vec(),
            action,
        };
        let sink = Sink {
            replies,
            is_cancelled,
        };
        thread.submit(operation, Box::new(sink));
        receiver
    }

    /// A client without a pool, at an address that no other test uses.
    fn without_pool(number: u8, timeout_ns: u64) -> ClientThread {
        let [_, _, high, low] = std::process::id().to_be_bytes();
        let [me, nothing] = [1, 2].map(|last| [127, 32 | high & 31, low, 2 * number + last]);
        let port = Port::loopback(me).unwrap();
        let config = ClientConfig {
            timeout_ns,
            ..ClientConfig::new(port.station(), Station::of_ip(nothing, UDP_PORT), 1)
        };
        ClientThread::start(config, port).unwrap()
    }

    #[test]
    fn values_are_accepted_up_to_a_bound_and_count_until_their_operations_are_complete() {
        let thread = without_pool(1, 100_000_000);
        let set = |len: usize| {
            let item = crate::NewItem {
                value: vec![0; len],
                ..crate::NewItem::default()
            };
            submit_action(&thread, Action::Set(item), false)
        };
        let len = VALUES_LEN_MAX / 80;
        let accepted: Vec<_> = (0..80).map(|_| set(len)).collect();
        assert_eq!(thread.status().pending_bytes, 80 * len);
        let refused = set(len + 1);
        assert_eq!(refused.recv(), Ok(None));
        assert_eq!(thread.status().refused, 1);
        // Reads need no space.
        let read = submit(&thread, false);
        for reply in accepted.iter().chain([&read]) {
            assert_eq!(reply.recv(), Ok(Some(Err(OperationError::Unavailable))));
        }
        while thread.status().pending_bytes > 0 {
            std::thread::yield_now();
        }
        assert_eq!(set(len).recv(), Ok(Some(Err(OperationError::Unavailable))));
    }

    #[test]
    fn without_a_pool_operations_fail_in_time_and_a_closed_thread_accepts_none() {
        let thread = without_pool(0, 50_000_000);
        // More than a client takes at once.
        let replies: Vec<_> = (0..600).map(|_| submit(&thread, false)).collect();
        let cancelled = submit(&thread, true);
        for reply in replies {
            assert_eq!(reply.recv(), Ok(Some(Err(OperationError::Unavailable))));
        }
        assert_eq!(cancelled.recv(), Err(RecvError), "it is left out");
        thread.close();
        let unavailable = Ok(Some(Err(OperationError::Unavailable)));
        assert_eq!(submit(&thread, false).recv(), unavailable);
        assert_eq!(thread.status().counters.completed, 0);
        // Ends although nothing answers.
        drop(thread);
    }
}
