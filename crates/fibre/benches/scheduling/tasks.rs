//! The benchmarks on tokio's multi-threaded runtime. The functions correspond one by one to those
//! in `fibres.rs`.
//!
//! In *cycle*, tasks wait at semaphores, as in the thesis's benchmark for tokio. In *cycle-bare*, a
//! task is woken by its `Waker`. This is the fastest way, and tokio's semaphores and channels are
//! built on it. The *spots* of *churn* and *locality* (`spots.rs`) are tokio's semaphores, because
//! tokio's `Notify` stores only one permit.

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

/// The number of members of a ring in *cycle*.
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
                // The next member of the ring waits for this wake-up, and can end after it. The
                // wake-up by the last member has no effect, because the next member has ended
                // already.
                next.wake_by_ref();
                count
            }));
        }
        rings.push(ring);
    }
    let has_all = |ring: &[OnceLock<Waker>; RING_LEN]| ring.iter().all(|it| it.get().is_some());
    // Wait until every task has stored its waker.
    while !rings.iter().all(|ring| has_all(ring)) {
        thread::yield_now();
    }
    for first in rings.iter().filter_map(|ring| ring[0].get()) {
        first.wake_by_ref();
    }
    let seconds = clock.run(setting.duration);
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
                // The next member of the ring waits for this permit, and can end after it.
                next.add_permits(1);
                count
            }));
        }
    }
    rings.iter().for_each(|ring| ring[0].add_permits(1));
    let seconds = clock.run(setting.duration);
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

/// Waits until the task is woken. A wake-up that came before this call ends the wait immediately,
/// as with `std::thread::park`.
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

/// Takes a permit and does not return it to the semaphore.
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

/// Adds so many permits to every spot that no task waits any more.
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
