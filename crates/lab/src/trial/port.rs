//! Ports for servers, a new one each trial.
//!
//! They lie below the range from which the kernel takes ports for outgoing connections: after a
//! few trials of 15 360 connections that range is full of connections in TIME_WAIT, and a server
//! could not listen on any of its ports. A new port a trial also keeps the connections of one
//! trial from the remains of the last.

use std::net::{Ipv4Addr, TcpListener};
use std::sync::atomic::{AtomicU32, Ordering};

use crate::error::Error;
use crate::limits;

/// Where the kernel says what it takes for outgoing connections.
const RANGE: &str = "/proc/sys/net/ipv4/ip_local_port_range";
/// Lowest port tried.
const LOWEST: u16 = 10_240;

/// Ports handed out by this process, so that none is handed out twice while it may be in use.
static HANDED_OUT: AtomicU32 = AtomicU32::new(0);

/// Hands out ports.
#[derive(Debug)]
pub(crate) struct Ports {
    /// Ports in the range, from [`LOWEST`].
    count: u32,
    /// Laboratories at work beside each other begin at different places.
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

    /// The next port on which a server can listen.
    pub(crate) fn next(&self) -> Result<u16, Error> {
        let mut refused = std::io::Error::from(std::io::ErrorKind::AddrInUse);
        for _ in 0..limits::PORT_TRIES {
            let port = self.port(HANDED_OUT.fetch_add(1, Ordering::Relaxed));
            match TcpListener::bind((Ipv4Addr::LOCALHOST, port)) {
                Ok(_) => return Ok(port),
                Err(error) => refused = error,
            }
        }
        Err(Error::system("find a port for a server")(refused))
    }

    fn port(&self, nth: u32) -> u16 {
        let place = (self.offset + nth % self.count) % self.count;
        // The count is at most what lies between LOWEST and the largest port.
        LOWEST + u16::try_from(place).unwrap_or(0)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_port_in_use_is_not_handed_out() {
        // Held by this listener or, where it could not be had, by somebody else.
        let _taken = TcpListener::bind((Ipv4Addr::LOCALHOST, LOWEST));
        let only = Ports {
            count: 1,
            offset: 0,
        };
        assert!(only.next().is_err());
    }

    #[test]
    fn the_last_port_is_followed_by_the_first() {
        let ports = Ports {
            count: 3,
            offset: 1,
        };
        let places = [0, 1, 2, 3].map(|nth| ports.port(nth) - LOWEST);
        assert_eq!(places, [1, 2, 0, 1]);
    }
}
