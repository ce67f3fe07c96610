//! Clients, and the end of those that are silent.

use std::collections::VecDeque;

use chain::Link;
use roce::connect;

use super::Metadata;
use crate::station::Station;

/// What is known of a client. The default is that of one that has slabs, but of which nothing was
/// heard since the start.
#[derive(Debug, Default)]
pub(super) struct ClientRecord {
    pub(super) station: Option<Station>,
    /// The random number with which it registered.
    pub(super) nonce: u64,
    /// Its last request, and the answer once there is one.
    pub(super) sequence: u64,
    pub(super) reply: Option<Vec<u8>>,
    /// When its lease ends; nothing until the clock is known.
    pub(super) deadline_ns: Option<u64>,
    /// Everything that it began before it knew this epoch is complete.
    pub(super) quiescent: u64,
    /// Unix time by its clock at its last request, in seconds; 0 before it has made one.
    pub(super) unix_s: u64,
    /// Slots for it.
    pub(super) freed: VecDeque<Link>,
    /// When it is disconnected again, if its lease has ended.
    pub(super) disconnect_at_ns: Option<u64>,
}

impl Metadata {
    /// Ends leases, and sees which clock is the slowest, from time to time.
    pub(super) fn check_leases(&mut self, now_ns: u64) {
        if now_ns < self.next_check_ns {
            return;
        }
        let lease_ns = self.config.lease_ns;
        self.next_check_ns = now_ns.saturating_add((lease_ns / 16).max(1));
        for record in self.clients.values_mut() {
            let deadline_ns = *record
                .deadline_ns
                .get_or_insert(now_ns.saturating_add(lease_ns));
            if deadline_ns <= now_ns && record.disconnect_at_ns.is_none() {
                record.disconnect_at_ns = Some(now_ns);
                self.counters.expired += 1;
            }
        }
        let clocks = self.clients.values().map(|record| record.unix_s);
        self.slowest_s = clocks.min().unwrap_or(0);
    }

    /// A client has this Unix time, in seconds.
    pub(super) fn heard_clock(&mut self, client: u64, unix_s: u64) {
        if let Some(record) = self.clients.get_mut(&client) {
            record.unix_s = unix_s;
            self.slowest_s = self.slowest_s.min(unix_s);
        }
    }

    /// Tells the memory node to destroy the queue pairs of clients whose lease has ended, until it
    /// confirms.
    pub(super) fn disconnect_silent(&mut self, now_ns: u64, send: &mut impl FnMut(&[u8])) {
        let again_ns = now_ns.saturating_add(self.config.channel.retries.timeout_ns);
        for (client, record) in &mut self.clients {
            if let Some(at_ns) = &mut record.disconnect_at_ns
                && *at_ns <= now_ns
            {
                *at_ns = again_ns;
                self.next_check_ns = self.next_check_ns.min(again_ns);
                let message = connect::Message::Disconnect { client: *client };
                let (qpn, key) = (connect::QPN, connect::QUEUE_KEY);
                let node = &self.config.node;
                self.config.me.send(node, qpn, key, &message.emit(), send);
            }
        }
    }

    /// No packet of this client takes effect any more: its slabs can be given to others.
    pub(super) fn disconnected(&mut self, client: u64) {
        let is_ended = |record: &ClientRecord| record.disconnect_at_ns.is_some();
        if !self.clients.get(&client).is_some_and(is_ended) {
            return;
        }
        self.clients.remove(&client);
        for (slab, entry) in self.slabs.iter().enumerate() {
            if entry.owner == client {
                self.to_audit.push_back(slab as u32);
            }
        }
    }
}
