//! How late the machine lets anything run on a processor: a thread that goes before all others
//! there, and sleeps a quarter of a millisecond at a time.
//!
//! What it is late by, the server there is late by too, whichever server it is: the host of a
//! virtual machine took the processor, or another program was in the kernel and did not give it
//! back. A server's own calls can hold it up as well, by as long as one of them takes; and a server
//! that goes before it (a real-time priority above [`PRIORITY`]) holds it up for good.

use std::sync::mpsc;
use std::thread::{self, JoinHandle};
use std::time::Duration;

use measure::Histogram;
use sys::clock::monotonic_ns;

use crate::config::Config;
use crate::error::Error;
use crate::limits::STALL_DETECTOR_PERIOD_NS;
use crate::timeline::Timeline;

/// Of the real-time class, above the least, which is the server's if it is in that class.
const PRIORITY: u8 = 2;

/// The thread.
pub(crate) struct StallDetector(Option<JoinHandle<Histogram>>);

impl StallDetector {
    /// On the processor `config` names, if any, over the interval of `timeline`.
    pub(crate) fn start(config: &Config, timeline: &Timeline) -> Result<Self, Error> {
        let Some(cpu) = config.stall_detector_cpu else {
            return Ok(Self(None));
        };
        let (measure_ns, end_ns) = (timeline.measure_ns, timeline.end_ns);
        let (settled, is_settled) = mpsc::sync_channel(1);
        let record_wait = move || {
            let outcome = settle(cpu);
            let is_there = outcome.is_ok();
            // Whoever started it is waiting for this.
            let _ = settled.send(outcome);
            match is_there {
                true => lateness(measure_ns, end_ns),
                false => Histogram::new(),
            }
        };
        let builder = thread::Builder::new().name("load-stalls".to_owned());
        let thread = builder
            .spawn(record_wait)
            .map_err(Error::system("start a thread"))?;
        is_settled.recv().map_err(|_| Error::Panicked)??;
        Ok(Self(Some(thread)))
    }

    /// How late it was, time by time, once the interval is over.
    pub(crate) fn join(self) -> Result<Option<Histogram>, Error> {
        match self.0 {
            Some(thread) => Ok(Some(thread.join().map_err(|_| Error::Panicked)?)),
            None => Ok(None),
        }
    }
}

/// Before all others on its processor.
fn settle(cpu: usize) -> Result<(), Error> {
    sys::thread::pin(&[cpu]).map_err(|source| Error::Pin { cpu, source })?;
    sys::thread::go_real_time(PRIORITY).map_err(|source| Error::StallDetector { source })
}

/// Of each time it was due, those included that were over when it ran at last.
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
    fn every_time_it_was_due_counts() {
        let now_ns = monotonic_ns();
        // Ten that are over, the first for longest, and one to come.
        let past_ns = 10 * STALL_DETECTOR_PERIOD_NS;
        let histogram = lateness(now_ns - past_ns, now_ns + 1);
        assert_eq!(histogram.len(), 11);
        assert!(histogram.max() >= past_ns);
    }
}
