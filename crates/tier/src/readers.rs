//! Threads that read copies for workers, and the thread that writes segments.

use std::fmt;
use std::io;
use std::sync::atomic::Ordering;
use std::sync::{Arc, Mutex, PoisonError};
use std::thread::{self, JoinHandle};

use store::TierAddress;
use sys::job_pool::{JobPool, PoolSizes};

use crate::counters::{add, sub};
use crate::limits::{READ_STACK_LEN, READS_BYTES_MAX, READS_WAITING_MAX};
use crate::record::Record;
use crate::tier::Tier;

/// The connection that waits for a read.
pub trait Reply: fmt::Debug + Send {
    /// Whether the connection was closed, so that the read is not needed any more.
    fn is_cancelled(&self) -> bool;

    /// Delivers the record; `None`: there is no item. Without it, dropping the reply must tell the
    /// connection that nothing was read.
    fn complete(self: Box<Self>, record: Option<Record>);
}

/// A read of a copy.
#[derive(Debug)]
pub struct Request {
    /// The hash of the key.
    pub hash: u64,
    /// The address of the copy.
    pub address: TierAddress,
    /// The key.
    pub key: Box<[u8]>,
    /// Takes the outcome.
    pub reply: Box<dyn Reply>,
}

/// The memory of a record, from the request for it until it is dropped.
#[derive(Debug)]
pub(crate) struct Credit {
    tier: Arc<Tier>,
    bytes: u64,
}

impl Credit {
    /// Returns `None` if other records take too much memory.
    fn take(tier: &Arc<Tier>, bytes: u64) -> Option<Self> {
        let others = tier
            .counters
            .reads_bytes
            .fetch_add(bytes, Ordering::Relaxed);
        let credit = Self {
            tier: Arc::clone(tier),
            bytes,
        };
        (others == 0 || others + bytes <= READS_BYTES_MAX).then_some(credit)
    }
}

impl Drop for Credit {
    fn drop(&mut self) {
        sub(&self.tier.counters.reads_bytes, self.bytes);
    }
}

/// The threads of a tier. Dropping this value stops the tier, and ends the threads that read
/// without waiting for them.
#[derive(Debug)]
pub struct Readers {
    tier: Arc<Tier>,
    pool: JobPool<(Request, Credit)>,
    writer: Mutex<Option<JoinHandle<()>>>,
}

impl Readers {
    /// Starts `readers` threads that read, and one that writes.
    ///
    /// # Errors
    /// The limit of threads is reached.
    pub fn start(tier: &Arc<Tier>, readers: usize) -> io::Result<Self> {
        let sizes = PoolSizes {
            threads: readers,
            stack_len: READ_STACK_LEN,
            waiting_max: READS_WAITING_MAX,
        };
        let reader = Arc::clone(tier);
        let pool = JobPool::start(
            "tier-reader",
            sizes,
            || (),
            move |(), (request, credit): (Request, Credit)| {
                if request.reply.is_cancelled() {
                    add(&reader.counters.reads_cancelled, 1);
                    sub(&reader.counters.reads_waiting, 1);
                    return;
                }
                let record = reader.read(request.hash, request.address, &request.key);
                sub(&reader.counters.reads_waiting, 1);
                let record = record.map(|record| record.with_credit(credit));
                request.reply.complete(record);
            },
        )?;
        let writer = Arc::clone(tier);
        let thread = thread::Builder::new().name("tier-writer".to_owned());
        let writer = thread.spawn(move || writer.write_until_stopped())?;
        Ok(Self {
            writer: Mutex::new(Some(writer)),
            tier: Arc::clone(tier),
            pool,
        })
    }

    /// The tier.
    #[must_use]
    pub fn tier(&self) -> &Arc<Tier> {
        &self.tier
    }

    /// Reads a copy on a thread that may wait. If too many reads are waiting, or
    /// their records take too much memory, the reply is dropped.
    pub fn read(&self, request: Request) {
        let len = u64::from(request.address.len);
        add(&self.tier.counters.reads_waiting, 1);
        let submitted = Credit::take(&self.tier, len)
            .is_some_and(|credit| self.pool.submit((request, credit)).is_ok());
        if !submitted {
            sub(&self.tier.counters.reads_waiting, 1);
            add(&self.tier.counters.reads_refused, 1);
        }
    }

    /// Stops the tier, and waits until all its segments are written. Returns false if that failed
    /// before.
    pub fn finish(&self) -> bool {
        self.tier.stop();
        let writer = self
            .writer
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
            .take();
        writer.is_some_and(|writer| writer.join().is_ok())
    }
}

impl Drop for Readers {
    fn drop(&mut self) {
        self.tier.stop();
    }
}
