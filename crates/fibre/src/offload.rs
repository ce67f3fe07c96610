//! A pool of threads that make blocking calls for fibres.

use std::collections::VecDeque;
use std::io;
use std::sync::{Condvar, Mutex, MutexGuard, PoisonError};
use std::thread;
use std::time::Duration;

use crate::cancel::begin_wait;
use crate::limits::{OFFLOAD_IDLE_NS, OFFLOAD_THREADS_MAX};
use crate::sync::atomic::{AtomicBool, Ordering};
use crate::wait::Waiter;

/// A blocking call, which a thread of the pool makes.
type Job = Box<dyn FnOnce() + Send>;

/// The pool of threads. All runtimes of the process share it.
struct OffloadPool {
    queue: Mutex<Queue>,
    /// Notified when a job is added while an idle thread can run it.
    job_added: Condvar,
}

struct Queue {
    jobs: VecDeque<Job>,
    /// The number of threads of the pool.
    threads: usize,
    /// The number of threads of the pool that wait for a job.
    idle_threads: usize,
}

static POOL: OffloadPool = OffloadPool {
    queue: Mutex::new(Queue {
        jobs: VecDeque::new(),
        threads: 0,
        idle_threads: 0,
    }),
    job_added: Condvar::new(),
};

/// Makes a blocking call on a thread of a pool, which all runtimes of the process share. The
/// calling fibre waits for the result, and its processor runs other fibres meanwhile. If the call
/// panics, the panic continues in the calling fibre.
///
/// # Errors
/// The fibre was cancelled before the call began, or is unwinding from a panic.
///
/// # Panics
/// The caller is not a fibre.
pub fn offload<'a, R: Send + 'a>(call: impl FnOnce() -> R + Send + 'a) -> io::Result<R> {
    let waiter = Waiter::Fibre(begin_wait()?);
    let is_done = AtomicBool::new(false);
    let mut result = None;
    {
        let (is_done, result, waiter) = (&is_done, SendPtr(&raw mut result), waiter.clone());
        let job: Box<dyn FnOnce() + Send + '_> = Box::new(move || {
            // Moves the complete `SendPtr` into the closure. Without this line, the closure would
            // capture only the raw pointer inside the `SendPtr`, which is not `Send`.
            let result = result;
            let outcome = std::panic::catch_unwind(std::panic::AssertUnwindSafe(call));
            // SAFETY: the fibre does not use the result before `is_done` is set.
            unsafe { *result.0 = Some(outcome) };
            // Release: pairs with the fibre's load of `is_done`. After this store the fibre may
            // return, so the job must not use the fibre's stack any more.
            is_done.store(true, Ordering::Release);
            waiter.wake();
        });
        // SAFETY: the fibre waits below until the job has run, so everything that the job borrows
        // outlives it.
        let job: Job = unsafe { std::mem::transmute(job) };
        POOL.schedule(job);
    }
    // Acquire: pairs with the store by the job, so that the fibre sees the result.
    while !is_done.load(Ordering::Acquire) {
        Waiter::wait_here();
    }
    match result {
        Some(Ok(value)) => Ok(value),
        Some(Err(panic)) => std::panic::resume_unwind(panic),
        // Unreachable: the job stores a result before it sets `is_done`.
        None => Err(io::ErrorKind::Other.into()),
    }
}

/// A pointer to the result of a job. The thread that runs the job has exclusive access to the
/// result until the job sets `is_done`.
struct SendPtr<T>(*mut T);

// SAFETY: the pointee may be sent, and only one thread uses it at a time.
unsafe impl<T: Send> Send for SendPtr<T> {}

impl OffloadPool {
    fn queue(&self) -> MutexGuard<'_, Queue> {
        self.queue.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Enqueues a job. If there are more jobs in the queue than idle threads, starts a thread,
    /// unless the pool already has [`OFFLOAD_THREADS_MAX`] threads.
    fn schedule(&'static self, job: Job) {
        let mut queue = self.queue();
        queue.jobs.push_back(job);
        if queue.idle_threads >= queue.jobs.len() {
            drop(queue);
            self.job_added.notify_one();
            return;
        }
        if queue.threads >= OFFLOAD_THREADS_MAX {
            return;
        }
        queue.threads += 1;
        drop(queue);
        let builder = thread::Builder::new().name("offload".to_owned());
        if builder.spawn(|| self.run_jobs()).is_err() {
            let mut queue = self.queue();
            queue.threads -= 1;
            if queue.threads == 0 {
                // No thread can be started, and the pool has none, so the calling thread runs the
                // jobs. This blocks the calling processor. Without it, the fibres that wait for the
                // jobs would wait for ever.
                let jobs = std::mem::take(&mut queue.jobs);
                drop(queue);
                jobs.into_iter().for_each(|job| job());
            }
        }
    }

    /// The loop of a pool thread. Ends after [`OFFLOAD_IDLE_NS`] without a job.
    fn run_jobs(&self) {
        let idle_timeout = Duration::from_nanos(OFFLOAD_IDLE_NS);
        let mut queue = self.queue();
        loop {
            if let Some(job) = queue.jobs.pop_front() {
                drop(queue);
                job();
                queue = self.queue();
                continue;
            }
            queue.idle_threads += 1;
            let waited = self.job_added.wait_timeout(queue, idle_timeout);
            let timeout;
            (queue, timeout) = waited.unwrap_or_else(PoisonError::into_inner);
            queue.idle_threads -= 1;
            if timeout.timed_out() && queue.jobs.is_empty() {
                queue.threads -= 1;
                return;
            }
        }
    }
}
