//! The benchmark loops on fibres. `scheduling.rs` says what each benchmark does. The functions have
//! the same structure as those in `tasks.rs`.
//!
//! In *cycle*, *cycle-bare* and *cycle-semaphores*, a fibre waits at a [`WaitPoint`]. The three
//! benchmarks differ only in the type of the wait points, so they share a function. In *churn* and
//! *locality*, fibres wait at *spots* (`spots.rs`), which are semaphores of this crate.

use std::sync::atomic::{AtomicU8, Ordering};
use std::sync::{Arc, OnceLock};

use fibre::{Fibre, JoinHandle, Runtime, Scheduler, Semaphore};

use crate::benchmark::{Benchmark, Outcome, Setting};
use crate::clock::Clock;
use crate::random::Random;
use crate::rounds::{Member, Rounds};
use crate::spots::{Handover, WorkingSet, spots, waiting_first};

/// The number of fibres of a ring in *cycle*. Each wakes the next, and the last wakes the first.
const RING_LEN: usize = 5;

/// Runs a benchmark on a new runtime with the given scheduler.
pub(crate) fn run(
    benchmark: Benchmark,
    setting: Setting,
    scheduler: Scheduler,
) -> Result<Outcome, String> {
    let builder = fibre::Builder::new()
        .processors(setting.processors)
        .scheduler(scheduler);
    // SAFETY: the benchmarks use no `thread_local!`.
    let runtime = unsafe { builder.start() }.map_err(|error| error.to_string())?;
    match benchmark {
        Benchmark::Cycle => cycle::<BenchSem>(&runtime, setting),
        Benchmark::CycleBare => cycle::<ParkPoint>(&runtime, setting),
        Benchmark::CycleSemaphores => cycle::<SemaphorePoint>(&runtime, setting),
        Benchmark::Yield => yields(&runtime, setting),
        Benchmark::Churn => churn(&runtime, setting),
        Benchmark::LocalityShare => locality_share(&runtime, setting),
        Benchmark::LocalityNoshare => locality_noshare(&runtime, setting),
        Benchmark::Transfer => transfer(&runtime, setting, false),
        Benchmark::Turns => transfer(&runtime, setting, true),
    }
}

/// An object at which one fibre of a ring waits. This fibre is the *owner* of the wait point.
trait WaitPoint: Default + Send + Sync + 'static {
    /// Makes `_fibre` the owner. Called once, before the first `post`. A type that need not know
    /// its owner ignores the call.
    fn set_owner(&self, _fibre: &Fibre) {}

    /// Wakes the owner if the owner waits. Otherwise the owner's next call of `wait` returns
    /// immediately. Called by another fibre or by the main thread.
    fn post(&self);

    /// Waits until `post` has been called once since the last `wait`. Called by the owner.
    fn wait(&self);
}

/// The wait point of *cycle-bare*: the owner parks, and is unparked.
#[derive(Default)]
struct ParkPoint(OnceLock<Fibre>);

impl WaitPoint for ParkPoint {
    fn set_owner(&self, fibre: &Fibre) {
        let _ = self.0.set(fibre.clone());
    }

    fn post(&self) {
        self.0.get().into_iter().for_each(Fibre::unpark);
    }

    fn wait(&self) {
        fibre::park();
    }
}

/// The wait point of *cycle*. It is the `bench_sem` of the thesis. The state shows whether `wait`
/// must park the owner, and whether `post` must unpark the owner.
// The alignment gives each wait point two cache lines of its own. CPUs fetch cache lines in pairs.
#[repr(align(128))]
#[derive(Default)]
struct BenchSem {
    /// One of the constants below.
    state: AtomicU8,
    /// Parks and unparks the owner.
    park_point: ParkPoint,
}

impl BenchSem {
    /// There was no `post` since the last `wait`, and the owner does not wait.
    const EMPTY: u8 = 0;
    /// There was a `post` since the last `wait`, so the owner's next `wait` returns immediately.
    const POSTED: u8 = 1;
    /// The owner is parked, or is about to park.
    const WAITING: u8 = 2;

    /// Changes the state to `to` if it is `from`. Returns whether it was `from`.
    fn exchange(&self, from: u8, to: u8) -> bool {
        // Acquire and release: the owner sees what the posting fibre wrote before its exchange, and
        // the posting fibre sees what the owner wrote before its own.
        self.state
            .compare_exchange(from, to, Ordering::AcqRel, Ordering::Acquire)
            .is_ok()
    }
}

impl WaitPoint for BenchSem {
    fn set_owner(&self, fibre: &Fibre) {
        self.park_point.set_owner(fibre);
    }

    fn post(&self) {
        // If the owner does not wait, the first exchange stores the post for the owner's next
        // `wait`. If the owner waits, the second exchange ends that wait. If a post is stored
        // already, both fail, and there is nothing to do.
        if !self.exchange(Self::EMPTY, Self::POSTED) && self.exchange(Self::WAITING, Self::EMPTY) {
            self.park_point.post();
        }
    }

    fn wait(&self) {
        if self.exchange(Self::EMPTY, Self::WAITING) {
            // A loop, because an earlier `post` may unpark the owner late, after its `wait` ended.
            while self.state.load(Ordering::Acquire) == Self::WAITING {
                self.park_point.wait();
            }
        } else {
            // The state was `POSTED`. This call uses up that post, and does not park.
            self.state.store(Self::EMPTY, Ordering::Release);
        }
    }
}

/// The wait point of *cycle-semaphores*: a semaphore of this crate, initially without permits.
struct SemaphorePoint(Semaphore);

impl Default for SemaphorePoint {
    fn default() -> Self {
        Self(Semaphore::new(0))
    }
}

impl WaitPoint for SemaphorePoint {
    fn post(&self) {
        self.0.release();
    }

    fn wait(&self) {
        self.0.acquire();
    }
}

/// Runs *cycle*, or the variant of it that has the wait points `W`.
fn cycle<W: WaitPoint>(runtime: &Runtime, setting: Setting) -> Result<Outcome, String> {
    let clock = Arc::new(Clock::default());
    let mut handles = Vec::new();
    let mut rings = Vec::new();
    // In *cycle*, `Setting::threads` is the number of rings.
    for _ in 0..setting.threads() {
        // The wait point of each fibre of the ring.
        let ring: Arc<[W; RING_LEN]> = Arc::default();
        for number in 0..RING_LEN {
            let (clock, points) = (Arc::clone(&clock), Arc::clone(&ring));
            let handle = runtime.spawn(move || {
                let (own_point, next_point) = (&points[number], &points[(number + 1) % RING_LEN]);
                let mut operations = 0_u64;
                own_point.wait();
                while !clock.is_over() {
                    next_point.post();
                    own_point.wait();
                    operations += 1;
                }
                // The next fibre of the ring still waits, and ends after this `post`. So the fibres
                // end one after the other. The `post` by the last fibre has no effect, because the
                // next fibre was the first to end.
                next_point.post();
                operations
            });
            ring[number].set_owner(handle.fibre());
            handles.push(handle);
        }
        rings.push(ring);
    }
    // Wake the first fibre of each ring. It wakes the next, and so on.
    let wake_first = || rings.iter().for_each(|ring| ring[0].post());
    let seconds = clock.run_waking(setting.duration, wake_first);
    Ok(Outcome::new(handles.len(), sum(handles)?, seconds))
}

/// Runs *yield*, whose name is a reserved word of Rust.
fn yields(runtime: &Runtime, setting: Setting) -> Result<Outcome, String> {
    let clock = Arc::new(Clock::default());
    let handles = (0..setting.threads()).map(|_| {
        let clock = Arc::clone(&clock);
        runtime.spawn(move || {
            await_start(&clock);
            let mut operations = 0_u64;
            while !clock.is_over() {
                fibre::yield_now();
                operations += 1;
            }
            operations
        })
    });
    let handles: Vec<_> = handles.collect();
    let seconds = clock.run(setting.duration);
    Ok(Outcome::new(handles.len(), sum(handles)?, seconds))
}

/// Runs *churn*.
fn churn(runtime: &Runtime, setting: Setting) -> Result<Outcome, String> {
    let clock = Arc::new(Clock::default());
    let spots = semaphores(setting);
    let handles = (0..setting.threads()).map(|number| {
        let (clock, spots) = (Arc::clone(&clock), Arc::clone(&spots));
        runtime.spawn(move || {
            let (mut random, mut operations) = (Random::new(number as u64 + 1), 0_u64);
            // `waiting_first` is the number of fibres that begin by waiting, each at its own spot.
            if number < waiting_first(setting) {
                clock.arrive();
                spots[number].acquire();
            } else {
                await_start(&clock);
            }
            while !clock.is_over() {
                let spot = &spots[random.below(spots.len())];
                spot.release();
                spot.acquire();
                operations += 1;
            }
            operations
        })
    });
    let handles: Vec<_> = handles.collect();
    clock.await_arrivals(waiting_first(setting));
    let seconds = clock.run(setting.duration);
    release_all(&spots, setting);
    Ok(Outcome::new(handles.len(), sum(handles)?, seconds))
}

/// Runs *locality-share*: at a spot, a fibre leaves its working set for the fibre that it wakes.
fn locality_share(runtime: &Runtime, setting: Setting) -> Result<Outcome, String> {
    let clock = Arc::new(Clock::default());
    let spots = semaphores(setting);
    // For each spot, the working sets that fibres have left there.
    let handovers: Arc<[Handover]> = spots.iter().map(|_| Handover::default()).collect();
    let handles = (0..setting.threads()).map(|number| {
        let (clock, spots) = (Arc::clone(&clock), Arc::clone(&spots));
        let handovers = Arc::clone(&handovers);
        runtime.spawn(move || {
            let (mut random, mut operations) = (Random::new(number as u64 + 1), 0_u64);
            let mut received_set = Some(WorkingSet::new());
            if number < waiting_first(setting) {
                clock.arrive();
                spots[number].acquire();
                received_set = handovers[number].take();
            } else {
                await_start(&clock);
            }
            while !clock.is_over() {
                // At the end of the run, `release_all` wakes fibres without a working set.
                let Some(mut working_set) = received_set else {
                    break;
                };
                working_set.touch(&mut random);
                let spot = random.below(spots.len());
                handovers[spot].put(working_set);
                spots[spot].release();
                spots[spot].acquire();
                received_set = handovers[spot].take();
                operations += 1;
            }
            operations
        })
    });
    let handles: Vec<_> = handles.collect();
    clock.await_arrivals(waiting_first(setting));
    let seconds = clock.run(setting.duration);
    release_all(&spots, setting);
    Ok(Outcome::new(handles.len(), sum(handles)?, seconds))
}

/// Runs *locality-noshare*: each fibre keeps its working set.
fn locality_noshare(runtime: &Runtime, setting: Setting) -> Result<Outcome, String> {
    let clock = Arc::new(Clock::default());
    let spots = semaphores(setting);
    let handles = (0..setting.threads()).map(|number| {
        let (clock, spots) = (Arc::clone(&clock), Arc::clone(&spots));
        runtime.spawn(move || {
            let (mut random, mut operations) = (Random::new(number as u64 + 1), 0_u64);
            let mut working_set = WorkingSet::new();
            if number < waiting_first(setting) {
                clock.arrive();
                spots[number].acquire();
            } else {
                await_start(&clock);
            }
            while !clock.is_over() {
                working_set.touch(&mut random);
                let spot = &spots[random.below(spots.len())];
                spot.release();
                spot.acquire();
                operations += 1;
            }
            operations
        })
    });
    let handles: Vec<_> = handles.collect();
    clock.await_arrivals(waiting_first(setting));
    let seconds = clock.run(setting.duration);
    release_all(&spots, setting);
    Ok(Outcome::new(handles.len(), sum(handles)?, seconds))
}

/// Runs *turns* (`detects_gaps` is true) or *transfer*. Only *turns* finds the gaps, the times in
/// which a processor neither slept nor ran a fibre (`gaps.rs`).
fn transfer(runtime: &Runtime, setting: Setting, detects_gaps: bool) -> Result<Outcome, String> {
    let clock = Arc::new(Clock::default());
    let rounds = Rounds::new(setting, detects_gaps);
    let handles = (0..setting.threads()).map(|number| {
        let (clock, mut member) = (Arc::clone(&clock), Member::new(&rounds, number));
        runtime.spawn(move || {
            await_start(&clock);
            while !clock.is_over() {
                // Does what this fibre can do without waiting, as the leader or as a follower.
                member.step();
                fibre::yield_now();
            }
            // If this fibre has not yet seen the last signal, `close` records how long it has
            // waited. It returns the measurements of this fibre.
            member.close()
        })
    });
    let handles: Vec<_> = handles.collect();
    // Starts the clock, and returns when it has stopped.
    let measured = rounds.measure(&clock, setting.duration);
    // `outcome` adds up the measurements of all fibres.
    Ok(measured.outcome(&joined(handles)?))
}

/// Yields until the main thread has started the clock.
fn await_start(clock: &Clock) {
    while !clock.has_started() {
        fibre::yield_now();
    }
}

/// Creates the semaphores that are the spots of *churn* and *locality*. They have no permits. The
/// function `spots` returns their number.
fn semaphores(setting: Setting) -> Arc<[Semaphore]> {
    (0..spots(setting)).map(|_| Semaphore::new(0)).collect()
}

/// Ends all waits: adds as many permits to each spot as there are fibres.
fn release_all(spots: &[Semaphore], setting: Setting) {
    for spot in spots {
        for _ in 0..setting.threads() {
            spot.release();
        }
    }
}

/// Waits until all fibres have ended. Returns the sum of their results, which are numbers of
/// operations.
fn sum(handles: Vec<JoinHandle<u64>>) -> Result<u64, String> {
    Ok(joined(handles)?.into_iter().sum())
}

/// Waits until all fibres have ended, and returns their results. Fails if a fibre panicked.
fn joined<T>(handles: Vec<JoinHandle<T>>) -> Result<Vec<T>, String> {
    let results = handles.into_iter().map(JoinHandle::join);
    let all_results: Result<Vec<T>, _> = results.collect();
    all_results.map_err(|_| "a fibre panicked".to_owned())
}
