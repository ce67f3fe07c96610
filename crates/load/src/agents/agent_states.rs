//! The state of each agent during a run. An agent is *running* until it has sent its summary (then
//! it is *done*), or until it has failed or lagged (then it is *missing*). An agent has lagged if a
//! message from it did not arrive in time.
//!
//! A window is a section of a run of at most one second, and also the measurements of that section
//! ([`Window`]). For each second, every agent sends the window of its own requests. This module
//! adds up the windows of the same number. It does no I/O and reads no clock.

use std::collections::VecDeque;

use crate::limits::LAG_MAX_NS;
use crate::metrics::Window;
use crate::summary::Summary;
use crate::timeline::Timeline;

/// A window may arrive at most this long before its end by the coordinator's clock. A window can
/// arrive before its end, because the coordinator does not know the agent's clock exactly: it
/// converted the start time with a measured offset that has an error.
const EARLY_MAX_NS: u64 = 1_000_000_000;

/// The states of all agents of a run, and for each window the sum of the agents' measurements.
#[derive(Debug)]
pub(super) struct AgentStates {
    timeline: Timeline,
    /// The states of the agents, in the order of the coordinator's list.
    agents: Vec<AgentState>,
    /// The number of the window that [`AgentStates::take_complete`] returns next.
    next: usize,
    /// The sums of windows that are not complete. The first element belongs to window `next`.
    pending: VecDeque<PendingWindow>,
}

/// The sum of the windows of one number. Some running agents may not have sent theirs yet.
#[derive(Debug)]
struct PendingWindow {
    /// The sum of the measurements.
    sum: Window,
    /// For each agent, whether the sum includes its measurements.
    included: Vec<bool>,
}

/// The sum of the windows of one number, which all agents have sent that are not missing.
#[derive(Debug)]
pub(super) struct CompleteWindow {
    /// The number of the window.
    pub(super) number: usize,
    /// The sum of the agents' measurements.
    pub(super) sum: Window,
    /// For each agent, whether the sum includes its measurements. The sum also includes the
    /// measurements that a missing agent had sent before it failed or lagged.
    pub(super) included: Vec<bool>,
}

/// The state of one agent.
#[derive(Debug)]
enum AgentState {
    /// The agent has neither sent its summary nor failed nor lagged.
    Running {
        /// The number of windows received from the agent. This is also the number of its next
        /// window, because the first window has the number 0.
        windows: usize,
    },
    /// The agent has sent its summary.
    Done(Box<Summary>),
    /// The agent has failed or lagged, for this reason.
    Missing(String),
}

impl AgentStates {
    pub(super) fn new(timeline: Timeline, agents: usize) -> Self {
        Self {
            timeline,
            agents: (0..agents)
                .map(|_| AgentState::Running { windows: 0 })
                .collect(),
            next: 0,
            pending: VecDeque::new(),
        }
    }

    /// Adds a window that an agent has sent. Ignores the window if the agent is done or missing.
    /// `now_ns` is the time by the coordinator's monotonic clock.
    ///
    /// # Errors
    /// `number` is not the number of the agent's next window, or the run has no further window of a
    /// second, or the window ends more than [`EARLY_MAX_NS`] after `now_ns`.
    pub(super) fn add_window(
        &mut self,
        agent: usize,
        number: usize,
        window: &Window,
        now_ns: u64,
    ) -> Result<(), &'static str> {
        let AgentState::Running { windows } = &mut self.agents[agent] else {
            return Ok(());
        };
        // The boundary is the end of the window. The last window of the run, which contains the
        // grace period, has no boundary. Agents do not send it.
        let Some(end_ns) = self
            .timeline
            .boundary(number)
            .filter(|_| number == *windows)
        else {
            return Err("it sent a second out of order");
        };
        if end_ns > now_ns.saturating_add(EARLY_MAX_NS) {
            return Err("it sent a second before its end");
        }
        *windows += 1;
        // `number` is at least `next`: window `next` is taken only after each running agent has
        // sent it.
        let index = number - self.next;
        while self.pending.len() <= index {
            self.pending.push_back(PendingWindow {
                sum: Window::default(),
                included: vec![false; self.agents.len()],
            });
        }
        let pending = &mut self.pending[index];
        pending.sum.merge(window);
        pending.included[agent] = true;
        Ok(())
    }

    /// Records that an agent has sent the summary of its part. Ignores the summary if the agent is
    /// already done or missing.
    ///
    /// # Errors
    /// The agent has not sent the windows of all seconds of the run.
    pub(super) fn set_done(
        &mut self,
        agent: usize,
        summary: Box<Summary>,
    ) -> Result<(), &'static str> {
        match self.agents[agent] {
            // Each boundary is the end of one window that an agent sends.
            AgentState::Running { windows } if windows == self.timeline.boundaries() => {
                self.agents[agent] = AgentState::Done(summary);
                Ok(())
            }
            AgentState::Running { .. } => Err("it ended before its time"),
            _ => Ok(()),
        }
    }

    /// Records that an agent is missing, for `reason`. Returns false, and changes nothing, if the
    /// agent is already done or missing.
    pub(super) fn set_missing(&mut self, agent: usize, reason: String) -> bool {
        let is_running = matches!(self.agents[agent], AgentState::Running { .. });
        if is_running {
            self.agents[agent] = AgentState::Missing(reason);
        }
        is_running
    }

    /// The running agents whose next message is overdue at `now_ns`.
    pub(super) fn overdue(&self, now_ns: u64) -> Vec<usize> {
        let is_overdue = |agent: &usize| self.deadline_ns(*agent).is_some_and(|at| at <= now_ns);
        (0..self.agents.len()).filter(is_overdue).collect()
    }

    /// The earliest time at which the next message of any agent becomes overdue. None: no agent is
    /// running any longer.
    pub(super) fn next_deadline_ns(&self) -> Option<u64> {
        let deadlines = (0..self.agents.len()).filter_map(|agent| self.deadline_ns(agent));
        deadlines.min()
    }

    /// The time at which the next message of this agent becomes overdue. None: the agent is done or
    /// missing.
    fn deadline_ns(&self, agent: usize) -> Option<u64> {
        match self.agents[agent] {
            AgentState::Running { windows } => {
                // The end of the agent's next window, or of the grace period. After the grace
                // period, the next message is the summary.
                let due_ns = self.timeline.next_event_ns(windows);
                Some(due_ns + LAG_MAX_NS)
            }
            _ => None,
        }
    }

    /// Removes and returns the window `next`. None: an agent that is not missing has not sent it.
    pub(super) fn take_complete(&mut self) -> Option<CompleteWindow> {
        // A missing agent will not send the window, so it is not waited for.
        let need_not_wait_for = |agent: &AgentState| match agent {
            AgentState::Running { windows } => *windows > self.next,
            AgentState::Done(_) | AgentState::Missing(_) => true,
        };
        if !self.agents.iter().all(need_not_wait_for) {
            return None;
        }
        // If no agent is running any longer, there may be no further window.
        let PendingWindow { sum, included } = self.pending.pop_front()?;
        let number = self.next;
        self.next += 1;
        Some(CompleteWindow {
            number,
            sum,
            included,
        })
    }

    /// Returns for each agent its summary, or the reason why the agent is missing. To be called
    /// when no agent is running any longer.
    pub(super) fn into_results(self) -> Vec<Result<Box<Summary>, String>> {
        let result = |agent| match agent {
            AgentState::Done(summary) => Ok(summary),
            AgentState::Missing(reason) => Err(reason),
            AgentState::Running { .. } => Err("its run has not ended".to_owned()),
        };
        self.agents.into_iter().map(result).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::config::Config;

    const SECOND_NS: u64 = 1_000_000_000;

    /// Three agents, and a run that starts at 10 s: no warm-up, two measured seconds, and a grace
    /// period of one second.
    fn states() -> AgentStates {
        let mut config = Config::new("127.0.0.1:1".parse().unwrap());
        (config.warmup_ns, config.duration_ns) = (0, 2 * SECOND_NS);
        (config.grace_ns, config.connections) = (SECOND_NS, 3);
        AgentStates::new(Timeline::new(&config, 10 * SECOND_NS), 3)
    }

    /// The measurements of an agent in a window with this number of answers.
    fn window(answered: u64) -> Window {
        let mut window = Window::default();
        window.counts.answered = answered;
        window
    }

    #[test]
    fn window_is_complete_when_all_agents_have_sent_it() {
        let mut states = states();
        let now_ns = 11 * SECOND_NS;
        // The first two arguments are the agent and the number of its window.
        states.add_window(0, 0, &window(1), now_ns).unwrap();
        states.add_window(2, 0, &window(4), now_ns).unwrap();
        assert!(states.take_complete().is_none());
        states.add_window(1, 0, &window(2), now_ns).unwrap();
        let complete = states.take_complete().unwrap();
        assert_eq!((complete.number, complete.sum.counts.answered), (0, 7));
        assert_eq!(complete.included, [true; 3]);
        assert!(states.take_complete().is_none());
    }

    #[test]
    fn window_is_complete_although_a_missing_agent_has_not_sent_it() {
        let mut states = states();
        let now_ns = 11 * SECOND_NS;
        states.add_window(0, 0, &window(1), now_ns).unwrap();
        states.add_window(1, 0, &window(2), now_ns).unwrap();
        assert!(states.set_missing(2, "gone".to_owned()));
        assert!(!states.set_missing(2, "twice".to_owned()));
        let complete = states.take_complete().unwrap();
        assert_eq!(complete.sum.counts.answered, 3);
        assert_eq!(complete.included, [true, true, false]);
        // A window that arrives from the missing agent is ignored.
        states.add_window(2, 0, &window(9), now_ns).unwrap();
        assert_eq!(states.into_results()[2].as_ref().unwrap_err(), "gone");
    }

    #[test]
    fn window_includes_measurements_that_an_agent_sent_before_it_was_missing() {
        let mut states = states();
        let now_ns = 12 * SECOND_NS;
        states.add_window(2, 0, &window(4), now_ns).unwrap();
        assert!(states.set_missing(2, "gone".to_owned()));
        for agent in 0..2 {
            states.add_window(agent, 0, &window(1), now_ns).unwrap();
            states.add_window(agent, 1, &window(1), now_ns).unwrap();
        }
        let mut next = || states.take_complete().unwrap();
        let (first, second) = (next(), next());
        assert_eq!((first.sum.counts.answered, first.included[2]), (6, true));
        assert_eq!((second.sum.counts.answered, second.included[2]), (2, false));
    }

    #[test]
    fn window_and_summary_are_overdue_three_seconds_after_they_are_due() {
        let mut states = states();
        // The three seconds are `LAG_MAX_NS`. Window 0 of agents 1 and 2 is due at 11 s.
        states.add_window(0, 0, &window(1), 11 * SECOND_NS).unwrap();
        assert_eq!(states.next_deadline_ns(), Some(14 * SECOND_NS));
        assert!(states.overdue(14 * SECOND_NS - 1).is_empty());
        assert_eq!(states.overdue(14 * SECOND_NS), [1, 2]);
        // After window 1, the last measured second, the next message of agent 0 is its summary. The
        // summary is due at the end of the grace period, 13 s.
        states.add_window(0, 1, &window(1), 12 * SECOND_NS).unwrap();
        states.set_missing(1, "lagged".to_owned());
        states.set_missing(2, "lagged".to_owned());
        assert_eq!(states.next_deadline_ns(), Some(16 * SECOND_NS));
        assert!(states.next_deadline_ns().is_some());
        states.set_missing(0, "lagged".to_owned());
        assert!(states.next_deadline_ns().is_none());
    }

    #[test]
    fn window_out_of_order_or_before_its_end_is_an_error() {
        let mut states = states();
        let order = "it sent a second out of order";
        let now_ns = 11 * SECOND_NS;
        assert_eq!(states.add_window(0, 1, &window(1), now_ns), Err(order));
        states.add_window(0, 0, &window(1), now_ns).unwrap();
        assert_eq!(states.add_window(0, 0, &window(1), now_ns), Err(order));
        // Window 1 ends at 12 s, and may arrive at 11 s or later.
        let early = "it sent a second before its end";
        let before_ns = 10 * SECOND_NS + SECOND_NS / 2;
        assert_eq!(states.add_window(0, 1, &window(1), before_ns), Err(early));
        states.add_window(0, 1, &window(1), now_ns).unwrap();
        assert_eq!(
            // The run has only windows 0 and 1.
            states.add_window(0, 2, &window(1), 20 * SECOND_NS),
            Err(order)
        );
    }
}
