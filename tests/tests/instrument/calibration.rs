//! The generator against known laws, briefly and on a machine that may be busy.
//!
//! The bounds of the table (`cargo xtask calibrate`) need two quiet processors. What is held here
//! a busy machine cannot excuse: that no request is reported faster than it was, that a stall
//! shows from intended time, and that a closed loop hides it.

use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::thread;

use curtail_tests::calibration::Setting;
use curtail_tests::calibration::bench::{Trial, load_of, percentile, trial, trial_by_agents};
use curtail_tests::calibration::law::Service;
use curtail_tests::calibration::search::searched;
use load::search::{SearchConfig, SearchResult};
use load::{Config, Rate};
use measure::Verdict;
use workload::{Distribution, Superposition};

const STALL: Service = Service::Stall {
    service_ns: 5_000.0,
    every_ns: 1e9,
    lasting_ns: STALL_NS as f64,
};
const STALL_NS: u64 = 100_000_000;

/// Makes one trial at a time: each keeps two processors busy. Where there are two, server and
/// generator take one each: on one they would wait for each other's time slices.
fn alone(law: Service, config: &Config) -> Trial {
    alone_with(|setting| trial(setting, law, config))
}

fn alone_with<T>(make: impl FnOnce(&Setting) -> anyhow::Result<T>) -> T {
    static ONE: Mutex<()> = Mutex::new(());
    let _one = ONE.lock().unwrap_or_else(PoisonError::into_inner);
    let program = env!("CARGO_BIN_EXE_calibrate").into();
    let cpus = sys::thread::allowed_cpus().unwrap();
    let setting = Setting {
        program,
        short: true,
        server_cpu: cpus.first().copied().filter(|_| cpus.len() > 1),
        load_cpu: cpus.get(1).copied(),
    };
    make(&setting).unwrap()
}

#[test]
fn no_request_is_reported_faster_than_it_was() {
    let config = load_of(Rate::PerSecond(500.0), 1.0);
    let trial = alone(Service::Exponential(100_000.0), &config);
    let differences_ns = trial.differences_ns(|_| true);
    assert!(differences_ns.len() > 400, "{}", differences_ns.len());
    // At the least what lies between the two: four ways through the kernel's sockets.
    let least = differences_ns[0];
    assert!(least > 0 && least < 200_000, "{least}");
}

#[test]
fn no_percentile_by_agents_is_reported_faster_than_it_was() {
    let mut config = load_of(Rate::PerSecond(500.0), 1.0);
    config.spin = false;
    let law = Service::Exponential(100_000.0);
    let trial = alone_with(|setting| trial_by_agents(setting, law, &config, 2));
    let response = trial.summary.response.as_ref().unwrap();
    assert!(response.count > 400, "{}", response.count);
    for &(at, reported_ns) in &response.percentiles {
        let true_ns = percentile(&trial.residences_ns, at);
        assert!(reported_ns > true_ns, "p{at}: {reported_ns} {true_ns}");
    }
}

/// A thread that wants the generator's processor gets it for milliseconds at a time; of most that
/// the generator sends late for that, it says so.
#[test]
fn a_request_that_was_due_in_an_interruption_says_so() {
    let cpus = sys::thread::allowed_cpus().unwrap();
    let load_cpu = cpus[1 % cpus.len()];
    let rival_ends = Arc::new(AtomicBool::new(false));
    let rival = thread::spawn({
        let ends = Arc::clone(&rival_ends);
        move || {
            sys::thread::pin(&[load_cpu]).unwrap();
            while !ends.load(Ordering::Relaxed) {
                std::hint::spin_loop();
            }
        }
    });
    let mut config = load_of(Rate::PerSecond(2000.0), 1.0);
    config.warmup_ns = 100_000_000;
    // Where others want the processor too, requests are late for more reasons than one.
    let mut trials = Vec::new();
    let holds = |&(late, interrupted): &(usize, usize)| late >= 100 && interrupted * 2 > late;
    while trials.len() < 3 && !trials.iter().any(holds) {
        trials.push(late_and_interrupted(&alone(
            Service::Fixed(10_000.0),
            &config,
        )));
    }
    rival_ends.store(true, Ordering::Relaxed);
    rival.join().unwrap();
    // The rest came due while it was at work, or in an interruption before the last.
    assert!(trials.iter().any(holds), "{trials:?}");
}

fn late_and_interrupted(trial: &Trial) -> (usize, usize) {
    let seen = trial.requests.iter().map(|(seen, _)| seen);
    let late: Vec<_> = seen
        .filter(|seen| seen.sent_ns - seen.intended_ns > 500_000)
        .collect();
    let interrupted = late.iter().filter(|seen| seen.interrupted).count();
    (late.len(), interrupted)
}

#[test]
fn a_stall_shows_from_intended_time() {
    let mut config = load_of(Rate::PerSecond(500.0), 2.0);
    config.arrivals = Distribution::Fixed(1.0);
    config.superposition = Superposition::Single;
    (config.connections, config.depth) = (4, 2);
    let trial = alone(STALL, &config);
    let response = &trial.summary.response.as_ref().unwrap().percentiles;
    let at = |percentile| response.iter().find(|(at, _)| *at == percentile).unwrap().1;
    assert!(at(95.0) >= STALL_NS * 45 / 100, "{response:?}");
    assert!(at(99.0) >= STALL_NS * 85 / 100, "{response:?}");
    // The eight that had left waited, and no other did so after its send.
    assert!(trial.slower_than(STALL_NS / 2) >= 8);
}

#[test]
fn a_closed_loop_shows_a_stall_once_a_connection() {
    let mut config = load_of(Rate::Max, 1.0);
    (config.connections, config.depth) = (5, 1);
    config.warmup_ns = 10_000_000;
    let trial = alone(STALL, &config);
    // Who is kept from asking for a moment meets what is left of the stall.
    let slow = trial.slower_than(STALL_NS / 2);
    assert!(
        slow >= 5 && slow * 20 < trial.requests.len(),
        "{slow} of {}",
        trial.requests.len()
    );
}

/// Whatever the machine does to the verdicts, the search ends, and every trial is in its result.
#[test]
fn a_search_ends_and_records_every_trial() {
    let mut search = SearchConfig::new(vec!["p50=10s".parse().unwrap()]);
    search.trials_max = 3;
    let config = load_of(Rate::PerSecond(1000.0), 0.2);
    let (searched, _) = alone_with(|setting| searched(setting, config, &search));
    let count = searched.trials.len();
    assert!((1..=3).contains(&count) && searched.sustained.trials == count);
    for (number, trial) in (1..).zip(&searched.trials) {
        assert_eq!(trial.number, number);
        assert_eq!(trial.summary.is_some(), trial.error.is_none());
        let judged = trial.judgement.as_ref().map(|judgement| judgement.verdict);
        assert_eq!(judged.unwrap_or(Verdict::Failed), trial.verdict);
    }
    let text = serde_json::to_string(&searched).unwrap();
    let read: SearchResult = serde_json::from_str(&text).unwrap();
    assert_eq!(read, searched);
}
