//! Slabs for clients, and slots that are free again.

use std::collections::VecDeque;

use chain::Link;

use super::{Job, Metadata};
use crate::layout::{METADATA, SlabEntry};
use crate::limits::{MESSAGE_FREED_MAX, SLOT_LEN_MIN};
use crate::message::Answer;

impl Metadata {
    /// Gives a slab to a client: one that was left with slots of this length, or a new one.
    pub(super) fn give_slab(&mut self, client: u64, sequence: u64, slot_len: u32) {
        let is_possible = (SLOT_LEN_MIN..=self.superblock.layout.slab_len).contains(&slot_len)
            && slot_len.is_multiple_of(8);
        let slab = if is_possible {
            self.take_slab(client, slot_len)
        } else {
            None
        };
        match slab {
            Some((slab, is_fresh)) => {
                self.counters.slabs += 1;
                self.write_owner(slab, is_fresh, Some((client, sequence)));
            }
            None => {
                if !self.has_freed(client, slot_len) {
                    self.counters.full += 1;
                    self.sweep.was_full = true;
                }
                self.answer(client, sequence, Answer::Full);
            }
        }
    }

    /// Whether slots of this length come with the next reply to a client.
    fn has_freed(&self, client: u64, slot_len: u32) -> bool {
        let record = self.clients.get(&client);
        let freed = record.map(|record| record.freed.iter().take(MESSAGE_FREED_MAX));
        let mut lens = freed
            .into_iter()
            .flatten()
            .map(|link| self.slot_len_of(*link));
        lens.any(|len| len == u64::from(slot_len))
    }

    /// Makes `owner` the owner of a slab, but not in memory yet. Returns the slab, and whether its
    /// slots were never used.
    pub(super) fn take_slab(&mut self, owner: u64, slot_len: u32) -> Option<(u32, bool)> {
        let is_orphan = |(slab, free): (&u32, &VecDeque<Link>)| {
            let is_right = self.slabs[*slab as usize] == SlabEntry { slot_len, owner: 0 };
            (is_right && !free.is_empty()).then_some(*slab)
        };
        let orphan = self.orphans.iter().find_map(is_orphan);
        let is_unused = |entry: &SlabEntry| entry.slot_len == 0 && entry.owner == 0;
        let unused = || {
            self.slabs
                .iter()
                .position(is_unused)
                .map(|slab| slab as u32)
        };
        let slab = orphan.or_else(unused)?;
        self.slabs[slab as usize] = SlabEntry { slot_len, owner };
        Some((slab, orphan.is_none()))
    }

    /// Writes the owner of a slab to the table.
    pub(super) fn write_owner(&mut self, slab: u32, is_fresh: bool, request: Option<(u64, u64)>) {
        let entry = self.slabs[slab as usize];
        let address = self.superblock.layout.entry(slab);
        let job = Job::Own {
            slab,
            owner: entry.owner,
            is_fresh,
            request,
        };
        self.write(address, entry.emit().to_vec(), job);
    }

    /// The owner of a slab is in the table.
    pub(super) fn owned(
        &mut self,
        slab: u32,
        owner: u64,
        is_fresh: bool,
        request: Option<(u64, u64)>,
    ) {
        // It may have another owner by now, if this one was none.
        let free = if owner == 0 || is_fresh {
            None
        } else {
            self.orphans.remove(&slab)
        };
        let slot_len = self.slabs[slab as usize].slot_len;
        let address = self.superblock.layout.slab(slab);
        if owner == METADATA {
            let slab_len = self.superblock.layout.slab_len;
            self.slots.add(address, slab_len, slot_len, is_fresh);
            for link in free.into_iter().flatten() {
                self.slots.free(link);
            }
            self.make_slotless();
            return;
        }
        if let (Some(record), Some(free)) = (self.clients.get_mut(&owner), free) {
            record.freed.extend(free);
        }
        if let Some((client, sequence)) = request {
            let answer = Answer::Slab {
                address,
                slot_len,
                is_fresh,
            };
            self.answer(client, sequence, answer);
        }
    }

    /// These nodes are out of reach. Their slots are free when no client may hold a link to them.
    pub(super) fn retire(&mut self, links: impl IntoIterator<Item = Link>) {
        for link in links {
            self.counters.retired += 1;
            if let Some(audit) = &mut self.audit {
                audit.retired.insert(link);
            }
            self.quarantine.push_back((self.epoch, link));
        }
        self.epoch += 1;
    }

    /// Gives slots to the owners of their slabs that were retired before every client's last
    /// operations began.
    pub(super) fn release_quarantine(&mut self) {
        let quiescent = self.clients.values().map(|record| record.quiescent).min();
        let quiescent = quiescent.unwrap_or(self.epoch);
        while let Some((epoch, link)) = self.quarantine.front().copied()
            && epoch < quiescent
        {
            self.quarantine.pop_front();
            self.release(link);
        }
    }

    fn release(&mut self, link: Link) {
        let Some(slab) = self.superblock.layout.slab_of(link.address()) else {
            return;
        };
        let owner = self.slabs[slab as usize].owner;
        if owner == METADATA {
            self.slots.free(link);
        } else if let Some(record) = self.clients.get_mut(&owner) {
            record.freed.push_back(link);
        } else {
            // There is no owner, or it is gone. An audit that begins later finds the slot itself,
            // and one in progress leaves out what was retired meanwhile.
            self.orphans.entry(slab).or_default().push_back(link);
        }
    }
}
