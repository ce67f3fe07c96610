//! The benchmarks on fibres. The functions correspond one by one to those in `tasks.rs`.
//!
//! In *cycle*, an atomic word says whether a fibre must park or be unparked, as in the thesis. In
//! *cycle-bare* there is no such word. The *spots* of *churn* and *locality* (`spots.rs`) are
//! semaphores of this crate.

use std::sync::atomic::{AtomicU8, Ordering};
use std::sync::{Arc, OnceLock};

use fibre::{Fibre, JoinHandle, Runtime, Scheduler, Semaphore};

use crate::benchmark::{Benchmark, Outcome, Setting};
use crate::clock::Clock;
use crate::random::Random;
use crate::rounds::{Member, Rounds};
use crate::spots::{Handover, WorkingSet, spots, waiting_first};

/// The number of members of a ring in *cycle*.
const RING_LEN: usize = 5;

/// Runs a benchmark under a scheduler.
pub(crate) fn run(
    benchmark: Benchmark,
    setting: Setting,
    scheduler: Scheduler,
) -> Result<Outcome, String> {
    let runtime = fibre::Builder::new()
        .processors(setting.processors)
        .scheduler(scheduler)
        .start()
        .map_err(|error| error.to_string())?;
    match benchmark {
        Benchmark::Cycle => cycle::<Word>(&runtime, setting),
        Benchmark::CycleBare => cycle::<Bare>(&runtime, setting),
        Benchmark::CycleSemaphores => cycle::<Permits>(&runtime, setting),
        Benchmark::Yield => yields(&runtime, setting),
        Benchmark::Churn => churn(&runtime, setting),
        Benchmark::LocalityShare => locality_share(&runtime, setting),
        Benchmark::LocalityNoshare => locality_noshare(&runtime, setting),
        Benchmark::Transfer => transfer(&runtime, setting, false),
        Benchmark::Turns => transfer(&runtime, setting, true),
    }
}

/// The point at which one member of a ring in *cycle*, the *owner*, waits and is woken.
trait WaitPoint: Default + Send + Sync + 'static {
    /// Sets the owner.
    fn set_owner(&self, _fibre: &Fibre) {}

    /// Wakes the owner, or makes its next wait return immediately.
    fn post(&self);

    /// Waits until `post` is called. Called by the owner.
    fn wait(&self);
}

/// A point at which the owner only parks.
#[derive(Default)]
struct Bare(OnceLock<Fibre>);

impl WaitPoint for Bare {
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

/// The `bench_sem` of the thesis: an atomic word that says whether the owner must park, and the
/// owner.
#[repr(align(128))]
#[derive(Default)]
struct Word {
    word: AtomicU8,
    fibre: Bare,
}

impl Word {
    /// Not posted, and the owner does not wait.
    const EMPTY: u8 = 0;
    /// The owner's next wait returns immediately.
    const POSTED: u8 = 1;
    /// The owner waits, or is about to park.
    const WAITING: u8 = 2;

    /// Changes the word from `from` to `to`. Returns false if the word was not `from`.
    fn exchange(&self, from: u8, to: u8) -> bool {
        // Acquire and release: the waiting and the posting fibre see each other's earlier writes.
        self.word
            .compare_exchange(from, to, Ordering::AcqRel, Ordering::Acquire)
            .is_ok()
    }
}

impl WaitPoint for Word {
    fn set_owner(&self, fibre: &Fibre) {
        self.fibre.set_owner(fibre);
    }

    fn post(&self) {
        if !self.exchange(Self::EMPTY, Self::POSTED) && self.exchange(Self::WAITING, Self::EMPTY) {
            self.fibre.post();
        }
    }

    fn wait(&self) {
        if self.exchange(Self::EMPTY, Self::WAITING) {
            while self.word.load(Ordering::Acquire) == Self::WAITING {
                self.fibre.wait();
            }
        } else {
            self.word.store(Self::EMPTY, Ordering::Release);
        }
    }
}

/// A point that is a semaphore of this crate.
struct Permits(Semaphore);

impl Default for Permits {
    fn default() -> Self {
        Self(Semaphore::new(0))
    }
}

impl WaitPoint for Permits {
    fn post(&self) {
        self.0.release();
    }

    fn wait(&self) {
        self.0.acquire();
    }
}

fn cycle<S: WaitPoint>(runtime: &Runtime, setting: Setting) -> Result<Outcome, String> {
    let clock = Arc::new(Clock::default());
    let mut handles = Vec::new();
    let mut rings = Vec::new();
    for _ in 0..setting.threads() {
        let ring: Arc<[S; RING_LEN]> = Arc::default();
        for number in 0..RING_LEN {
            let (clock, members) = (Arc::clone(&clock), Arc::clone(&ring));
            let handle = runtime.spawn(move || {
                let (mine, next) = (&members[number], &members[(number + 1) % RING_LEN]);
                let mut count = 0_u64;
                mine.wait();
                while !clock.is_over() {
                    next.post();
                    mine.wait();
                    count += 1;
                }
                // The next member of the ring waits for this wake-up, and can end after it. The
                // wake-up by the last member has no effect, because the next member has ended
                // already.
                next.post();
                count
            });
            ring[number].set_owner(handle.fibre());
            handles.push(handle);
        }
        rings.push(ring);
    }
    rings.iter().for_each(|ring| ring[0].post());
    let seconds = clock.run(setting.duration);
    Ok(Outcome::new(handles.len(), sum(handles)?, seconds))
}

fn yields(runtime: &Runtime, setting: Setting) -> Result<Outcome, String> {
    let clock = Arc::new(Clock::default());
    let handles = (0..setting.threads()).map(|_| {
        let clock = Arc::clone(&clock);
        runtime.spawn(move || {
            await_start(&clock);
            let mut count = 0_u64;
            while !clock.is_over() {
                fibre::yield_now();
                count += 1;
            }
            count
        })
    });
    let handles: Vec<_> = handles.collect();
    let seconds = clock.run(setting.duration);
    Ok(Outcome::new(handles.len(), sum(handles)?, seconds))
}

fn churn(runtime: &Runtime, setting: Setting) -> Result<Outcome, String> {
    let clock = Arc::new(Clock::default());
    let spots = semaphores(setting);
    let handles = (0..setting.threads()).map(|number| {
        let (clock, spots) = (Arc::clone(&clock), Arc::clone(&spots));
        runtime.spawn(move || {
            let (mut random, mut count) = (Random::new(number as u64 + 1), 0_u64);
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
                count += 1;
            }
            count
        })
    });
    let handles: Vec<_> = handles.collect();
    clock.await_arrivals(waiting_first(setting));
    let seconds = clock.run(setting.duration);
    release_all(&spots, setting);
    Ok(Outcome::new(handles.len(), sum(handles)?, seconds))
}

fn locality_share(runtime: &Runtime, setting: Setting) -> Result<Outcome, String> {
    let clock = Arc::new(Clock::default());
    let spots = semaphores(setting);
    let handovers: Arc<[Handover]> = spots.iter().map(|_| Handover::default()).collect();
    let handles = (0..setting.threads()).map(|number| {
        let (clock, spots) = (Arc::clone(&clock), Arc::clone(&spots));
        let handovers = Arc::clone(&handovers);
        runtime.spawn(move || {
            let (mut random, mut count) = (Random::new(number as u64 + 1), 0_u64);
            let mut set = Some(WorkingSet::new());
            if number < waiting_first(setting) {
                clock.arrive();
                spots[number].acquire();
                set = handovers[number].take();
            } else {
                await_start(&clock);
            }
            while !clock.is_over() {
                let Some(mut mine) = set else { break };
                mine.touch(&mut random);
                let spot = random.below(spots.len());
                handovers[spot].put(mine);
                spots[spot].release();
                spots[spot].acquire();
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
    Ok(Outcome::new(handles.len(), sum(handles)?, seconds))
}

fn locality_noshare(runtime: &Runtime, setting: Setting) -> Result<Outcome, String> {
    let clock = Arc::new(Clock::default());
    let spots = semaphores(setting);
    let handles = (0..setting.threads()).map(|number| {
        let (clock, spots) = (Arc::clone(&clock), Arc::clone(&spots));
        runtime.spawn(move || {
            let (mut random, mut count) = (Random::new(number as u64 + 1), 0_u64);
            let mut mine = WorkingSet::new();
            if number < waiting_first(setting) {
                clock.arrive();
                spots[number].acquire();
            } else {
                await_start(&clock);
            }
            while !clock.is_over() {
                mine.touch(&mut random);
                let spot = &spots[random.below(spots.len())];
                spot.release();
                spot.acquire();
                count += 1;
            }
            count
        })
    });
    let handles: Vec<_> = handles.collect();
    clock.await_arrivals(waiting_first(setting));
    let seconds = clock.run(setting.duration);
    release_all(&spots, setting);
    Ok(Outcome::new(handles.len(), sum(handles)?, seconds))
}

fn transfer(runtime: &Runtime, setting: Setting, detects_gaps: bool) -> Result<Outcome, String> {
    let clock = Arc::new(Clock::default());
    let rounds = Rounds::new(setting, detects_gaps);
    let handles = (0..setting.threads()).map(|number| {
        let (clock, mut member) = (Arc::clone(&clock), Member::new(&rounds, number));
        runtime.spawn(move || {
            await_start(&clock);
            while !clock.is_over() {
                member.step();
                fibre::yield_now();
            }
            member.close()
        })
    });
    let handles: Vec<_> = handles.collect();
    let measured = rounds.measure(&clock, setting.duration);
    Ok(measured.outcome(&joined(handles)?))
}

/// Yields until the clock has started.
fn await_start(clock: &Clock) {
    while !clock.has_started() {
        fibre::yield_now();
    }
}

/// Creates the spots of *churn* and *locality*.
fn semaphores(setting: Setting) -> Arc<[Semaphore]> {
    (0..spots(setting)).map(|_| Semaphore::new(0)).collect()
}

/// Adds so many permits to every spot that no fibre waits any more.
fn release_all(spots: &[Semaphore], setting: Setting) {
    for spot in spots {
        for _ in 0..setting.threads() {
            spot.release();
        }
    }
}

/// Waits for all fibres, and adds up the numbers of operations that they return.
fn sum(handles: Vec<JoinHandle<u64>>) -> Result<u64, String> {
    Ok(joined(handles)?.into_iter().sum())
}

/// Waits for all fibres, and returns their results.
fn joined<T>(handles: Vec<JoinHandle<T>>) -> Result<Vec<T>, String> {
    let joined = handles.into_iter().map(JoinHandle::join);
    let all: Result<Vec<T>, _> = joined.collect();
    all.map_err(|_| "a fibre panicked".to_owned())
}
