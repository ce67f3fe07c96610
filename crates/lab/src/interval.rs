//! The measured interval of `curtail load`, which is a process of its own.
//!
//! The generator prints a line at the end of each second of the warm-up, counted back from the
//! start of the interval, so the last of them marks that start. Prefill and warm-up are thereby
//! left out. Without a warm-up, the interval cannot be told from the prefill.

use std::fs;
use std::path::Path;
use std::time::{Duration, Instant};

use crate::limits;

/// Notices the start and the end of the interval, to within [`limits::INTERVAL_POLL`].
#[derive(Debug)]
pub(crate) struct Interval<'a> {
    output: &'a Path,
    /// The lines of the warm-up.
    lines: usize,
    length: Duration,
    phase: Phase,
}

#[derive(Debug)]
enum Phase {
    Before,
    Within {
        end: Instant,
    },
    /// It is over, or never noticed.
    After,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Edge {
    Begin,
    End,
}

/// What the generator prints at the end of a line of its warm-up.
const WARM_UP: &str = "  warm-up";

impl<'a> Interval<'a> {
    /// The interval of a generator that is about to start, and prints to `output`.
    pub(crate) fn new(output: &'a Path, warmup: Duration, length: Duration) -> Self {
        Self {
            output,
            lines: warmup.as_nanos().div_ceil(1_000_000_000) as usize,
            length,
            phase: match warmup.is_zero() {
                true => Phase::After,
                false => Phase::Before,
            },
        }
    }

    /// After which time to call [`Self::advance`] again. None: never.
    pub(crate) fn pause(&self) -> Option<Duration> {
        match self.phase {
            Phase::After => None,
            Phase::Before => Some(limits::INTERVAL_POLL),
            Phase::Within { end } => Some(end.saturating_duration_since(Instant::now())),
        }
    }

    pub(crate) fn advance(&mut self) -> Option<Edge> {
        match self.phase {
            Phase::Before => {
                let printed = fs::read_to_string(self.output).unwrap_or_default();
                let lines = printed.lines().filter(|line| line.contains(WARM_UP));
                if lines.count() < self.lines {
                    return None;
                }
                let end = Instant::now() + self.length;
                self.phase = Phase::Within { end };
                Some(Edge::Begin)
            }
            Phase::Within { end } if Instant::now() >= end => {
                self.phase = Phase::After;
                Some(Edge::End)
            }
            _ => None,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_last_line_of_the_warm_up_begins_the_interval() {
        let folder = tempfile::tempdir().unwrap();
        let output = folder.path().join("seconds");
        let mut interval = Interval::new(&output, Duration::from_millis(1_500), Duration::ZERO);
        assert_eq!(interval.advance(), None);
        fs::write(&output, "0.5 s  warm-up\n").unwrap();
        assert_eq!(
            (interval.advance(), interval.pause().is_some()),
            (None, true)
        );
        fs::write(&output, "0.5 s  warm-up\n1.5 s  warm-up\n").unwrap();
        assert_eq!(interval.advance(), Some(Edge::Begin));
        assert_eq!(interval.advance(), Some(Edge::End));
        assert_eq!((interval.advance(), interval.pause()), (None, None));
    }

    #[test]
    fn without_a_warm_up_nothing_is_noticed() {
        let mut interval = Interval::new(
            Path::new("/dev/null"),
            Duration::ZERO,
            Duration::from_secs(1),
        );
        assert_eq!((interval.pause(), interval.advance()), (None, None));
    }
}
