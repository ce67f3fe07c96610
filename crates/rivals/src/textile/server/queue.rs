//! The threaded server: one thread accepts, and workers take requests from one queue.

use std::collections::VecDeque;
use std::net::{SocketAddr, UdpSocket};
use std::sync::{Arc, Condvar, Mutex, PoisonError};

use sys::clock::thread_cpu_ns;
use sys::socket::Stream;

use super::control::Control;
use super::counters::{WorkerCounters, add};
use super::exchange::{Buffers, serve_datagram, serve_stream};
use super::handler::Handler;
use super::limits::QUEUE_MAX;
use super::listen::Sink;

/// A request that waits for a worker.
enum Job {
    /// A complete request, which the accepting thread has received.
    Datagram(Box<[u8]>, SocketAddr),
    /// A connection, whose request the worker receives.
    Stream(Stream),
}

/// How workers wait for a request.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Waiting {
    /// They lock the queue again and again, as published.
    Poll,
    /// They sleep.
    Sleep,
}

/// The queue.
pub(crate) struct Queue {
    jobs: Mutex<VecDeque<Job>>,
    /// Signalled for each job, and when the server stops.
    arrived: Condvar,
    waiting: Waiting,
}

impl Queue {
    pub(crate) fn new(waiting: Waiting) -> Self {
        Self {
            jobs: Mutex::new(VecDeque::with_capacity(QUEUE_MAX)),
            arrived: Condvar::new(),
            waiting,
        }
    }

    /// Takes the next job. `None`: the server stops.
    fn next(&self, control: &Control, counters: &WorkerCounters) -> Option<Job> {
        let mut jobs = counters.queue.lock(&self.jobs);
        if let Some(job) = jobs.pop_front() {
            return Some(job);
        }
        if self.waiting == Waiting::Sleep {
            while !control.is_stopping() {
                jobs = (self.arrived.wait(jobs)).unwrap_or_else(PoisonError::into_inner);
                if let Some(job) = jobs.pop_front() {
                    return Some(job);
                }
            }
            return None;
        }
        drop(jobs);
        let start_ns = thread_cpu_ns();
        let job = loop {
            if control.is_stopping() {
                break None;
            }
            let job = counters.queue.lock(&self.jobs).pop_front();
            if job.is_some() {
                break job;
            }
            std::hint::spin_loop();
        };
        add(&counters.spin_ns, thread_cpu_ns() - start_ns);
        job
    }

    /// Serves requests until the server stops.
    pub(crate) fn work(&self, udp: &UdpSocket, control: &Control, handler: &mut Handler) {
        let mut buffers = Buffers::default();
        let counters = Arc::clone(&handler.counters);
        while let Some(job) = self.next(control, &counters) {
            match job {
                Job::Datagram(request, from) => {
                    serve_datagram(udp, &request, from, handler, &mut buffers);
                }
                Job::Stream(stream) => serve_stream(&stream, handler, &mut buffers),
            }
        }
    }

    /// Wakes all workers, because the server stops.
    pub(crate) fn wake_all(&self) {
        // A worker that has found the server running, but does not sleep yet, holds the lock.
        drop(self.jobs.lock().unwrap_or_else(PoisonError::into_inner));
        self.arrived.notify_all();
    }
}

/// The accepting thread's side of the queue.
pub(crate) struct Producer<'a> {
    pub(crate) queue: &'a Queue,
    pub(crate) counters: Arc<WorkerCounters>,
}

impl Producer<'_> {
    fn push(&mut self, job: Job) {
        let mut jobs = self.counters.queue.lock(&self.queue.jobs);
        if jobs.len() < QUEUE_MAX {
            jobs.push_back(job);
        } else {
            // Closing a connection is a system call, which the lock must not be held for.
            drop(jobs);
            return add(&self.counters.dropped, 1);
        }
        drop(jobs);
        if self.queue.waiting == Waiting::Sleep {
            self.queue.arrived.notify_one();
        }
    }
}

impl Sink for Producer<'_> {
    fn datagram(&mut self, request: &[u8], from: SocketAddr) {
        self.push(Job::Datagram(request.into(), from));
    }

    fn stream(&mut self, stream: Stream) {
        self.push(Job::Stream(stream));
    }
}
