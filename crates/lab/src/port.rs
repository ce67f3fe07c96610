//! Ports for servers, a new one for each trial.
//!
//! They lie below the kernel's range for outgoing connections. After a few trials of 15 360
//! connections that range is full of connections in TIME_WAIT, and a server could not listen on its
//! ports. A new port per trial also separates a trial's connections from those left by the previous
//! trial.

use std::sync::atomic::{AtomicU32, Ordering};

use crate::error::Error;
use crate::limits;
use hosts::Hosts;

/// The kernel's port range for outgoing connections.
const RANGE: &str = "/proc/sys/net/ipv4/ip_local_port_range";
const LOWEST: u16 = 10_240;

/// Number of ports assigned by this process, so that a port in use is not assigned again.
static ASSIGNED: AtomicU32 = AtomicU32::new(0);

/// The next port on which a server can listen, on the server's host.
pub(crate) fn next(hosts: &Hosts) -> Result<u16, Error> {
    let range = std::fs::read_to_string(RANGE).unwrap_or_default();
    let outgoing = range
        .split_whitespace()
        .next()
        .and_then(|it| it.parse().ok());
    let end = outgoing
        .unwrap_or(32_768_u16)
        .max(LOWEST + limits::PORT_TRIES);
    // Concurrent labs start at different ports.
    let offset = std::process::id().wrapping_mul(97);
    next_below(end, offset, hosts)
}

fn next_below(end: u16, offset: u32, hosts: &Hosts) -> Result<u16, Error> {
    let count = u32::from(end - LOWEST);
    let mut refused = std::io::Error::from(std::io::ErrorKind::AddrInUse);
    for _ in 0..limits::PORT_TRIES {
        let nth = ASSIGNED
            .fetch_add(1, Ordering::Relaxed)
            .wrapping_add(offset)
            % count;
        // The count is at most what lies between LOWEST and the largest port.
        let port = LOWEST + u16::try_from(nth).unwrap_or(0);
        match hosts.listen(port) {
            Ok(_) => return Ok(port),
            Err(error) => refused = error,
        }
    }
    let (tries, last) = (limits::PORT_TRIES, end - 1);
    let text = format!(
        "{refused}, at {tries} attempts in {LOWEST} to {last}: end what listens there, or raise the \
         first number of {RANGE}, below which these ports lie"
    );
    let source = std::io::Error::new(refused.kind(), text);
    Err(Error::system("find a port for a server")(source))
}

#[cfg(test)]
mod tests {
    use std::net::{Ipv4Addr, TcpListener};

    use super::*;

    #[test]
    fn a_port_in_use_is_not_assigned() {
        // In use by this listener or, if it could not bind, by another process.
        let _taken = TcpListener::bind((Ipv4Addr::LOCALHOST, LOWEST));
        let refused = next_below(LOWEST + 1, 0, &Hosts::One)
            .unwrap_err()
            .to_string();
        let expected = "at 256 attempts in 10240 to 10240: end what listens there, or raise";
        assert!(
            refused.starts_with("find a port for a server: "),
            "{refused}"
        );
        assert!(refused.contains(expected), "{refused}");
    }
}
