//! Network namespaces for servers of the runtime `bypass`, which need a device of their own.
//!
//! ```text
//! namespace of the server        namespace of the test's thread
//! server (no address) ═════════════ peerN 10.77.N.2/24
//! ```

use std::cell::RefCell;
use std::fs;
use std::net::{Ipv4Addr, SocketAddr};
use std::path::Path;
use std::process::Command;

use anyhow::{Context, Result, bail};
use runtime::bypass::Interface;
use sys::namespace::NetworkNamespace;

/// The name of a server's device.
const DEVICE: &str = "server";
const PORT: u16 = 11211;

thread_local! {
    /// The namespace of this thread, and the number of servers that it has.
    static OWN: RefCell<Option<(NetworkNamespace, u8)>> = const { RefCell::new(None) };
}

/// The namespace of a server, with a device towards the namespace of the thread that has created
/// it.
#[derive(Debug)]
pub struct DevicePair {
    server: NetworkNamespace,
    /// The address that the server is to have.
    pub address: SocketAddr,
}

impl DevicePair {
    /// Creates a namespace for a server. The first call of a thread moves this thread, and those
    /// that it starts later, to a namespace of their own.
    ///
    /// # Errors
    /// This process may not create namespaces, or there is no `ip` (iproute2).
    pub fn new() -> Result<Self> {
        let (own, number) = own_namespace()?;
        let server = NetworkNamespace::new().context("create a network namespace")?;
        server.disable_ipv6()?;
        let there = server.path();
        let net = number;
        server.run(|| ip("link set lo up"))??;
        own.run(|| connect(&there, net))??;
        server.run(|| ip(&format!("link set {DEVICE} up")))??;
        let address = SocketAddr::from((Ipv4Addr::new(10, 77, net, 1), PORT));
        Ok(Self { server, address })
    }

    /// Makes `command`, a `curtail serve --runtime bypass`, start with the device.
    pub fn place(&self, command: &mut Command) {
        let port = self.address.port().to_string();
        command.args(["--interface", DEVICE, "-p", &port]);
        command.args(["--address", &format!("{}/24", self.address.ip())]);
        self.enter(command);
    }

    /// Opens the device for a server with one worker within this process.
    ///
    /// # Errors
    /// This process may not.
    pub fn open(&self) -> Result<Interface> {
        let SocketAddr::V4(address) = self.address else {
            bail!("the address is not one of IPv4");
        };
        let (ip, port) = (*address.ip(), address.port());
        let interface = self.server.run(|| Interface::open(DEVICE, ip, 24, port, 1));
        Ok(interface??)
    }

    /// Makes `command` start in the namespace of the server.
    pub fn enter(&self, command: &mut Command) {
        self.server.place(command);
    }
}

/// Whether this process may create device pairs, or why not.
///
/// # Errors
/// The reason.
pub fn probe() -> Result<()> {
    std::thread::spawn(|| DevicePair::new().map(drop))
        .join()
        .unwrap_or_else(|_| bail!("the thread in the namespace panicked"))
}

/// Returns the namespace of this thread, and the number of the next server.
fn own_namespace() -> Result<(NetworkNamespace, u8)> {
    OWN.with_borrow_mut(|own| {
        if let Some((namespace, number)) = own {
            *number = number.checked_add(1).context("too many servers")?;
            return Ok((namespace.clone(), *number));
        }
        let namespace = NetworkNamespace::new().context("create a network namespace")?;
        namespace.disable_ipv6()?;
        namespace.run(|| ip("link set lo up"))??;
        namespace.enter().context("enter a network namespace")?;
        *own = Some((namespace.clone(), 0));
        Ok((namespace, 0))
    })
}

/// Creates the devices, and sets the client's up.
fn connect(server: &Path, number: u8) -> Result<()> {
    let server = server.display();
    ip(&format!(
        "link add peer{number} type veth peer name {DEVICE} netns {server}"
    ))?;
    // The kernel asks for the server's hardware address before the server is there, and asks again
    // after this time, by default a second.
    let asks_again_ms = format!("/proc/sys/net/ipv4/neigh/peer{number}/retrans_time_ms");
    fs::write(asks_again_ms, "20").context("ask for hardware addresses more often")?;
    ip(&format!("address add 10.77.{number}.2/24 dev peer{number}"))?;
    ip(&format!("link set peer{number} up"))
}

fn ip(words: &str) -> Result<()> {
    let output = Command::new("ip").args(words.split(' ')).output();
    let output = output.context("start ip (iproute2)")?;
    if !output.status.success() {
        bail!("ip {words}: {}", String::from_utf8_lossy(&output.stderr));
    }
    Ok(())
}
