//! The same operations on three stores that are alike, in lockstep.
//!
//! What an operation does depends on nothing but what was done before it: the seed, the calls and
//! the seconds are the same on each store. So what is slow of itself is slow on all three, and what
//! the machine takes it takes from one: the *least* of the three times is the store's own, with its
//! cache misses, page faults and system calls. Neither is taken for granted. What an operation
//! visits and what comes of it is compared, and counted apart where it differs; and how many are
//! slow on one store alone, on two and on all three shows how often the machine strikes twice.
//!
//! The stores are asked in turns, a chunk of requests each time: request by request, the second
//! store would find the code in the processor's caches for having run on the first. How long a
//! chunk is and whose turn it is are drawn: what interrupts at equal distances would otherwise
//! strike the same operation on each. The caches are shared, so that each store has less of them
//! for its data than one alone would have.
//!
//! Between requests a worker of the server maintains the store, and some client may change the
//! limit: these are operations too. What its main thread does, tending, is done between chunks and
//! not timed; what that costs a worker on another processor, by locks of the address space and
//! translations that are taken back, is in the churn of two threads alone.

use std::sync::Arc;
use std::time::{Duration, Instant};

use store::{Deleted, Miss, Published, Refused, Store};
use sys::cost::thread_faults;
use workload::{Purpose, Stream};

use crate::findings::Findings;
use crate::requests::{Client, Request, Requests, Wish};
use crate::{CONFIG, MEMORY};

pub(crate) const REPLICAS: usize = 3;
/// Requests between two steps of maintenance, and between two looks whether to tend, on average: at
/// a microsecond each, as many as the server answers meanwhile.
const CHUNK: u64 = 100;
/// Chunks by which one store may be ahead of another.
const WINDOW: usize = 4;
/// Blocks a step of maintenance visits, as in the server.
const MAINTAIN_ITEMS: usize = 16;
/// Chunks in a second of the stores' clock.
const CHUNKS_A_SECOND: u64 = 1_000;
/// Chunks between two changes of the limit: a few a second.
const CHUNKS_A_LIMIT: u64 = 8_000;
/// For longer operations page faults are told.
const NOTED: Duration = Duration::from_micros(20);

/// Runs for so many seconds.
pub(crate) fn print(seconds: u64) {
    let stores = [(); REPLICAS].map(|()| Store::new(CONFIG));
    let [Ok(first), Ok(second), Ok(third)] = stores else {
        println!("no memory");
        return;
    };
    println!(
        "\n{seconds} s of the same operations on {REPLICAS} stores of {} MiB\n",
        MEMORY >> 20
    );
    let mut replicas = [first, second, third].map(|store| Replica::new(&store));
    let mut chunks = Chunks::new();
    let mut findings = Findings::new();
    let end = Instant::now() + Duration::from_secs(seconds);
    while Instant::now() < end {
        let window = [(); WINDOW].map(|()| chunks.draw());
        let mut left = [WINDOW; REPLICAS];
        while left.iter().any(|&left| left > 0) {
            let turn = chunks.turns.below(REPLICAS as u64) as usize;
            if left[turn] > 0 {
                replicas[turn].run(&window[WINDOW - left[turn]]);
                left[turn] -= 1;
            }
        }
        findings.add(replicas.each_ref().map(|replica| &replica.runs[..]));
        replicas.iter_mut().for_each(|replica| replica.runs.clear());
    }
    findings.print();
    let [first, second, third] = replicas.map(|replica| replica.store.statistics());
    let alike = match first == second && second == third {
        true => "on each store the same",
        false => "on each store something else; on the first:",
    };
    println!(
        "\n{alike}: {} evicted, {} expired, {} blocks copied, {} segments drained, {} waits, {} \
         displaced, index of {} MiB",
        first.evicted,
        first.expired,
        first.copied,
        first.drained,
        first.waits,
        first.displaced,
        first.index_bytes >> 20
    );
}

/// What a store is asked before another has its turn.
struct Chunk {
    requests: Vec<Request>,
    now_s: u32,
    /// What the limit becomes before.
    limit: Option<u64>,
}

/// All chunks, the same each time.
struct Chunks {
    requests: Requests,
    /// Of numbers that no request depends on.
    turns: Stream,
    drawn: u64,
}

impl Chunks {
    fn new() -> Self {
        Self {
            requests: Requests::new(),
            turns: Stream::new(5, Purpose::Other, 1),
            drawn: 0,
        }
    }

    fn draw(&mut self) -> Chunk {
        let number = self.drawn;
        self.drawn += 1;
        let count = CHUNK / 2 + self.turns.below(CHUNK + 1);
        // Up and down by a quarter.
        let limit = MEMORY + MEMORY / 4 * (number / CHUNKS_A_LIMIT % 2);
        Chunk {
            requests: (0..count).map(|_| self.requests.draw()).collect(),
            now_s: 1 + (number / CHUNKS_A_SECOND) as u32,
            limit: number.is_multiple_of(CHUNKS_A_LIMIT).then_some(limit),
        }
    }
}

/// Kinds of operations.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Kind {
    Get,
    SetAfterMiss,
    Set,
    Delete,
    Maintain,
    Limit,
}

/// As they are printed.
pub(crate) const KINDS: [&str; Kind::Limit as usize + 1] = [
    "get",
    "set after a miss",
    "set",
    "delete",
    "maintain",
    "limit",
];

/// What came of an operation.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Outcome {
    Read(Result<usize, Miss>),
    Written(Result<Published, Refused>),
    Deleted(Deleted),
    /// Whether there is more to do.
    Maintained(bool),
    /// Whether the limit can be that.
    Limited(bool),
}

/// An operation on one of the stores.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Run {
    pub(crate) kind: Kind,
    pub(crate) outcome: Outcome,
    pub(crate) visits: u64,
    pub(crate) time: Duration,
    /// If it took long: those since the chunk began, or since the last that took long.
    pub(crate) faults: u64,
    /// The store had been tended before.
    pub(crate) is_tended: bool,
}

/// One of the stores.
struct Replica {
    store: Arc<Store>,
    client: Client,
    /// The last chunks: an operation at each place, or none where none was called for.
    runs: Vec<Option<Run>>,
    is_tended: bool,
    /// Page faults of the thread when they were last asked for.
    faults: u64,
}

impl Replica {
    fn new(store: &Arc<Store>) -> Self {
        Self {
            store: Arc::clone(store),
            client: Client::new(store.worker()),
            runs: Vec::new(),
            is_tended: false,
            faults: 0,
        }
    }

    fn run(&mut self, chunk: &Chunk) {
        self.faults = thread_faults();
        self.client.now_s = chunk.now_s;
        let limited = chunk.limit.map(|limit| {
            self.time(Kind::Limit, |client| {
                Outcome::Limited(client.worker.store().set_limit(limit).is_ok())
            })
        });
        self.runs.push(limited);
        for request in &chunk.requests {
            let run = self.ask(request);
            self.runs.push(Some(run));
            let is_missed = matches!(run.outcome, Outcome::Read(Err(_)));
            let set = is_missed.then(|| {
                self.time(Kind::SetAfterMiss, |client| {
                    Outcome::Written(client.set_missed(request))
                })
            });
            self.runs.push(set);
        }
        let maintained = self.time(Kind::Maintain, |client| {
            let has_more = client.worker.maintain(client.now_s, MAINTAIN_ITEMS);
            Outcome::Maintained(has_more)
        });
        self.runs.push(Some(maintained));
        // The server's main thread does when a worker that has answered wakes it.
        if self.store.wants_tending() {
            self.store.tend();
            self.is_tended = true;
        }
    }

    fn ask(&mut self, request: &Request) -> Run {
        match request.wish {
            Wish::Get => self.time(Kind::Get, |client| Outcome::Read(client.get(request))),
            Wish::Set => self.time(Kind::Set, |client| Outcome::Written(client.set(request))),
            Wish::Delete => self.time(Kind::Delete, |client| {
                Outcome::Deleted(client.delete(request))
            }),
        }
    }

    fn time(&mut self, kind: Kind, operate: impl FnOnce(&mut Client) -> Outcome) -> Run {
        let before = self.client.worker.visits();
        let start = Instant::now();
        let outcome = operate(&mut self.client);
        let time = start.elapsed();
        let visits = self.client.worker.visits() - before;
        self.client.worker.quiescent();
        let mut faults = 0;
        if time >= NOTED {
            let now = thread_faults();
            faults = now - self.faults;
            self.faults = now;
        }
        Run {
            kind,
            outcome,
            visits,
            time,
            faults,
            is_tended: self.is_tended,
        }
    }
}
