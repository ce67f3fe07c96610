//! A connection: smoltcp's socket, and the state that the stack adds to it.

use smoltcp::iface::{SocketHandle, SocketSet};
use smoltcp::socket::tcp::{CongestionControl, Socket, SocketBuffer, State};
use smoltcp::time::Duration;
use smoltcp::wire::EthernetAddress;

use crate::acknowledgement::SentEnd;
use crate::arrival::Key;
use crate::limits::{KEEPALIVE_NS, PROBE_NS};
use crate::stack::{Config, Interest};

/// How far a connection has come.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Phase {
    /// Established, until the owner closes it.
    Open,
    /// Closed by the owner. What is in the send buffer is still sent.
    Closing,
}

/// A connection.
pub(crate) struct Connection {
    /// A set with one socket.
    pub(crate) sockets: SocketSet<'static>,
    handle: SocketHandle,
    pub(crate) key: Key,
    /// The hardware address from which the last frame of the connection came. Frames whose sender
    /// does not know the connection's numbers do not count.
    pub(crate) peer: EthernetAddress,
    pub(crate) phase: Phase,
    pub(crate) generation: u32,
    /// The token of events, once the owner waits for some.
    pub(crate) token: Option<u64>,
    pub(crate) interest: Interest,
    /// The connection is in the stack's list of those that may have something to send.
    pub(crate) is_in_pending: bool,
    /// The connection is in the stack's queue of those that may be ready.
    pub(crate) is_in_ready: bool,
    /// When the frame of `peer` arrived.
    pub(crate) last_frame_ns: u64,
    /// The number of received bytes that were discarded.
    pub(crate) discarded: usize,
    /// The end of what has been sent.
    pub(crate) sent_end: SentEnd,
}

impl Connection {
    /// Creates a connection that is still closed.
    pub(crate) fn new(
        config: &Config,
        key: Key,
        peer: EthernetAddress,
        generation: u32,
        now_ns: u64,
    ) -> Self {
        let buffer = |len| SocketBuffer::new(vec![0; len]);
        let mut socket = Socket::new(buffer(config.receive_buffer), buffer(config.send_buffer));
        socket.set_nagle_enabled(false);
        socket.set_congestion_control(CongestionControl::Cubic);
        let mut sockets = SocketSet::new(Vec::with_capacity(1));
        let handle = sockets.add(socket);
        Self {
            sockets,
            handle,
            key,
            peer,
            phase: Phase::Open,
            generation,
            token: None,
            interest: Interest::default(),
            is_in_pending: false,
            is_in_ready: false,
            last_frame_ns: now_ns,
            discarded: 0,
            sent_end: SentEnd::default(),
        }
    }

    /// Forgets everything, and accepts the next SYN.
    pub(crate) fn listen(&mut self, config: &Config, port: u16) {
        self.socket_mut().abort();
        // A closed socket can listen at any port but 0, which no segment has.
        let _ = self.socket_mut().listen((config.address, port));
    }

    pub(crate) fn socket(&self) -> &Socket<'static> {
        self.sockets.get(self.handle)
    }

    pub(crate) fn socket_mut(&mut self) -> &mut Socket<'static> {
        self.sockets.get_mut(self.handle)
    }

    pub(crate) fn state(&self) -> State {
        self.socket().state()
    }

    /// Returns whether a receive would return bytes, the end of the stream or an error.
    pub(crate) fn is_readable(&self) -> bool {
        let socket = self.socket();
        socket.can_recv() || !socket.may_recv()
    }

    /// Returns whether a send would take bytes or return an error.
    pub(crate) fn is_writable(&self) -> bool {
        let socket = self.socket();
        socket.can_send() || !socket.may_send()
    }

    /// Returns whether both directions are closed, by a reset or by both ends.
    pub(crate) fn is_hung_up(&self) -> bool {
        matches!(self.state(), State::Closed | State::TimeWait)
    }

    /// Returns whether everything that was sent has been acknowledged, the end included if this end
    /// has closed.
    pub(crate) fn is_drained(&self) -> bool {
        let ends = matches!(
            self.state(),
            State::FinWait1 | State::Closing | State::LastAck
        );
        !ends && (self.state() == State::Closed || self.socket().send_queue() == 0)
    }

    /// Makes smoltcp send a segment that the peer acknowledges, or answers by a reset if it knows
    /// nothing of the connection.
    pub(crate) fn probe(&mut self) {
        // The interval has no effect: without one, the probe is not repeated.
        self.socket_mut().set_keep_alive(Some(Duration::ZERO));
        self.socket_mut().set_keep_alive(None);
    }

    /// Returns when the peer has to be probed, or probed again. `None` if the connection has ended,
    /// or if it will soon.
    pub(crate) fn probe_at_ns(&self, now_ns: u64) -> Option<u64> {
        if self.phase != Phase::Open || self.is_hung_up() {
            return None;
        }
        let first_ns = self.last_frame_ns + KEEPALIVE_NS;
        Some(if now_ns < first_ns {
            first_ns
        } else {
            now_ns + PROBE_NS
        })
    }

    /// Discards received bytes.
    pub(crate) fn discard_received(&mut self) {
        while self.socket().can_recv() {
            // In states from which bytes cannot be received there is nothing to discard.
            let discarded = self.socket_mut().recv(|bytes| (bytes.len(), bytes.len()));
            let Ok(discarded) = discarded else { return };
            self.discarded += discarded;
        }
    }
}
