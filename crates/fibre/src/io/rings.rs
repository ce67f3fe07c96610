//! Completions: an io_uring a processor.
//!
//! What a fibre asks for goes into the ring of the processor it runs on, and is handed over with
//! all else when that has nothing to run, or every so often. What has been done may be looked at by
//! any processor, so that fibres whose processor is busy are not kept waiting. For that the kernel
//! has to note it while the processor runs, by an interrupt of its own (no `DEFER_TASKRUN`, no
//! `COOP_TASKRUN`); a runtime with one processor, whom nobody helps, has the former.
//!
//! Invariants: a fibre does not go on, nor end, before all it asked for has been done, or been
//! ended by the kernel: what the kernel reads and writes meanwhile lies where the fibre put it. The
//! submission queue is its processor's alone; the completion queue is whose who has `reaping`. A
//! processor that sleeps has it: what is to wake it must not be taken out by another before it is
//! in the kernel.

use std::cell::UnsafeCell;
use std::io;
use std::os::fd::{AsRawFd, BorrowedFd, RawFd};
use std::sync::atomic::{AtomicBool, AtomicI32, AtomicU32, Ordering};
use std::{ptr, slice};

use io_uring::squeue::{Entry, Flags};
use io_uring::types::{Fd, SubmitArgs, Timespec};
use io_uring::{EnterFlags, IoUring, cqueue, opcode};

use crate::cancel::{begin_wait, given_up};
use crate::fibre::Fibre;
use crate::io::Reactor;
use crate::limits::{CANCEL_RETRY_NS, RING_ENTRIES};
use crate::switch::{local, park};
use crate::sync::{Mutex, lock, pause};
use crate::time::{Alarm, monotonic_ns};

/// Completions taken out at once.
const BATCH: usize = 64;

/// What a completion is of, where it is not of a fibre's.
const NOBODY: u64 = 0;
const EVENT: u64 = 8;
/// The second of two that were asked for together.
const SECOND: u64 = 1;

/// Who is shown what has come.
pub(crate) type Came<'c> = &'c mut dyn FnMut(&[u8]);

/// A processor's ring.
pub(crate) struct Ring {
    uring: IoUring,
    event: RawFd,
    /// Somebody takes completions out.
    reaping: AtomicBool,
    /// Only this processor does.
    is_alone: bool,
    /// The ring does not say by itself what has been done.
    is_enabled: AtomicBool,
    /// The event is no more watched.
    event_ended: AtomicBool,
    /// Somebody else has taken out that the event was set.
    was_called: AtomicBool,
    /// Requests that are to be ended, by anybody.
    to_end: Mutex<Vec<u64>>,
    has_to_end: AtomicBool,
}

// SAFETY: the submission queue is touched by the processor's own thread alone, the completion queue
// by whoever has `reaping`; the rest is shared by its nature.
unsafe impl Sync for Ring {}

/// What a fibre waits for: it lies on its stack.
struct Operation {
    results: [AtomicI32; 2],
    /// Completions to come.
    pending: AtomicU32,
    /// Where each puts what others may look at; null: it brings nothing.
    rooms: [*const u8; 2],
    /// Taken by the last of them.
    fibre: UnsafeCell<Option<Fibre>>,
}

/// Whether this kernel has rings that serve, and lets this process use them.
pub(crate) fn probe() -> io::Result<()> {
    let uring = IoUring::new(4)?;
    let mut probe = io_uring::Probe::new();
    uring.submitter().register_probe(&mut probe)?;
    let wanted = [
        opcode::Recv::CODE,
        opcode::Send::CODE,
        opcode::Accept::CODE,
        opcode::Connect::CODE,
        opcode::Read::CODE,
        opcode::Write::CODE,
        opcode::OpenAt::CODE,
        opcode::Fsync::CODE,
        opcode::PollAdd::CODE,
        opcode::AsyncCancel::CODE,
    ];
    let has_all = wanted.iter().all(|&code| probe.is_supported(code));
    // Waiting for so long, without a signal to end it: Linux 5.11. Polling on: 5.13.
    if has_all && uring.params().is_feature_ext_arg() {
        return Ok(());
    }
    Err(io::Error::new(
        io::ErrorKind::Unsupported,
        "io_uring lacks what fibres need (Linux 5.13 has it)",
    ))
}

impl Ring {
    /// `event`: what is set to call the processor.
    pub(crate) fn new(processors: usize, event: BorrowedFd<'_>) -> io::Result<Self> {
        let is_alone = processors == 1;
        let build = |submits_all: bool, is_deferred: bool| {
            let mut builder = IoUring::builder();
            builder.setup_cqsize(4 * RING_ENTRIES);
            if submits_all {
                builder.setup_submit_all();
            }
            if is_deferred {
                // Enabled by its own thread, which is its only one then.
                builder.setup_single_issuer().setup_defer_taskrun();
                builder.setup_r_disabled();
            }
            builder.build(RING_ENTRIES)
        };
        // Linux 6.1 defers, 5.18 submits what follows a faulty request at once, not the next time.
        let (uring, is_deferred) = match is_alone.then(|| build(true, true)) {
            Some(Ok(uring)) => (uring, true),
            _ => (build(true, false).or_else(|_| build(false, false))?, false),
        };
        Ok(Self {
            uring,
            event: event.as_raw_fd(),
            reaping: AtomicBool::new(false),
            is_alone,
            is_enabled: AtomicBool::new(!is_deferred),
            event_ended: AtomicBool::new(true),
            was_called: AtomicBool::new(false),
            to_end: Mutex::default(),
            has_to_end: AtomicBool::new(false),
        })
    }

    /// The processor's own thread: hands over, and takes out.
    pub(crate) fn poll(&self, came: Came<'_>) -> usize {
        self.prepare();
        self.enter(0, None);
        self.reap(came)
    }

    /// The processor's own thread: hands over and sleeps.
    pub(crate) fn sleep(&self, timeout_ns: Option<u64>) {
        // Before completions are kept from others: a full queue may want them taken out. If the
        // event's end is taken out after this, so was the event, and it does not sleep.
        self.prepare();
        let mut round = 0;
        while !self.try_drain() {
            pause(round);
            round = round.wrapping_add(1);
        }
        let was_called = self.was_called.swap(false, Ordering::Relaxed);
        self.enter(usize::from(!was_called), timeout_ns);
        self.leave_drain();
    }

    fn try_drain(&self) -> bool {
        // Acquire: pairs with `leave_drain`.
        !self.reaping.load(Ordering::Relaxed) && !self.reaping.swap(true, Ordering::Acquire)
    }

    fn leave_drain(&self) {
        // Release: pairs with `try_drain`: the queue is as this left it.
        self.reaping.store(false, Ordering::Release);
    }

    /// Puts what the processor itself asks for in the queue.
    fn prepare(&self) {
        self.enable();
        self.watch_event();
        self.end_what_is_to_end();
    }

    fn enter(&self, wanted: usize, timeout_ns: Option<u64>) {
        let submitter = self.uring.submitter();
        let submitted = match timeout_ns {
            Some(ns) if wanted > 0 => {
                let time = Timespec::new()
                    .sec(ns / 1_000_000_000)
                    .nsec((ns % 1_000_000_000) as u32);
                submitter.submit_with_args(wanted, &SubmitArgs::new().timespec(&time))
            }
            _ if wanted > 0 => submitter.submit_and_wait(wanted),
            _ => {
                // SAFETY: this is the processor's own thread.
                let queue = unsafe { self.uring.submission_shared() };
                let (unsubmitted, has_overflown) = (queue.len() as u32, queue.cq_overflow());
                drop(queue);
                // What had no place in the completion queue comes by this call alone.
                if unsubmitted == 0 && !self.is_alone && !has_overflown {
                    return;
                }
                let flags = EnterFlags::GETEVENTS;
                // SAFETY: no signal set is passed.
                unsafe { submitter.enter::<libc::sigset_t>(unsubmitted, 0, flags.bits(), None) }
            }
        };
        // A time that is over, a signal: the loop looks again. A full completion queue: it is
        // emptied next. What was not handed over is still in the queue.
        drop(submitted);
    }

    fn enable(&self) {
        if !self.is_enabled.load(Ordering::Relaxed) {
            let enabled = self.uring.submitter().register_enable_rings();
            debug_assert!(enabled.is_ok(), "a ring that was enabled twice");
            self.is_enabled.store(true, Ordering::Relaxed);
        }
    }

    /// Has the kernel say when the processor is called.
    fn watch_event(&self) {
        if self.event_ended.load(Ordering::Relaxed) {
            self.event_ended.store(false, Ordering::Relaxed);
            let poll = opcode::PollAdd::new(Fd(self.event), libc::POLLIN as u32).multi(true);
            self.push(&[poll.build().user_data(EVENT)]);
        }
    }

    /// Puts requests in the submission queue, together.
    fn push(&self, entries: &[Entry]) {
        loop {
            // SAFETY: this is the processor's own thread.
            let mut queue = unsafe { self.uring.submission_shared() };
            // SAFETY: what the entries point to lies on a fibre's stack, or is held by who waits
            // there, until all have completed (`perform`).
            if unsafe { queue.push_multiple(entries) }.is_ok() {
                break;
            }
            drop(queue);
            self.enable();
            if self.uring.submit().is_err() {
                // Before Linux 5.19 it may say that there is no room for completions.
                self.reap(&mut |_| ());
            }
        }
    }

    /// Anybody: has a request ended. The processor is to be called afterwards.
    fn end(&self, data: u64) {
        let mut to_end = lock(&self.to_end);
        to_end.push(data);
        self.has_to_end.store(true, Ordering::Relaxed);
    }

    /// Anybody: what was to be ended has ended. Another that lies where it lay is not meant.
    fn has_ended(&self, data: u64) {
        let mut to_end = lock(&self.to_end);
        to_end.retain(|other| other & !SECOND != data);
    }

    fn end_what_is_to_end(&self) {
        if !self.has_to_end.load(Ordering::Relaxed) {
            return;
        }
        let mut to_end = lock(&self.to_end);
        self.has_to_end.store(false, Ordering::Relaxed);
        let all = std::mem::take(&mut *to_end);
        drop(to_end);
        for data in all {
            self.push(&[opcode::AsyncCancel::new(data).build().user_data(NOBODY)]);
        }
    }

    /// The processor's own thread: takes completions out and rouses those who waited for them: how
    /// many. `came`: shown what has come, before those it is for run.
    pub(crate) fn reap(&self, came: Came<'_>) -> usize {
        self.reap_for(true, came)
    }

    /// The same for anybody else.
    pub(crate) fn help(&self) -> usize {
        self.reap_for(false, &mut |_| ())
    }

    fn reap_for(&self, is_own: bool, came: Came<'_>) -> usize {
        let mut count = 0;
        loop {
            let mut fibres: [Option<Fibre>; BATCH] = [const { None }; BATCH];
            let taken = self.take_out(&mut fibres, is_own, came);
            let found = fibres.iter().flatten().count();
            // Without the lock: rousing may make a system call.
            fibres
                .into_iter()
                .flatten()
                .for_each(|fibre| fibre.unpark());
            count += found;
            if taken < BATCH {
                return count;
            }
        }
    }

    fn take_out(&self, fibres: &mut [Option<Fibre>; BATCH], is_own: bool, came: Came<'_>) -> usize {
        if !self.try_drain() {
            return 0;
        }
        let mut taken = 0;
        // SAFETY: nobody else has the queue.
        let mut queue = unsafe { self.uring.completion_shared() };
        while taken < BATCH
            && let Some(completion) = queue.next()
        {
            if completion.user_data() == EVENT && !is_own {
                self.was_called.store(true, Ordering::Relaxed);
            }
            fibres[taken] = self.take_note(&completion, came);
            taken += 1;
        }
        drop(queue);
        self.leave_drain();
        taken
    }

    /// Notes a completion; the fibre to rouse, if that was the last it waited for.
    fn take_note(&self, completion: &cqueue::Entry, came: Came<'_>) -> Option<Fibre> {
        let data = completion.user_data();
        if data == NOBODY {
            return None;
        }
        if data == EVENT {
            if !cqueue::more(completion.flags()) {
                self.event_ended.store(true, Ordering::Relaxed);
            }
            return None;
        }
        let operation = (data & !SECOND) as *const Operation;
        // SAFETY: it lies on the stack of a fibre that waits until this, or a later one, has been
        // noted.
        let operation = unsafe { &*operation };
        let nth = (data & SECOND) as usize;
        operation.results[nth].store(completion.result(), Ordering::Relaxed);
        let room = operation.rooms[nth];
        if let Ok(len @ 1..) = usize::try_from(completion.result())
            && !room.is_null()
        {
            // SAFETY: the kernel has written so many bytes there and is done with them; who lent
            // the room does not go on before `pending` is 0 (`perform_into`).
            came(unsafe { slice::from_raw_parts(room, len) });
        }
        let pending = operation.pending.load(Ordering::Relaxed) - 1;
        let fibre = if pending == 0 {
            // SAFETY: nobody else touches it before `pending` is 0.
            unsafe { (*operation.fibre.get()).take() }
        } else {
            None
        };
        // Release: pairs with `perform`. The operation is gone after this.
        operation.pending.store(pending, Ordering::Release);
        fibre
    }
}

/// Has the kernel do something, and waits until it has, until `due_ns`, or until the fibre is
/// told to end. Two entries are done one after the other; the second is not done if the first
/// fails.
///
/// # Errors
/// The fibre was told to end, or unwinds; the time is over; or there is no ring here.
///
/// # Safety
/// What the entries point to stays where it is until this returns.
pub(crate) unsafe fn perform<const N: usize>(
    entries: [Entry; N],
    due_ns: Option<u64>,
) -> io::Result<[i32; N]> {
    // SAFETY: the caller's promise; there is no room.
    unsafe { perform_into(entries, ptr::null(), due_ns) }
}

/// As [`perform`]. `room`: where the last entry puts what comes, which others may look at before
/// this returns.
///
/// # Safety
/// What the entries point to stays where it is until this returns. A room is where the last entry
/// has the kernel write, and nobody's else meanwhile; as many bytes as it completes with are in it.
pub(crate) unsafe fn perform_into<const N: usize>(
    entries: [Entry; N],
    room: *const u8,
    due_ns: Option<u64>,
) -> io::Result<[i32; N]> {
    const { assert!(N == 1 || N == 2) };
    let fibre = begin_wait()?;
    let mut rooms = [ptr::null(); 2];
    rooms[N - 1] = room;
    let operation = Operation {
        results: [AtomicI32::new(0), AtomicI32::new(0)],
        pending: AtomicU32::new(N as u32),
        rooms,
        fibre: UnsafeCell::new(Some(fibre.clone())),
    };
    let data = &raw const operation as u64;
    let mut nth = 0;
    let entries = entries.map(|entry| {
        nth += 1;
        let is_linked = nth < N as u64;
        let entry = entry.user_data(data | (nth - 1));
        match is_linked {
            true => entry.flags(Flags::IO_LINK),
            false => entry,
        }
    });
    let number = local(|local| {
        let number = local?.number;
        let Reactor::Rings(ring) = &fibre.record.anchor.shared.slots[number].reactor else {
            return None;
        };
        ring.push(&entries);
        Some(number)
    });
    let Some(number) = number else {
        return Err(io::Error::new(
            io::ErrorKind::Unsupported,
            "this belongs to a runtime with rings, and here are none",
        ));
    };
    let mut alarm = due_ns.map(|due_ns| Alarm::set(&fibre, due_ns));
    let mut ends = 0_u32;
    // Acquire: pairs with `take_note`.
    while operation.pending.load(Ordering::Acquire) > 0 {
        let is_late = due_ns.is_some_and(|due_ns| monotonic_ns() >= due_ns);
        let is_again = ends == 0 || alarm.as_ref().is_some_and(Alarm::is_due);
        if (is_late || fibre.is_cancelled()) && is_again {
            let shared = &fibre.record.anchor.shared;
            if let Reactor::Rings(ring) = &shared.slots[number].reactor {
                // The first first: if it is done before it is ended, the second has begun.
                (0..N as u64).for_each(|nth| ring.end(data | nth));
                shared.idle.wake(number);
            }
            // On the way from one wait of the kernel's to the next, as from the first to the
            // second, it is not found: then it is ended again.
            let timeout_ns = CANCEL_RETRY_NS << ends.min(10);
            alarm = Some(Alarm::set(&fibre, monotonic_ns() + timeout_ns));
            ends += 1;
        }
        park();
    }
    drop(alarm);
    let is_ended = ends > 0;
    if is_ended && let Reactor::Rings(ring) = &fibre.record.anchor.shared.slots[number].reactor {
        ring.has_ended(data);
    }
    let mut nth = 0;
    let results = [(); N].map(|()| {
        nth += 1;
        operation.results[nth - 1].load(Ordering::Relaxed)
    });
    // Interrupted: it was ended while one of the kernel's own threads was at it.
    if is_ended && [-libc::ECANCELED, -libc::EINTR].contains(&results[N - 1]) {
        return Err(given_up(&fibre));
    }
    Ok(results)
}

/// A length, as the kernel is told it.
pub(crate) fn clamp(len: usize) -> u32 {
    u32::try_from(len).unwrap_or(u32::MAX)
}

/// What the kernel says in a completion.
pub(crate) fn told(result: i32) -> io::Result<usize> {
    usize::try_from(result).map_err(|_| io::Error::from_raw_os_error(-result))
}
