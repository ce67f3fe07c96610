//! The caches that are compared, behind one interface.

use std::sync::Arc;

use store::{Config, Expiry, KeyHash, Read, Store, Worker};

/// A cache as one thread has it.
pub(crate) trait Subject: Send {
    /// Copies a value behind `out`; false: it is not there.
    fn get(&mut self, key: &[u8], out: &mut Vec<u8>) -> bool;

    /// Stores a value.
    fn set(&mut self, key: &[u8], value: &[u8]);

    /// The thread does something else for a while.
    fn rest(&mut self) {}

    /// As many gets at once; how many were there.
    fn get_all(&mut self, keys: &[&[u8]], out: &mut Vec<u8>) -> usize {
        keys.iter().filter(|key| self.get(key, out)).count()
    }
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
    Moka,
    DashMap,
    Papaya,
}

impl Kind {
    pub(crate) const ALL: [Self; 8] = [
        Self::Curtail,
        Self::CurtailHuge,
        Self::CurtailGat,
        Self::CurtailApart,
        Self::QuickCache,
        Self::Moka,
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
            Self::Moka => "moka",
            Self::DashMap => "dashmap (unbounded)",
            Self::Papaya => "papaya (unbounded)",
        }
    }

    /// It evicts.
    pub(crate) fn is_bounded(self) -> bool {
        !matches!(self, Self::DashMap | Self::Papaya)
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
            Self::Moka => {
                let cache = moka::sync::Cache::new(items);
                shared(&Arc::new(cache), threads, Moka)
            }
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
/// others.
const COST_AN_ITEM: u64 = 30;
/// What it is given where all items fit: about as much as the others take for an item, and slack
/// for what has been overwritten, which others give to their allocator.
const ROOM_AN_ITEM: u64 = 128;

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
        memory_bytes: memory_bytes.max(8 << 20),
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
    fn read(&self, key: &[u8], hash: KeyHash, out: &mut Vec<u8>) -> bool {
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
        rivals::ours::set(&self.worker, key, value, Expiry::NEVER, NOW_S);
        self.worker.quiescent();
    }

    fn rest(&mut self) {
        self.worker.offline();
    }

    fn get_all(&mut self, keys: &[&[u8]], out: &mut Vec<u8>) -> usize {
        self.hashes.clear();
        for key in keys {
            let hash = self.worker.hash(key);
            self.worker.prefetch(hash);
            self.hashes.push(hash);
        }
        for &hash in &self.hashes {
            self.worker.prefetch_item(hash);
        }
        let hits = keys
            .iter()
            .zip(&self.hashes)
            .filter(|&(key, &hash)| self.read(key, hash, out))
            .count();
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
