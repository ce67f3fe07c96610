//! The processes of a memory pool, and servers whose items are in it.
#![allow(
    clippy::unwrap_used,
    clippy::missing_panics_doc,
    reason = "only tests use it, and a test may"
)]

use std::net::Ipv4Addr;
use std::process::{Child, Command, Stdio};
use std::sync::atomic::{AtomicU8, Ordering};

use sys::child::{Bounds, bind};
use tempfile::TempDir;

use crate::client::Client;
use crate::process::{Server, curtail, curtail_path};

/// Number of this process's pools so far.
static POOLS: AtomicU8 = AtomicU8::new(0);

/// A process that is killed when dropped.
#[derive(Debug)]
struct Process(Child);

impl Process {
    fn start(arguments: &[&str]) -> Self {
        let mut command = Command::new(curtail_path());
        command.args(arguments).stdin(Stdio::null());
        command.stdout(Stdio::null());
        let bounds = Bounds {
            dies_with_parent: true,
            ..Bounds::default()
        };
        bind(&mut command, &bounds).unwrap();
        Self(command.spawn().unwrap())
    }
}

impl Drop for Process {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

/// A memory node with a file, and a metadata service, at loopback addresses of their own.
#[derive(Debug)]
pub struct Pool {
    node_address: Ipv4Addr,
    metadata_address: Ipv4Addr,
    memory: &'static str,
    slab: &'static str,
    folder: TempDir,
    node: Option<Process>,
    metadata: Option<Process>,
}

impl Pool {
    /// Starts both. `memory` is the size of the memory.
    #[must_use]
    pub fn start(memory: &'static str) -> Self {
        Self::with_slabs(memory, "256KiB")
    }

    /// Starts both, with slabs of another size. Values are shorter than a slab.
    #[must_use]
    pub fn with_slabs(memory: &'static str, slab: &'static str) -> Self {
        // Addresses that differ from those of other tests, as far as their process ids differ.
        let [_, _, high, low] = std::process::id().to_be_bytes();
        let number = POOLS.fetch_add(1, Ordering::Relaxed);
        assert!(number < 100, "too many pools for the addresses");
        let address = |last| Ipv4Addr::new(127, 128 | high, low, last);
        let mut pool = Self {
            node_address: address(1 + 2 * number),
            metadata_address: address(2 + 2 * number),
            memory,
            slab,
            folder: tempfile::tempdir().unwrap(),
            node: None,
            metadata: None,
        };
        pool.start_node();
        pool.start_metadata();
        pool
    }

    /// Starts the memory node, which continues with its file.
    pub fn start_node(&mut self) {
        let file = self.folder.path().join("memory");
        let address = self.node_address.to_string();
        let sizes = ["--memory", self.memory, "--slab", self.slab];
        let places = ["--file", file.to_str().unwrap(), "--listen", &address];
        let arguments = [&["pool", "node"], &sizes[..], &places].concat();
        self.node = Some(Process::start(&arguments));
    }

    /// Starts the metadata service.
    pub fn start_metadata(&mut self) {
        let (address, node) = (
            self.metadata_address.to_string(),
            self.node_address.to_string(),
        );
        let places = ["--listen", &address, "--node", &node];
        let arguments = [&["pool", "meta", "--lease", "1s"][..], &places].concat();
        self.metadata = Some(Process::start(&arguments));
    }

    /// Kills the memory node with SIGKILL.
    pub fn kill_node(&mut self) {
        self.node = None;
    }

    /// Kills the metadata service with SIGKILL.
    pub fn kill_metadata(&mut self) {
        self.metadata = None;
    }

    /// Starts a server whose items are in this pool, and waits until it has reached the pool.
    #[must_use]
    pub fn server(&self) -> Server {
        let server = Server::tcp(|| {
            let mut command = curtail();
            let address = self.metadata_address.to_string();
            command.args(["-t", "2", "--pool", &address]);
            command
        });
        let server = server.unwrap();
        wait_until_ready(&server);
        server
    }
}

/// Waits until all clients of a server have reached the pool.
pub fn wait_until_ready(server: &Server) {
    let mut client = Client::connect(&server.address).unwrap();
    let clients = client.stat("pool_clients").unwrap();
    let is_all = |ready| ready == clients;
    client.stat_until("pool_clients_ready", is_all).unwrap();
}
