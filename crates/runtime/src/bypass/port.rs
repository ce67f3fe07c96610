//! The *port* of a worker: the packet socket by which the worker receives and sends frames, and the
//! epoll instance by which it waits for them. (This is not a TCP port.)

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

/// The packet socket of a worker, and the worker's epoll instance. If the worker's loop restarts
/// after a failure, the new loop gets the same port, because the process may have given up the
/// privilege to open another packet socket.
pub(super) struct Port {
    /// The packet socket, with its ring of received frames.
    ring: PacketRing,
    /// The BPF program that keeps the server's packets from the kernel's own stack. All workers
    /// share it, and it stays attached until the last port is dropped.
    _filter: Option<Arc<IngressFilter>>,
    poll: Poll,
    /// Contains the waker by which other threads wake the worker.
    pub(super) inbox: Arc<Inbox>,
    events: Events,
    /// Time at which the last system call to wait began.
    last_wait_ns: u64,
    /// The device did not take all frames of the last send.
    has_unsent: bool,
    /// The number of frames that the device has taken since the start.
    sent: u64,
    /// The sum of the counters of the worker's earlier stacks. Each restart of the worker's loop
    /// ends a stack and creates a new one.
    ended: Counts,
}

/// Creates the epoll instance of a worker, and registers the packet socket and the inbox with it.
pub(super) fn open_poll(ring: &PacketRing, inbox: &Inbox) -> io::Result<Poll> {
    let poll = Poll::new()?;
    poll.add(&inbox.waker, INBOX_TOKEN, Interest::Read)?;
    // Edge-triggered events suffice. A worker sleeps only if it has found the ring empty. A frame
    // that arrives after that causes an event, which ends the sleep.
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

    /// Returns whether the ring contains a frame that has not been received.
    pub(super) fn has_frame(&self) -> bool {
        self.ring.has_frame()
    }

    /// Waits for a frame, a wake-up by another thread, or the timeout. Returns whether another
    /// thread has woken the worker. If the timeout is 0 and the last system call to wait was less
    /// than [`INBOX_CHECK_NS`] ago, returns false without a system call.
    pub(super) fn wait(&mut self, timeout_ns: Option<u64>) -> io::Result<bool> {
        // While frames are unsent, the wait is short. The worker's loop then tries again to send.
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
                // The socket has an error, such as that the device is down. Clear the error.
                // Otherwise the next wait would return at once.
                self.ring.take_error();
            }
        }
        Ok(was_woken)
    }

    /// Passes the frames that have arrived to a stack, at most [`FRAMES_PER_ROUND`].
    pub(super) fn receive(&mut self, stack: &mut Stack, now_ns: u64) {
        for _ in 0..FRAMES_PER_ROUND {
            let received = self.ring.receive(|frame| {
                // The device may have verified the checksums already.
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
    /// The kernel reports an error. For example, the device was removed.
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

    /// Resets the open connections of a stack that is about to be dropped. Stops early if the
    /// device does not take all frames. A client whose connection is not reset would wait for its
    /// answer forever.
    ///
    /// # Errors
    /// As [`Port::send`].
    pub(super) fn end(&mut self, stack: &mut Stack) -> io::Result<()> {
        let reset = self.reset_all(stack);
        self.ended = self.ended + stack.counts();
        reset
    }

    fn reset_all(&mut self, stack: &mut Stack) -> io::Result<()> {
        // Earlier frames are dropped to make space for the resets.
        stack.frames().clear();
        loop {
            // Resets as many connections as there is space for frames.
            let has_more = stack.reset_some();
            self.send(stack.frames())?;
            if !has_more || self.has_unsent {
                return Ok(());
            }
        }
    }

    /// Returns the value of each [`FrameCount`] for this worker since the server's start. `stack`
    /// is the worker's current stack.
    pub(super) fn counts(&self, stack: &Stack) -> FrameCounts {
        let stacks = self.ended + stack.counts();
        FrameCount::ALL.map(|count| count.of(&stacks, self.sent, self.ring.lost()))
    }
}
