//! A queue with one waiting line and several servers, simulated request by request.
//!
//! The recursion of Kiefer and Wolfowitz (1955): each request takes the server that is free first.

use std::time::Duration;

use lab::model::{Computed, Default, Model, Settings, Simulate};
use measure::Histogram;
use rand::{RngExt, SeedableRng};
use rand_xoshiro::Xoshiro256PlusPlus;
use report::record::Better;

use crate::limits;

#[rustfmt::skip]
pub(crate) const MODEL: Model = Model {
    name: "queue",
    settings: &[
        ("rate", Default::Number(0.0)),
        ("service-us", Default::Number(100.0)),
        ("servers", Default::Number(1.0)),
        ("requests", Default::Number(100_000.0)),
        ("service", Default::Text("exponential")),
    ],
    metrics: &[
        ("response_mean_ns", "response time, mean", "ns", Better::Lower),
        ("response_p50_ns", "response time, median", "ns", Better::Lower),
        ("response_p99_ns", "response time, 99th percentile", "ns", Better::Lower),
        ("wait_mean_ns", "time in the queue, mean", "ns", Better::Lower),
        ("achieved_rps", "achieved rate", "/s", Better::Higher),
        ("load", "offered load", "ratio", Better::Neither),
    ],
    factors: &[],
    read: |settings| Ok(Box::new(Queue::read(settings)?)),
};

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Service {
    Fixed,
    Exponential,
}

/// Requests that arrive at random times (a Poisson process) and wait for one of several servers.
#[derive(Debug, Clone, PartialEq)]
struct Queue {
    rate_rps: f64,
    service_ns: f64,
    service: Service,
    servers: usize,
    /// Requests simulated. The first tenth is warm-up and not recorded.
    requests: usize,
}

#[derive(Debug)]
struct Simulated {
    response: Histogram,
    wait_mean_ns: f64,
    achieved_rps: f64,
}

impl Simulate for Queue {
    fn takes(&self) -> Duration {
        Duration::from_nanos(200 * self.requests as u64)
    }

    fn simulate(&self, seed: u64) -> Result<Computed, String> {
        let found = self.run(seed);
        let metrics = vec![
            ("response_mean_ns", found.response.mean()),
            ("response_p50_ns", found.response.percentile(50.0) as f64),
            ("response_p99_ns", found.response.percentile(99.0) as f64),
            ("wait_mean_ns", found.wait_mean_ns),
            ("achieved_rps", found.achieved_rps),
            ("load", self.load()),
        ];
        Ok(Computed {
            metrics,
            response: found.response,
            ..Computed::default()
        })
    }
}

impl Queue {
    fn read(settings: &Settings<'_>) -> Result<Self, String> {
        let laws = [
            ("exponential", Service::Exponential),
            ("fixed", Service::Fixed),
        ];
        let queue = Self {
            rate_rps: settings.positive("rate")?,
            service_ns: settings.positive("service-us")? * 1e3,
            service: settings.one_of("service", &laws)?,
            servers: settings.within("servers", 1, limits::SERVERS as u64)? as usize,
            requests: settings.within("requests", 10, limits::REQUESTS as u64)? as usize,
        };
        match queue.rate_rps > 0.0 {
            true => Ok(queue),
            false => Err("`rate` is missing".to_owned()),
        }
    }

    /// The offered load: arrivals × service time ÷ servers.
    fn load(&self) -> f64 {
        self.rate_rps * self.service_ns / 1e9 / self.servers as f64
    }

    /// Simulates the requests from an empty queue.
    fn run(&self, seed: u64) -> Simulated {
        let mut random = Xoshiro256PlusPlus::seed_from_u64(seed);
        let mut exponential = |mean: f64| -mean * (1.0 - random.random::<f64>()).ln();
        let mut free_at = vec![0.0_f64; self.servers];
        let warmup = self.requests / 10;
        let mut response = Histogram::new();
        let (mut now, mut started, mut ended, mut waits) = (0.0, 0.0, 0.0_f64, 0.0);
        for number in 0..self.requests {
            now += exponential(1e9 / self.rate_rps);
            let service = match self.service {
                Service::Fixed => self.service_ns,
                Service::Exponential => exponential(self.service_ns),
            };
            // The few servers of a model are searched faster than a heap is kept.
            let earlier = |&a: &usize, &b: &usize| free_at[a].total_cmp(&free_at[b]);
            let first = (0..free_at.len()).min_by(earlier).unwrap_or_default();
            let begin = free_at[first].max(now);
            let end = begin + service;
            free_at[first] = end;
            if number == warmup {
                started = now;
            }
            if number >= warmup {
                response.record((end - now).round() as u64);
                waits += begin - now;
                ended = ended.max(end);
            }
        }
        let recorded = (self.requests - warmup) as f64;
        Simulated {
            response,
            wait_mean_ns: waits / recorded,
            achieved_rps: recorded / (ended - started).max(1.0) * 1e9,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn queue(service: Service, servers: usize, load: f64) -> Queue {
        Queue {
            rate_rps: 10_000.0 * servers as f64 * load,
            service_ns: 100_000.0,
            service,
            servers,
            requests: 400_000,
        }
    }

    #[test]
    fn waiting_times_are_those_of_theory() {
        // M/M/1: ρ ÷ (1 − ρ) service times; M/D/1: half of that (Pollaczek and Khinchine).
        for (service, expected) in [
            (Service::Exponential, 100_000.0),
            (Service::Fixed, 50_000.0),
        ] {
            let found = queue(service, 1, 0.5).run(7);
            let error = (found.wait_mean_ns / expected - 1.0).abs();
            assert!(
                error < 0.05,
                "{service:?}: {} of {expected}",
                found.wait_mean_ns
            );
        }
        // M/M/2 at ρ = 0.5: ρ² ÷ (1 − ρ²) service times (Erlang).
        let found = queue(Service::Exponential, 2, 0.5).run(7);
        assert!((found.wait_mean_ns / 33_333.0 - 1.0).abs() < 0.05);
    }
}
