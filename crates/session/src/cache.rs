//! The cache as a [`Service`], which a runtime runs. All workers share one store.

use std::fmt::Write as _;
use std::mem;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;

use protocol::Streams;
use protocol::reply::TOO_MANY_CONNECTIONS;
use service::{Abandoned, Progress, Service, Tickets};
use store::{EvictedItem, KeyHash, Store};
use tier::Readers;

use crate::control::ServerControl;
use crate::counters::Counters;
use crate::event_log::push_key;
use crate::latency::{LatencyRecorder, LatencyRecording};
use crate::limits::EARLY_HASHES_MAX;
use crate::now::{Clock, Now};
use crate::prepare::{Prepared, prefetch_first_bucket, prefetch_items};
use crate::protocols::Access;
use crate::registry::CounterRegistry;
use crate::session::{Output, RequestContext, Session};
use crate::tier_reads::{TierAccess, TierRead};

/// The cache as a [`Service`]. Clones share the store and the counters.
#[derive(Clone)]
pub struct CacheService {
    /// The store of the items.
    pub store: Arc<Store>,
    /// Process-wide statistics and settings.
    pub control: Arc<dyn ServerControl + Send + Sync>,
    /// The counters of all workers.
    pub counters: Arc<CounterRegistry>,
    /// The server's clock.
    pub clock: Clock,
    /// The bursts for which workers record how long requests are in the server
    /// ([`CounterRegistry::latencies`]). A burst is the set of connections that a worker answers
    /// after one wake-up. Recording costs a second reading of the clock and a dozen loads per
    /// burst.
    pub latency: LatencyRecording,
    /// The threads that read from the tier below the store, if it has one.
    pub tier: Option<Arc<Readers>>,
    /// The protocols that connections may use, and whether they need a password.
    pub access: Access,
}

/// The state that the cache keeps for one worker of a runtime.
pub struct CacheWorker {
    service: CacheService,
    store: store::Worker,
    counters: Arc<Counters>,
    now: Now,
    latency: LatencyRecorder,
    /// Hashes of the first keys of connections that have received input and wait for their turn.
    /// The index buckets of these keys have been prefetched, their items not yet.
    early_hashes: Vec<KeyHash>,
}

/// A value that is sent from the store's memory without a copy. The pin keeps the memory in use.
#[derive(Debug)]
pub struct ValuePin(pub store::Pin);

impl service::Pin for ValuePin {
    fn len(&self) -> usize {
        self.0.value_len()
    }

    fn slices(&self) -> impl Iterator<Item = &[u8]> {
        self.0.value()
    }
}

impl Service for CacheService {
    type Worker = CacheWorker;

    fn worker(&self) -> CacheWorker {
        CacheWorker {
            service: self.clone(),
            store: self.store.worker(),
            counters: self.counters.register(),
            now: self.clock.at(0),
            latency: LatencyRecorder::new(self.latency),
            early_hashes: Vec::with_capacity(EARLY_HASHES_MAX),
        }
    }

    fn rejection(&self) -> &'static [u8] {
        TOO_MANY_CONNECTIONS
    }

    fn maintenance_waker(&self) -> Box<dyn Fn() + Send + Sync> {
        let control = Arc::clone(&self.control);
        Box::new(move || control.wake_maintenance())
    }
}

impl service::Worker for CacheWorker {
    type Session = Session;
    type Request<'i> = Prepared<'i>;
    type Pin = ValuePin;
    type Completion = TierRead;

    fn open(&self) -> Session {
        Session::new(self.service.access).listed_in(self.service.counters.connections())
    }

    fn open_datagram(&self) -> Session {
        Session::new(self.service.access).of_datagram()
    }

    fn online(&mut self) {
        self.store.online();
    }

    fn offline(&mut self) {
        self.store.offline();
    }

    #[inline]
    fn begin_burst(&mut self, now_ns: u64) {
        self.now = self.service.clock.at(now_ns);
        self.latency.begin(&self.counters);
    }

    #[inline]
    fn prepare<'i>(
        &self,
        session: &mut Session,
        input: &'i [u8],
        max: usize,
        requests: &mut Vec<Prepared<'i>>,
    ) -> usize {
        session.prepare(input, max, &self.store, requests)
    }

    #[inline]
    fn prefetch(&self, requests: &mut [Prepared<'_>]) {
        prefetch_items(requests, &self.store);
    }

    #[inline]
    fn answer(
        &mut self,
        session: &mut Session,
        requests: &[Prepared<'_>],
        input: &[u8],
        tickets: Tickets<'_, TierRead>,
        out: &mut Output,
    ) -> Progress {
        let control = &*self.service.control;
        let mut context = RequestContext::new(self.now, &mut self.store, &self.counters, control);
        match self.service.tier.as_deref() {
            Some(readers) => context.tier = Some(TierAccess::new(readers, tickets)),
            None => context.tickets = Some(tickets),
        }
        session.answer(requests, input, &mut context, out)
    }

    fn complete(&mut self, session: &mut Session, _: u32, result: Result<TierRead, Abandoned>) {
        session.complete_read(result);
    }

    #[inline]
    fn needs_elapsed_time(&self) -> bool {
        self.latency.is_recorded()
    }

    #[inline]
    fn end_burst(&mut self, elapsed_ns: Option<u64>) {
        self.store.quiescent();
        if self.store.has_evicted() {
            self.log_evicted();
        }
        if let Some(elapsed_ns) = elapsed_ns {
            self.latency.record(&self.counters, elapsed_ns);
        }
    }

    fn maintain(&mut self, now_ns: u64, items: usize) -> bool {
        let now = self.service.clock.at(now_ns);
        let has_more = self.store.maintain(now.elapsed_s, items);
        if self.store.has_evicted() {
            self.log_evicted();
        }
        has_more
    }

    fn needs_maintenance_thread(&self) -> bool {
        self.service.store.needs_page_maintenance()
    }

    fn begin_early_prefetch(&mut self, input: &[u8]) {
        if self.early_hashes.len() < EARLY_HASHES_MAX {
            self.early_hashes
                .extend(prefetch_first_bucket(input, &self.store));
        }
    }

    fn finish_early_prefetch(&mut self) {
        for mut hash in self.early_hashes.drain(..) {
            self.store.prefetch_item(&mut hash);
        }
    }

    /// Replaces the worker's handle of the store. The old handle may be online, that is, registered
    /// as a reader of the store. If it stayed online after a panic, the store could never reclaim
    /// memory.
    fn reset(&mut self) {
        let store = mem::replace(&mut self.store, self.service.store.worker());
        self.early_hashes.clear();
        // A panic may have left the old handle inconsistent, so that dropping it panics again.
        let _ = catch_unwind(AssertUnwindSafe(|| drop(store)));
    }
}

impl CacheWorker {
    /// Logs the items that this worker has evicted.
    #[cold]
    fn log_evicted(&mut self) {
        let counters = &self.counters;
        let unrecorded = self.store.drain_evicted(|evicted| {
            counters.log().push(Streams::EVICTIONS, |text| {
                let EvictedItem {
                    key,
                    was_fetched,
                    ttl_s,
                    idle_s,
                    size,
                } = evicted;
                text.push_str("type=eviction");
                push_key(text, key);
                let fetch = if *was_fetched { "yes" } else { "no" };
                let ttl_s = ttl_s.map_or(-1, i64::from);
                let (class, len) = (size.class.number(), size.value_len);
                // Writing to a `String` cannot fail.
                let _ = write!(
                    text,
                    " fetch={fetch} ttl={ttl_s} la={idle_s} clsid={class} size={len}"
                );
            });
        });
        counters.log().count_dropped(unrecorded);
    }
}
