//! Burstiness: how many requests become ready together.
//!
//! A server whose requests become ready in batches makes most of them wait for the rest of their
//! batch, at any load. Ruan & Pai (*Understanding and Addressing Blocking-Induced Network Server
//! Latency*, USENIX ATC 2006) measure it as ready events per wait call in an event-driven server.
//!
//! A wait call that returned no event is left out: it shows that the server was idle, or polled,
//! and not how events are batched.

use serde::{Deserialize, Serialize};

use crate::interval::{median_of_sorted, sorted};

/// Ready events per wait call of an event-driven server.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
pub struct Burstiness {
    /// Calls that returned an event.
    pub calls: usize,
    /// Mean events per call.
    pub mean: f64,
    /// Median events per call.
    pub median: f64,
    /// Most events of one call.
    pub max: u64,
    /// Mean over events of the events in the same call, itself included: Σx² ÷ Σx. It exceeds
    /// `mean` by the variance ÷ `mean` (the inspection paradox), because large batches hold most of
    /// the events.
    pub event_mean: f64,
}

impl Burstiness {
    /// The burstiness of wait calls, each given by its number of ready events. None where no call
    /// returned an event.
    #[must_use]
    pub fn of(events_per_call: &[u64]) -> Option<Self> {
        let events = events_per_call.iter().filter(|&&events| events > 0);
        let sorted = sorted(&events.map(|&events| events as f64).collect::<Vec<_>>())?;
        let total: f64 = sorted.iter().sum();
        let squares: f64 = sorted.iter().map(|events| events * events).sum();
        Some(Self {
            calls: sorted.len(),
            mean: total / sorted.len() as f64,
            median: median_of_sorted(&sorted),
            max: events_per_call.iter().copied().max()?,
            event_mean: squares / total,
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_large_batch_moves_the_mean_and_most_of_all_that_of_events() {
        let seen = Burstiness::of(&[1, 0, 2, 1, 96, 0]).unwrap();
        assert_eq!(
            (seen.calls, seen.mean, seen.median, seen.max),
            (4, 25.0, 1.5, 96)
        );
        // (1 + 4 + 1 + 96²) ÷ 100.
        assert_eq!(seen.event_mean, 92.22);
        assert_eq!(Burstiness::of(&[0, 0]), None);
        assert_eq!(Burstiness::of(&[]), None);
    }
}
