//! The hosts of an experiment: this machine as one host, or network namespaces as several.
//!
//! ```text
//!                        ┌─ [relay] ─ client 0 (generator)
//!     server 192.0.2.1 ──┼─ [relay] ─ client 1 (agent)
//!                        └─ [relay] ─ …
//! ```
//!
//! Over loopback, the sender's processor also does the receiver's half of the network's work. With
//! namespaces, each host processes what it receives on its own processors, as between two machines.
//! Optionally, a [`relay`](Link) delays and loses frames between the server and each client.
//!
//! The lab itself stays in its own namespace. It holds the namespaces by descriptors and starts no
//! process to keep them, so they end with the lab and its children, however the lab ends, and their
//! devices are not visible outside. Namespaces require root, and `ip` (iproute2).
#![forbid(unsafe_code)]

use std::io;
use std::net::{Ipv4Addr, SocketAddr, TcpListener, TcpStream};
use std::process::Command;
use std::time::Duration;

mod error;
mod host;
pub mod limits;
mod relay;
mod star;

pub use error::Error;
pub use host::Host;
pub use relay::{DirectionCounts, RelayRecord};
pub use star::Star;

/// Hosts in network namespaces.
#[derive(Debug, Clone, PartialEq)]
pub struct Layout {
    /// Number of client hosts.
    pub clients: u8,
    /// The link between the server and each client; none: a device pair, without a relay.
    pub link: Option<Link>,
}

/// A link with a delay and loss, which a relay in this process implements.
///
/// Both apply to every frame, in both directions, so a round trip takes at least twice the delay.
/// The hosts' TCP sees them as a real network's, and retransmits.
#[derive(Debug, Clone, PartialEq)]
pub struct Link {
    /// Delay of every frame.
    pub delay: Duration,
    /// Greatest additional delay. Each frame's is drawn uniformly from 0 to this value, so frames
    /// may overtake each other, as with the kernel's netem.
    pub jitter: Duration,
    /// Probability of losing a frame, independent of all others.
    pub loss: f64,
    /// The seed of losses and jitter. The same frames of a direction are lost for the same seed.
    pub seed: u64,
}

impl Layout {
    /// Checks all bounds.
    ///
    /// # Errors
    /// A value is outside its bounds: its key, the value and the bounds.
    pub fn check(&self) -> Result<(), Error> {
        let bound = |key, holds: bool, value: &dyn ToString, bounds: String| match holds {
            true => Ok(()),
            false => Err(Error::Bounds {
                key,
                value: value.to_string(),
                bounds,
            }),
        };
        let clients = 1..=limits::CLIENT_HOSTS;
        let allowed = format!("1 to {}", limits::CLIENT_HOSTS);
        bound(
            "clients",
            clients.contains(&self.clients),
            &self.clients,
            allowed,
        )?;
        let Some(link) = &self.link else {
            return Ok(());
        };
        for (key, value) in [("delay", link.delay), ("jitter", link.jitter)] {
            let allowed = format!("0s to {:?}", limits::LINK_DELAY);
            let text = format!("{value:?}");
            bound(key, value <= limits::LINK_DELAY, &text, allowed)?;
        }
        let losses = 0.0..=limits::LINK_LOSS;
        let allowed = format!("0 to {} (a probability)", limits::LINK_LOSS);
        bound("loss", losses.contains(&link.loss), &link.loss, allowed)
    }
}

/// Where servers and clients run.
#[derive(Debug)]
pub enum Hosts {
    /// On this machine as it is, over loopback.
    One,
    /// In network namespaces.
    Star(Star),
}

impl Hosts {
    /// Creates the hosts of `layout`. The server's host processes what it receives on
    /// `server_cpus`, each client's on `client_cpus`; an empty list leaves the choice to the
    /// kernel.
    ///
    /// # Errors
    /// The layout is outside its bounds, this process is not permitted to create namespaces, or
    /// `ip` is missing or fails.
    pub fn open(
        layout: &Layout,
        server_cpus: &[usize],
        client_cpus: &[usize],
    ) -> Result<Self, Error> {
        layout.check()?;
        Star::open(layout, server_cpus, client_cpus).map(Self::Star)
    }

    /// Where servers listen.
    #[must_use]
    pub fn server_ip(&self) -> Ipv4Addr {
        match self {
            Self::One => Ipv4Addr::LOCALHOST,
            Self::Star(star) => star.server().ip_address(),
        }
    }

    /// Number of client hosts.
    #[must_use]
    pub fn clients(&self) -> usize {
        match self {
            Self::One => 1,
            Self::Star(star) => star.clients().len(),
        }
    }

    /// The address of client `number`, from 0.
    ///
    /// # Panics
    /// There is no such client.
    #[must_use]
    pub fn client_ip(&self, number: usize) -> Ipv4Addr {
        assert!(number < self.clients(), "no client {number}");
        match self {
            Self::One => Ipv4Addr::LOCALHOST,
            Self::Star(star) => star.clients()[number].ip_address(),
        }
    }

    /// Whether a relay delays or loses frames between the hosts.
    #[must_use]
    pub fn has_relay(&self) -> bool {
        matches!(self, Self::Star(star) if star.has_relay())
    }

    /// Makes `command` start its program on the server's host.
    #[must_use]
    pub fn in_server(&self, command: Command) -> Command {
        match self {
            Self::One => command,
            Self::Star(star) => star.server().place(command),
        }
    }

    /// Makes `command` start its program on the host of client `number`, from 0. Over loopback,
    /// that is this machine for any number of clients.
    ///
    /// # Panics
    /// There is no such client host.
    #[must_use]
    pub fn in_client(&self, number: usize, command: Command) -> Command {
        match self {
            Self::One => command,
            Self::Star(star) => {
                assert!(number < star.clients().len(), "no client {number}");
                star.clients()[number].place(command)
            }
        }
    }

    /// Connects from the server's own host, so without the link's delay, to an address there.
    ///
    /// # Errors
    /// No connection within `timeout`.
    pub fn connect(&self, address: SocketAddr, timeout: Duration) -> io::Result<TcpStream> {
        self.on_server(|| TcpStream::connect_timeout(&address, timeout))
    }

    /// Connects from the host of client `number` to an address that it reaches.
    ///
    /// # Errors
    /// No connection within `timeout`.
    ///
    /// # Panics
    /// There is no such client.
    pub fn connect_from_client(
        &self,
        number: usize,
        address: SocketAddr,
        timeout: Duration,
    ) -> io::Result<TcpStream> {
        let connect = || TcpStream::connect_timeout(&address, timeout);
        assert!(number < self.clients(), "no client {number}");
        match self {
            Self::One => connect(),
            Self::Star(star) => star.clients()[number].namespace().run(connect)?,
        }
    }

    /// Listens on the server's host, for example to find a free port.
    ///
    /// # Errors
    /// The port is in use.
    pub fn listen(&self, port: u16) -> io::Result<TcpListener> {
        let address = SocketAddr::from((self.server_ip(), port));
        self.on_server(|| TcpListener::bind(address))
    }

    /// Moves the calling thread to the server's host. Threads and processes that it starts later
    /// are there too.
    ///
    /// # Errors
    /// The process is not permitted to.
    pub fn enter_server(&self) -> io::Result<()> {
        match self {
            Self::One => Ok(()),
            Self::Star(star) => star.server().namespace().enter(),
        }
    }

    /// What the relay has done since the last call. None: there is no relay.
    ///
    /// # Errors
    /// The relay has failed, so there has been no connection between the hosts since.
    pub fn take_relay_record(&self) -> Result<Option<RelayRecord>, Error> {
        match self {
            Self::One => Ok(None),
            Self::Star(star) => star.take_relay_record(),
        }
    }

    fn on_server<T: Send>(&self, task: impl FnOnce() -> io::Result<T> + Send) -> io::Result<T> {
        match self {
            Self::One => task(),
            Self::Star(star) => star.server().namespace().run(task)?,
        }
    }
}

#[cfg(test)]
mod tests;
