//! A stress test of the synchronisation primitives. Many fibres use all primitives at the same
//! time, in a random order that a seed determines. Two threads that run no fibres take part: one
//! uses the semaphore, the other unparks fibres. At the end, the values that the primitives guarded
//! must agree with what each fibre has counted.

#![allow(
    clippy::unwrap_used,
    clippy::print_stderr,
    clippy::print_stdout,
    reason = "a panic shows where a test fails"
)]

#[path = "common/configurations.rs"]
mod configurations;

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, AtomicUsize, Ordering};
use std::sync::mpsc;
use std::time::Duration;

use configurations::for_each_configuration;
use fibre::{Condition, Fibre, Mutex, Runtime, Semaphore, Sender};

const FIBRES: u64 = 60;
/// The number of steps of each fibre.
const STEPS: u64 = 300;
/// The number of permits of the semaphore.
const PERMITS: usize = 3;

/// Marsaglia's xorshift.
struct Random(u64);

impl Random {
    /// Returns a number from 0 to `bound - 1`.
    fn below(&mut self, bound: u64) -> u64 {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        (self.0 >> 32) % bound
    }
}

/// The state that all fibres share. At the end, the guarded values are compared with the atomic
/// counters.
struct Shared {
    semaphore: Semaphore,
    /// The number of semaphore permits that are held now.
    held: AtomicUsize,
    /// A number that is changed in two steps with the mutex held.
    sum: Mutex<u64>,
    /// The expected value of `sum`.
    expected_sum: AtomicU64,
    /// A number that is changed before each wait on `condition`.
    turn: Mutex<u64>,
    condition: Condition,
    /// The expected value of `turn`.
    expected_turn: AtomicU64,
    /// The channel to a thread that unparks fibres.
    wake_requests: mpsc::Sender<WakeRequest>,
    /// The sum of all values sent through the channel.
    sent: AtomicU64,
}

/// A fibre to unpark, and the flag to set before that.
type WakeRequest = (Fibre, Arc<AtomicBool>);

impl Shared {
    /// Holds a permit that the caller has acquired, and releases it.
    fn hold(&self, random: &mut Random) {
        let held = self.held.fetch_add(1, Ordering::Relaxed);
        assert!(held < PERMITS, "more permits are held than exist");
        if random.below(2) == 0 {
            fibre::yield_now();
        }
        self.held.fetch_sub(1, Ordering::Relaxed);
        self.semaphore.release();
    }

    /// Uses one of the primitives, chosen at random.
    fn step(&self, random: &mut Random, sender: &Sender<u64>) {
        let short = Duration::from_micros(random.below(200));
        match random.below(10) {
            0 => fibre::yield_now(),
            1 => {
                let mut sum = self.sum.lock();
                let before = *sum;
                fibre::yield_now();
                *sum = before + 1;
                self.expected_sum.fetch_add(1, Ordering::Relaxed);
            }
            2 => {
                self.semaphore.acquire();
                self.hold(random);
            }
            3 | 4 => {
                if self.semaphore.acquire_timeout(short) {
                    self.hold(random);
                }
            }
            5 => {
                let value = random.below(1000);
                self.sent.fetch_add(value, Ordering::Relaxed);
                sender.send(value).unwrap();
            }
            6 => {
                let value = random.below(1000);
                let child = fibre::spawn(move || {
                    fibre::yield_now();
                    value
                });
                assert_eq!(child.join().unwrap(), value);
            }
            7 => fibre::sleep(short).unwrap(),
            8 => {
                let is_set = Arc::new(AtomicBool::new(false));
                let request = (fibre::current(), Arc::clone(&is_set));
                match random.below(2) {
                    0 => self.wake_requests.send(request).unwrap(),
                    _ => drop(fibre::spawn(move || wake(&request))),
                }
                while !is_set.load(Ordering::Acquire) {
                    fibre::park();
                }
            }
            _ => {
                let mut turn = self.turn.lock();
                *turn += 1;
                self.expected_turn.fetch_add(1, Ordering::Relaxed);
                self.condition.notify_one();
                drop(self.condition.wait_timeout(turn, short));
            }
        }
    }

    /// Compares the guarded values with the expected ones. `received` is the sum of the values
    /// received from the channel.
    fn check_sums(&self, received: u64) {
        assert_eq!(*self.sum.lock(), self.expected_sum.load(Ordering::Relaxed));
        assert_eq!(
            *self.turn.lock(),
            self.expected_turn.load(Ordering::Relaxed)
        );
        assert_eq!(received, self.sent.load(Ordering::Relaxed));
        assert_eq!(self.semaphore.permits(), PERMITS);
        assert_eq!(self.held.load(Ordering::Relaxed), 0);
    }
}

/// Sets the flag of a request and unparks its fibre.
fn wake((fibre, is_set): &WakeRequest) {
    // A spurious wake-up: the flag is not set yet.
    fibre.unpark();
    is_set.store(true, Ordering::Release);
    fibre.unpark();
}

/// Runs all fibres to their end, and checks the sums.
fn run_workload(runtime: &Runtime, seed: u64) {
    let (wake_requests, requests) = mpsc::channel();
    let waker = std::thread::spawn(move || requests.iter().for_each(|request| wake(&request)));
    let shared = Arc::new(Shared {
        semaphore: Semaphore::new(PERMITS),
        held: AtomicUsize::new(0),
        sum: Mutex::new(0),
        expected_sum: AtomicU64::new(0),
        turn: Mutex::new(0),
        condition: Condition::new(),
        expected_turn: AtomicU64::new(0),
        wake_requests,
        sent: AtomicU64::new(0),
    });
    let (sender, receiver) = fibre::channel(4);
    let fibres: Vec<_> = (0..FIBRES)
        .map(|number| {
            let (shared, sender) = (Arc::clone(&shared), sender.clone());
            runtime.spawn(move || {
                let mut random = Random(seed * FIBRES + number + 1);
                for _ in 0..STEPS {
                    shared.step(&mut random, &sender);
                }
            })
        })
        .collect();
    drop(sender);
    let receiving_fibre = runtime.spawn(move || {
        let mut sum = 0;
        while let Ok(value) = receiver.receive() {
            sum += value;
        }
        sum
    });
    // This thread runs no fibres. It competes for the semaphore with the fibres.
    let mut random = Random(seed + 1);
    for _ in 0..STEPS {
        if shared
            .semaphore
            .acquire_timeout(Duration::from_micros(random.below(200)))
        {
            shared.hold(&mut random);
        }
        shared.semaphore.acquire();
        shared.hold(&mut random);
    }
    fibres.into_iter().for_each(|fibre| fibre.join().unwrap());
    shared.check_sums(receiving_fibre.join().unwrap());
    drop(shared);
    waker.join().unwrap();
}

#[test]
fn primitives_under_stress_lose_no_update_and_no_wakeup() {
    let seed = 7;
    for processors in [1, 2, 4] {
        for_each_configuration(processors, |runtime| run_workload(runtime, seed));
    }
}
