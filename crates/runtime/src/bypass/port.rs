//! A worker's packet socket, and the wait for its frames.

use std::io;
use std::sync::Arc;

use sys::clock::monotonic_ns;
use sys::ingress_filter::IngressFilter;
use sys::packet_ring::PacketRing;
use sys::poll::{Events, Interest, Poll};
use tcpip::{Checksums, Counts, Frames, Stack};

use crate::frame_counts::{FrameCount, FrameCounts};
use crate::inbox::Inbox;
use crate::limits::{FRAMES_PER_TURN, INBOX_CHECK_NS, SEND_RETRY_NS};

const INBOX_TOKEN: u64 = 0;
const RING_TOKEN: u64 = 1;

/// The packet socket of a worker, and its epoll instance. It survives a restart of the worker,
/// which may have given up the privilege to open another one.
pub(super) struct Port {
    ring: PacketRing,
    /// It stays attached as long as there is a worker.
    _filter: Option<Arc<IngressFilter>>,
    poll: Poll,
    pub(super) inbox: Arc<Inbox>,
    events: Events,
    /// Time of the last wait by a system call.
    last_wait_ns: u64,
    /// The device did not take all frames.
    has_unsent: bool,
    /// Frames that the device has taken.
    sent: u64,
    /// What the stacks of loops that have failed had counted.
    ended: Counts,
}

/// Creates the epoll instance of a worker, and registers its packet socket and its inbox.
pub(super) fn open(ring: &PacketRing, inbox: &Inbox) -> io::Result<Poll> {
    let poll = Poll::new()?;
    poll.add(&inbox.waker, INBOX_TOKEN, Interest::Read)?;
    // A worker waits only after it has found no frame, so each event is of a later one.
    poll.add_edge_triggered(ring, RING_TOKEN)?;
    Ok(poll)
}

impl Port {
    pub(super) fn new(
        ring: PacketRing,
        filter: Option<Arc<IngressFilter>>,
        poll: Poll,
        inbox: Arc<Inbox>,
    ) -> Self {
        Self {
            ring,
            _filter: filter,
            poll,
            inbox,
            events: Events::with_capacity(2),
            last_wait_ns: 0,
            has_unsent: false,
            sent: 0,
            ended: Counts::default(),
        }
    }

    /// Returns whether a frame has arrived.
    pub(super) fn has_frame(&self) -> bool {
        self.ring.has_frame()
    }

    /// Waits for a frame, a wake-up by another thread, or the timeout. With the timeout 0, makes a
    /// system call only once in [`INBOX_CHECK_NS`]. Returns whether another thread has woken the
    /// worker.
    pub(super) fn wait(&mut self, timeout_ns: Option<u64>) -> io::Result<bool> {
        let timeout_ns = match self.has_unsent {
            true => Some(timeout_ns.unwrap_or(SEND_RETRY_NS).min(SEND_RETRY_NS)),
            false => timeout_ns,
        };
        let now_ns = monotonic_ns();
        if timeout_ns == Some(0) && now_ns.saturating_sub(self.last_wait_ns) < INBOX_CHECK_NS {
            std::hint::spin_loop();
            return Ok(false);
        }
        self.poll.wait(&mut self.events, timeout_ns)?;
        self.last_wait_ns = now_ns;
        let mut was_woken = false;
        for event in self.events.iter() {
            was_woken |= event.token == INBOX_TOKEN;
            if event.token == RING_TOKEN && event.hung_up {
                // The device is down, until it is up again.
                self.ring.take_error();
            }
        }
        Ok(was_woken)
    }

    /// Passes the frames that have arrived to a stack, at most [`FRAMES_PER_TURN`].
    pub(super) fn receive(&mut self, stack: &mut Stack, now_ns: u64) {
        for _ in 0..FRAMES_PER_TURN {
            let received = self.ring.receive(|frame| {
                let checksums = match frame.is_verified {
                    true => Checksums::Verified,
                    false => Checksums::Unverified,
                };
                stack.receive(frame.bytes, checksums, now_ns);
            });
            if !received {
                return;
            }
        }
    }

    /// Sends frames, and removes those that the device has taken.
    pub(super) fn send(&mut self, frames: &mut Frames) -> io::Result<()> {
        self.has_unsent = false;
        if frames.is_empty() {
            return Ok(());
        }
        let sent = self.ring.send(frames.iter())?;
        self.sent += sent as u64;
        if sent == frames.len() {
            frames.clear();
        } else {
            frames.remove_first(sent);
            self.has_unsent = true;
        }
        Ok(())
    }

    /// Resets the connections of a stack that ends, as far as the device takes the frames: clients
    /// that wait for an answer would otherwise wait forever.
    ///
    /// # Errors
    /// As [`Port::send`].
    pub(super) fn end(&mut self, stack: &mut Stack) -> io::Result<()> {
        stack.frames().clear();
        let mut has_more = true;
        while has_more && !self.has_unsent {
            has_more = stack.reset_some();
            self.send(stack.frames())?;
        }
        self.ended = self.ended + stack.counts();
        Ok(())
    }

    /// Returns what was counted until now, with the present stack.
    pub(super) fn counts(&self, stack: &Stack) -> FrameCounts {
        let stacks = self.ended + stack.counts();
        FrameCount::ALL.map(|count| count.of(&stacks, self.sent, self.ring.lost()))
    }
}
