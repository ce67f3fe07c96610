//! Service laws whose consequences are known.

use std::fmt;
use std::str::FromStr;

use anyhow::{Context, bail};
use workload::Stream;

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
    pub fn end_ns(&self, start_ns: u64, stream: &mut Stream) -> u64 {
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

/// Where the 99th percentile of `customers` successive response times of an M/M/1 queue lies, in
/// all but a share `alpha` of runs.
///
/// Successive response times are strongly correlated, so the interval of independent samples
/// would be far too narrow, and the asymptotic variance of a percentile of such a queue has no
/// simple form. The recursion of Lindley (*The theory of queues with a single server*, 1952) is
/// run instead, as often as it takes to see the tails, from the stationary state.
#[must_use]
pub fn p99_of_queue_ns(
    rate_rps: f64,
    mean_service_ns: f64,
    customers: usize,
    alpha: f64,
    stream: &mut Stream,
) -> (f64, f64) {
    const RUNS: usize = 1000;
    let mean_gap_ns = 1e9 / rate_rps;
    let decay_ns = 1.0 / (1.0 / mean_service_ns - 1.0 / mean_gap_ns);
    let mut responses = vec![0.0; customers];
    let mut p99s: Vec<f64> = (0..RUNS)
        .map(|_| {
            // The response time of an M/M/1 queue is exponential: so begins the stationary run.
            let mut response = -decay_ns * stream.unit().ln();
            for slot in &mut responses {
                *slot = response;
                let gap = -mean_gap_ns * stream.unit().ln();
                let service = -mean_service_ns * stream.unit().ln();
                response = (response - gap).max(0.0) + service;
            }
            let place = customers * 99 / 100;
            *responses.select_nth_unstable_by(place, f64::total_cmp).1
        })
        .collect();
    p99s.sort_by(f64::total_cmp);
    let beyond = (alpha / 2.0 * RUNS as f64) as usize;
    (p99s[beyond], p99s[RUNS - 1 - beyond])
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
    fn a_stall_serves_nobody_until_it_ends() {
        let law: Service = "stall:1,100,10".parse().unwrap();
        let mut stream = Stream::new(1, Purpose::Other, 0);
        let ends = [0, 49, 50, 55, 60, 149, 151].map(|start_ns| law.end_ns(start_ns, &mut stream));
        assert_eq!(ends, [1, 50, 61, 61, 61, 150, 161]);
    }

    #[test]
    fn the_interval_of_the_queue_holds_what_theory_says() {
        let mut stream = Stream::new(1, Purpose::Other, 0);
        let (low, high) = p99_of_queue_ns(4000.0, 125_000.0, 20_000, 0.01, &mut stream);
        let expected = 100.0_f64.ln() / 4000.0 * 1e9;
        assert!(low < expected && expected < high, "{low} {expected} {high}");
        assert!((high - low) / expected < 0.3, "{low} {high}");
    }
}
