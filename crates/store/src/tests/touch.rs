//! Touches of items that were stored without an expiry. The block of such an item has no word for
//! an expiry, so a touch moves the item to a block that has one. Clients must not notice the move.

use crate::{Config, Expiry, Mode, Published, Read, Rejected, Store, Worker, Write};

const NOW_S: u32 = 1;

const SET: Write = Write::plain(Mode::Set, Expiry::NEVER);

fn worker(memory_bytes: u64, evicts: bool) -> Worker {
    let config = Config {
        memory_bytes,
        hash_seed: 1,
        evicts,
        ..Config::DEFAULT
    };
    Store::new(config).unwrap().worker()
}

/// Stores a value that consists of `len` times the byte `x`. Returns the CAS.
fn set(worker: &mut Worker, key: &str, len: usize, write: &Write) -> u64 {
    let value = vec![b'x'; len];
    let key = key.as_bytes();
    match worker.put(key, worker.hash(key), &value, write, NOW_S) {
        Ok(Published::Stored { cas, .. }) => cas,
        other => panic!("{other:?}"),
    }
}

/// The properties of an item as a read returns them.
#[derive(Debug, PartialEq, Eq)]
struct ItemView {
    value_len: usize,
    flags: u32,
    cas: u64,
    expiry: Expiry,
    fetched: bool,
    last_access_s: u32,
}

/// Reads an item, and sets its expiry if `touch` is given.
fn read(worker: &mut Worker, key: &str, now_s: u32, touch: Option<Expiry>) -> Option<ItemView> {
    let options = Read {
        touch,
        ..Read::default()
    };
    let key = key.as_bytes();
    let read_result = worker.read(key, worker.hash(key), now_s, options, |item| {
        assert!(item.value().flatten().all(|&byte| byte == b'x'));
        Some(ItemView {
            value_len: item.value_len(),
            flags: item.flags,
            cas: item.cas,
            expiry: item.expiry,
            fetched: item.fetched,
            last_access_s: item.last_access_s,
        })
    });
    read_result.ok().flatten()
}

/// Sets the expiry of an item. Returns whether the key has an item.
fn touch(worker: &mut Worker, key: &str, expiry: Expiry) -> bool {
    let hash = worker.hash(key.as_bytes());
    let touched = worker.touch(key.as_bytes(), hash, expiry, NOW_S);
    touched.unwrap().is_some()
}

#[test]
fn a_touch_changes_only_the_expiry() {
    let mut worker = worker(8 << 20, true);
    for len in [0, 1, 100, 1_000, 8_191, 8_192, 500_000] {
        for (flags, explicit_cas) in [(0, None), (7, None), (0, Some(u64::MAX - 5))] {
            let write = Write {
                flags,
                explicit_cas,
                ..SET
            };
            let cas = set(&mut worker, "key", len, &write);
            let expected = |expiry, fetched| {
                Some(ItemView {
                    value_len: len,
                    flags,
                    cas,
                    expiry,
                    fetched,
                    last_access_s: NOW_S,
                })
            };
            let first = read(&mut worker, "key", NOW_S, Some(Expiry::at(9)));
            assert_eq!(
                first,
                expected(Expiry::NEVER, false),
                "a read that touches returns the item as it was before"
            );
            assert_eq!(
                read(&mut worker, "key", NOW_S, None),
                expected(Expiry::at(9), true)
            );
            assert!(touch(&mut worker, "key", Expiry::at(5)));
            assert_eq!(
                read(&mut worker, "key", NOW_S, None),
                expected(Expiry::at(5), true)
            );
            assert!(touch(&mut worker, "key", Expiry::NEVER));
            assert_eq!(
                read(&mut worker, "key", NOW_S, None),
                expected(Expiry::NEVER, true)
            );
            assert!(touch(&mut worker, "key", Expiry::at(5)));
            assert!(read(&mut worker, "key", 4, None).is_some());
            assert!(read(&mut worker, "key", 5, None).is_none());
            worker.quiescent();
        }
    }
    // The second argument is the maximum number of blocks to visit, which `maintain` lowers to
    // `STEP_ITEMS`.
    while worker.maintain(NOW_S, 64) {}
    let statistics = worker.store().statistics();
    assert_eq!((statistics.items, statistics.bytes_live), (0, 0));
    assert_eq!(statistics.evicted, 0);
}

#[test]
fn touched_items_are_not_lost_when_memory_is_full() {
    let mut worker = worker(8 << 20, true);
    let name = |number: u32| format!("key {number}");
    let mut lost = 0;
    for number in 0..200_000 {
        set(&mut worker, &name(number), 200, &SET);
        if number % 4 == 0 {
            assert!(
                touch(&mut worker, &name(number), Expiry::at(100)),
                "{number}"
            );
            let seen = read(&mut worker, &name(number), NOW_S, None);
            lost += u32::from(seen.is_none_or(|seen| seen.expiry != Expiry::at(100)));
        }
        worker.quiescent();
    }
    assert_eq!(lost, 0);
    worker.store().run_page_maintenance();
    let statistics = worker.store().statistics();
    assert!(
        statistics.evicted > 100_000,
        "the store was not full: {statistics:?}"
    );
    assert!(statistics.bytes_used() <= 8 << 20, "{statistics:?}");
}

#[test]
fn a_deferred_touch_does_not_change_the_item() {
    let mut worker = worker(8 << 20, true);
    let mut other = worker.store().worker();
    set(&mut worker, "first", 10, &SET);
    // `other` may now use items until it is quiescent, so no segment that is evacuated from now on
    // becomes free.
    assert!(read(&mut other, "first", NOW_S, None).is_some());
    let value = vec![b'x'; 1_000];
    let put = |worker: &mut Worker, number: u32| {
        let key = number.to_string();
        worker.put(
            key.as_bytes(),
            worker.hash(key.as_bytes()),
            &value,
            &SET,
            NOW_S,
        )
    };
    // Store items until a write is deferred, because no memory is free.
    let count = (0..100_000).find(|&number| put(&mut worker, number).is_err());
    let count = count.unwrap();
    assert_eq!(put(&mut worker, count), Err(Rejected::Deferred));
    let last = (count - 1).to_string();
    let hash = worker.hash(last.as_bytes());
    let touched = |worker: &mut Worker| worker.touch(last.as_bytes(), hash, Expiry::at(9), NOW_S);
    let expiry = |worker: &mut Worker| read(worker, &last, NOW_S, None).map(|seen| seen.expiry);
    assert_eq!(touched(&mut worker), Err(Rejected::Deferred));
    assert_eq!(expiry(&mut worker), Some(Expiry::NEVER));
    // A touch with an expiry that is already past needs no memory, because it unlinks the item.
    let last_but_one = (count - 2).to_string();
    assert!(touch(&mut worker, &last_but_one, Expiry::at(0)));
    assert!(read(&mut worker, &last_but_one, NOW_S, None).is_none());
    assert_eq!(worker.store().statistics().expired, 1);
    other.quiescent();
    assert!(put(&mut worker, count).is_ok());
    other.quiescent();
    assert!(touched(&mut worker).unwrap().is_some());
    assert_eq!(expiry(&mut worker), Some(Expiry::at(9)));
}

#[test]
fn an_invalidating_write_keeps_the_expiry_of_the_present_item() {
    let mut worker = worker(8 << 20, true);
    // The expiry of the present item (0: never), and the expiry of the invalidating write (`None`:
    // never), which the store ignores.
    for (present, ignored) in [(9, None), (0, Some(5)), (9, Some(5))] {
        let at = |second: Option<u32>| second.map_or(Expiry::NEVER, Expiry::at);
        let present = at((present > 0).then_some(present));
        let cas = set(
            &mut worker,
            "key",
            10,
            &Write {
                expiry: present,
                ..SET
            },
        );
        let newer = set(
            &mut worker,
            "key",
            20,
            &Write {
                expiry: present,
                ..SET
            },
        );
        assert!(newer > cas);
        // This write compares an older CAS, so its item becomes stale.
        let stale = Write {
            compare: Some(cas),
            invalidate: true,
            expiry: at(ignored),
            ..SET
        };
        set(&mut worker, "key", 30, &stale);
        let seen = read(&mut worker, "key", NOW_S, None).unwrap();
        assert_eq!((seen.value_len, seen.expiry), (30, present));
    }
}

#[test]
fn without_eviction_every_item_of_a_full_store_can_be_touched() {
    let mut worker = worker(4 << 20, false);
    let value = [b'x'; 200];
    let name = |number: u32| format!("key {number}");
    let mut put = |number: u32| {
        let key = name(number);
        let hash = worker.hash(key.as_bytes());
        let put = worker.put(key.as_bytes(), hash, &value, &SET, NOW_S);
        matches!(put, Ok(Published::Stored { .. }))
    };
    let count = (0..).find(|&number| !put(number)).unwrap();
    for number in 0..count {
        assert!(touch(&mut worker, &name(number), Expiry::at(9)), "{number}");
    }
    for number in 0..count {
        let seen = read(&mut worker, &name(number), NOW_S, None);
        assert_eq!(seen.unwrap().expiry, Expiry::at(9), "{number}");
    }
    worker.quiescent();
    assert_eq!(worker.store().statistics().evicted, 0);
}

/// The closure of a read may take long, because it copies a value of up to 16 KiB. So a read that
/// touches the item must release the lock of the index shard before it calls the closure.
#[test]
fn other_workers_can_write_an_item_while_a_touching_read_visits_it() {
    let mut reader = worker(8 << 20, true);
    let write = Write::plain(Mode::Set, Expiry::at(50));
    set(&mut reader, "key", 10_000, &write);
    let mut writer = reader.store().worker();
    let (done, is_done) = std::sync::mpsc::channel();
    let options = Read {
        touch: Some(Expiry::at(100)),
        ..Read::default()
    };
    let hash = reader.hash(b"key");
    std::thread::scope(|scope| {
        let read_result = reader.read(b"key", hash, NOW_S, options, |item| {
            scope.spawn(move || {
                set(&mut writer, "key", 20, &write);
                done.send(()).unwrap();
            });
            let waited = is_done.recv_timeout(std::time::Duration::from_secs(20));
            Some((waited.is_ok(), item.value_len()))
        });
        assert_eq!(read_result, Ok(Some((true, 10_000))));
    });
}

#[test]
fn expired_and_flushed_items_that_are_overwritten_count_as_expired() {
    let mut worker = worker(8 << 20, true);
    let expired = Write::plain(Mode::Set, Expiry::at(NOW_S));
    set(&mut worker, "expired", 1, &expired);
    set(&mut worker, "flushed", 1, &SET);
    worker.flush(NOW_S, NOW_S);
    // The third write replaces a valid item, which does not count.
    for key in ["expired", "flushed", "flushed"] {
        set(&mut worker, key, 1, &SET);
    }
    let statistics = worker.store().statistics();
    assert_eq!((statistics.expired, statistics.expired_unfetched), (2, 2));
}

#[test]
fn new_items_have_different_cas() {
    let mut worker = worker(64 << 20, true);
    let mut all = std::collections::BTreeSet::new();
    for number in 0..1_000 {
        all.insert(set(&mut worker, &number.to_string(), 1, &SET));
    }
    assert_eq!(all.len(), 1_000);
    let greatest = all.last().copied().unwrap();
    assert!(
        greatest < 1 << 40,
        "too large for a short header: {greatest}"
    );
}
