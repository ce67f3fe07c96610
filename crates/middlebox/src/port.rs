//! Where frames come from and go to: UDP sockets of this machine ([`Proxy`]), or two network
//! devices ([`Bridge`]).

use std::io;

use sys::poll::Waker;

use crate::middlebox::Side;

mod aliases;
mod bridge;
mod proxy;

pub use bridge::Bridge;
pub use proxy::Proxy;

/// The token of the event that ends waits. Sockets have others.
const STOP: u64 = u64::MAX;

/// A source and a sink of frames at both sides of a middlebox.
pub trait Port {
    /// Also ends waits when this event is signalled.
    ///
    /// # Errors
    /// No descriptor is available.
    fn wake_by(&mut self, stop: &Waker) -> io::Result<()>;

    /// Waits until frames can be received, but not longer than `timeout_ns` nanoseconds. Returns
    /// whether the event of [`Port::wake_by`] is signalled.
    ///
    /// # Errors
    /// The kernel reports an error, such as that a device was removed.
    fn wait(&mut self, timeout_ns: Option<u64>) -> io::Result<bool>;

    /// Replaces `frame` by the next one that has arrived, and returns the side at which it did.
    /// Returns none if the next wait has to come first.
    ///
    /// # Errors
    /// The kernel reports an error, such as that a device was removed.
    fn receive(&mut self, frame: &mut Vec<u8>) -> io::Result<Option<Side>>;

    /// Sends a frame at a side, at the next [`Port::flush`] at the latest. One that the kernel does
    /// not take is lost, as on any network.
    fn send(&mut self, side: Side, frame: &[u8]);

    /// Sends what was not sent yet.
    fn flush(&mut self);

    /// What was lost here so far.
    ///
    /// # Errors
    /// The kernel reports an error. This does not happen in a correct program.
    fn losses(&mut self) -> io::Result<Losses>;
}

/// Frames that did not reach the middlebox, or did not leave it, and why, each modulo 2⁶⁴.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Losses {
    /// Discarded by the kernel because a socket's buffer was full, as far as it says so: it does
    /// for devices.
    pub discarded: u64,
    /// Frames to be sent that the kernel did not take.
    pub unsent: u64,
    /// Frames that are not of the pool: no packets, of an unknown host, or longer than any frame.
    pub foreign: u64,
    /// Times that a device was set down.
    pub downs: u64,
    /// Those of clients that have no alias: they have not connected, or all aliases are in use.
    pub unaddressed: u64,
}
