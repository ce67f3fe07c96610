//! Threads that may wait, for example for a disk, and the jobs that they do for threads that must
//! not.
//!
//! Jobs begin in the order in which they were submitted. The queue has a bound, beyond which a job
//! is refused.

use std::collections::VecDeque;
use std::io;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::thread;

/// The sizes of a pool.
#[derive(Debug, Clone, Copy)]
pub struct PoolSizes {
    /// Number of threads.
    pub threads: usize,
    /// Size of the stack of each, in bytes.
    pub stack_len: usize,
    /// Maximum number of jobs that wait for a thread.
    pub waiting_max: usize,
}

/// The threads. Dropping this value drops the waiting jobs, and ends each thread after the job that
/// it is in. It does not wait for them, because a disk may never answer.
#[derive(Debug)]
pub struct JobPool<J> {
    shared: Arc<Shared<J>>,
    waiting_max: usize,
}

#[derive(Debug)]
struct Shared<J> {
    queue: Mutex<Queue<J>>,
    has_changed: Condvar,
}

#[derive(Debug)]
struct Queue<J> {
    waiting: VecDeque<J>,
    is_stopped: bool,
}

impl<J: Send + 'static> JobPool<J> {
    /// Starts the threads. Each of them calls `run` with one job after another, and with a state of
    /// its own that `state` has made. A panic costs one job.
    ///
    /// # Errors
    /// The limit of threads is reached.
    pub fn start<S: Send + 'static>(
        name: &str,
        sizes: PoolSizes,
        mut state: impl FnMut() -> S,
        run: impl Fn(&mut S, J) + Send + Sync + 'static,
    ) -> io::Result<Self> {
        // If a thread cannot be started, dropping the pool ends the others.
        let pool = Self::without_threads(sizes.waiting_max);
        let run = Arc::new(run);
        for _ in 0..sizes.threads {
            let (shared, run, mut state) = (Arc::clone(&pool.shared), Arc::clone(&run), state());
            let thread = thread::Builder::new().name(name.to_owned());
            thread.stack_size(sizes.stack_len).spawn(move || {
                while let Some(job) = shared.next() {
                    let _ = catch_unwind(AssertUnwindSafe(|| run(&mut state, job)));
                }
            })?;
        }
        Ok(pool)
    }

    /// A pool whose jobs wait until it is dropped.
    #[must_use]
    pub fn without_threads(waiting_max: usize) -> Self {
        let shared = Shared {
            queue: Mutex::new(Queue {
                waiting: VecDeque::new(),
                is_stopped: false,
            }),
            has_changed: Condvar::new(),
        };
        Self {
            shared: Arc::new(shared),
            waiting_max,
        }
    }

    /// Gives a job to the threads.
    ///
    /// # Errors
    /// Too many jobs are waiting. Returns the job.
    pub fn submit(&self, job: J) -> Result<(), J> {
        let mut queue = self.shared.lock();
        if queue.waiting.len() >= self.waiting_max {
            return Err(job);
        }
        queue.waiting.push_back(job);
        drop(queue);
        self.shared.has_changed.notify_one();
        Ok(())
    }
}

impl<J> Drop for JobPool<J> {
    fn drop(&mut self) {
        let mut queue = self.shared.lock();
        queue.is_stopped = true;
        let waiting = std::mem::take(&mut queue.waiting);
        // Dropping a job may take other locks.
        drop(queue);
        drop(waiting);
        self.shared.has_changed.notify_all();
    }
}

impl<J> Shared<J> {
    fn lock(&self) -> MutexGuard<'_, Queue<J>> {
        self.queue.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Waits for the next job. `None` once the pool is stopped.
    fn next(&self) -> Option<J> {
        let mut queue = self.lock();
        loop {
            if queue.is_stopped {
                return None;
            }
            if let Some(job) = queue.waiting.pop_front() {
                return Some(job);
            }
            queue = self
                .has_changed
                .wait(queue)
                .unwrap_or_else(PoisonError::into_inner);
        }
    }
}

#[cfg(test)]
mod tests {
    use std::sync::mpsc;

    use super::*;

    const SIZES: PoolSizes = PoolSizes {
        threads: 1,
        stack_len: 128 << 10,
        waiting_max: 2,
    };

    #[test]
    fn jobs_are_done_in_order_and_refused_beyond_the_bound() {
        let (begun_sender, begun) = mpsc::channel();
        let (release, released) = mpsc::channel::<()>();
        let released = Mutex::new(released);
        let run = move |done: &mut u32, job: u32| {
            let _ = begun_sender.send((job, *done));
            *done += 1;
            let _ = released.lock().map(|it| it.recv());
            assert!(job != 1, "a panic costs this job only");
        };
        let pool = JobPool::start("test", SIZES, || 0, run).unwrap();
        pool.submit(1).unwrap();
        assert_eq!(begun.recv(), Ok((1, 0)));
        pool.submit(2).unwrap();
        pool.submit(3).unwrap();
        assert_eq!(pool.submit(4), Err(4));
        for _ in 0..3 {
            release.send(()).unwrap();
        }
        assert_eq!((begun.recv(), begun.recv()), (Ok((2, 1)), Ok((3, 2))));
        drop(pool);
        // The thread ends and drops its end of the channel.
        assert!(begun.recv().is_err());
    }
}
