//! Effects of the meta protocol on items: instead of deleting an item, a client marks it stale or
//! empties it (`Worker::mark`); it creates an item as claimed; and its read claims an item before
//! the item expires. Also `append` and `prepend` that create a missing item.

use crate::{
    Config, Expiry, ItemMark, MarkOutcome, Mode, Published, Read, Recache, Store, Worker, Write,
};

const NOW_S: u32 = 1;

const SET: Write = Write::plain(Mode::Set, Expiry::NEVER);

const INVALIDATE: ItemMark = ItemMark {
    compare: None,
    explicit_cas: None,
    invalidate: true,
    empty: None,
    expiry: None,
};

/// Lengths of values: one that is stored in a single block, one in a few pieces, and one in many.
const LENGTHS: [usize; 3] = [10, 20_000, 600_000];

fn worker() -> Worker {
    let config = Config {
        memory_bytes: 16 << 20,
        hash_seed: 1,
        ..Config::DEFAULT
    };
    Store::new(config).unwrap().worker()
}

/// Writes a value that consists of `len` times the byte `x`.
fn put(worker: &mut Worker, len: usize, write: &Write) -> Published {
    let value = vec![b'x'; len];
    let put = worker.put(b"key", worker.hash(b"key"), &value, write, NOW_S);
    put.unwrap()
}

/// Writes a value as [`put`] does, which must succeed. Returns the CAS.
fn set(worker: &mut Worker, len: usize, write: &Write) -> u64 {
    match put(worker, len, write) {
        Published::Stored { cas, .. } => cas,
        other => panic!("{other:?}"),
    }
}

fn mark(worker: &mut Worker, mark: &ItemMark) -> MarkOutcome {
    worker.mark(b"key", worker.hash(b"key"), mark, NOW_S)
}

/// The properties of an item as a read returns them.
#[derive(Debug, PartialEq, Eq)]
struct ItemView {
    value_len: usize,
    flags: u32,
    cas: u64,
    expiry: Expiry,
    /// [`stale`, `won`, `claimed`, `fetched`, `base64_key`], the fields of [`crate::Item`].
    marks: [bool; 5],
}

fn read(worker: &mut Worker, options: Read) -> ItemView {
    let read_result = worker.read(b"key", worker.hash(b"key"), NOW_S, options, |item| {
        assert!(item.value().flatten().all(|&byte| byte == b'x'));
        assert!(item.memory_len() > item.value_len());
        Some(ItemView {
            value_len: item.value_len(),
            flags: item.flags,
            cas: item.cas,
            expiry: item.expiry,
            marks: [
                item.stale,
                item.won,
                item.claimed,
                item.fetched,
                item.base64_key,
            ],
        })
    });
    read_result.unwrap().unwrap()
}

/// A read that claims a stale item, and does not record the access.
const CLAIM_UNTRACKED: Read = Read {
    touch: None,
    claim: true,
    recache: Recache::Never,
    untracked: true,
    pin_if_longer_than: None,
    may_copy: false,
};

#[test]
fn marking_stale_keeps_value_flags_and_expiry() {
    for len in LENGTHS {
        let mut worker = worker();
        assert_eq!(mark(&mut worker, &INVALIDATE), MarkOutcome::NotFound);
        let write = Write {
            flags: 7,
            expiry: Expiry::at(100),
            base64_key: true,
            ..SET
        };
        let cas = set(&mut worker, len, &write);
        let other = Some(cas + 1);
        let compared = |compare| ItemMark {
            compare,
            ..INVALIDATE
        };
        // A mark with another CAS fails.
        assert_eq!(mark(&mut worker, &compared(other)), MarkOutcome::Exists);
        assert_eq!(mark(&mut worker, &compared(Some(cas))), MarkOutcome::Done);
        let stale = read(&mut worker, CLAIM_UNTRACKED);
        assert_ne!(stale.cas, cas);
        let expected = ItemView {
            value_len: len,
            flags: 7,
            cas: stale.cas,
            expiry: Expiry::at(100),
            marks: [true, true, false, false, true],
        };
        assert_eq!(stale, expected);
        // The first read has won, so the second one only sees that the item is claimed.
        assert_eq!(
            read(&mut worker, CLAIM_UNTRACKED).marks,
            [true, false, true, false, true]
        );
        // After the item is marked stale again, the next reader wins again.
        let again = ItemMark {
            explicit_cas: Some(1 << 50),
            expiry: Some(Expiry::NEVER),
            ..INVALIDATE
        };
        assert_eq!(mark(&mut worker, &again), MarkOutcome::Done);
        let stale = read(&mut worker, CLAIM_UNTRACKED);
        assert_eq!((stale.cas, stale.expiry), (1 << 50, Expiry::NEVER));
        assert_eq!(stale.marks, [true, true, false, false, true]);
    }
}

#[test]
fn emptying_an_item_keeps_its_cas_and_resets_the_rest() {
    for len in LENGTHS {
        let mut worker = worker();
        let write = Write {
            flags: 7,
            expiry: Expiry::at(100),
            base64_key: true,
            explicit_cas: Some(1 << 50),
            ..SET
        };
        set(&mut worker, len, &write);
        // Removes the value, and sets the client flags to 9.
        let empty = ItemMark {
            invalidate: false,
            empty: Some(9),
            ..INVALIDATE
        };
        assert_eq!(mark(&mut worker, &empty), MarkOutcome::Done);
        let expected = ItemView {
            value_len: 0,
            flags: 9,
            cas: 1 << 50,
            expiry: Expiry::NEVER,
            marks: [false; 5],
        };
        assert_eq!(read(&mut worker, CLAIM_UNTRACKED), expected);
    }
}

#[test]
fn the_first_read_that_claims_an_item_before_its_expiry_wins() {
    for len in LENGTHS {
        let mut worker = worker();
        let recache = |recache| Read {
            recache,
            ..CLAIM_UNTRACKED
        };
        let won = |worker: &mut Worker, options| read(worker, options).marks[1];
        // `Recache::Before` does not claim an item that never expires.
        set(&mut worker, len, &SET);
        assert!(!won(&mut worker, recache(Recache::Before(Expiry::at(200)))));
        let expiry = Expiry::at(100);
        set(&mut worker, len, &Write { expiry, ..SET });
        assert!(!won(&mut worker, recache(Recache::Before(Expiry::at(100)))));
        assert!(won(&mut worker, recache(Recache::Before(Expiry::at(101)))));
        // Later reads do not win, because the item is claimed.
        let marks = [false, false, true, false, false];
        assert_eq!(read(&mut worker, recache(Recache::Always)).marks, marks);
        assert_eq!(read(&mut worker, CLAIM_UNTRACKED).marks, marks);
        set(&mut worker, len, &Write { expiry, ..SET });
        assert!(won(&mut worker, recache(Recache::Always)));
    }
}

#[test]
fn an_item_created_as_claimed_is_still_claimed_after_evacuation() {
    let mut worker = worker();
    let claimed = Write {
        claimed: true,
        ..SET
    };
    // The item is created in second 0, before all other requests.
    let put = worker.put(b"key", worker.hash(b"key"), b"", &claimed, 0);
    assert!(matches!(put, Ok(Published::Stored { .. })));
    // The item is read after every write of another item, so evacuation copies it and does not
    // evict it.
    for number in 0..100_000_u32 {
        let key = number.to_be_bytes();
        let put = worker.put(&key, worker.hash(&key), &[0; 400], &SET, NOW_S);
        assert!(matches!(put, Ok(Published::Stored { .. })));
        let seen = read(&mut worker, Read::default());
        // Not stale, not won, but claimed.
        assert_eq!(seen.marks[..3], [false, false, true]);
    }
}

#[test]
fn append_and_prepend_with_vivify_create_a_missing_item() {
    for len in LENGTHS {
        for mode in [Mode::Append, Mode::Prepend] {
            let mut worker = worker();
            let expiry = Expiry::at(100);
            let join = Write::plain(mode, expiry);
            assert_eq!(put(&mut worker, len, &join), Published::NotStored);
            let vivify = Write {
                vivify: true,
                flags: 7,
                ..join
            };
            set(&mut worker, len, &vivify);
            let seen = read(&mut worker, CLAIM_UNTRACKED);
            assert_eq!((seen.value_len, seen.flags, seen.expiry), (len, 7, expiry));
            // The item exists now, so the value is joined, and the expiry of this write is ignored.
            let later = Write {
                expiry: Expiry::at(200),
                ..vivify
            };
            set(&mut worker, 5, &later);
            let seen = read(&mut worker, CLAIM_UNTRACKED);
            assert_eq!((seen.value_len, seen.expiry), (len + 5, expiry));
        }
    }
}
