//! A memory pool on hosts of its own ([`pool::hosts`]), for tests.

use anyhow::{Context, Result};
use pool::hosts::{Host, Hosts, device};
use sys::packet::PacketSocket;

use crate::pool_processes::{Process, next_instance, pool as command};

/// Bytes of frames that the kernel keeps for each capturing socket.
const BUFFER_LEN: usize = 64 << 20;

/// The hosts.
#[derive(Debug)]
pub struct PoolHosts(Hosts);

impl PoolHosts {
    /// Creates the hosts. `None` if this process may not, or if this machine cannot; the reason is
    /// printed then.
    ///
    /// # Errors
    /// They cannot be joined, though the first steps were possible.
    #[expect(clippy::print_stderr, reason = "a test must report what it skips")]
    pub fn open() -> Result<Option<Self>> {
        match Hosts::open() {
            Ok(hosts) => Ok(Some(Self(hosts))),
            Err(error) if Hosts::is_unavailable(&error) => {
                eprintln!("skipped: hosts of a pool: {error}");
                Ok(None)
            }
            Err(error) => Err(error.into()),
        }
    }

    /// Starts `curtail pool` with these words on a host, and waits for a line that begins so.
    fn start(&self, host: Host, words: &str, ready: &str) -> Result<Process> {
        let mut command = command(words);
        self.0.namespace(host).place(&mut command);
        Process::start(command, ready)
    }

    /// Starts the memory node.
    ///
    /// # Errors
    /// It does not start.
    pub fn start_node(&self) -> Result<Process> {
        let words = format!(
            "node --listen 192.0.2.2 --device {} --memory 64MiB",
            device::MEMORY
        );
        self.start(Host::Memory, &words, "serving")
    }

    /// Starts the metadata service.
    ///
    /// # Errors
    /// It does not start.
    pub fn start_metadata(&self) -> Result<Process> {
        let words = format!(
            "meta --listen 192.0.2.3 --device {} --node 192.0.2.2",
            device::METADATA
        );
        self.start(Host::Metadata, &words, "serving")
    }

    /// Starts the middlebox with further words.
    ///
    /// # Errors
    /// It does not start.
    pub fn start_middlebox(&self, words: &str) -> Result<Process> {
        let words = format!(
            "middlebox --client-device {} --memory-device {} --instance {} {words}",
            device::TO_CLIENTS,
            device::TO_MEMORY,
            next_instance()
        );
        self.start(Host::Middlebox, &words, "steering")
    }

    /// Starts clients with further words, and waits until they measure.
    ///
    /// # Errors
    /// They do not start, or cannot store the keys.
    pub fn start_bench(&self, words: &str) -> Result<Process> {
        let words = format!(
            "bench --meta 192.0.2.3 --from 192.0.2.10 --device {} {words}",
            device::CLIENTS
        );
        self.start(Host::Clients, &words, "measuring")
    }

    /// Runs `ip` (iproute2) with these words on a host.
    ///
    /// # Errors
    /// It fails.
    pub fn ip(&self, host: Host, words: &str) -> Result<()> {
        Ok(self.0.ip(host, words)?)
    }

    /// Sockets that receive what arrives at the middlebox from clients and from the memory node,
    /// and what arrives from it at the switch and at the memory node.
    ///
    /// # Errors
    /// They cannot be opened.
    pub fn capture(&self) -> Result<[PacketSocket; 4]> {
        let open = |host: Host, device: &str| -> Result<PacketSocket> {
            let namespace = self.0.namespace(host);
            let opened = namespace.run(|| PacketSocket::open(device, BUFFER_LEN))?;
            opened.with_context(|| format!("open {device}"))
        };
        Ok([
            open(Host::Middlebox, device::TO_CLIENTS)?,
            open(Host::Middlebox, device::TO_MEMORY)?,
            open(Host::Switch, device::SWITCH)?,
            open(Host::Memory, device::MEMORY)?,
        ])
    }
}
