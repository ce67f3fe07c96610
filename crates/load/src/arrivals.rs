//! When the bytes that a wait reported can have arrived at the earliest, without time stamps.
//!
//! The check of Little's law ([`measure::LittlesLaw`]) needs this bound: by the kernel's stamps, a
//! request is outstanding until its answer arrives; by the count, until the thread reads it. A
//! thread that shares its processor may be ready for milliseconds before it runs and reads. How
//! long it was ready comes from the scheduler, which knows nothing of the stamps.

use sys::thread::RunDelay;

use crate::limits::WAKE_UP_LATENCY_NS;

/// The lower bound of the arrival time of bytes that are not yet read.
#[derive(Debug, Default)]
pub(crate) struct Arrivals {
    /// Lower bound of the arrival time of the bytes that the last wait reported.
    pub(crate) earliest_ns: u64,
    /// Lower bound of the time at which the last wait scanned for events. All sockets that it did
    /// not report were empty then.
    scanned_ns: u64,
    /// Whether bytes that had arrived before the last wait may still be unread.
    pub(crate) has_unread: bool,
    /// How long the thread has been ready without running. None: not watched, or the kernel does
    /// not tell.
    run_delay: Option<RunDelay>,
    /// The last reading of `run_delay`.
    run_delay_ns: u64,
}

/// One wait for events, on the monotonic clock.
#[derive(Debug, Clone, Copy)]
struct Wait {
    from_ns: u64,
    /// When the wait returned.
    to_ns: u64,
    /// Upper bound of how long the thread was ready during the wait, but did not run. None: the
    /// wait could not sleep, or the time is unknown.
    ready_ns: Option<u64>,
}

impl Arrivals {
    /// Lets the bound depend on the run delay of the calling thread. Not needed by a thread that
    /// sleeps only while it awaits no answer.
    pub(crate) fn watch_run_delay(&mut self) {
        self.run_delay = RunDelay::open().ok();
    }

    /// Updates the bound after a wait of the calling thread.
    pub(crate) fn record_wait(&mut self, from_ns: u64, to_ns: u64, may_sleep: bool) {
        // A reading costs half a microsecond, which is little after a long wait.
        let ready_ns = if may_sleep && is_long(from_ns, to_ns) {
            self.ready_ns()
        } else {
            None
        };
        self.record(Wait {
            from_ns,
            to_ns,
            ready_ns,
        });
    }

    /// How long the thread was ready without running since the last call. None: unknown.
    fn ready_ns(&mut self) -> Option<u64> {
        let run_delay_ns = self.run_delay.as_ref()?.total_ns()?;
        let before_ns = std::mem::replace(&mut self.run_delay_ns, run_delay_ns);
        Some(run_delay_ns.saturating_sub(before_ns))
    }

    /// Updates the bound. There are three cases:
    ///
    /// 1. The wait slept: no bytes had arrived before it was woken.
    /// 2. The wait may not have slept, and all bytes that the previous wait reported have been
    ///    read: the bytes arrived after the previous wait scanned, or it would have reported them.
    /// 3. The wait may not have slept, and bytes that the previous wait reported may be unread: the
    ///    bound is not changed.
    fn record(&mut self, wait: Wait) {
        let woken_ns = wait.woken_ns();
        if let Some(woken_ns) = woken_ns {
            self.earliest_ns = woken_ns;
        } else if !self.has_unread {
            self.earliest_ns = self.scanned_ns;
        }
        self.scanned_ns = woken_ns.unwrap_or(wait.from_ns);
    }
}

impl Wait {
    /// The earliest time at which a wait that certainly slept was woken. None: it may not have
    /// slept. A wait that returns at once may take long too, if the thread is preempted in it.
    fn woken_ns(&self) -> Option<u64> {
        let ready_ns = self.ready_ns?;
        is_long(self.from_ns + ready_ns, self.to_ns)
            .then(|| self.to_ns - WAKE_UP_LATENCY_NS - ready_ns)
    }
}

/// Whether a wait took so long that it slept, unless the thread was preempted in it.
fn is_long(from_ns: u64, to_ns: u64) -> bool {
    to_ns.saturating_sub(from_ns) > WAKE_UP_LATENCY_NS
}

#[cfg(test)]
mod tests {
    use std::sync::atomic::{AtomicBool, Ordering};
    use std::thread;

    use measure::{LITTLES_LAW_TOLERANCE, LittlesLaw, Outstanding, OutstandingCount};
    use proptest::prelude::*;
    use sys::clock::monotonic_ns;

    use super::*;

    const MS: u64 = 1_000_000;
    const END_NS: u64 = 200 * MS;

    /// One iteration of a thread in virtual time. Times are in ns.
    #[derive(Debug, Clone)]
    struct Iteration {
        /// How long the thread is ready, but does not run, before the wait, in it and after it.
        preempted_ns: [u64; 3],
        /// From the arrival of bytes until the sleeping thread is ready.
        wake_up_ns: u64,
        /// How long the server takes for the next request of each connection.
        service_ns: Vec<u64>,
    }

    /// A closed loop of [`END_NS`] with one request on each connection, whose thread sleeps in its
    /// waits and repeats `iterations`. The time stamps are the true ones, earlier by `skew_ns`.
    fn closed_loop(iterations: &[Iteration], events_max: usize, skew_ns: u64) -> LittlesLaw {
        let connections = iterations[0].service_ns.len();
        let (mut stamped, mut count) = (Outstanding::new(0), OutstandingCount::new(0, END_NS));
        let (mut arrivals, mut now_ns, mut ready_ns) = (Arrivals::default(), 0, 0);
        // The times at which the requests were sent and their answers arrive.
        let mut in_flight: Vec<(u64, u64)> = Vec::new();
        for service_ns in &iterations[0].service_ns {
            stamped.sent(now_ns);
            in_flight.push((now_ns, now_ns + service_ns));
        }
        for iteration in iterations.iter().cycle() {
            if now_ns >= END_NS {
                break;
            }
            let [before_ns, inside_ns, after_ns] = iteration.preempted_ns;
            now_ns += before_ns;
            let from_ns = now_ns;
            let first_ns = in_flight.iter().map(|it| it.1).min().unwrap();
            if first_ns > now_ns {
                now_ns = first_ns + iteration.wake_up_ns;
            }
            now_ns += inside_ns;
            let reported: Vec<usize> = (0..connections)
                .filter(|&number| in_flight[number].1 <= now_ns)
                .take(events_max)
                .collect();
            ready_ns += before_ns + inside_ns;
            arrivals.record(Wait {
                from_ns,
                to_ns: now_ns,
                ready_ns: is_long(from_ns, now_ns).then(|| std::mem::take(&mut ready_ns)),
            });
            arrivals.has_unread = reported.len() == events_max;
            now_ns += after_ns;
            ready_ns += after_ns;
            for number in reported {
                now_ns += 1_000;
                let (sent_ns, arrived_ns) = in_flight[number];
                count.advance(connections as u64, now_ns);
                count.unread(arrivals.earliest_ns.max(sent_ns), now_ns);
                let answered_ns = arrived_ns.saturating_sub(skew_ns).max(sent_ns);
                stamped.answered(answered_ns.min(END_NS));
                stamped.sent(now_ns.min(END_NS));
                in_flight[number] = (now_ns, now_ns + iteration.service_ns[number]);
            }
        }
        count.advance(connections as u64, END_NS);
        LittlesLaw::check(
            count.mean(),
            count.mean_unread(),
            stamped.mean(END_NS),
            LITTLES_LAW_TOLERANCE,
        )
    }

    /// The iteration of a thread with one connection.
    fn iteration(preempted_ns: [u64; 3]) -> [Iteration; 1] {
        [Iteration {
            preempted_ns,
            wake_up_ns: 5_000,
            service_ns: vec![MS],
        }]
    }

    /// Regression test. A thread that had slept was supposed to run 100 µs after an arrival.
    #[test]
    fn answers_wait_while_a_woken_thread_waits_for_its_processor() {
        let check = closed_loop(&iteration([0, 4 * MS, 0]), 16, 0);
        assert!(
            check.holds && check.stamped < 0.3 * check.counted,
            "{check:?}"
        );
    }

    /// Regression test. A wait that took long was supposed to have slept.
    #[test]
    fn a_wait_that_was_preempted_did_not_necessarily_sleep() {
        let check = closed_loop(&iteration([4 * MS, 4 * MS, 0]), 16, 0);
        assert!(
            check.holds && check.stamped < 0.3 * check.counted,
            "{check:?}"
        );
    }

    #[test]
    fn wrong_stamps_contradict_the_count_if_the_thread_runs_in_time() {
        let check = closed_loop(&iteration([0; 3]), 16, 0);
        assert!(check.holds && check.unread < 0.15, "{check:?}");
        let check = closed_loop(&iteration([0; 3]), 16, 300_000);
        assert!(!check.holds, "{check:?}");
        // The bound is not looser than the time for which the thread was ready.
        let check = closed_loop(&iteration([0, 300_000, 0]), 16, 300_000);
        assert!(!check.holds, "{check:?}");
    }

    /// The thread shares its processor with one that never sleeps, and so is ready for a while
    /// before it runs. The answers that woke it can be older by that time.
    #[test]
    fn earliest_arrival_precedes_the_time_for_which_a_woken_thread_was_ready() {
        const READY_NS: u64 = 1_000_000;
        let mut arrivals = Arrivals::default();
        let cpu = sys::thread::allowed_cpus().unwrap()[0];
        let ended = AtomicBool::new(false);
        thread::scope(|scope| {
            scope.spawn(|| {
                sys::thread::pin(&[cpu]).unwrap();
                while !ended.load(Ordering::Relaxed) {
                    std::hint::spin_loop();
                }
            });
            scope.spawn(|| {
                sys::thread::pin(&[cpu]).unwrap();
                arrivals.watch_run_delay();
                arrivals.ready_ns();
                let before_ns = arrivals.run_delay_ns;
                let delay = arrivals.run_delay.as_ref().unwrap();
                while delay.total_ns().unwrap() < before_ns + READY_NS {}
                ended.store(true, Ordering::Relaxed);
                let to_ns = monotonic_ns();
                // A wait of such a length slept for most of it.
                arrivals.record_wait(to_ns - 60_000_000_000, to_ns, true);
                let earlier_ns = to_ns - arrivals.earliest_ns;
                assert!(
                    (READY_NS..1_000_000_000).contains(&earlier_ns),
                    "{earlier_ns}"
                );
            });
        });
    }

    #[test]
    fn without_the_scheduler_s_times_an_answer_may_have_come_since_the_wait_before() {
        let mut arrivals = Arrivals::default();
        let unknown = |from_ns, to_ns| Wait {
            from_ns,
            to_ns,
            ready_ns: None,
        };
        arrivals.record(unknown(MS, 2 * MS));
        arrivals.record(unknown(3 * MS, 9 * MS));
        assert_eq!(arrivals.earliest_ns, MS);
        arrivals.has_unread = true;
        arrivals.record(unknown(10 * MS, 11 * MS));
        assert_eq!(arrivals.earliest_ns, MS);
    }

    proptest! {
        #[test]
        fn law_holds_however_long_the_thread_waits_for_its_processor(
            iterations in (1..6_usize).prop_flat_map(|connections| {
                let ready_ns = || prop_oneof![Just(0), 0..20_000_u64, 0..10 * MS];
                let iteration = (
                    [ready_ns(), ready_ns(), ready_ns()],
                    0..WAKE_UP_LATENCY_NS,
                    prop::collection::vec(1..3 * MS, connections),
                );
                let iteration = iteration.prop_map(|(preempted_ns, wake_up_ns, service_ns)| {
                    Iteration { preempted_ns, wake_up_ns, service_ns }
                });
                prop::collection::vec(iteration, 1..60)
            }),
            events_max in 1..7_usize,
        ) {
            let check = closed_loop(&iterations, events_max, 0);
            prop_assert!(check.relative_difference.abs() < 1e-9, "{check:?}");
        }
    }
}
