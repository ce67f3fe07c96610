//! Servers and generator on two hosts of one machine: the client and the servers in one network
//! namespace, the generator in another, and a pair of devices between them (`lab::hosts`).
//!
//! Over loopback, the sender also does the receiver's half of the network's work, and a receiver's
//! timers run on the processor on which its packets arrived. The delayed acknowledgements of the
//! generator's thousand connections, due after 40 ms, are then sent from the *server's* processor,
//! a dozen or two in each tick of the timer, and the server waits meanwhile. On two hosts, received
//! packets are handled on the processors of their own host.

use anyhow::{Context, Result};
use curtail_tests::process;
use lab::hosts::{Hosts, Layout};

/// Creates the two hosts, and moves this thread to that of the servers. Call it before this program
/// has other threads.
pub(crate) fn two(server_cpu: usize, client_cpu: usize) -> Result<Hosts> {
    // Building the program may need the network that this thread is about to leave.
    process::curtail_path();
    let layout = Layout {
        clients: 1,
        link: None,
    };
    let hosts = Hosts::open(&layout, &[server_cpu], &[client_cpu]).context("--two-hosts")?;
    hosts.enter_server().context("--two-hosts")?;
    Ok(hosts)
}

/// The part of a table's title that names several hosts.
pub(crate) fn title(hosts: &Hosts) -> &'static str {
    match hosts {
        Hosts::One => "",
        Hosts::Star(_) => ", on two hosts",
    }
}
