//! The generator's carriers against real servers: a connection for each request, and UDP.
// The helpers of tests may panic and print, as tests may.
#![allow(clippy::unwrap_used)]

use std::net::{Ipv4Addr, SocketAddr};

use curtail_tests::peer::Address;
use curtail_tests::process::{Server, at_free_address, memcached, memcached_command, server};
use load::{CarrierKind, Config, Protocol, Rate, Summary};

fn config(address: SocketAddr, carrier: CarrierKind) -> Config {
    let mut config = Config::new(load::Target::Tcp(address));
    config.rate = Rate::PerSecond(1000.0);
    config.connections = 8;
    (config.warmup_ns, config.duration_ns) = (100_000_000, 500_000_000);
    (config.records, config.value_len_max, config.spin) = (200, 20_000, false);
    (config.carrier, config.timeout_ns) = (carrier, 2_000_000_000);
    config.mix = Some(
        "get=60,set=10,delete=5,cas=10,read-through=15"
            .parse()
            .unwrap(),
    );
    config
}

fn run(config: &Config) -> Summary {
    let summary = load::run(config, |_| ()).unwrap();
    let failed = summary.failures.total();
    assert_eq!(
        summary.intended,
        summary.answered + failed + summary.censored
    );
    assert_eq!((summary.errors, summary.censored), (0, 0), "{summary:?}");
    summary
}

fn count(summary: &Summary, operation: &str) -> u64 {
    let mut operations = summary.operations.iter();
    let found = operations.find(|it| it.operation == operation);
    found.map_or(0, |it| it.count)
}

#[test]
fn a_server_answers_a_connection_for_each_request() {
    let server = server(&[]);
    let Address::Tcp(address) = server.address else {
        panic!("asked for a port");
    };
    for protocol in [Protocol::Text, Protocol::Meta] {
        let mut config = config(address, CarrierKind::OneShot);
        config.protocol = protocol;
        load::prefill(&config, |_| ()).unwrap();
        let summary = run(&config);
        assert_eq!(summary.failures.total(), 0, "{summary:?}");
        let carrier = summary.carrier.as_ref().unwrap();
        assert!(carrier.opened >= summary.answered);
        // Each value that was found is written back, and each that was not is filled.
        assert!(count(&summary, "cas") > 0 && count(&summary, "fill") > 0);
        let sum = count(&summary, "cas") + count(&summary, "fill");
        assert_eq!(summary.follow_ups, sum);
    }
}

#[test]
fn memcached_answers_over_udp() {
    let Some(path) = memcached() else {
        eprintln!("skipped: memcached is not installed");
        return;
    };
    let started = at_free_address(Ipv4Addr::LOCALHOST, |address| {
        let mut command = memcached_command(&path);
        let port = address.port().to_string();
        command.args(["-l", "127.0.0.1", "-p", &port, "-U", &port]);
        Ok((Server::at(command, Address::Tcp(address))?, address))
    });
    let (_server, address) = started.unwrap();
    for protocol in [Protocol::Text, Protocol::Meta] {
        let mut config = config(address, CarrierKind::Udp);
        (config.protocol, config.depth) = (protocol, 4);
        // Such a value comes in several datagrams.
        config.values = "uniform:1,20000".parse().unwrap();
        load::prefill(&config, |_| ()).unwrap();
        let summary = run(&config);
        // A busy machine may lose datagrams, and says so.
        assert!(
            summary.failures.timed_out * 50 < summary.intended,
            "{summary:?}"
        );
        assert!(summary.hits * 10 > summary.gets * 9, "{summary:?}");
        assert_eq!(summary.carrier.unwrap().malformed, 0);
    }
}
