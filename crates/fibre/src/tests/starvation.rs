//! Starvation: no fibre starves under the fair and the global scheduler, but a fibre may starve
//! under the stealing scheduler.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicI32, AtomicUsize, Ordering};
use std::time::{Duration, Instant};

use crate::{Builder, Scheduler};

/// Returns whether a fibre that is enqueued behind a *blocker* runs within `timeout`. The blocker
/// is a fibre that does not yield, and so occupies one of the two *processors* (threads that run
/// fibres). It spawns the fibre to be observed, which is put in a queue of the same processor;
/// under `Global`, in the only queue. Three other fibres, which only yield, keep the second
/// processor busy, so that it never has to search for work.
fn fibre_behind_blocker_runs(scheduler: Scheduler, timeout: Duration) -> bool {
    let builder = Builder::new().processors(2).scheduler(scheduler);
    // SAFETY: the fibres of this test use no `thread_local!`.
    let runtime = unsafe { builder.start() }.unwrap();
    let is_over = Arc::new(AtomicBool::new(false));
    // The number of times that one of the three fibres ran on the second processor, that is, on a
    // kernel thread other than the blocker's.
    let turns = Arc::new(AtomicUsize::new(0));
    let blocker_thread = Arc::new(AtomicI32::new(0));
    let yielders: Vec<_> = (0..3)
        .map(|_| {
            let (is_over, turns, blocker_thread) =
                (is_over.clone(), turns.clone(), blocker_thread.clone());
            runtime.spawn(move || {
                while !is_over.load(Ordering::Relaxed) {
                    let blocker = blocker_thread.load(Ordering::Relaxed);
                    if blocker != 0 && blocker != thread_id() {
                        turns.fetch_add(1, Ordering::Relaxed);
                    }
                    crate::yield_now();
                }
            })
        })
        .collect();
    let blocker = runtime.spawn(move || {
        blocker_thread.store(thread_id(), Ordering::Relaxed);
        // Spin until the second processor has run the three fibres 1000 times in all. From then on,
        // it is busy.
        while turns.load(Ordering::Relaxed) < 1000 {
            std::hint::spin_loop();
        }
        let has_run = Arc::new(AtomicBool::new(false));
        let flag = Arc::clone(&has_run);
        drop(crate::spawn(move || flag.store(true, Ordering::Relaxed)));
        let deadline = Instant::now() + timeout;
        while !has_run.load(Ordering::Relaxed) && Instant::now() < deadline {
            std::hint::spin_loop();
        }
        has_run.load(Ordering::Relaxed)
    });
    let has_run = blocker.join().unwrap();
    is_over.store(true, Ordering::Relaxed);
    yielders.into_iter().for_each(|fibre| fibre.join().unwrap());
    runtime.stop(Duration::from_secs(60)).unwrap();
    has_run
}

/// The kernel's number of the current thread.
fn thread_id() -> i32 {
    // SAFETY: `gettid` has no preconditions.
    unsafe { libc::gettid() }
}

#[test]
fn no_fibre_starves_under_fair_and_global() {
    let timeout = Duration::from_secs(60);
    assert!(fibre_behind_blocker_runs(Scheduler::Fair, timeout));
    assert!(fibre_behind_blocker_runs(Scheduler::Global, timeout));
}

/// [`Scheduler::Steal`] follows libfibre (Karsten and Barghi, 2020): a processor that has ready
/// fibres of its own never takes a fibre from another processor. So the second processor does not
/// help here.
#[test]
fn fibre_behind_blocker_starves_under_steal() {
    let timeout = Duration::from_millis(300);
    assert!(!fibre_behind_blocker_runs(Scheduler::Steal, timeout));
}
