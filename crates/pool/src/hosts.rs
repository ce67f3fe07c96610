//! Network namespaces as the hosts of a pool, on one machine.
//!
//! ```text
//! clients  c0 ══ s0 ┐
//! metadata t0 ══ s1 ┼ switch ─ s2 ══ mc middlebox mn ══ n0 memory
//! ```
//!
//! Metadata service and clients reach each other by the switch, which is a bridge of the kernel,
//! and the memory node through the middlebox only. No device has an IP address, so that the kernel
//! answers nothing. All ends with the processes that refer to it.

use std::io;
use std::process::Command;

use sys::namespace::NetworkNamespace;

/// A host.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Host {
    /// The switch between clients, metadata service and middlebox.
    Switch,
    /// All clients.
    Clients,
    /// The metadata service.
    Metadata,
    /// The middlebox.
    Middlebox,
    /// The memory node.
    Memory,
}

/// Devices of the hosts: of clients, of the metadata service, of the middlebox towards clients and
/// towards memory, of the memory node, and of the switch towards the middlebox.
pub mod device {
    #![allow(missing_docs, reason = "described above")]
    pub const CLIENTS: &str = "c0";
    pub const METADATA: &str = "t0";
    pub const TO_CLIENTS: &str = "mc";
    pub const TO_MEMORY: &str = "mn";
    pub const MEMORY: &str = "n0";
    pub const SWITCH: &str = "s2";
}

/// Number of hosts, each of which is a network namespace.
pub const HOSTS: usize = ALL.len();

const ALL: [Host; 5] = [
    Host::Switch,
    Host::Clients,
    Host::Metadata,
    Host::Middlebox,
    Host::Memory,
];
/// Two ends of each link.
const LINKS: [(Host, &str, Host, &str); 4] = [
    (Host::Switch, "s0", Host::Clients, device::CLIENTS),
    (Host::Switch, "s1", Host::Metadata, device::METADATA),
    (
        Host::Switch,
        device::SWITCH,
        Host::Middlebox,
        device::TO_CLIENTS,
    ),
    (
        Host::Middlebox,
        device::TO_MEMORY,
        Host::Memory,
        device::MEMORY,
    ),
];

/// The hosts, joined.
#[derive(Debug)]
pub struct Hosts {
    /// In the order of `ALL`.
    namespaces: Vec<NetworkNamespace>,
}

impl Hosts {
    /// Creates the hosts and joins them, with an MTU that has space for the longest packets.
    ///
    /// # Errors
    /// `PermissionDenied`: namespaces need root. `Unsupported`: this machine has no bridges, or no
    /// `ip` (iproute2).
    pub fn open() -> io::Result<Self> {
        let namespaces: io::Result<_> = ALL.iter().map(|_| NetworkNamespace::new()).collect();
        let hosts = Self {
            namespaces: namespaces?,
        };
        for namespace in &hosts.namespaces {
            namespace.disable_ipv6()?;
        }
        let unsupported = |error: io::Error| io::Error::new(io::ErrorKind::Unsupported, error);
        // With snooping, a bridge sends reports of its own.
        hosts
            .ip(Host::Switch, "link add bridge type bridge mcast_snooping 0")
            .map_err(unsupported)?;
        for (one, device, other, peer) in LINKS {
            let there = hosts.namespace(other).path();
            let there = there.display();
            let link = format!("link add {device} type veth peer name {peer} netns {there}");
            hosts.ip(one, &link)?;
            for (host, device) in [(one, device), (other, peer)] {
                hosts.ip(host, &format!("link set {device} mtu 4400 up"))?;
            }
            if one == Host::Switch {
                hosts.ip(one, &format!("link set {device} master bridge"))?;
            }
        }
        hosts.ip(Host::Switch, "link set bridge up")?;
        Ok(hosts)
    }

    /// Whether an error of [`Hosts::open`] means that this process may not create hosts, or that
    /// this machine cannot.
    pub fn is_unavailable(error: &io::Error) -> bool {
        use io::ErrorKind::{NotFound, PermissionDenied, Unsupported};
        matches!(error.kind(), PermissionDenied | Unsupported | NotFound)
    }

    /// The namespace of a host.
    pub fn namespace(&self, host: Host) -> &NetworkNamespace {
        &self.namespaces[host as usize]
    }

    /// Runs `ip` (iproute2) with these words on a host.
    ///
    /// # Errors
    /// It does not start, or fails: then the error has what it printed.
    pub fn ip(&self, host: Host, words: &str) -> io::Result<()> {
        let run = || Command::new("ip").args(words.split(' ')).output();
        let output = self.namespace(host).run(run)??;
        if output.status.success() {
            return Ok(());
        }
        let printed = String::from_utf8_lossy(&output.stderr);
        let message = format!("ip {words}: {}", printed.trim_end());
        Err(io::Error::other(message))
    }
}
