//! The cache with a store, in the form that a runtime can run: a [`Service`]. All workers share one
//! store.

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
    /// Which bursts workers measure for `stats latency` ([`CounterRegistry::latencies`]). The cost
    /// of a measured burst is one more reading of the clock, and at the end of the burst one load
    /// of each of the 11 counters of requests. If bursts are sampled, these counters are also
    /// loaded at the beginning of a measured burst.
    pub latency: LatencyRecording,
    /// The threads that read from the tier. `None`: there is no tier.
    pub tier: Option<Arc<Readers>>,
    /// The protocols that connections may use, and whether they need a password.
    pub access: Access,
}

/// The state that the cache keeps for one worker of a runtime.
pub struct CacheWorker {
    service: CacheService,
    /// The worker's handle to the shared store.
    store: store::Worker,
    counters: Arc<Counters>,
    /// The time of the present burst.
    now: Now,
    latency: LatencyRecorder,
    /// One hash for each connection that has received input but has not had its turn (`prepare` and
    /// `answer`) yet: that of the first key in the input. The index buckets of these keys have been
    /// prefetched. Their items have not.
    early_hashes: Vec<KeyHash>,
}

/// A pin of a value in the store's memory, which is sent from there without a copy. Until the pin
/// is dropped, the store does not reuse that memory.
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
        // The list of open connections (`stats conns`) needs the clock before the first connection
        // is opened. The call for the first worker sets the clock. Later calls do nothing.
        self.counters.connections().set_clock(&self.clock);
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
        // The session appears in the list of open connections (`stats conns`).
        Session::new(self.service.access).listed_in(self.service.counters.connections())
    }

    fn open_datagram(&self) -> Session {
        Session::new(self.service.access).of_datagram()
    }

    // While a worker is *online*, it may hold references to items. The store does not reuse memory
    // that such a worker may still read.
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
        // With a tier, the tickets are part of the access to the tier. Without one, sessions still
        // need tickets, for example to wait for log lines.
        match self.service.tier.as_deref() {
            Some(readers) => context.tier = Some(TierAccess::new(readers, tickets)),
            None => context.tickets = Some(tickets),
        }
        session.answer(requests, input, &mut context, out)
    }

    // The number of the ticket is not used: a session does not distinguish its reads of the tier.
    fn complete(&mut self, session: &mut Session, _: u32, result: Result<TierRead, Abandoned>) {
        session.complete_read(result);
    }

    #[inline]
    fn needs_elapsed_time(&self) -> bool {
        self.latency.is_recorded()
    }

    #[inline]
    fn end_burst(&mut self, elapsed_ns: Option<u64>) {
        // The worker holds no references to items from here on, so the store may reuse the memory
        // of items that have been removed.
        self.store.quiescent();
        if self.store.has_evicted() {
            self.log_evicted();
        }
        if let Some(elapsed_ns) = elapsed_ns {
            self.latency.record(&self.counters, elapsed_ns);
        }
    }

    // `items` is the maximum number of items that this step of maintenance visits.
    fn maintain(&mut self, now_ns: u64, items: usize) -> bool {
        let now = self.service.clock.at(now_ns);
        let has_more = self.store.maintain(now.elapsed_s, items);
        if self.store.has_evicted() {
            self.log_evicted();
        }
        has_more
    }

    // Page maintenance returns memory to the kernel, or gets memory from it. These system calls
    // would delay a worker.
    fn needs_maintenance_thread(&self) -> bool {
        self.service.store.needs_page_maintenance()
    }

    // Early means before the turn of the connection that has received `input` ([`Session::prepare`]
    // prefetches within the turn).
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

    /// Replaces the worker's handle to the store after a panic. The panic may have left the old
    /// handle online. If the handle stayed online and were no longer used, the store could never
    /// reuse memory again.
    fn reset(&mut self) {
        let store = mem::replace(&mut self.store, self.service.store.worker());
        self.early_hashes.clear();
        // The panic may also have left the old handle inconsistent. Dropping it may then panic too.
        let _ = catch_unwind(AssertUnwindSafe(|| drop(store)));
    }
}

impl CacheWorker {
    /// Writes a log line for each evicted item that the store has recorded for this worker, for
    /// `watch evictions`.
    #[cold]
    fn log_evicted(&mut self) {
        let counters = &self.counters;
        // The store bounds the number of recorded items. `unrecorded` counts the evicted items
        // above this bound.
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
                // As in memcached, -1 stands for an item that never expires.
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
