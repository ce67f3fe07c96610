//! The reports on the agents of a run: the processes that offer the load of the run together. Each
//! report is printed as a line below the table with the results of the run.

use std::fmt::Write as _;

use serde::{Deserialize, Serialize};
use units::{show_duration, show_rate, show_share};

use super::clock::ClockOffset;
use crate::part::Part;
use crate::summary::Summary;

/// The report on one agent of a run.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct AgentReport {
    /// The agent's address, as given by the user.
    pub agent: String,
    /// The agent's part of the run: the connections on which the agent offers load.
    pub part: Part,
    /// Why the summary of the run does not include the agent's measurements. The agent is then
    /// called *missing*. None: the summary includes them.
    pub missing: Option<String>,
    /// The offset of the agent's clock from the coordinator's clock, measured just before the start
    /// of the run. None: not measured.
    pub clock: Option<ClockOffset>,
    /// The change of this offset during the run. None: the agent is missing, or the offset could
    /// not be measured after the run.
    pub clock_moved: Option<ClockOffset>,
    /// Figures that show whether the agent limited its part of the run. None: the agent is missing.
    pub limits: Option<AgentLimits>,
}

/// Figures that show whether an agent was too slow for its part of the run. They are taken from the
/// summary of that part.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
pub struct AgentLimits {
    /// Answers per second on the agent's connections.
    pub achieved_rps: f64,
    /// The 99th percentile of the lateness of answered requests. Lateness is the part of a latency
    /// that the agent itself caused ([`Summary::lateness`]). None in a closed loop, and if no
    /// request was answered.
    pub lateness_p99_ns: Option<u64>,
    /// Processor time of the agent's threads ÷ (measured interval × number of threads).
    pub generator_cpu: f64,
    /// The share of the measured interval, 0 to 1, in which the agent's threads neither slept nor
    /// polled without result.
    pub generator_busy: f64,
    /// Whether the agent was too slow. If it was, its figures measure the agent rather than the
    /// server ([`Summary::generator_limited`]).
    pub generator_limited: bool,
    /// Whether two values of the agent's mean number of outstanding requests agree: one computed
    /// from the time stamps of the requests, the other counted ([`Summary::littles_law`]).
    pub littles_law_holds: bool,
}

impl AgentLimits {
    /// Takes the figures from the summary of an agent's part.
    pub(crate) fn of(summary: &Summary) -> Self {
        let lateness = summary.lateness.as_ref();
        let lateness = lateness.and_then(|distribution| distribution.histogram().ok());
        Self {
            achieved_rps: summary.achieved_rps,
            lateness_p99_ns: lateness
                .filter(|lateness| !lateness.is_empty())
                .map(|lateness| lateness.percentile(99.0)),
            generator_cpu: summary.generator_cpu,
            generator_busy: summary.generator_busy,
            generator_limited: summary.generator_limited,
            littles_law_holds: summary.littles_law().holds,
        }
    }
}

/// Returns the number of connections that the summary of a run covers, and the number of all
/// connections of the run. The summary covers the connections of the agents that are not missing.
/// None: the run had no agents.
#[must_use]
pub fn covered(agents: &[AgentReport]) -> Option<(u32, u32)> {
    let all = agents.iter().map(|agent| agent.part.count).sum();
    let included = agents.iter().filter(|agent| agent.missing.is_none());
    (!agents.is_empty()).then(|| (included.map(|agent| agent.part.count).sum(), all))
}

/// Returns the lines that are printed below the table of a run: one line for each agent and, if
/// agents are missing, one line about their connections.
pub(crate) fn lines(agents: &[AgentReport]) -> Vec<String> {
    let mut lines: Vec<String> = agents.iter().map(line).collect();
    if let Some((included, all)) = covered(agents)
        && included < all
    {
        lines.push(format!(
            "MISSING: {} of {all} connections; every figure above is of the others",
            all - included
        ));
    }
    lines
}

/// The line about one agent.
fn line(agent: &AgentReport) -> String {
    let Part { first, count, .. } = agent.part;
    let last = first.saturating_add(count.saturating_sub(1));
    // The label is as wide as the labels in the table of the run.
    let mut line = format!("{:<10} {}", "agent", agent.agent);
    // The results of `write!` are ignored here and below, because writing to a String cannot fail.
    if let Some(reason) = &agent.missing {
        let _ = write!(line, " MISSING, connections {first} to {last}: {reason}");
    } else {
        let _ = write!(line, ", connections {first} to {last}");
    }
    if let Some(limits) = &agent.limits {
        let _ = write!(line, ": {}/s", show_rate(limits.achieved_rps));
        if let Some(lateness_ns) = limits.lateness_p99_ns {
            let _ = write!(line, ", lateness {} at p99", show_duration(lateness_ns));
        }
        let _ = write!(line, ", {} busy", show_share(limits.generator_busy));
        if limits.generator_limited {
            line.push_str(", GENERATOR-LIMITED");
        }
        if !limits.littles_law_holds {
            line.push_str(", LITTLE'S LAW FAILS");
        }
    }
    if agent.missing.is_none()
        && let Some(clock) = clock_text(agent)
    {
        let _ = write!(line, "; {clock}");
    }
    line
}

/// Returns the offset of an agent's clock and the change of this offset as text. None: the offset
/// was not measured.
#[must_use]
pub fn clock_text(agent: &AgentReport) -> Option<String> {
    let clock = agent.clock?;
    let mut text = format!("clock {}", show_offset(&clock));
    if let Some(moved) = &agent.clock_moved {
        let _ = write!(text, ", moved by {}", show_offset(moved));
    }
    Some(text)
}

/// Formats an offset and its greatest possible error. The minus sign is U+2212, not a hyphen.
fn show_offset(offset: &ClockOffset) -> String {
    let sign = if offset.offset_ns < 0 { "−" } else { "+" };
    format!(
        "{sign}{} ± {}",
        show_duration(offset.offset_ns.unsigned_abs()),
        show_duration(offset.error_ns)
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The report on an agent that is done: it has sent its summary.
    fn report_of_done_agent() -> AgentReport {
        let offset = |offset_ns, error_ns| {
            Some(ClockOffset {
                offset_ns,
                error_ns,
            })
        };
        AgentReport {
            agent: "10.0.0.1:7700".to_owned(),
            part: Part {
                number: 0,
                first: 0,
                count: 256,
            },
            missing: None,
            clock: offset(-1_230_000, 24_100),
            clock_moved: offset(3_200, 48_000),
            limits: Some(AgentLimits {
                achieved_rps: 30_100.0,
                lateness_p99_ns: Some(12_300),
                generator_cpu: 1.0,
                generator_busy: 0.342,
                generator_limited: false,
                littles_law_holds: true,
            }),
        }
    }

    /// The report on a missing agent.
    fn report_of_missing_agent() -> AgentReport {
        AgentReport {
            agent: "10.0.0.2:7700".to_owned(),
            part: Part {
                number: 1,
                first: 256,
                count: 128,
            },
            missing: Some("it closed the connection".to_owned()),
            limits: None,
            ..report_of_done_agent()
        }
    }

    #[test]
    fn line_of_a_done_agent_shows_connections_figures_and_clock() {
        assert_eq!(
            lines(&[report_of_done_agent()]),
            [
                "agent      10.0.0.1:7700, connections 0 to 255: 30.1 k/s, lateness 12.3 µs at p99, \
                 34.2% busy; clock −1.23 ms ± 24.1 µs, moved by +3.20 µs ± 48.0 µs"
            ]
        );
    }

    #[test]
    fn missing_agent_is_shown_with_the_reason_and_its_connections_are_not_covered() {
        let reports = [report_of_done_agent(), report_of_missing_agent()];
        // The first line is about the other agent.
        assert_eq!(
            lines(&reports)[1..],
            [
                "agent      10.0.0.2:7700 MISSING, connections 256 to 383: it closed the connection",
                "MISSING: 128 of 384 connections; every figure above is of the others",
            ]
        );
        assert_eq!(covered(&reports), Some((256, 384)));
        assert_eq!(covered(&[]), None);
    }
}
