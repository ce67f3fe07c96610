//! A server in the server's namespace of [`Hosts`], for benchmarks of the runtime `bypass` beside
//! servers over the kernel's sockets.

use std::net::{Ipv4Addr, SocketAddr};
use std::process::{Child, Command, ExitStatus};
use std::thread;
use std::time::{Duration, Instant};

use anyhow::{Result, bail};
use hosts::Hosts;

use crate::process::wait;

const PORT: u16 = 11211;
/// An address that the client reaches through the server's device, and that the kernel does not
/// have.
const BYPASS_IP: Ipv4Addr = Ipv4Addr::new(192, 0, 2, 9);
/// The server's device.
const DEVICE: &str = "client0";
/// The longest wait for one attempt to connect.
const ATTEMPT: Duration = Duration::from_secs(1);
/// The pause between two attempts.
const PAUSE: Duration = Duration::from_millis(5);

/// Adds the flags of a server with one worker: 64 MiB, and the address, which is returned. With
/// `is_bypass` it is one that the kernel does not have.
pub fn add_flags(command: &mut Command, hosts: &Hosts, is_bypass: bool) -> SocketAddr {
    command.args(["-t", "1", "-m", "64", "-p", &PORT.to_string()]);
    let ip = match is_bypass {
        true => BYPASS_IP,
        false => hosts.server_ip(),
    };
    match is_bypass {
        true => command.args(["--interface", DEVICE, "--address", &format!("{ip}/24")]),
        false => command.args(["-l", &ip.to_string()]),
    };
    SocketAddr::from((ip, PORT))
}

/// A server, which is killed when this value is dropped.
#[derive(Debug)]
pub struct HostServer(Child);

impl HostServer {
    /// Starts a command of the server's namespace, and waits until it accepts a connection from the
    /// client's.
    ///
    /// # Errors
    /// The process cannot be started, ends, or accepts no connection within the timeout.
    pub fn start(
        mut command: Command,
        hosts: &Hosts,
        address: SocketAddr,
        timeout: Duration,
    ) -> Result<Self> {
        let mut server = Self(command.spawn()?);
        let deadline = Instant::now() + timeout;
        while hosts.connect_from_client(0, address, ATTEMPT).is_err() {
            if let Some(status) = server.0.try_wait()? {
                bail!("the server has ended ({status})");
            }
            if Instant::now() > deadline {
                bail!("the server does not answer");
            }
            thread::sleep(PAUSE);
        }
        Ok(server)
    }

    /// The process.
    #[must_use]
    pub fn pid(&self) -> u32 {
        self.0.id()
    }

    /// Tells the server to end, and waits for it.
    ///
    /// # Errors
    /// It cannot be told, or does not end.
    pub fn end(&mut self) -> Result<ExitStatus> {
        sys::child::terminate(self.pid())?;
        wait(&mut self.0)
    }
}

impl Drop for HostServer {
    fn drop(&mut self) {
        // Both calls fail if the process has ended, which is not an error here.
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}
