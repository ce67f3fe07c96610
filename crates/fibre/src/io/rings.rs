//! The I/O backend *rings*: one io_uring per processor.
//!
//! A fibre's request is queued in the ring of the processor that runs the fibre. The processor
//! submits the queued requests to the kernel in batches: at intervals, and when it has no fibre to
//! run.
//!
//! Any processor may *reap* the completions of a ring, that is, take them from the ring and wake
//! the fibres that wait for them. So these fibres are not delayed if the ring's own processor is
//! busy. For this, the kernel must post completions while the thread of that processor runs, and
//! interrupts the thread to do so. The flags `DEFER_TASKRUN` and `COOP_TASKRUN` would prevent these
//! interrupts, so the ring uses neither. If the runtime has only one processor, no other processor
//! can reap. Its ring then uses `DEFER_TASKRUN`, because interrupts cost time.
//!
//! Invariants:
//!
//! - A fibre that has made requests neither continues nor ends before the kernel has completed or
//!   cancelled all of them. Until then, the kernel may read and write memory of the fibre.
//! - Only the processor's own thread uses the submission queue. Only the holder of the lock
//!   `is_reaping` uses the completion queue.
//! - A processor holds `is_reaping` while it sleeps. Otherwise, just before the sleep begins,
//!   another processor could take the completion that should end the sleep.

use std::cell::UnsafeCell;
use std::io;
use std::os::fd::{AsRawFd, BorrowedFd, RawFd};
use std::sync::atomic::{AtomicBool, AtomicI32, AtomicU32, Ordering};
use std::{ptr, slice, thread};

use io_uring::squeue::{Entry, Flags};
use io_uring::types::{Fd, SubmitArgs, Timespec};
use io_uring::{EnterFlags, IoUring, cqueue, opcode};

use crate::cancel::{begin_wait, cancelled_or_timed_out};
use crate::clock::monotonic_ns;
use crate::fibre::Fibre;
use crate::io::Reactor;
use crate::limits::{CANCEL_RETRY_NS, NO_MEMORY_PAUSE, RING_ENTRIES};
use crate::switch::{local, park};
use crate::sync::{Mutex, lock, pause};
use crate::time::Timer;

/// Maximum number of completions that a thread takes while it holds the lock of the completion
/// queue. After each batch, it releases the lock and wakes the fibres.
const BATCH: usize = 64;

// The token of a request is its `user_data`, which the kernel returns in the completion. For a
// request of a fibre it is the address of the `Operation`, possibly with `SECOND_BIT`.

/// The token of a request for which no fibre waits (a cancellation). Its completion is ignored.
const NO_FIBRE: u64 = 0;
/// The token of the poll request for the eventfd that wakes the processor.
const EVENT_TOKEN: u64 = 8;
/// The bit of a token that marks the second of two linked requests.
const SECOND_BIT: u64 = 1;

/// A function that is called with bytes that the kernel has received, before the fibre that waits
/// for them runs.
pub(crate) type OnReceived<'c> = &'c mut dyn FnMut(&[u8]);

/// The ring of a processor.
pub(crate) struct Ring {
    uring: IoUring,
    /// The eventfd that other threads set to wake the processor.
    event: RawFd,
    /// The lock of the completion queue. True while a thread holds the lock.
    is_reaping: AtomicBool,
    /// The ring uses `DEFER_TASKRUN`, so the kernel posts completions only in `enter`.
    is_deferred: bool,
    /// The ring is enabled. A ring with `DEFER_TASKRUN` is created disabled, and the processor's
    /// own thread enables it.
    is_enabled: AtomicBool,
    /// The ring has no poll request for `event`, so such a request must be queued.
    must_watch_event: AtomicBool,
    /// Another thread has taken the completion that reports `event`. That completion should have
    /// ended or prevented a sleep of the processor, so the processor does not sleep next time.
    was_event_taken: AtomicBool,
    /// The tokens of the requests that the processor must cancel. Any thread may add tokens.
    cancellations: Mutex<Vec<u64>>,
    /// `cancellations` is not empty. Readable without the lock.
    has_cancellations: AtomicBool,
}

// SAFETY: only the processor's own thread uses the submission queue, and only the holder of
// `is_reaping` uses the completion queue. The other fields are thread-safe.
unsafe impl Sync for Ring {}

/// The one or two requests for which a fibre waits, and their results. This value lies on the stack
/// of the fibre.
struct Operation {
    /// The results of the requests, as the kernel returned them.
    results: [AtomicI32; 2],
    /// The number of requests that have not completed.
    pending: AtomicU32,
    /// For a request that receives into a buffer, the address of the buffer; for other requests,
    /// null. If the ring's own processor takes the completion, it passes the received bytes to an
    /// [`OnReceived`].
    receive_buffers: [*const u8; 2],
    /// The fibre to wake. The thread that records the completion of the last pending request takes
    /// this value.
    fibre: UnsafeCell<Option<Fibre>>,
}

/// Checks that this kernel has the io_uring features that this file uses, and lets this process
/// use them.
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
    // Waiting with a timeout is the feature `EXT_ARG`, of Linux 5.11. The poll request for the
    // eventfd is multishot, which needs 5.13. The kernel has no feature flag for that, so the flag
    // for resource tags is checked, which came with the same release.
    let features = uring.params();
    if has_all && features.is_feature_ext_arg() && features.is_feature_resource_tagging() {
        return Ok(());
    }
    Err(io::Error::new(
        io::ErrorKind::Unsupported,
        "io_uring lacks what fibres need (Linux 5.13 has it)",
    ))
}

impl Ring {
    /// Creates a ring. `event` is the eventfd that other threads set to wake the processor.
    pub(crate) fn new(processors: usize, event: BorrowedFd<'_>) -> io::Result<Self> {
        let has_one_processor = processors == 1;
        let build = |submits_all: bool, is_deferred: bool| {
            let mut builder = IoUring::builder();
            builder.setup_cqsize(4 * RING_ENTRIES);
            if submits_all {
                builder.setup_submit_all();
            }
            if is_deferred {
                // `DEFER_TASKRUN` requires that one thread makes all submissions. This is the
                // thread that enables the ring, so the ring is created disabled.
                builder.setup_single_issuer().setup_defer_taskrun();
                builder.setup_r_disabled();
            }
            builder.build(RING_ENTRIES)
        };
        // `DEFER_TASKRUN` needs Linux 6.1. `SUBMIT_ALL` needs 5.18; without it the kernel stops a
        // submission after a faulty entry. An older kernel rejects these flags, and the next
        // attempt uses fewer.
        let (uring, is_deferred) = match has_one_processor.then(|| build(true, true)) {
            Some(Ok(uring)) => (uring, true),
            _ => (build(true, false).or_else(|_| build(false, false))?, false),
        };
        Ok(Self {
            uring,
            event: event.as_raw_fd(),
            is_reaping: AtomicBool::new(false),
            is_deferred,
            is_enabled: AtomicBool::new(!is_deferred),
            must_watch_event: AtomicBool::new(true),
            was_event_taken: AtomicBool::new(false),
            cancellations: Mutex::default(),
            has_cancellations: AtomicBool::new(false),
        })
    }

    /// Submits the queued requests, takes completions, and wakes the fibres that waited for them.
    /// Returns the number of woken fibres. Called by the ring's own processor.
    pub(crate) fn poll(&self, on_received: OnReceived<'_>) -> usize {
        self.prepare();
        self.enter(0, None);
        self.reap(on_received)
    }

    /// Submits the queued requests, and sleeps until there is a completion or the timeout has
    /// passed. Called by the ring's own processor.
    pub(crate) fn sleep(&self, timeout_ns: Option<u64>) {
        // `prepare` is called before the lock is taken: if the submission queue is full, `prepare`
        // may have to take completions, which needs the lock. Before this thread has the lock,
        // another thread may take the completion that reports `event`. That thread sets
        // `was_event_taken`, and this processor then does not sleep.
        self.prepare();
        let mut round = 0;
        while !self.try_lock_completions() {
            pause(round);
            round = round.wrapping_add(1);
        }
        let was_event_taken = self.was_event_taken.swap(false, Ordering::Relaxed);
        // Waits for one completion, or for none if the processor must not sleep.
        self.enter(usize::from(!was_event_taken), timeout_ns);
        self.unlock_completions();
    }

    /// Takes the lock of the completion queue. Returns false if another thread holds it.
    fn try_lock_completions(&self) -> bool {
        // Acquire: pairs with `unlock_completions`.
        !self.is_reaping.load(Ordering::Relaxed) && !self.is_reaping.swap(true, Ordering::Acquire)
    }

    /// Releases the lock of the completion queue.
    fn unlock_completions(&self) {
        // Release: pairs with `try_lock_completions`, so that the next holder sees the state of the
        // queue.
        self.is_reaping.store(false, Ordering::Release);
    }

    /// Enables the ring, and queues the requests of the processor itself: the poll request for
    /// `event`, and cancellations.
    fn prepare(&self) {
        self.enable();
        self.watch_event();
        self.submit_cancellations();
    }

    /// Submits the queued requests, and waits until there are `min_complete` completions (0 or 1)
    /// or the timeout has passed.
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
                // A system call can be avoided if there is nothing to submit. But with
                // `DEFER_TASKRUN`, and after an overflow of the completion queue, the kernel posts
                // completions only in `enter`.
                if unsubmitted == 0 && !self.is_deferred && !has_overflown {
                    return;
                }
                let flags = EnterFlags::GETEVENTS;
                // SAFETY: no signal set is passed.
                unsafe { submitter.enter::<libc::sigset_t>(unsubmitted, 0, flags.bits(), None) }
            }
        };
        // Other errors need no handling. After a timeout or a signal, the loop of the processor
        // polls again. If the completion queue is full, the caller empties it next. Requests that
        // were not submitted are still in the submission queue.
        let has_no_memory = [libc::EAGAIN, libc::ENOMEM].map(Some);
        let is_short = submitted.is_err_and(|error| has_no_memory.contains(&error.raw_os_error()));
        if is_short && min_complete > 0 {
            thread::sleep(NO_MEMORY_PAUSE);
        }
    }

    /// Enables the ring if it was created disabled.
    fn enable(&self) {
        if !self.is_enabled.load(Ordering::Relaxed) {
            let enabled = self.uring.submitter().register_enable_rings();
            debug_assert!(enabled.is_ok(), "failed to enable the ring");
            self.is_enabled.store(true, Ordering::Relaxed);
        }
    }

    /// Queues a poll request for `event`, if the ring has none.
    fn watch_event(&self) {
        if self.must_watch_event.load(Ordering::Relaxed) {
            self.must_watch_event.store(false, Ordering::Relaxed);
            let poll = opcode::PollAdd::new(Fd(self.event), libc::POLLIN as u32).multi(true);
            self.push(&[poll.build().user_data(EVENT_TOKEN)]);
        }
    }

    /// Adds requests to the submission queue, so that they are submitted together.
    fn push(&self, entries: &[Entry]) {
        loop {
            // SAFETY: this is the processor's own thread.
            let mut queue = unsafe { self.uring.submission_shared() };
            // SAFETY: a fibre that makes requests waits until all have completed (`perform`), and
            // the memory to which the entries point stays valid until then. The requests of the
            // processor itself contain no pointers.
            if unsafe { queue.push_multiple(entries) }.is_ok() {
                break;
            }
            drop(queue);
            self.enable();
            if self.uring.submit().is_err() {
                // Before Linux 5.19 a submission may fail because there is no space for
                // completions.
                self.reap(&mut |_| ());
            }
        }
    }

    /// Records that the request with this token must be cancelled. The caller then wakes the ring's
    /// own processor, which submits a cancellation request. Callable from any thread.
    fn request_cancellation(&self, token: u64) {
        let mut cancellations = lock(&self.cancellations);
        cancellations.push(token);
        self.has_cancellations.store(true, Ordering::Relaxed);
    }

    /// Removes the recorded cancellations of an operation that has completed. Otherwise they could
    /// cancel a later operation at the same address. If the processor has already removed a
    /// cancellation from the list, it can do no harm: the processor queues it in this ring before
    /// the requests of any later operation. `token` is the token of the operation's first request.
    /// Callable from any thread.
    fn withdraw_cancellations(&self, token: u64) {
        let mut cancellations = lock(&self.cancellations);
        cancellations.retain(|other| other & !SECOND_BIT != token);
    }

    /// Queues a cancellation request for each recorded token.
    fn submit_cancellations(&self) {
        if !self.has_cancellations.load(Ordering::Relaxed) {
            return;
        }
        let mut cancellations = lock(&self.cancellations);
        self.has_cancellations.store(false, Ordering::Relaxed);
        let all = std::mem::take(&mut *cancellations);
        drop(cancellations);
        for token in all {
            self.push(&[opcode::AsyncCancel::new(token).build().user_data(NO_FIBRE)]);
        }
    }

    /// Takes completions and wakes the fibres that waited for them. Returns the number of woken
    /// fibres. Passes received bytes to `on_received` before the fibre that waits for them runs.
    /// Called by the ring's own processor.
    pub(crate) fn reap(&self, on_received: OnReceived<'_>) -> usize {
        self.reap_for(true, on_received)
    }

    /// As [`reap`](Self::reap), but called by the thread of another processor. Received bytes are
    /// passed to no function.
    pub(crate) fn reap_for_other(&self) -> usize {
        self.reap_for(false, &mut |_| ())
    }

    /// Takes completions and wakes fibres. `is_own` says whether the caller is the ring's own
    /// processor.
    fn reap_for(&self, is_own: bool, on_received: OnReceived<'_>) -> usize {
        let mut count = 0;
        loop {
            let mut fibres: [Option<Fibre>; BATCH] = [const { None }; BATCH];
            let taken = self.take_completions(&mut fibres, is_own, on_received);
            let found = fibres.iter().flatten().count();
            // The fibres are woken after the lock was released, because waking may make a system
            // call.
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

    /// Takes up to [`BATCH`] completions, and stores the fibres to wake in `fibres`. Returns the
    /// number of completions taken; 0 if another thread holds the lock.
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
        // SAFETY: this thread holds the lock of the completion queue.
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

    /// Records a completion in its operation. If no request of the operation is pending any more,
    /// returns the fibre to wake.
    fn record_completion(
        &self,
        completion: &cqueue::Entry,
        on_received: OnReceived<'_>,
    ) -> Option<Fibre> {
        let token = completion.user_data();
        if token == NO_FIBRE {
            return None;
        }
        if token == EVENT_TOKEN {
            // If the flag `MORE` is not set, the kernel has ended the poll request.
            if !cqueue::more(completion.flags()) {
                self.must_watch_event.store(true, Ordering::Relaxed);
            }
            return None;
        }
        let operation = (token & !SECOND_BIT) as *const Operation;
        // SAFETY: the operation lies on the stack of a fibre. The fibre does not continue before
        // the completions of all its requests, including this one, are recorded.
        let operation = unsafe { &*operation };
        let nth = (token & SECOND_BIT) as usize;
        operation.results[nth].store(completion.result(), Ordering::Relaxed);
        let buffer = operation.receive_buffers[nth];
        if let Ok(len @ 1..) = usize::try_from(completion.result())
            && !buffer.is_null()
        {
            // SAFETY: the kernel has written this many bytes, and does not use the buffer any more.
            // The fibre does not use the buffer before `pending` is 0 (`perform_into`).
            on_received(unsafe { slice::from_raw_parts(buffer, len) });
        }
        let pending = operation.pending.load(Ordering::Relaxed) - 1;
        let fibre = if pending == 0 {
            // SAFETY: no other thread uses this field. Completions are recorded with the lock held,
            // and the fibre waits until `pending` is 0.
            unsafe { (*operation.fibre.get()).take() }
        } else {
            None
        };
        // Release: pairs with the load in `perform_into`. If this stores 0, the fibre may drop the
        // operation immediately afterwards.
        operation.pending.store(pending, Ordering::Release);
        fibre
    }
}

/// Makes one or two requests, and waits until they have completed. Cancels them at the time
/// `due_ns` of the monotonic clock (the deadline), or when the fibre is cancelled. Returns the
/// result of each request as the kernel gives it: for example a number of bytes, or a negative
/// error number. The kernel starts the second request after the first has completed. If the first
/// fails, the kernel cancels the second.
///
/// # Errors
/// The last request was cancelled, because the deadline has passed or the fibre was cancelled. The
/// fibre was cancelled before the call, or is unwinding from a panic. The runtime has no rings.
///
/// # Safety
/// The memory to which the entries point stays valid until this function returns.
pub(crate) unsafe fn perform<const N: usize>(
    entries: [Entry; N],
    due_ns: Option<u64>,
) -> io::Result<[i32; N]> {
    // SAFETY: guaranteed by the caller; there is no receive buffer.
    unsafe { perform_into(entries, ptr::null(), due_ns) }
}

/// As [`perform`]; the last request may receive into `buffer`. Before the fibre continues, the
/// received bytes are passed to an [`OnReceived`], unless another processor than the ring's own
/// takes the completion.
///
/// # Safety
/// The memory to which the entries point stays valid until this function returns. `buffer` is null,
/// or the address to which the kernel writes for the last entry. Nothing else uses this buffer
/// during the call. A positive result of the last entry is the number of bytes that the kernel has
/// written to it.
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
    let token = &raw const operation as u64;
    let mut nth = 0;
    let entries = entries.map(|entry| {
        let entry = entry.user_data(token | nth);
        let is_last = nth + 1 == N as u64;
        nth += 1;
        match is_last {
            true => entry,
            false => entry.flags(Flags::IO_LINK),
        }
    });
    // The number of the processor in whose ring the requests are queued.
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
    let deadline_timer = due_ns.map(|due_ns| Timer::start(&fibre, due_ns));
    // Started anew by each cancellation. When it is due, the cancellation may be repeated.
    let mut retry_timer: Option<Timer> = None;
    let mut cancellation_count = 0_u32;
    // Acquire: pairs with the store in `record_completion`.
    while operation.pending.load(Ordering::Acquire) > 0 {
        let is_late = due_ns.is_some_and(|due_ns| monotonic_ns() >= due_ns);
        let may_cancel = retry_timer.as_ref().is_none_or(Timer::is_due);
        if (is_late || fibre.is_cancelled()) && may_cancel {
            let shared = &fibre.record.anchor.shared;
            if let Reactor::Rings(ring) = &shared.slots[number].reactor {
                // The first request is cancelled before the second. If the first is still pending,
                // its cancellation also cancels the second, which is linked to it. Otherwise the
                // second has started or is about to start.
                (0..N as u64).for_each(|nth| ring.request_cancellation(token | nth));
                // Wakes the processor if it is asleep, so that it submits the cancellations.
                shared.idle.wake(number);
            }
            // A cancellation can fail, because the kernel does not find a request that is not
            // waiting at that moment: for example, the second request just before it starts. So the
            // cancellation is repeated after a delay.
            let delay_ns = CANCEL_RETRY_NS << cancellation_count.min(10);
            retry_timer = Some(Timer::start(&fibre, monotonic_ns() + delay_ns));
            cancellation_count += 1;
        }
        park();
    }
    drop((deadline_timer, retry_timer));
    let was_cancelled = cancellation_count > 0;
    if was_cancelled && let Reactor::Rings(ring) = &fibre.record.anchor.shared.slots[number].reactor
    {
        ring.withdraw_cancellations(token);
    }
    let results: [i32; N] =
        std::array::from_fn(|nth| operation.results[nth].load(Ordering::Relaxed));
    // EINTR: the operation was cancelled while a kernel thread worked on it.
    if was_cancelled && [-libc::ECANCELED, -libc::EINTR].contains(&results[N - 1]) {
        return Err(cancelled_or_timed_out(&fibre));
    }
    Ok(results)
}

/// Converts the length of a buffer to the 32 bits that a request has for it. A larger length
/// becomes `u32::MAX`, and the kernel then transfers only a part of the buffer.
pub(crate) fn clamp(len: usize) -> u32 {
    u32::try_from(len).unwrap_or(u32::MAX)
}

/// Converts the result of a completion: a number of bytes or another value if it is not negative,
/// otherwise a negated error number.
pub(crate) fn check(result: i32) -> io::Result<usize> {
    usize::try_from(result).map_err(|_| io::Error::from_raw_os_error(-result))
}
