//! The end of chains whose keys have no value, whose memory is then free.
//!
//! A key that was deleted or has expired keeps an anchor and a last node. While memory is short,
//! the service looks at the last nodes of all chains, one pass after another, and closes the chains
//! that are dead:
//!
//! ```text
//! last node dead, and the same one as in the pass before
//!   │ CAS last.next    Empty → Closed    from now on nothing can be linked to the chain
//!   │ CAS anchor.next  last  → Closed    a service that starts again frees the anchor
//!   ▼ the key is forgotten, and both nodes are retired
//! ```
//!
//! A write that is linked first lets the first compare-and-swap fail. One that comes later fails
//! itself, as do writes to all other nodes of the chain, which have successors: its client requests
//! the chain of the key again, and the answer waits until the key is forgotten. So there are never
//! two chains of a key to which nodes can be linked.
//!
//! A service that ends between both leaves a chain that cannot be written. The next one reads each
//! chain to its end before it says where it is, and goes on with the second step.

use chain::limits::HEADER_LEN;
use chain::{Header, Kind, Link, Next};

use super::{Job, Metadata};
use crate::layout::SlabEntry;
use crate::limits::{EXPIRED_FOR_S, SWEEP_CALM, SWEEP_READS_MAX, SWEEP_STEPS_MAX};

const NS_PER_S: u64 = 1_000_000_000;

/// The passes over all chains.
#[derive(Debug, Default)]
pub(super) struct Sweep {
    /// The first chain that was not looked at in this pass, if there is a pass.
    next: Option<u64>,
    /// READs in progress.
    reads: usize,
    is_running: bool,
    began_ns: u64,
    /// The next pass does not begin before, and not before the second time unless a client was
    /// refused memory. Both are equal if the last pass found no dead chain.
    next_ns: u64,
    calm_ns: u64,
    /// A client was refused memory since the last pass began.
    pub(super) was_full: bool,
    /// Bytes of slots of dead chains, of this pass so far.
    dead_bytes: u64,
}

impl Sweep {
    /// When a pass may begin, or is to go on although no READ completes.
    pub(super) fn deadline_ns(&self) -> Option<u64> {
        match (self.is_running, self.next) {
            (false, _) => Some(self.next_ns),
            (true, Some(_)) if self.reads < SWEEP_READS_MAX => Some(self.began_ns),
            (true, _) => None,
        }
    }
}

impl Metadata {
    /// Begins a pass if it is time and memory is short, or reads on.
    pub(super) fn continue_sweep(&mut self, now_ns: u64) {
        if !self.sweep.is_running {
            if now_ns < self.sweep.next_ns {
                return;
            }
            if !self.is_short_of_memory(now_ns) {
                self.sweep.next_ns = now_ns.saturating_add(self.config.sweep_ns);
                return;
            }
            self.sweep = Sweep {
                next: Some(0),
                is_running: true,
                began_ns: now_ns,
                ..Sweep::default()
            };
        }
        for _ in 0..SWEEP_STEPS_MAX {
            let is_free = self.sweep.reads < SWEEP_READS_MAX;
            let Some(from) = self.sweep.next.filter(|_| is_free) else {
                break;
            };
            let Some((&chain, record)) = self.chains.range_mut(from..).next() else {
                self.sweep.next = None;
                break;
            };
            self.sweep.next = Some(chain + 1);
            if let Some(at) = record.settled_first() {
                self.sweep.reads += 1;
                let job = Job::Examine { chain, at };
                self.read(at.address(), HEADER_LEN as u32, job);
            } else {
                record.dead = None;
            }
        }
        if self.sweep.next.is_none() && self.sweep.reads == 0 {
            self.end_sweep(now_ns);
        }
    }

    fn end_sweep(&mut self, now_ns: u64) {
        let sweep = &mut self.sweep;
        sweep.is_running = false;
        let took_ns = now_ns.saturating_sub(sweep.began_ns);
        let after = |pause_ns: u64| now_ns.saturating_add(pause_ns.max(self.config.sweep_ns));
        let calm_ns = after(took_ns.saturating_mul(SWEEP_CALM));
        // In a pool full of living values, passes would otherwise take half of the time.
        sweep.next_ns = match sweep.dead_bytes {
            0 => calm_ns,
            _ => after(took_ns),
        };
        sweep.calm_ns = calm_ns;
        self.counters.swept += 1;
        self.counters.dead_bytes = sweep.dead_bytes;
        self.counters.clock_lag_s = self.unix_s(now_ns).saturating_sub(self.slowest_s);
    }

    /// Unix time by the service's clock, in seconds.
    fn unix_s(&self, now_ns: u64) -> u64 {
        self.config.unix_start_ns.saturating_add(now_ns) / NS_PER_S
    }

    fn is_short_of_memory(&self, now_ns: u64) -> bool {
        let is_unused = |entry: &&SlabEntry| entry.slot_len == 0;
        let unused = self.slabs.iter().filter(is_unused).count() as u64;
        let is_low = unused * 100 <= self.slabs.len() as u64 * self.config.sweep_below_percent;
        self.sweep.was_full || (is_low && now_ns >= self.sweep.calm_ns)
    }

    /// The first node of a chain was read, which should be the last one too.
    pub(super) fn examined(&mut self, now_ns: u64, number: u64, at: Link, bytes: &[u8]) {
        self.sweep.reads -= 1;
        // By a fast clock, values would be dead that every client still reads.
        let unix_s = self.unix_s(now_ns).min(self.slowest_s);
        let Some(chain) = self.chains.get_mut(&number) else {
            return;
        };
        let was_dead = chain.dead.take() == Some(at);
        if chain.settled_first() != Some(at) {
            return;
        }
        let header = Header::parse(bytes)
            .filter(|header| header.prefix.own == at && header.prefix.chain == number);
        let next = header.map(|header| header.prefix.next);
        let (Some(header), Some(Next::Empty { .. })) = (header, next) else {
            // It has a successor, or an earlier service has closed it. Reading the chain decides.
            self.read_later(now_ns, number);
            return;
        };
        let is_dead = match header.kind {
            Kind::Anchor | Kind::Tombstone => true,
            Kind::Value => {
                header.expiry_s != 0 && u64::from(header.expiry_s) + EXPIRED_FOR_S <= unix_s
            }
        };
        if !is_dead {
            return;
        }
        chain.dead = Some(at);
        let anchor = chain.anchor().filter(|anchor| *anchor != at);
        if was_dead {
            chain.is_closing = true;
            chain.is_busy = true;
            let job = Job::Close { chain: number, at };
            self.swap(at, at.empty(), Next::Closed, job);
        }
        let slots = [Some(at), anchor].into_iter().flatten();
        self.sweep.dead_bytes += slots.map(|link| self.slot_len_of(link)).sum::<u64>();
    }

    pub(super) fn slot_len_of(&self, link: Link) -> u64 {
        let slab = self.superblock.layout.slab_of(link.address());
        slab.map_or(0, |slab| self.slabs[slab as usize].slot_len.into())
    }

    /// The last node of a chain was to be closed; `word` is what it had as its successor.
    pub(super) fn closed(&mut self, now_ns: u64, number: u64, at: Link, word: u64) {
        let Some(chain) = self.chains.get_mut(&number) else {
            return;
        };
        // After a lost connection, it may have been closed before.
        if word == at.empty().word() || word == Next::Closed.word() {
            if chain.anchor == Some(at) {
                self.remove_closed(number, []);
            } else {
                self.close_anchor(number, vec![at]);
            }
            return;
        }
        chain.is_busy = false;
        chain.is_closing = false;
        self.read_later(now_ns, number);
        self.answer_waiters(number);
    }

    /// The last node of a chain is closed, which has these nodes behind its anchor.
    pub(super) fn close_anchor(&mut self, number: u64, nodes: Vec<Link>) {
        let (Some(chain), Some(first)) = (self.chains.get_mut(&number), nodes.first()) else {
            return;
        };
        let Some(anchor) = chain.anchor() else {
            return;
        };
        chain.is_closing = true;
        chain.is_busy = true;
        let from = Next::Node(*first);
        let job = Job::CloseAnchor {
            chain: number,
            nodes,
        };
        self.swap(anchor, from, Next::Closed, job);
    }

    /// The anchor of a chain was to be closed; `word` is what it had as its successor.
    pub(super) fn anchor_closed(&mut self, now_ns: u64, number: u64, nodes: Vec<Link>, word: u64) {
        let had = Next::from_word(word).and_then(Next::node);
        if had == nodes.first().copied() || word == Next::Closed.word() {
            self.remove_closed(number, nodes);
            return;
        }
        // Reading the chain leads here again.
        if let Some(chain) = self.chains.get_mut(&number) {
            chain.is_busy = false;
            self.begins_elsewhere(now_ns, number, had);
        }
    }

    /// Removes a chain that is closed, and retires its nodes. Requests for its key go on as if it
    /// had none.
    pub(super) fn remove_closed(&mut self, number: u64, nodes: impl IntoIterator<Item = Link>) {
        let Some(chain) = self.remove(number) else {
            return;
        };
        self.counters.closed += 1;
        self.retire(nodes.into_iter().chain(chain.anchor));
        for waiter in chain.waiters {
            self.look_up(waiter.client, waiter.sequence, &chain.key, waiter.create);
        }
    }
}
