//! Ports for servers, a new one each trial.
//!
//! They lie below the range from which the kernel takes ports for outgoing connections: after a
//! few trials of 15 360 connections that range is full of connections in TIME_WAIT, and a server
//! could not listen on any of its ports. A new port a trial also keeps the connections of one
//! trial from the remains of the last.

use std::net::{Ipv4Addr, TcpListener};

use crate::error::Error;
use crate::limits;

/// Where the kernel says what it takes for outgoing connections.
const RANGE: &str = "/proc/sys/net/ipv4/ip_local_port_range";
/// Lowest port tried.
const LOWEST: u16 = 10_240;

/// Hands out ports.
#[derive(Debug)]
pub(crate) struct Ports {
    next: u16,
    /// First port that is not handed out.
    end: u16,
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
        // Laboratories at work beside each other begin at different places.
        let places = u32::from(end - LOWEST);
        let offset = std::process::id().wrapping_mul(97) % places;
        Self {
            next: LOWEST + u16::try_from(offset).unwrap_or(0),
            end,
        }
    }

    /// The next port on which a server can listen.
    pub(crate) fn next(&mut self) -> Result<u16, Error> {
        let mut refused = std::io::Error::from(std::io::ErrorKind::AddrInUse);
        for _ in 0..limits::PORT_TRIES {
            let port = self.next;
            self.next = if port + 1 < self.end {
                port + 1
            } else {
                LOWEST
            };
            match TcpListener::bind((Ipv4Addr::LOCALHOST, port)) {
                Ok(_) => return Ok(port),
                Err(error) => refused = error,
            }
        }
        Err(Error::system("find a port for a server")(refused))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_port_in_use_is_passed_over() {
        let mut ports = Ports::new();
        let first = ports.next().unwrap();
        let _taken = TcpListener::bind((Ipv4Addr::LOCALHOST, first)).unwrap();
        ports.next = first;
        assert_ne!(ports.next().unwrap(), first);
    }

    #[test]
    fn the_last_port_is_followed_by_the_first() {
        let mut ports = Ports {
            next: 20_000,
            end: 20_001,
        };
        ports.next().unwrap();
        assert_eq!(ports.next, LOWEST);
    }
}
