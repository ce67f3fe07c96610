use std::panic::{AssertUnwindSafe, catch_unwind};

use super::*;
use crate::Deleted;
use crate::limits::ITEM_OVERHEAD;
use crate::{Config, Store};

const NOW_S: u32 = 1;
const WRITE: Write = Write::plain(Mode::Set, Expiry::NEVER);

fn worker_with_seed(hash_seed: u64) -> Worker {
    let config = Config {
        memory_bytes: 8 << 20,
        hash_seed,
        ..Config::DEFAULT
    };
    Store::new(config).unwrap().worker()
}

/// Begins an upload of 100 bytes.
fn reserve(worker: &mut Worker, key: &[u8]) -> Upload {
    let request = Reserve {
        value_len: 100,
        flags: 0,
        expiry: Expiry::NEVER,
        whole: false,
    };
    let hash = worker.hash(key);
    worker.reserve(key, hash, &request, NOW_S).unwrap()
}

/// Whether `operation` panics.
fn panics<T>(operation: impl FnOnce() -> T) -> bool {
    catch_unwind(AssertUnwindSafe(operation)).is_err()
}

/// Regression test. Without debug assertions, an incomplete value was published, and its unfilled
/// memory still contained bytes of earlier items.
#[test]
fn an_incomplete_value_is_not_published() {
    let mut worker = worker_with_seed(1);
    let mut upload = reserve(&mut worker, b"key");
    // The last byte is missing.
    worker.fill(&mut upload, &[7; 99], NOW_S).unwrap();
    assert!(panics(|| worker.publish(upload, &WRITE, NOW_S)));
    let hash = worker.hash(b"key");
    assert_eq!(worker.delete(b"key", hash, None, NOW_S), Deleted::NotFound);
}

#[test]
fn an_upload_is_filled_and_published_by_its_own_store_only() {
    // With the same seed, both stores compute the same hash for a key.
    let (mut worker, mut other) = (worker_with_seed(1), worker_with_seed(1));
    let mut upload = reserve(&mut worker, b"key");
    assert!(panics(|| other.fill(&mut upload, &[7; 100], NOW_S)));
    worker.fill(&mut upload, &[7; 100], NOW_S).unwrap();
    assert!(panics(|| other.publish(upload, &WRITE, NOW_S)));
}

#[test]
fn nothing_is_written_under_the_hash_of_another_key_or_store() {
    let (mut worker, other) = (worker_with_seed(1), worker_with_seed(2));
    for hash in [worker.hash(b"another"), other.hash(b"key")] {
        assert!(panics(|| worker.put(b"key", hash, b"value", &WRITE, NOW_S)));
    }
    let hash = worker.hash(b"key");
    assert!(worker.put(b"key", hash, b"value", &WRITE, NOW_S).is_ok());
}

#[test]
fn a_number_in_a_larger_item_than_the_maximum_is_not_numeric() {
    let mut worker = worker_with_seed(1);
    let longest = NUMERIC_ITEM_MAX - ITEM_OVERHEAD - b"n".len();
    let mut increment = |len| {
        let hash = worker.hash(b"n");
        let zeros = b"0".repeat(len);
        worker.put(b"n", hash, &zeros, &WRITE, NOW_S).unwrap();
        worker.arith(b"n", hash, &Arithmetic::plain(Direction::Up, 1), NOW_S)
    };
    let of_longest = increment(longest);
    assert!(matches!(of_longest, ArithmeticOutcome::Done(it) if it.value == 1));
    assert_eq!(increment(longest + 1), ArithmeticOutcome::NotNumeric);
}
