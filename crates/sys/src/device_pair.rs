//! For tests of packet sockets: two devices that are connected.

use std::process::Command;

use crate::namespace::NetworkNamespace;

/// Runs `ip` (iproute2) with words that contain no spaces. Returns whether it succeeds.
pub(crate) fn ip(words: &str) -> bool {
    let status = Command::new("ip").args(words.split(' ')).status();
    status.is_ok_and(|status| status.success())
}

/// A namespace with the two ends of a device pair, `one` with an address and `two` without. `None`
/// if this process may not create it.
pub(crate) fn device_pair() -> Option<NetworkNamespace> {
    let namespace = NetworkNamespace::new()
        .inspect_err(|error| eprintln!("skipped: network namespaces: {error}"))
        .ok()?;
    namespace.disable_ipv6().unwrap();
    let configure = || {
        ip("link add one type veth peer name two")
            && ip("link set one up")
            && ip("link set two up")
            && ip("address add 192.0.2.1/24 dev one")
            && ip("neighbour add 192.0.2.2 lladdr 02:00:00:00:00:02 dev one nud permanent")
    };
    let configured = namespace.run(configure).unwrap();
    if !configured {
        eprintln!("skipped: ip (iproute2) cannot create a device pair");
    }
    configured.then_some(namespace)
}
