//! Signals as bytes to read: blocked in every thread, delivered to a descriptor.

use std::io;
use std::mem::{MaybeUninit, size_of};
use std::os::fd::{AsFd, AsRawFd, BorrowedFd, FromRawFd, OwnedFd};

/// A signal a server acts on.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Signal {
    /// SIGTERM or SIGINT: end in order.
    Stop,
    /// SIGHUP: read again what can change.
    Reload,
    /// SIGUSR1.
    User1,
}

/// The descriptor that becomes readable when one of the signals has come.
#[derive(Debug)]
pub struct Signals {
    fd: OwnedFd,
}

impl Signals {
    /// Blocks the signals in the calling thread, and so in the threads it starts from now on:
    /// call it before the first one. SIGPIPE is ignored (Rust's own start-up does so).
    ///
    /// # Errors
    /// No descriptor left.
    pub fn block() -> io::Result<Self> {
        let mut set = MaybeUninit::<libc::sigset_t>::uninit();
        // SAFETY: the set is writable; the call initialises it.
        unsafe { libc::sigemptyset(set.as_mut_ptr()) };
        // SAFETY: initialised by the line above.
        let mut set = unsafe { set.assume_init() };
        for signal in [libc::SIGTERM, libc::SIGINT, libc::SIGHUP, libc::SIGUSR1] {
            // SAFETY: the set is initialised and the signal is a valid one.
            unsafe { libc::sigaddset(&raw mut set, signal) };
        }
        // SAFETY: the set is initialised; the old mask is not asked for.
        let failed =
            unsafe { libc::pthread_sigmask(libc::SIG_BLOCK, &raw const set, std::ptr::null_mut()) };
        if failed != 0 {
            return Err(io::Error::from_raw_os_error(failed));
        }
        // SAFETY: -1 asks for a new descriptor; the set is initialised.
        let raw =
            unsafe { libc::signalfd(-1, &raw const set, libc::SFD_CLOEXEC | libc::SFD_NONBLOCK) };
        if raw < 0 {
            return Err(io::Error::last_os_error());
        }
        // SAFETY: a new descriptor from the kernel, without another owner.
        let fd = unsafe { OwnedFd::from_raw_fd(raw) };
        Ok(Self { fd })
    }

    /// The next signal that has come, if any.
    pub fn take(&self) -> Option<Signal> {
        let mut info = MaybeUninit::<libc::signalfd_siginfo>::zeroed();
        let size = size_of::<libc::signalfd_siginfo>();
        // SAFETY: the buffer is writable for `size` bytes.
        let read = unsafe { libc::read(self.fd.as_raw_fd(), info.as_mut_ptr().cast(), size) };
        if usize::try_from(read) != Ok(size) {
            return None;
        }
        // SAFETY: zeroed, then filled whole by the kernel; every bit pattern is valid.
        let info = unsafe { info.assume_init() };
        match i32::try_from(info.ssi_signo) {
            Ok(libc::SIGTERM | libc::SIGINT) => Some(Signal::Stop),
            Ok(libc::SIGHUP) => Some(Signal::Reload),
            Ok(libc::SIGUSR1) => Some(Signal::User1),
            _ => None,
        }
    }
}

impl AsFd for Signals {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.fd.as_fd()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::poll::{Events, Interest, Poll};

    #[test]
    fn a_signal_to_a_thread_that_blocks_it_is_read() {
        std::thread::spawn(|| {
            let signals = Signals::block().unwrap();
            assert_eq!(signals.take(), None);
            // SAFETY: no arguments, cannot fail.
            let this_thread = unsafe { libc::pthread_self() };
            // SAFETY: the calling thread exists and blocks the signal.
            unsafe { libc::pthread_kill(this_thread, libc::SIGUSR1) };
            let poll = Poll::new().unwrap();
            poll.add(&signals, 1, Interest::Read).unwrap();
            let mut events = Events::with_capacity(1);
            poll.wait(&mut events, None).unwrap();
            assert_eq!(signals.take(), Some(Signal::User1));
            assert_eq!(signals.take(), None);
        })
        .join()
        .unwrap();
    }
}
