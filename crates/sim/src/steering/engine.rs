//! The events.

use std::cmp::Reverse;
use std::collections::BinaryHeap;

use measure::Histogram;
use workload::{Popularity, Purpose, RandomStream, RecordSampler};

use super::{Config, ConfigError, Simulated, Step};

/// Bytes of a packet without payload: Ethernet, IPv4, UDP, BTH, ICRC.
const PACKET_LEN: u32 = 14 + 20 + 8 + 12 + 4;
/// Bytes of a node around its value: header and key.
const NODE_LEN: u32 = 48 + 8;

/// Versions that a chain has at the beginning: more than any client is behind.
const FIRST_VERSION: u64 = 1 << 20;

/// Where an operation is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Verb {
    Read,
    Write,
    Swap,
    /// The READ with which a writer looks for the last version.
    Walk,
}

#[derive(Debug, Clone, Copy)]
struct Operation {
    thread: u32,
    key: u32,
    verb: Verb,
    is_write: bool,
    /// The version that the verb addresses, and then the one that it found.
    version: u64,
    /// Whether the verb found the last version.
    is_current: bool,
    /// The last version, as a shortcut has it.
    shortcut: u64,
    start_ns: u64,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
enum At {
    MiddleboxOut,
    Memory,
    MiddleboxBack,
    Client,
}

struct Key {
    /// The last version in memory.
    last: u64,
    /// The last version that the middlebox knows.
    steered: u64,
    atomic_free_ns: f64,
    is_steered: bool,
}

struct Thread {
    free_ns: f64,
    /// The last version that was seen of each key.
    seen: Vec<u64>,
    counted: u64,
}

struct Simulation<'a> {
    config: &'a Config,
    keys: Vec<Key>,
    threads: Vec<Thread>,
    operations: Vec<Operation>,
    events: BinaryHeap<Reverse<(u64, u64, At, u32)>>,
    event_count: u64,
    sampler: RecordSampler,
    random: RandomStream,
    core_free_ns: Vec<f64>,
    core_busy_ns: Vec<f64>,
    link_free_ns: [f64; 2],
    now_ns: u64,
    done: u64,
    /// Measured since the end of the warm-up.
    began_ns: u64,
    verbs: u64,
    bytes: u64,
    swaps: u64,
    appended: u64,
    reads: Histogram,
    writes: Histogram,
}

/// Simulates it.
///
/// # Errors
/// A number of the configuration is out of bounds.
pub fn simulate(config: &Config) -> Result<Simulated, ConfigError> {
    config.check()?;
    let mut simulation = Simulation::new(config);
    simulation.run();
    Ok(simulation.finish())
}

impl<'a> Simulation<'a> {
    fn new(config: &'a Config) -> Self {
        let popularity = if config.theta > 0.0 {
            Popularity::Zipf(config.theta)
        } else {
            Popularity::Uniform
        };
        let sampler = RecordSampler::new(popularity, config.keys.into(), config.seed);
        let mut keys: Vec<Key> = (0..config.keys)
            .map(|_| Key {
                last: FIRST_VERSION,
                steered: FIRST_VERSION,
                atomic_free_ns: 0.0,
                is_steered: config.hottest.is_none(),
            })
            .collect();
        for rank in 0..config.hottest.unwrap_or(0).min(config.keys) {
            keys[sampler.record_of_rank(rank.into()) as usize].is_steered = true;
        }
        let thread = || Thread {
            free_ns: 0.0,
            seen: vec![0; config.keys as usize],
            counted: 0,
        };
        Self {
            config,
            keys,
            threads: (0..config.threads).map(|_| thread()).collect(),
            operations: Vec::new(),
            events: BinaryHeap::new(),
            event_count: 0,
            sampler,
            random: RandomStream::new(config.seed, Purpose::Requests, 0),
            core_free_ns: vec![0.0; config.cores as usize],
            core_busy_ns: vec![0.0; config.cores as usize],
            link_free_ns: [0.0; 2],
            now_ns: 0,
            done: 0,
            began_ns: 0,
            verbs: 0,
            bytes: 0,
            swaps: 0,
            appended: 0,
            reads: Histogram::new(),
            writes: Histogram::new(),
        }
    }

    fn run(&mut self) {
        for index in 0..self.config.threads * self.config.outstanding {
            let operation = self.next_operation(index % self.config.threads);
            self.operations.push(operation);
            self.post(index);
        }
        while self.done < self.config.operations {
            let Some(Reverse((now_ns, _, at, operation))) = self.events.pop() else {
                return;
            };
            self.now_ns = now_ns;
            match at {
                At::MiddleboxOut => self.forward(operation),
                At::Memory => self.execute(operation),
                At::MiddleboxBack => self.back(operation),
                At::Client => self.complete(operation),
            }
        }
    }

    fn next_operation(&mut self, thread: u32) -> Operation {
        let key = self.sampler.draw(&mut self.random) as u32;
        let is_write = self.random.unit() < self.config.workload.update_share();
        Operation {
            thread,
            key,
            verb: if is_write { Verb::Write } else { Verb::Read },
            is_write,
            version: self.threads[thread as usize].seen[key as usize],
            is_current: false,
            shortcut: 0,
            start_ns: self.now_ns,
        }
    }

    fn schedule(&mut self, at_ns: f64, at: At, operation: u32) {
        self.event_count += 1;
        let at_ns = at_ns.round() as u64;
        self.events
            .push(Reverse((at_ns, self.event_count, at, operation)));
    }

    /// The client posts a verb when its processor is free.
    fn post(&mut self, operation: u32) {
        let thread = &mut self.threads[self.operations[operation as usize].thread as usize];
        let sent_ns = thread.free_ns.max(self.now_ns as f64) + self.config.costs.client_verb_ns;
        thread.free_ns = sent_ns;
        self.verbs += 1;
        self.schedule(
            sent_ns + self.config.costs.hop_ns,
            At::MiddleboxOut,
            operation,
        );
    }

    /// When a core of the middlebox has processed a packet of a key.
    fn core(&mut self, key: u32) -> f64 {
        let core = (key % self.config.cores) as usize;
        let cost_ns = self.config.costs.packet(self.config.step);
        let done_ns = self.core_free_ns[core].max(self.now_ns as f64) + cost_ns;
        self.core_free_ns[core] = done_ns;
        self.core_busy_ns[core] += cost_ns;
        done_ns
    }

    /// When a packet has passed the link of the memory, which is not before `from_ns`.
    fn link(&mut self, direction: usize, from_ns: f64, len: u32) -> f64 {
        self.bytes += u64::from(len);
        let begin_ns = self.link_free_ns[direction].max(from_ns);
        self.link_free_ns[direction] = begin_ns + f64::from(len) * self.config.costs.byte_ns;
        self.link_free_ns[direction]
    }

    /// The middlebox forwards a request, and may steer it.
    fn forward(&mut self, index: u32) {
        let operation = self.operations[index as usize];
        let processed_ns = self.core(operation.key);
        let step = self.config.step;
        let key = &mut self.keys[operation.key as usize];
        let is_steered = key.is_steered && self.config.is_steering;
        let operation = &mut self.operations[index as usize];
        match operation.verb {
            Verb::Read | Verb::Walk if is_steered && step >= Step::Reads => {
                operation.version = key.steered;
            }
            Verb::Swap if is_steered && step >= Step::Writes => {
                operation.version = key.steered;
                key.steered += 1;
            }
            _ => {}
        }
        let is_converted = step == Step::Conversion && is_steered;
        let len = PACKET_LEN
            + match operation.verb {
                Verb::Read | Verb::Walk => 16,
                Verb::Write => 16 + NODE_LEN + self.config.value_len,
                Verb::Swap if is_converted => 16 + 8,
                Verb::Swap => 28,
            };
        let arrived_ns = self.link(0, processed_ns, len) + self.config.costs.hop_ns;
        self.schedule(arrived_ns, At::Memory, index);
    }

    /// The memory executes a verb.
    fn execute(&mut self, index: u32) {
        let now_ns = self.now_ns as f64;
        let operation = &mut self.operations[index as usize];
        let key = &mut self.keys[operation.key as usize];
        let is_steered = key.is_steered && self.config.is_steering;
        let is_converted = self.config.step == Step::Conversion && is_steered;
        let mut answered_ns = now_ns;
        let len = match operation.verb {
            Verb::Read | Verb::Walk => {
                operation.is_current = operation.version == key.last;
                4 + NODE_LEN + self.config.value_len
            }
            Verb::Write => 4,
            Verb::Swap => {
                if !is_converted {
                    answered_ns = key.atomic_free_ns.max(now_ns) + self.config.costs.atomic_ns;
                    key.atomic_free_ns = answered_ns;
                }
                self.swaps += 1;
                operation.is_current = operation.version == key.last;
                if operation.is_current {
                    key.last += 1;
                    key.steered = key.steered.max(key.last);
                    self.appended += 1;
                }
                12
            }
        };
        operation.shortcut = key.last;
        let sent_ns = self.link(1, answered_ns, PACKET_LEN + len);
        self.schedule(sent_ns + self.config.costs.hop_ns, At::MiddleboxBack, index);
    }

    /// The middlebox forwards a response.
    fn back(&mut self, index: u32) {
        let processed_ns = self.core(self.operations[index as usize].key);
        self.schedule(processed_ns + self.config.costs.hop_ns, At::Client, index);
    }

    /// The client has a response: the operation ends, or its next verb is posted.
    fn complete(&mut self, index: u32) {
        let lag = u64::from(self.config.costs.lag);
        let operation = &mut self.operations[index as usize];
        // What comes after the version that was found, but not further back than the shortcut is.
        let next = (operation.version + 1).max(operation.shortcut.saturating_sub(lag));
        let (verb, version) = match (operation.verb, operation.is_current) {
            (Verb::Read, true) => (None, operation.version),
            (Verb::Swap, true) => (None, next),
            (Verb::Write, _) | (Verb::Walk, true) => (Some(Verb::Swap), operation.version),
            (Verb::Read, false) => (Some(Verb::Read), next),
            (Verb::Swap | Verb::Walk, false) => (Some(Verb::Walk), next),
        };
        operation.version = version;
        match verb {
            Some(verb) => operation.verb = verb,
            None => self.end(index),
        }
        self.post(index);
    }

    fn end(&mut self, index: u32) {
        let operation = self.operations[index as usize];
        let thread = &mut self.threads[operation.thread as usize];
        let seen = &mut thread.seen[operation.key as usize];
        *seen = operation.version.max(*seen);
        thread.counted += 1;
        self.done += 1;
        let latency_ns = self.now_ns - operation.start_ns;
        if operation.is_write {
            self.writes.record(latency_ns);
        } else {
            self.reads.record(latency_ns);
        }
        if self.done == self.config.operations / 2 {
            self.end_warm_up();
        }
        self.operations[index as usize] = self.next_operation(operation.thread);
    }

    fn end_warm_up(&mut self) {
        self.began_ns = self.now_ns;
        (self.verbs, self.bytes, self.swaps, self.appended) = (0, 0, 0, 0);
        self.core_busy_ns.fill(0.0);
        self.reads.clear();
        self.writes.clear();
        for thread in &mut self.threads {
            thread.counted = 0;
        }
    }

    fn finish(self) -> Simulated {
        let elapsed_ns = (self.now_ns - self.began_ns).max(1) as f64;
        let counted: u64 = self.threads.iter().map(|thread| thread.counted).sum();
        let rate = |count: u64| count as f64 / elapsed_ns * 1e9;
        let per_operation = |count: u64| count as f64 / counted.max(1) as f64;
        let busiest_ns = self.core_busy_ns.iter().copied().fold(0.0, f64::max);
        Simulated {
            threads_rps: self.threads.iter().map(|thread| rate(thread.counted)).sum(),
            total_rps: rate(counted),
            reads: self.reads,
            writes: self.writes,
            swap_success: (self.swaps > 0).then(|| self.appended as f64 / self.swaps as f64),
            verbs: per_operation(self.verbs),
            bytes: per_operation(self.bytes),
            core_busy: busiest_ns / elapsed_ns,
        }
    }
}
