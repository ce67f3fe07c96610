use crate::Worker;
use crate::eviction_policy::Part;
use crate::expiry::Expiry;
use crate::heap::segment::Phase;
use crate::log::AllocTarget;
use crate::operations::item::Item;
use crate::operations::pin::Pin;
use crate::operations::read::Read;
use crate::operations::request::{Mode, Published, Write};
use crate::rejected::Rejected;
use crate::store::{Store, small_store};
use crate::sync::Arc;

const NOW_S: u32 = 1;

/// Returns the numbers of more than twice as many items as a small store has space for.
fn numbers() -> std::ops::RangeInclusive<u8> {
    0..=250
}

/// Writes the item with this number, which is also its key.
fn set(worker: &mut Worker, number: u8) -> Result<Published, Rejected> {
    let write = Write::plain(Mode::Set, Expiry::NEVER);
    worker.put(
        &[number],
        worker.hash(&[number]),
        &[number; 40],
        &write,
        NOW_S,
    )
}

/// Pins the item with this number, if it is in the store.
fn pin(worker: &mut Worker, number: u8) -> Option<Pin> {
    let hash = worker.hash(&[number]);
    let pin = worker.read(
        &[number],
        hash,
        NOW_S,
        Read::default(),
        |item: &Item<'_>| item.pin(),
    );
    pin.ok().flatten()
}

/// Returns a store, its worker, and a pin of an item in a segment that is being evacuated. While
/// the pin exists, this segment does not become free after its evacuation. All other segments with
/// items are held, as pins would hold them, so none of them can be evacuated.
fn store_with_a_pinned_segment() -> (Arc<Store>, Worker, Pin) {
    let store = small_store();
    let mut worker = store.worker();
    for number in numbers() {
        set(&mut worker, number).unwrap();
    }
    // Begin to evacuate a segment.
    let heap = &store.log.heap;
    let evacuating = loop {
        worker.evacuate_step(1, NOW_S);
        let is_evacuating = |&number: &u32| heap.segment(number).phase() == Phase::Evacuating;
        if let Some(number) = (0..heap.count()).find(is_evacuating) {
            break number;
        }
    };
    // Pin one item after the other, until the pinned one is in that segment.
    let pin = numbers().find_map(|number| {
        let pin = pin(&mut worker, number)?;
        heap.segment(evacuating).is_held().then_some(pin)
    });
    let pin = pin.expect("the segment has items that are not evacuated yet");
    for segment in (0..heap.count()).map(|number| heap.segment(number)) {
        if matches!(segment.phase(), Phase::Open | Phase::Sealed) {
            segment.hold();
        }
    }
    (store, worker, pin)
}

/// A write that needs the pinned segment is deferred, and succeeds once the pin has been dropped.
#[test]
fn a_write_is_deferred_until_the_pin_of_an_evacuated_segment_is_dropped() {
    let (_store, mut worker, pin) = store_with_a_pinned_segment();
    let first_error = numbers().find_map(|number| set(&mut worker, number).err());
    assert_eq!(first_error, Some(Rejected::Deferred));
    drop(pin);
    assert!(matches!(set(&mut worker, 0), Ok(Published::Stored { .. })));
}

/// The last two free segments are reserved for copies made by evacuation (`COPY_RESERVE`). Here
/// copies have used so many segments that not more than two would be free without the pin. So a
/// write is refused before and after the pin is dropped.
#[test]
fn a_write_is_refused_if_dropping_the_pin_would_free_no_segment_for_it() {
    let (store, mut worker, pin) = store_with_a_pinned_segment();
    let first_error = numbers().find_map(|number| set(&mut worker, number).err());
    assert_eq!(first_error, Some(Rejected::Deferred));
    let target = AllocTarget {
        stripe: 0,
        part: Part::Main,
        expiry: Expiry::NEVER,
        now_s: NOW_S,
        is_copy: true,
    };
    // Allocate copies, as evacuation would. Hold their segments, so that none can be evacuated.
    while store.log.would_be_free_without_pins() {
        let copy_len = 64;
        let copy = store.log.allocate(copy_len, &target).unwrap();
        let segment = store.log.heap.segment(copy.number);
        segment.hold();
        segment.release_writer();
    }
    assert_eq!(set(&mut worker, 0).err(), Some(Rejected::NoMemory));
    drop(pin);
    assert_eq!(set(&mut worker, 0).err(), Some(Rejected::NoMemory));
}
