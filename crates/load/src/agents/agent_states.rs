//! The state of each agent during a run: how many windows it has sent, and whether it is done or
//! missing. A window is the measurements of one second. This module does no I/O and reads no clock.

use std::collections::VecDeque;

use crate::limits::LAG_MAX_NS;
use crate::metrics::Window;
use crate::summary::Summary;
use crate::timeline::Timeline;

/// How long before the end of its second a window may arrive, in nanoseconds of the coordinator's
/// clock. It can arrive early, because the agent's clock may be ahead by as much as the error of
/// the measured clock offset.
const EARLY_MAX_NS: u64 = 1_000_000_000;

/// The states of all agents of a run, and the sums of the windows that they have sent.
#[derive(Debug)]
pub(super) struct AgentStates {
    timeline: Timeline,
    agents: Vec<State>,
    /// For each window from `next` on, the measurements received so far.
    pending: VecDeque<Pending>,
    /// The number of the window that [`AgentStates::take_complete`] returns next.
    next: usize,
}

/// A window of the run of which some agents may not have sent their measurements yet.
#[derive(Debug)]
struct Pending {
    /// The sum of the measurements.
    sum: Window,
    /// For each agent, whether the sum includes its measurements.
    includes: Vec<bool>,
}

/// A window of the run that all agents have sent, except agents that are missing.
#[derive(Debug)]
pub(super) struct Complete {
    /// The number of the window.
    pub(super) number: usize,
    /// The sum of the agents' measurements.
    pub(super) sum: Window,
    /// For each agent, whether the sum includes its measurements. Those of a missing agent are
    /// included if the agent had sent the window before it failed or lagged.
    pub(super) includes: Vec<bool>,
}

/// The state of one agent.
#[derive(Debug)]
enum State {
    /// The agent runs.
    Running {
        /// The number of windows that it has sent.
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
            agents: (0..agents).map(|_| State::Running { windows: 0 }).collect(),
            pending: VecDeque::new(),
            next: 0,
        }
    }

    /// Adds a window that an agent has sent. Ignores it if the agent is done or missing.
    ///
    /// # Errors
    /// The window is not the agent's next one, or ends more than [`EARLY_MAX_NS`] after `now_ns`.
    pub(super) fn add_window(
        &mut self,
        agent: usize,
        number: usize,
        window: &Window,
        now_ns: u64,
    ) -> Result<(), &'static str> {
        let State::Running { windows } = &mut self.agents[agent] else {
            return Ok(());
        };
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
        let index = number - self.next;
        while self.pending.len() <= index {
            self.pending.push_back(Pending {
                sum: Window::default(),
                includes: vec![false; self.agents.len()],
            });
        }
        let pending = &mut self.pending[index];
        pending.sum.merge(window);
        pending.includes[agent] = true;
        Ok(())
    }

    /// Records that an agent's run has ended with a summary.
    ///
    /// # Errors
    /// The agent has not sent all windows of the run.
    pub(super) fn set_done(
        &mut self,
        agent: usize,
        summary: Box<Summary>,
    ) -> Result<(), &'static str> {
        match self.agents[agent] {
            State::Running { windows } if windows == self.timeline.boundaries() => {
                self.agents[agent] = State::Done(summary);
                Ok(())
            }
            State::Running { .. } => Err("it ended before its time"),
            _ => Ok(()),
        }
    }

    /// Records that an agent is missing, for `reason`. Returns false, and changes nothing, if the
    /// agent is already done or missing.
    pub(super) fn set_missing(&mut self, agent: usize, reason: String) -> bool {
        let is_running = matches!(self.agents[agent], State::Running { .. });
        if is_running {
            self.agents[agent] = State::Missing(reason);
        }
        is_running
    }

    /// The agents whose next message is overdue at `now_ns`.
    pub(super) fn overdue(&self, now_ns: u64) -> Vec<usize> {
        let is_overdue = |agent: &usize| self.deadline_ns(*agent).is_some_and(|at| at <= now_ns);
        (0..self.agents.len()).filter(is_overdue).collect()
    }

    /// The earliest time at which the next message of an agent becomes overdue. None: no agent runs
    /// any more.
    pub(super) fn next_deadline_ns(&self) -> Option<u64> {
        let deadlines = (0..self.agents.len()).filter_map(|agent| self.deadline_ns(agent));
        deadlines.min()
    }

    /// The time at which the next message of an agent becomes overdue. None: the agent does not run
    /// any more.
    fn deadline_ns(&self, agent: usize) -> Option<u64> {
        match self.agents[agent] {
            State::Running { windows } => Some(self.timeline.next_event_ns(windows) + LAG_MAX_NS),
            _ => None,
        }
    }

    /// Removes and returns the next window if all agents that are not missing have sent it.
    pub(super) fn take_complete(&mut self) -> Option<Complete> {
        let has_sent = |agent: &State| match agent {
            State::Running { windows } => *windows > self.next,
            State::Done(_) | State::Missing(_) => true,
        };
        if !self.agents.iter().all(has_sent) {
            return None;
        }
        let Pending { sum, includes } = self.pending.pop_front()?;
        let number = self.next;
        self.next += 1;
        Some(Complete {
            number,
            sum,
            includes,
        })
    }

    /// Returns for each agent its summary, or the reason why the agent is missing.
    pub(super) fn into_results(self) -> Vec<Result<Box<Summary>, String>> {
        let result = |agent| match agent {
            State::Done(summary) => Ok(summary),
            State::Missing(reason) => Err(reason),
            State::Running { .. } => Err("its run has not ended".to_owned()),
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

    /// A window with this number of answers.
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
        assert_eq!(complete.includes, [true; 3]);
        assert!(states.take_complete().is_none());
    }

    #[test]
    fn window_is_complete_without_a_missing_agent() {
        let mut states = states();
        let now_ns = 11 * SECOND_NS;
        states.add_window(0, 0, &window(1), now_ns).unwrap();
        states.add_window(1, 0, &window(2), now_ns).unwrap();
        assert!(states.set_missing(2, "gone".to_owned()));
        assert!(!states.set_missing(2, "twice".to_owned()));
        let complete = states.take_complete().unwrap();
        assert_eq!(complete.sum.counts.answered, 3);
        assert_eq!(complete.includes, [true, true, false]);
        // A window that the missing agent still sends is ignored.
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
        assert_eq!((first.sum.counts.answered, first.includes[2]), (6, true));
        assert_eq!((second.sum.counts.answered, second.includes[2]), (2, false));
    }

    #[test]
    fn window_is_overdue_three_seconds_after_its_end() {
        let mut states = states();
        states.add_window(0, 0, &window(1), 11 * SECOND_NS).unwrap();
        assert_eq!(states.next_deadline_ns(), Some(14 * SECOND_NS));
        assert!(states.overdue(14 * SECOND_NS - 1).is_empty());
        assert_eq!(states.overdue(14 * SECOND_NS), [1, 2]);
        // After the last second, the summary is the next message of agent 0. It is due at the end
        // of the grace period, 13 s.
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
        // Window 1 ends at 12 s, and may arrive up to 1 s before that.
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
