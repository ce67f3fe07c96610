//! Arrival processes: the intended send times of requests.

use std::cmp::Reverse;
use std::collections::BinaryHeap;
use std::collections::binary_heap::PeekMut;
use std::ops::Range;

use serde::{Deserialize, Serialize};

use crate::limits::{BURN_IN_GAPS_MAX, CONNECTIONS_MAX, RATE_RPS_MAX};
use crate::{Distribution, Purpose, RandomStream};

/// Times are stored in 1/1024 ns, so that rounding the gaps does not shift the rate.
const TICKS_PER_NS: f64 = 1024.0;
const TICK_BITS: u32 = 10;

/// How the arrivals of many connections combine.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Default, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Superposition {
    /// Each connection follows the distribution by itself at its share of the rate, as in mutilate.
    /// Over many connections the sum approaches a Poisson process, for any distribution.
    #[default]
    PerConnection,
    /// One arrival process follows the distribution at the whole rate; each request goes to a
    /// random connection.
    Single,
}

/// One intended time.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Arrival {
    /// From the schedule's beginning.
    pub intended_ns: u64,
    /// From 0.
    pub connection: u32,
}

/// Why arrivals cannot be drawn.
#[derive(Debug, Clone, PartialEq, thiserror::Error)]
pub enum ArrivalsError {
    /// The rate is not positive, or too high.
    #[error("rate {0} requests per second: give a number above 0 and at most {RATE_RPS_MAX}")]
    Rate(f64),
    /// No connections, or too many.
    #[error("{0} connections: give between 1 and {CONNECTIONS_MAX}")]
    Connections(u32),
    /// The distribution's mean is zero or infinite: it cannot be scaled to a rate.
    #[error(
        "arrivals `{0}`: the mean gap is {1}, so it cannot be scaled to a rate; give a distribution with a \
         positive, finite mean such as exponential:1 or fb_ia"
    )]
    Mean(Distribution, &'static str),
    /// The requested range exceeds the connections.
    #[error("connections {start} to {end}: there are {connections}", start = .part.start, end = .part.end)]
    Part {
        /// The requested range.
        part: Range<u32>,
        /// The number of connections.
        connections: u32,
    },
}

/// Intended times in ascending order (ties by connection), without end.
///
/// The distribution gives only the shape of the gaps: it is scaled so that the mean rate is the
/// offered one; negative samples count as 0. Each stream begins at a random phase, because it runs
/// from about eight mean gaps before time 0. So connections with fixed gaps do not all send at the
/// same time, and the rate is the offered one from the start.
///
/// A connection has the same times in a part of the schedule as in the whole: threads can divide a
/// schedule without changing it.
#[derive(Debug, Clone)]
pub struct Arrivals(Kind);

#[derive(Debug, Clone)]
enum Kind {
    PerConnection {
        heap: BinaryHeap<Reverse<(u64, u32)>>,
        streams: Vec<RandomStream>,
        first: u32,
        gaps: Gaps,
    },
    Single {
        next_ticks: u64,
        stream: RandomStream,
        connections: u32,
        part: Range<u32>,
        gaps: Gaps,
    },
}

impl Arrivals {
    /// Arrivals at a total of `rate_rps` over `connections`; yields only those of the connections
    /// in `part`.
    ///
    /// # Errors
    /// The rate, the connections or the distribution's mean is out of bounds.
    pub fn new(
        distribution: Distribution,
        superposition: Superposition,
        rate_rps: f64,
        connections: u32,
        part: Range<u32>,
        seed: u64,
    ) -> Result<Self, ArrivalsError> {
        if !(rate_rps > 0.0 && rate_rps <= RATE_RPS_MAX) {
            return Err(ArrivalsError::Rate(rate_rps));
        }
        if !(1..=CONNECTIONS_MAX).contains(&connections) {
            return Err(ArrivalsError::Connections(connections));
        }
        if part.start > part.end || part.end > connections {
            return Err(ArrivalsError::Part { part, connections });
        }
        let streams = match superposition {
            Superposition::PerConnection => f64::from(connections),
            Superposition::Single => 1.0,
        };
        let gaps = Gaps::new(distribution, rate_rps / streams)?;
        Ok(Self(match superposition {
            Superposition::PerConnection => {
                let mut heap = Vec::with_capacity(part.len());
                let mut streams = Vec::with_capacity(part.len());
                for connection in part.clone() {
                    let mut stream =
                        RandomStream::new(seed, Purpose::Arrivals, u64::from(connection));
                    heap.push(Reverse((gaps.first_ticks(&mut stream), connection)));
                    streams.push(stream);
                }
                Kind::PerConnection {
                    heap: heap.into(),
                    streams,
                    first: part.start,
                    gaps,
                }
            }
            Superposition::Single => {
                let mut stream = RandomStream::new(seed, Purpose::Arrivals, 0);
                let next_ticks = gaps.first_ticks(&mut stream);
                Kind::Single {
                    next_ticks,
                    stream,
                    connections,
                    part,
                    gaps,
                }
            }
        }))
    }
}

impl Iterator for Arrivals {
    type Item = Arrival;

    fn next(&mut self) -> Option<Arrival> {
        match &mut self.0 {
            Kind::PerConnection {
                heap,
                streams,
                first,
                gaps,
            } => {
                let mut top = heap.peek_mut()?;
                let Reverse((ticks, connection)) = *top;
                let stream = &mut streams[(connection - *first) as usize];
                match ticks.checked_add(gaps.next_ticks(stream)) {
                    Some(next) => *top = Reverse((next, connection)),
                    // The time has overflowed, after two hundred days: this connection ends.
                    None => drop(PeekMut::pop(top)),
                }
                Some(Arrival {
                    intended_ns: ticks >> TICK_BITS,
                    connection,
                })
            }
            Kind::Single {
                next_ticks,
                stream,
                connections,
                part,
                gaps,
            } => {
                if Range::is_empty(part) {
                    return None;
                }
                loop {
                    let ticks = *next_ticks;
                    let connection = stream.below(u64::from(*connections)) as u32;
                    *next_ticks = ticks.checked_add(gaps.next_ticks(stream))?;
                    if part.contains(&connection) {
                        return Some(Arrival {
                            intended_ns: ticks >> TICK_BITS,
                            connection,
                        });
                    }
                }
            }
        }
    }
}

/// A distribution of gaps, scaled to a rate.
#[derive(Debug, Clone, Copy)]
struct Gaps {
    distribution: Distribution,
    /// Ticks per unit of the distribution.
    scale: f64,
    mean_ticks: f64,
}

impl Gaps {
    fn new(distribution: Distribution, rate_rps: f64) -> Result<Self, ArrivalsError> {
        let mean = distribution.positive_mean().filter(|mean| mean.is_finite());
        let mean = mean.ok_or(ArrivalsError::Mean(distribution, "infinite"))?;
        let mean_ticks = 1e9 * TICKS_PER_NS / rate_rps;
        let scale = mean_ticks / mean;
        if mean <= 0.0 || !scale.is_finite() {
            return Err(ArrivalsError::Mean(distribution, "0"));
        }
        Ok(Self {
            distribution,
            scale,
            mean_ticks,
        })
    }

    #[inline]
    fn next_ticks(&self, stream: &mut RandomStream) -> u64 {
        // `as` saturates: negatives become 0, too large values the maximum.
        (self.distribution.sample(stream) * self.scale + 0.5) as u64
    }

    fn first_ticks(&self, stream: &mut RandomStream) -> u64 {
        let mut ticks = -(8.0 + stream.unit()) * self.mean_ticks;
        for _ in 0..BURN_IN_GAPS_MAX {
            ticks += (self.distribution.sample(stream) * self.scale).max(0.0);
            if ticks >= 0.0 {
                return ticks as u64;
            }
        }
        (stream.unit() * self.mean_ticks) as u64
    }
}
