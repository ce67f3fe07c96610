//! A pool on a network that loses, repeats, reorders and damages frames, and whose parts crash: in
//! virtual time, so that a seed decides everything.

mod clocks;
mod closing;
mod doubt;
mod full;
mod history;
mod takeover;
mod world;

use chain::{Kind, Link, Node};
use roce::endpoint::Memory;

use crate::layout::{self, START};
use crate::{Change, Client, Completion, Operation, OperationError, Outcome, Refusal};
use history::{History, change, delete, get, item, set};
use world::{Faults, Random, World};

const MILLISECOND_NS: u64 = 1_000_000;
const SECOND_NS: u64 = 1_000_000_000;
const MEMORY_LEN: usize = 4 << 20;
const SLAB_LEN: u32 = 16_384;

fn quiet(seed: u64) -> World {
    World::new(seed, Faults::default(), MEMORY_LEN, SLAB_LEN)
}

/// Does one operation, and waits for it.
fn call(world: &mut World, client: u8, operation: Operation) -> Result<Outcome, OperationError> {
    world.submit(client, u64::MAX, operation);
    let is_it = |(_, completion): &(u8, Completion)| completion.id == u64::MAX;
    world.run_until(u64::MAX, |world| world.completed.last().is_some_and(is_it));
    let (number, Completion { id, result }) = world.completed.pop().expect("a completion");
    assert_eq!((number, id), (client, u64::MAX));
    result
}

fn value_of(result: &Result<Outcome, OperationError>) -> Option<String> {
    match result {
        Ok(Outcome::Found(item)) => Some(String::from_utf8(item.content.value.clone()).unwrap()),
        Ok(Outcome::Missing) => None,
        other => panic!("{other:?}"),
    }
}

fn read(world: &mut World, client: u8, key: &str) -> Option<String> {
    let result = call(world, client, get(key));
    value_of(&result)
}

/// Closed loops of several clients, which begin again as their operations complete.
struct Load {
    random: Random,
    history: History,
    next_id: u64,
    keys: u64,
    writes: u64,
    /// Of ten writes.
    deletes: u64,
    value_len: usize,
}

impl Load {
    fn new(seed: u64, keys: u64) -> Self {
        Self {
            random: Random(seed ^ 0x5eed),
            history: History::default(),
            next_id: 1,
            keys,
            writes: 50,
            deletes: 1,
            value_len: 20,
        }
    }

    fn operation(&mut self) -> Operation {
        let key = format!("key{}", self.random.below(self.keys));
        let padding = "x".repeat(self.random.below(self.value_len as u64 + 1) as usize);
        let value = format!("{} {padding}", self.next_id);
        if self.random.below(100) >= self.writes {
            return get(&key);
        }
        match self.random.below(10) {
            choice if choice < self.deletes => delete(&key),
            6 => change(&key, Change::Replace(item(&value))),
            7 => change(&key, Change::Add(item(&value))),
            8 => change(&key, Change::Remove),
            _ => set(&key, &value),
        }
    }

    /// Keeps up to `depth` operations of each client going for a time.
    fn run(&mut self, world: &mut World, depth: usize, duration_ns: u64) {
        let end_ns = world.now_ns + duration_ns;
        while world.now_ns < end_ns {
            let numbers: Vec<u8> = world.clients.keys().copied().collect();
            for number in numbers {
                while world.clients[&number].pending() < depth {
                    let operation = self.operation();
                    self.history.begin(world.now_ns, self.next_id, &operation);
                    world.submit(number, self.next_id, operation);
                    self.next_id += 1;
                }
            }
            let pending = world.pending();
            world.run_until(end_ns, |world| world.pending() < pending);
            self.collect(world);
        }
    }

    fn collect(&mut self, world: &mut World) {
        for (_, completion) in std::mem::take(&mut world.completed) {
            self.history.end(world.now_ns, &completion);
        }
    }

    /// Reads every key at the end, and checks everything.
    fn finish(&mut self, world: &mut World) {
        world.finish();
        self.collect(world);
        let numbers: Vec<u8> = world.clients.keys().copied().collect();
        for number in numbers {
            for key in 0..self.keys {
                let operation = get(&format!("key{key}"));
                self.history.begin(world.now_ns, self.next_id, &operation);
                world.submit(number, self.next_id, operation);
                self.next_id += 1;
            }
            world.finish();
            self.collect(world);
        }
        self.history.check();
    }
}

#[test]
fn what_one_client_stores_others_read() {
    let mut world = quiet(1);
    for number in [10, 11] {
        world.start_client(number);
    }
    assert_eq!(read(&mut world, 11, "a"), None);
    let stored = call(&mut world, 10, set("a", "1"));
    assert!(matches!(stored, Ok(Outcome::Stored(_))), "{stored:?}");
    assert_eq!(read(&mut world, 11, "a"), Some("1".into()));
    for value in ["2", "3", "4"] {
        call(&mut world, 10, set("a", value)).unwrap();
    }
    assert_eq!(read(&mut world, 11, "a"), Some("4".into()));
    call(&mut world, 11, delete("a")).unwrap();
    assert_eq!(read(&mut world, 10, "a"), None);
    call(&mut world, 11, set("a", "5")).unwrap();
    assert_eq!(read(&mut world, 10, "a"), Some("5".into()));
}

#[test]
fn many_clients_that_start_together_find_no_full_pool() {
    let mut world = quiet(2);
    for number in 10..50 {
        world.start_client(number);
        world.submit(number, 1, set(&format!("key{number}"), "value"));
    }
    world.finish();
    assert_eq!(world.completed.len(), 40);
    for (number, completion) in &world.completed {
        let is_stored = matches!(completion.result, Ok(Outcome::Stored(_)));
        assert!(is_stored, "{number}: {:?}", completion.result);
    }
}

#[test]
fn changes_depend_on_what_is_there() {
    let mut world = quiet(2);
    for number in [10, 11] {
        world.start_client(number);
    }
    let refused = |refusal| Ok(Outcome::Refused(refusal));
    let add = |value| change("a", Change::Add(item(value)));
    let replace = change("a", Change::Replace(item("0")));
    assert_eq!(call(&mut world, 10, replace), Ok(Outcome::Missing));
    assert!(matches!(
        call(&mut world, 10, add("1")),
        Ok(Outcome::Stored(_))
    ));
    assert_eq!(call(&mut world, 11, add("2")), refused(Refusal::Exists));
    let Ok(Outcome::Found(found)) = call(&mut world, 11, get("a")) else {
        panic!("it is there");
    };
    let swap = |value| {
        let unique = found.unique;
        let item = item(value);
        change("a", Change::CompareSwap { unique, item })
    };
    assert!(matches!(
        call(&mut world, 11, swap("3")),
        Ok(Outcome::Stored(_))
    ));
    assert_eq!(call(&mut world, 10, swap("4")), refused(Refusal::Different));
    let Ok(Outcome::Stored(sum)) = call(&mut world, 10, change("a", Change::Increment(4))) else {
        panic!("it is a number");
    };
    assert_eq!(sum.content.value, b"7");
    call(&mut world, 11, change("a", Change::Append(b"!".to_vec()))).unwrap();
    let increment = call(&mut world, 10, change("a", Change::Increment(4)));
    assert_eq!(increment, refused(Refusal::NotANumber));
    assert_eq!(read(&mut world, 10, "a"), Some("7!".into()));
    let removed = call(&mut world, 10, change("a", Change::Remove));
    assert!(matches!(removed, Ok(Outcome::Stored(_))));
    let removed = call(&mut world, 11, change("a", Change::Remove));
    assert_eq!(removed, Ok(Outcome::Missing));
}

#[test]
fn an_expired_value_is_missing() {
    let mut world = quiet(3);
    world.start_client(10);
    let mut new = item("short");
    new.expiry_s = 5;
    let action = crate::Action::Set(new);
    let operation = Operation {
        key: b"a".to_vec(),
        action,
    };
    call(&mut world, 10, operation).unwrap();
    assert_eq!(read(&mut world, 10, "a"), Some("short".into()));
    call(&mut world, 10, change("a", Change::Touch { expiry_s: 9 })).unwrap();
    world.run_until(8 * SECOND_NS, |_| false);
    assert_eq!(read(&mut world, 10, "a"), Some("short".into()));
    world.run_until(9 * SECOND_NS, |_| false);
    assert_eq!(read(&mut world, 10, "a"), None);
}

#[test]
fn values_up_to_a_slab_are_stored_and_longer_ones_refused() {
    let mut world = quiet(4);
    for number in [10, 11] {
        world.start_client(number);
    }
    let most = SLAB_LEN as usize - chain::node_len(1, 0);
    for len in [0, 1, 1000, 5000, most] {
        let value = "v".repeat(len);
        call(&mut world, 10, set("a", &value)).unwrap();
        assert_eq!(read(&mut world, 11, "a"), Some(value), "of {len} bytes");
    }
    let longer = call(&mut world, 10, set("a", &"v".repeat(most + 1)));
    assert_eq!(longer, Ok(Outcome::Refused(Refusal::TooLong)));
}

#[test]
fn increments_of_all_clients_are_counted_once_each() {
    let faults = Faults {
        lost: 30,
        repeated: 30,
        late: 30,
        damaged: 10,
    };
    let mut world = World::new(5, faults, MEMORY_LEN, SLAB_LEN);
    for number in 10..14 {
        world.start_client(number);
    }
    call(&mut world, 10, set("n", "0")).unwrap();
    for round in 0..50 {
        for number in 10..14 {
            let id = round * 100 + u64::from(number);
            world.submit(number, id, change("n", Change::Increment(1)));
        }
    }
    world.finish();
    let stored =
        |(_, completion): &(u8, Completion)| matches!(completion.result, Ok(Outcome::Stored(_)));
    assert!(world.completed.iter().all(stored));
    assert_eq!(world.completed.len(), 200);
    assert_eq!(read(&mut world, 12, "n"), Some("200".into()));
}

#[test]
fn on_a_bad_network_every_history_is_possible() {
    for seed in 0..30 {
        let mut random = Random(seed);
        let mut chance = || {
            if random.below(2) == 0 {
                0
            } else {
                random.below(80)
            }
        };
        let faults = Faults {
            lost: chance(),
            repeated: chance(),
            late: chance(),
            damaged: chance(),
        };
        let mut world = World::new(seed, faults, MEMORY_LEN, SLAB_LEN);
        for number in 10..14 {
            world.start_client(number);
        }
        let mut load = Load::new(seed, 1 + seed % 5);
        load.run(&mut world, 2, 20 * MILLISECOND_NS);
        load.finish(&mut world);
        let failed = load.history.results().filter(|result| result.is_err());
        assert_eq!(failed.count(), 0, "seed {seed}");
    }
}

#[test]
fn crashes_lose_nothing_that_was_acknowledged() {
    for seed in 0..30 {
        let faults = Faults {
            lost: seed % 20,
            repeated: 5,
            late: 10,
            damaged: 2,
        };
        let mut world = World::new(seed, faults, MEMORY_LEN, SLAB_LEN);
        for number in 10..14 {
            world.start_client(number);
        }
        let mut load = Load::new(seed, 3);
        let mut random = Random(seed ^ 0xc4a5);
        for _ in 0..6 {
            load.run(&mut world, 2, random.below(8) * MILLISECOND_NS);
            match random.below(4) {
                0 => world.restart_node(),
                1 => world.restart_metadata(),
                2 => world.start_client(10 + random.below(4) as u8),
                _ => {
                    // Longer than a lease.
                    world.paused = Some(10 + random.below(4) as u8);
                    load.run(&mut world, 2, 3 * MILLISECOND_NS);
                    world.run_for(5 * SECOND_NS);
                    load.run(&mut world, 2, 3 * MILLISECOND_NS);
                    world.paused = None;
                }
            }
        }
        load.run(&mut world, 2, 5 * MILLISECOND_NS);
        load.finish(&mut world);
        assert_eq!(world.metadata().error(), None);
    }
}

/// The words of the memory that belong to nodes of a key: its anchor, and the chain behind it.
fn chain_of(world: &World, key: &str) -> Vec<Link> {
    let layout = layout::format(&mut world.memory.clone(), MEMORY_LEN as u64, SLAB_LEN).unwrap();
    let from = |address: u64| &world.memory.bytes[(address - START) as usize..];
    let mut at = None;
    let mut address = layout.slab(0);
    while address < layout.slab(layout.slabs) {
        if let Ok(node) = Node::parse(from(address))
            && node.kind == Kind::Anchor
            && node.key == key.as_bytes()
            && node.own.address() == address
        {
            at = Some(node.own);
        }
        address += 8;
    }
    let mut nodes = Vec::new();
    while let Some(link) = at {
        assert!(!nodes.contains(&link), "a cycle: {nodes:?}");
        nodes.push(link);
        let node = Node::parse(from(link.address())).expect("an intact node");
        assert_eq!((node.own, node.key), (link, key.as_bytes()));
        at = node.next.node();
    }
    nodes
}

/// Slabs without anchors are passed one by one when the service reads the memory.
#[test]
fn a_pool_of_very_many_slabs_starts() {
    let mut world = World::new(12, Faults::default(), 256 << 20, 4096);
    world.start_client(10);
    call(&mut world, 10, set("a", "1")).unwrap();
    world.restart_metadata();
    assert_eq!(read(&mut world, 10, "a"), Some("1".into()));
    assert_eq!(world.metadata().error(), None);
}

#[test]
fn slots_of_old_nodes_are_used_again() {
    // Memory for about 300 nodes of this length, and three slabs for anchors and others.
    let mut world = World::new(6, Faults::default(), 600_000, SLAB_LEN);
    for number in [10, 11] {
        world.start_client(number);
    }
    let value = "v".repeat(1000);
    for round in 0..3000 {
        let key = format!("key{}", round % 7);
        let stored = call(&mut world, 10 + (round % 2) as u8, set(&key, &value));
        assert!(
            matches!(stored, Ok(Outcome::Stored(_))),
            "{round}: {stored:?}"
        );
    }
    let counters = world.metadata().counters();
    assert!(counters.freed > 2000, "{counters:?}");
    // Chains are short, because anchors move on.
    world.run_for(SECOND_NS);
    for key in 0..7 {
        assert_eq!(chain_of(&world, &format!("key{key}")).len(), 2);
    }
}

#[test]
fn a_full_pool_refuses_writes_and_still_reads() {
    let mut world = World::new(7, Faults::default(), 200_000, SLAB_LEN);
    world.start_client(10);
    let value = "v".repeat(4000);
    let mut stored = 0;
    let full = loop {
        match call(&mut world, 10, set(&format!("key{stored}"), &value)) {
            Ok(_) => stored += 1,
            Err(error) => break error,
        }
    };
    assert_eq!(full, OperationError::Full);
    assert!(stored > 10, "{stored}");
    for number in 0..stored {
        assert_eq!(
            read(&mut world, 10, &format!("key{number}")),
            Some(value.clone())
        );
    }
}

#[test]
fn memory_of_a_client_that_crashed_is_used_by_others() {
    let mut world = World::new(8, Faults::default(), 600_000, SLAB_LEN);
    let value = "v".repeat(1000);
    // Each takes at least one slab, and crashes with a write in progress.
    for round in 0..100_u64 {
        world.start_client(10);
        let key = format!("key{}", round % 5);
        let stored = call(&mut world, 10, set(&key, &format!("{round} {value}")));
        assert!(
            matches!(stored, Ok(Outcome::Stored(_))),
            "{round}: {stored:?}"
        );
        world.submit(10, 1, set(&key, &format!("{round} {value} again")));
        world.run_for(round * 1000);
        world.clients.clear();
        world.completed.clear();
        // Longer than a lease and an audit.
        world.run_for(4 * SECOND_NS);
    }
    assert!(world.metadata().counters().audited > 50);
    world.start_client(11);
    for key in 0..5 {
        let found = read(&mut world, 11, &format!("key{key}")).expect("it was stored");
        assert!(found.starts_with(&format!("{} v", 95 + key)), "{found}");
    }
}

/// The ABA problem: a client remembers a tail whose slot is used again, even for the same key.
#[test]
fn aba_a_stale_tail_neither_links_into_a_foreign_chain_nor_is_read() {
    let mut world = quiet(9);
    for number in [10, 11] {
        let mut config = world.config(number);
        config.heartbeat_ns = MILLISECOND_NS;
        world.clients.insert(number, Client::new(config));
    }
    call(&mut world, 10, set("stale", "old")).unwrap();
    assert_eq!(read(&mut world, 11, "stale"), Some("old".into()));
    let old = *chain_of(&world, "stale").last().unwrap();
    // Client 10 writes until the slot has had nodes of other keys and of this one.
    let mut holders = std::collections::BTreeSet::new();
    let mut random = Random(9);
    for _ in 0..5000 {
        let key = ["stale", "b", "c"][random.below(3) as usize];
        call(&mut world, 10, set(key, "new")).unwrap();
        let mut bytes = [0; 128];
        world.memory.read(old.address(), &mut bytes);
        let node = Node::parse(&bytes).unwrap();
        if node.own != old {
            holders.insert(node.key.to_vec());
        }
        let is_foreign = node.own != old && node.key == b"b" && node.next == node.own.empty();
        if holders.len() == 3 && is_foreign {
            break;
        }
    }
    assert_eq!(holders.len(), 3, "the slot was used for every key");
    let before = chain_of(&world, "b");
    // Client 11 still has the tail `old` for the key "stale".
    call(&mut world, 11, set("stale", "newest")).unwrap();
    assert_eq!(chain_of(&world, "b"), before, "nothing was linked there");
    assert_eq!(read(&mut world, 10, "stale"), Some("newest".into()));
    assert_eq!(read(&mut world, 10, "b"), Some("new".into()));
    assert_eq!(read(&mut world, 11, "b"), Some("new".into()));
}

#[test]
fn a_write_that_was_in_doubt_when_the_memory_node_crashed_is_found() {
    let mut found = 0;
    for seed in 0..200 {
        let mut world = quiet(seed);
        world.start_client(10);
        call(&mut world, 10, set("a", "1")).unwrap();
        // The node crashes at any time within the write, which takes two round trips.
        world.submit(10, 2, set("a", "2"));
        world.run_for(seed * 300);
        world.restart_node();
        world.finish();
        let (_, completion) = world.completed.pop().unwrap();
        assert!(
            matches!(completion.result, Ok(Outcome::Stored(_))),
            "{completion:?}"
        );
        world.run_for(SECOND_NS);
        assert_eq!(read(&mut world, 10, "a"), Some("2".into()));
        found += usize::from(world.clients[&10].counters().swaps == 2);
        world.run_for(SECOND_NS);
        assert_eq!(chain_of(&world, "a").len(), 2, "it was linked once");
    }
    assert!(
        found > 20,
        "crashes hit answers of compare-and-swaps: {found}"
    );
}

#[test]
fn a_client_that_was_paused_beyond_its_lease_links_nothing() {
    let mut world = quiet(10);
    for number in [10, 11] {
        world.start_client(number);
    }
    call(&mut world, 10, set("a", "1")).unwrap();
    call(&mut world, 11, set("a", "2")).unwrap();
    world.submit(10, 5, set("a", "3"));
    // Its WRITE is on its way.
    world.run_for(15_000);
    world.paused = Some(10);
    world.run_for(10 * SECOND_NS);
    assert_eq!(world.metadata().counters().expired, 1);
    assert_eq!(read(&mut world, 11, "a"), Some("2".into()));
    world.paused = None;
    world.finish();
    assert_eq!(world.clients[&10].counters().expired, 1);
    let (_, completion) = world.completed.pop().unwrap();
    // It was done again with a new lease, or failed as it took too long.
    let last = match completion.result {
        Ok(_) => "3",
        Err(OperationError::Unavailable) => "2",
        other => panic!("{other:?}"),
    };
    assert_eq!(read(&mut world, 11, "a"), Some(last.into()));
}

#[test]
fn state_does_not_grow() {
    let mut world = quiet(11);
    for number in 10..13 {
        let mut config = world.config(number);
        config.heartbeat_ns = MILLISECOND_NS;
        world.clients.insert(number, Client::new(config));
    }
    let mut load = Load::new(11, 10);
    load.writes = 90;
    load.run(&mut world, 2, 40 * MILLISECOND_NS);
    let slabs = world.metadata().counters().slabs;
    load.run(&mut world, 2, 160 * MILLISECOND_NS);
    let counters = world.metadata().counters();
    let more = counters.slabs - slabs;
    assert!(
        more <= slabs / 4,
        "{more} more slabs after {slabs}: {counters:?}"
    );
    assert!(counters.freed > 5_000, "{counters:?}");
    assert_eq!(world.node().queue_pairs(), 4);
}
