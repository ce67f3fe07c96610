//! A client's conversation with the metadata service: one request at a time, repeated until it is
//! answered.

use std::collections::VecDeque;

use chain::Link;
use rand_xoshiro::SplitMix64;
use rand_xoshiro::rand_core::{Rng, SeedableRng};

use crate::layout::memory_of;
use crate::limits::{EDGES_KEPT_MAX, MESSAGE_EDGES_MAX};
use crate::message::{Answer, Edge, QPN, QUEUE_KEY, Question, Reply, Request};
use crate::station::Station;

/// A lease and the conversation that renews it.
#[derive(Debug)]
pub(super) struct Session {
    me: Station,
    metadata: Station,
    /// How long a request is not repeated.
    timeout_ns: u64,
    /// How often the lease is renewed at least.
    heartbeat_ns: u64,
    /// The number of this client; 0 before it has one.
    pub(super) client: u64,
    sequence: u64,
    random: SplitMix64,
    outstanding: Option<Outstanding>,
    /// Links that were not reported to the service.
    edges: VecDeque<Edge>,
    /// The number of the service that has replied last; 0 before one has.
    pub(super) service: u64,
    /// The last epoch that the service named.
    pub(super) epoch: u64,
    /// Until then, the slabs are this client's.
    lease_until_ns: u64,
    /// When the next request is sent if there is no other reason.
    heartbeat_at_ns: u64,
}

#[derive(Debug)]
struct Outstanding {
    sequence: u64,
    bytes: Vec<u8>,
    question: Question,
    first_sent_ns: Option<u64>,
    next_ns: u64,
    edges: usize,
}

/// The content of a reply.
#[derive(Debug)]
pub(super) struct Answered {
    pub(super) question: Question,
    pub(super) answer: Answer,
    pub(super) freed: Vec<Link>,
}

impl Session {
    pub(super) fn new(
        me: Station,
        metadata: Station,
        timeout_ns: u64,
        heartbeat_ns: u64,
        seed: u64,
    ) -> Self {
        Self {
            me,
            metadata,
            timeout_ns,
            heartbeat_ns,
            client: 0,
            sequence: 0,
            random: SplitMix64::seed_from_u64(seed),
            outstanding: None,
            edges: VecDeque::new(),
            service: 0,
            epoch: 0,
            lease_until_ns: 0,
            heartbeat_at_ns: 0,
        }
    }

    /// Whether the client may use its slabs and its connection.
    pub(super) fn has_lease(&self, now_ns: u64) -> bool {
        self.client != 0 && now_ns < self.lease_until_ns
    }

    /// When the lease ends, if there is one.
    pub(super) fn lease_until_ns(&self) -> Option<u64> {
        (self.client != 0).then_some(self.lease_until_ns)
    }

    /// Whether a request can be made now.
    pub(super) fn is_free(&self) -> bool {
        self.outstanding.is_none()
    }

    /// Whether a request is due without a question.
    pub(super) fn is_due(&self, now_ns: u64) -> bool {
        now_ns >= self.heartbeat_at_ns || self.edges.len() >= MESSAGE_EDGES_MAX
    }

    /// Makes the next request due at this time, if it is not earlier.
    pub(super) fn hurry(&mut self, at_ns: u64) {
        self.heartbeat_at_ns = self.heartbeat_at_ns.min(at_ns);
    }

    /// Remembers a link for the next request.
    pub(super) fn link(&mut self, edge: Edge) {
        if self.edges.len() == EDGES_KEPT_MAX {
            self.edges.pop_front();
            if let Some(outstanding) = &mut self.outstanding {
                outstanding.edges = outstanding.edges.saturating_sub(1);
            }
        }
        self.edges.push_back(edge);
    }

    /// Whether links wait to be reported.
    pub(super) fn has_edges(&self) -> bool {
        !self.edges.is_empty()
    }

    /// Forgets the number and the lease.
    pub(super) fn expire(&mut self) {
        self.client = 0;
        self.service = 0;
        self.outstanding = None;
        self.edges.clear();
        self.heartbeat_at_ns = 0;
    }

    /// Makes a request. `quiescent` is the epoch for which nothing that began before is incomplete,
    /// `unix_s` the time by the client's clock.
    pub(super) fn request(&mut self, now_ns: u64, question: Question, quiescent: u64, unix_s: u64) {
        self.sequence = match question {
            Question::Register => self.random.next_u64(),
            _ => self.sequence + 1,
        };
        let edges: Vec<Edge> = self.edges.iter().take(MESSAGE_EDGES_MAX).copied().collect();
        let count = edges.len();
        let request = Request {
            client: self.client,
            service: self.service,
            sequence: self.sequence,
            quiescent,
            unix_s,
            edges,
            question,
        };
        self.outstanding = Some(Outstanding {
            sequence: self.sequence,
            bytes: request.emit(),
            question: request.question,
            first_sent_ns: None,
            next_ns: now_ns,
            edges: count,
        });
        self.heartbeat_at_ns = now_ns.saturating_add(self.heartbeat_ns);
    }

    /// Takes a reply, if it is one to the outstanding request, and not of a service before the one
    /// that is known. With a service of another memory the lease has ended.
    pub(super) fn handle(&mut self, reply: Reply) -> Option<Answered> {
        let outstanding = self.outstanding.as_ref()?;
        let is_other_memory =
            self.service != 0 && memory_of(reply.service) != memory_of(self.service);
        let is_answer = reply.sequence == outstanding.sequence
            && reply.client == self.client
            && (reply.service >= self.service || is_other_memory);
        let sent_ns = outstanding.first_sent_ns.filter(|_| is_answer)?;
        let Outstanding {
            question, edges, ..
        } = self.outstanding.take()?;
        if is_other_memory {
            return Some(Answered {
                question,
                answer: Answer::Expired,
                freed: Vec::new(),
            });
        }
        self.edges.drain(..edges.min(self.edges.len()));
        self.service = reply.service;
        self.epoch = self.epoch.max(reply.epoch);
        if let Answer::Registered { client, .. } = reply.answer {
            self.client = client;
            self.sequence = 0;
            self.epoch = reply.epoch;
        }
        // The service counts the lease from when it had the request, which is later.
        self.lease_until_ns = sent_ns.saturating_add(reply.lease_ns);
        Some(Answered {
            question,
            answer: reply.answer,
            freed: reply.freed,
        })
    }

    pub(super) fn transmit(&mut self, now_ns: u64, send: &mut impl FnMut(&[u8])) {
        if let Some(outstanding) = &mut self.outstanding
            && outstanding.next_ns <= now_ns
        {
            outstanding.first_sent_ns.get_or_insert(now_ns);
            outstanding.next_ns = now_ns.saturating_add(self.timeout_ns);
            let bytes = &outstanding.bytes;
            self.me.send(&self.metadata, QPN, QUEUE_KEY, bytes, send);
        }
    }

    pub(super) fn deadline_ns(&self) -> u64 {
        match &self.outstanding {
            Some(outstanding) => outstanding.next_ns,
            None => self.heartbeat_at_ns,
        }
    }
}
