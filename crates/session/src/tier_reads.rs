//! Reads of items that are only in the tier (the files below the store, which keep evicted items).
//!
//! If the item of a request is only in the tier, the session first reads the item, and then
//! executes the request:
//!
//! 1. [`Session::answer`] begins to execute the request. Its item is only in the tier, so execution
//!    calls `want` and stops.
//! 2. `begin_fetch` issues a [`Ticket`] for each wanted item and passes the ticket with the read to
//!    a reader thread. The result returns through the ticket. Other connections have their turns
//!    while the reader thread waits for the disk.
//! 3. [`Session::complete_read`] takes the result of each read.
//! 4. After the last result, [`Session::answer`] restores the items to memory (`Fetch::finish`),
//!    and executes the request.
//!
//! So a command has the same effect on an item in the tier as on an item in memory. If the item
//! changed during the read, the store does not restore the old item, and the request finds the new
//! item. If the read fails, the item is lost and the request misses.

use service::{Abandoned, Next, Ticket, Tickets};
use store::{KeyHash, Rejected, TierAddress};
use tier::{Readers, Record, Reply, Request};

use crate::limits::{FETCH_TRIES_MAX, FETCHES_MAX};
use crate::session::{RequestContext, Session};

/// The result of a read of the tier. `None`: the item could not be read, or is not in the tier any
/// more.
pub type TierRead = Option<Record>;

/// The ticket that a read of the tier completes.
#[derive(Debug)]
struct TierTicket(Ticket<TierRead>);

impl Reply for TierTicket {
    fn is_cancelled(&self) -> bool {
        self.0.is_cancelled()
    }

    fn complete(self: Box<Self>, record: TierRead) {
        self.0.complete(record);
    }
}

/// The objects with which a session reads items from the tier.
#[derive(Debug)]
pub struct TierAccess<'a> {
    /// The threads that read.
    pub readers: &'a Readers,
    /// Issues tickets for the session's connection.
    pub tickets: Tickets<'a, TierRead>,
    /// The items that the session needs before it can execute the next request.
    wanted: Vec<Wanted>,
    /// The number of times that the request to execute next has already waited for the tier.
    tries: u8,
}

impl<'a> TierAccess<'a> {
    /// The access of a session in one turn.
    #[must_use]
    pub fn new(readers: &'a Readers, tickets: Tickets<'a, TierRead>) -> Self {
        Self {
            readers,
            tickets,
            wanted: Vec::new(),
            tries: 0,
        }
    }
}

/// An item that is only in the tier.
#[derive(Debug)]
struct Wanted {
    key: Box<[u8]>,
    hash: KeyHash,
    address: TierAddress,
}

/// The reads for which a session waits, and their results.
#[derive(Debug)]
pub(crate) struct Fetch {
    /// The number of reads that are in progress.
    waiting: usize,
    /// The records that have been read and are not yet restored to memory.
    read: Vec<Record>,
    /// Whether a read of the tier was refused: no ticket was free, or the readers dropped the
    /// ticket ([`Abandoned`]), for example because too many reads were waiting. The request is then
    /// executed without the item. If the request is a read, it misses. If it is a write that
    /// depends on the item, the store returns [`Rejected::Deferred`], and the session executes the
    /// request again in a later turn.
    is_refused: bool,
    /// The number of times that the request has waited for the tier, this time included.
    tries: u8,
}

impl Fetch {
    /// Stores the result of one read of the tier.
    fn complete(&mut self, result: Result<TierRead, Abandoned>) {
        self.waiting = self.waiting.saturating_sub(1);
        match result {
            // Without a record, the reader has removed the copy from the tier's index, and the
            // request will miss.
            Ok(record) => self.read.extend(record),
            // The readers dropped the ticket of this read.
            Err(Abandoned) => self.is_refused = true,
        }
    }

    /// Restores to memory the items that the reader threads have returned. Returns what the session
    /// has to wait for, or `None` if it may execute its requests.
    #[cold]
    pub(crate) fn finish(&mut self, context: &mut RequestContext<'_>) -> Option<Next> {
        if self.waiting > 0 {
            return Some(Next::Completion);
        }
        let now_s = context.now.elapsed_s;
        let tier = context.tier.as_mut()?;
        while let Some(record) = self.read.last() {
            let hash = context.worker.hash(record.key());
            let (item, address) = (record.item(), record.address());
            let restored = context
                .worker
                .restore(&item, hash, record.value(), address, now_s);
            match restored {
                Err(Rejected::Deferred | Rejected::HoldLimit) => return Some(Next::Memory),
                // The item changed during the read, or was restored for another request.
                Ok(false) => {}
                // Counts the item as restored.
                Ok(true) => tier.readers.tier().count_restored(true),
                // Counts the item as not restored. For example, the memory is full.
                Err(_) => tier.readers.tier().count_restored(false),
            }
            self.read.pop();
        }
        // After a refused read, the request must not wait for the tier again. With the maximum
        // number of tries, `want` returns false, so the request is executed without the item.
        tier.tries = match self.is_refused {
            true => FETCH_TRIES_MAX,
            false => self.tries,
        };
        None
    }
}

impl Session {
    /// Stores the result of one read of the tier.
    pub fn complete_read(&mut self, result: Result<TierRead, Abandoned>) {
        if let Some(fetch) = &mut self.fetch {
            fetch.complete(result);
        }
    }
}

impl RequestContext<'_> {
    /// Whether the request has to wait for the item of `key`, because the item is in the tier. If
    /// so, the item is added to the items to read. Called when the key has no item in memory. A
    /// request waits at most [`FETCH_TRIES_MAX`] times, even if its item is evicted again after
    /// each read.
    #[cold]
    pub(crate) fn want(&mut self, key: &[u8], hash: KeyHash) -> bool {
        let Some(tier) = &mut self.tier else {
            return false;
        };
        if tier.tries >= FETCH_TRIES_MAX {
            return false;
        }
        let Some(address) = self.worker.find_in_tier(hash, self.now.elapsed_s) else {
            return false;
        };
        tier.wanted.push(Wanted {
            key: key.into(),
            hash,
            address,
        });
        true
    }

    /// Whether a request that changes an item has to wait, because the item is only in the tier. If
    /// so, the item is added to the items to read.
    #[inline]
    pub(crate) fn must_fetch(&mut self, key: &[u8], hash: KeyHash) -> bool {
        self.tier.is_some() && self.must_fetch_from_tier(key, hash)
    }

    #[cold]
    fn must_fetch_from_tier(&mut self, key: &[u8], hash: KeyHash) -> bool {
        !self.worker.is_in_memory(key, hash) && self.want(key, hash)
    }

    /// Called for the later keys of a request with several keys that has to wait for an item. If
    /// the item of `key` is only in the tier too, adds it to the items to read.
    #[cold]
    pub(crate) fn want_too(&mut self, key: &[u8], hash: KeyHash) {
        // No item is wanted if the request stopped for another reason than a read of the tier, for
        // example because the output is full. Then the later keys are not read early either.
        if let Some(tier) = &self.tier
            && !tier.wanted.is_empty()
            && tier.wanted.len() < FETCHES_MAX
        {
            self.must_fetch_from_tier(key, hash);
        }
    }

    /// Records that a request, or one key of a request with several keys, was executed. The next
    /// one has not waited for the tier yet.
    #[inline]
    pub(crate) fn note_progress(&mut self) {
        if let Some(tier) = &mut self.tier {
            tier.tries = 0;
        }
    }

    /// Whether there are items to read from the tier.
    #[cold]
    pub(crate) fn wants_items(&self) -> bool {
        self.tier
            .as_ref()
            .is_some_and(|tier| !tier.wanted.is_empty())
    }

    /// Begins the reads of the wanted items. Returns them, and what the session needs next. Returns
    /// `None` if no item is wanted.
    #[cold]
    pub(crate) fn begin_fetch(&mut self) -> Option<(Box<Fetch>, Next)> {
        let tier = self.tier.as_mut()?;
        if tier.wanted.is_empty() {
            return None;
        }
        let mut fetch = Box::new(Fetch {
            waiting: 0,
            read: Vec::new(),
            is_refused: false,
            tries: tier.tries + 1,
        });
        for wanted in tier.wanted.drain(..) {
            // All tickets have the same number, because the session does not distinguish their
            // results: it restores each record that it gets, and the record contains its key.
            let number = 0;
            let Some(ticket) = tier.tickets.issue(number) else {
                fetch.is_refused = true;
                continue;
            };
            fetch.waiting += 1;
            tier.readers.read(Request {
                hash: self.worker.raw_hash(wanted.hash),
                address: wanted.address,
                key: wanted.key,
                reply: Box::new(TierTicket(ticket)),
            });
        }
        let next = match fetch.waiting {
            0 => Next::Yield,
            _ => Next::Completion,
        };
        Some((fetch, next))
    }
}
