//! What is written to the device, and when: the limit for flash memory, and items that are written
//! again before their segment is reused. Counts from a seed.

use store::Config;

use crate::Rules;
use crate::testing::TieredCache;

const SEGMENT: u64 = 64 << 10;
const VALUE: [u8; 1000] = [b'v'; 1000];

fn cache(tier_bytes: u64, write_rate: Option<u64>) -> TieredCache {
    let config = Config {
        memory_bytes: 1 << 20,
        item_max: 64 << 10,
        hash_seed: 1,
        ..Config::DEFAULT
    };
    let rules = Rules {
        segment_bytes: Some(SEGMENT),
        write_rate,
        ..Rules::default()
    };
    TieredCache::new(config, rules, tier_bytes).unwrap()
}

/// Ten times the rate is evicted. The rest is dropped and counted, and can be read again once it
/// has been stored again.
#[test]
fn no_more_is_written_in_a_second_than_the_rate_allows() {
    const RATE: u64 = 100_000;
    const SECONDS: u32 = 30;
    let mut cache = cache(16 << 20, Some(RATE));
    let mut number = 0;
    for second in 1..=SECONDS {
        let before = cache.tier.statistics().bytes_written;
        for _ in 0..1000 {
            number += 1;
            cache.set(format!("key {number}").as_bytes(), &VALUE, second);
        }
        let written = cache.tier.statistics().bytes_written - before;
        let record = VALUE.len() as u64 + 100;
        assert!(written <= RATE + record, "second {second}: {written}");
    }
    let statistics = cache.tier.statistics();
    assert!(statistics.bytes_written > RATE * u64::from(SECONDS - 5) / 2);
    assert!(statistics.dropped_write_rate > 10_000, "{statistics:?}");
}

/// In place of compaction: an item that is requested within half a round of the ring is written
/// again before its segment is reused; the others of the segment are lost with it.
#[test]
fn an_item_that_is_requested_outlives_its_segment() {
    let mut cache = cache(4 << 20, None);
    cache.set(b"requested", &VALUE, 1);
    cache.set(b"forgotten", &VALUE, 1);
    let mut number = 0_u64;
    // Fifteen rounds. After so many others it has left memory, and its copy is in the older half.
    for _ in 0..40 {
        for _ in 0..1500 {
            number += 1;
            cache.set(format!("other {number}").as_bytes(), &VALUE, 1);
        }
        assert!(cache.get(b"requested", 1), "after {number} others");
    }
    let statistics = cache.tier.statistics();
    assert!(statistics.segments_reused > 4 * statistics.segments);
    assert!(!cache.get(b"forgotten", 1));
    assert!(statistics.objects_renewed > 0, "{statistics:?}");
    // Each round writes the item once or twice, and the others once.
    let written_again = statistics.objects_written.saturating_sub(number + 2);
    assert!(written_again < 100, "{statistics:?}");
}
