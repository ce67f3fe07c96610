//! Several threads at one cache.

use std::sync::Barrier;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;

use crate::textile::limits;
use crate::textile::locks::preemption;
use crate::textile::table::home;
use crate::textile::{Design, SmallCache, Stored};
use workload::{Purpose, RandomStream};

use super::{SHARED, shared, value_of};

const THREADS: u64 = 4;
const OWNED: u64 = 100;
const COMMON: u64 = 16;

/// Ends the loops of other threads when it is dropped, also by a panic.
struct Ending<'a>(&'a AtomicBool);

impl Drop for Ending<'_> {
    fn drop(&mut self) {
        self.0.store(true, Ordering::Relaxed);
    }
}

/// A value that says which key it belongs to, which number it has, and where it ends.
fn value(key: &[u8], number: u64) -> Vec<u8> {
    let mut value = key.to_vec();
    value.extend(number.to_le_bytes());
    value.extend((0..number % 300).map(|at| (number ^ at) as u8));
    value
}

/// The number of a value, which must be one of its key.
fn number_of(key: &[u8], found: &[u8]) -> u64 {
    let number = found[key.len()..].first_chunk().expect("a whole number");
    let number = u64::from_le_bytes(*number);
    assert_eq!(found, value(key, number), "mixed or of another key");
    number
}

fn owned_key(thread: u64, number: u64) -> Vec<u8> {
    format!("own-{thread}-{number}").into_bytes()
}

fn common_key(number: u64) -> Vec<u8> {
    format!("common-{number}").into_bytes()
}

/// Sets, reads and deletes own and common keys at random. Returns the number that each own key was
/// set to last, if it was not deleted.
fn work(cache: &mut dyn SmallCache, thread: u64, rounds: u64, keeps_all: bool) -> Vec<Option<u64>> {
    preemption::enable(thread);
    let mut random = RandomStream::new(31, Purpose::Other, thread);
    let mut last = vec![None; OWNED as usize];
    for round in 0..rounds {
        let is_own = random.below(2) == 0;
        let number = random.below(if is_own { OWNED } else { COMMON });
        let key = if is_own {
            owned_key(thread, number)
        } else {
            common_key(number)
        };
        let mine = is_own.then(|| &mut last[number as usize]);
        match random.below(4) {
            0 | 1 => {
                let stamp = round * THREADS + thread;
                let stored = cache.set(&key, &value(&key, stamp));
                assert_eq!(stored, Stored::Stored);
                if let Some(mine) = mine {
                    *mine = Some(stamp);
                }
            }
            2 => {
                let found = value_of(cache, &key).map(|found| number_of(&key, &found));
                if let Some(mine) = mine {
                    assert!(found == *mine || (found.is_none() && !keeps_all));
                }
            }
            _ => {
                let deleted = cache.delete(&key);
                if let Some(mine) = mine {
                    let was_set = mine.take().is_some();
                    assert!(deleted == was_set || (!deleted && !keeps_all));
                }
            }
        }
    }
    last
}

fn all_keys() -> Vec<Vec<u8>> {
    let owned = (0..THREADS).flat_map(|t| (0..OWNED).map(move |n| owned_key(t, n)));
    owned.chain((0..COMMON).map(common_key)).collect()
}

/// Sum of the lengths of all values, each of which must be one of its key.
fn sum_of_values(cache: &mut dyn SmallCache) -> u64 {
    let mut sum = 0;
    for key in all_keys() {
        if let Some(found) = value_of(cache, &key) {
            number_of(&key, &found);
            sum += found.len() as u64;
        }
    }
    sum
}

#[test]
fn every_key_is_accounted_for_when_all_fit() {
    for design in SHARED {
        let cache = shared(design, 16 << 20);
        let last: Vec<_> = thread::scope(|scope| {
            let threads: Vec<_> = (0..THREADS)
                .map(|thread| {
                    let mut handle = cache.handle();
                    scope.spawn(move || work(&mut *handle, thread, 30_000, true))
                })
                .collect();
            threads.into_iter().map(|t| t.join().unwrap()).collect()
        });
        let mut handle = cache.handle();
        for (thread, last) in (0..).zip(last) {
            for (number, expected) in (0..).zip(last) {
                let key = owned_key(thread, number);
                let found = value_of(&mut *handle, &key);
                let found = found.map(|found| number_of(&key, &found));
                assert_eq!(found, expected, "{design}: key {number} of {thread}");
            }
        }
        let sum = sum_of_values(&mut *handle);
        if design != Design::Store {
            assert_eq!(handle.space_used(), sum, "{design}");
        }
        for key in all_keys() {
            handle.delete(&key);
        }
        assert_eq!(handle.space_used(), 0, "{design}");
    }
}

#[test]
fn memory_is_bounded_at_all_times_when_most_are_evicted() {
    // The last one has room for a single value of the longest, so sets wait for each other.
    for (maxmem, rounds) in [(20_000, 20_000), (330, 5_000)] {
        for design in SHARED {
            let maxmem = if design == Design::Store {
                1 << 20
            } else {
                maxmem
            };
            let cache = shared(design, maxmem);
            let is_over = AtomicBool::new(false);
            thread::scope(|scope| {
                let mut observer = cache.handle();
                let is_over = &is_over;
                scope.spawn(move || {
                    while !is_over.load(Ordering::Relaxed) {
                        assert!(observer.space_used() <= maxmem, "{design}");
                        thread::yield_now();
                    }
                });
                let threads: Vec<_> = (0..THREADS)
                    .map(|thread| {
                        let mut handle = cache.handle();
                        scope.spawn(move || work(&mut *handle, thread, rounds, false))
                    })
                    .collect();
                let _ending = Ending(is_over);
                for thread in threads {
                    thread.join().unwrap();
                }
            });
            let mut handle = cache.handle();
            let sum = sum_of_values(&mut *handle);
            assert!(sum <= maxmem && sum > 0, "{design}");
            if design != Design::Store {
                assert_eq!(handle.space_used(), sum, "{design}");
            }
        }
    }
}

#[test]
fn resident_keys_are_never_missed_while_others_come_and_they_are_replaced() {
    const INSERTED: u64 = 20_000;
    for design in SHARED {
        let cache = shared(design, 64 << 20);
        let mut handle = cache.handle();
        for number in 0..COMMON {
            let key = common_key(number);
            assert_eq!(handle.set(&key, &value(&key, 1)), Stored::Stored);
        }
        let is_over = AtomicBool::new(false);
        thread::scope(|scope| {
            for _ in 0..2 {
                let (mut reader, is_over) = (cache.handle(), &is_over);
                scope.spawn(move || {
                    preemption::enable(7);
                    let mut number = 0;
                    while !is_over.load(Ordering::Relaxed) {
                        number = (number + 1) % COMMON;
                        let key = common_key(number);
                        let found = value_of(&mut *reader, &key);
                        let found = found.unwrap_or_else(|| panic!("{design}: missed {number}"));
                        number_of(&key, &found);
                    }
                });
            }
            let (mut writer, is_over) = (cache.handle(), &is_over);
            scope.spawn(move || {
                preemption::enable(8);
                for round in 0.. {
                    if is_over.load(Ordering::Relaxed) {
                        break;
                    }
                    let key = common_key(round % COMMON);
                    assert_eq!(writer.set(&key, &value(&key, round)), Stored::Stored);
                }
            });
            let _ending = Ending(is_over);
            for number in 0..INSERTED {
                let key = owned_key(0, number);
                assert_eq!(handle.set(&key, &value(&key, 0)), Stored::Stored);
            }
        });
        for number in 0..INSERTED {
            let key = owned_key(0, number);
            assert!(value_of(&mut *handle, &key).is_some(), "{design}: {number}");
        }
    }
}

/// Keys with the home slot of the first one, in a new table.
fn colliding_keys(count: usize) -> Vec<Vec<u8>> {
    let slot = |key: &[u8]| home(key, limits::SLOTS_INITIAL);
    let keys = (0..).map(|number| owned_key(0, number));
    let first = slot(&owned_key(0, 0));
    keys.filter(|key| slot(key) == first).take(count).collect()
}

/// Each deletion of the key before it lets a set place the key one slot earlier.
#[test]
fn key_that_moves_to_an_earlier_slot_is_never_missed() {
    let keys = colliding_keys(41);
    let (moved, others) = keys.split_last().unwrap();
    for (design, round) in SHARED
        .into_iter()
        .flat_map(|it| (0..100).map(move |n| (it, n)))
    {
        let cache = shared(design, 1 << 20);
        let mut writer = cache.handle();
        for key in &keys {
            writer.set(key, b"");
        }
        let (is_over, is_reading) = (AtomicBool::new(false), Barrier::new(2));
        thread::scope(|scope| {
            let (mut reader, is_over, is_reading) = (cache.handle(), &is_over, &is_reading);
            scope.spawn(move || {
                preemption::enable(2 * round);
                is_reading.wait();
                while !is_over.load(Ordering::Relaxed) {
                    assert!(value_of(&mut *reader, moved).is_some(), "{design}: missed");
                }
            });
            let _ending = Ending(is_over);
            preemption::enable(2 * round + 1);
            is_reading.wait();
            for key in others.iter().rev() {
                assert!(writer.delete(key));
                writer.set(moved, b"");
            }
        });
    }
}

/// More threads than slots: all may insert before the first one doubles the table.
#[test]
fn every_insertion_into_a_small_table_finds_a_slot() {
    const INSERTERS: u64 = 120;
    for _ in 0..20 {
        let cache = shared(Design::PerEntry, 1 << 20);
        let barrier = Barrier::new(INSERTERS as usize);
        thread::scope(|scope| {
            for thread in 0..INSERTERS {
                let (mut handle, barrier) = (cache.handle(), &barrier);
                scope.spawn(move || {
                    preemption::enable(thread);
                    barrier.wait();
                    for number in 0..2 {
                        let key = owned_key(thread, number);
                        assert_eq!(handle.set(&key, &value(&key, number)), Stored::Stored);
                    }
                });
            }
        });
        let mut handle = cache.handle();
        for (thread, number) in (0..INSERTERS).flat_map(|t| [(t, 0), (t, 1)]) {
            assert!(value_of(&mut *handle, &owned_key(thread, number)).is_some());
        }
    }
}
