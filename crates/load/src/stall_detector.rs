//! Measures the machine's own stalls on one processor: the wake-up latency of a real-time thread
//! that sleeps 250 µs at a time.
//!
//! While this thread is late, any server on that processor is stalled too: the host of a virtual
//! machine has taken the processor, or another program occupies it inside the kernel. The server
//! can also delay the thread, by at most the duration of one of its own system calls. With a server
//! at a real-time priority above [`PRIORITY`] the measurement is invalid, because the server
//! preempts the thread.

use std::sync::mpsc;
use std::thread::{self, JoinHandle};
use std::time::Duration;

use measure::Histogram;
use sys::clock::monotonic_ns;

use crate::config::Config;
use crate::error::Error;
use crate::limits::STALL_DETECTOR_PERIOD_NS;
use crate::timeline::Timeline;

/// Real-time priority: one above the lowest, which is the server's if it runs in that class.
const PRIORITY: u8 = 2;

/// The detector's thread. None: no processor was named.
pub(crate) struct StallDetector(Option<JoinHandle<Histogram>>);

impl StallDetector {
    /// Starts the detector on the processor that `config` names, for the measured interval. Returns
    /// once the thread has its processor and its priority.
    pub(crate) fn start(config: &Config, timeline: &Timeline) -> Result<Self, Error> {
        let Some(cpu) = config.stall_detector_cpu else {
            return Ok(Self(None));
        };
        let (measure_ns, end_ns) = (timeline.measure_ns, timeline.end_ns);
        let (ready_sender, ready) = mpsc::sync_channel(1);
        let sample = move || {
            let outcome = pin_at_real_time(cpu);
            let is_ready = outcome.is_ok();
            // This cannot fail: the starting thread waits for the message.
            let _ = ready_sender.send(outcome);
            match is_ready {
                true => lateness(measure_ns, end_ns),
                false => Histogram::new(),
            }
        };
        let builder = thread::Builder::new().name("load-stalls".to_owned());
        let thread = builder
            .spawn(sample)
            .map_err(Error::system("start a thread"))?;
        ready.recv().map_err(|_| Error::Panicked)??;
        Ok(Self(Some(thread)))
    }

    /// Waits for the end of the interval; returns the wake-up latencies.
    pub(crate) fn join(self) -> Result<Option<Histogram>, Error> {
        match self.0 {
            Some(thread) => Ok(Some(thread.join().map_err(|_| Error::Panicked)?)),
            None => Ok(None),
        }
    }
}

/// Pins the thread to `cpu` at real-time priority.
fn pin_at_real_time(cpu: usize) -> Result<(), Error> {
    sys::thread::pin(&[cpu]).map_err(|source| Error::Pin { cpu, source })?;
    sys::thread::go_real_time(PRIORITY).map_err(|source| Error::StallDetector { source })
}

/// Records one latency for each period, including periods that passed during a stall.
fn lateness(from_ns: u64, end_ns: u64) -> Histogram {
    let mut histogram = Histogram::new();
    let mut due_ns = from_ns;
    while due_ns < end_ns {
        thread::sleep(Duration::from_nanos(due_ns.saturating_sub(monotonic_ns())));
        let now_ns = monotonic_ns();
        while due_ns < end_ns && due_ns <= now_ns {
            histogram.record(now_ns - due_ns);
            due_ns += STALL_DETECTOR_PERIOD_NS;
        }
    }
    histogram
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_period_counts_even_if_skipped() {
        let now_ns = monotonic_ns();
        // Ten periods are in the past, the first with the highest latency, and one is in the
        // future.
        let past_ns = 10 * STALL_DETECTOR_PERIOD_NS;
        let histogram = lateness(now_ns - past_ns, now_ns + 1);
        assert_eq!(histogram.len(), 11);
        assert!(histogram.max() >= past_ns);
    }
}
