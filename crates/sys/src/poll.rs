//! epoll ([`Poll`]), level-triggered where nothing else is said, and an event that another thread
//! can signal ([`Waker`]).

use std::io;
use std::os::fd::{AsFd, AsRawFd, BorrowedFd, OwnedFd};

use rustix::event::epoll;
use rustix::event::{EventfdFlags, Timespec, eventfd};
use rustix::io::Errno;

use crate::clock::monotonic_ns;

const _: () = assert!(size_of::<epoll::Event>() == size_of::<libc::epoll_event>());
const _: () = assert!(align_of::<epoll::Event>() == align_of::<libc::epoll_event>());

/// The events that a registered descriptor waits for. Errors and hang-ups are always reported.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Interest {
    /// Bytes, or the end of the stream, can be read.
    Read,
    /// There is space to write.
    Write,
    /// Both of the above.
    ReadWrite,
    /// No events but errors and hang-ups.
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

/// A registered descriptor that is ready, and the events for which it is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Ready {
    /// The token passed when the descriptor was registered.
    pub token: u64,
    /// A read would return bytes, the end of the stream or an error.
    pub readable: bool,
    /// A write would take bytes or return an error.
    pub writable: bool,
    /// Both directions are closed, or an error is pending.
    pub hung_up: bool,
}

/// An epoll instance: a set of registered descriptors.
#[derive(Debug)]
pub struct Poll {
    epoll: OwnedFd,
}

/// The events returned by [`Poll::wait`]. The capacity is the maximum number of events of one wait.
pub struct Events {
    list: Vec<epoll::Event>,
}

impl Events {
    /// Creates an empty list for at most `capacity` events.
    #[must_use]
    pub fn with_capacity(capacity: usize) -> Self {
        Self {
            list: Vec::with_capacity(capacity),
        }
    }

    /// Returns the number of events of the last wait.
    #[must_use]
    pub fn len(&self) -> usize {
        self.list.len()
    }

    /// Returns whether the last wait returned no events.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.list.is_empty()
    }

    /// Returns the events of the last wait.
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
    /// Creates an epoll instance without registered descriptors.
    ///
    /// # Errors
    /// The limit of descriptors of the process or of the machine is reached.
    pub fn new() -> io::Result<Self> {
        Ok(Self {
            epoll: epoll::create(epoll::CreateFlags::CLOEXEC)?,
        })
    }

    /// Registers a descriptor. Closing the descriptor removes it.
    ///
    /// # Errors
    /// The descriptor is registered already, or is of a kind that epoll cannot wait for.
    pub fn add(&self, source: impl AsFd, token: u64, interest: Interest) -> io::Result<()> {
        Ok(epoll::add(
            &self.epoll,
            source,
            epoll::EventData::new_u64(token),
            interest.flags(),
        )?)
    }

    /// Registers a descriptor that is read until nothing is left before each wait. An event then
    /// means that more has arrived since, and is reported once (`EPOLLET`): the kernel need not
    /// look again at the next wait whether it is still readable.
    ///
    /// # Errors
    /// As [`Poll::add`].
    pub fn add_edge_triggered(&self, source: impl AsFd, token: u64) -> io::Result<()> {
        Ok(epoll::add(
            &self.epoll,
            source,
            epoll::EventData::new_u64(token),
            epoll::EventFlags::IN | epoll::EventFlags::ET,
        )?)
    }

    /// Changes the events that a registered descriptor waits for.
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

    /// Removes a descriptor, which stays open.
    ///
    /// # Errors
    /// The descriptor is not registered.
    pub fn remove(&self, source: impl AsFd) -> io::Result<()> {
        Ok(epoll::delete(&self.epoll, source)?)
    }

    /// Waits until a registered descriptor is ready or `timeout_ns` nanoseconds have passed. `None`
    /// means that there is no timeout; with 0 it does not wait. A signal, or a stop and
    /// continuation of the process, does not end the wait.
    ///
    /// # Errors
    /// The kernel reports an error. This does not happen in a correct program.
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

    /// Waits once. Returns false if the wait was interrupted and has to be repeated.
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
            // Linux before 5.11, and some versions of valgrind, do not have `epoll_pwait2`.
            Err(Errno::NOSYS) => self.wait_ms(events, timeout_ns),
            Err(error) => Err(error.into()),
        }
    }

    /// Waits once like [`Poll::wait_once`], by the older call `epoll_wait`. Its timeout is in
    /// milliseconds; `timeout_ns` is rounded up, so the wait never ends too early.
    fn wait_ms(&self, events: &mut Events, timeout_ns: Option<u64>) -> io::Result<bool> {
        let timeout_ms = timeout_ns.map_or(-1, |ns| {
            i32::try_from(ns.div_ceil(1_000_000)).unwrap_or(i32::MAX)
        });
        let capacity = i32::try_from(events.list.capacity()).unwrap_or(i32::MAX);
        // The event types of rustix and of libc have the layout of the kernel's structure.
        let list = events.list.as_mut_ptr().cast::<libc::epoll_event>();
        // SAFETY: the list has space for `capacity` events, and the two types have the same size
        // and alignment (asserted at the top of this file).
        let count = unsafe { libc::epoll_wait(self.epoll.as_raw_fd(), list, capacity, timeout_ms) };
        let Ok(count) = usize::try_from(count) else {
            let error = io::Error::last_os_error();
            return match error.kind() {
                io::ErrorKind::Interrupted => Ok(false),
                _ => Err(error),
            };
        };
        // SAFETY: the kernel has written the first `count` events, and `count` is at most the
        // capacity.
        unsafe { events.list.set_len(count) };
        Ok(true)
    }
}

impl AsFd for Poll {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.epoll.as_fd()
    }
}

/// Waits until a descriptor is ready, for at most this time. Returns whether it is. The descriptor
/// is registered for this wait only, so repeated waits are cheaper with a [`Poll`].
///
/// # Errors
/// The limit of descriptors is reached, or epoll cannot wait for a descriptor of this kind.
pub fn is_ready_within(source: impl AsFd, interest: Interest, timeout_ns: u64) -> io::Result<bool> {
    let poll = Poll::new()?;
    poll.add(source, 0, interest)?;
    let mut events = Events::with_capacity(1);
    poll.wait(&mut events, Some(timeout_ns))?;
    Ok(!events.is_empty())
}

/// An event (eventfd) that any thread can signal, and for which another thread waits by [`Poll`] or
/// a ring.
#[derive(Debug)]
pub struct Waker {
    event: OwnedFd,
}

impl Waker {
    /// Creates an event that is not signalled.
    ///
    /// # Errors
    /// The limit of descriptors is reached.
    pub fn new() -> io::Result<Self> {
        Ok(Self {
            event: eventfd(0, EventfdFlags::CLOEXEC | EventfdFlags::NONBLOCK)?,
        })
    }

    /// Signals the event: makes the descriptor readable until [`clear`](Self::clear). Further calls
    /// before that have no effect.
    pub fn wake(&self) {
        // The write adds 1 to the event's counter. It fails only with EAGAIN, if the counter is at
        // its maximum; the event is signalled then.
        let _ = rustix::io::write(&self.event, &1_u64.to_ne_bytes());
    }

    /// Clears the event: makes the descriptor unreadable until the next [`wake`](Self::wake).
    pub fn clear(&self) {
        // The read sets the counter to 0. It fails only with EAGAIN, if the counter is 0 already.
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
    fn waker_is_readable_from_wake_until_clear() {
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
    fn epoll_wait_keeps_the_timeout_and_returns_the_same_events_as_epoll_pwait2() {
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
    fn wait_interrupted_by_signals_lasts_until_its_timeout() {
        let handler: extern "C" fn(libc::c_int) = interrupts;
        // SAFETY: the handler has no effects, and no other test uses this signal.
        unsafe { libc::signal(libc::SIGUSR2, handler as libc::sighandler_t) };
        // SAFETY: the call has no preconditions and cannot fail.
        let waiting = unsafe { libc::pthread_self() };
        let is_over = std::sync::atomic::AtomicBool::new(false);
        std::thread::scope(|scope| {
            scope.spawn(|| {
                while !is_over.load(std::sync::atomic::Ordering::Relaxed) {
                    // SAFETY: the waiting thread owns the scope and so outlives this thread.
                    unsafe { libc::pthread_kill(waiting, libc::SIGUSR2) };
                    std::thread::sleep(std::time::Duration::from_millis(5));
                }
            });
            let poll = Poll::new().unwrap();
            let mut events = Events::with_capacity(1);
            let start_ns = monotonic_ns();
            let outcome = poll.wait(&mut events, Some(100_000_000));
            let waited_ns = monotonic_ns() - start_ns;
            is_over.store(true, std::sync::atomic::Ordering::Relaxed);
            outcome.unwrap();
            assert!(events.is_empty());
            assert!(waited_ns >= 100_000_000, "{waited_ns} ns");
        });
    }
}
