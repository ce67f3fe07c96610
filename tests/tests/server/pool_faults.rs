//! Servers whose items are in a pool of memory, while processes are killed, and the histories of
//! concurrent clients.

use std::sync::Mutex;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::thread;
use std::time::{Duration, Instant};

use curtail_tests::client::Client;
use curtail_tests::peer::Address;
use curtail_tests::process::Server;
use curtail_tests::served_pool::{Pool, wait_until_ready};
use measure::{Action, Call, check_linearizable};
use sys::clock::monotonic_ns;
use workload::{Purpose, RandomStream};

/// How long a condition may take to hold on a busy machine.
const TIMEOUT: Duration = Duration::from_secs(20);

/// A client that stores key after key at one server, and what it was told.
struct Writer {
    name: &'static str,
    address: Address,
    acknowledged: AtomicU64,
    refused: AtomicU64,
    is_stopped: AtomicBool,
    /// The numbers of the keys that were acknowledged.
    keys: Mutex<Vec<u64>>,
}

impl Writer {
    fn new(name: &'static str, server: &Server) -> Self {
        Self {
            name,
            address: server.address.clone(),
            acknowledged: AtomicU64::new(0),
            refused: AtomicU64::new(0),
            is_stopped: AtomicBool::new(false),
            keys: Mutex::default(),
        }
    }

    /// Stores until it is stopped or the connection ends.
    fn run(&self) {
        let mut client = Client::connect(&self.address).unwrap();
        for number in 0.. {
            if self.is_stopped.load(Ordering::Relaxed) {
                return;
            }
            let value = number.to_string();
            let head = format!("set {}{number} 0 0 {}", self.name, value.len());
            let Ok(reply) = client.request(&format!("{head}\r\n{value}")) else {
                return;
            };
            if reply == "STORED" {
                self.keys.lock().unwrap().push(number);
                self.acknowledged.fetch_add(1, Ordering::Relaxed);
            } else {
                assert!(reply.starts_with("SERVER_ERROR"), "{reply}");
                self.refused.fetch_add(1, Ordering::Relaxed);
            }
        }
    }

    fn stop(&self) {
        self.is_stopped.store(true, Ordering::Relaxed);
    }

    /// Waits until so many more keys have been acknowledged.
    fn wait_for_more(&self, more: u64) {
        let aim = self.acknowledged.load(Ordering::Relaxed) + more;
        wait_until("keys are stored", || {
            self.acknowledged.load(Ordering::Relaxed) >= aim
        });
    }

    /// Waits until one more has been refused.
    fn wait_for_refusal(&self) {
        let before = self.refused.load(Ordering::Relaxed);
        wait_until("a key is refused", || {
            self.refused.load(Ordering::Relaxed) > before
        });
    }

    /// Reads all that was acknowledged.
    fn verify(&self, server: &Server) {
        let mut client = Client::connect(&server.address).unwrap();
        let keys = self.keys.lock().unwrap();
        for number in &*keys {
            let found = client.get(&format!("{}{number}", self.name)).unwrap();
            let expected = number.to_string();
            assert_eq!(found.as_deref(), Some(expected.as_bytes()), "key {number}");
        }
        eprintln!("{}: {} acknowledged keys are there", self.name, keys.len());
    }
}

fn wait_until(what: &str, is_true: impl Fn() -> bool) {
    let deadline = Instant::now() + TIMEOUT;
    while !is_true() {
        assert!(Instant::now() < deadline, "not within {TIMEOUT:?}: {what}");
        thread::sleep(Duration::from_millis(2));
    }
}

#[test]
fn a_killed_server_loses_nothing_acknowledged_and_the_other_one_goes_on() {
    let pool = Pool::start("64MiB");
    let (server_a, server_b) = (pool.server(), pool.server());
    let (a, b) = (Writer::new("a", &server_a), Writer::new("b", &server_b));
    thread::scope(|scope| {
        scope.spawn(|| a.run());
        scope.spawn(|| b.run());
        a.wait_for_more(300);
        b.wait_for_more(300);
        drop(server_a);
        // Longer than the lease of the killed server's clients.
        let later = Instant::now() + Duration::from_millis(1500);
        while Instant::now() < later {
            b.wait_for_more(10);
        }
        a.stop();
        b.stop();
    });
    assert_eq!(b.refused.load(Ordering::Relaxed), 0);
    let server_c = pool.server();
    for server in [&server_b, &server_c] {
        a.verify(server);
        b.verify(server);
    }
}

/// Kills a process of the pool twice while a client stores, and starts it again.
fn works_again_after(kill: impl Fn(&mut Pool), start: impl Fn(&mut Pool)) {
    let mut pool = Pool::start("64MiB");
    let server = pool.server();
    let writer = Writer::new("k", &server);
    thread::scope(|scope| {
        scope.spawn(|| writer.run());
        for _ in 0..2 {
            writer.wait_for_more(200);
            kill(&mut pool);
            writer.wait_for_refusal();
            start(&mut pool);
            writer.wait_for_more(200);
        }
        writer.stop();
    });
    writer.verify(&server);
}

#[test]
fn servers_work_again_after_the_metadata_service_was_killed() {
    works_again_after(Pool::kill_metadata, Pool::start_metadata);
}

#[test]
fn servers_work_again_after_the_memory_node_was_killed() {
    works_again_after(Pool::kill_node, Pool::start_node);
}

#[test]
fn a_server_answers_errors_while_the_pool_is_away_and_then_works_again() {
    let mut pool = Pool::start("32MiB");
    let server = pool.server();
    pool.kill_metadata();
    pool.kill_node();
    let mut client = Client::connect(&server.address).unwrap();
    let reply = client.request("get k").unwrap();
    assert!(reply.starts_with("SERVER_ERROR the memory pool did not answer"));
    assert!(client.request("version").unwrap().starts_with("VERSION"));
    pool.start_node();
    pool.start_metadata();
    wait_until_ready(&server);
    client.set("k", b"v").unwrap();
    assert_eq!(client.get("k").unwrap().as_deref(), Some(&b"v"[..]));
}

/// Keys of the histories. Few, so that clients meet.
const KEYS: [&str; 2] = ["x", "y"];
/// Calls of each client.
const CALLS: u64 = 300;

/// A client whose calls are recorded, by key.
struct Recorder {
    number: u32,
    client: Client,
    random: RandomStream,
    values: u64,
    calls: [Vec<Call>; KEYS.len()],
}

/// What a reply says of a call.
enum Answer {
    Is(String),
    /// It may have taken effect or not.
    Unknown,
    /// It has certainly not.
    Nothing,
}

impl Recorder {
    fn new(number: u32, address: &Address) -> Self {
        Self {
            number,
            client: Client::connect(address).unwrap(),
            random: RandomStream::new(1, Purpose::Requests, number.into()),
            values: 0,
            calls: Default::default(),
        }
    }

    /// Makes calls, until the connection ends. Returns the history of each key.
    fn run(mut self, made: &AtomicU64) -> [Vec<Call>; KEYS.len()] {
        for _ in 0..CALLS {
            let key = self.random.below(KEYS.len() as u64) as usize;
            let is_connected = match self.random.below(10) {
                0..4 => self.read(key).is_some(),
                4..6 => self.set(key),
                6..8 => self.swap(key),
                8 => self.add(key),
                _ => self.delete(key),
            };
            if !is_connected {
                break;
            }
            made.fetch_add(1, Ordering::Relaxed);
        }
        self.calls
    }

    /// A value that no other call stores.
    fn value(&mut self) -> u64 {
        self.values += 1;
        u64::from(self.number) << 32 | self.values
    }

    /// Calls, and records the call with what `action` makes of the answer. Without an answer, the
    /// call is recorded as `unknown`. Returns false if the connection has ended.
    fn call(
        &mut self,
        key: usize,
        request: &str,
        unknown: Action,
        action: impl Fn(&str) -> Action,
    ) -> bool {
        let invoked_ns = monotonic_ns();
        let answer = match self.client.request(request) {
            Err(_) => None,
            Ok(reply) if reply.contains("nothing was stored") => Some(Answer::Nothing),
            Ok(reply) if reply.starts_with("SERVER_ERROR") => Some(Answer::Unknown),
            Ok(reply) => Some(Answer::Is(reply)),
        };
        let (is_connected, answered_ns, action) = match answer {
            None => (false, None, unknown),
            Some(Answer::Unknown) => (true, None, unknown),
            Some(Answer::Nothing) => return true,
            Some(Answer::Is(reply)) => (true, Some(monotonic_ns()), action(&reply)),
        };
        self.calls[key].push(Call {
            client: self.number,
            invoked_ns,
            answered_ns,
            action,
        });
        is_connected
    }

    /// Returns the value and its CAS. `None`: the connection has ended.
    fn read(&mut self, key: usize) -> Option<Option<(u64, String)>> {
        let invoked_ns = monotonic_ns();
        let head = self.client.request(&format!("gets {}", KEYS[key])).ok()?;
        let found = if head == "END" {
            None
        } else if head.starts_with("VALUE") {
            let cas = head.rsplit(' ').next().unwrap().to_owned();
            let value = self.client.line().ok()?.parse().unwrap();
            assert_eq!(self.client.line().ok()?, "END");
            Some((value, cas))
        } else {
            assert!(head.starts_with("SERVER_ERROR"), "{head}");
            return Some(None);
        };
        self.calls[key].push(Call {
            client: self.number,
            invoked_ns,
            answered_ns: Some(monotonic_ns()),
            action: Action::Read {
                found: found.as_ref().map(|(value, _)| *value),
            },
        });
        Some(found)
    }

    fn set(&mut self, key: usize) -> bool {
        let value = self.value();
        let write = Action::Write { value };
        let request = with_value(&format!("set {} 0 0", KEYS[key]), "", value);
        self.call(key, &request, write, |reply| {
            assert_eq!(reply, "STORED");
            write
        })
    }

    fn swap(&mut self, key: usize) -> bool {
        let Some(found) = self.read(key) else {
            return false;
        };
        let Some((expected, cas)) = found else {
            return true;
        };
        let value = self.value();
        let swap = |swapped| Action::CompareSwap {
            expected: Some(expected),
            value,
            swapped,
        };
        let request = with_value(&format!("cas {} 0 0", KEYS[key]), &cas, value);
        self.call(key, &request, swap(true), |reply| match reply {
            "STORED" => swap(true),
            "EXISTS" | "NOT_FOUND" => swap(false),
            _ => panic!("{reply}"),
        })
    }

    fn add(&mut self, key: usize) -> bool {
        let value = self.value();
        let add = |swapped| Action::CompareSwap {
            expected: None,
            value,
            swapped,
        };
        let request = with_value(&format!("add {} 0 0", KEYS[key]), "", value);
        self.call(key, &request, add(true), |reply| match reply {
            "STORED" => add(true),
            "NOT_STORED" => add(false),
            _ => panic!("{reply}"),
        })
    }

    fn delete(&mut self, key: usize) -> bool {
        let delete = |was_present| Action::Delete { was_present };
        let request = format!("delete {}", KEYS[key]);
        self.call(key, &request, delete(None), |reply| match reply {
            "DELETED" => delete(Some(true)),
            "NOT_FOUND" => delete(Some(false)),
            _ => panic!("{reply}"),
        })
    }
}

/// A storage command and its value.
fn with_value(head: &str, cas: &str, value: u64) -> String {
    let value = value.to_string();
    format!("{head} {} {cas}\r\n{value}", value.len())
}

#[test]
fn histories_of_clients_at_several_servers_are_linearizable() {
    let pool = Pool::start("64MiB");
    let servers = [pool.server(), pool.server()];
    let killed = pool.server();
    let (made, made_killed) = (AtomicU64::new(0), AtomicU64::new(0));
    let histories = thread::scope(|scope| {
        let at = [&servers[0], &servers[1], &servers[0], &servers[1]];
        let mut clients = Vec::new();
        for (number, server) in (1..).zip(at) {
            let recorder = Recorder::new(number, &server.address);
            clients.push(scope.spawn(|| recorder.run(&made)));
        }
        for number in [5, 6] {
            let recorder = Recorder::new(number, &killed.address);
            clients.push(scope.spawn(|| recorder.run(&made_killed)));
        }
        wait_until("the clients have made calls", || {
            made_killed.load(Ordering::Relaxed) > CALLS / 2
        });
        drop(killed);
        let joined = clients.into_iter().map(|client| client.join().unwrap());
        joined.collect::<Vec<_>>()
    });
    assert_eq!(made.load(Ordering::Relaxed), 4 * CALLS);
    for (place, key) in KEYS.iter().enumerate() {
        let calls: Vec<Call> = histories
            .iter()
            .flat_map(|history| history[place].clone())
            .collect();
        let unanswered = calls
            .iter()
            .filter(|call| call.answered_ns.is_none())
            .count();
        eprintln!(
            "{key}: {} calls, {unanswered} without an answer",
            calls.len()
        );
        // Of the clients that were not killed, nearly all are answered.
        assert!(calls.len() - unanswered > 3 * CALLS as usize / 2);
        if let Err(rejection) = check_linearizable(None, &calls) {
            panic!("failed to verify the history of {key}: {rejection}");
        }
    }
}
