//! One host: a network namespace and its address.

use std::ffi::OsStr;
use std::fs;
use std::io::{self, Write};
use std::net::Ipv4Addr;
use std::process::{Command, Stdio};

use sys::namespace::NetworkNamespace;

use super::error::Error;

/// A network namespace that stands for a host.
#[derive(Debug)]
pub struct Host {
    name: String,
    namespace: NetworkNamespace,
    ip: Ipv4Addr,
}

impl Host {
    /// Creates a host in which only the loopback device is up, and which will have the address
    /// `ip`.
    pub(super) fn new(name: String, ip: Ipv4Addr) -> Result<Self, Error> {
        let namespace =
            NetworkNamespace::new().map_err(Error::system("create a network namespace"))?;
        // Frames of the kernel's own would use up some of a relay's losses.
        namespace
            .disable_ipv6()
            .map_err(Error::system("disable IPv6 in a network namespace"))?;
        let host = Self {
            name,
            namespace,
            ip,
        };
        host.ip("link set lo up")?;
        Ok(host)
    }

    /// The address at which other hosts reach this one.
    #[must_use]
    pub fn ip_address(&self) -> Ipv4Addr {
        self.ip
    }

    /// A command that starts `program` on this host.
    #[must_use]
    pub fn command(&self, program: impl AsRef<OsStr>) -> Command {
        self.place(Command::new(program))
    }

    /// Makes `command` start its program on this host.
    #[must_use]
    pub fn place(&self, mut command: Command) -> Command {
        self.namespace.place(&mut command);
        command
    }

    /// Runs commands of `ip`, one a line, on this host.
    ///
    /// # Errors
    /// `ip` is missing, or a command fails.
    pub fn ip(&self, commands: &str) -> Result<(), Error> {
        let mut command = self.command("ip");
        command
            .args(["-batch", "-"])
            .stdin(Stdio::piped())
            .stdout(Stdio::null())
            .stderr(Stdio::piped());
        let mut child = command.spawn().map_err(|error| match error.kind() {
            io::ErrorKind::NotFound => Error::NoIp,
            _ => Error::system("start ip")(error),
        })?;
        let written = match child.stdin.take() {
            Some(mut pipe) => pipe.write_all(format!("{commands}\n").as_bytes()),
            None => Ok(()),
        };
        let output = child
            .wait_with_output()
            .map_err(Error::system("wait for ip"))?;
        if output.status.success() {
            // Only after the exit status: if `ip` fails, it may not read the rest.
            return written.map_err(Error::system("write to ip"));
        }
        let printed = String::from_utf8_lossy(&output.stderr);
        let lines: Vec<&str> = printed.lines().map(str::trim).collect();
        Err(Error::Ip {
            host: self.name.clone(),
            printed: lines.join(" | "),
        })
    }

    /// Lets outgoing connections use all ports from 1024. In the kernel's default range, a client
    /// with more connections than half of it, 14 116, searches all of that half for every further
    /// one: opening 15 360 took 3.5 s longer. Not for a host with servers: a connection to a port
    /// at which no server listens yet could come from that very port, and connect to itself.
    pub(super) fn use_all_ports(&self) -> Result<(), Error> {
        const RANGE: &str = "/proc/sys/net/ipv4/ip_local_port_range";
        let write = || fs::write(RANGE, "1024 65535");
        let written = self.namespace.run(write).and_then(|written| written);
        written.map_err(Error::system("set the ports of outgoing connections"))
    }

    pub(super) fn namespace(&self) -> &NetworkNamespace {
        &self.namespace
    }
}
