//! Writers that evacuate segments, with readers, a pin and a sleeping worker, in many interleavings
//! (`cargo xtask models`). The scheduler switches threads only at accesses to what they share
//! through `crate::sync`. The bytes of items are plain memory, so a thread writes all bytes of an
//! item without a switch, and a reader of reused memory sees the complete value of another key.
//!
//! All interleavings are sequentially consistent: missing fences and weak orderings are not
//! detected. The models named `weak_memory.rs` cover those.

use super::*;
use crate::item::Expiry;
use crate::read::Read;
use crate::write::{Mode, Published, Write};
use shuttle::thread;

const NOW_S: u32 = 1;
const ROUNDS: usize = 300;
/// Maximum number of preemptions per run. Memory is reused only if one thread makes many steps
/// while another makes none, which hardly ever happens in schedules that choose a thread at random
/// for each step (Burckhardt et al., ASPLOS 2010).
const PREEMPTIONS: usize = 3;

/// A store of 13 segments, each with space for nine items of [`set`].
fn store() -> Arc<Store> {
    let config = Config {
        memory_bytes: 14 * 512 + 2048,
        item_max: 400,
        ..Config::DEFAULT
    };
    let geometry = Geometry {
        segment_bits: 9,
        segments: 16,
        classes: 1,
        class_buckets: 16,
        index_bytes: 16 * 64,
        ghost_bytes: 16,
        miniature_slots: 16,
    };
    match Store::build(config, geometry) {
        Ok(store) => store,
        Err(error) => panic!("{error}"),
    }
}

/// Stores a value derived from its key. Returns its CAS.
fn set(worker: &mut Worker, number: u8) -> u64 {
    let key = [number];
    let value = [number; 40];
    let write = Write::plain(Mode::Set, Expiry::NEVER);
    let hash = worker.hash(&key);
    let published = match worker.put(&key, hash, &value, &write, NOW_S) {
        Ok(published) => published,
        Err(rejected) => panic!("no memory for {number}: {rejected}"),
    };
    match published {
        Published::Stored { cas, .. } => cas,
        other => panic!("{other:?}"),
    }
}

/// Reads an item, and checks that its bytes are those of [`set`]. Returns whether the key has an
/// item. If `yields`, another thread may run between finding the item and reading its bytes.
fn read_item(worker: &mut Worker, number: u8, yields: bool) -> bool {
    let key = [number];
    let read = worker.read(&key, worker.hash(&key), NOW_S, Read::default(), |item| {
        if yields {
            thread::yield_now();
        }
        let is_whole = |piece: &[u8]| piece.iter().all(|&byte| byte == number);
        assert!(
            item.value().all(is_whole),
            "the bytes of {number} are those of another item"
        );
        Some(())
    });
    read.is_ok()
}

#[test]
fn no_reader_sees_reused_memory() {
    shuttle::check_pct(
        || {
            let store = store();
            {
                let mut worker = store.worker();
                for number in 0..60 {
                    set(&mut worker, number);
                }
            }
            let reader = {
                let mut worker = store.worker();
                thread::spawn(move || {
                    for number in 0..60 {
                        read_item(&mut worker, number, true);
                        if number % 4 == 0 {
                            worker.quiescent();
                        }
                        if number % 8 == 0 {
                            worker.offline();
                            thread::yield_now();
                            worker.online();
                        }
                    }
                })
            };
            let mut worker = store.worker();
            for number in 60..250 {
                set(&mut worker, number);
                assert!(
                    read_item(&mut worker, number, false),
                    "{number} has just been stored"
                );
                worker.quiescent();
            }
            assert!(reader.join().is_ok());
            assert!(store.statistics().evacuated > 0);
        },
        ROUNDS,
        PREEMPTIONS,
    );
}

#[test]
fn a_pinned_value_stays_during_evacuation() {
    shuttle::check_pct(
        || {
            let store = store();
            let mut worker = store.worker();
            set(&mut worker, 7);
            let pin = worker.read(&[7], worker.hash(&[7]), NOW_S, Read::default(), |item| {
                item.pin()
            });
            let Ok(Some(pin)) = pin else {
                panic!("the item was not found or not pinned");
            };
            drop(worker);
            let holder = thread::spawn(move || {
                for _ in 0..10 {
                    let is_whole = |piece: &[u8]| piece.iter().all(|&byte| byte == 7);
                    assert!(pin.value().all(is_whole), "reused while pinned");
                    thread::yield_now();
                }
            });
            let mut worker = store.worker();
            for number in 20..250 {
                set(&mut worker, number);
                worker.quiescent();
            }
            assert!(holder.join().is_ok());
        },
        ROUNDS,
        PREEMPTIONS,
    );
}

#[test]
fn every_counted_item_of_two_writers_is_found() {
    shuttle::check_pct(
        || {
            let store = store();
            let writers: Vec<_> = (0..2_u8)
                .map(|writer| {
                    let mut worker = store.worker();
                    thread::spawn(move || {
                        for number in 0..30 {
                            set(&mut worker, 100 * writer + number);
                            worker.quiescent();
                        }
                        worker.offline();
                    })
                })
                .collect();
            for writer in writers {
                assert!(writer.join().is_ok());
            }
            let mut worker = store.worker();
            let found_count = (0..200)
                .filter(|&number| read_item(&mut worker, number, false))
                .count();
            assert_eq!(found_count as u64, store.statistics().items);
        },
        ROUNDS,
        PREEMPTIONS,
    );
}

#[test]
fn no_reader_sees_a_reused_hole() {
    // Summed over all interleavings, because in some no hole is filled: a worker that is not
    // quiescent prevents it.
    let holes_filled = std::sync::Arc::new(std::sync::atomic::AtomicU64::new(0));
    let sum = std::sync::Arc::clone(&holes_filled);
    shuttle::check_pct(
        move || {
            let store = store();
            let keys = 3_u8;
            {
                let mut worker = store.worker();
                for number in 0..keys {
                    set(&mut worker, number);
                }
            }
            let reader = {
                let mut worker = store.worker();
                thread::spawn(move || {
                    for turn in 0..60_u8 {
                        read_item(&mut worker, turn % keys, true);
                        if turn % 4 == 0 {
                            worker.quiescent();
                        }
                    }
                })
            };
            // Another thread fills the store with items of the same length, so that segments with
            // holes are evacuated and reopened while their holes are remembered.
            let filler = {
                let mut worker = store.worker();
                thread::spawn(move || {
                    for number in 100..160 {
                        set(&mut worker, number);
                        worker.quiescent();
                    }
                    worker.offline();
                })
            };
            let mut worker = store.worker();
            for turn in 0..160_u8 {
                let number = turn % keys;
                set(&mut worker, number);
                assert!(
                    read_item(&mut worker, number, false),
                    "{number} has just been stored"
                );
                worker.quiescent();
            }
            worker.offline();
            assert!(reader.join().is_ok());
            assert!(filler.join().is_ok());
            sum.fetch_add(store.statistics().holes_filled, Ordering::Relaxed);
        },
        ROUNDS,
        PREEMPTIONS,
    );
    assert!(holes_filled.load(Ordering::Relaxed) > 0);
}

/// A touched item moves to a block with an expiry word, while another thread reads it, touches it
/// too, and evacuates segments. Unless the item was evicted, a later read finds the last written
/// value with the last expiry.
#[test]
fn a_touched_item_keeps_the_last_written_value_and_gets_the_last_expiry() {
    // Summed over all interleavings, because in some the insertions of the other thread evict the
    // item.
    let found_count = Arc::new(std::sync::atomic::AtomicU64::new(0));
    let sum = Arc::clone(&found_count);
    shuttle::check_pct(
        move || {
            let store = store();
            let touch_until = |second: u32| {
                move |worker: &mut Worker| {
                    let touched = worker.touch(&[7], worker.hash(&[7]), Expiry::at(second), NOW_S);
                    assert!(touched.is_ok(), "the touch was deferred");
                }
            };
            set(&mut store.worker(), 7);
            let other = {
                let mut worker = store.worker();
                thread::spawn(move || {
                    for number in 0..60 {
                        touch_until(50)(&mut worker);
                        set(&mut worker, 20 + number);
                        read_item(&mut worker, 7, true);
                        worker.quiescent();
                    }
                    worker.offline();
                })
            };
            let mut worker = store.worker();
            let cas_and_expiry = |worker: &mut Worker| {
                let options = Read::default();
                let read = worker.read(&[7], worker.hash(&[7]), NOW_S, options, |item| {
                    Some((item.cas, item.expiry))
                });
                read.ok().flatten()
            };
            for _ in 0..20 {
                let cas = set(&mut worker, 7);
                thread::yield_now();
                let read = cas_and_expiry(&mut worker);
                assert!(read.is_none_or(|(read_cas, _)| read_cas == cas));
                worker.quiescent();
            }
            touch_until(50)(&mut worker);
            worker.offline();
            assert!(other.join().is_ok());
            worker.online();
            if let Some((_, expiry)) = cas_and_expiry(&mut worker) {
                assert_eq!(expiry, Expiry::at(50));
                sum.fetch_add(1, Ordering::Relaxed);
            }
        },
        ROUNDS,
        PREEMPTIONS,
    );
    assert!(found_count.load(Ordering::Relaxed) > 0);
}
