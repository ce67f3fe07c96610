//! The generator's carriers and the binary protocol against real servers.

use std::net::{Ipv4Addr, SocketAddr};
use std::process::Command;

use curtail_tests::peer::Address;
use curtail_tests::process::{
    Server, at_free_address, curtail, memcached, memcached_command, server,
};
use curtail_tests::runtimes::{Runtime, runtime};
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
    for protocol in PROTOCOLS {
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

/// The address of a server that answers TCP and UDP at the same port.
fn with_udp(command: impl Fn() -> Command) -> (Server, SocketAddr) {
    let started = at_free_address(Ipv4Addr::LOCALHOST, |address| {
        let mut command = command();
        let port = address.port().to_string();
        command.args(["-l", "127.0.0.1", "-p", &port, "-U", &port]);
        Ok((Server::at(command, Address::Tcp(address))?, address))
    });
    started.unwrap()
}

/// Offers requests over UDP, some of whose values come in several datagrams.
fn offer_over_udp(address: SocketAddr, protocol: Protocol) {
    let mut config = config(address, CarrierKind::Udp);
    (config.protocol, config.depth) = (protocol, 4);
    config.values = "uniform:1,20000".parse().unwrap();
    load::prefill(&config, |_| ()).unwrap();
    let summary = run(&config);
    // A busy machine may lose datagrams, and says so.
    assert!(
        summary.failures.timed_out * 50 < summary.intended,
        "{summary:?}"
    );
    // Of 200 keys some 25 are deleted, and stay absent until a late value is written back.
    assert!(summary.hits * 10 > summary.gets * 8, "{summary:?}");
    assert_eq!(summary.carrier.unwrap().malformed, 0);
}

const PROTOCOLS: [Protocol; 3] = [Protocol::Text, Protocol::Meta, Protocol::Binary];

#[test]
fn a_server_answers_over_udp() {
    if runtime() == Runtime::Bypass {
        eprintln!("skipped: it serves no datagrams");
        return;
    }
    let (_server, address) = with_udp(curtail);
    for protocol in PROTOCOLS {
        offer_over_udp(address, protocol);
    }
}

#[test]
fn memcached_answers_over_udp() {
    let Some(path) = memcached() else {
        eprintln!("skipped: memcached is not installed");
        return;
    };
    let (_server, address) = with_udp(|| memcached_command(&path));
    for protocol in PROTOCOLS {
        offer_over_udp(address, protocol);
    }
}

/// Every operation in the binary protocol, with several requests outstanding.
fn offer_frames(server: &Server) {
    let Address::Tcp(address) = server.address else {
        panic!("asked for a port");
    };
    let mut config = config(address, CarrierKind::Stream);
    (config.protocol, config.depth) = (Protocol::Binary, 4);
    let mix = "get=30,multiget=10,set=10,add=5,replace=5,append=2,prepend=2,delete=5,cas=10,\
               read-through=10,incr=3,decr=3,touch=3,gat=2";
    config.mix = Some(mix.parse().unwrap());
    load::prefill(&config, |_| ()).unwrap();
    let summary = run(&config);
    assert_eq!(summary.failures.total(), 0, "{summary:?}");
    assert!(summary.hits * 10 > summary.gets * 7, "{summary:?}");
    for operation in ["multiget", "cas", "add", "fill", "incr", "touch"] {
        assert!(count(&summary, operation) > 0, "{operation}: {summary:?}");
    }
}

#[test]
fn a_server_answers_frames() {
    offer_frames(&server(&["-B", "binary"]));
}

#[test]
fn memcached_answers_frames() {
    let Some(path) = memcached() else {
        eprintln!("skipped: memcached is not installed");
        return;
    };
    let server = Server::tcp(|| {
        let mut command = memcached_command(&path);
        command.args(["-B", "binary"]);
        command
    });
    offer_frames(&server.unwrap());
}
