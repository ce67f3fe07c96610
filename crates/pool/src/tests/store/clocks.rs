//! Clocks that are wrong: a value has expired only when it has for every client.

use super::closing::{closing, expiring, is_stored};
use super::world::World;
use super::{SECOND_NS, call, quiet, read};
use crate::limits::EXPIRED_FOR_S;
use crate::{Client, MetadataConfig};

const HOUR_NS: u64 = 3600 * SECOND_NS;
/// By the clocks of clients that are right, which begin at 0.
const EXPIRY_S: u32 = 20;

fn an_hour_fast(config: MetadataConfig) -> MetadataConfig {
    MetadataConfig {
        unix_start_ns: HOUR_NS,
        sweep_ns: 10_000_000,
        ..closing(config)
    }
}

fn run_until_s(world: &mut World, unix_s: u64) {
    world.run_until(unix_s * SECOND_NS, |_| false);
}

fn store(world: &mut World, client: u8) {
    let stored = call(world, client, expiring("key", "value", EXPIRY_S));
    assert!(is_stored(&stored), "{stored:?}");
}

#[test]
fn a_service_whose_clock_is_fast_closes_no_chain_before_its_time() {
    let mut world = quiet(31);
    world.configure_metadata(an_hour_fast);
    world.start_client(10);
    store(&mut world, 10);
    run_until_s(&mut world, u64::from(EXPIRY_S) - 1);
    assert!(world.metadata().counters().swept > 100);
    assert_eq!(world.metadata().counters().closed, 0);
    assert_eq!(world.metadata().counters().clock_lag_s, 3600);
    assert_eq!(read(&mut world, 10, "key"), Some("value".into()));
    // One that starts again has heard no client yet.
    world.restart_metadata();
    world.run_for(SECOND_NS / 2);
    assert_eq!(read(&mut world, 10, "key"), Some("value".into()));
    run_until_s(&mut world, u64::from(EXPIRY_S) + EXPIRED_FOR_S - 1);
    assert_eq!(world.metadata().counters().closed, 0);
    run_until_s(&mut world, u64::from(EXPIRY_S) + EXPIRED_FOR_S + 2);
    assert_eq!(world.metadata().counters().closed, 1);
}

#[test]
fn the_slowest_clock_of_a_client_decides_while_it_has_a_lease() {
    let mut world = quiet(32);
    world.configure_metadata(an_hour_fast);
    world.start_client(10);
    let mut config = world.config(11);
    config.unix_start_ns = HOUR_NS;
    world.clients.insert(11, Client::new(config));
    let expiry_s = EXPIRY_S + 3600;
    let stored = call(&mut world, 11, expiring("key", "value", expiry_s));
    assert!(is_stored(&stored), "{stored:?}");
    run_until_s(&mut world, 100);
    assert_eq!(read(&mut world, 11, "key"), None, "it has expired here");
    assert_eq!(read(&mut world, 10, "key"), Some("value".into()));
    assert_eq!(world.metadata().counters().closed, 0);
    world.clients.remove(&10);
    // Its lease ends.
    run_until_s(&mut world, 110);
    assert_eq!(world.metadata().counters().closed, 1);
}

/// Without a client there is no clock to compare with.
#[test]
fn while_there_are_no_clients_nothing_expires() {
    let mut world = quiet(33);
    world.configure_metadata(an_hour_fast);
    world.start_client(10);
    store(&mut world, 10);
    world.clients.clear();
    run_until_s(&mut world, u64::from(EXPIRY_S) - 5);
    assert_eq!(world.metadata().clients(), 0, "its lease has ended");
    assert_eq!(world.metadata().counters().closed, 0);
    world.start_client(11);
    assert_eq!(read(&mut world, 11, "key"), Some("value".into()));
}
