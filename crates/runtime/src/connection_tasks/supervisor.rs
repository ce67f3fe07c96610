//! The supervisor thread of `threads` and `fibres`, the runtimes with a task (a thread or a fibre)
//! per connection. It does the work that belongs to no single task, and sleeps until there is one
//! of five reasons to act:
//!
//! - a task has finished and has to be joined;
//! - a connection waits for memory, so slow holders (connections that hold such memory, and whose
//!   peers are inactive) have to be closed;
//! - the service has maintenance to do, which tasks do only while requests arrive;
//! - peers have to be checked, once a second, if there is a limit for their silence or a deadline
//!   for their input;
//! - the server has to stop.

use std::io;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;
use std::sync::atomic::Ordering;

use sys::clock::monotonic_ns;
use sys::poll::{Events, Interest, Poll};

use super::idle_maintenance::IdleMaintenance;
use super::{ConnectionTasks, ContextChoice, Peer, Task, TaskRuntime};
use crate::connection::Overdue;
use crate::connection_table::Slot;
use crate::limits::{
    DRAIN_CHECK_NS, DRAIN_NS, SWEEP_CONNECTIONS, SWEEP_INTERVAL_NS, SWEEP_STEP_NS,
};
use crate::setup::second;

/// The state of the supervisor thread.
pub(super) struct Supervisor<C: TaskRuntime> {
    tasks: Arc<ConnectionTasks<C>>,
    poll: Poll,
    /// Time of the last search for slow holders, in seconds.
    searched_s: u32,
    /// When peers are checked next for silence and passed deadlines. `None` while no check is
    /// planned.
    next_sweep_ns: Option<u64>,
    /// The slot in the list of peers at which the next check begins.
    sweep_start: Slot,
    /// The schedule of maintenance steps.
    maintenance: IdleMaintenance,
    /// The time at which connections that are still open are closed. `None` until the supervisor
    /// notices that the server has to stop.
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
            next_sweep_ns: None,
            sweep_start: 0,
            maintenance: IdleMaintenance::default(),
            stop_deadline_ns: None,
        })
    }

    /// Runs until the server has to stop and the last task has ended. A panic here is counted and
    /// does not end the thread. Without the thread, finished tasks would not be joined. They count
    /// towards `max_tasks`, so in the end no new task could be started.
    pub(super) fn run(mut self) {
        let mut events = Events::with_capacity(1);
        loop {
            match catch_unwind(AssertUnwindSafe(|| self.supervise(&mut events))) {
                Ok(false) => {}
                Ok(true) => break,
                Err(_) => {
                    self.tasks.setup.counts.count_restart();
                    // The panic may come from maintenance. End maintenance, so that it does not
                    // panic again and again.
                    self.maintenance = IdleMaintenance::default();
                    self.tasks.has_maintenance.store(false, Ordering::Relaxed);
                }
            }
        }
        self.tasks.runtime.stop();
    }

    /// Waits until there may be a reason to act, then does all work that is due. Returns true once
    /// the server has to stop and the last task has ended.
    fn supervise(&mut self, events: &mut Events) -> bool {
        // Waiting does not fail in a correct program. An error can be ignored, because the checks
        // below depend on no event. The supervisor would then check without sleeping.
        let _ = self.poll.wait(events, self.wait_timeout_ns(monotonic_ns()));
        if !events.is_empty() {
            self.tasks.inbox.waker.clear();
        }
        let now_ns = monotonic_ns();
        self.join();
        self.close_slow_holders(now_ns);
        self.sweep(now_ns);
        self.maintain(now_ns);
        self.tasks.stops_workers.load(Ordering::Relaxed) && self.drain(now_ns)
    }

    /// Returns after how many nanoseconds the supervisor has to act even if it is not woken.
    fn wait_timeout_ns(&self, now_ns: u64) -> Option<u64> {
        let next_ns = [self.maintenance.next_ns(), self.next_sweep_ns];
        let timeouts_ns = next_ns.map(|at_ns| at_ns.map(|at_ns| at_ns.saturating_sub(now_ns)));
        let drain_ns = self.stop_deadline_ns.map(|_| DRAIN_CHECK_NS);
        timeouts_ns.into_iter().chain([drain_ns]).flatten().min()
    }

    /// Joins the finished tasks. These tasks have ended or are about to return, so joining does not
    /// wait for long.
    fn join(&mut self) {
        for task in self.tasks.peers.take_finished() {
            if task.join().is_err() {
                self.tasks.setup.counts.count_panics(1);
            }
        }
    }

    /// Closes the connections of slow holders: peers that have been inactive for more than a
    /// second, and whose tasks hold memory of the service. Does so at most once per second, and
    /// only if a connection waits for memory.
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

    /// Closes the connections of peers that have been silent for too long. Ends the input of peers
    /// whose input was not complete in time: the tasks of these peers receive the end of the
    /// stream, and their sessions get another turn. Checks at most [`SWEEP_CONNECTIONS`] peers at a
    /// time, and all of them once a second.
    fn sweep(&mut self, now_ns: u64) {
        let tasks = &self.tasks;
        if !tasks.is_sweeping.load(Ordering::Relaxed) {
            return;
        }
        let due_ns = *self.next_sweep_ns.get_or_insert(now_ns + SWEEP_INTERVAL_NS);
        if now_ns < due_ns {
            return;
        }
        let (setup, start) = (&tasks.setup, self.sweep_start);
        let overdue = |peer: &Peer| peer.overdue(setup.idle_s, now_ns);
        let (found, next) = tasks.peers.find(start, SWEEP_CONNECTIONS, overdue);
        for (peer, overdue) in found {
            match overdue {
                Overdue::Idle => {
                    setup.counts.count_closed_idle();
                    peer.shut();
                }
                Overdue::Deadline => {
                    peer.set_input_deadline(None);
                    peer.stream.shutdown_receive();
                }
            }
        }
        self.sweep_start = next.unwrap_or(0);
        let pause_ns = next.map_or(SWEEP_INTERVAL_NS, |_| SWEEP_STEP_NS);
        self.next_sweep_ns = Some(now_ns + pause_ns);
        // Clear the flag before looking for peers. If `ConnectionTasks::spawn` adds a peer after
        // `is_empty` has returned true, it finds the flag cleared, sets it, and wakes this thread.
        tasks.is_sweeping.store(false, Ordering::Relaxed);
        if tasks.peers.is_empty() {
            self.next_sweep_ns = None;
        } else {
            tasks.is_sweeping.store(true, Ordering::Relaxed);
        }
    }

    /// Runs a step of maintenance if one is due ([`IdleMaintenance`]). The steps use each context
    /// in turn.
    fn maintain(&mut self, now_ns: u64) {
        if !self.tasks.has_maintenance.load(Ordering::Relaxed) {
            return;
        }
        let tasks = &self.tasks;
        let requested_ns = tasks.last_maintained_ns.load(Ordering::Relaxed);
        if !self.maintenance.is_step_due(now_ns, requested_ns) {
            return;
        }
        // `None` means that the context is in use. So assume that it has more to do.
        let has_more = tasks
            .maintain_at(ContextChoice::LeastRecent, now_ns)
            .unwrap_or(true);
        let contexts = tasks.runtime.contexts();
        if !self.maintenance.record_step(now_ns, has_more, contexts) {
            self.end_maintenance();
        }
    }

    /// Ends maintenance until a task wakes the supervisor for it again. But maintenance continues
    /// if a task has run a step since the last decision: this task may have found
    /// `has_maintenance` set, and has then not woken the supervisor.
    fn end_maintenance(&mut self) {
        let tasks = &self.tasks;
        // Acquire: pairs with the release in `ConnectionTasks::maintain`. If a task has found the
        // flag set, the time of its step is seen below.
        tasks.has_maintenance.swap(false, Ordering::Acquire);
        let requested_ns = tasks.last_maintained_ns.load(Ordering::Relaxed);
        if self.maintenance.has_new_requests(requested_ns) {
            tasks.has_maintenance.store(true, Ordering::Relaxed);
            // The next decision detects the task's step as new, because `requested_ns` has not been
            // recorded.
            return;
        }
        self.maintenance = IdleMaintenance::default();
    }

    /// Ends the idle connections, or all connections if the deadline has passed. Returns true once
    /// no connection is open and all tasks are joined.
    ///
    /// An idle connection is ended by shutting down the receiving side of its socket. Its task
    /// first receives and answers the input that has arrived, and then receives the end of the
    /// stream. A connection that is not idle now is ended in a later call, or by its own task,
    /// which checks `stops_workers` when it becomes idle.
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
