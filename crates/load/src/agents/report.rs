//! The report on each agent of a run, and the lines that show it below the table of the run.

use std::fmt::Write as _;

use serde::{Deserialize, Serialize};
use units::{show_duration, show_rate};

use super::clock::ClockOffset;
use crate::part::Part;
use crate::summary::Summary;

/// The report on one agent of a run.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct AgentReport {
    /// The agent's address, as given by the user.
    pub agent: String,
    /// The agent's connections.
    pub part: Part,
    /// Why the agent's share is missing from the summary. None: it is not missing.
    pub missing: Option<String>,
    /// The offset of the agent's clock from the coordinator's, just before the start.
    pub clock: Option<ClockOffset>,
    /// The change of `clock` between the start and the end of the run.
    pub clock_moved: Option<ClockOffset>,
    /// The figures of the agent's own share. None: the share is missing.
    pub limits: Option<AgentLimits>,
}

/// The figures of one agent that show whether the agent itself limited its share of the run.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
pub struct AgentLimits {
    /// Answers per second on the agent's connections.
    pub achieved_rps: f64,
    /// The 99th percentile of the agent's lateness. None in a closed loop, and if no
    /// request was answered.
    pub lateness_p99_ns: Option<u64>,
    /// Processor time of the agent's threads ÷ (measured interval × number of threads).
    pub generator_cpu: f64,
    /// The share of the measured interval, 0 to 1, in which the agent's threads had work.
    pub generator_busy: f64,
    /// Whether the agent was too slow, so that its measurements are not those of the server alone.
    pub generator_limited: bool,
    /// Whether the time stamps of the agent's requests agree with its count of outstanding
    /// requests.
    pub littles_law_holds: bool,
}

impl AgentLimits {
    /// Takes the figures from the summary of an agent's part.
    pub(crate) fn of(summary: &Summary) -> Self {
        let lateness = summary.lateness.as_ref();
        let lateness = lateness.and_then(|it| it.histogram().ok());
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

/// The number of connections that the summary of a run covers, and the number of all connections
/// of the run. None: the load was not offered by agents.
#[must_use]
pub fn covered(agents: &[AgentReport]) -> Option<(u32, u32)> {
    let all = agents.iter().map(|agent| agent.part.count).sum();
    let present = agents.iter().filter(|agent| agent.missing.is_none());
    (!agents.is_empty()).then(|| (present.map(|agent| agent.part.count).sum(), all))
}

/// The lines about the agents that are shown below the table of a run.
pub(crate) fn lines(agents: &[AgentReport]) -> Vec<String> {
    let mut lines: Vec<String> = agents.iter().map(line).collect();
    if let Some((present, all)) = covered(agents)
        && present < all
    {
        lines.push(format!(
            "MISSING: {} of {all} connections; every figure above is of the others",
            all - present
        ));
    }
    lines
}

/// The line about one agent.
fn line(agent: &AgentReport) -> String {
    let Part { first, count, .. } = agent.part;
    let last = first.saturating_add(count.saturating_sub(1));
    let mut line = format!("{:<10} {}", "agent", agent.agent);
    // Writing into a String cannot fail.
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
        let _ = write!(line, ", {:.1}% busy", limits.generator_busy * 100.0);
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

/// The offset of an agent's clock and its change, as text. None: the clock was not probed.
#[must_use]
pub fn clock_text(agent: &AgentReport) -> Option<String> {
    let clock = agent.clock?;
    let mut text = format!("clock {}", show_offset(&clock));
    if let Some(moved) = &agent.clock_moved {
        let _ = write!(text, ", moved by {}", show_offset(moved));
    }
    Some(text)
}

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

    fn present() -> AgentReport {
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

    fn missing() -> AgentReport {
        AgentReport {
            agent: "10.0.0.2:7700".to_owned(),
            part: Part {
                number: 1,
                first: 256,
                count: 128,
            },
            missing: Some("it closed the connection".to_owned()),
            limits: None,
            ..present()
        }
    }

    #[test]
    fn line_of_an_agent_shows_its_rate_lateness_and_clock() {
        assert_eq!(
            lines(&[present()]),
            [
                "agent      10.0.0.1:7700, connections 0 to 255: 30.1 k/s, lateness 12.3 µs at p99, \
                 34.2% busy; clock −1.23 ms ± 24.1 µs, moved by +3.20 µs ± 48.0 µs"
            ]
        );
    }

    #[test]
    fn missing_agent_is_shown_as_missing_and_not_as_zero() {
        assert_eq!(
            lines(&[present(), missing()])[1..],
            [
                "agent      10.0.0.2:7700 MISSING, connections 256 to 383: it closed the connection",
                "MISSING: 128 of 384 connections; every figure above is of the others",
            ]
        );
        assert_eq!(covered(&[present(), missing()]), Some((256, 384)));
        assert_eq!(covered(&[]), None);
    }
}
