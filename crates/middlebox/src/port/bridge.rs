//! A bridge between two network devices, which changes no addresses.
//!
//! ```text
//! clients ═══ device │ batch ──▶ middlebox ──▶ batch │ device ═══ memory nodes
//!                    │ batch ◀──           ◀── batch │
//! ```
//!
//! Frames keep their addresses of Ethernet and IP. Clients still have to know that operations are
//! redirected, or nodes that were passed over stay in use. What is not RoCEv2, such as ARP, passes,
//! with two exceptions: a VLAN tag is lost, because the kernel removes it before a packet socket
//! receives the frame; and what is longer than the MTU of the other device, as with segmentation
//! offload, is not sent. The devices need no addresses of their own; forwarding by the kernel must
//! be off, or frames would pass twice. A device may be set down and up again; only when one is
//! removed, the bridge ends.

use std::io;

use sys::packet::{FRAME_MAX, FrameBatch, PacketSocket};
use sys::poll::{Events, Interest, Poll, Waker};

use super::{Losses, Port, STOP};
use crate::limits::{BATCH, DEVICE_BUFFER_LEN, DOWN_CHECK_NS};
use crate::middlebox::Side;

/// The bridge.
pub struct Bridge {
    poll: Poll,
    events: Events,
    clients: Device,
    memory: Device,
    losses: Losses,
}

#[derive(Debug)]
struct Device {
    socket: PacketSocket,
    incoming: FrameBatch,
    /// The next frame of the batch.
    next: usize,
    outgoing: FrameBatch,
    is_ready: bool,
    /// It was set down, and nothing has arrived since. The kernel does not report its removal then.
    is_down: bool,
}

impl Bridge {
    /// A bridge between the device at which clients are and that of memory nodes, by their names.
    /// Both receive frames for all Ethernet addresses.
    ///
    /// # Errors
    /// `NotFound`: there is no such device. `PermissionDenied`: the process lacks `CAP_NET_RAW` or
    /// `CAP_NET_ADMIN`, which root has. The error says for which device.
    pub fn new(clients: &str, memory: &str) -> io::Result<Self> {
        let poll = Poll::new()?;
        let open = |name: &str, token| -> io::Result<Device> {
            let named = |error: io::Error| io::Error::new(error.kind(), format!("{name}: {error}"));
            let device = Device::open(name).map_err(named)?;
            poll.add(&device.socket, token, Interest::Read)?;
            Ok(device)
        };
        let (clients, memory) = (open(clients, 0)?, open(memory, 1)?);
        Ok(Self {
            poll,
            events: Events::with_capacity(3),
            clients,
            memory,
            losses: Losses::default(),
        })
    }
}

impl Device {
    fn open(name: &str) -> io::Result<Self> {
        let socket = PacketSocket::open(name, DEVICE_BUFFER_LEN)?;
        socket.receive_all_addresses(name)?;
        Ok(Self {
            socket,
            incoming: FrameBatch::new(BATCH, FRAME_MAX),
            next: 0,
            outgoing: FrameBatch::new(BATCH, FRAME_MAX),
            is_ready: false,
            is_down: false,
        })
    }

    /// Fails if the device was removed.
    fn check(&self) -> io::Result<()> {
        if self.is_down && !self.socket.has_device() {
            let message = "a device was removed";
            return Err(io::Error::new(io::ErrorKind::NotFound, message));
        }
        Ok(())
    }

    /// Replaces `frame` by the next one; false if there is none.
    fn receive(&mut self, frame: &mut Vec<u8>, losses: &mut Losses) -> io::Result<bool> {
        loop {
            if let Some(received) = self.incoming.get(self.next) {
                self.next += 1;
                if received.is_empty() {
                    continue;
                }
                frame.clear();
                frame.extend_from_slice(received);
                return Ok(true);
            }
            if !self.is_ready {
                return Ok(false);
            }
            self.next = 0;
            match self.socket.recv_batch(&mut self.incoming) {
                Ok(truncated) => losses.foreign += truncated as u64,
                Err(error) if error.kind() == io::ErrorKind::NetworkDown => {
                    losses.downs += 1;
                    self.is_down = true;
                }
                Err(error) => return Err(error),
            }
            // A batch that is not full has emptied the socket.
            self.is_ready = self.incoming.is_full();
            self.is_down &= self.incoming.get(0).is_none();
        }
    }

    fn send(&mut self, frame: &[u8], losses: &mut Losses) {
        if self.outgoing.is_full() {
            self.flush(losses);
        }
        losses.foreign += u64::from(!self.outgoing.push(frame));
    }

    fn flush(&mut self, losses: &mut Losses) {
        losses.unsent += self.socket.send_batch(&mut self.outgoing) as u64;
        self.outgoing.clear();
    }
}

impl Port for Bridge {
    fn wake_by(&mut self, stop: &Waker) -> io::Result<()> {
        self.poll.add(stop, STOP, Interest::Read)
    }

    fn wait(&mut self, timeout_ns: Option<u64>) -> io::Result<bool> {
        let is_down = self.clients.is_down || self.memory.is_down;
        let timeout_ns = match timeout_ns {
            _ if !is_down => timeout_ns,
            Some(timeout_ns) => Some(timeout_ns.min(DOWN_CHECK_NS)),
            None => Some(DOWN_CHECK_NS),
        };
        self.poll.wait(&mut self.events, timeout_ns)?;
        self.clients.check()?;
        self.memory.check()?;
        let mut is_stopped = false;
        for ready in self.events.iter() {
            match ready.token {
                0 => self.clients.is_ready = true,
                1 => self.memory.is_ready = true,
                _ => is_stopped = true,
            }
        }
        Ok(is_stopped)
    }

    fn receive(&mut self, frame: &mut Vec<u8>) -> io::Result<Option<Side>> {
        // Answers first: they end operations, and requests begin them.
        let losses = &mut self.losses;
        if self.memory.receive(frame, losses)? {
            return Ok(Some(Side::Memory));
        }
        let is_there = self.clients.receive(frame, losses)?;
        Ok(is_there.then_some(Side::Client))
    }

    fn send(&mut self, side: Side, frame: &[u8]) {
        match side {
            Side::Client => self.clients.send(frame, &mut self.losses),
            Side::Memory => self.memory.send(frame, &mut self.losses),
        }
    }

    fn flush(&mut self) {
        self.clients.flush(&mut self.losses);
        self.memory.flush(&mut self.losses);
    }

    fn losses(&mut self) -> io::Result<Losses> {
        for device in [&self.clients, &self.memory] {
            self.losses.discarded += u64::from(device.socket.take_discarded()?);
        }
        Ok(self.losses)
    }
}
