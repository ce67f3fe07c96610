//! Keys without a value, whose chains end while clients read and write them.

use chain::{Link, Next, Node};

use super::history::{change, delete, get, set};
use super::world::{Faults, World};
use super::{Load, MILLISECOND_NS, SECOND_NS, SLAB_LEN, call, chain_of, quiet, read};
use crate::layout::START;
use crate::limits::EXPIRED_FOR_S;
use crate::{Change, MetadataConfig, NewItem, Operation, OperationError, Outcome};

/// Looks for dead chains all the time, and very often.
pub(crate) fn closing(config: MetadataConfig) -> MetadataConfig {
    MetadataConfig {
        sweep_ns: 100_000,
        sweep_below_percent: 100,
        advance_ns: 50_000,
        ..config
    }
}

pub(crate) fn expiring(key: &str, value: &str, expiry_s: u32) -> Operation {
    let mut operation = set(key, value);
    if let crate::Action::Set(item) = &mut operation.action {
        item.expiry_s = expiry_s;
    }
    operation
}

pub(crate) fn is_stored(result: &Result<Outcome, OperationError>) -> bool {
    matches!(result, Ok(Outcome::Stored(_)))
}

/// Stores values in new keys until the pool is full. Returns how many.
pub(crate) fn fill(world: &mut World, prefix: &str, expiry_s: u32) -> u32 {
    let value = "v".repeat(4000);
    for number in 0.. {
        let operation = expiring(&format!("{prefix}{number}"), &value, expiry_s);
        match call(world, 10, operation) {
            Ok(_) => {}
            Err(OperationError::Full) => return number,
            Err(error) => panic!("{error:?}"),
        }
    }
    unreachable!()
}

#[test]
fn a_pool_full_of_expired_values_takes_others() {
    let mut world = World::new(21, Faults::default(), 400_000, SLAB_LEN);
    world.start_client(10);
    assert!(is_stored(&call(&mut world, 10, set("stays", "value"))));
    let expiry_s = (world.now_ns / SECOND_NS) as u32 + 60;
    let first = fill(&mut world, "first", expiry_s);
    assert!(first > 30, "{first}");
    // Not yet: clocks of clients may be slow.
    let over_ns = u64::from(expiry_s) * SECOND_NS;
    world.run_until(over_ns + SECOND_NS, |_| false);
    assert_eq!(fill(&mut world, "too early", 0), 0);
    let counters = world.metadata().counters();
    assert!(
        counters.closed < 5,
        "only those whose first write was refused: {counters:?}"
    );
    assert!(counters.swept > 0, "{counters:?}");
    world.run_until(over_ns + EXPIRED_FOR_S * SECOND_NS, |_| false);
    // The first one waits for two passes.
    let second = fill(&mut world, "second", 0);
    assert!(second + 5 > first, "{second} of {first}");
    assert_eq!(read(&mut world, 10, "first0"), None);
    assert_eq!(read(&mut world, 10, "stays"), Some("value".into()));
    let counters = world.metadata().counters();
    assert!(counters.closed >= u64::from(first), "{counters:?}");
}

#[test]
fn deleted_keys_give_their_memory_back() {
    let mut world = World::new(22, Faults::default(), 600_000, SLAB_LEN);
    world.start_client(10);
    // An anchor and a tombstone a key would fill the memory twice.
    for number in 0..10_000 {
        let key = format!("key{number}");
        let stored = call(&mut world, 10, set(&key, "value"));
        assert!(is_stored(&stored), "{number}: {stored:?}");
        assert!(is_stored(&call(&mut world, 10, delete(&key))));
        if number % 100 == 0 {
            world.run_for(SECOND_NS);
        }
    }
    let counters = world.metadata().counters();
    assert!(counters.closed > 5_000, "{counters:?}");
}

/// A client that knows the last node of a chain that was closed and whose slots are used again.
#[test]
fn a_stale_client_writes_to_the_next_chain_of_a_key() {
    for is_read in [false, true] {
        let mut world = quiet(23);
        world.configure_metadata(closing);
        for number in [10, 11] {
            world.start_client(number);
        }
        assert!(is_stored(&call(&mut world, 10, set("key", "first"))));
        assert_eq!(read(&mut world, 11, "key"), Some("first".into()));
        assert!(is_stored(&call(&mut world, 10, delete("key"))));
        assert_eq!(read(&mut world, 11, "key"), None);
        let last = *chain_of(&world, "key").last().expect("a node");
        world.run_for(100 * MILLISECOND_NS);
        assert_eq!(world.metadata().counters().closed, 1);
        for _ in 0..1000 {
            assert!(is_stored(&call(&mut world, 10, set("other", ""))));
        }
        assert_ne!(own_at(&world, last), last, "its slot is used again");
        if is_read {
            assert_eq!(read(&mut world, 11, "key"), None);
        }
        assert!(is_stored(&call(&mut world, 11, set("key", "second"))));
        assert_eq!(read(&mut world, 10, "key"), Some("second".into()));
        let added = call(
            &mut world,
            10,
            change("key", Change::Add(NewItem::default())),
        );
        assert!(matches!(added, Ok(Outcome::Refused(_))), "{added:?}");
        assert_eq!(chain_of(&world, "key").len(), 2);
    }
}

/// The service ends at any point of closing a chain, and another one goes on.
#[test]
fn a_service_that_crashes_while_it_closes_chains_leaves_none_that_cannot_be_written() {
    let mut half_closed = 0;
    for step in 0..120_u64 {
        let mut world = quiet(24 + step);
        world.configure_metadata(closing);
        world.start_client(10);
        assert!(is_stored(&call(&mut world, 10, set("key", "first"))));
        assert!(is_stored(&call(&mut world, 10, delete("key"))));
        world.run_for(step * 20_000);
        let nodes = chain_of(&world, "key");
        half_closed += usize::from(nodes.len() > 1 && is_closed(&world, nodes[nodes.len() - 1]));
        // A service with enough memory, whose passes would otherwise find the chain.
        world.configure_metadata(|config| config);
        world.start_client(11);
        let stored = call(&mut world, 11, set("key", "second"));
        assert!(is_stored(&stored), "{step}: {stored:?}");
        assert_eq!(read(&mut world, 10, "key"), Some("second".into()), "{step}");
        world.restart_metadata();
        world.start_client(12);
        assert_eq!(read(&mut world, 12, "key"), Some("second".into()), "{step}");
    }
    assert!(half_closed > 0, "no service has ended between both steps");
}

fn node_at(world: &World, link: Link) -> Node<'_> {
    let node = Node::parse(&world.memory.bytes[(link.address() - START) as usize..]);
    node.expect("an intact node")
}

fn is_closed(world: &World, link: Link) -> bool {
    node_at(world, link).next == Next::Closed
}

/// The link of the node that has the slot now.
fn own_at(world: &World, link: Link) -> Link {
    node_at(world, link).own
}

/// Chains end and begin again all the time, on a bad network and with crashes.
#[test]
fn histories_are_possible_while_chains_are_closed() {
    let mut closed = 0;
    for seed in 0..20 {
        let faults = Faults {
            lost: seed % 20,
            repeated: 5 * (seed % 2),
            late: 10 * (seed % 3),
            damaged: 2 * (seed % 2),
        };
        let mut world = World::new(seed, faults, super::MEMORY_LEN, SLAB_LEN);
        world.configure_metadata(closing);
        for number in 10..13 {
            world.start_client(number);
        }
        let mut load = Load::new(seed, 12);
        load.deletes = 5;
        for round in 0..4 {
            load.run(
                &mut world,
                1 + (round + seed as usize) % 2,
                15 * MILLISECOND_NS,
            );
            match (seed + round as u64) % 5 {
                0 => {
                    closed += world.metadata().counters().closed;
                    world.restart_metadata();
                }
                1 => world.restart_node(),
                2 => world.run_for(20 * MILLISECOND_NS),
                _ => {}
            }
        }
        load.finish(&mut world);
        closed += world.metadata().counters().closed;
    }
    assert!(closed > 100, "{closed}");
}

#[test]
fn a_chain_whose_key_has_a_value_is_not_closed() {
    let mut world = quiet(25);
    world.configure_metadata(closing);
    world.start_client(10);
    assert!(is_stored(&call(&mut world, 10, set("key", "value"))));
    world.run_for(SECOND_NS);
    let before: Vec<Link> = chain_of(&world, "key");
    assert_eq!(before.len(), 2);
    assert_eq!(world.metadata().counters().closed, 0, "it has a value");
    assert_eq!(call(&mut world, 10, get("none")).unwrap(), Outcome::Missing);
    assert!(world.metadata().counters().swept > 1000);
}
