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

/// Returns a store, its worker, and a pin of an item in a segment that is being evacuated. Because
/// of the pin, that segment is not free after its evacuation. This function holds all other
/// segments with items, as pins would, so none of them can be evacuated.
fn store_with_a_pinned_segment() -> (Arc<Store>, Worker, Pin) {
    let store = small_store();
    let mut worker = store.worker();
    for number in 0..=250 {
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
    let pin = (0..=250).find_map(|number| {
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

/// The write is deferred, and succeeds once the pin has been dropped.
#[test]
fn a_write_waits_for_the_pin_of_an_evacuated_segment() {
    let (_store, mut worker, pin) = store_with_a_pinned_segment();
    let refused = (0..=250).find_map(|number| set(&mut worker, number).err());
    assert_eq!(refused, Some(Rejected::Deferred));
    drop(pin);
    assert!(matches!(set(&mut worker, 0), Ok(Published::Stored { .. })));
}

/// Copies made by evacuation have used up the segments that are reserved for copies. When the pin
/// is dropped, its segment is reserved for copies too. So the write is refused before and after
/// that.
#[test]
fn a_write_is_refused_if_dropping_the_pin_would_free_no_segment_for_it() {
    let (store, mut worker, pin) = store_with_a_pinned_segment();
    let refused = (0..=250).find_map(|number| set(&mut worker, number).err());
    assert_eq!(refused, Some(Rejected::Deferred));
    let target = AllocTarget {
        stripe: 0,
        part: Part::Main,
        expiry: Expiry::NEVER,
        now_s: NOW_S,
        is_copy: true,
    };
    while store.log.would_be_free_without_pins() {
        let copy = store.log.allocate(64, &target).unwrap();
        let segment = store.log.heap.segment(copy.number);
        segment.hold();
        segment.release_writer();
    }
    assert_eq!(set(&mut worker, 0).err(), Some(Rejected::NoMemory));
    drop(pin);
    assert_eq!(set(&mut worker, 0).err(), Some(Rejected::NoMemory));
}
