//! A stream socket that is opened when a request is sent, and that usually carries few requests.
//!
//! After the last answer, the generator closes the connection before the server does. TCP keeps the
//! socket of the host that closes first in TIME_WAIT, where the socket still occupies a local port.
//! The number of sockets in TIME_WAIT is bounded ([`crate::limits::TIME_WAIT_MAX`]): once the bound
//! is reached, the generator resets connections instead of closing them. Resets are counted.

use std::io;
use std::net::{IpAddr, SocketAddr, UdpSocket};

use sys::clock::monotonic_ns;
use sys::poll::{Interest, Poll};
use sys::socket::Stream;

use super::persistent::{Unsent, receive};
use super::time_wait::{TIME_WAIT, TimeWaitSockets};
use super::{CarrierCounts, CarrierError};
use crate::batch::Batch;
use crate::config::{Config, Target};
use crate::error::Error;
use crate::opening;

/// The local addresses of sockets, taken in turn.
#[derive(Debug)]
pub(super) struct Sources {
    addresses: Vec<IpAddr>,
    /// The number of addresses taken so far.
    taken: usize,
}

impl Sources {
    /// Checks that all the addresses are addresses of this host.
    pub(super) fn check(config: &Config) -> Result<(), Error> {
        for &address in &config.sources {
            UdpSocket::bind(SocketAddr::new(address, 0))
                .map_err(|source| Error::Source { address, source })?;
        }
        Ok(())
    }

    /// Returns the addresses for connection `number`. Connections with consecutive numbers begin
    /// with consecutive addresses.
    fn new(config: &Config, number: u32) -> Self {
        Self {
            addresses: config.sources.clone(),
            taken: number as usize,
        }
    }

    /// Takes the next address. None: the kernel chooses the address.
    pub(super) fn next(&mut self) -> Option<IpAddr> {
        let index = self.taken.checked_rem(self.addresses.len())?;
        self.taken = self.taken.wrapping_add(1);
        Some(self.addresses[index])
    }

    /// The number of addresses in use, at least 1.
    fn count(&self) -> u32 {
        self.addresses.len().max(1) as u32
    }
}

/// At most one open stream socket, and what is needed to open the next one.
#[derive(Debug)]
pub(super) struct ShortLived {
    target: Target,
    pub(super) sources: Sources,
    /// None: no socket is open.
    pub(super) stream: Option<Stream>,
    unsent: Unsent,
    /// Counts the sockets in TIME_WAIT of all connections of this process.
    pub(super) time_wait: &'static TimeWaitSockets,
    /// The number of sockets opened.
    opened: u64,
    /// The number of sockets that were reset instead of closed.
    pub(super) resets: u64,
}

impl ShortLived {
    /// Prepares connection `number` of a run. Does not open a socket.
    pub(super) fn new(config: &Config, number: u32) -> Self {
        Self {
            target: opening::target_of(&config.targets, number).clone(),
            sources: Sources::new(config, number),
            stream: None,
            unsent: Unsent::default(),
            time_wait: &TIME_WAIT,
            opened: 0,
            resets: 0,
        }
    }

    pub(super) fn connect(&mut self) -> io::Result<Stream> {
        match &self.target {
            Target::Tcp(address) => Stream::connect_from(self.sources.next(), *address),
            Target::Unix(path) => Stream::connect_unix(path),
        }
    }

    /// Opens a socket and sends a request on it, as [`super::Carrier::send`] does.
    pub(super) fn send(
        &mut self,
        batch: &Batch,
        poll: &Poll,
        token: u64,
    ) -> Result<usize, CarrierError> {
        let stream = self.connect()?;
        self.opened += 1;
        stream.set_nodelay();
        // `stamp_receives` fails for Unix sockets, which have no time stamps. For them, the engine
        // takes the time just after the receive as the arrival time.
        let _ = stream.stamp_receives();
        poll.add(&stream, token, Interest::Read)?;
        // The socket accepts no bytes while the connection is being established. All bytes are then
        // kept until the poll reports that the socket is writable.
        let sent = self.unsent.send_batch(batch, &stream);
        self.stream = Some(stream);
        sent
    }

    /// Sends a further request on the socket that is open.
    pub(super) fn send_again(&mut self, batch: &Batch) -> Result<usize, CarrierError> {
        match &self.stream {
            Some(stream) => self.unsent.send_batch(batch, stream),
            None => Ok(0),
        }
    }

    pub(super) fn is_blocked(&self) -> bool {
        !self.unsent.is_empty()
    }

    pub(super) fn send_unsent(&mut self) -> Result<usize, CarrierError> {
        match &self.stream {
            Some(stream) => self.unsent.send(stream),
            None => Ok(0),
        }
    }

    pub(super) fn set_interest(
        &self,
        poll: &Poll,
        token: u64,
        interest: Interest,
    ) -> io::Result<()> {
        match &self.stream {
            Some(stream) => poll.change(stream, token, interest),
            None => Ok(()),
        }
    }

    pub(super) fn receive(
        &mut self,
        buffer: &mut [u8],
    ) -> Result<(usize, Option<u64>), CarrierError> {
        match &self.stream {
            Some(stream) => receive(stream, buffer),
            None => Ok((0, None)),
        }
    }

    /// Closes the socket before the server does, or resets it if too many sockets are in TIME_WAIT.
    pub(super) fn close(&mut self) {
        let Some(stream) = self.take() else {
            return;
        };
        // A Unix socket has no TIME_WAIT.
        let has_time_wait = matches!(self.target, Target::Tcp(_));
        if has_time_wait
            && !self.time_wait.try_add(monotonic_ns(), self.sources.count())
            && stream.reset_on_close().is_ok()
        {
            self.resets += 1;
        }
    }

    /// Ends the use of the socket, and returns it. If the connection has already ended, dropping
    /// the socket leaves no TIME_WAIT on this host.
    fn take(&mut self) -> Option<Stream> {
        self.unsent.clear();
        self.stream.take()
    }

    /// Closes the socket of a request whose time-out has passed.
    pub(super) fn give_up(&mut self) {
        if self.unsent.is_empty() {
            self.close();
        } else {
            // Unsent bytes mean that the connection was probably not established. A connection that
            // was never established leaves no TIME_WAIT.
            drop(self.take());
        }
    }

    /// Closes the socket after an error.
    pub(super) fn recover(&mut self, error: &CarrierError) {
        match error {
            // The connection has already ended or was never established.
            CarrierError::Closed | CarrierError::Io(_) => drop(self.take()),
            // The connection is open, but its further bytes cannot be parsed.
            CarrierError::Malformed(_) | CarrierError::Unsolicited | CarrierError::ExtraValues => {
                self.close();
            }
        }
    }

    pub(super) fn add_counts_to(&self, counts: &mut CarrierCounts) {
        counts.opened += self.opened;
        counts.resets += self.resets;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn addresses_are_taken_in_turn_and_connections_begin_with_different_addresses() {
        let mut config = Config::new("127.0.0.1:1".parse().unwrap());
        assert_eq!(Sources::new(&config, 3).next(), None);
        let addresses = ["127.0.0.1", "127.0.0.2"].map(|it| it.parse::<IpAddr>().unwrap());
        config.sources = addresses.to_vec();
        let mut sources = Sources::new(&config, 3);
        let taken = [(); 3].map(|()| sources.next().unwrap());
        assert_eq!(taken, [addresses[1], addresses[0], addresses[1]]);
        assert_eq!(sources.count(), 2);
    }

    #[test]
    fn address_of_another_host_is_an_error_that_names_the_flag() {
        let mut config = Config::new("127.0.0.1:1".parse().unwrap());
        config.sources = vec!["192.0.2.1".parse().unwrap()];
        let message = Sources::check(&config).unwrap_err().to_string();
        assert!(
            message.starts_with("send from --source 192.0.2.1:"),
            "{message}"
        );
    }
}
