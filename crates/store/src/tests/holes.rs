//! Holes, which are the blocks of overwritten items. Later values of the same length fill them,
//! with four exceptions. A hole is not filled while it is pinned, or after a flush. It is not
//! filled by a slow upload. And it is not filled if that would keep a segment of expired items in
//! use.

use crate::{Config, Expiry, Mode, Read, Rejected, Reserve, Store, Upload, Worker, Write};

/// Creates a worker of a new store with this much memory.
fn worker(memory_bytes: u64, evicts: bool) -> Worker {
    let config = Config {
        memory_bytes,
        evicts,
        hash_seed: 1,
        ..Config::DEFAULT
    };
    Store::new(config).unwrap().worker()
}

/// Returns an upload whose value is complete but not published. All bytes of the value are equal to
/// the last byte of the key.
fn upload(
    worker: &mut Worker,
    key: &str,
    len: usize,
    expiry: Expiry,
    whole: bool,
    now_s: u32,
) -> Result<Upload, Rejected> {
    let request = Reserve {
        value_len: len,
        flags: 0,
        expiry,
        whole,
    };
    let key = key.as_bytes();
    let mut upload = worker.reserve(key, worker.hash(key), &request, now_s)?;
    let byte = key.last().copied().unwrap_or_default();
    worker.fill(&mut upload, &vec![byte; len], now_s)?;
    Ok(upload)
}

/// Stores a value whose bytes are all equal to the last byte of the key. Then makes the worker
/// quiescent, so that holes become ready. Returns whether the value was stored.
fn set(worker: &mut Worker, key: &str, len: usize, expiry: Expiry, now_s: u32) -> bool {
    let key = key.as_bytes();
    let value = vec![key.last().copied().unwrap_or_default(); len];
    let write = Write::plain(Mode::Set, expiry);
    let stored = worker.put(key, worker.hash(key), &value, &write, now_s);
    worker.quiescent();
    stored.is_ok()
}

#[test]
fn overwriting_fills_holes_and_evacuates_nothing() {
    let mut worker = worker(8 << 20, true);
    for step in 0..200_000 {
        assert!(set(
            &mut worker,
            &format!("{}", step % 1000),
            100,
            Expiry::NEVER,
            1
        ));
    }
    let statistics = worker.store().statistics();
    assert!(statistics.holes_filled > 190_000, "{statistics:?}");
    assert_eq!(statistics.evacuated, 0);
    assert_eq!(statistics.items, 1000);
}

#[test]
fn values_of_many_lengths_fill_holes() {
    let mut worker = worker(64 << 20, true);
    let mut random = 1_u64;
    for step in 0..100_000 {
        random = random
            .wrapping_mul(6_364_136_223_846_793_005)
            .wrapping_add(1);
        // Some values are so long that holes of different lengths share a list.
        let len = (random >> 40) as usize % 3000;
        let key = format!("{}", step % 2000);
        assert!(set(&mut worker, &key, len, Expiry::NEVER, 1));
    }
    let statistics = worker.store().statistics();
    assert!(statistics.holes_filled > 50_000, "{statistics:?}");
}

#[test]
fn a_pinned_hole_is_not_filled() {
    let mut worker = worker(8 << 20, true);
    assert!(set(&mut worker, "a", 1000, Expiry::NEVER, 1));
    let hash = worker.hash(b"a");
    let pin = worker.read(b"a", hash, 1, Read::default(), |item| Some(item.pin()));
    let pin = pin.unwrap().flatten().unwrap();
    // The first overwrite makes the pinned block a hole, and the other writes look for holes of the
    // same length.
    for _ in 0..100 {
        for key in ["a", "b", "c"] {
            assert!(set(&mut worker, key, 1000, Expiry::NEVER, 1));
        }
    }
    assert!(
        pin.value()
            .all(|piece| piece.iter().all(|&byte| byte == b'a'))
    );
    drop(pin);
    for _ in 0..100 {
        for key in ["a", "b", "c"] {
            assert!(set(&mut worker, key, 1000, Expiry::NEVER, 1));
        }
    }
    assert!(worker.store().statistics().holes_filled > 200);
}

#[test]
fn slow_uploads_do_not_fill_holes() {
    let mut worker = worker(64 << 20, true);
    let mut unfinished = Vec::new();
    for round in 0..2 {
        for number in 0..10_000 {
            let key = format!("{number}");
            assert!(
                set(&mut worker, &key, 4000, Expiry::NEVER, 1),
                "{round} {key}"
            );
        }
    }
    // The overwrites have left holes of this length in many segments. If the uploads filled them,
    // almost every upload would hold a different segment.
    for number in 0..300 {
        let key = format!("{}", number * 30);
        unfinished.push(upload(&mut worker, &key, 4000, Expiry::NEVER, false, 1).unwrap());
        assert!(set(&mut worker, &key, 4000, Expiry::NEVER, 1));
    }
    let statistics = worker.store().statistics();
    let held = statistics.bytes_held / statistics.segment_bytes;
    // An item takes about 4100 bytes.
    let filled = 300 * 4100 / statistics.segment_bytes;
    assert!(held <= filled + 20, "{held} segments held, {filled} filled");
}

#[test]
fn repeated_overwrites_do_not_keep_expired_items_in_memory() {
    let mut worker = worker(8 << 20, false);
    // Stores items until one is rejected. Returns the number of stored items.
    let fill = |worker: &mut Worker, name: &str, now_s: u32| {
        (0..40_000)
            .take_while(|number| {
                let key = format!("{name}{number:06}");
                set(worker, &key, 100, Expiry::at(now_s + 300), now_s)
            })
            .count()
    };
    // Overwrites the counters with these numbers.
    let overwrite_counters = |worker: &mut Worker, numbers: std::ops::Range<u32>, now_s: u32| {
        for number in numbers {
            let key = format!("counter{number}");
            assert!(set(worker, &key, 20, Expiry::at(now_s + 300), now_s));
        }
    };
    // Each segment gets one of the counters, among items that are written once and expire at second
    // 301. Then all counters are overwritten every 40 seconds. If each overwrite filled a hole in
    // an old segment, every segment would always contain a live counter, and the memory of the
    // expired items around it could not be reclaimed.
    for number in 0..1000 {
        for first in 0..50 {
            let key = format!("first{number}.{first}");
            assert!(set(&mut worker, &key, 100, Expiry::at(301), 1));
        }
        overwrite_counters(&mut worker, number..number + 1, 1);
    }
    for now_s in (2..1000).step_by(40) {
        overwrite_counters(&mut worker, 0..1000, now_s);
    }
    // All items written first have expired, so most of the memory is available again.
    let stored = fill(&mut worker, "second", 1000);
    assert!(
        stored > 30_000,
        "{stored}: {:?}",
        worker.store().statistics()
    );
}

#[test]
fn an_upload_dropped_in_a_hole_changes_no_item() {
    let mut worker = worker(8 << 20, true);
    for step in 0..20_000 {
        let key = format!("{}", step % 100);
        // The bytes of this upload are available (`whole`), so it may be written into a hole.
        drop(upload(&mut worker, &key, 100, Expiry::NEVER, true, 1).unwrap());
        assert!(set(&mut worker, &key, 100, Expiry::NEVER, 1));
        let hash = worker.hash(key.as_bytes());
        let last = key.as_bytes().last().copied();
        let whole = worker.read(key.as_bytes(), hash, 1, Read::default(), |item| {
            Some(
                item.value()
                    .all(|piece| piece.iter().all(|&byte| Some(byte) == last)),
            )
        });
        assert_eq!(whole, Ok(Some(true)));
    }
    assert_eq!(worker.store().statistics().items, 100);
}

#[test]
fn holes_from_before_a_flush_are_not_filled() {
    let mut worker = worker(8 << 20, true);
    for _ in 0..1000 {
        assert!(set(&mut worker, "a", 100, Expiry::NEVER, 1));
    }
    worker.flush(0, 1);
    let before = worker.store().statistics().holes_filled;
    for number in 0..10 {
        assert!(set(
            &mut worker,
            &format!("{number}"),
            100,
            Expiry::NEVER,
            1
        ));
        let key = format!("{number}");
        let hash = worker.hash(key.as_bytes());
        let read_result = worker.read(key.as_bytes(), hash, 1, Read::default(), |_| Some(()));
        assert_eq!(read_result, Ok(Some(())));
    }
    assert_eq!(worker.store().statistics().holes_filled, before);
}
