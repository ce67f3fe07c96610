//! The tier of a [`SessionPeer`](super::SessionPeer): a device in memory, and threads that read it.

use std::sync::Arc;
use std::task::{Wake, Waker};
use std::thread::{self, Thread};

use anyhow::{Context, Result, ensure};
use service::{Completed, ConnectionId, Mailbox, OpenTickets, Tickets};
use session::{TierAccess, TierRead};
use store::SharedTier;
use tier::testing::MemoryDevice;
use tier::{Device, Readers, Rules, Statistics, Tier};

/// Size of a segment in bytes: the longest value of a transcript, and more. So every item is taken.
const SEGMENT: u64 = 4 << 20;
/// Number of segments.
const SEGMENTS: u64 = 16;

/// A tier, and the results of its reads.
#[derive(Debug)]
pub(super) struct Tiered {
    tier: Arc<Tier>,
    readers: Readers,
    mailbox: Option<Arc<Mailbox<TierRead>>>,
    waker: Waker,
}

/// Wakes the thread of the test.
struct TestThread(Thread);

impl Wake for TestThread {
    fn wake(self: Arc<Self>) {
        self.0.unpark();
    }
}

impl Tiered {
    /// An empty tier.
    pub(super) fn new() -> Result<Self> {
        let rules = Rules {
            segment_bytes: Some(SEGMENT),
            ..Rules::default()
        };
        let bytes = SEGMENT * SEGMENTS;
        let device: Box<dyn Device> = Box::new(MemoryDevice::new(usize::try_from(bytes)?));
        let tier = Arc::new(Tier::new(rules, 1, vec![(device, bytes)])?);
        Ok(Self {
            readers: Readers::start(&tier, 1)?,
            tier,
            mailbox: None,
            waker: Waker::from(Arc::new(TestThread(thread::current()))),
        })
    }

    /// The tier, for the store.
    pub(super) fn shared(&self) -> SharedTier {
        Arc::<Tier>::clone(&self.tier)
    }

    /// The access of a session in one turn.
    pub(super) fn access<'a>(&'a mut self, open: &'a mut OpenTickets) -> TierAccess<'a> {
        let tickets = Tickets {
            mailbox: &mut self.mailbox,
            waker: &self.waker,
            connection: ConnectionId {
                slot: 0,
                generation: 0,
            },
            open,
        };
        TierAccess::new(&self.readers, tickets)
    }

    /// Waits for the result of a ticket.
    pub(super) fn wait(&self) -> Result<Completed<TierRead>> {
        let mailbox = self.mailbox.as_ref();
        let mailbox = mailbox.context("the session waits for a ticket that was not issued")?;
        loop {
            if let Some(completed) = mailbox.take() {
                return Ok(completed);
            }
            thread::park();
        }
    }

    /// The number of reads so far.
    ///
    /// # Errors
    /// The tier has dropped an item, or has not found one that it should have.
    pub(super) fn reads(&self) -> Result<u64> {
        let statistics = self.tier.statistics();
        let Statistics {
            dropped_too_large,
            dropped_write_behind,
            objects_displaced,
            objects_evicted,
            reads_damaged,
            reads_missed,
            reads_refused,
            ..
        } = statistics;
        let lost = dropped_too_large
            + dropped_write_behind
            + objects_displaced
            + objects_evicted
            + reads_damaged
            + reads_missed
            + reads_refused;
        ensure!(lost == 0, "the tier has lost items: {statistics:?}");
        Ok(statistics.objects_read)
    }
}
