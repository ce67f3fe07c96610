//! A stress test of the synchronisation primitives. Many fibres use all primitives at the same
//! time. In each step, a fibre uses one primitive, which it chooses at random (a seed determines
//! the choices). Two threads that are not processors take part: the test thread uses the semaphore,
//! another thread unparks fibres. Most primitives guard a value that the steps change. At the end,
//! these values must agree with atomic counters, which the fibres change without the primitives.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, AtomicUsize, Ordering};
use std::sync::mpsc;
use std::time::Duration;

use crate::tests::configurations::for_each_configuration;
use crate::{Condition, Fibre, Mutex, Runtime, Semaphore, Sender};

const FIBRES: u64 = 60;
/// The number of steps of each fibre. In a step, a fibre uses one primitive.
const STEPS: u64 = 300;
/// The number of permits of the semaphore.
const PERMITS: usize = 3;

/// A random-number generator, Marsaglia's xorshift. Its state is never 0.
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

/// The state that all fibres share: the primitives and the values that they guard, and the atomic
/// counters with which these values are compared at the end.
struct Shared {
    semaphore: Semaphore,
    /// The number of semaphore permits that are held now.
    held: AtomicUsize,
    /// A number that fibres increment. Between the read and the write, a fibre yields while it
    /// holds the lock.
    sum: Mutex<u64>,
    /// The expected value of `sum`.
    expected_sum: AtomicU64,
    /// A number that a fibre increments before it waits on `condition`.
    turn: Mutex<u64>,
    condition: Condition,
    /// The expected value of `turn`.
    expected_turn: AtomicU64,
    /// Sends requests to a thread that unparks fibres.
    wake_requests: mpsc::Sender<WakeRequest>,
    /// The sum of all values that fibres have sent through the channel of this crate
    /// ([`crate::channel`]).
    sent: AtomicU64,
}

/// A fibre to unpark, and a flag. The fibre waits until the flag is set.
type WakeRequest = (Fibre, Arc<AtomicBool>);

impl Shared {
    /// Called when the caller has acquired a permit. Keeps the permit for a while, and releases it.
    fn hold(&self, random: &mut Random) {
        let held = self.held.fetch_add(1, Ordering::Relaxed);
        assert!(held < PERMITS, "more permits are held than exist");
        if random.below(2) == 0 {
            crate::yield_now();
        }
        self.held.fetch_sub(1, Ordering::Relaxed);
        self.semaphore.release();
    }

    /// Uses one of the primitives, chosen at random.
    fn step(&self, random: &mut Random, sender: &Sender<u64>) {
        // The duration of a sleep, or the timeout of a wait.
        let short = Duration::from_micros(random.below(200));
        match random.below(10) {
            0 => crate::yield_now(),
            1 => {
                let mut sum = self.sum.lock();
                let before = *sum;
                crate::yield_now();
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
                let child = crate::spawn(move || {
                    crate::yield_now();
                    value
                });
                assert_eq!(child.join().unwrap(), value);
            }
            7 => crate::sleep(short).unwrap(),
            // Waits until another fibre, or the thread behind `wake_requests`, has set a flag.
            8 => {
                let is_set = Arc::new(AtomicBool::new(false));
                let request = (crate::current(), Arc::clone(&is_set));
                match random.below(2) {
                    0 => self.wake_requests.send(request).unwrap(),
                    _ => drop(crate::spawn(move || wake(&request))),
                }
                while !is_set.load(Ordering::Acquire) {
                    crate::park();
                }
            }
            // Wakes a fibre that waits on `condition`, then waits there until another fibre does
            // the same.
            _ => {
                let mut turn = self.turn.lock();
                *turn += 1;
                self.expected_turn.fetch_add(1, Ordering::Relaxed);
                self.condition.notify_one();
                drop(self.condition.wait_timeout(turn, short));
            }
        }
    }

    /// Compares the guarded values with the expected values. `received` is the sum of the values
    /// that were received through the channel.
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

/// Sets the flag of a request, and unparks its fibre before and after that.
fn wake((fibre, is_set): &WakeRequest) {
    // A spurious wake-up: the flag is not set yet, so the fibre must wait again.
    fibre.unpark();
    is_set.store(true, Ordering::Release);
    fibre.unpark();
}

/// Runs all fibres to their end, and checks the values that the primitives guard.
fn run_workload(runtime: &Runtime, seed: u64) {
    let (wake_requests, requests) = mpsc::channel();
    // This thread ends when `shared`, which contains the sender of the requests, is dropped.
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
    let (sender, receiver) = crate::channel(4);
    let fibres: Vec<_> = (0..FIBRES)
        .map(|number| {
            let (shared, sender) = (Arc::clone(&shared), sender.clone());
            runtime.spawn(move || {
                // Each fibre has a seed of its own, which is not 0.
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
    // This thread, which runs no fibres, competes with the fibres for the permits of the semaphore.
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
