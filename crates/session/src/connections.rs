//! The open connections, for `stats conns`.
//!
//! A connection enters the list when it is opened and leaves it when its session is dropped, each
//! under the list's lock. What changes during the life of a connection is in its entry
//! ([`Entry::state`]), which only the connection's worker writes, without the lock. It does so at
//! most once a second, except when the activity changes.

use std::collections::BTreeMap;
use std::fmt::Write as _;
use std::ops::Bound;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, OnceLock, PoisonError};

use protocol::Streams;
use service::{Endpoint, Next, address_text};

use crate::control::StatWriter;
use crate::encode::Encode;
use crate::event_log::LogBuffer;
use crate::limits::CONNECTIONS_PER_TURN;
use crate::now::Now;
use crate::outcome::{Outcome, ServerOutcome};
use crate::protocols::{OwnedEncoder, WithEncoder};

/// All open connections of a cache, by file descriptor.
#[derive(Debug, Default)]
pub struct Connections {
    open: Mutex<BTreeMap<i32, Arc<Entry>>>,
    /// Lines about opened and closed connections. All workers share them.
    pub(crate) log: LogBuffer,
    /// Whether clients watch these lines.
    is_logged: AtomicBool,
    listening: OnceLock<Vec<ListeningSocket>>,
}

/// A socket of the server that accepts connections or receives datagrams.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ListeningSocket {
    /// Its file descriptor.
    pub descriptor: i32,
    /// What arrives there.
    pub kind: ListeningKind,
    /// Its address in memcached's form, such as `tcp:0.0.0.0:11211`.
    pub address: String,
}

/// What arrives at a socket of the server.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ListeningKind {
    /// Connections over TCP.
    Tcp,
    /// Connections to a Unix socket.
    Unix,
    /// Datagrams.
    Datagrams,
}

/// What a connection does.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[repr(u8)]
pub(crate) enum Activity {
    /// Waits for a command, or executes one.
    Read,
    /// Receives a value.
    Upload,
    /// Skips the value of a rejected command.
    Swallow,
    /// Lists items, or receives log lines.
    Watch,
    /// Closes at the client's request.
    Closing,
    /// Closes because of its input.
    Failed,
}

impl Activity {
    /// The activity's name in memcached.
    fn name(self) -> &'static [u8] {
        match self {
            Self::Read => b"conn_read",
            Self::Upload => b"conn_nread",
            Self::Swallow => b"conn_swallow",
            Self::Watch => b"conn_watch",
            Self::Closing | Self::Failed => b"conn_closing",
        }
    }

    fn from_bits(bits: u64) -> Self {
        match bits & 0xff {
            1 => Self::Upload,
            2 => Self::Swallow,
            3 => Self::Watch,
            4 => Self::Closing,
            5 => Self::Failed,
            _ => Self::Read,
        }
    }
}

/// An open connection.
#[derive(Debug)]
struct Entry {
    endpoint: Endpoint,
    /// The second of the last command, and the activity in the lowest 8 bits.
    state: AtomicU64,
}

/// The handle of a session to its entry in the list. Dropping the handle removes the connection.
#[derive(Debug)]
pub(crate) struct Listed {
    connections: Arc<Connections>,
    entry: Arc<Entry>,
    /// A copy of the entry's state. This copy and `descriptor` are here so that a turn that changes
    /// nothing does not access the entry.
    state: u64,
    descriptor: i32,
}

impl Connections {
    /// Adds a connection.
    pub(crate) fn add(self: &Arc<Self>, endpoint: Endpoint) -> Listed {
        let entry = Arc::new(Entry {
            endpoint,
            state: AtomicU64::new(0),
        });
        self.open().insert(endpoint.descriptor, Arc::clone(&entry));
        self.log("conn_new", None, &endpoint);
        Listed {
            connections: Arc::clone(self),
            entry,
            state: 0,
            descriptor: endpoint.descriptor,
        }
    }

    /// Sets the sockets of the server, which are listed before the connections. Called once.
    pub fn set_listening(&self, sockets: Vec<ListeningSocket>) {
        let _ = self.listening.set(sockets);
    }

    fn listening(&self) -> &[ListeningSocket] {
        self.listening.get().map_or(&[], Vec::as_slice)
    }

    /// The address of the server's Unix socket. A server has at most one.
    fn unix_text(&self) -> String {
        let is_unix = |it: &&ListeningSocket| it.kind == ListeningKind::Unix;
        let socket = self.listening().iter().find(is_unix);
        socket.map_or_else(|| address_text(None), |socket| socket.address.clone())
    }

    /// Writes the statistics of at most `max` connections whose descriptors are above `after`. If
    /// `after` is [`i32::MIN`], writes the statistics of the listening sockets first. `own` is the
    /// descriptor of the connection that sent the command. Returns the descriptor of the last
    /// connection written, or `None` if there was none.
    pub(crate) fn write(
        &self,
        after: i32,
        max: usize,
        own: i32,
        now_s: u32,
        out: &mut dyn StatWriter,
    ) -> Option<i32> {
        if after == i32::MIN {
            self.listening().iter().for_each(|it| it.write(now_s, out));
        }
        let open = self.open();
        let later = open.range((Bound::Excluded(after), Bound::Unbounded));
        let entries: Vec<Arc<Entry>> = later.take(max).map(|(_, entry)| entry.clone()).collect();
        drop(open);
        for entry in &entries {
            let local = match entry.endpoint.local {
                None => self.unix_text(),
                local => address_text(local),
            };
            entry.write(&local, own, now_s, out);
        }
        entries.last().map(|entry| entry.endpoint.descriptor)
    }

    /// Sets whether opened and closed connections are logged.
    pub(crate) fn set_logged(&self, is_logged: bool) {
        self.is_logged.store(is_logged, Ordering::Relaxed);
    }

    fn log(&self, event: &str, reason: Option<&str>, endpoint: &Endpoint) {
        if !self.is_logged.load(Ordering::Relaxed) {
            return;
        }
        self.log.push(Streams::CONNEVENTS, |text| {
            // Writing to a `String` cannot fail.
            let _ = write!(text, "type={event} ");
            let _ = endpoint.write_log_fields(text);
            if let Some(reason) = reason {
                let _ = write!(text, " reason={reason}");
            }
            let _ = write!(text, " cfd={}", endpoint.descriptor);
        });
    }

    fn open(&self) -> MutexGuard<'_, BTreeMap<i32, Arc<Entry>>> {
        self.open.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl ListeningSocket {
    fn write(&self, now_s: u32, out: &mut dyn StatWriter) {
        let mut text = |name: &str, value: &str| {
            let name = format!("{}:{name}", self.descriptor);
            out.text(name.as_bytes(), value.as_bytes());
        };
        let is_datagrams = self.kind == ListeningKind::Datagrams;
        if is_datagrams {
            text("UDP", "UDP");
        }
        text("addr", &self.address);
        let state = if is_datagrams {
            "conn_read"
        } else {
            "conn_listening"
        };
        text("state", state);
        // The socket has existed since the start.
        text("secs_since_last_cmd", &now_s.saturating_sub(1).to_string());
    }
}

impl Entry {
    fn write(&self, local: &str, own: i32, now_s: u32, out: &mut dyn StatWriter) {
        let (endpoint, descriptor) = (&self.endpoint, self.endpoint.descriptor);
        let mut text = |name: &str, value: &[u8]| {
            out.text(format!("{descriptor}:{name}").as_bytes(), value);
        };
        let state = self.state.load(Ordering::Relaxed);
        let idle_s = now_s.saturating_sub((state >> 8) as u32);
        text("addr", endpoint.peer_text().as_bytes());
        text("listen_addr", local.as_bytes());
        let activity = match descriptor == own {
            true => b"conn_parse_cmd",
            false => Activity::from_bits(state).name(),
        };
        text("state", activity);
        text("secs_since_last_cmd", idle_s.to_string().as_bytes());
    }
}

impl Listed {
    /// The file descriptor of the connection, as log lines show it.
    pub(crate) fn descriptor(&self) -> i32 {
        self.descriptor
    }

    /// Records a turn of the session.
    #[inline]
    pub(crate) fn record(&mut self, now_s: u32, activity: Activity) {
        let state = u64::from(now_s) << 8 | activity as u64;
        if state != self.state {
            self.state = state;
            self.entry.state.store(state, Ordering::Relaxed);
        }
    }
}

impl Drop for Listed {
    fn drop(&mut self) {
        // A connection that is closed while its client sends a value counts as failed.
        let reason = match Activity::from_bits(self.state) {
            Activity::Upload | Activity::Swallow | Activity::Failed => "error",
            Activity::Read | Activity::Watch | Activity::Closing => "normal",
        };
        let endpoint = &self.entry.endpoint;
        self.connections.log("conn_close", Some(reason), endpoint);
        let mut open = self.connections.open();
        // The socket may be closed before its session is dropped, and a new connection may have the
        // descriptor already.
        if open
            .get(&self.descriptor)
            .is_some_and(|entry| Arc::ptr_eq(entry, &self.entry))
        {
            open.remove(&self.descriptor);
        }
    }
}

/// The unfinished part of a `stats conns`.
#[derive(Debug)]
pub(crate) struct ConnectionList {
    /// The descriptor of the last connection that was listed.
    after: i32,
    /// The descriptor of the connection that sent the command.
    own: i32,
    encoder: OwnedEncoder,
}

impl ConnectionList {
    pub(crate) fn new(own: i32, encoder: OwnedEncoder) -> Self {
        Self {
            after: i32::MIN,
            own,
            encoder,
        }
    }

    /// Lists as many connections as a turn allows. Returns what the session needs to continue, or
    /// `None` at the end of the list.
    pub(crate) fn resume(
        &mut self,
        connections: Option<&Arc<Connections>>,
        now: Now,
        bytes: &mut Vec<u8>,
    ) -> Option<Next> {
        let step = ListStep {
            after: self.after,
            own: self.own,
            connections,
            now,
            bytes,
        };
        self.after = self.encoder.borrow().dispatch(step)?;
        Some(Next::Yield)
    }
}

/// The arguments of [`ConnectionList::resume`], for the code that is compiled for each encoder.
struct ListStep<'a> {
    after: i32,
    own: i32,
    connections: Option<&'a Arc<Connections>>,
    now: Now,
    bytes: &'a mut Vec<u8>,
}

impl WithEncoder for ListStep<'_> {
    type Result = Option<i32>;

    fn run(self, encoder: &impl Encode) -> Option<i32> {
        let (after, now_s) = (self.after, self.now.elapsed_s);
        let last = self.connections.and_then(|connections| {
            let mut stats = encoder.stats(self.bytes);
            connections.write(after, CONNECTIONS_PER_TURN, self.own, now_s, &mut stats)
        });
        if last.is_none() {
            encoder.outcome(b"", Outcome::Server(ServerOutcome::StatsEnd), self.bytes);
        }
        last
    }
}
