//! The same operations on three stores that are alike, in lockstep.
//!
//! What an operation does depends on nothing but what was done before it: the seed, the calls and
//! the seconds are the same on each store. So what is slow of itself is slow on all three, and what
//! the machine takes it takes from one: the *least* of the three times is the store's own, with its
//! cache misses, page faults and system calls. Neither is taken for granted. What an operation
//! visits and what comes of it is compared, and counted apart where it differs; and how many are
//! slow on one store alone, on two and on all three shows how often the machine strikes twice.
//!
//! The stores are asked in turns, a tenth of a second or so each time, and whose turn it is is
//! drawn. In short turns all three were seen to be slow at the same operations, which were not in
//! other runs: something of the machine lasted for longer than their turns. Request by request,
//! the second store would find the code in the processor's caches for having run on the first.
//!
//! Between requests a worker of the server maintains the store, and some client may change the
//! limit: these are operations too. What its main thread does, tending, is done between chunks and
//! not timed; what that costs a worker on another processor, by locks of the address space and
//! translations that are taken back, is in the churn of two threads alone.
//!
//! Now and then, for some seconds, the machine makes the same operations slow on all three, by a
//! tenth of a millisecond, which in the next run of the same operations take a microsecond. So all
//! is done once more, on new stores, up to the last of those that were the slowest.

use std::sync::Arc;
use std::time::{Duration, Instant};

use store::{Deleted, Miss, Published, Rejected, Statistics, Store};
use sys::cost::thread_faults;
use workload::{Purpose, RandomStream};

use crate::findings::Findings;
use crate::requests::{Client, Request, Requests, Wish};
use crate::{CONFIG, MEMORY};

pub(crate) const REPLICAS: usize = 3;
/// Requests of a turn, and in a second of the stores' clock.
const ROUND: usize = 100_000;
/// Rounds by which one store may be ahead of another.
const WINDOW: usize = 4;
/// Rounds between two changes of the limit: a few a second.
const ROUNDS_A_LIMIT: u32 = 8;
/// Requests between two steps of maintenance, and between two looks whether to tend: at a
/// microsecond each, as many as the server answers meanwhile.
const CHUNK: usize = 100;
/// Blocks a step of maintenance visits, as in the server.
const MAINTAIN_ITEMS: usize = 16;
/// Operations of a window at most: a request is two of them at most.
const OPERATIONS: usize = WINDOW * (1 + 2 * ROUND + ROUND / CHUNK);
/// For operations that take as long page faults are told.
const NOTED: Duration = Duration::from_micros(10);

/// Runs for so many seconds.
pub(crate) fn print(seconds: u64) {
    println!(
        "\n{seconds} s of the same operations on {REPLICAS} stores of {} MiB, and once more\n",
        MEMORY >> 20
    );
    let mut findings = Findings::new();
    let end = Instant::now() + Duration::from_secs(seconds);
    let statistics = run(|runs| {
        findings.add(runs);
        Instant::now() < end
    });
    let Some([first, second, third]) = statistics else {
        println!("no memory");
        return;
    };
    run(|runs| findings.add_again(runs));
    findings.print();
    let alike = match first == second && second == third {
        true => "on each store the same",
        false => "on each store something else; on the first:",
    };
    println!(
        "\n{alike}: {} evicted, {} expired, {} blocks copied, {} segments evacuated, {} waits, {} \
         displaced, index of {} MiB",
        first.evicted,
        first.expired,
        first.copied,
        first.evacuated,
        first.waits,
        first.evicted_index_full,
        first.index_bytes >> 20
    );
}

/// Does the operations on three new stores, for as long as `add` wants more of them; none: there is
/// no memory for the stores.
fn run(mut add: impl FnMut([&[Option<Run>]; REPLICAS]) -> bool) -> Option<[Statistics; REPLICAS]> {
    let stores = [(); REPLICAS].map(|()| Store::new(CONFIG));
    let [Ok(first), Ok(second), Ok(third)] = stores else {
        return None;
    };
    let mut replicas = [first, second, third].map(|store| Replica::new(&store));
    let mut rounds = Rounds::new();
    let mut turns = RandomStream::new(5, Purpose::Other, 1);
    let mut has_more = true;
    while has_more {
        let window = [(); WINDOW].map(|()| rounds.draw());
        let mut left = [WINDOW; REPLICAS];
        while left.iter().any(|&left| left > 0) {
            let turn = turns.below(REPLICAS as u64) as usize;
            if left[turn] > 0 {
                replicas[turn].run(&window[WINDOW - left[turn]]);
                left[turn] -= 1;
            }
        }
        has_more = add(replicas.each_ref().map(|replica| &replica.runs[..]));
        replicas.iter_mut().for_each(|replica| replica.runs.clear());
    }
    Some(replicas.map(|replica| replica.store.statistics()))
}

/// What a store is asked before another has its turn.
struct Round {
    requests: Vec<Request>,
    now_s: u32,
    /// What the limit becomes before.
    limit: Option<u64>,
}

/// All rounds, the same each time.
struct Rounds {
    requests: Requests,
    drawn: u32,
}

impl Rounds {
    fn new() -> Self {
        Self {
            requests: Requests::new(),
            drawn: 0,
        }
    }

    fn draw(&mut self) -> Round {
        let number = self.drawn;
        self.drawn += 1;
        // Up and down by a quarter.
        let limit = MEMORY + MEMORY / 4 * u64::from(number / ROUNDS_A_LIMIT % 2);
        Round {
            requests: (0..ROUND).map(|_| self.requests.draw()).collect(),
            now_s: 1 + number,
            limit: number.is_multiple_of(ROUNDS_A_LIMIT).then_some(limit),
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
    Found,
    Missed(Miss),
    /// The low bits of the CAS that it was given.
    Stored(u32),
    Refused,
    Deleted(Deleted),
    /// Whether there is more to do.
    Maintained(bool),
    /// Whether the limit can be that.
    Limited(bool),
}

/// An operation on one of the stores. There are many: it is kept small.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Run {
    pub(crate) time_ns: u32,
    pub(crate) visits: u32,
    /// Of the value that was read or written.
    pub(crate) bytes: u32,
    /// If it took long: those since the chunk began, or since the last that took long.
    pub(crate) faults: u32,
    pub(crate) outcome: Outcome,
    pub(crate) kind: Kind,
}

impl Run {
    pub(crate) fn time(&self) -> Duration {
        Duration::from_nanos(self.time_ns.into())
    }
}

/// One of the stores.
struct Replica {
    store: Arc<Store>,
    client: Client,
    /// The last rounds: an operation at each place, or none where none was called for.
    runs: Vec<Option<Run>>,
    /// Page faults of the thread when they were last asked for.
    faults: u64,
}

impl Replica {
    fn new(store: &Arc<Store>) -> Self {
        // As the server does before it listens.
        store.run_page_maintenance();
        // All of it touched, so that its page faults are not taken for the store's.
        let mut runs = vec![None; OPERATIONS];
        runs.clear();
        Self {
            store: Arc::clone(store),
            client: Client::new(store.worker()),
            runs,
            faults: 0,
        }
    }

    fn run(&mut self, round: &Round) {
        self.client.now_s = round.now_s;
        self.faults = thread_faults();
        let limited = round.limit.map(|limit| {
            self.time(Kind::Limit, |client| {
                let limited = client.worker.store().set_limit(limit);
                (Outcome::Limited(limited.is_ok()), 0)
            })
        });
        self.runs.push(limited);
        for chunk in round.requests.chunks(CHUNK) {
            self.faults = thread_faults();
            for request in chunk {
                self.answer(request);
            }
            self.maintain();
        }
    }

    /// A request: two operations, the second where the first is a read that finds nothing.
    fn answer(&mut self, request: &Request) {
        let run = match request.wish {
            Wish::Get => self.time(Kind::Get, |client| match client.get(request) {
                Ok(len) => (Outcome::Found, len),
                Err(miss) => (Outcome::Missed(miss), 0),
            }),
            Wish::Set => self.time(Kind::Set, |client| written(client.set(request))),
            Wish::Delete => self.time(Kind::Delete, |client| {
                (Outcome::Deleted(client.delete(request)), 0)
            }),
        };
        self.runs.push(Some(run));
        let is_missed = matches!(run.outcome, Outcome::Missed(_));
        let set = is_missed.then(|| {
            self.time(Kind::SetAfterMiss, |client| {
                written(client.set_missed(request))
            })
        });
        self.runs.push(set);
    }

    fn maintain(&mut self) {
        let run = self.time(Kind::Maintain, |client| {
            let has_more = client.worker.maintain(client.now_s, MAINTAIN_ITEMS);
            (Outcome::Maintained(has_more), 0)
        });
        self.runs.push(Some(run));
        // The server's main thread does when a worker that has answered wakes it.
        if self.store.needs_page_maintenance() {
            self.store.run_page_maintenance();
        }
    }

    fn time(&mut self, kind: Kind, operate: impl FnOnce(&mut Client) -> (Outcome, usize)) -> Run {
        let before = self.client.worker.visits();
        let start = Instant::now();
        let (outcome, bytes) = operate(&mut self.client);
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
            time_ns: u32::try_from(time.as_nanos()).unwrap_or(u32::MAX),
            visits: visits as u32,
            bytes: bytes as u32,
            faults: faults as u32,
            outcome,
            kind,
        }
    }
}

fn written(written: Result<Published, Rejected>) -> (Outcome, usize) {
    match written {
        Ok(Published::Stored { cas, value_len }) => {
            (Outcome::Stored(cas as u32), value_len as usize)
        }
        _ => (Outcome::Refused, 0),
    }
}
