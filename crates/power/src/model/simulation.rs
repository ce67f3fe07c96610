//! All cores of a machine.

use measure::Histogram;
use rand::{RngExt, SeedableRng};
use rand_xoshiro::Xoshiro256PlusPlus;

use super::core::Core;
use super::system::Steering;
use super::{Machine, Setting, System};

/// What a simulation found. Shares are of the time of all cores, and add up to one.
#[derive(Debug, Clone)]
pub struct Simulated {
    /// Work: requests and wake-ups.
    pub work_share: f64,
    /// Leaving C-states.
    pub exit_share: f64,
    /// Halted, at the voltage of the P-state.
    pub halt_share: f64,
    /// In a deep C-state.
    pub deep_share: f64,
    /// Polling an empty queue.
    pub poll_share: f64,
    /// Interrupts a second.
    pub wakes_per_second: f64,
    /// Packets that waited when an interrupt had woken the core, mean; 0 while polling.
    pub batch_mean: f64,
    /// Requests a second that were answered.
    pub achieved_rps: f64,
    /// Response times.
    pub latency: Histogram,
    /// Lengths of idle intervals.
    pub idle: Histogram,
}

/// Simulates about `requests` requests, a tenth of which warm up. The load is open: a Poisson
/// process for each core, to which the superposition of its many connections comes close.
#[must_use]
pub fn simulate(
    machine: &Machine,
    system: &System,
    setting: Setting,
    rate_rps: f64,
    requests: usize,
    seed: u64,
) -> Simulated {
    let mut latency = Histogram::new();
    let mut idle = Histogram::new();
    let mut random = Xoshiro256PlusPlus::seed_from_u64(seed);
    let end_ns = requests as f64 / rate_rps * 1e9;
    let [mut work, mut exit, mut halt, mut deep, mut poll] = [0.0; 5];
    let (mut elapsed, mut rates, mut wakes_rate) = (0.0, 0.0, 0.0);
    let (mut wakes, mut batch_sum) = (0, 0);
    for share in shares(machine, system.steering, &mut random) {
        let own = Xoshiro256PlusPlus::seed_from_u64(random.random());
        if share == 0.0 {
            continue;
        }
        let core = Core::new(machine, system, setting, rate_rps * share, own);
        let record = core.run(end_ns, &mut latency, &mut idle);
        let whole = record.elapsed_ns.max(1.0);
        work += record.work_ns;
        exit += record.exit_ns;
        halt += record.halt_ns;
        deep += record.deep_ns;
        poll += record.poll_ns;
        elapsed += whole;
        rates += record.requests as f64 / whole * 1e9;
        wakes_rate += record.wakes as f64 / whole * 1e9;
        wakes += record.wakes;
        batch_sum += record.batch_sum;
    }
    let of = |part: f64| part / elapsed.max(1.0);
    Simulated {
        work_share: of(work),
        exit_share: of(exit),
        halt_share: of(halt),
        deep_share: of(deep),
        poll_share: of(poll),
        wakes_per_second: wakes_rate,
        batch_mean: match wakes {
            0 => 0.0,
            _ => batch_sum as f64 / wakes as f64,
        },
        achieved_rps: rates,
        latency,
        idle,
    }
}

impl Simulated {
    /// Whether p99 is below an objective. Without a response, nothing is kept.
    #[must_use]
    pub fn keeps(&self, objective_us: f64) -> bool {
        !self.latency.is_empty() && self.p99_us() < objective_us
    }

    /// Response time at the 99th percentile, microseconds.
    #[must_use]
    pub fn p99_us(&self) -> f64 {
        self.latency.percentile(99.0) as f64 / 1e3
    }
}

/// The share of the load of each core.
fn shares(machine: &Machine, steering: Steering, random: &mut Xoshiro256PlusPlus) -> Vec<f64> {
    let mut connections = vec![0_usize; machine.cores];
    for number in 0..machine.connections {
        let core = match steering {
            Steering::Even => number % machine.cores,
            Steering::Hash => random.random_range(0..machine.cores),
        };
        connections[core] += 1;
    }
    let all = machine.connections.max(1) as f64;
    connections.into_iter().map(|it| it as f64 / all).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::model::machine::{CState, IdleState};
    use crate::model::system::IdlePolicy;

    /// One core, requests of 100 µs at 1 GHz, and a sleep of `exit_us`.
    fn one(exit_us: f64, spread: f64) -> (Machine, System) {
        let machine = Machine {
            cores: 1,
            network_ns: 0.0,
            work_spread: spread,
            ..Machine::default()
        };
        let system = System {
            request_cycles: 100_000.0,
            wake_cycles: 0.0,
            idle: IdlePolicy::Always(CState {
                state: IdleState::Deep,
                exit_ns: exit_us * 1e3,
                residency_ns: 0.0,
            }),
            steering: Steering::Even,
            peak_rps: 10_000.0,
        };
        (machine, system)
    }

    fn mean_us(exit_us: f64, spread: f64, setting: Setting) -> f64 {
        let (machine, system) = one(exit_us, spread);
        simulate(&machine, &system, setting, 5_000.0, 400_000, 3)
            .latency
            .mean()
            / 1e3
    }

    fn is_near(found: f64, expected: f64) -> bool {
        (found / expected - 1.0).abs() < 0.03
    }

    #[test]
    fn without_knobs_it_is_the_queue_of_theory() {
        // At ρ = 0.5 and 100 µs, Pollaczek and Khinchine: M/D/1 150 µs, M/M/1 200 µs.
        for setting in [Setting::new(0.0, 1.0), Setting::polling(1.0)] {
            let [fixed, exponential] = [0.0, 1.0].map(|spread| mean_us(0.0, spread, setting));
            assert!(is_near(fixed, 150.0), "{fixed}");
            assert!(is_near(exponential, 200.0), "{exponential}");
        }
    }

    #[test]
    fn an_exit_latency_is_a_server_with_setup() {
        // M/G/1 with a fixed setup D (Welch 1964): mean wait + D (2 + λ D) ÷ (2 (1 + λ D)).
        let exit = 300.0;
        let load = 5e-3 * exit;
        let expected = 150.0 + exit * (2.0 + load) / (2.0 * (1.0 + load));
        let found = mean_us(exit, 0.0, Setting::new(0.0, 1.0));
        assert!(is_near(found, expected), "{found} of {expected}");
    }

    #[test]
    fn a_delay_bounds_interrupts_and_batches_packets() {
        let (machine, system) = one(0.0, 0.0);
        let at = |delay| {
            simulate(
                &machine,
                &system,
                Setting::new(delay, 2.0),
                5_000.0,
                100_000,
                3,
            )
        };
        let [none, long] = [0.0, 1_000.0].map(at);
        // ρ = 0.25: an idle server begins a busy period for three quarters of the packets.
        assert!(
            is_near(none.wakes_per_second, 3_750.0),
            "{}",
            none.wakes_per_second
        );
        assert!(is_near(none.batch_mean, 1.0));
        assert!(long.wakes_per_second < 1_000.0 && long.wakes_per_second > 900.0);
        assert!(long.batch_mean > 3.5, "{}", long.batch_mean);
        let tails = [long.p99_us(), none.p99_us()];
        assert!(tails[0] > 900.0 && tails[1] < 200.0, "{tails:?}");
    }

    #[test]
    fn speed_scales_work_but_no_exit_latency() {
        let (machine, system) = one(100.0, 0.0);
        let at = |speed| {
            simulate(
                &machine,
                &system,
                Setting::new(0.0, speed),
                1_000.0,
                100_000,
                3,
            )
        };
        let [slow, fast] = [1.0, 2.0].map(at);
        assert!(is_near(slow.work_share, 0.1) && is_near(fast.work_share, 0.05));
        // Exits a second: λ (1 − ρ) ÷ (1 + λ D).
        assert!(
            is_near(slow.exit_share, 0.1 * 0.9 / 1.1),
            "{}",
            slow.exit_share
        );
        assert!(
            is_near(fast.exit_share, 0.1 * 0.95 / 1.1),
            "{}",
            fast.exit_share
        );
        let whole = slow.work_share + slow.exit_share + slow.deep_share;
        assert!((whole - 1.0).abs() < 0.001, "{whole}");
    }

    #[test]
    fn polling_uses_all_the_time_and_a_seed_determines_the_result() {
        let (machine, system) = one(0.0, 0.5);
        let at = |seed| {
            simulate(
                &machine,
                &system,
                Setting::polling(1.0),
                1_000.0,
                10_000,
                seed,
            )
        };
        let found = at(1);
        assert!((found.work_share + found.poll_share - 1.0).abs() < 0.01);
        assert_eq!(found.wakes_per_second, 0.0);
        assert_eq!(
            at(1).latency.mean().to_bits(),
            found.latency.mean().to_bits()
        );
        assert_ne!(
            at(2).latency.mean().to_bits(),
            found.latency.mean().to_bits()
        );
    }

    #[test]
    fn an_overloaded_core_serves_its_capacity_with_a_tail_that_grows() {
        let (machine, system) = one(0.0, 0.0);
        for setting in [Setting::new(0.0, 1.0), Setting::polling(1.0)] {
            let at = |requests| simulate(&machine, &system, setting, 20_000.0, requests, 3);
            let [short, long] = [10_000, 100_000].map(at);
            assert!(
                is_near(short.achieved_rps, 10_000.0),
                "{}",
                short.achieved_rps
            );
            assert!(is_near(short.work_share, 1.0), "{}", short.work_share);
            // The last of 10 000 requests arrives after half a second, and is served after one.
            assert!(short.p99_us() > 400_000.0, "{}", short.p99_us());
            assert!(long.p99_us() > 5.0 * short.p99_us());
        }
    }

    #[test]
    fn hashed_connections_are_uneven_and_all_there() {
        let machine = Machine::default();
        let mut random = Xoshiro256PlusPlus::seed_from_u64(1);
        let even = shares(&machine, Steering::Even, &mut random);
        let hashed = shares(&machine, Steering::Hash, &mut random);
        assert!(even.iter().all(|it| (it - 1.0 / 16.0).abs() < 1e-12));
        assert!((hashed.iter().sum::<f64>() - 1.0).abs() < 1e-12);
        assert!(
            hashed.iter().any(|it| (it - 1.0 / 16.0).abs() > 0.005),
            "{hashed:?}"
        );
    }
}
