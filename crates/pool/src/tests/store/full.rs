//! Operations that wait for memory, and what they keep meanwhile.

use super::closing::{fill, is_stored};
use super::history::{change, set};
use super::world::{Faults, World};
use super::{MILLISECOND_NS, SECOND_NS, SLAB_LEN, call};
use crate::limits::{EXPIRED_FOR_S, WAITING_DRAFTS_LEN_MAX};
use crate::{Change, Client, MetadataConfig, OperationError, Outcome};

/// A write must not keep back what is closed so that it can go on.
#[test]
fn a_write_that_waits_gets_the_memory_of_chains_that_are_closed_meanwhile() {
    let mut world = World::new(41, Faults::default(), 400_000, SLAB_LEN);
    world.configure_metadata(|config| MetadataConfig {
        sweep_ns: 50 * MILLISECOND_NS,
        ..config
    });
    world.start_client(10);
    let expiry_s = 60;
    let first = fill(&mut world, "first", expiry_s);
    assert!(first > 30, "{first}");
    world.run_until((u64::from(expiry_s) + EXPIRED_FOR_S) * SECOND_NS, |_| false);
    let value = "v".repeat(4000);
    for number in 0..first / 2 {
        let stored = call(&mut world, 10, set(&format!("second{number}"), &value));
        assert!(is_stored(&stored), "{number}: {stored:?}");
    }
}

/// Slots that come with the reply that there is no slab are used before an operation is refused.
#[test]
fn no_operation_is_refused_that_has_just_got_a_slot() {
    let mut world = World::new(42, Faults::default(), 200_000, SLAB_LEN);
    let mut config = world.config(10);
    config.refusals_max = 0;
    world.clients.insert(10, Client::new(config));
    let value = "w".repeat(4000);
    // One slot more than keys, which comes back after each write.
    for _ in 0..2 {
        assert!(is_stored(&call(&mut world, 10, set("key", &value))));
    }
    fill(&mut world, "other", 0);
    let mut refused = 0;
    for step in 0..160_u64 {
        world.run_for(200 * MILLISECOND_NS);
        let stored = call(&mut world, 10, set("key", &value));
        assert!(is_stored(&stored), "{step}: {stored:?}");
        world.run_for(step * MILLISECOND_NS / 2);
        if call(&mut world, 10, set("key", &value)) != Err(OperationError::Full) {
            continue;
        }
        refused += 1;
        // If it has a slot now, it is stored without a request to the metadata service.
        let before = world.metadata().counters().requests;
        let again = call(&mut world, 10, set("key", &value));
        let has_requested = world.metadata().counters().requests > before;
        assert!(has_requested, "{step}: {again:?}");
    }
    assert!(refused > 20, "{refused}");
}

#[test]
fn values_of_changes_that_wait_for_memory_are_bounded() {
    let mut world = World::new(43, Faults::default(), 8 << 20, 1 << 20);
    let mut config = world.config(10);
    config.outstanding_max = 4;
    world.clients.insert(10, Client::new(config));
    let value = "v".repeat(900_000);
    let stored = (0..100).take_while(|number| {
        let key = format!("key{number}");
        is_stored(&call(&mut world, 10, set(&key, &value)))
    });
    assert!(stored.count() > 2);
    for id in 0..40 {
        world.submit(10, id, change("key0", Change::Append(vec![b'v'])));
    }
    let mut most = 0;
    while world.pending() > 0 {
        world.run_for(MILLISECOND_NS / 10);
        most = most.max(world.clients[&10].draft_bytes());
    }
    let going_on = 4 * (value.len() + 1);
    assert!(most > 2 * going_on, "others wait: {most}");
    assert!(most <= WAITING_DRAFTS_LEN_MAX + going_on, "{most}");
    assert!(world.clients[&10].counters().changes_refused > 10);
    let is_known = |result: &Result<Outcome, OperationError>| {
        is_stored(result) || *result == Err(OperationError::Full)
    };
    assert_eq!(world.completed.len(), 40);
    assert!(world.completed.iter().all(|(_, it)| is_known(&it.result)));
}
