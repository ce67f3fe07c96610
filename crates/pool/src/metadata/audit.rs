//! What is free in slabs whose owner is gone.
//!
//! Its queue pairs are destroyed, so no node there is linked from now on. First all slots are read,
//! then the chains of the nodes that were found. A slot is free if its node is not in its chain.
//! Nodes that are retired meanwhile come back by the usual way.

use std::collections::{BTreeMap, BTreeSet, VecDeque};

use chain::limits::PREFIX_LEN;
use chain::{Link, Prefix};

use super::recovery::generation_of;
use super::{Job, Metadata};

/// Most slabs that are audited at once.
const SLABS_MAX: usize = 64;
/// Most slots that are read at once.
const READS_MAX: u32 = 16;
/// How often a chain is read from its anchor before its nodes count as linked.
const WALKS_MAX: u32 = 16;

/// An audit in progress.
#[derive(Debug, Default)]
pub(super) struct Audit {
    slabs: BTreeSet<u32>,
    /// Addresses of slots to be read.
    unread: VecDeque<u64>,
    reads: u32,
    /// The last node of each slot that was read.
    slots: BTreeMap<u64, Link>,
    /// Chains of these nodes.
    chains: BTreeMap<u64, Vec<Link>>,
    /// The chain that is read, and how often that began.
    walking: Option<(u64, u32)>,
    /// Nodes that are in their chains.
    linked: BTreeSet<Link>,
    /// Nodes that were retired meanwhile.
    pub(super) retired: BTreeSet<Link>,
}

impl Metadata {
    /// Begins an audit if there is need, or reads on.
    pub(super) fn continue_audit(&mut self) {
        if self.audit.is_none() && !self.to_audit.is_empty() {
            self.begin_audit();
        }
        while let Some(audit) = &mut self.audit
            && audit.reads < READS_MAX
            && let Some(address) = audit.unread.pop_front()
        {
            audit.reads += 1;
            self.read(address, PREFIX_LEN as u32, Job::AuditSlot { address });
        }
    }

    fn begin_audit(&mut self) {
        let count = self.to_audit.len().min(SLABS_MAX);
        let slabs: BTreeSet<u32> = self.to_audit.drain(..count).collect();
        let layout = self.superblock.layout;
        let slots = |slab: &u32| {
            let slot_len = self.slabs[*slab as usize].slot_len.max(1);
            let start = layout.slab(*slab);
            (0..layout.slab_len / slot_len)
                .map(move |slot| start + u64::from(slot) * u64::from(slot_len))
        };
        let unread: VecDeque<_> = slabs.iter().flat_map(slots).collect();
        // The audit finds them itself.
        self.quarantine.retain(|(_, link)| {
            let slab = layout.slab_of(link.address());
            slab.is_none_or(|slab| !slabs.contains(&slab))
        });
        for slab in &slabs {
            self.orphans.remove(slab);
        }
        self.audit = Some(Audit {
            slabs,
            unread,
            ..Audit::default()
        });
    }

    pub(super) fn audited_slot(&mut self, address: u64, bytes: &[u8]) {
        let Some(audit) = &mut self.audit else {
            return;
        };
        audit.reads -= 1;
        if let Some(link) = generation_of(address, bytes) {
            audit.slots.insert(address, link);
            let prefix = Prefix::parse(bytes).filter(|prefix| prefix.own == link);
            if let Some(prefix) = prefix {
                audit.chains.entry(prefix.chain).or_default().push(link);
            }
        }
        if audit.reads == 0 && audit.unread.is_empty() {
            self.audit_next_chain();
        }
    }

    /// Reads the next chain from its anchor, or ends the audit.
    fn audit_next_chain(&mut self) {
        while let Some(audit) = &mut self.audit {
            let Some((chain, _)) = audit.chains.first_key_value() else {
                self.end_audit();
                return;
            };
            let chain = *chain;
            let known = self.chains.get(&chain);
            if let Some(at) = known.and_then(super::chains::Chain::anchor) {
                audit.walking = Some((chain, 1));
                self.read(at.address(), PREFIX_LEN as u32, Job::AuditNode { at });
                return;
            }
            // The chain does not exist, so none of its nodes is in use.
            audit.chains.remove(&chain);
        }
    }

    pub(super) fn audited_node(&mut self, at: Link, bytes: &[u8]) {
        let Some(audit) = &mut self.audit else {
            return;
        };
        let Some((chain, walks)) = &mut audit.walking else {
            return;
        };
        let prefix = Prefix::parse(bytes).filter(|it| it.own == at && it.chain == *chain);
        let next = match prefix {
            Some(prefix) => {
                audit.linked.insert(at);
                prefix.next.node()
            }
            None if *walks < WALKS_MAX => {
                // The anchor has moved on, and the node's slot is used again.
                *walks += 1;
                self.chains
                    .get(chain)
                    .and_then(super::chains::Chain::anchor)
            }
            None => {
                // Rather lose some memory than a node.
                let nodes = audit.chains.get(chain).into_iter().flatten();
                audit.linked.extend(nodes.copied());
                None
            }
        };
        match next {
            Some(at) => self.read(at.address(), PREFIX_LEN as u32, Job::AuditNode { at }),
            None => {
                let chain = *chain;
                audit.chains.remove(&chain);
                self.audit_next_chain();
            }
        }
    }

    fn end_audit(&mut self) {
        let Some(audit) = self.audit.take() else {
            return;
        };
        for slab in &audit.slabs {
            self.counters.audited += 1;
            let entry = &mut self.slabs[*slab as usize];
            if entry.owner != 0 {
                entry.owner = 0;
                self.write_owner(*slab, false, None);
            }
        }
        let is_free =
            |link: &&Link| !audit.linked.contains(*link) && !audit.retired.contains(*link);
        let free: Vec<Link> = audit.slots.values().filter(is_free).copied().collect();
        self.counters.retired += free.len() as u64;
        for link in free {
            self.quarantine.push_back((self.epoch, link));
        }
        self.epoch += 1;
    }
}
