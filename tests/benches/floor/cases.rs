//! What is asked of the servers, and what ours should reach.

use crate::asks::Asks;

/// One row of servers under one load.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Case {
    pub(crate) asks: Asks,
    pub(crate) connections: usize,
    /// Requests sent in one write, and answered before the next.
    pub(crate) depth: usize,
    pub(crate) target: Target,
}

/// What a server of ours should reach, be it at the upper end of the interval.
#[derive(Debug, Clone, Copy)]
pub(crate) enum Target {
    /// At most so many times the processor time of the echo by io_uring.
    TimesFloor(f64),
    /// Less than so many times the processor time of memcached.
    BelowMemcached(f64),
}

impl Case {
    pub(crate) const ALL: [Self; 8] = [
        Self::gets(50, 1, 1.15),
        Self::gets(200, 1, 1.15),
        Self::gets(1000, 1, 1.15),
        Self::gets(50, 16, 2.0),
        Self::gets(50, 64, 4.0),
        Self {
            asks: Asks::Multigets,
            connections: 50,
            depth: 1,
            // Said as 12 µs on a machine where memcached takes 37.
            target: Target::BelowMemcached(12.0 / 37.0),
        },
        Self::mix(200, 1),
        Self::mix(50, 16),
    ];

    const fn gets(connections: usize, depth: usize, times: f64) -> Self {
        Self {
            asks: Asks::Gets,
            connections,
            depth,
            target: Target::TimesFloor(times),
        }
    }

    const fn mix(connections: usize, depth: usize) -> Self {
        Self {
            asks: Asks::Mix,
            connections,
            depth,
            target: Target::BelowMemcached(1.0),
        }
    }

    pub(crate) fn name(&self) -> String {
        let Self {
            asks,
            connections,
            depth,
            ..
        } = self;
        format!("{}, depth {depth}, {connections} connections", asks.name())
    }
}
