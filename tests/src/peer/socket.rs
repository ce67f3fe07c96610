//! A running server, connected by sockets, as a peer.

use std::io::{self, ErrorKind, Read, Write};
use std::net::{Shutdown, SocketAddr, TcpStream};
use std::os::unix::net::UnixStream;
use std::path::PathBuf;
use std::thread;
use std::time::Duration;

use anyhow::{Context, Result, bail};

use super::{ClientId, Peer, Received};
use crate::client::Client;

/// The longest time that a reply may take. Only a case that fails waits for all of it.
const TIMEOUT: Duration = Duration::from_secs(10);

/// Where a server listens.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Address {
    /// A TCP port.
    Tcp(SocketAddr),
    /// A Unix socket.
    Unix(PathBuf),
}

/// A connection of either kind.
#[derive(Debug)]
pub enum Socket {
    /// TCP
    Tcp(TcpStream),
    /// Unix
    Unix(UnixStream),
}

impl Address {
    /// Connects. Every later read and write of the socket waits for at most `timeout`.
    ///
    /// # Errors
    /// No server listens at the address.
    pub fn connect(&self, timeout: Duration) -> io::Result<Socket> {
        match self {
            Self::Tcp(address) => {
                let stream = TcpStream::connect_timeout(address, timeout)?;
                stream.set_nodelay(true)?;
                stream.set_read_timeout(Some(timeout))?;
                stream.set_write_timeout(Some(timeout))?;
                Ok(Socket::Tcp(stream))
            }
            Self::Unix(path) => {
                let stream = UnixStream::connect(path)?;
                stream.set_read_timeout(Some(timeout))?;
                stream.set_write_timeout(Some(timeout))?;
                Ok(Socket::Unix(stream))
            }
        }
    }
}

impl Socket {
    /// Shuts down the sending direction, so that the server receives the end of the input.
    ///
    /// # Errors
    /// The connection is closed.
    pub fn shutdown_send(&self) -> io::Result<()> {
        match self {
            Self::Tcp(stream) => stream.shutdown(Shutdown::Write),
            Self::Unix(stream) => stream.shutdown(Shutdown::Write),
        }
    }

    /// Sets the longest time that reads and writes wait.
    ///
    /// # Errors
    /// `timeout` is zero.
    pub fn set_timeout(&self, timeout: Duration) -> io::Result<()> {
        match self {
            Self::Tcp(stream) => {
                stream.set_read_timeout(Some(timeout))?;
                stream.set_write_timeout(Some(timeout))
            }
            Self::Unix(stream) => {
                stream.set_read_timeout(Some(timeout))?;
                stream.set_write_timeout(Some(timeout))
            }
        }
    }
}

/// The end of an io_uring of this process may interrupt a call, which is then repeated.
impl Read for Socket {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        loop {
            let received = match self {
                Self::Tcp(stream) => stream.read(buffer),
                Self::Unix(stream) => stream.read(buffer),
            };
            match received {
                Err(error) if error.kind() == ErrorKind::Interrupted => {}
                received => return received,
            }
        }
    }
}

impl Write for Socket {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        match self {
            Self::Tcp(stream) => stream.write(bytes),
            Self::Unix(stream) => stream.write(bytes),
        }
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

/// A running server.
#[derive(Debug)]
pub struct SocketPeer {
    address: Address,
    version: String,
    clients: Vec<Socket>,
    /// How long a client waits to receive.
    patience: Duration,
    /// Whether `tick` sleeps. If false, the peer cannot advance the time.
    sleeps: bool,
}

impl SocketPeer {
    /// Uses the server that listens at `address`.
    ///
    /// # Errors
    /// No server listens there, or it does not reply as memcached does.
    pub fn new(address: Address) -> Result<Self> {
        let answer = Client::connect(&address)?.request("version")?;
        let version = answer.strip_prefix("VERSION ");
        let version = version.with_context(|| format!("'{answer}' is not a version"))?;
        Ok(Self {
            address,
            version: version.to_owned(),
            clients: Vec::new(),
            patience: TIMEOUT,
            sleeps: false,
        })
    }

    /// Sets whether `@tick` sleeps for the given time. This is slow, but it checks the transcripts
    /// against a memcached whose clock cannot be set.
    #[must_use]
    pub fn sleeping(mut self, sleeps: bool) -> Self {
        self.sleeps = sleeps;
        self
    }

    /// Removes all clients.
    pub fn disconnect(&mut self) {
        self.clients.clear();
    }

    fn client(&mut self, client: ClientId) -> Result<&mut Socket> {
        self.clients.get_mut(client.0).context("no such client")
    }
}

impl Peer for SocketPeer {
    fn version(&self) -> &str {
        &self.version
    }

    fn reset(&mut self) -> Result<()> {
        self.clients.clear();
        let answer = Client::connect(&self.address)?.request("flush_all")?;
        if answer != "OK" {
            bail!("flush_all was answered '{answer}'");
        }
        Ok(())
    }

    fn connect(&mut self) -> Result<ClientId> {
        self.clients.push(self.address.connect(self.patience)?);
        Ok(ClientId(self.clients.len() - 1))
    }

    fn send(&mut self, client: ClientId, bytes: &[u8]) -> Result<()> {
        match self.client(client)?.write_all(bytes) {
            Err(error) if !is_end(&error) => Err(error).context("send bytes"),
            _ => Ok(()),
        }
    }

    fn receive(&mut self, client: ClientId) -> Result<Received> {
        let mut buffer = vec![0; 64 * 1024];
        match self.client(client)?.read(&mut buffer) {
            Ok(0) => Ok(Received::End),
            Ok(len) => {
                buffer.truncate(len);
                Ok(Received::Bytes(buffer))
            }
            Err(error) if is_end(&error) => Ok(Received::End),
            Err(error) if is_timeout(&error) => Ok(Received::Nothing),
            Err(error) => Err(error).context("receive a reply"),
        }
    }

    fn set_patience(&mut self, patience: Duration) {
        self.patience = patience;
    }

    fn has_clock(&self) -> bool {
        self.sleeps
    }

    fn tick(&mut self, seconds: u64) -> Result<()> {
        thread::sleep(Duration::from_secs(seconds));
        Ok(())
    }
}

/// Whether the error means that the peer has closed the connection.
fn is_end(error: &io::Error) -> bool {
    matches!(
        error.kind(),
        ErrorKind::ConnectionReset | ErrorKind::BrokenPipe | ErrorKind::ConnectionAborted
    )
}

/// Whether a read or write has reached its timeout.
#[must_use]
pub(crate) fn is_timeout(error: &io::Error) -> bool {
    matches!(error.kind(), ErrorKind::WouldBlock | ErrorKind::TimedOut)
}
