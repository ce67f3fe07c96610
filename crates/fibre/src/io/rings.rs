//! Completions: one io_uring per processor.
//!
//! A fibre's request goes into the ring of its current processor and is submitted with others when
//! that processor has nothing to run, and at intervals. Any processor may reap the completions, so
//! that fibres of a busy processor are not delayed. Reaping by others requires that the kernel
//! posts completions while the processor runs, by an interrupt (no `DEFER_TASKRUN`, no
//! `COOP_TASKRUN`). A runtime with one processor, whose completions no other processor takes, uses
//! `DEFER_TASKRUN`.
//!
//! Invariants: a fibre neither continues nor ends before all its requests have completed or were
//! cancelled, because the kernel reads and writes memory of the fibre in the meantime. The
//! submission queue belongs to its processor; the completion queue belongs to the holder of the
//! lock `is_reaping`. A processor holds this lock while it sleeps. Otherwise another processor
//! could take the completion that is to wake it, just before it sleeps in the kernel.

use std::cell::UnsafeCell;
use std::io;
use std::os::fd::{AsRawFd, BorrowedFd, RawFd};
use std::sync::atomic::{AtomicBool, AtomicI32, AtomicU32, Ordering};
use std::{ptr, slice};

use io_uring::squeue::{Entry, Flags};
use io_uring::types::{Fd, SubmitArgs, Timespec};
use io_uring::{EnterFlags, IoUring, cqueue, opcode};

use crate::cancel::{begin_wait, cancelled_or_timed_out};
use crate::fibre::Fibre;
use crate::io::Reactor;
use crate::limits::{CANCEL_RETRY_NS, RING_ENTRIES};
use crate::switch::{local, park};
use crate::sync::{Mutex, lock, pause};
use crate::time::{Timer, monotonic_ns};

/// Maximum number of completions taken at a time.
const BATCH: usize = 64;

/// Token of a completion that is ignored.
const NO_FIBRE: u64 = 0;
/// Token of the event that wakes the processor. Other tokens are addresses of operations.
const EVENT_TOKEN: u64 = 8;
/// Bit of a token: the completion is that of the second of two linked requests.
const SECOND_BIT: u64 = 1;

/// A hook to which received bytes are passed before their fibre runs.
pub(crate) type OnReceived<'c> = &'c mut dyn FnMut(&[u8]);

/// The ring of a processor.
pub(crate) struct Ring {
    uring: IoUring,
    event: RawFd,
    /// The lock of the completion queue: a thread is taking completions.
    is_reaping: AtomicBool,
    /// The runtime has one processor, so no other takes completions.
    has_one_processor: bool,
    /// The ring is enabled. A deferred ring is created disabled, and enabled by its own thread.
    is_enabled: AtomicBool,
    /// The poll request for the event has ended, and has to be queued again.
    must_watch_event: AtomicBool,
    /// Another thread has taken a completion of the event, so the processor must not sleep.
    was_event_taken: AtomicBool,
    /// Tokens of the requests to be cancelled. Any thread may add one.
    cancellations: Mutex<Vec<u64>>,
    has_cancellations: AtomicBool,
}

// SAFETY: only the processor's own thread uses the submission queue, only the holder of
// `is_reaping` the completion queue; the other fields are thread-safe.
unsafe impl Sync for Ring {}

/// A pending operation of a fibre, on the fibre's stack.
struct Operation {
    results: [AtomicI32; 2],
    /// Number of outstanding completions.
    pending: AtomicU32,
    /// The buffer of each receive, whose bytes are passed to the hook. Null for other operations.
    receive_buffers: [*const u8; 2],
    /// The fibre. The last completion takes it.
    fibre: UnsafeCell<Option<Fibre>>,
}

/// Whether this kernel has the needed io_uring features and lets this process use them.
pub(crate) fn probe() -> io::Result<()> {
    let uring = IoUring::new(4)?;
    let mut probe = io_uring::Probe::new();
    uring.submitter().register_probe(&mut probe)?;
    let needed = [
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
    let has_all = needed.iter().all(|&code| probe.is_supported(code));
    // Waiting with a timeout needs Linux 5.11, multishot poll 5.13.
    if has_all && uring.params().is_feature_ext_arg() {
        return Ok(());
    }
    Err(io::Error::new(
        io::ErrorKind::Unsupported,
        "io_uring lacks what fibres need (Linux 5.13 has it)",
    ))
}

impl Ring {
    /// Creates a ring. `event` is set to wake the processor.
    pub(crate) fn new(processors: usize, event: BorrowedFd<'_>) -> io::Result<Self> {
        let has_one_processor = processors == 1;
        let build = |submits_all: bool, is_deferred: bool| {
            let mut builder = IoUring::builder();
            builder.setup_cqsize(4 * RING_ENTRIES);
            if submits_all {
                builder.setup_submit_all();
            }
            if is_deferred {
                // The thread that enables the ring is then its only submitter.
                builder.setup_single_issuer().setup_defer_taskrun();
                builder.setup_r_disabled();
            }
            builder.build(RING_ENTRIES)
        };
        // Linux 6.1 supports deferral. From 5.18, entries after a faulty one are submitted at once.
        let (uring, is_deferred) = match has_one_processor.then(|| build(true, true)) {
            Some(Ok(uring)) => (uring, true),
            _ => (build(true, false).or_else(|_| build(false, false))?, false),
        };
        Ok(Self {
            uring,
            event: event.as_raw_fd(),
            is_reaping: AtomicBool::new(false),
            has_one_processor,
            is_enabled: AtomicBool::new(!is_deferred),
            must_watch_event: AtomicBool::new(true),
            was_event_taken: AtomicBool::new(false),
            cancellations: Mutex::default(),
            has_cancellations: AtomicBool::new(false),
        })
    }

    /// Called by the processor: submits requests and takes completions.
    pub(crate) fn poll(&self, on_received: OnReceived<'_>) -> usize {
        self.prepare();
        self.enter(0, None);
        self.reap(on_received)
    }

    /// Called by the processor: submits requests and sleeps.
    pub(crate) fn sleep(&self, timeout_ns: Option<u64>) {
        // With a full queue, `prepare` may have to take completions, so it precedes the lock. If
        // another thread takes the completion of the event between the two, the processor does not
        // sleep.
        self.prepare();
        let mut round = 0;
        while !self.try_lock_completions() {
            pause(round);
            round = round.wrapping_add(1);
        }
        let was_event_taken = self.was_event_taken.swap(false, Ordering::Relaxed);
        self.enter(usize::from(!was_event_taken), timeout_ns);
        self.unlock_completions();
    }

    fn try_lock_completions(&self) -> bool {
        // Acquire: pairs with `unlock_completions`.
        !self.is_reaping.load(Ordering::Relaxed) && !self.is_reaping.swap(true, Ordering::Acquire)
    }

    fn unlock_completions(&self) {
        // Release: pairs with `try_lock_completions`: the next holder sees the state of the queue.
        self.is_reaping.store(false, Ordering::Release);
    }

    /// Enables the ring, and queues the requests of the processor itself.
    fn prepare(&self) {
        self.enable();
        self.watch_event();
        self.submit_cancellations();
    }

    fn enter(&self, min_complete: usize, timeout_ns: Option<u64>) {
        let submitter = self.uring.submitter();
        let submitted = match timeout_ns {
            Some(ns) if min_complete > 0 => {
                let time = Timespec::new()
                    .sec(ns / 1_000_000_000)
                    .nsec((ns % 1_000_000_000) as u32);
                submitter.submit_with_args(min_complete, &SubmitArgs::new().timespec(&time))
            }
            _ if min_complete > 0 => submitter.submit_and_wait(min_complete),
            _ => {
                // SAFETY: this is the processor's own thread.
                let queue = unsafe { self.uring.submission_shared() };
                let (unsubmitted, has_overflown) = (queue.len() as u32, queue.cq_overflow());
                drop(queue);
                // Completions that overflowed the queue are delivered only by `enter`.
                if unsubmitted == 0 && !self.has_one_processor && !has_overflown {
                    return;
                }
                let flags = EnterFlags::GETEVENTS;
                // SAFETY: no signal set is passed.
                unsafe { submitter.enter::<libc::sigset_t>(unsubmitted, 0, flags.bits(), None) }
            }
        };
        // Errors need no handling. After a timeout or a signal, the loop polls again. A full
        // completion queue is emptied next. Requests that were not submitted are still in the
        // queue.
        drop(submitted);
    }

    fn enable(&self) {
        if !self.is_enabled.load(Ordering::Relaxed) {
            let enabled = self.uring.submitter().register_enable_rings();
            debug_assert!(enabled.is_ok(), "a ring that was enabled twice");
            self.is_enabled.store(true, Ordering::Relaxed);
        }
    }

    /// Watches the event that wakes the processor.
    fn watch_event(&self) {
        if self.must_watch_event.load(Ordering::Relaxed) {
            self.must_watch_event.store(false, Ordering::Relaxed);
            let poll = opcode::PollAdd::new(Fd(self.event), libc::POLLIN as u32).multi(true);
            self.push(&[poll.build().user_data(EVENT_TOKEN)]);
        }
    }

    /// Adds requests to the submission queue, which are submitted together.
    fn push(&self, entries: &[Entry]) {
        loop {
            // SAFETY: this is the processor's own thread.
            let mut queue = unsafe { self.uring.submission_shared() };
            // SAFETY: the entries point to memory on a fibre's stack, or held by the waiting fibre,
            // until all have completed (`perform`).
            if unsafe { queue.push_multiple(entries) }.is_ok() {
                break;
            }
            drop(queue);
            self.enable();
            if self.uring.submit().is_err() {
                // Before Linux 5.19 the kernel may report that there is no space for completions.
                self.reap(&mut |_| ());
            }
        }
    }

    /// Requests the cancellation of a request. The caller wakes the processor afterwards. Callable
    /// from any thread.
    fn request_cancellation(&self, data: u64) {
        let mut cancellations = lock(&self.cancellations);
        cancellations.push(data);
        self.has_cancellations.store(true, Ordering::Relaxed);
    }

    /// Withdraws the cancellations of an operation that has completed, so that they do not cancel a
    /// later operation at the same address. Callable from any thread.
    fn withdraw_cancellations(&self, data: u64) {
        let mut cancellations = lock(&self.cancellations);
        cancellations.retain(|other| other & !SECOND_BIT != data);
    }

    fn submit_cancellations(&self) {
        if !self.has_cancellations.load(Ordering::Relaxed) {
            return;
        }
        let mut cancellations = lock(&self.cancellations);
        self.has_cancellations.store(false, Ordering::Relaxed);
        let all = std::mem::take(&mut *cancellations);
        drop(cancellations);
        for data in all {
            self.push(&[opcode::AsyncCancel::new(data).build().user_data(NO_FIBRE)]);
        }
    }

    /// Takes completions and wakes the fibres that waited for them. Returns their number. Received
    /// bytes are passed to `on_received` before the fibre runs. Called by the processor.
    pub(crate) fn reap(&self, on_received: OnReceived<'_>) -> usize {
        self.reap_for(true, on_received)
    }

    /// As [`reap`](Self::reap), called by other threads.
    pub(crate) fn reap_for_other(&self) -> usize {
        self.reap_for(false, &mut |_| ())
    }

    fn reap_for(&self, is_own: bool, on_received: OnReceived<'_>) -> usize {
        let mut count = 0;
        loop {
            let mut fibres: [Option<Fibre>; BATCH] = [const { None }; BATCH];
            let taken = self.take_completions(&mut fibres, is_own, on_received);
            let found = fibres.iter().flatten().count();
            // The lock is not held here, because waking may make a system call.
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

    fn take_completions(
        &self,
        fibres: &mut [Option<Fibre>; BATCH],
        is_own: bool,
        on_received: OnReceived<'_>,
    ) -> usize {
        if !self.try_lock_completions() {
            return 0;
        }
        let mut taken = 0;
        // SAFETY: the caller holds the queue.
        let mut queue = unsafe { self.uring.completion_shared() };
        while taken < BATCH
            && let Some(completion) = queue.next()
        {
            if completion.user_data() == EVENT_TOKEN && !is_own {
                self.was_event_taken.store(true, Ordering::Relaxed);
            }
            fibres[taken] = self.record_completion(&completion, on_received);
            taken += 1;
        }
        drop(queue);
        self.unlock_completions();
        taken
    }

    /// Records a completion. Returns the fibre to wake if it was the last one.
    fn record_completion(
        &self,
        completion: &cqueue::Entry,
        on_received: OnReceived<'_>,
    ) -> Option<Fibre> {
        let data = completion.user_data();
        if data == NO_FIBRE {
            return None;
        }
        if data == EVENT_TOKEN {
            if !cqueue::more(completion.flags()) {
                self.must_watch_event.store(true, Ordering::Relaxed);
            }
            return None;
        }
        let operation = (data & !SECOND_BIT) as *const Operation;
        // SAFETY: the operation lies on the stack of a fibre that waits until this completion, or a
        // later one, is recorded.
        let operation = unsafe { &*operation };
        let nth = (data & SECOND_BIT) as usize;
        operation.results[nth].store(completion.result(), Ordering::Relaxed);
        let buffer = operation.receive_buffers[nth];
        if let Ok(len @ 1..) = usize::try_from(completion.result())
            && !buffer.is_null()
        {
            // SAFETY: the kernel has written this many bytes and does not use the buffer any more;
            // the fibre does not continue before `pending` is 0 (`perform_into`).
            on_received(unsafe { slice::from_raw_parts(buffer, len) });
        }
        let pending = operation.pending.load(Ordering::Relaxed) - 1;
        let fibre = if pending == 0 {
            // SAFETY: no other thread uses the field before `pending` is 0.
            unsafe { (*operation.fibre.get()).take() }
        } else {
            None
        };
        // Release: pairs with `perform`. After this store the fibre may drop the operation.
        operation.pending.store(pending, Ordering::Release);
        fibre
    }
}

/// Submits one or two operations and waits until they complete, until `due_ns`, or until the fibre
/// is cancelled. The second operation starts after the first, and is not performed if the first
/// fails.
///
/// # Errors
/// The fibre was cancelled or unwinds, the deadline has passed, or the runtime has no rings.
///
/// # Safety
/// The memory that the entries point to stays valid until this returns.
pub(crate) unsafe fn perform<const N: usize>(
    entries: [Entry; N],
    due_ns: Option<u64>,
) -> io::Result<[i32; N]> {
    // SAFETY: guaranteed by the caller; there is no receive buffer.
    unsafe { perform_into(entries, ptr::null(), due_ns) }
}

/// As [`perform`]. `buffer` is the buffer into which the last entry receives. Its bytes are passed
/// to a hook before this returns.
///
/// # Safety
/// The memory that the entries point to stays valid until this returns. `buffer` is the address to
/// which the last entry makes the kernel write, and is not used otherwise during the call. It
/// contains as many bytes as the entry's completion says.
pub(crate) unsafe fn perform_into<const N: usize>(
    entries: [Entry; N],
    buffer: *const u8,
    due_ns: Option<u64>,
) -> io::Result<[i32; N]> {
    const { assert!(N == 1 || N == 2) };
    let fibre = begin_wait()?;
    let mut receive_buffers = [ptr::null(); 2];
    receive_buffers[N - 1] = buffer;
    let operation = Operation {
        results: [AtomicI32::new(0), AtomicI32::new(0)],
        pending: AtomicU32::new(N as u32),
        receive_buffers,
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
            "the socket or file belongs to another runtime: this one has no io_uring",
        ));
    };
    let mut timer = due_ns.map(|due_ns| Timer::start(&fibre, due_ns));
    let mut cancellation_count = 0_u32;
    // Acquire: pairs with `record_completion`.
    while operation.pending.load(Ordering::Acquire) > 0 {
        let is_late = due_ns.is_some_and(|due_ns| monotonic_ns() >= due_ns);
        let may_cancel = cancellation_count == 0 || timer.as_ref().is_some_and(Timer::is_due);
        if (is_late || fibre.is_cancelled()) && may_cancel {
            let shared = &fibre.record.anchor.shared;
            if let Reactor::Rings(ring) = &shared.slots[number].reactor {
                // The first operation is cancelled first. If it completes before that, the second
                // one has started when its cancellation is submitted.
                (0..N as u64).for_each(|nth| ring.request_cancellation(data | nth));
                shared.idle.wake(number);
            }
            // The kernel does not find a request that is between two waits, for example between the
            // first operation and the second. So the cancellation is repeated after a delay.
            let timeout_ns = CANCEL_RETRY_NS << cancellation_count.min(10);
            timer = Some(Timer::start(&fibre, monotonic_ns() + timeout_ns));
            cancellation_count += 1;
        }
        park();
    }
    drop(timer);
    let was_cancelled = cancellation_count > 0;
    if was_cancelled && let Reactor::Rings(ring) = &fibre.record.anchor.shared.slots[number].reactor
    {
        ring.withdraw_cancellations(data);
    }
    let mut nth = 0;
    let results = [(); N].map(|()| {
        nth += 1;
        operation.results[nth - 1].load(Ordering::Relaxed)
    });
    // EINTR: the operation was cancelled while a kernel thread worked on it.
    if was_cancelled && [-libc::ECANCELED, -libc::EINTR].contains(&results[N - 1]) {
        return Err(cancelled_or_timed_out(&fibre));
    }
    Ok(results)
}

/// A length in the form that the kernel takes.
pub(crate) fn clamp(len: usize) -> u32 {
    u32::try_from(len).unwrap_or(u32::MAX)
}

/// The result of a completion.
pub(crate) fn check(result: i32) -> io::Result<usize> {
    usize::try_from(result).map_err(|_| io::Error::from_raw_os_error(-result))
}
