//! The schedule of the supervisor's maintenance steps. Tasks (the threads or fibres of connections)
//! run steps while requests arrive. Once no more requests arrive, the supervisor thread runs the
//! steps that are left.
//!
//! The supervisor does not see requests, only the time of the last step that a task has run. This
//! is enough to run a step in each worker context after each request:
//!
//! - A task that answers a request runs a step, unless a task has run one less than
//!   `MAINTAIN_INTERVAL_NS` before.
//! - The supervisor runs no step before this interval has passed since the last step of a task. The
//!   assertions below ensure this.

use crate::limits::{
    IDLE_MAINTAIN_INTERVAL_NS, IDLE_MAINTAIN_STEPS, MAINTAIN_INTERVAL_NS, REQUESTS_CHECK_NS,
    REQUESTS_RECENT_NS,
};

const _: () = assert!(MAINTAIN_INTERVAL_NS <= REQUESTS_RECENT_NS);
const _: () = assert!(MAINTAIN_INTERVAL_NS <= REQUESTS_CHECK_NS);

/// Decides when the supervisor runs a step, and when the last step has been run. Each step uses the
/// next of the worker contexts in turn. (A worker context is the service's state for one task at a
/// time, `connection_tasks.rs`.)
#[derive(Debug, Default)]
pub(super) struct IdleMaintenance {
    /// Time of the next decision. `None` while no maintenance is in progress.
    next_ns: Option<u64>,
    /// Time of the last step of a task that the last decision knew.
    requested_ns: u64,
    /// The number of steps of the supervisor since requests last arrived.
    steps: u32,
    /// The number of consecutive steps that left no more work in their worker context. If this
    /// number equals the number of contexts, no context has more work.
    idle_contexts: usize,
}

impl IdleMaintenance {
    /// Returns the time of the next decision, or `None` while no maintenance is in progress.
    pub(super) fn next_ns(&self) -> Option<u64> {
        self.next_ns
    }

    /// Returns whether the supervisor has to run a step now. `requested_ns` is the time of the last
    /// step of a task. The first call after maintenance has begun only sets the time of the first
    /// decision.
    ///
    /// While requests arrive, no step is due, because the tasks run enough steps. A further step
    /// would also bring a context online, and segments of the store could not be reclaimed before
    /// the context is offline again.
    ///
    /// A request may give its context new work. So the two counts begin at 0 again if a request
    /// came since the last decision, even if it is no longer recent.
    pub(super) fn is_step_due(&mut self, now_ns: u64, requested_ns: u64) -> bool {
        let Some(next_ns) = self.next_ns else {
            self.next_ns = Some(now_ns + IDLE_MAINTAIN_INTERVAL_NS);
            self.requested_ns = requested_ns;
            return false;
        };
        if now_ns < next_ns {
            return false;
        }
        if self.has_new_requests(requested_ns) {
            (self.steps, self.idle_contexts) = (0, 0);
            self.requested_ns = requested_ns;
        }
        let are_requests_arriving = now_ns.saturating_sub(requested_ns) < REQUESTS_RECENT_NS;
        if are_requests_arriving {
            self.next_ns = Some(now_ns + REQUESTS_CHECK_NS);
        }
        !are_requests_arriving
    }

    /// Returns whether a task has run a step since the last decision: `requested_ns`, the time of
    /// the last such step, has changed.
    pub(super) fn has_new_requests(&self, requested_ns: u64) -> bool {
        requested_ns != self.requested_ns
    }

    /// Records a step. `has_more`: the step left more work in its worker context. `contexts` is the
    /// number of contexts. Returns whether another step follows. No step follows if no context has
    /// more work, or after [`IDLE_MAINTAIN_STEPS`] steps. The caller then replaces this value by a
    /// new one.
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

    /// Time of the last request before a test begins.
    const BEFORE_NS: u64 = 1;
    /// The argument `has_more` of [`IdleMaintenance::record_step`] after a step that leaves work.
    const MORE_WORK: bool = true;
    /// The same after a step that leaves no work.
    const NO_WORK: bool = false;

    /// Moves the time forward to the next decision, and returns the new time.
    fn advance(maintenance: &IdleMaintenance, now_ns: &mut u64) -> u64 {
        *now_ns = maintenance.next_ns().unwrap_or(*now_ns);
        *now_ns
    }

    /// Runs steps until [`IdleMaintenance::record_step`] returns false. `has_more` is the same for
    /// each step. Returns the number of steps.
    fn steps_until_end(
        maintenance: &mut IdleMaintenance,
        now_ns: &mut u64,
        has_more: bool,
        contexts: usize,
    ) -> u32 {
        for steps in 1.. {
            let now_ns = advance(maintenance, now_ns);
            assert!(maintenance.is_step_due(now_ns, maintenance.requested_ns));
            if !maintenance.record_step(now_ns, has_more, contexts) {
                return steps;
            }
        }
        0
    }

    #[test]
    fn first_step_is_due_after_an_interval() {
        let mut maintenance = IdleMaintenance::default();
        assert!(!maintenance.is_step_due(5, BEFORE_NS));
        assert!(!maintenance.is_step_due(4 + IDLE_MAINTAIN_INTERVAL_NS, BEFORE_NS));
        assert!(maintenance.is_step_due(5 + IDLE_MAINTAIN_INTERVAL_NS, BEFORE_NS));
    }

    #[test]
    fn maintenance_ends_once_no_context_has_more_work() {
        let (mut maintenance, mut now_ns) = (IdleMaintenance::default(), 5);
        let contexts = 3;
        maintenance.is_step_due(now_ns, BEFORE_NS);
        advance(&maintenance, &mut now_ns);
        assert!(maintenance.record_step(now_ns, NO_WORK, contexts));
        assert!(maintenance.record_step(now_ns, MORE_WORK, contexts));
        let steps = steps_until_end(&mut maintenance, &mut now_ns, NO_WORK, contexts);
        assert_eq!(steps, 3);
    }

    /// Regression: decisions made while requests arrived were counted as steps, so maintenance
    /// could end soon after the last request.
    #[test]
    fn maximum_of_steps_is_counted_from_the_last_request() {
        let (mut maintenance, mut now_ns) = (IdleMaintenance::default(), 5);
        let contexts = 1;
        maintenance.is_step_due(now_ns, BEFORE_NS);
        let first_ns = advance(&maintenance, &mut now_ns);
        assert!(maintenance.record_step(first_ns, MORE_WORK, contexts));
        for _ in 0..2 * IDLE_MAINTAIN_STEPS {
            let now_ns = advance(&maintenance, &mut now_ns);
            assert!(!maintenance.is_step_due(now_ns, now_ns));
        }
        // At all later decisions, the requests are no longer recent.
        now_ns += REQUESTS_RECENT_NS;
        let steps = steps_until_end(&mut maintenance, &mut now_ns, MORE_WORK, contexts);
        assert_eq!(steps, IDLE_MAINTAIN_STEPS);
    }

    /// The first step leaves no work in its context. A later request may give this context new
    /// work, so it gets another step.
    #[test]
    fn a_context_that_has_served_a_request_is_maintained_again() {
        let (mut maintenance, mut now_ns) = (IdleMaintenance::default(), 5);
        let contexts = 2;
        maintenance.is_step_due(now_ns, BEFORE_NS);
        let first_ns = advance(&maintenance, &mut now_ns);
        assert!(maintenance.record_step(first_ns, NO_WORK, contexts));
        let requested_ns = advance(&maintenance, &mut now_ns);
        assert!(!maintenance.is_step_due(now_ns, requested_ns));
        let steps = steps_until_end(&mut maintenance, &mut now_ns, NO_WORK, contexts);
        assert_eq!(steps, 2);
    }

    /// Regression: a request in the first half of the interval between two decisions was
    /// overlooked, so the work that it left in a context waited for the next request.
    #[test]
    fn a_request_just_after_a_decision_is_detected_by_the_next_decision() {
        let (mut maintenance, mut now_ns) = (IdleMaintenance::default(), 5);
        let contexts = 2;
        maintenance.is_step_due(now_ns, BEFORE_NS);
        advance(&maintenance, &mut now_ns);
        assert!(maintenance.is_step_due(now_ns, BEFORE_NS));
        assert!(maintenance.record_step(now_ns, NO_WORK, contexts));
        let requested_ns = now_ns + 1;
        assert!(maintenance.has_new_requests(requested_ns));
        let now_ns = advance(&maintenance, &mut now_ns);
        assert!(maintenance.is_step_due(now_ns, requested_ns));
        assert!(
            maintenance.record_step(now_ns, NO_WORK, contexts),
            "the context found without work may have served the request"
        );
    }
}
