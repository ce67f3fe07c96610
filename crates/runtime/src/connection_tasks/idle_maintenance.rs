//! The schedule of the supervisor's maintenance steps (steps of the service's background work).
//! While requests arrive, the tasks run such steps. Once no more requests arrive, the supervisor
//! thread runs steps for the work that is left.
//!
//! A request may leave work in the worker context that has answered it. So after the last request,
//! the supervisor has to run a step in each context. It knows only the time of the last step that a
//! task has run, not the time of the last request. This suffices:
//!
//! - A task that has answered a request runs a step, unless the last step of a task was less than
//!   `MAINTAIN_INTERVAL_NS` ago. (If all contexts are in use at this time, one of the tasks that
//!   use them runs the step later.) So the last step of a task comes after the last request, or
//!   less than this interval before it.
//! - The supervisor runs no step until at least this interval has passed since the last step of a
//!   task (the first assertion below). So its steps come after the last request in both cases.

use crate::limits::{
    IDLE_MAINTAIN_INTERVAL_NS, IDLE_MAINTAIN_STEPS, MAINTAIN_INTERVAL_NS, REQUESTS_CHECK_NS,
    REQUESTS_RECENT_NS,
};

const _: () = assert!(MAINTAIN_INTERVAL_NS <= REQUESTS_RECENT_NS);
// While requests arrive, the tasks run at least about one step per `MAINTAIN_INTERVAL_NS`. The
// supervisor checks every `REQUESTS_CHECK_NS` whether there was such a step. If it checked more
// often than the tasks run steps, some of its checks would find no new step.
const _: () = assert!(MAINTAIN_INTERVAL_NS <= REQUESTS_CHECK_NS);

/// Decides at what times the supervisor runs a step, and after which step maintenance ends. Each
/// step uses the next of the worker contexts in turn.
#[derive(Debug, Default)]
pub(super) struct IdleMaintenance {
    /// The time of the next decision whether the supervisor runs a step. `None` while no
    /// maintenance is in progress.
    next_ns: Option<u64>,
    /// The time of the last step of a task, as it was at the last decision.
    task_step_ns: u64,
    /// The number of steps of the supervisor since the last step of a task.
    steps: u32,
    /// How many steps in a row, up to the last step, have left no work in their worker contexts. If
    /// this number equals the number of contexts, no context has more work.
    idle_contexts: usize,
}

impl IdleMaintenance {
    /// Returns the time of the next decision, or `None` while no maintenance is in progress.
    pub(super) fn next_ns(&self) -> Option<u64> {
        self.next_ns
    }

    /// Returns whether the supervisor has to run a step now. `task_step_ns` is the time of the last
    /// step of a task. The first call on a new `IdleMaintenance` returns false, and sets the time
    /// of the first decision.
    ///
    /// No step is due if the last step of a task was less than [`REQUESTS_RECENT_NS`] ago. Then
    /// requests still arrive, and the tasks run enough steps. Also, a step uses a worker context
    /// that is *offline*: the context refers to no memory of the store. The step would bring the
    /// context online, and segments of the store could not be reclaimed until it is offline again.
    ///
    /// If a task has run a step since the last decision, requests may have left new work in
    /// contexts. So `steps` and `idle_contexts` are then counted from 0, even if that step of a
    /// task was longer than [`REQUESTS_RECENT_NS`] ago.
    pub(super) fn is_step_due(&mut self, now_ns: u64, task_step_ns: u64) -> bool {
        let Some(next_ns) = self.next_ns else {
            self.next_ns = Some(now_ns + IDLE_MAINTAIN_INTERVAL_NS);
            self.task_step_ns = task_step_ns;
            return false;
        };
        if now_ns < next_ns {
            return false;
        }
        if self.has_new_task_step(task_step_ns) {
            (self.steps, self.idle_contexts) = (0, 0);
            self.task_step_ns = task_step_ns;
        }
        let are_requests_arriving = now_ns.saturating_sub(task_step_ns) < REQUESTS_RECENT_NS;
        if are_requests_arriving {
            self.next_ns = Some(now_ns + REQUESTS_CHECK_NS);
        }
        !are_requests_arriving
    }

    /// Returns whether a task has run a step since the last decision. `task_step_ns` is the time of
    /// the last step of a task.
    pub(super) fn has_new_task_step(&self, task_step_ns: u64) -> bool {
        task_step_ns != self.task_step_ns
    }

    /// Records a step of the supervisor. `has_more` is true if the step has left work in its worker
    /// context. `contexts` is the number of contexts. Returns whether another step follows. No step
    /// follows if no context has more work, or after [`IDLE_MAINTAIN_STEPS`] steps. The caller then
    /// ends maintenance, unless a task has run a step meanwhile.
    pub(super) fn record_step(&mut self, now_ns: u64, has_more: bool, contexts: usize) -> bool {
        self.next_ns = Some(now_ns + IDLE_MAINTAIN_INTERVAL_NS);
        self.steps += 1;
        self.idle_contexts = match has_more {
            true => 0,
            false => self.idle_contexts + 1,
        };
        self.idle_contexts < contexts && self.steps < IDLE_MAINTAIN_STEPS
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The time of the last step of a task before a test begins.
    const BEFORE_NS: u64 = 1;
    /// The argument `has_more` of [`IdleMaintenance::record_step`] after a step that leaves work.
    const MORE_WORK: bool = true;
    /// The argument `has_more` after a step that leaves no work.
    const NO_WORK: bool = false;

    /// Sets `now_ns` to the time of the next decision, and returns this time.
    fn advance(maintenance: &IdleMaintenance, now_ns: &mut u64) -> u64 {
        *now_ns = maintenance.next_ns().unwrap_or(*now_ns);
        *now_ns
    }

    /// Runs steps from the next decision on, until [`IdleMaintenance::record_step`] returns false.
    /// Meanwhile, tasks run no steps. `has_more` is the same for each step. Returns the number of
    /// steps.
    fn steps_until_end(
        maintenance: &mut IdleMaintenance,
        now_ns: &mut u64,
        has_more: bool,
        contexts: usize,
    ) -> u32 {
        for steps in 1.. {
            let now_ns = advance(maintenance, now_ns);
            assert!(maintenance.is_step_due(now_ns, maintenance.task_step_ns));
            if !maintenance.record_step(now_ns, has_more, contexts) {
                return steps;
            }
        }
        0
    }

    #[test]
    fn first_step_is_due_one_interval_after_maintenance_has_begun() {
        let mut maintenance = IdleMaintenance::default();
        let begin_ns = 5;
        assert!(!maintenance.is_step_due(begin_ns, BEFORE_NS));
        let due_ns = begin_ns + IDLE_MAINTAIN_INTERVAL_NS;
        assert!(!maintenance.is_step_due(due_ns - 1, BEFORE_NS));
        assert!(maintenance.is_step_due(due_ns, BEFORE_NS));
    }

    #[test]
    fn maintenance_ends_once_no_context_has_more_work() {
        let (mut maintenance, mut now_ns) = (IdleMaintenance::default(), 5);
        let contexts = 3;
        maintenance.is_step_due(now_ns, BEFORE_NS);
        advance(&maintenance, &mut now_ns);
        assert!(maintenance.record_step(now_ns, NO_WORK, contexts));
        assert!(maintenance.record_step(now_ns, MORE_WORK, contexts));
        // After the step that left work, each context needs a step that leaves none.
        let steps = steps_until_end(&mut maintenance, &mut now_ns, NO_WORK, contexts);
        assert_eq!(steps, 3);
    }

    /// Regression: decisions made while requests arrived were counted as steps. So the maximum
    /// number of steps could be reached soon after the last request.
    #[test]
    fn maximum_of_steps_is_counted_from_the_last_step_of_a_task() {
        let (mut maintenance, mut now_ns) = (IdleMaintenance::default(), 5);
        let contexts = 1;
        maintenance.is_step_due(now_ns, BEFORE_NS);
        let first_ns = advance(&maintenance, &mut now_ns);
        assert!(maintenance.record_step(first_ns, MORE_WORK, contexts));
        // More decisions than the maximum number of steps. Before each, a task has run a step.
        for _ in 0..2 * IDLE_MAINTAIN_STEPS {
            let now_ns = advance(&maintenance, &mut now_ns);
            let task_step_ns = now_ns;
            assert!(!maintenance.is_step_due(now_ns, task_step_ns));
        }
        // From the next decision on, the last step of a task is no longer recent.
        now_ns += REQUESTS_RECENT_NS;
        let steps = steps_until_end(&mut maintenance, &mut now_ns, MORE_WORK, contexts);
        assert_eq!(steps, IDLE_MAINTAIN_STEPS);
    }

    /// The first step leaves no work in its context. Then a task runs a step. The requests before
    /// it may have left new work in any context, so each context gets another step.
    #[test]
    fn each_context_is_maintained_again_after_a_step_of_a_task() {
        let (mut maintenance, mut now_ns) = (IdleMaintenance::default(), 5);
        let contexts = 2;
        maintenance.is_step_due(now_ns, BEFORE_NS);
        let first_ns = advance(&maintenance, &mut now_ns);
        assert!(maintenance.record_step(first_ns, NO_WORK, contexts));
        let task_step_ns = advance(&maintenance, &mut now_ns);
        assert!(!maintenance.is_step_due(now_ns, task_step_ns));
        let steps = steps_until_end(&mut maintenance, &mut now_ns, NO_WORK, contexts);
        assert_eq!(steps, 2);
    }

    /// Regression: only requests within [`REQUESTS_RECENT_NS`] before a decision were detected.
    /// That is half the interval between two decisions, so a request in the first half was
    /// overlooked. The work that it left in a context waited until another request was detected.
    #[test]
    fn a_step_of_a_task_just_after_a_decision_is_detected_by_the_next_decision() {
        let (mut maintenance, mut now_ns) = (IdleMaintenance::default(), 5);
        let contexts = 2;
        maintenance.is_step_due(now_ns, BEFORE_NS);
        advance(&maintenance, &mut now_ns);
        assert!(maintenance.is_step_due(now_ns, BEFORE_NS));
        assert!(maintenance.record_step(now_ns, NO_WORK, contexts));
        let task_step_ns = now_ns + 1;
        assert!(maintenance.has_new_task_step(task_step_ns));
        let now_ns = advance(&maintenance, &mut now_ns);
        assert!(maintenance.is_step_due(now_ns, task_step_ns));
        assert!(
            maintenance.record_step(now_ns, NO_WORK, contexts),
            "the context found without work may have served the request"
        );
    }
}
