//! The supervisor thread of `threads` and `fibres`, the runtimes with a task per connection. It
//! does what concerns several tasks, or a task that has ended. It sleeps until there is one of
//! these reasons to act:
//!
//! - A task has finished and has to be joined.
//! - A connection waits for memory of the service. Then slow holders have to be closed.
//! - Maintenance is left. The tasks run its steps only while requests arrive.
//! - The peers have to be checked (a *sweep*). This happens about once a second, if the time for
//!   which a peer may be silent, or may take to complete a request, is limited.
//! - The server has to stop.

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
    CHECK_LATE_NS, DRAIN_CHECK_NS, SWEEP_CONNECTIONS, SWEEP_INTERVAL_NS, SWEEP_STEP_NS,
};
use crate::setup::second;
use crate::stop_deadline::StopDeadline;

/// The state of the supervisor thread.
pub(super) struct Supervisor<C: TaskRuntime> {
    tasks: Arc<ConnectionTasks<C>>,
    poll: Poll,
    /// The second (by [`second`]) of the last search for slow holders.
    searched_s: u32,
    /// The time of the next step of a sweep. `None` while no sweep is planned.
    next_sweep_ns: Option<u64>,
    /// The slot in the list of peers at which this step begins.
    sweep_start: Slot,
    /// The schedule of maintenance steps.
    maintenance: IdleMaintenance,
    /// The time at which the supervisor of a stopping server closes the connections that are still
    /// open. `None` until the supervisor notices that the server has to stop.
    /// The last sweep came late, so that it has closed nothing.
    has_postponed_sweep: bool,
    stop_deadline: Option<StopDeadline>,
}

impl<C: TaskRuntime> Supervisor<C> {
    pub(super) fn new(tasks: Arc<ConnectionTasks<C>>) -> io::Result<Self> {
        let poll = Poll::new()?;
        // The waker is the only source of events, so no code reads the token of an event.
        let token = 0;
        poll.add(&tasks.inbox.waker, token, Interest::Read)?;
        Ok(Self {
            tasks,
            poll,
            searched_s: 0,
            next_sweep_ns: None,
            sweep_start: 0,
            maintenance: IdleMaintenance::default(),
            has_postponed_sweep: false,
            stop_deadline: None,
        })
    }

    /// Runs until the server has to stop and the last task has ended. A panic of the supervisor is
    /// counted and does not end the thread. If it ended the thread, no finished task would be
    /// joined. Tasks that are not joined count towards `max_tasks`, so after some time no new task
    /// could be started.
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
        // An error is ignored. It does not happen in a correct program, and the calls below need no
        // events. With repeated errors, the supervisor would make these calls without sleeping.
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

    /// Returns after how many nanoseconds the supervisor has to act even if it is not woken. `None`
    /// if it has to act only when it is woken.
    fn wait_timeout_ns(&self, now_ns: u64) -> Option<u64> {
        let next_ns = [self.maintenance.next_ns(), self.next_sweep_ns];
        let timeouts_ns = next_ns.map(|at_ns| at_ns.map(|at_ns| at_ns.saturating_sub(now_ns)));
        // While the server stops, `drain` is called again after this time.
        let drain_ns = self.stop_deadline.as_ref().map(|_| DRAIN_CHECK_NS);
        timeouts_ns.into_iter().chain([drain_ns]).flatten().min()
    }

    /// Joins the finished tasks, and counts the tasks that have panicked. The finished tasks have
    /// ended or are about to end, so this does not wait for long.
    fn join(&mut self) {
        for task in self.tasks.peers.take_finished() {
            if task.join().is_err() {
                self.tasks.setup.counts.count_panics(1);
            }
        }
    }

    /// Closes the slow holders. Searches for them at most once per second, and only if a connection
    /// waits for memory of the service.
    fn close_slow_holders(&mut self, now_ns: u64) {
        let (setup, peers) = (&self.tasks.setup, &self.tasks.peers);
        let now_s = second(now_ns);
        if self.searched_s == now_s || !setup.counts.is_memory_requested(now_s) {
            return;
        }
        self.searched_s = now_s;
        for peer in peers.select(|peer| peer.is_slow_holder(now_s)) {
            setup.counts.count_closed_slow();
            peer.shut();
        }
    }

    /// Runs a step of a sweep if it is due. The step checks at most [`SWEEP_CONNECTIONS`] peers,
    /// and a sweep consists of as many steps as all peers need. A second after the last step of a
    /// sweep, the next sweep begins.
    ///
    /// Closes the connections of peers that have been silent for too long. If a peer has not
    /// completed a request in time, shuts down the receiving direction of its socket. Its task then
    /// receives the end of the stream, and gives the session (the service's state of the
    /// connection) the opportunity to send a last reply.
    fn sweep(&mut self, now_ns: u64) {
        let tasks = &self.tasks;
        if !tasks.is_sweeping.load(Ordering::Relaxed) {
            return;
        }
        let due_ns = *self.next_sweep_ns.get_or_insert(now_ns + SWEEP_INTERVAL_NS);
        if now_ns < due_ns {
            return;
        }
        let is_late = now_ns - due_ns > CHECK_LATE_NS;
        self.has_postponed_sweep = is_late && !self.has_postponed_sweep;
        if self.has_postponed_sweep {
            self.next_sweep_ns = Some(now_ns + SWEEP_INTERVAL_NS);
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
        // End the sweeps if there is no peer. Clear the flag before the check for peers. If
        // `ConnectionTasks::spawn` adds a peer after the check, it finds the flag cleared, sets it,
        // and wakes this thread.
        tasks.is_sweeping.store(false, Ordering::Relaxed);
        if tasks.peers.is_empty() {
            self.next_sweep_ns = None;
        } else {
            tasks.is_sweeping.store(true, Ordering::Relaxed);
        }
    }

    /// Runs a step of maintenance if it is due ([`IdleMaintenance`]). Successive steps use the
    /// worker contexts in turn.
    fn maintain(&mut self, now_ns: u64) {
        if !self.tasks.has_maintenance.load(Ordering::Relaxed) {
            return;
        }
        let tasks = &self.tasks;
        let task_step_ns = tasks.last_maintained_ns.load(Ordering::Relaxed);
        if !self.maintenance.is_step_due(now_ns, task_step_ns) {
            return;
        }
        // `None` means that no step was run, because the selected context is in use. Then assume
        // that this context has work.
        let has_more = tasks
            .run_maintenance_step(ContextChoice::LeastRecent, now_ns)
            .unwrap_or(true);
        let contexts = tasks.runtime.contexts();
        if !self.maintenance.record_step(now_ns, has_more, contexts) {
            self.end_maintenance();
        }
    }

    /// Ends maintenance until a task wakes the supervisor for it again.
    ///
    /// Does not end maintenance if a task has run a step since the last call of
    /// [`IdleMaintenance::is_step_due`]. The step may have left work. The task may have found
    /// `has_maintenance` still set, and so may not have woken the supervisor.
    fn end_maintenance(&mut self) {
        let tasks = &self.tasks;
        // Acquire: pairs with the release in `ConnectionTasks::maintain`. If a task has found the
        // flag set, the load below returns the time of this task's step.
        tasks.has_maintenance.swap(false, Ordering::Acquire);
        let task_step_ns = tasks.last_maintained_ns.load(Ordering::Relaxed);
        if self.maintenance.has_new_task_step(task_step_ns) {
            tasks.has_maintenance.store(true, Ordering::Relaxed);
            // `task_step_ns` is not recorded here. So the next call of `is_step_due` detects the
            // task's step too.
            return;
        }
        self.maintenance = IdleMaintenance::default();
    }

    /// Ends the connections of a stopping server. Before the deadline, this function ends only idle
    /// connections (their tasks wait for the first bytes of a request). After the deadline, it ends
    /// all connections. Returns true once no connection is open and all tasks are joined.
    ///
    /// To end an idle connection, it shuts down the receiving direction of the socket. The task
    /// first receives and answers the input that has arrived, and then receives the end of the
    /// stream. A connection that is not idle now is ended by a later call. Or its own task ends it:
    /// a task checks `stops_workers` when it becomes idle.
    fn drain(&mut self, now_ns: u64) -> bool {
        let drain_ns = self.tasks.setup.drain_ns;
        let deadline = self
            .stop_deadline
            .get_or_insert_with(|| StopDeadline::new(now_ns, drain_ns));
        let is_out_of_time = deadline.is_passed(now_ns);
        let peers = &self.tasks.peers;
        for peer in peers.select(|peer| is_out_of_time || peer.is_idle()) {
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
