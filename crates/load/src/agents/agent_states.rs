//! The agents of a run while it runs: whose seconds have come, who is done, and who is missing.
//! Pure: times and messages are arguments.

use std::collections::VecDeque;

use crate::limits::LAG_MAX_NS;
use crate::metrics::Window;
use crate::summary::Summary;
use crate::timeline::Timeline;

/// How early a second may come: the clocks' error, and that of the translation of the start.
const EARLY_MAX_NS: u64 = 1_000_000_000;

/// The agents of a run.
#[derive(Debug)]
pub(super) struct AgentStates {
    timeline: Timeline,
    agents: Vec<State>,
    /// The sums of the windows from `next` on.
    pending: VecDeque<Window>,
    next: usize,
}

/// One agent.
#[derive(Debug)]
enum State {
    /// It has sent so many windows.
    Running {
        windows: usize,
    },
    Done(Box<Summary>),
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

    /// A window of an agent has come.
    ///
    /// # Errors
    /// It is not the agent's next one, or ends in the future.
    pub(super) fn add_second(
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
            self.pending.push_back(Window::default());
        }
        self.pending[index].merge(window);
        Ok(())
    }

    /// An agent's run has ended.
    ///
    /// # Errors
    /// Seconds of it are missing.
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

    /// An agent has failed. Returns whether its share is missing for that: one that is done has
    /// delivered it.
    pub(super) fn set_missing(&mut self, agent: usize, reason: String) -> bool {
        let is_running = matches!(self.agents[agent], State::Running { .. });
        if is_running {
            self.agents[agent] = State::Missing(reason);
        }
        is_running
    }

    /// The agents that are to be given up at `now_ns`: their next message is overdue.
    pub(super) fn overdue(&self, now_ns: u64) -> Vec<usize> {
        let is_overdue = |agent: &usize| self.deadline_ns(*agent).is_some_and(|at| at <= now_ns);
        (0..self.agents.len()).filter(is_overdue).collect()
    }

    /// The time at which the next agent is to be given up. None: none runs.
    pub(super) fn next_deadline_ns(&self) -> Option<u64> {
        let deadlines = (0..self.agents.len()).filter_map(|agent| self.deadline_ns(agent));
        deadlines.min()
    }

    fn deadline_ns(&self, agent: usize) -> Option<u64> {
        match self.agents[agent] {
            State::Running { windows } => Some(self.timeline.next_event_ns(windows) + LAG_MAX_NS),
            _ => None,
        }
    }

    /// The next window that all agents have sent, but for the missing ones, with its number.
    pub(super) fn take_complete(&mut self) -> Option<(usize, Window)> {
        let has_sent = |agent: &State| match agent {
            State::Running { windows } => *windows > self.next,
            State::Done(_) | State::Missing(_) => true,
        };
        if !self.agents.iter().all(has_sent) {
            return None;
        }
        let window = self.pending.pop_front()?;
        self.next += 1;
        Some((self.next - 1, window))
    }

    /// The summary of each agent, or why its share is missing.
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

    /// Three agents, and a run of two seconds that starts at 10 s.
    fn states() -> AgentStates {
        let mut config = Config::new("127.0.0.1:1".parse().unwrap());
        (config.warmup_ns, config.duration_ns) = (0, 2 * SECOND_NS);
        (config.grace_ns, config.connections) = (SECOND_NS, 3);
        AgentStates::new(Timeline::new(&config, 10 * SECOND_NS), 3)
    }

    fn window(answered: u64) -> Window {
        let mut window = Window::default();
        window.counts.answered = answered;
        window
    }

    #[test]
    fn a_second_is_complete_when_all_agents_have_sent_it() {
        let mut states = states();
        let now_ns = 11 * SECOND_NS;
        states.add_second(0, 0, &window(1), now_ns).unwrap();
        states.add_second(2, 0, &window(4), now_ns).unwrap();
        assert!(states.take_complete().is_none());
        states.add_second(1, 0, &window(2), now_ns).unwrap();
        let (number, window) = states.take_complete().unwrap();
        assert_eq!((number, window.counts.answered), (0, 7));
        assert!(states.take_complete().is_none());
    }

    #[test]
    fn a_second_is_complete_without_a_missing_agent() {
        let mut states = states();
        let now_ns = 11 * SECOND_NS;
        states.add_second(0, 0, &window(1), now_ns).unwrap();
        states.add_second(1, 0, &window(2), now_ns).unwrap();
        assert!(states.set_missing(2, "gone".to_owned()));
        assert!(!states.set_missing(2, "twice".to_owned()));
        assert_eq!(states.take_complete().unwrap().1.counts.answered, 3);
        // What it still sends is ignored.
        states.add_second(2, 0, &window(9), now_ns).unwrap();
        assert_eq!(states.into_results()[2].as_ref().unwrap_err(), "gone");
    }

    #[test]
    fn an_agent_lags_three_seconds_after_the_end_of_a_second() {
        let mut states = states();
        states.add_second(0, 0, &window(1), 11 * SECOND_NS).unwrap();
        assert_eq!(states.next_deadline_ns(), Some(14 * SECOND_NS));
        assert!(states.overdue(14 * SECOND_NS - 1).is_empty());
        assert_eq!(states.overdue(14 * SECOND_NS), [1, 2]);
        // The last message of all is due at the end of the grace period.
        states.add_second(0, 1, &window(1), 12 * SECOND_NS).unwrap();
        states.set_missing(1, "lagged".to_owned());
        states.set_missing(2, "lagged".to_owned());
        assert_eq!(states.next_deadline_ns(), Some(16 * SECOND_NS));
        assert!(states.next_deadline_ns().is_some());
        states.set_missing(0, "lagged".to_owned());
        assert!(states.next_deadline_ns().is_none());
    }

    #[test]
    fn seconds_come_in_order_and_not_before_their_end() {
        let mut states = states();
        let order = "it sent a second out of order";
        let now_ns = 11 * SECOND_NS;
        assert_eq!(states.add_second(0, 1, &window(1), now_ns), Err(order));
        states.add_second(0, 0, &window(1), now_ns).unwrap();
        assert_eq!(states.add_second(0, 0, &window(1), now_ns), Err(order));
        let early = "it sent a second before its end";
        let before_ns = 10 * SECOND_NS + SECOND_NS / 2;
        assert_eq!(states.add_second(0, 1, &window(1), before_ns), Err(early));
        states.add_second(0, 1, &window(1), now_ns).unwrap();
        assert_eq!(
            states.add_second(0, 2, &window(1), 20 * SECOND_NS),
            Err(order)
        );
    }
}
