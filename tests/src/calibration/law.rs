//! Service laws whose consequences are known.

use std::fmt;
use std::str::FromStr;

use anyhow::{Context, bail};
use workload::RandomStream;

/// How long the server takes over a request once it is its turn.
#[derive(Debug, Clone, Copy, PartialEq)]
pub enum Service {
    /// Always the same.
    Fixed(f64),
    /// Exponential with that mean.
    Exponential(f64),
    /// Two lengths.
    Bimodal {
        /// The usual one.
        short_ns: f64,
        /// The other.
        long_ns: f64,
        /// The other's share.
        long_share: f64,
    },
    /// Always the same, but for a time in which nothing is served.
    Stall {
        /// Always the same.
        service_ns: f64,
        /// From one stall to the next; the first begins half of that after the first request.
        every_ns: f64,
        /// How long a stall lasts.
        lasting_ns: f64,
    },
}

impl Service {
    /// When a service that begins at `start_ns` after the first request's arrival ends.
    pub fn end_ns(&self, start_ns: u64, stream: &mut RandomStream) -> u64 {
        let start = start_ns as f64;
        let end = match *self {
            Self::Fixed(ns) => start + ns,
            Self::Exponential(mean_ns) => start - mean_ns * stream.unit().ln(),
            Self::Bimodal {
                short_ns,
                long_ns,
                long_share,
            } => {
                start
                    + if stream.unit() < long_share {
                        long_ns
                    } else {
                        short_ns
                    }
            }
            Self::Stall {
                service_ns,
                every_ns,
                lasting_ns,
            } => {
                let into = start % every_ns - every_ns / 2.0;
                let stalled = (0.0..lasting_ns).contains(&into);
                start + service_ns + if stalled { lasting_ns - into } else { 0.0 }
            }
        };
        end as u64
    }
}

impl FromStr for Service {
    type Err = anyhow::Error;

    fn from_str(text: &str) -> anyhow::Result<Self> {
        let (name, numbers) = text.split_once(':').context("a law is NAME:NUMBERS")?;
        let numbers: Vec<f64> = numbers
            .split(',')
            .map(str::parse)
            .collect::<Result<_, _>>()
            .context("numbers")?;
        Ok(match (name, numbers.as_slice()) {
            ("fixed", &[ns]) => Self::Fixed(ns),
            ("exponential", &[mean_ns]) => Self::Exponential(mean_ns),
            ("bimodal", &[short_ns, long_ns, long_share]) => Self::Bimodal {
                short_ns,
                long_ns,
                long_share,
            },
            ("stall", &[service_ns, every_ns, lasting_ns]) => Self::Stall {
                service_ns,
                every_ns,
                lasting_ns,
            },
            _ => bail!("no law `{text}`"),
        })
    }
}

impl fmt::Display for Service {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Fixed(ns) => write!(out, "fixed:{ns}"),
            Self::Exponential(mean_ns) => write!(out, "exponential:{mean_ns}"),
            Self::Bimodal {
                short_ns,
                long_ns,
                long_share,
            } => {
                write!(out, "bimodal:{short_ns},{long_ns},{long_share}")
            }
            Self::Stall {
                service_ns,
                every_ns,
                lasting_ns,
            } => {
                write!(out, "stall:{service_ns},{every_ns},{lasting_ns}")
            }
        }
    }
}

/// A request on its way to a queue.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Arrival {
    /// When the schedule wanted it to leave: its response time counts from then.
    pub intended_ns: u64,
    /// When it came to the server.
    pub arrived_ns: u64,
    /// Whether its response time is one of those the percentile is of.
    pub counts: bool,
}

/// Where the 99th percentile of the response times lies in all but a share `alpha` of runs, if
/// those who arrive so are served one at a time, in the order given, for exponential times. The
/// first finds the server idle. Nothing for no arrivals that count.
///
/// Successive response times are strongly correlated, so the interval of independent samples
/// would be far too narrow, and the asymptotic variance of a percentile of such a queue has no
/// simple form. The recursion of Lindley (*The theory of queues with a single server*, 1952) is
/// run instead, as often as it takes to see the tails. It is run over the arrivals as they were:
/// when a machine takes the processor from the generator, what was held up comes all at once, and
/// not only those requests wait longer but those behind them too. That is the machine's doing; the
/// queue answers to its law all the same, and a Poisson process would not know of it.
#[must_use]
pub fn p99_of_queue_ns(
    arrivals: &[Arrival],
    mean_service_ns: f64,
    alpha: f64,
    stream: &mut RandomStream,
) -> Option<(f64, f64)> {
    const RUNS: usize = 1000;
    let first_ns = arrivals.first()?.intended_ns;
    // Of a few seconds, a float tells nanoseconds apart.
    let since_first = |ns: u64| (ns.cast_signed() - first_ns.cast_signed()) as f64;
    let counted = arrivals.iter().filter(|arrival| arrival.counts).count();
    let place = (counted * 99).div_ceil(100).checked_sub(1)?;
    let mut responses = Vec::with_capacity(counted);
    let mut p99s: Vec<f64> = (0..RUNS)
        .map(|_| {
            responses.clear();
            let mut free = f64::MIN;
            for arrival in arrivals {
                let service = -mean_service_ns * stream.unit().ln();
                free = since_first(arrival.arrived_ns).max(free) + service;
                if arrival.counts {
                    responses.push(free - since_first(arrival.intended_ns));
                }
            }
            *responses.select_nth_unstable_by(place, f64::total_cmp).1
        })
        .collect();
    p99s.sort_by(f64::total_cmp);
    let beyond = (alpha / 2.0 * RUNS as f64) as usize;
    Some((p99s[beyond], p99s[RUNS - 1 - beyond]))
}

#[cfg(test)]
mod tests {
    use super::*;
    use workload::Purpose;

    #[test]
    fn laws_read_as_they_are_written() {
        for text in [
            "fixed:50000",
            "exponential:125000",
            "bimodal:5,10,0.25",
            "stall:1,10,2",
        ] {
            assert_eq!(text.parse::<Service>().unwrap().to_string(), text);
        }
        assert!("fixed:1,2".parse::<Service>().is_err());
        assert!("fixed".parse::<Service>().is_err());
    }

    #[test]
    fn no_request_is_served_during_a_stall() {
        let law: Service = "stall:1,100,10".parse().unwrap();
        let mut stream = RandomStream::new(1, Purpose::Other, 0);
        let ends = [0, 49, 50, 55, 60, 149, 151].map(|start_ns| law.end_ns(start_ns, &mut stream));
        assert_eq!(ends, [1, 50, 61, 61, 61, 150, 161]);
    }

    const MEAN_NS: f64 = 125_000.0;

    /// Arrivals of a Poisson process at half load.
    fn scheduled(customers: usize, stream: &mut RandomStream) -> Vec<Arrival> {
        let mut intended = 1e9;
        let next = |_| {
            intended -= 2.0 * MEAN_NS * stream.unit().ln();
            Arrival {
                intended_ns: intended as u64,
                arrived_ns: intended as u64,
                counts: true,
            }
        };
        (0..customers).map(next).collect()
    }

    #[test]
    fn the_interval_of_the_queue_holds_what_theory_says() {
        let mut stream = RandomStream::new(1, Purpose::Other, 0);
        let arrivals = scheduled(20_000, &mut stream);
        let (low, high) = p99_of_queue_ns(&arrivals, MEAN_NS, 0.01, &mut stream).unwrap();
        let expected = 100.0_f64.ln() * 2.0 * MEAN_NS;
        assert!(low < expected && expected < high, "{low} {expected} {high}");
        assert!((high - low) / expected < 0.3, "{low} {high}");
        assert_eq!(p99_of_queue_ns(&[], MEAN_NS, 0.01, &mut stream), None);
    }

    /// The generator is away for 4 ms ten times a second. What it then sends late does not count,
    /// but those behind it wait, and the interval knows.
    #[test]
    fn the_interval_of_the_queue_knows_what_a_machine_held_up() {
        let mut stream = RandomStream::new(2, Purpose::Other, 0);
        let quiet = scheduled(20_000, &mut stream);
        let held_up: Vec<Arrival> = quiet
            .iter()
            .map(|&arrival| {
                let into = arrival.intended_ns % 100_000_000;
                if into < 4_000_000 {
                    Arrival {
                        arrived_ns: arrival.intended_ns - into + 4_000_000,
                        counts: false,
                        ..arrival
                    }
                } else {
                    arrival
                }
            })
            .collect();
        let interval = |arrivals: &[Arrival], stream: &mut RandomStream| {
            p99_of_queue_ns(arrivals, MEAN_NS, 0.01, stream).unwrap()
        };
        let (_, high) = interval(&quiet, &mut stream);
        let (low, _) = interval(&held_up, &mut stream);
        assert!(low > high, "{low} {high}");
    }
}
