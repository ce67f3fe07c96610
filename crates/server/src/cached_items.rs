//! The items of the cache for requests by HTTP.

use std::mem;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;

use ::tier::{Readers, Record, Reply, Request};
use files::documents::{Changed, Condition, FetchReply, Fetched, FoundItem, Items};
use session::{Clock, Now};
use store::{Deleted, Expiry, Mode, Published, Read, Rejected, Store, Write};

/// The access of a worker of the documents to the items of the cache.
pub(crate) struct CachedItems {
    store: Arc<Store>,
    worker: store::Worker,
    /// The threads that read from the tier.
    readers: Option<Arc<Readers>>,
    clock: Clock,
    now: Now,
}

/// The connection that waits for an item of the tier.
#[derive(Debug)]
struct TierReply(Box<dyn FetchReply>);

impl Reply for TierReply {
    fn is_cancelled(&self) -> bool {
        self.0.is_cancelled()
    }

    fn complete(self: Box<Self>, record: Option<Record>) {
        let fetched = record.map(|record| -> Fetched { Box::new(record) });
        self.0.complete(fetched);
    }
}

impl CachedItems {
    pub(crate) fn new(store: &Arc<Store>, readers: Option<&Arc<Readers>>, clock: Clock) -> Self {
        Self {
            store: Arc::clone(store),
            worker: store.worker(),
            readers: readers.cloned(),
            now: clock.at(0),
            clock,
        }
    }

    /// Whether a key has an item, in memory or in the tier.
    fn is_present(&mut self, key: &[u8]) -> bool {
        let (hash, now_s) = (self.worker.hash(key), self.now.elapsed_s);
        let options = Read {
            untracked: true,
            ..Read::default()
        };
        let read = self.worker.read(key, hash, now_s, options, |_| Some(()));
        read.is_ok_and(|found| found.is_some()) || self.worker.find_in_tier(hash, now_s).is_some()
    }
}

impl Items for CachedItems {
    fn begin_burst(&mut self, now_ns: u64) {
        self.now = self.clock.at(now_ns);
    }

    fn end_burst(&mut self) {
        self.worker.quiescent();
    }

    fn online(&mut self) {
        self.worker.online();
    }

    fn offline(&mut self) {
        self.worker.offline();
    }

    fn maintain(&mut self, now_ns: u64, items: usize) -> bool {
        let now = self.clock.at(now_ns);
        self.worker.maintain(now.elapsed_s, items)
    }

    fn needs_maintenance_thread(&self) -> bool {
        self.store.needs_page_maintenance()
    }

    fn reset(&mut self) {
        let worker = mem::replace(&mut self.worker, self.store.worker());
        // A panic may have left the old handle inconsistent, so that dropping it panics again.
        let _ = catch_unwind(AssertUnwindSafe(|| drop(worker)));
    }

    fn must_fetch(&mut self, key: &[u8]) -> bool {
        let (hash, now_s) = (self.worker.hash(key), self.now.elapsed_s);
        self.readers.is_some()
            && !self.worker.is_in_memory(key, hash)
            && self.worker.find_in_tier(hash, now_s).is_some()
    }

    fn fetch(&mut self, key: &[u8], reply: Box<dyn FetchReply>) {
        let (hash, now_s) = (self.worker.hash(key), self.now.elapsed_s);
        match (&self.readers, self.worker.find_in_tier(hash, now_s)) {
            (Some(readers), Some(address)) => readers.read(Request {
                hash: self.worker.raw_hash(hash),
                address,
                key: key.into(),
                reply: Box::new(TierReply(reply)),
            }),
            _ => reply.complete(None),
        }
    }

    fn restore(&mut self, fetched: Fetched) -> bool {
        let (Some(readers), Ok(record)) = (&self.readers, fetched.downcast::<Record>()) else {
            return true;
        };
        let (item, hash) = (record.item(), self.worker.hash(record.key()));
        let (value, now_s) = (record.value(), self.now.elapsed_s);
        let restored = self
            .worker
            .restore(&item, hash, value, record.address(), now_s);
        match restored {
            Ok(false) => {}
            Ok(true) => readers.tier().count_restored(true),
            Err(_) => readers.tier().count_restored(false),
        }
        restored.is_ok()
    }

    fn read(&mut self, key: &[u8], value: &mut Vec<u8>) -> Option<FoundItem> {
        let (hash, now_s) = (self.worker.hash(key), self.now.elapsed_s);
        let read = self.worker.read(key, hash, now_s, Read::default(), |item| {
            item.value()
                .for_each(|slice| value.extend_from_slice(slice));
            Some(FoundItem {
                cas: item.cas,
                left_s: item.expiry.seconds_left(now_s),
            })
        });
        read.ok().flatten()
    }

    fn write(
        &mut self,
        key: &[u8],
        value: &[u8],
        condition: Condition,
        ttl_s: Option<u32>,
    ) -> Changed {
        let (hash, now_s) = (self.worker.hash(key), self.now.elapsed_s);
        let expiry = ttl_s.map_or(Expiry::NEVER, |ttl_s| {
            Expiry::at(now_s.saturating_add(ttl_s))
        });
        let (mode, compare) = match condition {
            Condition::None => (Mode::Set, None),
            Condition::Absent => (Mode::Add, None),
            Condition::Present => (Mode::Replace, None),
            Condition::Cas(cas) => (Mode::Set, Some(cas)),
        };
        let write = Write {
            compare,
            ..Write::plain(mode, expiry)
        };
        match self.worker.put(key, hash, value, &write, now_s) {
            Ok(Published::Stored { cas, .. }) => Changed::Done(Some(cas)),
            Ok(Published::NotStored | Published::Exists | Published::NotFound) => {
                Changed::ConditionFailed
            }
            Ok(Published::NoSpace) | Err(Rejected::TooLarge) => Changed::TooLarge,
            Err(Rejected::NoMemory | Rejected::HoldLimit | Rejected::Deferred) => Changed::Busy,
        }
    }

    fn delete(&mut self, key: &[u8], condition: Condition) -> Changed {
        // `If-None-Match: *` allows to delete what does not exist.
        if condition == Condition::Absent {
            return match self.is_present(key) {
                true => Changed::ConditionFailed,
                false => Changed::NotFound,
            };
        }
        let compare = match condition {
            Condition::Cas(cas) => Some(cas),
            _ => None,
        };
        let (hash, now_s) = (self.worker.hash(key), self.now.elapsed_s);
        match self.worker.delete(key, hash, compare, now_s) {
            Deleted::Deleted(_) => Changed::Done(None),
            Deleted::Exists => Changed::ConditionFailed,
            Deleted::NotFound if condition != Condition::None => Changed::ConditionFailed,
            Deleted::NotFound => Changed::NotFound,
        }
    }
}
