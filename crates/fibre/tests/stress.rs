//! Everything at once, for a while, drawn from a seed; and at the end the counts add up.

#![allow(
    clippy::unwrap_used,
    clippy::print_stderr,
    clippy::print_stdout,
    reason = "a failing test says where"
)]

#[path = "common/each.rs"]
mod each;

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, AtomicUsize, Ordering};
use std::sync::mpsc;
use std::time::Duration;

use each::each;
use fibre::{Condition, Fibre, Mutex, Runtime, Semaphore, Sender};

const FIBRES: u64 = 60;
const STEPS: u64 = 300;
const PERMITS: usize = 3;

/// Marsaglia's xorshift.
struct Random(u64);

impl Random {
    fn below(&mut self, bound: u64) -> u64 {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        (self.0 >> 32) % bound
    }
}

/// What the fibres share, and what each adds to it.
struct Mill {
    semaphore: Semaphore,
    held: AtomicUsize,
    sum: Mutex<u64>,
    turn: Mutex<u64>,
    turned: Condition,
    /// To a thread that rouses whom it is told to.
    rouser: mpsc::Sender<(Fibre, Arc<AtomicBool>)>,
    sent: AtomicU64,
    added: AtomicU64,
    turns: AtomicU64,
    got: AtomicU64,
    missed: AtomicU64,
}

impl Mill {
    fn hold(&self, random: &mut Random) {
        let held = self.held.fetch_add(1, Ordering::Relaxed);
        assert!(held < PERMITS, "more hold a permit than there are");
        if random.below(2) == 0 {
            fibre::yield_now();
        }
        self.held.fetch_sub(1, Ordering::Relaxed);
        self.semaphore.release();
        self.got.fetch_add(1, Ordering::Relaxed);
    }

    fn step(&self, random: &mut Random, sender: &Sender<u64>) {
        let some = Duration::from_micros(random.below(200));
        match random.below(10) {
            0 => fibre::yield_now(),
            1 => {
                let mut sum = self.sum.lock();
                let before = *sum;
                fibre::yield_now();
                *sum = before + 1;
                self.added.fetch_add(1, Ordering::Relaxed);
            }
            2 => {
                self.semaphore.acquire();
                self.hold(random);
            }
            3 | 4 => match self.semaphore.acquire_timeout(some) {
                true => self.hold(random),
                false => drop(self.missed.fetch_add(1, Ordering::Relaxed)),
            },
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
            7 => fibre::sleep(some).unwrap(),
            8 => {
                let is_set = Arc::new(AtomicBool::new(false));
                let asked = (fibre::current(), Arc::clone(&is_set));
                match random.below(2) {
                    0 => self.rouser.send(asked).unwrap(),
                    _ => drop(fibre::spawn(move || rouse(&asked))),
                }
                while !is_set.load(Ordering::Acquire) {
                    fibre::park();
                }
            }
            _ => {
                let mut turn = self.turn.lock();
                *turn += 1;
                self.turns.fetch_add(1, Ordering::Relaxed);
                self.turned.notify_one();
                drop(self.turned.wait_timeout(turn, some));
            }
        }
    }

    /// Whether all that was counted is there.
    fn adds_up(&self, received: u64) {
        assert_eq!(*self.sum.lock(), self.added.load(Ordering::Relaxed));
        assert_eq!(*self.turn.lock(), self.turns.load(Ordering::Relaxed));
        assert_eq!(received, self.sent.load(Ordering::Relaxed));
        assert_eq!(self.semaphore.permits(), PERMITS);
        assert_eq!(self.held.load(Ordering::Relaxed), 0);
    }
}

fn rouse((fibre, is_set): &(Fibre, Arc<AtomicBool>)) {
    // Once for nothing.
    fibre.unpark();
    is_set.store(true, Ordering::Release);
    fibre.unpark();
}

fn grind(runtime: &Runtime, seed: u64) {
    let (rouser, asked) = mpsc::channel();
    let rouses = std::thread::spawn(move || asked.iter().for_each(|asked| rouse(&asked)));
    let mill = Arc::new(Mill {
        semaphore: Semaphore::new(PERMITS),
        held: AtomicUsize::new(0),
        sum: Mutex::new(0),
        turn: Mutex::new(0),
        turned: Condition::new(),
        rouser,
        sent: AtomicU64::new(0),
        added: AtomicU64::new(0),
        turns: AtomicU64::new(0),
        got: AtomicU64::new(0),
        missed: AtomicU64::new(0),
    });
    let (sender, receiver) = fibre::channel(4);
    let fibres: Vec<_> = (0..FIBRES)
        .map(|number| {
            let (mill, sender) = (Arc::clone(&mill), sender.clone());
            runtime.spawn(move || {
                let mut random = Random(seed * FIBRES + number + 1);
                for _ in 0..STEPS {
                    mill.step(&mut random, &sender);
                }
            })
        })
        .collect();
    drop(sender);
    let receives = runtime.spawn(move || {
        let mut sum = 0;
        while let Ok(value) = receiver.receive() {
            sum += value;
        }
        sum
    });
    // A thread takes part, too.
    let mut random = Random(seed + 1);
    for _ in 0..STEPS {
        if mill
            .semaphore
            .acquire_timeout(Duration::from_micros(random.below(200)))
        {
            mill.hold(&mut random);
        }
        mill.semaphore.acquire();
        mill.hold(&mut random);
    }
    fibres.into_iter().for_each(|fibre| fibre.join().unwrap());
    mill.adds_up(receives.join().unwrap());
    drop(mill);
    rouses.join().unwrap();
}

#[test]
fn every_wake_is_accounted_for() {
    for processors in [1, 2, 4] {
        each(processors, |runtime| grind(runtime, 7));
    }
}
