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
use crate::limits::{FRAMES_PER_ROUND, INBOX_CHECK_NS, SEND_RETRY_NS};

const INBOX_TOKEN: u64 = 0;
const RING_TOKEN: u64 = 1;

/// The packet socket of a worker, and its epoll instance. A restart of the worker's loop keeps
/// them, because the process may have given up the privilege to open another packet socket.
pub(super) struct Port {
    ring: PacketRing,
    /// The filter stays attached as long as the port of any worker exists.
    _filter: Option<Arc<IngressFilter>>,
    poll: Poll,
    pub(super) inbox: Arc<Inbox>,
    events: Events,
    /// Time of the last wait by a system call.
    last_wait_ns: u64,
    /// The device did not take all frames of the last send.
    has_unsent: bool,
    /// The number of frames that the device has taken.
    sent: u64,
    /// The sum of the counters of the worker's earlier stacks. Each restart of the worker's loop
    /// creates a new stack.
    ended: Counts,
}

/// Creates the epoll instance of a worker, and registers its packet socket and its inbox.
pub(super) fn open(ring: &PacketRing, inbox: &Inbox) -> io::Result<Poll> {
    let poll = Poll::new()?;
    poll.add(&inbox.waker, INBOX_TOKEN, Interest::Read)?;
    // Edge-triggered is enough: a worker waits only after it has found no frame, so each event is
    // of a later frame.
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

    /// Waits for a frame, a wake-up by another thread, or the timeout. With the timeout 0, makes at
    /// most one system call per [`INBOX_CHECK_NS`]. Returns whether another thread has woken the
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
                // The device is down. Clear the error, so that the next wait sleeps.
                self.ring.take_error();
            }
        }
        Ok(was_woken)
    }

    /// Passes the frames that have arrived to a stack, at most [`FRAMES_PER_ROUND`].
    pub(super) fn receive(&mut self, stack: &mut Stack, now_ns: u64) {
        for _ in 0..FRAMES_PER_ROUND {
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

    /// Sends frames, and removes from `frames` those that the device has taken.
    ///
    /// # Errors
    /// The kernel reports an error, such as that the device was removed.
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

    /// Resets the connections of a stack that ends, until the device takes no more frames. Without
    /// a reset, a client that waits for an answer would wait forever.
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

    /// Returns the counts of the worker since its start. `stack` is the present stack.
    pub(super) fn counts(&self, stack: &Stack) -> FrameCounts {
        let stacks = self.ended + stack.counts();
        FrameCount::ALL.map(|count| count.of(&stacks, self.sent, self.ring.lost()))
    }
}
