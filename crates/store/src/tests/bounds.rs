//! The bounds of the store: its memory stays below the limit for all sizes of items, pins and
//! uploads hold a bounded part of it, and memory that is released can be used again.

use crate::limits::{SPOOL_MIN, STEP_ITEMS, VISITS_MAX};
use crate::{
    Arithmetic, ArithmeticOutcome, Config, Direction, Expiry, Mode, Published, Read, Rejected,
    Reserve, Store, Upload, Vivify, Worker, Write,
};

const NOW_S: u32 = 1;

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

/// Stores a value that consists of `len` times the byte `x`.
fn set(worker: &mut Worker, key: &[u8], len: usize, write: &Write) -> Published {
    let value = vec![b'x'; len];
    worker
        .put(key, worker.hash(key), &value, write, NOW_S)
        .unwrap()
}

fn set_value(worker: &mut Worker, key: &[u8], value: &[u8]) {
    worker
        .put(key, worker.hash(key), value, &SET, NOW_S)
        .unwrap();
}

fn has_item(worker: &mut Worker, key: &[u8], now_s: u32) -> bool {
    worker
        .read(key, worker.hash(key), now_s, Read::default(), |_| Some(()))
        .is_ok()
}

#[test]
fn memory_stays_bounded_and_every_set_succeeds_for_any_value_length() {
    let mut worker = worker(8 << 20);
    let mut seed = 1_u64;
    for _ in 0..60_000 {
        seed = seed
            .wrapping_mul(6_364_136_223_846_793_005)
            .wrapping_add(1_442_695_040_888_963_407);
        // One value in 1024 is so long that it is stored in pieces.
        let is_long = seed >> 54 == 0;
        let len = if is_long {
            700_000
        } else {
            (seed >> 40) as usize % 2_000
        };
        let key = (seed >> 20).to_string();
        assert!(matches!(
            set(&mut worker, key.as_bytes(), len, &SET),
            Published::Stored { .. }
        ));
        assert!(
            has_item(&mut worker, key.as_bytes(), NOW_S),
            "an item just stored is absent"
        );
    }
    worker.store().run_page_maintenance();
    let statistics = worker.store().statistics();
    assert!(statistics.bytes_used() <= 8 << 20, "{statistics:?}");
    assert!(statistics.evicted > 1_000, "{statistics:?}");
    assert!(
        statistics.bytes_live > 6 << 20,
        "too little of a full store is live: {statistics:?}"
    );
}

#[test]
fn an_item_read_every_second_outlives_unread_items() {
    let mut worker = worker(4 << 20);
    set(&mut worker, b"kept", 100, &SET);
    for number in 0..40_000_u32 {
        set(&mut worker, &number.to_be_bytes(), 200, &SET);
        // Time advances by a second from read to read, because only one read per second counts.
        assert!(has_item(&mut worker, b"kept", NOW_S + number), "{number}");
    }
    assert!(!has_item(&mut worker, &1_u32.to_be_bytes(), 50_000));
}

#[test]
fn memory_of_deleted_and_expired_items_is_reclaimed() {
    let mut worker = worker(8 << 20);
    for number in 0..1_000_u32 {
        let expiry = if number % 2 == 0 {
            Expiry::at(5)
        } else {
            Expiry::NEVER
        };
        set(
            &mut worker,
            &number.to_be_bytes(),
            1_000,
            &Write { expiry, ..SET },
        );
    }
    assert!(has_item(&mut worker, &0_u32.to_be_bytes(), 4));
    assert!(!has_item(&mut worker, &0_u32.to_be_bytes(), 5));
    for number in (1..1_000_u32).step_by(2) {
        let key = number.to_be_bytes();
        worker.delete(&key, worker.hash(&key), None, 5);
    }
    // Maintenance in second 5. The second argument is the maximum number of blocks to visit, which
    // `maintain` lowers to `STEP_ITEMS`.
    let mut steps = 0;
    while worker.maintain(5, 64) {
        steps += 1;
        assert!(steps < 10_000, "maintenance does not end");
    }
    let statistics = worker.store().statistics();
    assert_eq!(statistics.items, 0);
    assert_eq!(statistics.bytes_live, 0, "{statistics:?}");
}

#[test]
fn a_delayed_flush_invalidates_items_written_before_it_is_due() {
    let mut worker = worker(8 << 20);
    set(&mut worker, b"old", 1, &SET);
    worker.flush(4, NOW_S);
    // This item is written after the command, but before the flush is due.
    set(&mut worker, b"late", 1, &SET);
    assert!(has_item(&mut worker, b"old", 3));
    assert!(!has_item(&mut worker, b"old", 4));
    assert!(!has_item(&mut worker, b"late", 4));
    // The reads in second 4 have performed the flush, so it does not affect a later write.
    set(&mut worker, b"new", 1, &SET);
    assert!(has_item(&mut worker, b"new", 5));
}

/// The combinations of length, flags and CAS give blocks of every layout: short and long headers,
/// and values in pieces.
#[test]
fn a_value_of_any_length_flags_and_cas_is_stored_unchanged() {
    let mut worker = worker(64 << 20);
    for (number, len) in [0, 1, 100, 5000, 20_000, 500_000, 1_000_000]
        .into_iter()
        .enumerate()
    {
        for (flags, cas) in [
            (0, None),
            (u32::MAX, None),
            (7, Some(9)),
            (0, Some(u64::MAX)),
        ] {
            let write = Write {
                flags,
                explicit_cas: cas,
                ..SET
            };
            let value: Vec<u8> = (0..len).map(|at| (at % 251) as u8).collect();
            for key in [&[b'k'; 250][..], &[number as u8]] {
                let hash = worker.hash(key);
                let put = worker.put(key, hash, &value, &write, NOW_S);
                let Ok(Published::Stored {
                    cas: given,
                    value_len,
                }) = put
                else {
                    panic!("{len} {flags} {cas:?}: {put:?}");
                };
                assert!(value_len == len && cas.is_none_or(|cas| cas == given));
                let read_result = worker.read(key, hash, NOW_S, Read::default(), |item| {
                    Some((
                        item.value().collect::<Vec<_>>().concat(),
                        item.flags,
                        item.cas,
                    ))
                });
                assert_eq!(read_result.unwrap(), Some((value.clone(), flags, given)));
            }
        }
    }
    // A key that is too long or empty, and an item that is too long, are rejected.
    let long = [b'k'; 251];
    let mut rejected =
        |key: &[u8], len: usize| worker.put(key, worker.hash(key), &vec![0; len], &SET, NOW_S);
    assert_eq!(rejected(&long, 1), Err(Rejected::TooLarge));
    assert_eq!(rejected(b"", 1), Err(Rejected::TooLarge));
    assert_eq!(rejected(b"k", 1 << 20), Err(Rejected::TooLarge));
}

/// Begins an upload of `len` bytes that waits for a client to send them.
fn reserve_upload(worker: &mut Worker, key: &[u8], len: usize) -> Result<Upload, Rejected> {
    let request = Reserve {
        value_len: len,
        flags: 0,
        expiry: Expiry::NEVER,
        whole: false,
    };
    worker.reserve(key, worker.hash(key), &request, NOW_S)
}

#[test]
fn unfinished_uploads_hold_at_most_an_eighth_of_memory() {
    let mut worker = worker(8 << 20);
    // One upload of 900 kB needs almost an eighth of 8 MiB, and two need more.
    let first = reserve_upload(&mut worker, b"first", 900_000).unwrap();
    let second = reserve_upload(&mut worker, b"second", 900_000);
    assert_eq!(second.unwrap_err(), Rejected::HoldLimit);
    drop(first);
    reserve_upload(&mut worker, b"second", 900_000).unwrap();
    let statistics = worker.store().statistics();
    assert!(
        statistics.bytes_live == 0,
        "unpublished uploads have live bytes: {statistics:?}"
    );
}

#[test]
fn writes_are_deferred_while_another_worker_is_not_quiescent() {
    let mut worker = worker(8 << 20);
    let mut other = worker.store().worker();
    set(&mut worker, b"first", 10, &SET);
    let mut long = reserve_upload(&mut worker, b"long", 900_000).unwrap();
    // `other` may now use items until it is quiescent, so no segment that is evacuated from now on
    // becomes free.
    assert!(has_item(&mut other, b"first", NOW_S));
    let value = vec![b'x'; 1_000];
    let put = |worker: &mut Worker, number: u32| {
        let key = number.to_be_bytes();
        worker.put(&key, worker.hash(&key), &value, &SET, NOW_S)
    };
    let rejected = (0..100_000).find_map(|number| put(&mut worker, number).err());
    let rejected = rejected.unwrap();
    assert_eq!(rejected, Rejected::Deferred);
    let counter = Arithmetic {
        vivify: Some(Vivify {
            initial: 1,
            expiry: Expiry::NEVER,
        }),
        ..INCREMENT
    };
    let count = |worker: &mut Worker| worker.arith(b"n", worker.hash(b"n"), &counter, NOW_S);
    assert_eq!(count(&mut worker), ArithmeticOutcome::Deferred);
    // The bytes for which the upload has memory already are stored nevertheless.
    let bytes = vec![b'l'; 900_000];
    let filled = worker.fill(&mut long, &bytes, NOW_S);
    assert_eq!(filled.unwrap_err(), Rejected::Deferred);
    assert!(long.missing() < 900_000);

    while long.missing() > 0 {
        other.quiescent();
        let missing = long.missing();
        let _ = worker.fill(&mut long, &bytes[..missing], NOW_S);
        assert!(long.missing() < missing);
    }
    other.quiescent();
    assert!(matches!(
        worker.publish(long, &SET, NOW_S),
        Ok(Published::Stored { .. })
    ));
    assert!(matches!(count(&mut worker), ArithmeticOutcome::Done(_)));
    for number in 0..100 {
        assert!(put(&mut worker, number).is_ok());
        other.quiescent();
    }
    assert_eq!(worker.store().statistics().bytes_held, 0);
}

/// With its key and header, such a value would be longer than an address can express.
#[test]
fn an_upload_of_nearly_all_addresses_is_rejected() {
    let mut worker = worker(8 << 20);
    for len in [usize::MAX, usize::MAX - 59] {
        let rejected = reserve_upload(&mut worker, b"k", len).err();
        assert_eq!(rejected, Some(Rejected::TooLarge), "{len}");
    }
}

#[test]
fn pins_hold_at_most_an_eighth_of_memory_and_outlive_their_items() {
    let mut worker = worker(8 << 20);
    set(&mut worker, b"large", 600_000, &SET);
    let read = Read {
        may_copy: true,
        ..Read::default()
    };
    let pin = |worker: &mut Worker, key: &[u8]| {
        let hash = worker.hash(key);
        worker
            .read(key, hash, NOW_S, read, |item: &crate::Item<'_>| item.pin())
            .unwrap()
    };
    let held = pin(&mut worker, b"large").unwrap();
    // A second pin is counted as if it held other segments than the first pin. Then both pins
    // together would hold more than an eighth, so the value is copied.
    let copied = pin(&mut worker, b"large").unwrap();
    assert_eq!(worker.store().statistics().bytes_spooled, 600_000);
    assert_eq!(copied.value().map(<[u8]>::len).sum::<usize>(), 600_000);
    let rest = worker.store().spool(SPOOL_MIN as usize - 600_000).unwrap();
    assert!(pin(&mut worker, b"large").is_none());
    drop((copied, rest));
    assert_eq!(worker.store().statistics().bytes_spooled, 0);
    worker.delete(b"large", worker.hash(b"large"), None, NOW_S);
    let value: Vec<u8> = held.value().flatten().copied().collect();
    assert_eq!(value, vec![b'x'; 600_000]);
    assert!(worker.store().statistics().bytes_pinned >= 600_000);
    drop(held);
    assert_eq!(worker.store().statistics().bytes_pinned, 0);
}

/// Returns the length of the value of a key, if the key has an item.
fn value_len(worker: &mut Worker, key: &[u8]) -> Option<usize> {
    let hash = worker.hash(key);
    let len = |item: &crate::Item<'_>| Some(item.value_len());
    worker.read(key, hash, NOW_S, Read::default(), len).ok()?
}

#[test]
fn an_append_does_not_evict_the_item_it_appends_to() {
    let append = Write {
        mode: Mode::Append,
        ..SET
    };
    let mut worker = worker(2 << 20);
    set(&mut worker, b"log", 800_000, &SET);
    for number in 0..100_u32 {
        set(&mut worker, &number.to_be_bytes(), 10_000, &SET);
    }
    // The longer value needs memory while the old value is still present, and the old value is the
    // oldest item of the store.
    let appended = set(&mut worker, b"log", 10, &append);
    assert!(matches!(appended, Published::Stored { .. }), "{appended:?}");
    assert_eq!(value_len(&mut worker, b"log"), Some(800_010));
    assert!(worker.store().statistics().evicted > 10);
}

#[test]
fn memory_stays_bounded_while_the_index_grows() {
    const LIMIT: u64 = 2 << 20;
    let mut worker = worker(LIMIT);
    for number in 0..20_000_u32 {
        set(&mut worker, &number.to_be_bytes(), 1, &SET);
        worker.store().run_page_maintenance();
        let used = worker.store().statistics().bytes_used();
        assert!(used <= LIMIT, "{used} bytes with item {number}");
        assert!(has_item(&mut worker, &number.to_be_bytes(), NOW_S));
    }
}

#[test]
fn a_read_that_needs_a_pin_and_gets_none_does_not_claim_the_stale_item() {
    let mut worker = worker(8 << 20);
    let Published::Stored { cas, .. } = set(&mut worker, b"a", 10, &SET) else {
        panic!("not stored");
    };
    let invalidate = Write {
        compare: Some(cas),
        invalidate: true,
        ..SET
    };
    set(&mut worker, b"a", 10, &SET);
    // This write compares the CAS of the first value, which is older than the present one. So the
    // write makes the item stale.
    set(&mut worker, b"a", 10, &invalidate);
    let claim = Read {
        claim: true,
        touch: Some(Expiry::at(100)),
        // The value is longer than 0 bytes, so the read needs a pin.
        pin_if_longer_than: Some(0),
        may_copy: true,
        ..Read::default()
    };
    let read = |worker: &mut Worker| {
        let metadata = |item: &crate::Item<'_>| {
            assert!(item.pin().is_some());
            Some((item.stale, item.won, item.fetched, item.expiry))
        };
        let read = worker.read(b"a", worker.hash(b"a"), NOW_S, claim, metadata);
        read.unwrap()
    };
    // While no pin is available, the read returns nothing and changes nothing. So the next read
    // still wins, and sees the old expiry. The fields are stale, won, fetched and expiry.
    let _no_space_for_copies = worker.store().spool(SPOOL_MIN as usize).unwrap();
    let pins = pin_until_bound(&mut worker);
    assert_eq!(read(&mut worker), None);
    drop(pins);
    let never = Expiry::NEVER;
    assert_eq!(read(&mut worker), Some((true, true, false, never)));
    let expiry = Expiry::at(100);
    assert_eq!(read(&mut worker), Some((true, false, true, expiry)));
}

/// Pins items until the bound of held segments is reached, which is an eighth of all segments.
fn pin_until_bound(worker: &mut Worker) -> Vec<crate::Pin> {
    let pin = |number: u32| {
        let key = (1_000_000 + number).to_be_bytes();
        set(worker, &key, 1_000, &SET);
        let pinned = worker.read(&key, worker.hash(&key), NOW_S, Read::default(), |item| {
            Some(item.pin())
        });
        pinned.unwrap().flatten()
    };
    (0..).map_while(pin).collect()
}

/// Creates a store that rejects items instead of evicting others, and fills it with values of 200
/// bytes. Returns a worker, and the number of items in the store.
fn full_store_without_eviction(memory_bytes: u64) -> (Worker, u32) {
    let config = Config {
        memory_bytes,
        hash_seed: 1,
        evicts: false,
        ..Config::DEFAULT
    };
    let mut worker = Store::new(config).unwrap().worker();
    let count = (0_u32..).find(|number| !try_set(&mut worker, &number.to_be_bytes(), 200));
    (worker, count.unwrap())
}

/// Stores a value of `len` bytes. Returns whether it was stored.
fn try_set(worker: &mut Worker, key: &[u8], len: usize) -> bool {
    let value = vec![b'x'; len];
    let put = worker.put(key, worker.hash(key), &value, &SET, NOW_S);
    matches!(put, Ok(Published::Stored { .. }))
}

#[test]
fn without_eviction_no_item_is_lost_and_memory_of_deleted_items_is_reused() {
    for percent in [10, 20, 30, 50, 70] {
        let (mut worker, count) = full_store_without_eviction(8 << 20);
        let is_deleted = |number: u32| (number.wrapping_mul(2_654_435_761) >> 8) % 100 < percent;
        let mut deleted = 0;
        for number in (0..count).filter(|&number| is_deleted(number)) {
            let key = number.to_be_bytes();
            worker.delete(&key, worker.hash(&key), None, NOW_S);
            deleted += 1;
        }
        worker.quiescent();
        // The deleted items are spread over all segments. Evacuation must copy the remaining items
        // together to gain memory for half as many new items.
        let expected = deleted / 2;
        let mut stored = 0;
        for number in 0..expected {
            let key = (u32::MAX - number).to_be_bytes();
            stored += u32::from(try_set(&mut worker, &key, 200));
            worker.quiescent();
        }
        let kept = (0..count).filter(|&number| !is_deleted(number));
        let lost = kept.filter(|number| !has_item(&mut worker, &number.to_be_bytes(), NOW_S));
        assert_eq!(lost.count(), 0, "of {percent} % deleted");
        let statistics = worker.store().statistics();
        assert_eq!(statistics.evicted, 0, "{statistics:?}");
        assert_eq!(stored, expected, "of {percent} % deleted: {statistics:?}");
    }
}

#[test]
fn small_unfinished_uploads_share_held_segments() {
    let mut worker = worker(64 << 20);
    let held: Vec<Upload> = (0..2_000_u32)
        .map(|number| reserve_upload(&mut worker, &number.to_be_bytes(), 10).unwrap())
        .collect();
    assert!(worker.store().statistics().bytes_held < 1 << 20);
    drop(held);
    assert_eq!(worker.store().statistics().bytes_held, 0);
}

#[test]
fn a_cas_chosen_by_a_client_is_not_assigned_again() {
    let mut worker = worker(8 << 20);
    let mut cas = |explicit_cas| {
        let write = Write {
            explicit_cas,
            ..SET
        };
        match set(&mut worker, b"k", 1, &write) {
            Published::Stored { cas, .. } => cas,
            other => panic!("{other:?}"),
        }
    };
    let first = cas(None);
    let chosen = cas(Some(first + 1));
    assert_ne!(cas(None), chosen);
}

#[test]
fn writes_succeed_after_each_change_of_the_memory_limit() {
    let config = Config {
        memory_bytes: 16 << 20,
        item_max: 100_000,
        hash_seed: 1,
        ..Config::DEFAULT
    };
    let mut worker = Store::new(config).unwrap().worker();
    for (number, limit) in [16, 4, 16, 2, 16].into_iter().enumerate() {
        worker.store().set_limit(limit << 20).unwrap();
        for item in 0..30_000_u32 {
            let key = [number as u32, item].map(u32::to_be_bytes).concat();
            assert!(try_set(&mut worker, &key, 1_000), "{item} at {limit} MiB");
            worker.quiescent();
        }
    }
    // No page maintenance has run, so pages were never discarded: when the limit rose again,
    // workers used the segments that still had to be discarded.
    assert!(
        worker.store().set_limit(1 << 20).is_err(),
        "a limit below an eighth of the initial memory was accepted"
    );
}

#[test]
fn a_worker_that_is_not_quiescent_does_not_increase_evacuation() {
    let (mut worker, mut other) = {
        let worker = worker(64 << 20);
        let other = worker.store().worker();
        (worker, other)
    };
    for number in 0..700_000_u32 {
        set(&mut worker, &number.to_be_bytes(), 50, &SET);
        worker.quiescent();
    }
    // This read sets `other` online. It is not quiescent afterwards, so no evacuated segment
    // becomes free. Writers must not evacuate more and more segments because of that.
    has_item(&mut other, b"anything", NOW_S);
    let before = worker.store().statistics();
    let mut written = 0;
    for number in 0..30_000_u32 {
        written += u64::from(try_set(
            &mut worker,
            &(1_000_000 + number).to_be_bytes(),
            50,
        ));
        worker.quiescent();
    }
    let after = worker.store().statistics();
    let evacuated = after.evacuated - before.evacuated;
    // An item of 50 bytes takes less than 80 bytes with its key and header.
    let needed = written * 80 / after.segment_bytes;
    assert!(
        evacuated < 3 * needed + 20,
        "{evacuated} segments evacuated, but new items filled only {needed}"
    );
    drop(other);
    assert!(try_set(&mut worker, b"more", 50));
}

#[test]
fn a_number_among_many_spaces_and_zeros_keeps_its_length() {
    let mut worker = worker(8 << 20);
    // Values of this length are in pieces.
    let [spaces, zeros] = [b" ", b"0"].map(|byte| byte.repeat(499_999));
    for value in [[b"1", &spaces[..]], [&spaces, b"1"], [&zeros, b"1"]] {
        set_value(&mut worker, b"n", &value.concat());
        for number in [2, 3] {
            let outcome = worker.arith(b"n", worker.hash(b"n"), &INCREMENT, NOW_S);
            assert!(matches!(outcome, ArithmeticOutcome::Done(it) if it.value == number));
            assert_eq!(value_len(&mut worker, b"n"), Some(500_000));
        }
    }
}

/// An operation visits the blocks and buckets of its own key. It also visits blocks and buckets of
/// other keys, for evacuation, index resizing and index insertion. Only the visits for other keys
/// are counted.
#[test]
fn no_operation_visits_more_than_the_maximum_of_other_blocks_and_buckets() {
    let mut worker = worker(8 << 20);
    let mut visits_max = 0;
    for number in 0..300_000_u32 {
        let key = (number % 60_000).to_be_bytes();
        let before = worker.visits();
        set(&mut worker, &key, (number % 500) as usize, &SET);
        visits_max = visits_max.max(worker.visits() - before);
        let (before, hash) = (worker.visits(), worker.hash(&key));
        if number % 3 == 0 {
            // The touch moves the item to a block with an expiry word.
            let touched = worker.touch(&key, hash, Expiry::at(9), NOW_S);
            assert!(touched.unwrap().is_some());
        }
        visits_max = visits_max.max(worker.visits() - before);
        worker.quiescent();
    }
    assert!(visits_max <= VISITS_MAX as u64, "{visits_max}");
    assert!(
        visits_max >= STEP_ITEMS as u64,
        "no complete evacuation step was counted: {visits_max}"
    );
}

#[test]
fn evacuation_keeps_all_pieces_of_a_requested_item() {
    let mut worker = worker(8 << 20);
    let until = |second| Write::plain(Mode::Set, Expiry::at(second));
    // The store puts pieces, whatever the expiry of their item, into the segments of items that
    // never expire. It puts the head block into a segment of items that expire at about the same
    // time.
    set(&mut worker, b"large", 40_000, &until(5_000));
    assert!(has_item(&mut worker, b"large", NOW_S));
    let mut others = |from: u32, write: &Write| {
        (from..from + 100_000).for_each(|number| {
            set(&mut worker, &number.to_be_bytes(), 100, write);
        });
    };
    // First the segment of the head block is evacuated, then the segments of the pieces.
    others(0, &until(5_000));
    others(100_000, &SET);
    assert_eq!(value_len(&mut worker, b"large"), Some(40_000));
}
