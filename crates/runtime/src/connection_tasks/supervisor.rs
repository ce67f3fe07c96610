//! The supervisor: a thread that sleeps until a task has finished, a connection requests memory,
//! the service has maintenance that requests do not cover, or the server has to stop.

use std::io;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;
use std::sync::atomic::Ordering;

use sys::clock::monotonic_ns;
use sys::poll::{Events, Interest, Poll};

use super::{ConnectionTasks, ContextChoice, Task, TaskRuntime};
use crate::limits::{DRAIN_CHECK_NS, DRAIN_NS, IDLE_MAINTAIN_INTERVAL_NS, IDLE_MAINTAIN_STEPS};
use crate::setup::second;

/// The supervisor.
pub(super) struct Supervisor<C: TaskRuntime> {
    tasks: Arc<ConnectionTasks<C>>,
    poll: Poll,
    /// The second of the last search for slow holders.
    searched_s: u32,
    /// When the next maintenance step is due, if any.
    next_maintain_ns: Option<u64>,
    /// Steps of maintenance since the supervisor was woken for it.
    steps: u32,
    /// Contexts in a row that had no more maintenance to do.
    idle_contexts: usize,
    /// Deadline after which remaining connections are closed.
    stop_deadline_ns: Option<u64>,
}

impl<C: TaskRuntime> Supervisor<C> {
    pub(super) fn new(tasks: Arc<ConnectionTasks<C>>) -> io::Result<Self> {
        let poll = Poll::new()?;
        poll.add(&tasks.inbox.waker, 0, Interest::Read)?;
        Ok(Self {
            tasks,
            poll,
            searched_s: 0,
            next_maintain_ns: None,
            steps: 0,
            idle_contexts: 0,
            stop_deadline_ns: None,
        })
    }

    /// Runs until the last task has ended. A panic here is counted and does not end the thread:
    /// otherwise finished tasks would not be joined, and at some point no task could be started.
    pub(super) fn run(mut self) {
        let mut events = Events::with_capacity(1);
        loop {
            match catch_unwind(AssertUnwindSafe(|| self.supervise(&mut events))) {
                Ok(false) => {}
                Ok(true) => break,
                Err(_) => {
                    self.tasks.setup.counts.count_restart();
                    // A failing step must not be repeated without end.
                    self.end_maintenance();
                }
            }
        }
        self.tasks.runtime.stop();
    }

    /// Waits for an event and handles it. Returns true once the last task has ended.
    fn supervise(&mut self, events: &mut Events) -> bool {
        // Waiting cannot fail. If it did, the loop would only check again at once.
        let _ = self.poll.wait(events, self.wait_timeout_ns(monotonic_ns()));
        if !events.is_empty() {
            self.tasks.inbox.waker.clear();
        }
        let now_ns = monotonic_ns();
        self.join();
        self.close_slow_holders(now_ns);
        self.maintain(now_ns);
        self.tasks.is_ending.load(Ordering::Relaxed) && self.drain(now_ns)
    }

    fn wait_timeout_ns(&self, now_ns: u64) -> Option<u64> {
        let next_maintain_ns = self
            .next_maintain_ns
            .map(|at_ns| at_ns.saturating_sub(now_ns));
        let drain_ns = self.stop_deadline_ns.map(|_| DRAIN_CHECK_NS);
        next_maintain_ns.into_iter().chain(drain_ns).min()
    }

    /// Joins finished tasks. A task in that list only has to return, so joining is quick.
    fn join(&mut self) {
        for task in self.tasks.peers.take_finished() {
            if task.join().is_err() {
                self.tasks.setup.counts.count_panics(1);
            }
        }
    }

    /// Closes every peer that holds memory of the service, has been inactive for long, and blocks
    /// others.
    fn close_slow_holders(&mut self, now_ns: u64) {
        let (setup, peers) = (&self.tasks.setup, &self.tasks.peers);
        let now_s = second(now_ns);
        if self.searched_s == now_s || !setup.counts.is_memory_requested(now_s) {
            return;
        }
        self.searched_s = now_s;
        for peer in peers.peers(|peer| peer.is_slow_holder(now_s)) {
            setup.counts.count_closed_slow();
            peer.shut();
        }
    }

    /// Runs maintenance while no requests do, one context after the other, for a bounded time after
    /// the last request. While requests run it does nothing, because a context in use delays the
    /// reclamation of segments.
    fn maintain(&mut self, now_ns: u64) {
        if !self.tasks.has_maintenance.load(Ordering::Relaxed) {
            return;
        }
        let due_ns = *self
            .next_maintain_ns
            .get_or_insert(now_ns + IDLE_MAINTAIN_INTERVAL_NS);
        if now_ns < due_ns {
            return;
        }
        let tasks = &self.tasks;
        if tasks.is_maintenance_due(IDLE_MAINTAIN_INTERVAL_NS / 2, now_ns) {
            // A context in use counts as having more to do.
            let has_more = tasks
                .maintain_at(ContextChoice::LeastRecent, now_ns)
                .unwrap_or(true);
            self.idle_contexts = match has_more {
                true => 0,
                false => self.idle_contexts + 1,
            };
        }
        self.steps += 1;
        if self.idle_contexts < tasks.runtime.contexts() && self.steps < IDLE_MAINTAIN_STEPS {
            self.next_maintain_ns = Some(now_ns + IDLE_MAINTAIN_INTERVAL_NS);
        } else {
            self.end_maintenance();
        }
    }

    /// Ends the maintenance without requests.
    fn end_maintenance(&mut self) {
        (self.next_maintain_ns, self.steps, self.idle_contexts) = (None, 0, 0);
        self.tasks.has_maintenance.store(false, Ordering::Relaxed);
    }

    /// Ends idle connections, and all of them after the deadline. Returns true once no connection
    /// and no task is left.
    ///
    /// An idle connection still answers the input that has arrived: the socket returns it before
    /// the end of file. A busy connection notices the stop when it becomes idle; if its task misses
    /// the flag, the next check ends it.
    fn drain(&mut self, now_ns: u64) -> bool {
        let stop_deadline_ns = *self.stop_deadline_ns.get_or_insert(now_ns + DRAIN_NS);
        let is_out_of_time = now_ns >= stop_deadline_ns;
        let peers = &self.tasks.peers;
        for peer in peers.peers(|peer| is_out_of_time || peer.is_idle()) {
            if is_out_of_time {
                peer.shut();
            } else {
                peer.stream.shutdown_receive();
            }
        }
        self.join();
        self.tasks.peers.is_empty()
    }
}
