//! A request that is rejected because of the item's CAS or value does not count as an access.

use crate::{
    Arithmetic, ArithmeticOutcome, Config, Direction, Expiry, Mode, Published, Read, Store, Worker,
    Write,
};

const INCREMENT: Arithmetic = Arithmetic::plain(Direction::Up, 1);

/// Stores an item at second 1. Returns its CAS.
fn set(worker: &mut Worker, key: &[u8], value: &[u8]) -> u64 {
    let write = Write::plain(Mode::Set, Expiry::NEVER);
    match worker.put(key, worker.hash(key), value, &write, 1) {
        Ok(Published::Stored { cas, .. }) => cas,
        other => panic!("{other:?}"),
    }
}

/// Returns the second of the last access to an item, and does not change it.
fn last_access_s(worker: &mut Worker, key: &[u8]) -> u32 {
    let options = Read {
        untracked: true,
        ..Read::default()
    };
    let read = worker.read(key, worker.hash(key), 9, options, |item| {
        Some(item.last_access_s)
    });
    read.ok().flatten().unwrap()
}

#[test]
fn arithmetic_that_is_rejected_keeps_the_time_of_the_last_access() {
    let config = Config {
        memory_bytes: 8 << 20,
        hash_seed: 1,
        ..Config::DEFAULT
    };
    let mut worker = Store::new(config).unwrap().worker();
    let cas = set(&mut worker, b"number", b"5");
    set(&mut worker, b"text", b"five");
    let other_cas = Arithmetic {
        compare: Some(cas + 1),
        ..INCREMENT
    };
    // Increments a counter in second 5.
    let count = |worker: &mut Worker, key: &[u8], arithmetic| {
        worker.arith(key, worker.hash(key), arithmetic, 5)
    };
    let rejected = count(&mut worker, b"number", &other_cas);
    assert_eq!(rejected, ArithmeticOutcome::Exists);
    let rejected = count(&mut worker, b"text", &INCREMENT);
    assert_eq!(rejected, ArithmeticOutcome::NotNumeric);
    for key in [&b"number"[..], b"text"] {
        assert_eq!(last_access_s(&mut worker, key), 1);
    }
    let counted = count(&mut worker, b"number", &INCREMENT);
    assert!(matches!(counted, ArithmeticOutcome::Done(_)));
    assert_eq!(last_access_s(&mut worker, b"number"), 5);
}
