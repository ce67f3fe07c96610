//! Models of the whole store under the scheduler shuttle, which runs them in many interleavings
//! (`cargo xtask models`): writers evacuate segments while other threads read, pin items or sleep.
//!
//! The scheduler switches threads only at operations on the types of `crate::sync`. The bytes of
//! items are plain memory, so no switch occurs while a thread writes the bytes of an item. A reader
//! of memory that was reused too early therefore sees the complete value of another key, and the
//! models detect the error by comparing value and key.
//!
//! All interleavings are sequentially consistent, so these models do not detect missing fences or
//! orderings that are too weak. The models in the files `weak_memory.rs` do.

use super::*;
use crate::expiry::Expiry;
use crate::operations::read::Read;
use crate::operations::request::{Mode, Published, Write};
use crate::worker::Worker;
use shuttle::scheduler::PctScheduler;
use shuttle::{Config, Runner, thread};

const NOW_S: u32 = 1;
/// Number of interleavings that each model runs.
const ROUNDS: usize = 300;
/// Maximum number of preemptions per run (Burckhardt et al., ASPLOS 2010). A reader can see reused
/// memory only if the writers make many steps while the reader makes none. A scheduler that chooses
/// a thread at random for each step hardly ever produces such an interleaving. A scheduler that
/// runs one thread until a rare preemption does.
const PREEMPTIONS: usize = 3;

/// Bytes of stack of each thread. Shuttle's atomics are many times as large as the real ones. A
/// worker's statistics by size class are made of them on the stack, and moved from there to the
/// heap. Without optimisation that does not fit in shuttle's default of 32 KiB.
const STACK_LEN: usize = 512 << 10;

/// Runs a model in many interleavings.
fn check(model: impl Fn() + Send + Sync + 'static, rounds: usize, preemptions: usize) {
    let mut config = Config::new();
    config.stack_size = STACK_LEN;
    Runner::new(PctScheduler::new(preemptions, rounds), config).run(model);
}

/// Stores an item with key `[number]`, whose value consists of 40 bytes equal to `number`. Returns
/// its CAS.
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

/// Reads the item with key `[number]`, and checks that its bytes are those that [`set`] wrote.
/// Returns whether the key has an item. If `yields` is true, the scheduler may run other threads
/// between finding the item and reading its bytes.
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
    check(
        || {
            let store = small_store();
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
                    "{number} is absent although it was just stored"
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
    check(
        || {
            let store = small_store();
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
                    assert!(pin.value().all(is_whole), "pinned memory was reused");
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

/// A delayed flush is due, and two threads access the store. Whichever of them performs the flush,
/// neither reads the item that was stored before, and both keep the items that they store.
#[test]
fn a_due_flush_hides_all_old_items_and_no_new_item() {
    const FLUSH_S: u32 = 10;
    let access = |mut worker: Worker, number: u8| {
        let is_present = |worker: &mut Worker, number: u8| {
            let hash = worker.hash(&[number]);
            let options = Read::default();
            let read = worker.read(&[number], hash, FLUSH_S, options, |_| Some(()));
            read.is_ok()
        };
        assert!(!is_present(&mut worker, 0), "a flushed item was returned");
        let hash = worker.hash(&[number]);
        let write = Write::plain(Mode::Set, Expiry::NEVER);
        let stored = worker.put(&[number], hash, b"new", &write, FLUSH_S);
        assert!(matches!(stored, Ok(Published::Stored { .. })));
        worker.quiescent();
        assert!(
            is_present(&mut worker, number),
            "the flush removed an item that was stored after it was due"
        );
        worker.offline();
    };
    check(
        move || {
            let store = small_store();
            let mut worker = store.worker();
            set(&mut worker, 0);
            worker.flush(FLUSH_S, NOW_S);
            let other = {
                let worker = store.worker();
                thread::spawn(move || access(worker, 1))
            };
            access(worker, 2);
            assert!(other.join().is_ok());
        },
        ROUNDS,
        PREEMPTIONS,
    );
}

/// Two threads store different keys at the same time. All 60 items fit into the store, so nothing
/// is evacuated or evicted. Afterwards the number of items in the statistics is the number of items
/// that reads find.
#[test]
fn item_count_is_correct_after_two_concurrent_writers() {
    check(
        || {
            let store = small_store();
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
    // The sum over all interleavings. It is possible that a single interleaving fills no hole,
    // because a hole can be filled only when every worker has been quiescent since the overwrite.
    let holes_filled = std::sync::Arc::new(std::sync::atomic::AtomicU64::new(0));
    let sum = std::sync::Arc::clone(&holes_filled);
    check(
        move || {
            let store = small_store();
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
                    for step in 0..60_u8 {
                        read_item(&mut worker, step % keys, true);
                        if step % 4 == 0 {
                            worker.quiescent();
                        }
                    }
                })
            };
            // A third thread fills the store with items of the same length. So segments with holes
            // are evacuated and reopened while the writer still remembers those holes.
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
            for step in 0..160_u8 {
                let number = step % keys;
                set(&mut worker, number);
                assert!(
                    read_item(&mut worker, number, false),
                    "{number} is absent although it was just stored"
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

/// The item of key 7 never expires, so its block has no expiry word. A touch moves it to a block
/// with one. Meanwhile another thread reads and touches the item too, and evacuates segments by
/// storing other items. The other thread may evict the item. If it does not, a later read finds the
/// value that was written last, with the expiry that was set last.
#[test]
fn a_touched_item_keeps_the_last_written_value_and_gets_the_last_expiry() {
    // The number of interleavings in which the item was not evicted.
    let found_count = Arc::new(std::sync::atomic::AtomicU64::new(0));
    let sum = Arc::clone(&found_count);
    check(
        move || {
            let store = small_store();
            let touch_until = |second: u32| {
                move |worker: &mut Worker| {
                    let touched = worker.touch(&[7], worker.hash(&[7]), Expiry::at(second), NOW_S);
                    assert!(touched.is_ok(), "a touch was deferred");
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
