//! Items in a tier whose device the test holds still, on every runtime.

use std::io;
use std::sync::{Arc, Condvar, Mutex};

use curtail_tests::in_process::{Fragile, Sockets, answer, cache, everywhere_with, request, setup};
use runtime::Scheduler;
use runtime::memory::Memory;
use store::{Config, Expiry, Mode, Published, Store, Write};
use sys::socket::Stream;
use tier::testing::MemoryDevice;
use tier::{Device, Readers, Rules, Tier};

const SEGMENT: usize = 64 << 10;
const SEGMENTS: usize = 64;
const KEYS: u32 = 1500;

/// A device in memory. While it is held, reads wait.
#[derive(Debug, Default)]
struct Medium {
    bytes: Mutex<Vec<u8>>,
    state: Mutex<State>,
    has_changed: Condvar,
}

#[derive(Debug, Default)]
struct State {
    is_held: bool,
    fails: bool,
    waiting: usize,
}

#[derive(Debug)]
struct HeldDevice(Arc<Medium>);

impl Device for HeldDevice {
    fn read_at(&self, buffer: &mut [u8], offset: u64) -> io::Result<()> {
        let mut state = self.0.state.lock().unwrap();
        state.waiting += 1;
        while state.is_held {
            state = self.0.has_changed.wait(state).unwrap();
        }
        state.waiting -= 1;
        if state.fails {
            return Err(io::Error::other("no medium"));
        }
        drop(state);
        let offset = offset as usize;
        buffer.copy_from_slice(&self.0.bytes.lock().unwrap()[offset..offset + buffer.len()]);
        Ok(())
    }

    fn write_at(&self, bytes: &[u8], offset: u64) -> io::Result<()> {
        let offset = offset as usize;
        self.0.bytes.lock().unwrap()[offset..offset + bytes.len()].copy_from_slice(bytes);
        Ok(())
    }

    fn sync(&self) -> io::Result<()> {
        Ok(())
    }
}

impl Medium {
    fn hold(&self, is_held: bool) {
        self.state.lock().unwrap().is_held = is_held;
        self.has_changed.notify_all();
    }

    fn waiting(&self) -> usize {
        self.state.lock().unwrap().waiting
    }
}

/// A cache with far more items than its memory holds.
struct Tiered {
    sockets: Sockets,
    tier: Arc<Tier>,
    medium: Arc<Medium>,
    /// Keys that were not in memory when the cache was filled, the oldest first.
    cold: Vec<u32>,
}

fn value(key: u32) -> String {
    format!("{key}/").repeat(300)
}

fn get(stream: &Stream, key: u32) -> String {
    stream.send(format!("get {key}\r\n").as_bytes()).unwrap();
    let mut reply = answer(stream);
    while !reply.ends_with(b"END\r\n") {
        reply.extend(answer(stream));
    }
    String::from_utf8(reply).unwrap()
}

/// Receives as many bytes as `expected` has, and compares them.
fn assert_answer(stream: &Stream, expected: &str) {
    let mut received = answer(stream);
    while received.len() < expected.len() {
        received.extend(answer(stream));
    }
    assert_eq!(String::from_utf8(received).unwrap(), expected);
}

fn found(key: u32) -> String {
    let value = value(key);
    format!("VALUE {key} 0 {}\r\n{value}\r\n", value.len())
}

fn everywhere(test: impl Fn(Tiered)) {
    everywhere_with(|kind, scheduler| {
        let medium = Arc::new(Medium {
            bytes: Mutex::new(vec![0; SEGMENT * SEGMENTS]),
            ..Medium::default()
        });
        let device: Box<dyn Device> = Box::new(HeldDevice(Arc::clone(&medium)));
        let rules = Rules {
            segment_bytes: Some(SEGMENT as u64),
            ..Rules::default()
        };
        let devices = vec![(device, (SEGMENT * SEGMENTS) as u64)];
        let tier = Arc::new(Tier::new(rules, 1, devices).unwrap());
        let config = Config {
            memory_bytes: 1 << 20,
            item_max: 64 << 10,
            hash_seed: 1,
            ..Config::DEFAULT
        };
        let mut service = cache(&Arc::new(Fragile::default()));
        service.store = Store::with_tier(config, Some(Arc::<Tier>::clone(&tier))).unwrap();
        service.tier = Some(Arc::new(Readers::start(&tier, 4).unwrap()));
        let store = Arc::clone(&service.store);
        let sockets = Sockets::start(kind, &service, setup(scheduler), || None);
        let stream = sockets.connect();
        for key in 0..KEYS {
            let value = value(key);
            let set = format!("set {key} 0 0 {}\r\n{value}\r\n", value.len());
            assert_eq!(request(&stream, set.as_bytes()), b"STORED\r\n");
        }
        let worker = store.worker();
        let is_cold = |key: &u32| {
            let hash = worker.hash(key.to_string().as_bytes());
            let number = worker.raw_hash(hash);
            // Those whose segment has been written, so that a read needs the device.
            worker.find_in_tier(hash, 1).is_some() && !tier.is_buffered(number)
        };
        sockets.until_true("written", || (0..KEYS).filter(is_cold).count() > 200);
        let cold = (0..KEYS).filter(is_cold).collect();
        drop(worker);
        test(Tiered {
            sockets,
            tier,
            medium,
            cold,
        });
    });
}

#[test]
fn items_of_the_tier_are_answered_and_return_to_memory() {
    everywhere(|tiered| {
        let stream = tiered.sockets.connect();
        for &key in &tiered.cold[..50] {
            assert_eq!(get(&stream, key), found(key) + "END\r\n");
        }
        let before = tiered.tier.statistics();
        assert_eq!((before.objects_read, before.restored), (50, 50));
        let last = tiered.cold[49];
        assert_eq!(get(&stream, last), found(last) + "END\r\n");
        assert_eq!(tiered.tier.statistics(), before, "now it is in memory");
        tiered.sockets.running.stop().unwrap();
    });
}

#[test]
fn a_slow_device_delays_neither_items_in_memory_nor_other_connections() {
    everywhere(|tiered| {
        let (slow, fast) = (tiered.sockets.connect(), tiered.sockets.connect());
        let cold = tiered.cold[0];
        tiered.medium.hold(true);
        slow.send(format!("get {cold}\r\nmn\r\n").as_bytes())
            .unwrap();
        tiered
            .sockets
            .until_true("waiting", || tiered.medium.waiting() == 1);
        for key in KEYS - 20..KEYS {
            assert_eq!(get(&fast, key), found(key) + "END\r\n");
        }
        assert_eq!(tiered.medium.waiting(), 1);
        tiered.medium.hold(false);
        let expected = found(cold) + "END\r\nMN\r\n";
        assert_answer(&slow, &expected);
        tiered.sockets.running.stop().unwrap();
    });
}

#[test]
fn the_keys_of_one_get_are_read_together_and_answered_in_order() {
    everywhere(|tiered| {
        let stream = tiered.sockets.connect();
        let keys = [
            tiered.cold[0],
            KEYS - 1,
            tiered.cold[1],
            9_999_999,
            tiered.cold[2],
        ];
        tiered.medium.hold(true);
        let line = keys.map(|key| key.to_string()).join(" ");
        stream.send(format!("get {line}\r\n").as_bytes()).unwrap();
        tiered
            .sockets
            .until_true("waiting", || tiered.medium.waiting() == 3);
        tiered.medium.hold(false);
        let present = keys.into_iter().filter(|&key| key < KEYS);
        let expected = present.map(found).collect::<String>() + "END\r\n";
        assert_answer(&stream, &expected);
        tiered.sockets.running.stop().unwrap();
    });
}

#[test]
fn an_item_that_changes_while_it_is_read_is_never_restored() {
    everywhere(|tiered| {
        let (reader, writer) = (tiered.sockets.connect(), tiered.sockets.connect());
        let [set, deleted, added] = [tiered.cold[0], tiered.cold[1], tiered.cold[2]];
        tiered.medium.hold(true);
        for key in [set, deleted, added] {
            reader.send(format!("get {key}\r\n").as_bytes()).unwrap();
        }
        tiered
            .sockets
            .until_true("waiting", || tiered.medium.waiting() > 0);
        let store = |line: String| String::from_utf8(request(&writer, line.as_bytes())).unwrap();
        assert_eq!(store(format!("set {set} 0 0 3\r\nnew\r\n")), "STORED\r\n");
        assert_eq!(store(format!("delete {deleted}\r\n")), "DELETED\r\n");
        assert_eq!(store(format!("delete {added}\r\n")), "DELETED\r\n");
        assert_eq!(store(format!("add {added} 0 0 3\r\nold\r\n")), "STORED\r\n");
        tiered.medium.hold(false);
        let expected =
            format!("VALUE {set} 0 3\r\nnew\r\nEND\r\nEND\r\nVALUE {added} 0 3\r\nold\r\nEND\r\n");
        assert_answer(&reader, &expected);
        tiered.sockets.running.stop().unwrap();
    });
}

#[test]
fn a_device_that_fails_makes_misses() {
    everywhere(|tiered| {
        let stream = tiered.sockets.connect();
        tiered.medium.state.lock().unwrap().fails = true;
        let [first, second] = [tiered.cold[0], tiered.cold[1]];
        assert_eq!(get(&stream, first), "END\r\n");
        let incr = request(&stream, format!("incr {second} 1\r\n").as_bytes());
        assert_eq!(incr, b"NOT_FOUND\r\n");
        tiered.medium.state.lock().unwrap().fails = false;
        assert_eq!(get(&stream, first), "END\r\n", "it is gone");
        assert_eq!(tiered.tier.statistics().reads_damaged, 2);
        tiered.sockets.running.stop().unwrap();
    });
}

#[test]
fn a_connection_that_closes_while_it_waits_leaves_nothing_behind() {
    everywhere(|tiered| {
        tiered.medium.hold(true);
        for &key in &tiered.cold[..20] {
            let stream = tiered.sockets.connect();
            stream.send(format!("get {key}\r\n").as_bytes()).unwrap();
            tiered
                .sockets
                .until_true("requested", || tiered.tier.statistics().reads_waiting > 0);
        }
        tiered.medium.hold(false);
        tiered
            .sockets
            .until_true("read", || tiered.tier.statistics().reads_waiting == 0);
        let stream = tiered.sockets.connect();
        let key = tiered.cold[30];
        assert_eq!(get(&stream, key), found(key) + "END\r\n");
        tiered.sockets.running.stop().unwrap();
    });
}

/// Peers that take no replies cannot hold the memory for records that are read.
#[test]
fn the_tier_is_read_for_a_peer_only_when_it_has_taken_its_replies() {
    let device: Box<dyn Device> = Box::new(MemoryDevice::new(SEGMENT * SEGMENTS));
    let rules = Rules {
        segment_bytes: Some(SEGMENT as u64),
        ..Rules::default()
    };
    let devices = vec![(device, (SEGMENT * SEGMENTS) as u64)];
    let tier = Arc::new(Tier::new(rules, 1, devices).unwrap());
    let mut service = cache(&Arc::new(Fragile::default()));
    let config = *service.store.config();
    service.store = Store::with_tier(config, Some(Arc::<Tier>::clone(&tier))).unwrap();
    service.tier = Some(Arc::new(Readers::start(&tier, 1).unwrap()));
    let mut worker = service.store.worker();
    let mut put = |key: &str, is_evicted: bool| {
        let hash = worker.hash(key.as_bytes());
        let write = Write::plain(Mode::Set, Expiry::NEVER);
        let put = worker.put(key.as_bytes(), hash, value(0).as_bytes(), &write, 1);
        assert!(matches!(put, Ok(Published::Stored { .. })));
        if is_evicted {
            worker.evict_everything(1);
        }
        worker.quiescent();
    };
    put("cold", true);
    put("hot", false);
    drop(worker);
    let mut server = Memory::new(&service, setup(Scheduler::Fair));
    let client = server.connect(64, None, 0);
    client.send(b"get hot\r\nget cold\r\n").unwrap();
    server.run(0);
    let statistics = tier.statistics();
    assert_eq!((statistics.reads_waiting, statistics.objects_read), (0, 0));
    let (mut reply, mut buffer) = (Vec::new(), [0; 64]);
    let deadline_ns = sys::clock::monotonic_ns() + 10_000_000_000;
    while !reply.ends_with(b"END\r\n") || reply.len() < 2 * value(0).len() {
        assert!(sys::clock::monotonic_ns() < deadline_ns, "{reply:?}");
        server.run(0);
        reply.extend(
            client
                .receive(&mut buffer)
                .map_or(&[][..], |len| &buffer[..len]),
        );
    }
    assert_eq!(tier.statistics().objects_read, 1);
    assert!(server.stop(0));
}
