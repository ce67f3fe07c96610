use super::*;
use crate::config::Config;
use crate::item::Expiry;
use crate::worker::Worker;
use crate::write::{Mode, Write};

/// A store whose segments take more than one step.
fn worker(memory_bytes: u64) -> Worker {
    let config = Config {
        memory_bytes,
        ..Config::DEFAULT
    };
    let store = Store::new(config).unwrap();
    assert!(store.log.heap.segment_size() > POPULATE_BYTES);
    store.worker()
}

fn steps(tender: &mut Tender) -> u64 {
    std::iter::repeat_with(|| tender.step())
        .take_while(|&tended| tended != Tended::Nothing)
        .count() as u64
}

#[test]
fn a_step_finds_a_little_and_with_huge_pages_a_segment() {
    let step_bytes = u64::from(POPULATE_BYTES);
    for (is_huge, segment_steps) in [(true, 1), (false, (2 << 20) / step_bytes)] {
        let worker = worker(4 << 30);
        let store = worker.store();
        assert!(store.has_huge_pages());
        if !is_huge {
            store.refuse_huge_pages();
        }
        assert_eq!(store.has_huge_pages(), is_huge);
        let segments = 2 * u64::from(store.log.reserve());
        let index_bytes = store.index.bytes() + 2 * (2 << 20);
        let mut tender = Tender::new(store);
        let expected = segments * segment_steps + index_bytes.div_ceil(step_bytes);
        assert_eq!(steps(&mut tender), expected);
        assert_eq!(steps(&mut tender), 0);
    }
}

/// Nobody uses a segment while it is on its way back, and somebody must again afterwards.
#[test]
fn a_segment_on_its_way_back_is_not_lost_with_its_tender() {
    const LIMIT: u64 = 512 << 20;
    let mut worker = worker(LIMIT);
    let store = Arc::clone(worker.store());
    store.refuse_huge_pages();
    let value = vec![7; 500_000];
    let write = Write::plain(Mode::Set, Expiry::NEVER);
    for key in 0..200_u32 {
        let name = key.to_be_bytes();
        let hash = worker.hash(&name);
        worker.put(&name, hash, &value, &write, 1).unwrap();
        worker.quiescent();
    }
    let mut tender = Tender::new(&store);
    store.set_limit(LIMIT / 8).unwrap();
    let mut given_back = 0;
    while store.statistics().bytes_used() > LIMIT / 8 {
        worker.maintain(1, 64);
        worker.quiescent();
        given_back += u64::from(tender.step() == Tended::GaveBack);
    }
    assert!(given_back > 16, "{given_back}");
    store.set_limit(LIMIT).unwrap();
    let spare = store.log.spare();
    assert_eq!(tender.step(), Tended::Populated);
    assert_eq!(store.log.spare(), spare - 1, "it is under way");
    drop(tender);
    assert_eq!(store.log.spare(), spare);
}
