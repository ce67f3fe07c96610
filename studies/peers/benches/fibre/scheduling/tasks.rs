//! The benchmark loops on tasks of tokio's multi-threaded runtime. `scheduling.rs` says what each
//! benchmark does, and names the thesis. The functions have the same structure as those in
//! `fibres.rs`.
//!
//! In *cycle* and *cycle-bare*, the tasks form rings, in which each task wakes the next. In
//! *cycle*, tasks wait at tokio's semaphores, as in the benchmark for tokio in the thesis. In
//! *cycle-bare*, they wake each other through their `Waker`s. This is the fastest way to wake a
//! task; tokio's semaphores and channels also use it. *cycle-semaphores* is the same as *cycle*.
//!
//! In *churn* and *locality*, the tasks wait at *spots* (`spots.rs`), which are tokio's semaphores.
//! A `Notify` of tokio would not do: it stores only one permit, and a spot may need several.

use std::future;
use std::sync::{Arc, OnceLock};
use std::task::{Poll, Waker};
use std::thread;

use tokio::runtime::{Builder, Runtime};
use tokio::sync::Semaphore;
use tokio::task::{self, JoinHandle};

use crate::benchmark::{Benchmark, Outcome, Setting};
use crate::clock::Clock;
use crate::random::Random;
use crate::rounds::{Member, Rounds};
use crate::spots::{Handover, WorkingSet, spots, waiting_first};

/// The number of tasks of a ring. Each wakes the next, and the last wakes the first.
const RING_LEN: usize = 5;

/// Runs a benchmark.
pub(crate) fn run(benchmark: Benchmark, setting: Setting) -> Result<Outcome, String> {
    let runtime = Builder::new_multi_thread()
        .worker_threads(setting.processors)
        .build()
        .map_err(|error| error.to_string())?;
    match benchmark {
        Benchmark::Cycle | Benchmark::CycleSemaphores => cycle_semaphores(&runtime, setting),
        Benchmark::CycleBare => cycle_bare(&runtime, setting),
        Benchmark::Yield => yields(&runtime, setting),
        Benchmark::Churn => churn(&runtime, setting),
        Benchmark::LocalityShare => locality_share(&runtime, setting),
        Benchmark::LocalityNoshare => locality_noshare(&runtime, setting),
        Benchmark::Transfer => transfer(&runtime, setting, false),
        Benchmark::Turns => transfer(&runtime, setting, true),
    }
}

fn cycle_bare(runtime: &Runtime, setting: Setting) -> Result<Outcome, String> {
    let clock = Arc::new(Clock::default());
    let mut handles = Vec::new();
    let mut rings = Vec::new();
    // Here and in `cycle_semaphores`, `Setting::threads` is the number of rings.
    for _ in 0..setting.threads() {
        let ring: Arc<[OnceLock<Waker>; RING_LEN]> = Arc::default();
        for number in 0..RING_LEN {
            let (clock, members) = (Arc::clone(&clock), Arc::clone(&ring));
            handles.push(runtime.spawn(async move {
                let _ = members[number].set(waker().await);
                let next = loop {
                    park().await;
                    if let Some(next) = members[(number + 1) % RING_LEN].get() {
                        break next;
                    }
                };
                let mut count = 0_u64;
                while !clock.is_over() {
                    next.wake_by_ref();
                    park().await;
                    count += 1;
                }
                // The next task of the ring still waits. After this wake-up, it ends, too. If the
                // next task has already ended, the wake-up has no effect.
                next.wake_by_ref();
                count
            }));
        }
        rings.push(ring);
    }
    let has_all = |ring: &[OnceLock<Waker>; RING_LEN]| ring.iter().all(|it| it.get().is_some());
    // No task must be woken before every task has stored its waker.
    while !rings.iter().all(|ring| has_all(ring)) {
        thread::yield_now();
    }
    let wake_first = || {
        let first = rings.iter().filter_map(|ring| ring[0].get());
        first.for_each(Waker::wake_by_ref);
    };
    let seconds = clock.run_waking(setting.duration, wake_first);
    Ok(Outcome::new(handles.len(), sum(runtime, handles)?, seconds))
}

fn cycle_semaphores(runtime: &Runtime, setting: Setting) -> Result<Outcome, String> {
    let clock = Arc::new(Clock::default());
    let mut handles = Vec::new();
    let rings: Vec<Arc<[Semaphore]>> = (0..setting.threads())
        .map(|_| (0..RING_LEN).map(|_| Semaphore::new(0)).collect())
        .collect();
    for ring in &rings {
        for number in 0..RING_LEN {
            let (clock, members) = (Arc::clone(&clock), Arc::clone(ring));
            handles.push(runtime.spawn(async move {
                let (mine, next) = (&members[number], &members[(number + 1) % RING_LEN]);
                let mut count = 0_u64;
                acquire(mine).await;
                while !clock.is_over() {
                    next.add_permits(1);
                    acquire(mine).await;
                    count += 1;
                }
                // The next task of the ring still waits. After it has acquired this permit, it
                // ends, too.
                next.add_permits(1);
                count
            }));
        }
    }
    let wake_first = || rings.iter().for_each(|ring| ring[0].add_permits(1));
    let seconds = clock.run_waking(setting.duration, wake_first);
    Ok(Outcome::new(handles.len(), sum(runtime, handles)?, seconds))
}

fn yields(runtime: &Runtime, setting: Setting) -> Result<Outcome, String> {
    let clock = Arc::new(Clock::default());
    let handles = (0..setting.threads()).map(|_| {
        let clock = Arc::clone(&clock);
        runtime.spawn(async move {
            await_start(&clock).await;
            let mut count = 0_u64;
            while !clock.is_over() {
                task::yield_now().await;
                count += 1;
            }
            count
        })
    });
    let handles: Vec<_> = handles.collect();
    let seconds = clock.run(setting.duration);
    Ok(Outcome::new(handles.len(), sum(runtime, handles)?, seconds))
}

fn churn(runtime: &Runtime, setting: Setting) -> Result<Outcome, String> {
    let clock = Arc::new(Clock::default());
    let spots = semaphores(setting);
    let handles = (0..setting.threads()).map(|number| {
        let (clock, spots) = (Arc::clone(&clock), Arc::clone(&spots));
        runtime.spawn(async move {
            let (mut random, mut count) = (Random::new(number as u64 + 1), 0_u64);
            if number < waiting_first(setting) {
                clock.arrive();
                acquire(&spots[number]).await;
            } else {
                await_start(&clock).await;
            }
            while !clock.is_over() {
                let spot = &spots[random.below(spots.len())];
                spot.add_permits(1);
                acquire(spot).await;
                count += 1;
            }
            count
        })
    });
    let handles: Vec<_> = handles.collect();
    clock.await_arrivals(waiting_first(setting));
    let seconds = clock.run(setting.duration);
    release_all(&spots, setting);
    Ok(Outcome::new(handles.len(), sum(runtime, handles)?, seconds))
}

fn locality_share(runtime: &Runtime, setting: Setting) -> Result<Outcome, String> {
    let clock = Arc::new(Clock::default());
    let spots = semaphores(setting);
    let handovers: Arc<[Handover]> = spots.iter().map(|_| Handover::default()).collect();
    let handles = (0..setting.threads()).map(|number| {
        let (clock, spots) = (Arc::clone(&clock), Arc::clone(&spots));
        let handovers = Arc::clone(&handovers);
        runtime.spawn(async move {
            let (mut random, mut count) = (Random::new(number as u64 + 1), 0_u64);
            let mut set = Some(WorkingSet::new());
            if number < waiting_first(setting) {
                clock.arrive();
                acquire(&spots[number]).await;
                set = handovers[number].take();
            } else {
                await_start(&clock).await;
            }
            while !clock.is_over() {
                // There may be no set if the run has ended since `is_over` was called.
                let Some(mut mine) = set else { break };
                mine.touch(&mut random);
                let spot = random.below(spots.len());
                handovers[spot].put(mine);
                spots[spot].add_permits(1);
                acquire(&spots[spot]).await;
                set = handovers[spot].take();
                count += 1;
            }
            count
        })
    });
    let handles: Vec<_> = handles.collect();
    clock.await_arrivals(waiting_first(setting));
    let seconds = clock.run(setting.duration);
    release_all(&spots, setting);
    Ok(Outcome::new(handles.len(), sum(runtime, handles)?, seconds))
}

fn locality_noshare(runtime: &Runtime, setting: Setting) -> Result<Outcome, String> {
    let clock = Arc::new(Clock::default());
    let spots = semaphores(setting);
    let handles = (0..setting.threads()).map(|number| {
        let (clock, spots) = (Arc::clone(&clock), Arc::clone(&spots));
        runtime.spawn(async move {
            let (mut random, mut count) = (Random::new(number as u64 + 1), 0_u64);
            let mut mine = WorkingSet::new();
            if number < waiting_first(setting) {
                clock.arrive();
                acquire(&spots[number]).await;
            } else {
                await_start(&clock).await;
            }
            while !clock.is_over() {
                mine.touch(&mut random);
                let spot = &spots[random.below(spots.len())];
                spot.add_permits(1);
                acquire(spot).await;
                count += 1;
            }
            count
        })
    });
    let handles: Vec<_> = handles.collect();
    clock.await_arrivals(waiting_first(setting));
    let seconds = clock.run(setting.duration);
    release_all(&spots, setting);
    Ok(Outcome::new(handles.len(), sum(runtime, handles)?, seconds))
}

fn transfer(runtime: &Runtime, setting: Setting, detects_gaps: bool) -> Result<Outcome, String> {
    let clock = Arc::new(Clock::default());
    let rounds = Rounds::new(setting, detects_gaps);
    let handles = (0..setting.threads()).map(|number| {
        let (clock, mut member) = (Arc::clone(&clock), Member::new(&rounds, number));
        runtime.spawn(async move {
            await_start(&clock).await;
            while !clock.is_over() {
                member.step();
                task::yield_now().await;
            }
            member.close()
        })
    });
    let handles: Vec<_> = handles.collect();
    let measured = rounds.measure(&clock, setting.duration);
    Ok(measured.outcome(&joined(runtime, handles)?))
}

/// Yields until the clock has started.
async fn await_start(clock: &Clock) {
    while !clock.has_started() {
        task::yield_now().await;
    }
}

/// The waker of the current task.
async fn waker() -> Waker {
    future::poll_fn(|context| Poll::Ready(context.waker().clone())).await
}

/// Waits until the task is woken. If the task was woken since its last wait, returns immediately,
/// as `std::thread::park` does.
async fn park() {
    let mut is_parked = false;
    future::poll_fn(|_| {
        if is_parked {
            return Poll::Ready(());
        }
        is_parked = true;
        Poll::Pending
    })
    .await;
}

/// Waits for a permit and consumes it: the permit does not return to the semaphore.
async fn acquire(spot: &Semaphore) {
    // An error would mean that the semaphore was closed, which never happens.
    if let Ok(permit) = spot.acquire().await {
        permit.forget();
    }
}

/// Creates the spots of *churn* and *locality*.
fn semaphores(setting: Setting) -> Arc<[Semaphore]> {
    (0..spots(setting)).map(|_| Semaphore::new(0)).collect()
}

/// Adds a permit for each task to every spot, so that no task continues to wait.
fn release_all(spots: &[Semaphore], setting: Setting) {
    for spot in spots {
        spot.add_permits(setting.threads());
    }
}

/// Waits for all tasks, and adds up the numbers of operations that they return.
fn sum(runtime: &Runtime, handles: Vec<JoinHandle<u64>>) -> Result<u64, String> {
    Ok(joined(runtime, handles)?.into_iter().sum())
}

/// Waits for all tasks, and returns their results.
fn joined<T>(runtime: &Runtime, handles: Vec<JoinHandle<T>>) -> Result<Vec<T>, String> {
    let joined = handles.into_iter().map(|handle| runtime.block_on(handle));
    let all: Result<Vec<T>, _> = joined.collect();
    all.map_err(|error| error.to_string())
}
