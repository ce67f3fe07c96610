//! Metadata services that begin while the one before has not ended: only the last has any effect.

use chain::Next;
use roce::endpoint::Memory;

use super::closing::{closing, is_stored};
use super::history::{delete, set};
use super::world::{Faults, World};
use super::{Load, MEMORY_LEN, MILLISECOND_NS, SECOND_NS, SLAB_LEN, call, chain_of, quiet, read};
use crate::{MetadataError, OperationError};

/// The last byte of the address of the first service.
const FORMER: u8 = 2;

/// Lets the service that was paused go on just when the memory node has started again, and knows of
/// no connection.
fn continue_former(world: &mut World) {
    world.paused = None;
    world.restart_node();
    world.run_for(SECOND_NS);
}

fn former_error(world: &World) -> Option<MetadataError> {
    world.former.as_ref().expect("a service").error()
}

#[test]
fn a_service_that_was_replaced_while_it_was_paused_closes_no_chain() {
    for step in 0..30_u64 {
        let mut world = quiet(100 + step);
        world.configure_metadata(closing);
        world.start_client(10);
        for key in ["key", "other"] {
            assert!(is_stored(&call(&mut world, 10, set(key, "first"))));
        }
        assert!(is_stored(&call(&mut world, 10, delete("key"))));
        world.run_for(step * 40_000);
        world.clients.clear();
        world.paused = Some(FORMER);
        // With enough memory, so that it closes no chains, and does not find closed ones.
        world.replace_metadata(|config| config);
        world.start_client(11);
        assert_eq!(read(&mut world, 11, "other"), Some("first".into()));
        continue_former(&mut world);
        let stored = call(&mut world, 11, set("key", "second"));
        assert!(is_stored(&stored), "{step}: {stored:?}");
        assert_eq!(read(&mut world, 11, "key"), Some("second".into()), "{step}");
        assert_eq!(
            former_error(&world),
            Some(MetadataError::Superseded),
            "{step}"
        );
        assert_eq!(world.metadata().error(), None);
    }
}

/// It has written an anchor, and does not know it. Written again, it would have no chain behind it.
#[test]
fn a_service_that_was_replaced_while_it_was_paused_makes_no_chain() {
    let mut replaced = 0;
    for step in 0..30_u64 {
        let mut world = quiet(200 + step);
        for number in [10, 11] {
            world.start_client(number);
            assert!(is_stored(&call(&mut world, number, set("known", "first"))));
        }
        world.submit(10, 1, set("new", "lost"));
        world.submit(11, 1, set("newer", "lost"));
        world.run_for(step * 2000);
        world.clients.clear();
        world.completed.clear();
        world.paused = Some(FORMER);
        world.replace_metadata(|config| config);
        world.start_client(12);
        for key in ["new", "newer"] {
            assert!(is_stored(&call(&mut world, 12, set(key, "second"))));
        }
        continue_former(&mut world);
        replaced += usize::from(former_error(&world).is_some());
        world.start_client(13);
        for key in ["new", "newer"] {
            assert_eq!(
                read(&mut world, 13, key),
                Some("second".into()),
                "{step} {key}"
            );
            assert_eq!(chain_of(&world, key).len(), 2, "{step} {key}");
        }
    }
    // One with nothing in progress does not know it.
    assert!(replaced > 10, "{replaced}");
}

#[test]
fn of_services_that_begin_together_one_remains() {
    let mut replaced = [0, 0];
    for seed in 0..20 {
        let faults = Faults {
            lost: seed % 4 * 50,
            repeated: 20,
            late: 20,
            damaged: 5,
        };
        let mut world = World::new(seed, faults, MEMORY_LEN, SLAB_LEN);
        world.start_client(10);
        assert!(is_stored(&call(&mut world, 10, set("stays", "value"))));
        world.clients.clear();
        world.configure_metadata(closing);
        world.run_for(seed * 2000);
        world.replace_metadata(closing);
        if seed % 3 == 0 {
            world.run_for(50_000);
            world.restart_node();
        }
        world.run_for(SECOND_NS);
        let errors = [former_error(&world), world.metadata().error()];
        let count = errors.iter().flatten().count();
        assert_eq!(count, 1, "seed {seed}: {errors:?}");
        replaced[usize::from(errors[1].is_some())] += 1;
        if errors[1].is_none() {
            let mut load = Load::new(seed, 3);
            world.start_client(10);
            load.run(&mut world, 2, 5 * MILLISECOND_NS);
            load.finish(&mut world);
        }
    }
    assert!(replaced[0] > 0, "{replaced:?}");
}

/// The memory node forgets which clients it has disconnected. A client whose lease comes from a
/// service that has been replaced must not write to slabs that are another's now.
#[test]
fn a_client_of_a_service_that_was_replaced_writes_nothing_when_the_node_has_started_again() {
    let mut world = quiet(7);
    world.start_client(10);
    assert!(is_stored(&call(&mut world, 10, set("old", "first"))));
    world.replace_metadata(|config| config);
    world.start_client(11);
    // Its client has a lease, but is disconnected by the present one, and others get its slabs.
    world.run_for(10 * SECOND_NS);
    assert!(world.metadata().counters().audited > 0);
    let keys = || (0..600).map(|number| format!("key{number}"));
    for key in keys() {
        assert!(is_stored(&call(&mut world, 11, set(&key, "value"))));
    }
    world.restart_node();
    for number in 0..50 {
        world.submit(10, number, set("old", "lost"));
    }
    world.run_for(20 * SECOND_NS);
    world.completed.clear();
    for key in keys() {
        assert_eq!(read(&mut world, 11, &key), Some("value".into()), "{key}");
    }
}

/// Whatever has closed it: a service learns from a client that a chain has ended.
#[test]
fn a_chain_that_a_client_has_found_closed_is_read_before_it_is_named_again() {
    let mut world = quiet(8);
    for number in [10, 11] {
        world.start_client(number);
    }
    assert!(is_stored(&call(&mut world, 10, set("key", "first"))));
    assert!(is_stored(&call(&mut world, 11, delete("key"))));
    world.run_for(SECOND_NS);
    let nodes = chain_of(&world, "key");
    let last = nodes.last().expect("a node");
    world
        .memory
        .write(last.address(), &Next::Closed.word().to_le_bytes());
    let lookups = world.clients[&10].counters().lookups;
    let stored = call(&mut world, 10, set("key", "second"));
    assert_ne!(stored, Err(OperationError::Contended));
    assert!(is_stored(&stored), "{stored:?}");
    let more = world.clients[&10].counters().lookups - lookups;
    assert!(more < 5, "{more}");
    assert_eq!(read(&mut world, 11, "key"), Some("second".into()));
    assert_eq!(world.metadata().counters().closed, 1);
}

/// The first service of each memory is the first one: only what is drawn distinguishes them.
#[test]
fn a_service_of_a_memory_that_was_lost_does_nothing_to_the_next_one() {
    for step in 0..10_u64 {
        let mut world = quiet(300 + step);
        world.start_client(10);
        assert!(is_stored(&call(&mut world, 10, set("old", "first"))));
        world.submit(10, 1, set("older", "lost"));
        world.run_for(step * 2000);
        world.clients.clear();
        world.completed.clear();
        world.paused = Some(FORMER);
        world.lose_memory(SLAB_LEN);
        world.replace_metadata(|config| config);
        world.start_client(11);
        assert_eq!(read(&mut world, 11, "old"), None);
        for key in ["older", "new"] {
            assert!(is_stored(&call(&mut world, 11, set(key, "second"))));
        }
        continue_former(&mut world);
        world.run_for(30 * SECOND_NS);
        assert_eq!(world.metadata().error(), None, "{step}");
        // One with something in progress has connected, and seen that its memory is another.
        if let Some(error) = former_error(&world) {
            assert_eq!(error, MetadataError::OtherMemory, "{step}");
        }
        world.start_client(12);
        for key in ["older", "new"] {
            let value = read(&mut world, 12, key);
            assert_eq!(value, Some("second".into()), "{step} {key}");
            assert_eq!(chain_of(&world, key).len(), 2, "{step} {key}");
        }
    }
}

/// The numbers of clients begin again with a new memory, so the lease of one would be another's.
#[test]
fn a_lease_of_a_memory_that_was_lost_ends_with_the_first_request() {
    for step in 0..10_u64 {
        let mut world = quiet(400 + step);
        // Client 10 has made more requests than client 11 will have.
        for (number, keys) in [(10, 100), (11, 1)] {
            world.start_client(number);
            for key in 0..keys {
                let stored = call(&mut world, number, set(&format!("{number}:{key}"), "first"));
                assert!(is_stored(&stored));
            }
        }
        // Client 11 is heard first, and has the number of client 10.
        world.paused = Some(10);
        world.lose_memory(SLAB_LEN);
        world.restart_metadata();
        for key in 0..20 {
            let stored = call(&mut world, 11, set(&format!("new:{key}"), "second"));
            assert!(is_stored(&stored), "{step} {key}: {stored:?}");
        }
        world.paused = None;
        for key in 0..60 {
            world.submit(10, key, set(&format!("other:{key}"), "third"));
        }
        world.run_for(SECOND_NS);
        // Long before its own clock would have ended it.
        assert!(world.clients[&10].counters().expired > 0, "{step}");
        world.run_for(step * 100_000 + 5 * SECOND_NS);
        world.start_client(12);
        for key in 0..20 {
            let key = format!("new:{key}");
            assert_eq!(
                read(&mut world, 12, &key),
                Some("second".into()),
                "{step} {key}"
            );
        }
        // It has registered again, and works.
        assert!(is_stored(&call(&mut world, 10, set("last", "fourth"))));
        assert_eq!(read(&mut world, 11, "last"), Some("fourth".into()));
    }
}
