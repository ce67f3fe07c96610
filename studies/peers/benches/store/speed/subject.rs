//! The caches that are compared, behind one interface.

use std::sync::Arc;
use std::time::Duration;

use peers::ours;
use store::{Config, Expiry, KeyHash, Read, Store, Worker};

/// A cache as one thread has it.
pub(crate) trait Subject: Send {
    /// Copies a value behind `out`; false: it is not there.
    fn get(&mut self, key: &[u8], out: &mut Vec<u8>) -> bool;

    /// Stores a value.
    fn set(&mut self, key: &[u8], value: &[u8]);

    /// The thread does something else for a while.
    fn rest(&mut self) {}

    /// As many requests at once; how many gets found their value.
    fn answer_all(&mut self, asked: &[Asked<'_>], out: &mut Vec<u8>) -> usize {
        let mut hits = 0;
        for asked in asked {
            match asked.value {
                Some(value) => self.set(asked.key, value),
                None => hits += usize::from(self.get(asked.key, out)),
            }
        }
        hits
    }
}

/// A request of a burst.
#[derive(Clone, Copy)]
pub(crate) struct Asked<'a> {
    pub(crate) key: &'a [u8],
    /// To be set; none: it is a get.
    pub(crate) value: Option<&'a [u8]>,
}

/// What to make and what it is called.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) enum Kind {
    Curtail,
    /// Asks for huge pages, as one that is given 256 MiB or more does by itself.
    CurtailHuge,
    /// Every read gives the item a new expiry.
    CurtailGat,
    /// A store for each thread.
    CurtailApart,
    QuickCache,
    Foyer,
    Moka,
    Segcache,
    DashMap,
    Papaya,
}

impl Kind {
    pub(crate) const ALL: [Self; 10] = [
        Self::Curtail,
        Self::CurtailHuge,
        Self::CurtailGat,
        Self::CurtailApart,
        Self::QuickCache,
        Self::Foyer,
        Self::Moka,
        Self::Segcache,
        Self::DashMap,
        Self::Papaya,
    ];

    pub(crate) fn name(self) -> &'static str {
        match self {
            Self::Curtail => "curtail",
            Self::CurtailHuge => "curtail, -L",
            Self::CurtailGat => "curtail, all gat",
            Self::CurtailApart => "curtail, one each",
            Self::QuickCache => "quick_cache",
            Self::Foyer => "foyer",
            Self::Moka => "moka",
            Self::Segcache => "segcache",
            Self::DashMap => "dashmap (unbounded)",
            Self::Papaya => "papaya (unbounded)",
        }
    }

    /// It evicts.
    pub(crate) fn is_bounded(self) -> bool {
        !matches!(self, Self::DashMap | Self::Papaya)
    }

    /// Another's, and it evicts.
    pub(crate) fn is_bounded_library(self) -> bool {
        matches!(
            self,
            Self::QuickCache | Self::Foyer | Self::Moka | Self::Segcache
        )
    }

    /// Every thread has its own.
    pub(crate) fn is_apart(self) -> bool {
        self == Self::CurtailApart
    }

    /// A cache for `items` of `item_bytes`, as `threads` threads have it. Where all that is asked
    /// for fits, there is slack besides.
    pub(crate) fn make(
        self,
        items: u64,
        item_bytes: u64,
        threads: usize,
        fits: bool,
    ) -> Vec<Box<dyn Subject>> {
        let memory_bytes = items * (item_bytes + if fits { ROOM_AN_ITEM } else { COST_AN_ITEM });
        let memory_bytes = memory_bytes.max(MEMORY_MIN);
        match self {
            Self::Curtail => curtail(memory_bytes, threads, false, false),
            Self::CurtailHuge => curtail(memory_bytes, threads, true, false),
            Self::CurtailGat => curtail(memory_bytes, threads, false, true),
            Self::CurtailApart => (0..threads)
                .flat_map(|_| curtail(memory_bytes, 1, false, false))
                .collect(),
            Self::QuickCache => {
                let cache = quick_cache::sync::Cache::new(items as usize);
                shared(&Arc::new(cache), threads, QuickCache)
            }
            Self::Foyer => {
                // Of its policies the one whose reads share a shard's lock, and with most hits.
                let cache = foyer_memory::CacheBuilder::new(items as usize)
                    .with_eviction_config(foyer_memory::S3FifoConfig::default())
                    .build();
                shared(&Arc::new(cache), threads, Foyer)
            }
            Self::Moka => {
                let cache = moka::sync::Cache::new(items);
                shared(&Arc::new(cache), threads, Moka)
            }
            Self::Segcache => segcache(items, memory_bytes, threads),
            Self::DashMap => shared(&Arc::default(), threads, DashMap),
            Self::Papaya => shared(&Arc::default(), threads, Papaya),
        }
    }
}

fn shared<C, S: Subject + 'static>(
    cache: &Arc<C>,
    threads: usize,
    subject: fn(Arc<C>) -> S,
) -> Vec<Box<dyn Subject>> {
    (0..threads)
        .map(|_| -> Box<dyn Subject> { Box::new(subject(Arc::clone(cache))) })
        .collect()
}

/// What an item costs a store of ours besides its own bytes, so that it holds as many as the
/// others. A store whose bound is bytes too is given as many.
const COST_AN_ITEM: u64 = 26;
/// What it is given where all items fit: about as much as the others take for an item, and slack
/// for what has been overwritten, which others give to their allocator.
const ROOM_AN_ITEM: u64 = 128;
/// The least that a store is given.
const MEMORY_MIN: u64 = 8 << 20;

fn curtail(
    memory_bytes: u64,
    threads: usize,
    huge_pages: bool,
    touches: bool,
) -> Vec<Box<dyn Subject>> {
    let how = Read {
        touch: touches.then_some(Expiry::at(NOW_S + 3600)),
        ..Read::default()
    };
    let config = Config {
        memory_bytes,
        hash_seed: 7,
        workers: threads,
        huge_pages,
        ..Config::DEFAULT
    };
    let Ok(store) = Store::new(config) else {
        return Vec::new();
    };
    (0..threads)
        .map(|_| -> Box<dyn Subject> {
            Box::new(Curtail {
                worker: store.worker(),
                how,
                hashes: Vec::with_capacity(64),
            })
        })
        .collect()
}

struct Curtail {
    worker: Worker,
    how: Read,
    hashes: Vec<KeyHash>,
}

const NOW_S: u32 = 1;

impl Curtail {
    fn read(&mut self, key: &[u8], hash: KeyHash, out: &mut Vec<u8>) -> bool {
        let copied = self.worker.read(key, hash, NOW_S, self.how, |item| {
            item.value().for_each(|piece| out.extend_from_slice(piece));
            Some(())
        });
        copied.is_ok()
    }
}

impl Subject for Curtail {
    fn get(&mut self, key: &[u8], out: &mut Vec<u8>) -> bool {
        let hash = self.worker.hash(key);
        let hit = self.read(key, hash, out);
        self.worker.quiescent();
        hit
    }

    fn set(&mut self, key: &[u8], value: &[u8]) {
        ours::set(&mut self.worker, key, value, Expiry::NEVER, NOW_S);
        self.worker.quiescent();
    }

    fn rest(&mut self) {
        self.worker.offline();
    }

    fn answer_all(&mut self, asked: &[Asked<'_>], out: &mut Vec<u8>) -> usize {
        self.hashes.clear();
        for asked in asked {
            let hash = self.worker.hash(asked.key);
            self.worker.prefetch(hash);
            self.hashes.push(hash);
        }
        for hash in &mut self.hashes {
            self.worker.prefetch_item(hash);
        }
        let mut hits = 0;
        for (at, asked) in asked.iter().enumerate() {
            let hash = self.hashes[at];
            match asked.value {
                Some(value) => {
                    ours::set_hashed(
                        &mut self.worker,
                        asked.key,
                        hash,
                        value,
                        Expiry::NEVER,
                        NOW_S,
                    );
                }
                None => hits += usize::from(self.read(asked.key, hash, out)),
            }
        }
        self.worker.quiescent();
        hits
    }
}

type Key = Box<[u8]>;
type Value = Arc<[u8]>;

struct QuickCache(Arc<quick_cache::sync::Cache<Key, Value>>);

impl Subject for QuickCache {
    fn get(&mut self, key: &[u8], out: &mut Vec<u8>) -> bool {
        let value = self.0.get(key);
        value
            .inspect(|value| out.extend_from_slice(value))
            .is_some()
    }

    fn set(&mut self, key: &[u8], value: &[u8]) {
        self.0.insert(key.into(), value.into());
    }
}

struct Foyer(Arc<foyer_memory::Cache<Key, Box<[u8]>>>);

impl Subject for Foyer {
    fn get(&mut self, key: &[u8], out: &mut Vec<u8>) -> bool {
        let value = self.0.get(key);
        value
            .inspect(|value| out.extend_from_slice(value))
            .is_some()
    }

    fn set(&mut self, key: &[u8], value: &[u8]) {
        self.0.insert(key.into(), value.into());
    }
}

struct Moka(Arc<moka::sync::Cache<Key, Value>>);

impl Subject for Moka {
    fn get(&mut self, key: &[u8], out: &mut Vec<u8>) -> bool {
        let value = self.0.get(key);
        value
            .inspect(|value| out.extend_from_slice(value))
            .is_some()
    }

    fn set(&mut self, key: &[u8], value: &[u8]) {
        self.0.insert(key.into(), value.into());
    }
}

/// Bytes of a segment: a quarter of what it takes by itself, since a small memory of few segments
/// has fewer hits.
const SEGMENT_BYTES: u64 = 256 << 10;

/// Its table and its segments together take `memory_bytes`. It merges segments to evict, four of at
/// most eight, as the paper does (Yang, Yue and Rashmi, NSDI 2021).
fn segcache(items: u64, memory_bytes: u64, threads: usize) -> Vec<Box<dyn Subject>> {
    // Of eight bytes each, and twice as many as items: a full bucket refuses an item.
    let slots = (2 * items).next_power_of_two();
    let segments = memory_bytes.saturating_sub(8 * slots) / SEGMENT_BYTES;
    let built = segcache::Segcache::builder()
        .hash_power(slots.trailing_zeros() as u8)
        .heap_size((segments * SEGMENT_BYTES) as usize)
        .segment_size(SEGMENT_BYTES as i32)
        .eviction(segcache::Policy::Merge {
            max: 8,
            merge: 4,
            compact: 2,
        })
        .build();
    built.map_or_else(
        |_| Vec::new(),
        |cache| shared(&Arc::new(cache), threads, Segcache),
    )
}

struct Segcache(Arc<segcache::Segcache>);

impl Subject for Segcache {
    fn get(&mut self, key: &[u8], out: &mut Vec<u8>) -> bool {
        let Some(item) = self.0.get(key) else {
            return false;
        };
        let segcache::Value::Bytes(value) = item.value() else {
            return false;
        };
        out.extend_from_slice(value);
        true
    }

    fn set(&mut self, key: &[u8], value: &[u8]) {
        // What it refuses, one in thousands where two threads overwrite, counts as done.
        let _ = self.0.insert(key, value, None, Duration::ZERO);
    }
}

struct DashMap(Arc<dashmap::DashMap<Key, Box<[u8]>>>);

impl Subject for DashMap {
    fn get(&mut self, key: &[u8], out: &mut Vec<u8>) -> bool {
        let value = self.0.get(key);
        value
            .inspect(|value| out.extend_from_slice(value))
            .is_some()
    }

    fn set(&mut self, key: &[u8], value: &[u8]) {
        self.0.insert(key.into(), value.into());
    }
}

struct Papaya(Arc<papaya::HashMap<Key, Box<[u8]>>>);

impl Subject for Papaya {
    fn get(&mut self, key: &[u8], out: &mut Vec<u8>) -> bool {
        let map = self.0.pin();
        let value = map.get(key);
        value
            .inspect(|value| out.extend_from_slice(value))
            .is_some()
    }

    fn set(&mut self, key: &[u8], value: &[u8]) {
        self.0.pin().insert(key.into(), value.into());
    }
}
