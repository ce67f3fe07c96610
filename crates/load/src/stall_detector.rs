//! Measures the stalls of the machine on one processor. During a stall, even a real-time thread
//! that is ready to run does not get the processor.
//!
//! A real-time thread on that processor sleeps for 250 µs at a time and records how late it wakes
//! up. It wakes up late if the host of a virtual machine has taken the processor away, or if a
//! system call of another program occupies the processor. A server on the same processor is stalled
//! at the same times. A system call of the server itself can delay the thread too, but only by the
//! duration of that call. The measurement is invalid if the server runs at a real-time priority
//! above [`PRIORITY`], because the server then preempts the thread.

use std::sync::mpsc;
use std::thread::{self, JoinHandle};
use std::time::Duration;

use measure::Histogram;
use sys::clock::monotonic_ns;

use crate::config::Config;
use crate::error::Error;
use crate::limits::STALL_DETECTOR_PERIOD_NS;
use crate::timeline::Timeline;

/// The real-time priority of the detector's thread. It is one above the lowest real-time priority,
/// 1, which a real-time server is expected to have.
const PRIORITY: u8 = 2;

/// The detector's thread. None: `config` names no processor for it.
pub(crate) struct StallDetector(Option<JoinHandle<Histogram>>);

impl StallDetector {
    /// Starts the detector on the processor that `config` names. It measures during the measured
    /// interval. Returns when the thread has its processor and its priority.
    pub(crate) fn start(config: &Config, timeline: &Timeline) -> Result<Self, Error> {
        let Some(cpu) = config.stall_detector_cpu else {
            return Ok(Self(None));
        };
        let (measure_ns, end_ns) = (timeline.measure_ns, timeline.end_ns);
        let (ready_sender, ready) = mpsc::sync_channel(1);
        let sample = move || {
            let outcome = pin_at_real_time(cpu);
            let is_ready = outcome.is_ok();
            // The send cannot fail, because the starting thread waits for the message.
            let _ = ready_sender.send(outcome);
            match is_ready {
                true => wake_up_latencies(measure_ns, end_ns),
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

    /// Waits for the end of the measured interval and returns the wake-up latencies. None: there is
    /// no detector.
    pub(crate) fn join(self) -> Result<Option<Histogram>, Error> {
        match self.0 {
            Some(thread) => Ok(Some(thread.join().map_err(|_| Error::Panicked)?)),
            None => Ok(None),
        }
    }
}

/// Pins the calling thread to `cpu` and gives it real-time priority.
fn pin_at_real_time(cpu: usize) -> Result<(), Error> {
    sys::thread::pin(&[cpu]).map_err(|source| Error::Pin { cpu, source })?;
    sys::thread::go_real_time(PRIORITY).map_err(|source| Error::StallDetector { source })
}

/// Records one wake-up latency for each period of [`STALL_DETECTOR_PERIOD_NS`] from `from_ns` to
/// `end_ns`. If a stall lasts several periods, all of them are recorded when the stall ends, each
/// with the time since its wake-up was due.
fn wake_up_latencies(from_ns: u64, end_ns: u64) -> Histogram {
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
    fn every_period_that_passed_during_a_stall_is_recorded() {
        let now_ns = monotonic_ns();
        // Ten wake-ups were due in the past. The first of them has the highest latency. The
        // eleventh is due now.
        let past_ns = 10 * STALL_DETECTOR_PERIOD_NS;
        let histogram = wake_up_latencies(now_ns - past_ns, now_ns + 1);
        assert_eq!(histogram.len(), 11);
        assert!(histogram.max() >= past_ns);
    }
}
