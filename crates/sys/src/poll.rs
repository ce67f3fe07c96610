//! Readiness: epoll, level-triggered, and an event that another thread can set.

use std::io;
use std::os::fd::{AsFd, AsRawFd, BorrowedFd, OwnedFd};

use rustix::event::epoll;
use rustix::event::{EventfdFlags, Timespec, eventfd};
use rustix::io::Errno;

use crate::clock::monotonic_ns;

const _: () = assert!(size_of::<epoll::Event>() == size_of::<libc::epoll_event>());
const _: () = assert!(align_of::<epoll::Event>() == align_of::<libc::epoll_event>());

/// What a registration waits for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Interest {
    /// Bytes to read, or the peer's end.
    Read,
    /// Room to write.
    Write,
    /// Either.
    ReadWrite,
    /// Nothing but errors and hang-ups.
    None,
}

impl Interest {
    fn flags(self) -> epoll::EventFlags {
        match self {
            Self::Read => epoll::EventFlags::IN | epoll::EventFlags::RDHUP,
            Self::Write => epoll::EventFlags::OUT,
            Self::ReadWrite => {
                epoll::EventFlags::IN | epoll::EventFlags::RDHUP | epoll::EventFlags::OUT
            }
            Self::None => epoll::EventFlags::empty(),
        }
    }
}

/// One ready registration.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Ready {
    /// The token it was registered with.
    pub token: u64,
    /// Bytes, an end or an error can be read.
    pub readable: bool,
    /// There is room to write, or an error to learn by writing.
    pub writable: bool,
    /// Both directions are closed, or an error is pending.
    pub hung_up: bool,
}

/// A set of registered descriptors.
#[derive(Debug)]
pub struct Poll {
    epoll: OwnedFd,
}

/// Where [`Poll::wait`] puts what is ready; its capacity is the most one wait returns.
pub struct Events {
    list: Vec<epoll::Event>,
}

impl Events {
    /// Room for `capacity` events a wait.
    #[must_use]
    pub fn with_capacity(capacity: usize) -> Self {
        Self {
            list: Vec::with_capacity(capacity),
        }
    }

    /// How many the last wait returned.
    #[must_use]
    pub fn len(&self) -> usize {
        self.list.len()
    }

    /// Whether the last wait returned none.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.list.is_empty()
    }

    /// What the last wait returned.
    pub fn iter(&self) -> impl Iterator<Item = Ready> + '_ {
        self.list.iter().map(|event| {
            let flags = event.flags;
            let hung_up = flags.intersects(epoll::EventFlags::HUP | epoll::EventFlags::ERR);
            Ready {
                token: event.data.u64(),
                readable: hung_up
                    || flags.intersects(epoll::EventFlags::IN | epoll::EventFlags::RDHUP),
                writable: hung_up || flags.contains(epoll::EventFlags::OUT),
                hung_up,
            }
        })
    }
}

impl Poll {
    /// An empty set.
    ///
    /// # Errors
    /// The process or the machine has no descriptor left.
    pub fn new() -> io::Result<Self> {
        Ok(Self {
            epoll: epoll::create(epoll::CreateFlags::CLOEXEC)?,
        })
    }

    /// Registers a descriptor; closing it ends the registration.
    ///
    /// # Errors
    /// The descriptor is registered already or cannot be waited for.
    pub fn add(&self, source: impl AsFd, token: u64, interest: Interest) -> io::Result<()> {
        Ok(epoll::add(
            &self.epoll,
            source,
            epoll::EventData::new_u64(token),
            interest.flags(),
        )?)
    }

    /// Changes what a registered descriptor waits for.
    ///
    /// # Errors
    /// The descriptor is not registered.
    pub fn change(&self, source: impl AsFd, token: u64, interest: Interest) -> io::Result<()> {
        Ok(epoll::modify(
            &self.epoll,
            source,
            epoll::EventData::new_u64(token),
            interest.flags(),
        )?)
    }

    /// Ends a registration while the descriptor stays open.
    ///
    /// # Errors
    /// The descriptor is not registered.
    pub fn remove(&self, source: impl AsFd) -> io::Result<()> {
        Ok(epoll::delete(&self.epoll, source)?)
    }

    /// Waits until something is ready or `timeout_ns` has passed (none: for ever; 0: not at
    /// all). Signals, and being stopped and continued, do not end it.
    ///
    /// # Errors
    /// The kernel's own, none in a correct program.
    pub fn wait(&self, events: &mut Events, timeout_ns: Option<u64>) -> io::Result<()> {
        let until_ns = timeout_ns
            .filter(|&ns| ns > 0)
            .map(|ns| monotonic_ns().saturating_add(ns));
        let mut left_ns = timeout_ns;
        while !self.wait_once(events, left_ns)? {
            left_ns = until_ns.map_or(timeout_ns, |ns| Some(ns.saturating_sub(monotonic_ns())));
        }
        Ok(())
    }

    /// False: something interrupted it.
    fn wait_once(&self, events: &mut Events, timeout_ns: Option<u64>) -> io::Result<bool> {
        events.list.clear();
        let timeout = timeout_ns.map(|ns| Timespec {
            tv_sec: (ns / 1_000_000_000).cast_signed(),
            tv_nsec: (ns % 1_000_000_000).cast_signed(),
        });
        let spare = rustix::buffer::spare_capacity(&mut events.list);
        match epoll::wait(&self.epoll, spare, timeout.as_ref()) {
            Ok(_) => Ok(true),
            Err(Errno::INTR) => Ok(false),
            // epoll_pwait2: Linux before 5.11 does not know it, nor do many a valgrind.
            Err(Errno::NOSYS) => self.wait_ms(events, timeout_ns),
            Err(error) => Err(error.into()),
        }
    }

    /// As [`Poll::wait_once`], by the older call, which counts in milliseconds: it never returns
    /// early.
    fn wait_ms(&self, events: &mut Events, timeout_ns: Option<u64>) -> io::Result<bool> {
        let timeout_ms = timeout_ns.map_or(-1, |ns| {
            i32::try_from(ns.div_ceil(1_000_000)).unwrap_or(i32::MAX)
        });
        let room = i32::try_from(events.list.capacity()).unwrap_or(i32::MAX);
        // The two name the kernel's own structure.
        let list = events.list.as_mut_ptr().cast::<libc::epoll_event>();
        // SAFETY: the list has room for so many events of the kernel's layout (asserted above).
        let count = unsafe { libc::epoll_wait(self.epoll.as_raw_fd(), list, room, timeout_ms) };
        let Ok(count) = usize::try_from(count) else {
            let error = io::Error::last_os_error();
            return match error.kind() {
                io::ErrorKind::Interrupted => Ok(false),
                _ => Err(error),
            };
        };
        // SAFETY: the kernel has written so many, and no more than there is room for.
        unsafe { events.list.set_len(count) };
        Ok(true)
    }
}

impl AsFd for Poll {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.epoll.as_fd()
    }
}

/// An event one thread sets and another waits for.
#[derive(Debug)]
pub struct Waker {
    event: OwnedFd,
}

impl Waker {
    /// A waker not yet set.
    ///
    /// # Errors
    /// No descriptor left.
    pub fn new() -> io::Result<Self> {
        Ok(Self {
            event: eventfd(0, EventfdFlags::CLOEXEC | EventfdFlags::NONBLOCK)?,
        })
    }

    /// Makes it readable. Setting it twice is the same as once.
    pub fn wake(&self) {
        // The write can only fail with EAGAIN, when the event is set 2^64 - 2 times already.
        let _ = rustix::io::write(&self.event, &1_u64.to_ne_bytes());
    }

    /// Makes it unreadable again.
    pub fn clear(&self) {
        // It can only fail with EAGAIN, when it is not set.
        let _ = rustix::io::read(&self.event, &mut [0_u8; 8]);
    }
}

impl AsFd for Waker {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.event.as_fd()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_waker_is_ready_from_wake_to_clear() {
        let poll = Poll::new().unwrap();
        let waker = Waker::new().unwrap();
        let mut events = Events::with_capacity(4);
        poll.add(&waker, 7, Interest::Read).unwrap();
        poll.wait(&mut events, Some(0)).unwrap();
        assert!(events.is_empty());

        waker.wake();
        waker.wake();
        poll.wait(&mut events, None).unwrap();
        let ready: Vec<Ready> = events.iter().collect();
        assert_eq!(ready.len(), 1);
        assert_eq!((ready[0].token, ready[0].readable), (7, true));

        waker.clear();
        poll.wait(&mut events, Some(1000)).unwrap();
        assert!(events.is_empty());
    }

    #[test]
    fn the_older_call_waits_and_tells_the_same() {
        let poll = Poll::new().unwrap();
        let waker = Waker::new().unwrap();
        let mut events = Events::with_capacity(4);
        poll.add(&waker, 7, Interest::Read).unwrap();
        let start_ns = monotonic_ns();
        assert!(poll.wait_ms(&mut events, Some(1_500_000)).unwrap());
        assert!(events.is_empty() && monotonic_ns() - start_ns >= 1_500_000);

        waker.wake();
        poll.wait(&mut events, None).unwrap();
        let newer: Vec<Ready> = events.iter().collect();
        events.list.clear();
        poll.wait_ms(&mut events, None).unwrap();
        assert_eq!(events.iter().collect::<Vec<Ready>>(), newer);
        assert_eq!(newer.len(), 1);
    }

    extern "C" fn interrupts(_: libc::c_int) {}

    #[test]
    fn a_wait_that_is_interrupted_goes_on_until_its_time() {
        let handler: extern "C" fn(libc::c_int) = interrupts;
        // SAFETY: the handler does nothing, and no other test uses this signal.
        unsafe { libc::signal(libc::SIGUSR2, handler as libc::sighandler_t) };
        // SAFETY: no arguments, cannot fail.
        let waiting = unsafe { libc::pthread_self() };
        let over = std::sync::atomic::AtomicBool::new(false);
        std::thread::scope(|scope| {
            scope.spawn(|| {
                while !over.load(std::sync::atomic::Ordering::Relaxed) {
                    // SAFETY: the thread that waits outlives the scope.
                    unsafe { libc::pthread_kill(waiting, libc::SIGUSR2) };
                    std::thread::sleep(std::time::Duration::from_millis(5));
                }
            });
            let poll = Poll::new().unwrap();
            let mut events = Events::with_capacity(1);
            let start_ns = monotonic_ns();
            let outcome = poll.wait(&mut events, Some(100_000_000));
            let waited_ns = monotonic_ns() - start_ns;
            over.store(true, std::sync::atomic::Ordering::Relaxed);
            outcome.unwrap();
            assert!(events.is_empty());
            assert!(waited_ns >= 100_000_000, "{waited_ns} ns");
        });
    }
}
