//! `stats items` and `stats slabs`: statistics by size class, in memcached's terms.
//!
//! There are no slabs. A class is a range of item sizes, that of memcached's slab class of the same
//! number ([`SizeClass`]). Its pages are those that memcached would need for the present items.
//! The guide lists the names without a meaning here, which are 0.

use session::{ClassCounter, ClassCounts, StatWriter};
use store::{ClassStatistics, SizeClass};

/// Size of memcached's slab pages in bytes.
const PAGE_LEN: u64 = 1 << 20;

/// The statistics of all classes.
type Classes = [ClassStatistics; SizeClass::COUNT];

/// The statistics of all classes at the last `stats reset`, if there was one.
#[derive(Debug, Clone, Copy, Default)]
pub(crate) struct ResetClasses(pub(crate) Option<Classes>);

impl ResetClasses {
    fn of(&self, class: SizeClass) -> ClassStatistics {
        self.0
            .map_or_else(Default::default, |all| all[class.index()])
    }
}

/// Writes `stats items`: the classes that have items, or from which items were evicted or removed.
/// `oldest_s` is the age of the oldest segment in seconds.
pub(crate) fn write_items(
    classes: &Classes,
    reset: &ResetClasses,
    counts: &ClassCounts,
    oldest_s: u32,
    out: &mut dyn StatWriter,
) {
    for (class, now) in SizeClass::all().zip(classes) {
        let before = reset.of(class);
        let evicted = now.evicted - before.evicted;
        let expired = now.expired - before.expired;
        let no_memory = counts.of(class, ClassCounter::StoreNoMemory);
        if now.items + evicted + expired + no_memory == 0 {
            continue;
        }
        let age = if now.items == 0 { 0 } else { oldest_s };
        let unfetched = now.evicted_unfetched - before.evicted_unfetched;
        let hits = counts.of(class, ClassCounter::GetHits);
        let rows: [(&str, u64); 29] = [
            ("number", now.items),
            ("number_hot", 0),
            ("number_warm", 0),
            ("number_cold", now.items),
            ("age_hot", 0),
            ("age_warm", 0),
            ("age", age.into()),
            ("mem_requested", now.bytes),
            ("evicted", evicted),
            (
                "evicted_nonzero",
                now.evicted_expiring - before.evicted_expiring,
            ),
            ("evicted_time", now.evicted_idle_s),
            ("outofmemory", no_memory),
            ("tailrepairs", 0),
            ("reclaimed", expired),
            (
                "expired_unfetched",
                now.expired_unfetched - before.expired_unfetched,
            ),
            ("evicted_unfetched", unfetched),
            ("evicted_active", 0),
            ("crawler_reclaimed", 0),
            ("crawler_items_checked", 0),
            ("lrutail_reflocked", 0),
            ("moves_to_cold", 0),
            ("moves_to_warm", 0),
            ("moves_within_lru", 0),
            ("direct_reclaims", 0),
            ("hits_to_hot", 0),
            ("hits_to_warm", 0),
            ("hits_to_cold", hits),
            ("hits_to_temp", 0),
            // memcached has this one with `-o temporary_ttl` only.
            ("number_temp", 0),
        ];
        for (name, value) in rows {
            out.number(format!("items:{}:{name}", class.number()).as_bytes(), value);
        }
    }
}

/// Writes `stats slabs`: the classes that have items.
pub(crate) fn write_slabs(classes: &Classes, counts: &ClassCounts, out: &mut dyn StatWriter) {
    let (mut active, mut pages_sum) = (0, 0);
    for (class, now) in SizeClass::all().zip(classes) {
        if now.items == 0 {
            continue;
        }
        let chunk_len = u64::from(class.item_len_max());
        let per_page = PAGE_LEN / chunk_len;
        // An item that is longer than the last class takes several chunks.
        let chunks = now.items.max(now.bytes.div_ceil(chunk_len));
        let pages = chunks.div_ceil(per_page);
        active += 1;
        pages_sum += pages;
        let of = |counter| counts.of(class, counter);
        let rows: [(&str, u64); 15] = [
            ("chunk_size", chunk_len),
            ("chunks_per_page", per_page),
            ("total_pages", pages),
            ("total_chunks", pages * per_page),
            ("used_chunks", chunks),
            ("free_chunks", pages * per_page - chunks),
            ("free_chunks_end", 0),
            ("get_hits", of(ClassCounter::GetHits)),
            ("cmd_set", of(ClassCounter::CmdSet)),
            ("delete_hits", of(ClassCounter::DeleteHits)),
            ("incr_hits", of(ClassCounter::IncrHits)),
            ("decr_hits", of(ClassCounter::DecrHits)),
            ("cas_hits", of(ClassCounter::CasHits)),
            ("cas_badval", of(ClassCounter::CasBadval)),
            ("touch_hits", of(ClassCounter::TouchHits)),
        ];
        for (name, value) in rows {
            out.number(format!("{}:{name}", class.number()).as_bytes(), value);
        }
    }
    out.number(b"active_slabs", active);
    out.number(b"total_malloced", pages_sum * PAGE_LEN);
}
