//! A small blocking client of a server, for tests.

use std::collections::BTreeMap;
use std::io::{ErrorKind, Read, Write};
use std::thread;
use std::time::{Duration, Instant};

use anyhow::{Context, Result, bail};

use crate::pattern::show;
use crate::peer::Address;
use crate::peer::Socket;

/// The longest time that a reply may take.
const TIMEOUT: Duration = Duration::from_secs(10);

/// A connection to a server, with a buffer of received bytes.
#[derive(Debug)]
pub struct Client {
    /// The connection.
    pub socket: Socket,
    received: Vec<u8>,
    /// Number of values that were stored to evict others.
    fillers: u64,
}

impl Client {
    /// Connects to a server.
    ///
    /// # Errors
    /// No server listens at the address.
    pub fn connect(address: &Address) -> Result<Self> {
        let socket = address.connect(TIMEOUT);
        let socket = socket.with_context(|| format!("connect to {address:?}"))?;
        Ok(Self {
            socket,
            received: Vec::new(),
            fillers: 0,
        })
    }

    /// Sends bytes.
    ///
    /// # Errors
    /// The connection is closed, or the server does not receive the bytes within the timeout.
    pub fn send(&mut self, bytes: &[u8]) -> Result<()> {
        self.socket.write_all(bytes).context("send")
    }

    /// Sends until all is sent, the server has closed the connection, or nothing can be sent for
    /// 300 ms. Returns the number of bytes sent.
    ///
    /// # Errors
    /// The time limit of the socket cannot be set.
    pub fn send_some(&mut self, bytes: &[u8]) -> Result<usize> {
        self.socket.set_timeout(Duration::from_millis(300))?;
        let mut sent = 0;
        while sent < bytes.len() {
            match self.socket.write(&bytes[sent..]) {
                Ok(len) => sent += len,
                Err(error) if error.kind() == ErrorKind::Interrupted => {}
                Err(_) => break,
            }
        }
        self.socket.set_timeout(TIMEOUT)?;
        Ok(sent)
    }

    /// Sends one line and returns the first line of the answer.
    ///
    /// # Errors
    /// Those of [`Client::send`] and [`Client::line`].
    pub fn request(&mut self, line: &str) -> Result<String> {
        self.send(format!("{line}\r\n").as_bytes())?;
        self.line()
    }

    /// Stores a value.
    ///
    /// # Errors
    /// The reply is not `STORED`.
    pub fn set(&mut self, key: &str, value: &[u8]) -> Result<()> {
        let head = format!("set {key} 0 0 {}\r\n", value.len());
        self.send(&[head.as_bytes(), value, b"\r\n"].concat())?;
        match self.line()?.as_str() {
            "STORED" => Ok(()),
            answer => bail!("set was answered '{answer}'"),
        }
    }

    /// Stores values until everything that a server with a memory of `memory_bytes` had in it was
    /// evicted, except items that were often requested. The values are longer than a segment of a
    /// tier of up to 64 MiB, so the tier does not take them.
    ///
    /// # Errors
    /// The server does not answer.
    pub fn evict_others(&mut self, memory_bytes: usize) -> Result<()> {
        const LEN: usize = 300 << 10;
        let value = vec![b'f'; LEN];
        for _ in 0..memory_bytes * 5 / 4 / LEN {
            // A key of its own: an overwritten value may leave its memory to the new one.
            self.fillers += 1;
            let head = format!("set filler{} 0 0 {LEN} noreply\r\n", self.fillers);
            self.send(&[head.as_bytes(), &value, b"\r\n"].concat())?;
        }
        match self.request("mn")?.as_str() {
            "MN" => Ok(()),
            answer => bail!("mn was answered '{answer}'"),
        }
    }

    /// Does as [`evict_others`](Self::evict_others) until the tier has this number of items.
    ///
    /// # Errors
    /// The server does not answer, or the tier does not get them.
    pub fn evict_to_tier(&mut self, memory_bytes: usize, items: u64) -> Result<()> {
        let deadline = Instant::now() + TIMEOUT;
        let mut found = 0;
        // A thread of its own writes what was evicted, so the count may follow later.
        while Instant::now() < deadline {
            self.evict_others(memory_bytes)?;
            found = self.stat("extstore_objects_used")?;
            if found == items {
                return Ok(());
            }
        }
        let stats = self.stats()?.into_iter();
        let dropped: Vec<_> = stats
            .filter(|(name, _)| name.starts_with("tier_dropped"))
            .collect();
        bail!("the tier has {found} items, not {items}: {dropped:?}")
    }

    /// Fetches a value. Returns `None` if the key has no item.
    ///
    /// # Errors
    /// The reply is not that of a `get`.
    pub fn get(&mut self, key: &str) -> Result<Option<Vec<u8>>> {
        let head = self.request(&format!("get {key}"))?;
        if head == "END" {
            return Ok(None);
        }
        let len = head.rsplit(' ').next().and_then(|len| len.parse().ok());
        let len: usize = len.with_context(|| format!("'{head}' has no length"))?;
        let mut value = self.take(len + 2)?;
        value.truncate(len);
        let end = self.line()?;
        if end != "END" {
            bail!("a value was followed by '{end}'");
        }
        Ok(Some(value))
    }

    /// Fetches the general statistics by name: those of `stats`, and those of `stats curtail` if
    /// the server has this command.
    ///
    /// # Errors
    /// The reply is not a list of statistics.
    pub fn stats(&mut self) -> Result<BTreeMap<String, String>> {
        let mut stats = self.stats_of("stats")?;
        // memcached replies with an error, which is one line.
        if let Ok(own) = self.stats_of("stats curtail") {
            stats.extend(own);
        }
        Ok(stats)
    }

    /// Fetches the statistics that are the reply to `command`, by name.
    ///
    /// # Errors
    /// The reply is not a list of statistics.
    pub fn stats_of(&mut self, command: &str) -> Result<BTreeMap<String, String>> {
        let mut stats = BTreeMap::new();
        let mut line = self.request(command)?;
        while line != "END" {
            let mut words = line.splitn(3, ' ');
            let (Some("STAT"), Some(name)) = (words.next(), words.next()) else {
                bail!("'{line}' is not a statistic");
            };
            stats.insert(name.to_owned(), words.next().unwrap_or("").to_owned());
            line = self.line()?;
        }
        Ok(stats)
    }

    /// Fetches one statistic as a number.
    ///
    /// # Errors
    /// There is no statistic of this name, or it is not a number.
    pub fn stat(&mut self, name: &str) -> Result<u64> {
        let stats = self.stats()?;
        let value = stats.get(name);
        let value = value.with_context(|| format!("there is no statistic '{name}'"))?;
        value
            .parse()
            .with_context(|| format!("'{name}' is '{value}'"))
    }

    /// Waits until a statistic satisfies `condition`, and returns it.
    ///
    /// # Errors
    /// The condition does not hold within the timeout.
    pub fn stat_until(&mut self, name: &str, condition: impl Fn(u64) -> bool) -> Result<u64> {
        let deadline = Instant::now() + TIMEOUT;
        loop {
            let value = self.stat(name)?;
            if condition(value) {
                return Ok(value);
            }
            if Instant::now() > deadline {
                bail!("'{name}' is still {value}");
            }
            thread::sleep(Duration::from_millis(5));
        }
    }

    /// Receives the next line and returns it without its line end.
    ///
    /// # Errors
    /// No line came within the timeout, or the server closed the connection.
    pub fn line(&mut self) -> Result<String> {
        loop {
            if let Some(len) = self.received.iter().position(|&byte| byte == b'\n') {
                let line = self.take(len + 1)?;
                let line = String::from_utf8_lossy(&line);
                return Ok(line.trim_end_matches(['\r', '\n']).to_owned());
            }
            self.receive_more()?;
        }
    }

    /// Receives and returns the next `len` bytes.
    ///
    /// # Errors
    /// They did not come within the timeout, or the server closed the connection.
    pub fn take(&mut self, len: usize) -> Result<Vec<u8>> {
        while self.received.len() < len {
            self.receive_more()?;
        }
        Ok(self.received.drain(..len).collect())
    }

    /// Receives until the server closes the connection, and returns all bytes.
    ///
    /// # Errors
    /// The server does not close the connection within the timeout.
    pub fn rest(&mut self) -> Result<Vec<u8>> {
        let mut buffer = [0; 4096];
        loop {
            match self.socket.read(&mut buffer) {
                Ok(0) => return Ok(std::mem::take(&mut self.received)),
                Ok(len) => self.received.extend_from_slice(&buffer[..len]),
                // The kernel resets a connection that the server closes while it has unread input.
                Err(error) if error.kind() == ErrorKind::ConnectionReset => {
                    return Ok(std::mem::take(&mut self.received));
                }
                Err(error) => return Err(error).context("wait for the end"),
            }
        }
    }

    /// Receives at least one more byte into the buffer.
    fn receive_more(&mut self) -> Result<()> {
        let mut buffer = [0; 64 * 1024];
        let len = self.socket.read(&mut buffer).with_context(|| {
            format!(
                "wait for an answer, received so far: '{}'",
                show(&self.received)
            )
        })?;
        if len == 0 {
            bail!(
                "the server closed, received so far: '{}'",
                show(&self.received)
            );
        }
        self.received.extend_from_slice(&buffer[..len]);
        Ok(())
    }
}
