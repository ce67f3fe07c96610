//! Who starves, and who does not: the property for which the fair scheduler is there.

#![allow(
    clippy::unwrap_used,
    clippy::print_stderr,
    clippy::print_stdout,
    reason = "a failing test says where"
)]

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicI32, AtomicUsize, Ordering};
use std::time::{Duration, Instant};

use fibre::{Builder, Scheduler};

/// A fibre that keeps its processor, one behind it in the same lane, and a processor that never
/// runs dry: how the one behind fares within `timeout`.
fn runs_behind_one_that_does_not_yield(scheduler: Scheduler, timeout: Duration) -> bool {
    let builder = Builder::new().processors(2).scheduler(scheduler);
    let runtime = builder.start().unwrap();
    let is_over = Arc::new(AtomicBool::new(false));
    let turns = Arc::new(AtomicUsize::new(0));
    let busy = Arc::new(AtomicI32::new(0));
    let yielders: Vec<_> = (0..3)
        .map(|_| {
            let (is_over, turns, busy) = (is_over.clone(), turns.clone(), busy.clone());
            runtime.spawn(move || {
                while !is_over.load(Ordering::Relaxed) {
                    let keeper = busy.load(Ordering::Relaxed);
                    if keeper != 0 && keeper != thread_number() {
                        turns.fetch_add(1, Ordering::Relaxed);
                    }
                    fibre::yield_now();
                }
            })
        })
        .collect();
    let keeper = runtime.spawn(move || {
        busy.store(thread_number(), Ordering::Relaxed);
        // The other processor has work of its own, and always will.
        while turns.load(Ordering::Relaxed) < 1000 {
            std::hint::spin_loop();
        }
        let has_run = Arc::new(AtomicBool::new(false));
        let behind = Arc::clone(&has_run);
        drop(fibre::spawn(move || behind.store(true, Ordering::Relaxed)));
        let by = Instant::now() + timeout;
        while !has_run.load(Ordering::Relaxed) && Instant::now() < by {
            std::hint::spin_loop();
        }
        has_run.load(Ordering::Relaxed)
    });
    let has_run = keeper.join().unwrap();
    is_over.store(true, Ordering::Relaxed);
    yielders.into_iter().for_each(|fibre| fibre.join().unwrap());
    runtime.stop(Duration::from_secs(60)).unwrap();
    has_run
}

fn thread_number() -> i32 {
    // SAFETY: it has no conditions.
    unsafe { libc::gettid() }
}

#[test]
fn no_fibre_starves_under_the_fair_scheduler() {
    let timeout = Duration::from_secs(60);
    assert!(runs_behind_one_that_does_not_yield(
        Scheduler::Fair,
        timeout
    ));
    assert!(runs_behind_one_that_does_not_yield(
        Scheduler::Global,
        timeout
    ));
}

/// As published of it: however long one waits, who has work of its own does not look.
#[test]
fn under_steal_one_may() {
    let timeout = Duration::from_millis(300);
    assert!(!runs_behind_one_that_does_not_yield(
        Scheduler::Steal,
        timeout
    ));
}
