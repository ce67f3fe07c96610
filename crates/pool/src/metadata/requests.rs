//! Requests of clients.

use chain::Link;

use super::Metadata;
use super::leases::ClientRecord;
use crate::layout::memory_of;
use crate::limits::{CLIENTS_MAX, MESSAGE_FREED_MAX, SEQUENCE_AHEAD_MAX};
use crate::message::{Answer, Question, Reply, Request};
use crate::station::Station;

impl Metadata {
    pub(super) fn handle_request(&mut self, now_ns: u64, sender: Station, request: Request) {
        if request.question == Question::Register {
            self.register(now_ns, sender, request.sequence, request.unix_s);
            return;
        }
        let lease_ns = self.config.lease_ns;
        let (client, sequence) = (request.client, request.sequence);
        // Of another memory, it is another client with the same number.
        if memory_of(request.service) != memory_of(self.superblock.service) {
            self.send_reply(sender, client, sequence, Vec::new(), Answer::Expired);
            return;
        }
        let known = self.clients.get_mut(&client);
        let Some(record) = known.filter(|record| record.disconnect_at_ns.is_none()) else {
            self.send_reply(sender, client, sequence, Vec::new(), Answer::Expired);
            return;
        };
        // Numbers that the client did not send would make the service take its own for old ones. A
        // service that has started again knows neither the number nor the nonce.
        let is_known = record.sequence > 0 || record.nonce != 0;
        let ahead = sequence.saturating_sub(record.sequence);
        if is_known && ahead > SEQUENCE_AHEAD_MAX {
            self.counters.refused += 1;
            return;
        }
        record.station = Some(sender);
        record.deadline_ns = Some(now_ns.saturating_add(lease_ns));
        if sequence <= record.sequence {
            self.counters.repeated += 1;
            if let Some(reply) = record.reply.clone().filter(|_| sequence == record.sequence) {
                self.replies.push((sender, reply));
            }
            return;
        }
        self.counters.requests += 1;
        record.sequence = sequence;
        record.reply = None;
        record.quiescent = record.quiescent.max(request.quiescent);
        self.heard_clock(client, request.unix_s);
        for edge in &request.edges {
            self.linked(now_ns, edge);
        }
        self.release_quarantine();
        match request.question {
            Question::Nothing | Question::Register => {
                self.answer(client, sequence, Answer::Nothing);
            }
            Question::Lookup {
                key,
                create,
                closed,
            } => {
                self.doubt_chain(now_ns, &key, closed);
                self.look_up(client, sequence, &key, create);
            }
            Question::Slab { slot_len } => self.give_slab(client, sequence, slot_len),
            Question::Leave => {
                self.answer(client, sequence, Answer::Nothing);
                if let Some(record) = self.clients.get_mut(&client) {
                    record.disconnect_at_ns = Some(now_ns);
                }
            }
        }
    }

    fn register(&mut self, now_ns: u64, sender: Station, nonce: u64, unix_s: u64) {
        let is_it = |record: &&ClientRecord| {
            record.nonce == nonce && record.sequence == 0 && record.station == Some(sender)
        };
        if let Some(record) = self.clients.values().find(is_it) {
            self.counters.repeated += 1;
            self.replies
                .extend(record.reply.clone().map(|reply| (sender, reply)));
            return;
        }
        if self.clients.len() >= CLIENTS_MAX {
            self.send_reply(sender, 0, nonce, Vec::new(), Answer::Full);
            return;
        }
        if self.numbers_left().client == 0 {
            // It comes again.
            return;
        }
        self.counters.requests += 1;
        let client = self.superblock.next_client;
        self.superblock.next_client += 1;
        let record = ClientRecord {
            station: Some(sender),
            nonce,
            quiescent: self.epoch,
            deadline_ns: Some(now_ns.saturating_add(self.config.lease_ns)),
            ..ClientRecord::default()
        };
        self.clients.insert(client, record);
        self.heard_clock(client, unix_s);
        let answer = Answer::Registered {
            client,
            node: self.config.node,
            slab_len: self.superblock.layout.slab_len,
        };
        let reply = self.send_reply(sender, 0, nonce, Vec::new(), answer);
        if let Some(record) = self.clients.get_mut(&client) {
            record.reply = Some(reply);
        }
    }

    /// Answers a client's last request, if it is still that one.
    pub(super) fn answer(&mut self, client: u64, sequence: u64, answer: Answer) {
        let Some(record) = self.clients.get_mut(&client) else {
            return;
        };
        let Some(station) = record.station.filter(|_| record.sequence == sequence) else {
            return;
        };
        let count = record.freed.len().min(MESSAGE_FREED_MAX);
        let freed: Vec<_> = record.freed.drain(..count).collect();
        self.counters.freed += freed.len() as u64;
        let reply = self.send_reply(station, client, sequence, freed, answer);
        if let Some(record) = self.clients.get_mut(&client) {
            record.reply = Some(reply);
        }
    }

    /// Leaves a request without an answer, so that its repetition is handled again.
    pub(super) fn postpone(&mut self, client: u64, sequence: u64) {
        let record = self.clients.get_mut(&client);
        if let Some(record) = record.filter(|record| record.sequence == sequence) {
            record.sequence = sequence - 1;
        }
    }

    /// Sends a reply, and returns it.
    fn send_reply(
        &mut self,
        to: Station,
        client: u64,
        sequence: u64,
        freed: Vec<Link>,
        answer: Answer,
    ) -> Vec<u8> {
        let reply = Reply {
            client,
            sequence,
            service: self.superblock.service,
            epoch: self.epoch,
            lease_ns: self.config.lease_ns,
            freed,
            answer,
        };
        let bytes = reply.emit();
        self.replies.push((to, bytes.clone()));
        bytes
    }
}
