//! What is going to happen, and when hosts are paused or to be woken.

use std::cmp::Reverse;
use std::collections::{BTreeMap, BinaryHeap};

use super::Host;

#[derive(Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum What {
    /// A frame has come to a host.
    Arrive(Host, Vec<u8>),
    /// Something is due at a host.
    Wake(Host),
    /// A host crashes.
    Stop(Host),
    /// It starts again.
    Start(Host),
    /// Another metadata service takes over, and all clients start again with that one. The one
    /// before is paused, and goes on at this time.
    TakeOver(u64),
}

impl What {
    pub(crate) fn host(&self) -> Host {
        match self {
            Self::Arrive(host, _) | Self::Wake(host) | Self::Stop(host) | Self::Start(host) => {
                *host
            }
            Self::TakeOver(_) => Host::Metadata,
        }
    }
}

/// Events in the order of their times, and among equal ones in the order in which they were pushed.
#[derive(Default)]
pub(crate) struct Events {
    heap: BinaryHeap<Reverse<(u64, u64, What)>>,
    count: u64,
    /// The earliest wake-up of each host.
    wakes: BTreeMap<Host, u64>,
    paused: BTreeMap<Host, u64>,
}

/// Both sides of the middlebox are one host.
fn whole(host: Host) -> Host {
    match host {
        Host::Middlebox(_) => Host::Middlebox(super::MiddleboxSide::Client),
        host => host,
    }
}

impl Events {
    pub(crate) fn push(&mut self, at_ns: u64, what: What) {
        self.count += 1;
        self.heap.push(Reverse((at_ns, self.count, what)));
    }

    /// The next event, if it is not after `until_ns`.
    pub(crate) fn pop_until(&mut self, until_ns: u64) -> Option<(u64, What)> {
        if self.heap.peek()?.0.0 > until_ns {
            return None;
        }
        self.heap
            .pop()
            .map(|Reverse((at_ns, _, what))| (at_ns, what))
    }

    /// Wakes a host at this time or before.
    pub(crate) fn wake(&mut self, host: Host, at_ns: u64) {
        let host = whole(host);
        if self
            .wakes
            .get(&host)
            .is_none_or(|&earliest_ns| at_ns < earliest_ns)
        {
            self.wakes.insert(host, at_ns);
            self.push(at_ns, What::Wake(host));
        }
    }

    /// Whether this wake-up still counts: an earlier one has not replaced it.
    pub(crate) fn take_wake(&mut self, host: Host, now_ns: u64) -> bool {
        let host = whole(host);
        let counts = self.wakes.get(&host).is_some_and(|&at_ns| at_ns <= now_ns);
        if counts {
            self.wakes.remove(&host);
        }
        counts
    }

    pub(crate) fn pause(&mut self, host: Host, until_ns: u64) {
        self.paused.insert(whole(host), until_ns);
    }

    pub(crate) fn paused_until_ns(&self, host: Host) -> u64 {
        self.paused.get(&whole(host)).copied().unwrap_or(0)
    }
}
