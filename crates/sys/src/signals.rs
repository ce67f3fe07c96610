//! Signals that are read from a descriptor (signalfd) instead of interrupting a thread.

use std::io;
use std::mem::{MaybeUninit, size_of};
use std::os::fd::{AsFd, AsRawFd, BorrowedFd, FromRawFd, OwnedFd};

/// A signal on which a server acts.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Signal {
    /// SIGTERM or SIGINT: stop the server in order.
    Stop,
    /// SIGHUP: reload the files that can change at run time.
    Reload,
    /// SIGUSR1.
    User1,
}

/// The descriptor from which the signals are read. It is readable while one is pending.
#[derive(Debug)]
pub struct Signals {
    fd: OwnedFd,
}

impl Signals {
    /// Blocks the signals in the calling thread, and creates the descriptor. Threads inherit the
    /// mask from the thread that starts them, so a process calls this before it starts its first
    /// thread. SIGPIPE need not be blocked, because Rust's start-up code ignores it.
    ///
    /// # Errors
    /// The limit of descriptors is reached.
    pub fn block() -> io::Result<Self> {
        let mut set = MaybeUninit::<libc::sigset_t>::uninit();
        // SAFETY: the set is writable, and the call initialises it.
        unsafe { libc::sigemptyset(set.as_mut_ptr()) };
        // SAFETY: `sigemptyset` has initialised the set.
        let mut set = unsafe { set.assume_init() };
        for signal in [libc::SIGTERM, libc::SIGINT, libc::SIGHUP, libc::SIGUSR1] {
            // SAFETY: the set is initialised and the signal number is valid.
            unsafe { libc::sigaddset(&raw mut set, signal) };
        }
        // SAFETY: the set is initialised. The null pointer means that the old mask is not returned.
        let failed =
            unsafe { libc::pthread_sigmask(libc::SIG_BLOCK, &raw const set, std::ptr::null_mut()) };
        if failed != 0 {
            return Err(io::Error::from_raw_os_error(failed));
        }
        // SAFETY: the set is initialised. -1 means that a new descriptor is created.
        let raw =
            unsafe { libc::signalfd(-1, &raw const set, libc::SFD_CLOEXEC | libc::SFD_NONBLOCK) };
        if raw < 0 {
            return Err(io::Error::last_os_error());
        }
        // SAFETY: the kernel has just created this descriptor, so it has no other owner.
        let fd = unsafe { OwnedFd::from_raw_fd(raw) };
        Ok(Self { fd })
    }

    /// Takes the next pending signal. Returns `None` if there is none.
    pub fn take(&self) -> Option<Signal> {
        let mut info = MaybeUninit::<libc::signalfd_siginfo>::zeroed();
        let size = size_of::<libc::signalfd_siginfo>();
        // SAFETY: the buffer is writable for `size` bytes.
        let read = unsafe { libc::read(self.fd.as_raw_fd(), info.as_mut_ptr().cast(), size) };
        if usize::try_from(read) != Ok(size) {
            return None;
        }
        // SAFETY: `info` was zeroed and then filled by the kernel. Every bit pattern is valid.
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
    fn signal_sent_to_a_thread_that_blocks_it_is_read_from_the_descriptor() {
        std::thread::spawn(|| {
            let signals = Signals::block().unwrap();
            assert_eq!(signals.take(), None);
            // SAFETY: the call has no preconditions and cannot fail.
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
