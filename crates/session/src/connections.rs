//! The open connections, for `stats conns`.
//!
//! A connection enters the list when it is opened, and leaves it when its session is dropped. Both
//! changes of the list take its lock. In between, only the [state](Entry::state) of the
//! connection's entry changes. The worker that serves the connection writes this state without the
//! lock, at most once a second unless the connection's activity changes. A *turn* is one call of a
//! session by its worker.

use std::collections::BTreeMap;
use std::fmt::Write as _;
use std::ops::Bound;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, OnceLock, PoisonError};

use protocol::Streams;
use service::{Endpoint, Next, address_text};

use crate::control::StatWriter;
use crate::encode::{Encode, NO_KEY};
use crate::event_log::LogBuffer;
use crate::limits::CONNECTIONS_PER_TURN;
use crate::now::{Clock, Now};
use crate::outcome::{Outcome, ServerOutcome};
use crate::protocols::{OwnedEncoder, WithEncoder};

/// All open connections of a cache, and the sockets at which they arrive.
#[derive(Debug, Default)]
pub struct Connections {
    /// The open connections by file descriptor.
    open: Mutex<BTreeMap<i32, Arc<Entry>>>,
    /// Lines about opened and closed connections. All workers share them.
    pub(crate) log: LogBuffer,
    /// Whether a client receives these lines (`watch connevents`). If not, none are written.
    is_logged: AtomicBool,
    /// The sockets of the server, once they are known.
    listening: OnceLock<Vec<ListeningSocket>>,
    /// The server's clock. Set before the first connection is opened.
    clock: OnceLock<Clock>,
}

/// A socket of the server that accepts connections or receives datagrams.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ListeningSocket {
    /// The file descriptor of the socket.
    pub descriptor: i32,
    /// What arrives at the socket.
    pub kind: ListeningKind,
    /// The address of the socket in memcached's form, such as `tcp:0.0.0.0:11211`.
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

/// What a connection does at the end of a turn.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[repr(u8)]
pub(crate) enum Activity {
    /// Waits for a command, or has answered only some of the keys of a command.
    Read,
    /// Receives a value.
    Upload,
    /// Skips the value of a rejected command.
    Swallow,
    /// Sends log lines, or sends a list. (A list takes several turns.)
    Watch,
    /// Closes at the client's request.
    Closing,
    /// Closes because its input is invalid.
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

    /// The activity whose discriminant is in the lowest [`ACTIVITY_BITS`] bits of a
    /// [state](Entry::state).
    fn from_state(state: u64) -> Self {
        match state & ((1 << ACTIVITY_BITS) - 1) {
            1 => Self::Upload,
            2 => Self::Swallow,
            3 => Self::Watch,
            4 => Self::Closing,
            5 => Self::Failed,
            _ => Self::Read,
        }
    }
}

/// The number of lowest bits of a [state](Entry::state) that are the activity.
const ACTIVITY_BITS: u32 = 8;

/// An open connection.
#[derive(Debug)]
struct Entry {
    endpoint: Endpoint,
    /// The lowest [`ACTIVITY_BITS`] bits are the activity. The higher bits are the time of the last
    /// turn, in seconds on the server's clock. Before the first turn, they are the time at which
    /// the connection was opened.
    state: AtomicU64,
}

/// The [state](Entry::state) of a connection whose last turn was in the second `turn_s`, and ended
/// with `activity`.
#[inline]
fn state(turn_s: u32, activity: Activity) -> u64 {
    u64::from(turn_s) << ACTIVITY_BITS | activity as u64
}

/// A session's handle to the entry of its connection in the list. Dropping the handle removes the
/// connection from the list.
#[derive(Debug)]
pub(crate) struct Listed {
    connections: Arc<Connections>,
    entry: Arc<Entry>,
    /// A copy of the entry's state. Each turn compares its new state with this copy. If they are
    /// equal, the turn does not access the memory of the entry.
    state: u64,
    /// A copy of the descriptor. Each turn reads it, for log lines, without an access to the entry.
    descriptor: i32,
}

impl Connections {
    /// Adds a connection that was opened at the monotonic time `opened_ns`.
    pub(crate) fn add(self: &Arc<Self>, endpoint: Endpoint, opened_ns: u64) -> Listed {
        let clock = self.clock.get();
        let opened_s = clock.map_or(0, |clock| clock.at(opened_ns).elapsed_s);
        let state = state(opened_s, Activity::Read);
        let entry = Arc::new(Entry {
            endpoint,
            state: AtomicU64::new(state),
        });
        self.lock_open()
            .insert(endpoint.descriptor, Arc::clone(&entry));
        self.log_event("conn_new", None, &endpoint);
        Listed {
            connections: Arc::clone(self),
            entry,
            state,
            descriptor: endpoint.descriptor,
        }
    }

    /// Sets the server's clock. Later calls change nothing.
    pub(crate) fn set_clock(&self, clock: &Clock) {
        self.clock.get_or_init(|| clock.clone());
    }

    /// Sets the sockets of the server. `stats conns` shows them before the connections. Called
    /// once.
    pub fn set_listening(&self, sockets: Vec<ListeningSocket>) {
        let _ = self.listening.set(sockets);
    }

    fn listening(&self) -> &[ListeningSocket] {
        self.listening.get().map_or(&[], Vec::as_slice)
    }

    /// The address of the server's Unix socket, of which a server has at most one. If the socket is
    /// not known, the text that stands for any Unix socket.
    fn unix_socket_address(&self) -> String {
        let is_unix = |it: &&ListeningSocket| it.kind == ListeningKind::Unix;
        let socket = self.listening().iter().find(is_unix);
        socket.map_or_else(|| address_text(None), |socket| socket.address.clone())
    }

    /// Writes the statistics of at most `max` connections: those with the lowest descriptors above
    /// `after`. If `after` is [`i32::MIN`], writes the statistics of the listening sockets
    /// first. `own` is the descriptor of the connection that sent the command. Returns the
    /// descriptor of the last connection written, or `None` if no connection was written.
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
        let open = self.lock_open();
        let later = open.range((Bound::Excluded(after), Bound::Unbounded));
        let entries: Vec<Arc<Entry>> = later.take(max).map(|(_, entry)| entry.clone()).collect();
        // Writing takes longer than copying the entries, so it is done without the lock.
        drop(open);
        for entry in &entries {
            let local = match entry.endpoint.local {
                // A connection without a TCP address came over the Unix socket.
                None => self.unix_socket_address(),
                local => address_text(local),
            };
            entry.write(&local, own, now_s, out);
        }
        entries.last().map(|entry| entry.endpoint.descriptor)
    }

    /// Sets whether the opening and the closing of connections are logged.
    pub(crate) fn set_logged(&self, is_logged: bool) {
        self.is_logged.store(is_logged, Ordering::Relaxed);
    }

    fn log_event(&self, event: &str, reason: Option<&str>, endpoint: &Endpoint) {
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

    fn lock_open(&self) -> MutexGuard<'_, BTreeMap<i32, Arc<Entry>>> {
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
        // The socket was opened at the start of the server. At that time the server's clock, which
        // is counted from 1, showed 1 s.
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
        let idle_s = now_s.saturating_sub((state >> ACTIVITY_BITS) as u32);
        text("addr", endpoint.peer_text().as_bytes());
        text("listen_addr", local.as_bytes());
        let activity = match descriptor == own {
            // This connection executes a command: this `stats conns`.
            true => b"conn_parse_cmd",
            false => Activity::from_state(state).name(),
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

    /// Records a turn of the session, which has ended with this activity.
    #[inline]
    pub(crate) fn record(&mut self, now_s: u32, activity: Activity) {
        let state = state(now_s, activity);
        if state != self.state {
            self.state = state;
            self.entry.state.store(state, Ordering::Relaxed);
        }
    }
}

impl Drop for Listed {
    fn drop(&mut self) {
        // If the client has not sent all bytes of a value, closing the connection is an error.
        let reason = match Activity::from_state(self.state) {
            Activity::Upload | Activity::Swallow | Activity::Failed => "error",
            Activity::Read | Activity::Watch | Activity::Closing => "normal",
        };
        let endpoint = &self.entry.endpoint;
        self.connections
            .log_event("conn_close", Some(reason), endpoint);
        let mut open = self.connections.lock_open();
        // A socket may be closed before its session is dropped. The kernel may then have given the
        // descriptor to a new connection, whose entry must stay.
        if open
            .get(&self.descriptor)
            .is_some_and(|entry| Arc::ptr_eq(entry, &self.entry))
        {
            open.remove(&self.descriptor);
        }
    }
}

/// A `stats conns` that has not written all connections yet. It takes several turns.
#[derive(Debug)]
pub(crate) struct ConnectionList {
    /// The descriptor of the last connection that was written, or [`i32::MIN`] at the start.
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

    /// Writes the next [`CONNECTIONS_PER_TURN`] connections and returns [`Next::Yield`], because
    /// the session needs another turn. If no connection is left, writes the end of the list and
    /// returns `None`.
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
            encoder.outcome(NO_KEY, Outcome::Server(ServerOutcome::StatsEnd), self.bytes);
        }
        last
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::now::NS_PER_S;

    /// The values of statistics by name.
    #[derive(Default)]
    struct Values(BTreeMap<String, String>);

    impl StatWriter for Values {
        fn number(&mut self, name: &[u8], value: u64) {
            self.text(name, value.to_string().as_bytes());
        }

        fn text(&mut self, name: &[u8], value: &[u8]) {
            let text = |bytes: &[u8]| String::from_utf8(bytes.to_vec()).unwrap();
            self.0.insert(text(name), text(value));
        }
    }

    #[test]
    fn connection_without_a_command_is_idle_since_it_was_opened() {
        let connections = Arc::<Connections>::default();
        let (started_ns, unix_s) = (5 * NS_PER_S, 1_700_000_000);
        let clock = Clock::new(started_ns, unix_s);
        connections.set_clock(&clock);
        let endpoint = Endpoint {
            descriptor: 7,
            peer: None,
            local: None,
        };
        let mut listed = connections.add(endpoint, started_ns + 100 * NS_PER_S);
        let idle_s = |after_start_s: u64| {
            let now = clock.at(started_ns + after_start_s * NS_PER_S);
            let (mut values, own) = (Values::default(), 8);
            connections.write(i32::MIN, 1, own, now.elapsed_s, &mut values);
            values.0["7:secs_since_last_cmd"].clone()
        };
        assert_eq!(idle_s(100), "0");
        assert_eq!(idle_s(103), "3");
        listed.record(
            clock.at(started_ns + 105 * NS_PER_S).elapsed_s,
            Activity::Read,
        );
        assert_eq!(idle_s(106), "1");
    }
}
