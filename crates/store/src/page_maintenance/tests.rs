use super::*;
use crate::config::Config;
use crate::expiry::Expiry;
use crate::operations::request::{Mode, Write};
use crate::worker::Worker;

/// A worker of a store whose segments are so large that populating one takes several steps.
fn worker(memory_bytes: u64) -> Worker {
    let config = Config {
        memory_bytes,
        ..Config::DEFAULT
    };
    let store = Store::new(config).unwrap();
    assert!(store.log.heap.segment_size() > POPULATE_BYTES);
    store.worker()
}

/// Stores an item that fills most of a segment.
fn fill(worker: &mut Worker, key: u32) {
    let name = key.to_be_bytes();
    let write = Write::plain(Mode::Set, Expiry::NEVER);
    let hash = worker.hash(&name);
    worker.put(&name, hash, &[7; 500_000], &write, 1).unwrap();
    worker.quiescent();
}

/// Runs steps until there is nothing to do. Returns their number.
fn steps(maintenance: &mut PageMaintenance) -> u64 {
    std::iter::repeat_with(|| maintenance.step())
        .take_while(|&step| step != PageStep::Nothing)
        .count() as u64
}

#[test]
fn each_step_populates_a_fixed_number_of_bytes() {
    // In a store of 4 GiB a segment has 2 MiB. Maintenance populates twice the reserve of segments,
    // the index, and 4 MiB into which the index can grow.
    let (step_bytes, segment_bytes) = (u64::from(POPULATE_BYTES), 2 << 20);
    let worker = worker(4 << 30);
    let store = worker.store();
    let segments = 2 * u64::from(store.log.reserve());
    let index_bytes = store.index.bytes() + 2 * segment_bytes;
    let mut maintenance = PageMaintenance::new(store);
    let expected = segments * segment_bytes / step_bytes + index_bytes.div_ceil(step_bytes);
    assert_eq!(steps(&mut maintenance), expected);
    assert_eq!(steps(&mut maintenance), 0);
    // A store of this size uses huge pages until they are disabled.
    assert!(store.has_huge_pages());
    store.disable_huge_pages();
    assert!(!store.has_huge_pages());
}

/// A segment that a writer has used before maintenance populates it is resident already, so
/// maintenance does not populate it.
#[test]
fn maintenance_skips_segments_that_writers_used_first() {
    let mut worker = worker(512 << 20);
    let store = Arc::clone(worker.store());
    let mut maintenance = PageMaintenance::new(&store);
    assert_eq!(maintenance.step(), PageStep::Populated);
    let reserve = store.log.reserve();
    while store.log.with_pages() <= 3 * reserve {
        // The key is a number that grows with the number of segments in use.
        fill(&mut worker, store.log.with_pages());
    }
    let populated = steps(&mut maintenance);
    let segment_steps = u64::from(store.log.heap.segment_size() / POPULATE_BYTES);
    let index_bytes = store.index.bytes() + 2 * u64::from(store.log.heap.segment_size());
    let index_steps = index_bytes.div_ceil(POPULATE_BYTES.into());
    // Maintenance finishes the segment that it began, of which one step is done. Then it populates
    // the segments to be used next, and the index.
    let expected = segment_steps - 1 + u64::from(2 * reserve) * segment_steps + index_steps;
    assert_eq!(populated, expected);
}

/// While a segment is repopulated, it is not available to workers. If the maintenance is dropped in
/// the middle, the segment becomes available.
#[test]
fn a_segment_being_repopulated_is_usable_after_maintenance_is_dropped() {
    // The memory limit in bytes.
    const LIMIT: u64 = 512 << 20;
    let mut worker = worker(LIMIT);
    let store = Arc::clone(worker.store());
    store.disable_huge_pages();
    (0..200).for_each(|key| fill(&mut worker, key));
    let mut maintenance = PageMaintenance::new(&store);
    store.set_limit(LIMIT / 8).unwrap();
    let mut discarded = 0;
    while store.statistics().bytes_used() > LIMIT / 8 {
        // In second 1. The second argument is the maximum number of blocks to visit, which
        // `maintain` lowers to `STEP_ITEMS`.
        worker.maintain(1, 64);
        worker.quiescent();
        discarded += u64::from(maintenance.step() == PageStep::Discarded);
    }
    assert!(discarded > 16, "{discarded}");
    store.set_limit(LIMIT).unwrap();
    let available = store.log.available();
    // Run steps until one takes a discarded segment, which makes it unavailable. The first steps
    // may still be populating a segment that was never used.
    while store.log.available() == available {
        assert_eq!(maintenance.step(), PageStep::Populated);
    }
    assert_eq!(
        store.log.available(),
        available - 1,
        "a segment being populated is not available"
    );
    drop(maintenance);
    assert_eq!(store.log.available(), available);
}
