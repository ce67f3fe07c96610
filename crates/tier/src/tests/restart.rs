//! Restarts at seeded moments: after an orderly stop, and after a crash at any step of it.

use std::fs;
use std::io;
use std::sync::{Arc, Mutex};

use store::{Expiry, LowerTier, Marks, TierItem};

use crate::{Continued, Device, Rules, Stopped, Tier};

const SEGMENT: u64 = 8 << 10;
const SEGMENTS: u64 = 20;

/// A medium and the bytes on it that were not synced yet.
#[derive(Debug, Default)]
struct Medium {
    synced: Mutex<Vec<u8>>,
    written: Mutex<Vec<u8>>,
}

#[derive(Debug)]
struct PowerCutDevice(Arc<Medium>);

impl Device for PowerCutDevice {
    fn read_at(&self, buffer: &mut [u8], offset: u64) -> io::Result<()> {
        let offset = offset as usize;
        buffer.copy_from_slice(&self.0.written.lock().unwrap()[offset..offset + buffer.len()]);
        Ok(())
    }

    fn write_at(&self, bytes: &[u8], offset: u64) -> io::Result<()> {
        let offset = offset as usize;
        self.0.written.lock().unwrap()[offset..offset + bytes.len()].copy_from_slice(bytes);
        Ok(())
    }

    fn sync(&self) -> io::Result<()> {
        let written = self.0.written.lock().unwrap().clone();
        *self.0.synced.lock().unwrap() = written;
        Ok(())
    }
}

impl Medium {
    fn new() -> Arc<Self> {
        let bytes = vec![0; (SEGMENT * SEGMENTS) as usize];
        Arc::new(Self {
            synced: Mutex::new(bytes.clone()),
            written: Mutex::new(bytes),
        })
    }

    /// Loses some of the bytes that were not synced: each sector is either the old or the new one.
    fn cut_power(&self, random: &mut impl FnMut() -> u64) {
        let mut written = self.written.lock().unwrap();
        let synced = self.synced.lock().unwrap();
        for (new, old) in written.chunks_mut(512).zip(synced.chunks(512)) {
            if random().is_multiple_of(2) {
                new.copy_from_slice(old);
            }
        }
    }
}

fn tier(medium: &Arc<Medium>, id: u64) -> Tier {
    let rules = Rules {
        segment_bytes: Some(SEGMENT),
        item_bytes: 64,
        ..Rules::default()
    };
    let device: Box<dyn Device> = Box::new(PowerCutDevice(Arc::clone(medium)));
    Tier::new(rules, id, vec![(device, SEGMENT * SEGMENTS)]).unwrap()
}

fn hash(key: u64) -> u64 {
    (key + 1).wrapping_mul(0x9e37_79b9_7f4a_7c15)
}

fn value(key: u64, version: u64) -> Vec<u8> {
    format!("{key}={version},")
        .bytes()
        .cycle()
        .take(100 + key as usize % 300)
        .collect()
}

fn put(tier: &Tier, key: u64, version: u64, expiry: Expiry) {
    tier.remove(hash(key), 0, 1);
    evict(tier, key, version, expiry, false);
    tier.write_next();
}

/// Appends an item, unless its copy may stay.
fn evict(tier: &Tier, key: u64, version: u64, expiry: Expiry, is_fetched: bool) {
    let name = key.to_string();
    let value = value(key, version);
    let item = TierItem {
        key: name.as_bytes(),
        flags: 0,
        cas: version,
        expiry,
        marks: Marks::default(),
        is_fetched,
        value_len: value.len(),
    };
    let mut slices = std::iter::once(&value[..]);
    if let Some(address) = tier.append(hash(key), &item, &mut slices, 0, 1) {
        tier.publish(hash(key), address, 0);
    }
}

/// The version of the value that a read returns.
fn get(tier: &Tier, key: u64) -> Option<u64> {
    let name = key.to_string();
    let address = tier.find(hash(key), 0, 1)?;
    let record = tier.read(hash(key), address, name.as_bytes())?;
    let version = record.item().cas;
    assert_eq!(record.value(), value(key, version), "key {key}");
    Some(version)
}

const STOPPED: Stopped = Stopped {
    hash_seed: 77,
    epoch_unix_s: 1_000_000,
    generation: 0,
};

fn stop(tier: &Tier) {
    tier.stop();
    while tier.write_next() {}
}

#[test]
fn an_orderly_stop_keeps_the_latest_versions_and_a_power_cut_keeps_none() {
    for seed in 0..300_u64 {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("index");
        let medium = Medium::new();
        let mut state = seed;
        let mut random = move || {
            state = state
                .wrapping_mul(6_364_136_223_846_793_005)
                .wrapping_add(1_442_695_041);
            state >> 33
        };
        let mut latest = [0_u64; 400];
        let mut version = 0;
        let mut expects_items = false;
        for round in 0..6 {
            let mut run = tier(&medium, seed << 8 | round);
            let continued = run.continue_saved(&path, STOPPED.epoch_unix_s).unwrap();
            assert_eq!(
                continued.is_some(),
                expects_items,
                "seed {seed}, round {round}"
            );
            assert_eq!(continued.map_or(77, |it| it.hash_seed), 77);
            assert!(!path.exists(), "a crash from now on must find no index");
            let mut hits = 0;
            for key in 0..latest.len() as u64 {
                let found = get(&run, key);
                assert!(
                    found.is_none() || found == Some(latest[key as usize]),
                    "key {key}"
                );
                hits += u64::from(found.is_some());
            }
            assert_eq!(hits, continued.map_or(0, |it| it.objects));
            for _ in 0..random() % 600 {
                let key = random() % latest.len() as u64;
                version += 1;
                latest[key as usize] = version;
                match random() % 4 {
                    // Overwritten or deleted in memory only.
                    0 => drop(run.remove(hash(key), 0, 1)),
                    _ => put(&run, key, version, Expiry::NEVER),
                }
            }
            expects_items = random().is_multiple_of(2);
            if expects_items {
                stop(&run);
                run.save(&path, &STOPPED).unwrap();
            }
            // What was not synced may be lost in any case.
            medium.cut_power(&mut random);
        }
    }
}

/// The metadata command `h` says of an item whether it was read. An item may be read after its copy
/// was written, and this copy then stays when the item is evicted again.
#[test]
fn an_item_that_was_read_is_so_in_the_tier_and_after_a_restart() {
    let is_fetched = |tier: &Tier, key: u64| {
        let address = tier.find(hash(key), 0, 1).unwrap();
        let record = tier.read(hash(key), address, key.to_string().as_bytes());
        record.unwrap().item().is_fetched
    };
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("index");
    let medium = Medium::new();
    let run = tier(&medium, 1);
    let (unread, read_before, read_after, written_again) = (0, 1, 2, 3);
    for key in [unread, read_before, read_after, written_again] {
        evict(&run, key, 1, Expiry::NEVER, key == read_before);
    }
    let written = run.statistics().objects_written;
    evict(&run, read_after, 1, Expiry::NEVER, true);
    evict(&run, written_again, 1, Expiry::NEVER, true);
    assert_eq!(run.statistics().objects_written, written);
    put(&run, written_again, 2, Expiry::NEVER);
    let expected = [false, true, true, false];
    assert_eq!([0, 1, 2, 3].map(|key| is_fetched(&run, key)), expected);
    stop(&run);
    run.save(&path, &STOPPED).unwrap();
    let mut next = tier(&medium, 2);
    next.continue_saved(&path, STOPPED.epoch_unix_s)
        .unwrap()
        .unwrap();
    assert_eq!([0, 1, 2, 3].map(|key| is_fetched(&next, key)), expected);
}

/// A file of the index that is damaged anywhere, or ends early, is not used at all.
#[test]
fn a_damaged_index_is_not_used() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("index");
    let medium = Medium::new();
    let run = tier(&medium, 1);
    for key in 0..40 {
        put(&run, key, key + 1, Expiry::NEVER);
    }
    stop(&run);
    run.save(&path, &STOPPED).unwrap();
    let good = fs::read(&path).unwrap();
    for at in 0..good.len() {
        for damage in [0, 1] {
            let mut bad = good.clone();
            match damage {
                0 => bad.truncate(at),
                _ => bad[at] ^= 1 << (at % 8),
            }
            fs::write(&path, &bad).unwrap();
            let mut next = tier(&medium, 2);
            assert_eq!(next.continue_saved(&path, 0).unwrap(), None, "byte {at}");
            assert!((0..40).all(|key| get(&next, key).is_none()));
            assert_eq!(next.statistics().objects_used, 0);
        }
    }
    // Only the last frame is damaged, so all entries have been read when it is found out. They are
    // not found later either, when segments are opened in the place of theirs.
    let mut bad = good.clone();
    *bad.last_mut().unwrap() ^= 1;
    fs::write(&path, &bad).unwrap();
    let mut next = tier(&medium, 2);
    assert_eq!(next.continue_saved(&path, 0).unwrap(), None);
    for key in 1000..1040 {
        put(&next, key, key + 1, Expiry::NEVER);
    }
    assert!(next.statistics().segments_opened >= 4);
    assert!((0..40).all(|key| next.find(hash(key), 0, 1).is_none()));
    assert!((1000..1040).all(|key| get(&next, key) == Some(key + 1)));
    let used = next.statistics();
    assert_eq!(next.count_current(), (used.objects_used, used.bytes_used));
    fs::write(&path, &good).unwrap();
    let mut next = tier(&medium, 2);
    let continued = next.continue_saved(&path, STOPPED.epoch_unix_s).unwrap();
    let expected = Continued {
        hash_seed: 77,
        objects: 40,
    };
    assert_eq!(continued, Some(expected));
    assert!((0..40).all(|key| get(&next, key) == Some(key + 1)));
    assert_eq!(next.greatest_cas(), 40);
}

/// The files of another run have no valid record, although keys and segment numbers are the same.
#[test]
fn the_files_of_another_tier_are_not_mistaken() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("index");
    let (medium, other) = (Medium::new(), Medium::new());
    for (medium, id, version) in [(&other, 1, 5), (&medium, 2, 6)] {
        let run = tier(medium, id);
        for key in 0..40 {
            put(&run, key, version, Expiry::NEVER);
        }
        stop(&run);
        run.save(&path, &STOPPED).unwrap();
    }
    let mut next = tier(&other, 3);
    next.continue_saved(&path, 0).unwrap().unwrap();
    assert!((0..40).all(|key| get(&next, key).is_none()));
    assert_eq!(next.statistics().reads_damaged, 40);
}

/// Its space may be what a full disk lacks.
#[test]
fn an_index_that_cannot_be_saved_leaves_no_file() {
    let folder = tempfile::tempdir().unwrap();
    // A file cannot take the place of a folder.
    let path = folder.path().join("index");
    fs::create_dir(&path).unwrap();
    let run = tier(&Medium::new(), 1);
    put(&run, 1, 1, Expiry::NEVER);
    stop(&run);
    run.save(&path, &STOPPED).unwrap_err();
    assert_eq!(fs::read_dir(folder.path()).unwrap().count(), 1);
}

#[test]
fn expiry_continues_on_the_clock_of_the_next_run() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("index");
    let medium = Medium::new();
    let run = tier(&medium, 1);
    put(&run, 1, 1, Expiry::at(100));
    put(&run, 2, 1, Expiry::at(20));
    put(&run, 3, 1, Expiry::NEVER);
    stop(&run);
    run.save(&path, &STOPPED).unwrap();
    let mut next = tier(&medium, 2);
    // It starts thirty seconds after the first one did.
    next.continue_saved(&path, STOPPED.epoch_unix_s + 30)
        .unwrap();
    assert_eq!(
        next.find(hash(1), 0, 69).map(|it| it.expiry),
        Some(Expiry::at(70))
    );
    assert_eq!(next.find(hash(1), 0, 70), None);
    assert_eq!(next.find(hash(2), 0, 1), None);
    assert_eq!(
        next.find(hash(3), 0, 1).map(|it| it.expiry),
        Some(Expiry::NEVER)
    );
}
