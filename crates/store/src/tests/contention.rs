//! Several threads change the item of one key at the same time: no change is lost, and every thread
//! makes progress.

use std::sync::atomic::AtomicBool;
use std::sync::atomic::Ordering::Relaxed;

use crate::{
    Arithmetic, ArithmeticOutcome, Config, Direction, Expiry, Mode, Published, Read, Rejected,
    Store, Vivify, Worker, Write,
};

const NOW_S: u32 = 1;

/// Number of attempts while another thread creates and deletes the item.
const ATTEMPTS: usize = 200_000;

const SET: Write = Write::plain(Mode::Set, Expiry::NEVER);

const INCREMENT: Arithmetic = Arithmetic::plain(Direction::Up, 1);

/// Creates a worker of a new store with this much memory.
fn worker(memory_bytes: u64) -> Worker {
    Store::new(Config {
        memory_bytes,
        hash_seed: 1,
        ..Config::DEFAULT
    })
    .unwrap()
    .worker()
}

/// Sets a flag when it is dropped, so that the other threads of a scope end even if the test fails
/// by a panic.
struct SetOnDrop<'f>(&'f AtomicBool);

impl Drop for SetOnDrop<'_> {
    fn drop(&mut self) {
        self.0.store(true, Relaxed);
    }
}

/// Stores a value that consists of `len` times the byte `x`.
fn set(worker: &mut Worker, key: &[u8], len: usize, write: &Write) -> Published {
    let value = vec![b'x'; len];
    worker
        .put(key, worker.hash(key), &value, write, NOW_S)
        .unwrap()
}

/// Returns the length of the value of a key, if the key has an item.
fn value_len(worker: &mut Worker, key: &[u8]) -> Option<usize> {
    let hash = worker.hash(key);
    let len = |item: &crate::Item<'_>| Some(item.value_len());
    worker.read(key, hash, NOW_S, Read::default(), len).ok()?
}

/// Two threads increment one counter 20 000 times each.
#[test]
fn concurrent_increments_are_all_counted() {
    let mut worker = worker(8 << 20);
    let hash = worker.hash(b"n");
    worker.put(b"n", hash, b"0", &SET, NOW_S).unwrap();
    std::thread::scope(|scope| {
        for _ in 0..2 {
            let mut worker = worker.store().worker();
            scope.spawn(move || {
                let mut remaining = 20_000;
                while remaining > 0 {
                    match worker.arith(b"n", worker.hash(b"n"), &INCREMENT, NOW_S) {
                        ArithmeticOutcome::Done(_) => remaining -= 1,
                        ArithmeticOutcome::Deferred => worker.quiescent(),
                        other => panic!("{other:?}"),
                    }
                }
            });
        }
    });
    let value = worker.read(b"n", worker.hash(b"n"), NOW_S, Read::default(), |item| {
        Some(item.value().flatten().copied().collect::<Vec<u8>>())
    });
    assert_eq!(value.unwrap().unwrap(), b"40000");
}

/// Regression test. A writer built its value again whenever another writer had changed the item in
/// the meantime. After ten thousand attempts the operation failed as if there were no memory. The
/// rewrite guard (`operations/rewrite.rs`) now bounds the number of attempts.
#[test]
fn concurrent_appends_to_one_key_all_succeed() {
    const APPENDS: usize = 400;
    let mut worker = worker(64 << 20);
    set(&mut worker, b"log", 1, &SET);
    std::thread::scope(|scope| {
        for _ in 0..8 {
            let mut worker = worker.store().worker();
            scope.spawn(move || {
                for _ in 0..APPENDS {
                    append_until_stored(&mut worker, b"log");
                    worker.quiescent();
                }
            });
        }
    });
    assert_eq!(value_len(&mut worker, b"log"), Some(1 + 8 * APPENDS));
}

/// The append builds a new value of 500 kB, which takes far longer than a set. The other threads
/// replace the item meanwhile, so that every attempt would fail if the rewrite guard
/// (`operations/rewrite.rs`) did not prevent the other threads from storing.
#[test]
fn an_append_succeeds_while_other_threads_overwrite_the_large_item() {
    let mut worker = worker(64 << 20);
    set(&mut worker, b"log", 500_000, &SET);
    let is_done = &AtomicBool::new(false);
    std::thread::scope(|scope| {
        let _done = SetOnDrop(is_done);
        for _ in 0..3 {
            let mut worker = worker.store().worker();
            scope.spawn(move || {
                while !is_done.load(Relaxed) {
                    let hash = worker.hash(b"log");
                    let stored = worker.put(b"log", hash, &[b'x'; 500_000], &SET, NOW_S);
                    assert!(matches!(
                        stored,
                        Ok(Published::Stored { .. }) | Err(Rejected::Deferred)
                    ));
                    worker.quiescent();
                }
            });
        }
        for _ in 0..20 {
            append_until_stored(&mut worker, b"log");
            worker.quiescent();
        }
    });
}

/// Makes many attempts while another thread creates and deletes the item of key `k`, again and
/// again. Returns the number of attempts for which `attempt` returned false.
fn count_failed(mut attempt: impl FnMut(&mut Worker) -> bool) -> usize {
    let mut worker = worker(16 << 20);
    let is_done = &AtomicBool::new(false);
    std::thread::scope(|scope| {
        let _done = SetOnDrop(is_done);
        let mut other = worker.store().worker();
        scope.spawn(move || {
            let hash = other.hash(b"k");
            while !is_done.load(Relaxed) {
                // The store may defer the write.
                let _ = other.put(b"k", hash, b"1", &SET, NOW_S);
                other.delete(b"k", hash, None, NOW_S);
                other.quiescent();
            }
        });
        let mut failed = 0;
        for _ in 0..ATTEMPTS {
            failed += usize::from(!attempt(&mut worker));
            worker.quiescent();
        }
        failed
    })
}

/// Regression test. An increment that creates the counter if the key has none reported that the key
/// has none, if the item vanished twice.
#[test]
fn an_increment_that_may_create_the_counter_never_misses() {
    let increment = Arithmetic {
        vivify: Some(Vivify {
            initial: 1,
            expiry: Expiry::NEVER,
        }),
        ..INCREMENT
    };
    let failed = count_failed(|worker| {
        // More of the attempts then find no counter at first.
        worker.delete(b"k", worker.hash(b"k"), None, NOW_S);
        let outcome = worker.arith(b"k", worker.hash(b"k"), &increment, NOW_S);
        matches!(
            outcome,
            ArithmeticOutcome::Done(_) | ArithmeticOutcome::Deferred
        )
    });
    assert_eq!(failed, 0);
}

/// Regression test. An append that creates the item if the key has none was not stored, if the item
/// vanished twice.
#[test]
fn an_append_that_may_create_the_item_never_misses() {
    let append = Write {
        vivify: true,
        mode: Mode::Append,
        ..SET
    };
    let failed = count_failed(|worker| {
        let published = worker.put(b"k", worker.hash(b"k"), b"x", &append, NOW_S);
        matches!(
            published,
            Ok(Published::Stored { .. }) | Err(Rejected::Deferred)
        )
    });
    assert_eq!(failed, 0);
}

/// How often an append may be deferred before the test fails. Without a guard of rewrites, other
/// threads replace the item during each of its attempts.
const DEFERRED_MAX: usize = 10_000;

/// Appends a byte to the item of a key. Tries again while the store defers the write.
fn append_until_stored(worker: &mut Worker, key: &[u8]) {
    let append = Write {
        mode: Mode::Append,
        ..SET
    };
    for _ in 0..DEFERRED_MAX {
        let hash = worker.hash(key);
        match worker.put(key, hash, b"x", &append, NOW_S) {
            Ok(Published::Stored { .. }) => return,
            Err(Rejected::Deferred) => worker.quiescent(),
            other => panic!("{other:?}"),
        }
    }
    panic!("deferred {DEFERRED_MAX} times");
}
