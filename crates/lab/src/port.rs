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
/// Lowest port tried.
const LOWEST: u16 = 10_240;

/// Number of ports assigned by this process, so that a port in use is not assigned again.
static ASSIGNED: AtomicU32 = AtomicU32::new(0);

/// Assigns ports.
#[derive(Debug)]
pub(crate) struct Ports {
    /// Ports in the range, from [`LOWEST`].
    count: u32,
    /// Start within the range; concurrent labs start at different ports.
    offset: u32,
}

impl Ports {
    pub(crate) fn new() -> Self {
        let range = std::fs::read_to_string(RANGE).unwrap_or_default();
        let outgoing = range
            .split_whitespace()
            .next()
            .and_then(|word| word.parse().ok());
        let end = outgoing
            .unwrap_or(32_768_u16)
            .max(LOWEST + limits::PORT_TRIES);
        let count = u32::from(end - LOWEST);
        Self {
            count,
            offset: std::process::id().wrapping_mul(97) % count,
        }
    }

    /// The next port on which a server can listen, on the server's host.
    pub(crate) fn next(&self, hosts: &Hosts) -> Result<u16, Error> {
        let mut refused = std::io::Error::from(std::io::ErrorKind::AddrInUse);
        for _ in 0..limits::PORT_TRIES {
            let port = self.port(ASSIGNED.fetch_add(1, Ordering::Relaxed));
            match hosts.listen(port) {
                Ok(_) => return Ok(port),
                Err(error) => refused = error,
            }
        }
        let [first, last] = [LOWEST, self.last()];
        let text = format!(
            "{refused}, at {} attempts in {first} to {last}: end what listens there, or raise the \
             first number of {RANGE}, below which these ports lie",
            limits::PORT_TRIES
        );
        let source = std::io::Error::new(refused.kind(), text);
        Err(Error::system("find a port for a server")(source))
    }

    /// The highest port of the range.
    fn last(&self) -> u16 {
        // The count is at most what lies between LOWEST and the largest port.
        LOWEST + u16::try_from(self.count - 1).unwrap_or(0)
    }

    fn port(&self, nth: u32) -> u16 {
        let index = (self.offset + nth % self.count) % self.count;
        // The count is at most what lies between LOWEST and the largest port.
        LOWEST + u16::try_from(index).unwrap_or(0)
    }
}

#[cfg(test)]
mod tests {
    use std::net::{Ipv4Addr, TcpListener};

    use super::*;

    #[test]
    fn a_port_in_use_is_not_assigned() {
        // In use by this listener or, if it could not bind, by another process.
        let _taken = TcpListener::bind((Ipv4Addr::LOCALHOST, LOWEST));
        let only = Ports {
            count: 1,
            offset: 0,
        };
        let refused = only.next(&Hosts::One).unwrap_err().to_string();
        assert!(
            refused.starts_with("find a port for a server: "),
            "{refused}"
        );
        let expected = "at 256 attempts in 10240 to 10240: end what listens there, or raise";
        assert!(refused.contains(expected), "{refused}");
    }

    #[test]
    fn the_last_port_is_followed_by_the_first() {
        let ports = Ports {
            count: 3,
            offset: 1,
        };
        let indices = [0, 1, 2, 3].map(|nth| ports.port(nth) - LOWEST);
        assert_eq!(indices, [1, 2, 0, 1]);
    }
}
