//! The processes of a memory pool, and servers whose items are in it.
#![allow(
    clippy::unwrap_used,
    clippy::missing_panics_doc,
    reason = "only tests use it, and a test may"
)]

use tempfile::TempDir;

use crate::client::Client;
use crate::pool_processes::{Network, Process, pool};
use crate::process::{self, Server};

/// A memory node with a file, and a metadata service, at loopback addresses of their own.
#[derive(Debug)]
pub struct Pool {
    network: Network,
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
        let mut pool = Self {
            network: Network::new(),
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
        let (memory, slab) = (self.memory, self.slab);
        let address = self.network.ip(2);
        let mut node = pool(&format!(
            "node --memory {memory} --slab {slab} --listen {address}"
        ));
        node.arg("--file").arg(self.folder.path().join("memory"));
        self.node = Some(Process::start(node, "serving").unwrap());
    }

    /// Starts the metadata service.
    pub fn start_metadata(&mut self) {
        let [node, address] = [2, 3].map(|last| self.network.ip(last));
        let metadata = pool(&format!("meta --lease 1s --listen {address} --node {node}"));
        self.metadata = Some(Process::start(metadata, "serving").unwrap());
    }

    /// Kills the memory node with SIGKILL.
    pub fn kill_node(&mut self) {
        self.node = None;
    }

    /// Kills the metadata service with SIGKILL.
    pub fn kill_metadata(&mut self) {
        self.metadata = None;
    }

    /// The address of the metadata service, for `--pool`.
    #[must_use]
    pub fn address(&self) -> String {
        self.network.ip(3).to_string()
    }

    /// Starts a server whose items are in this pool, and waits until it has reached the pool.
    #[must_use]
    pub fn server(&self) -> Server {
        let server = process::server(&["-t", "2", "--pool", &self.address()]);
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
