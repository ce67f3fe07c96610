//! Runs the store's maintenance on the main thread, because it makes system calls that would delay
//! requests.
//!
//! The main thread may share a CPU with a worker, and the kernel may let a thread run for
//! milliseconds before it preempts it. Maintenance therefore runs in short steps and sleeps after
//! each one, which yields the CPU.

use std::sync::Arc;

use store::{PageMaintenance, PageStep, Store};
use sys::clock::{monotonic_ns, thread_cpu_ns};

use crate::limits::STEP_PAUSE_NS;

/// CPU time in nanoseconds above which a step counts as slow, since a worker may have to wait that
/// long. Populating 64 KiB of small pages takes a fortieth of this, and one huge page a tenth. In
/// a virtual machine whose host must find the memory of a huge page first, it takes milliseconds.
const STEP_NS_MAX: u64 = 1_000_000;
/// Slow steps within [`SLOW_WINDOW_STEPS`] after which the server stops requesting huge pages. A
/// single slow step may be chance.
const SLOW_MAX: u32 = 3;
/// Steps after which the count of slow ones restarts. 32 huge pages take this many steps.
const SLOW_WINDOW_STEPS: u32 = 1024;

/// How long the start of a server populates memory, in nanoseconds: then it serves, and a signal
/// stops it. The rest is populated meanwhile.
const START_MAX_NS: u64 = 1_000_000_000;

/// Runs maintenance steps with pauses, and stops using huge pages if they are slow to populate.
pub(crate) struct MaintenancePacer {
    store: Arc<Store>,
    page_maintenance: PageMaintenance,
    /// Use huge pages even if they are slow (`-L`).
    forces_huge_pages: bool,
    has_more: bool,
    paused_until_ns: u64,
    /// Slow steps among the last `steps`.
    slow_steps: u32,
    steps: u32,
}

impl MaintenancePacer {
    pub(crate) fn new(store: &Arc<Store>, forces_huge_pages: bool) -> Self {
        Self {
            store: Arc::clone(store),
            page_maintenance: PageMaintenance::new(store),
            forces_huge_pages,
            has_more: true,
            paused_until_ns: 0,
            slow_steps: 0,
            steps: 0,
        }
    }

    /// Runs pending maintenance without pauses, before the server accepts connections, but for no
    /// longer than [`START_MAX_NS`]. `log` receives lines for the operator.
    pub(crate) fn run_at_start(&mut self, log: &mut dyn FnMut(&str)) {
        let end_ns = monotonic_ns() + START_MAX_NS;
        while self.has_more && monotonic_ns() < end_ns {
            self.step(log);
        }
    }

    /// Runs one step if the pause after the last one is over. Call this when there may be work.
    pub(crate) fn step_unless_paused(&mut self, log: &mut dyn FnMut(&str)) {
        self.has_more = true;
        if monotonic_ns() >= self.paused_until_ns {
            self.step(log);
            self.paused_until_ns = monotonic_ns() + STEP_PAUSE_NS;
        }
    }

    /// Nanoseconds until the next step; none if there is no work.
    pub(crate) fn next_step_in_ns(&self) -> Option<u64> {
        let pause_ns = self.paused_until_ns.saturating_sub(monotonic_ns());
        self.has_more.then_some(pause_ns)
    }

    fn step(&mut self, log: &mut dyn FnMut(&str)) {
        let before_ns = thread_cpu_ns();
        let step = self.page_maintenance.step();
        self.has_more = step != PageStep::Nothing;
        if step == PageStep::Populated {
            self.record_step(thread_cpu_ns() - before_ns, log);
        }
    }

    /// Records the CPU time of a step, and stops using huge pages after too many slow ones.
    fn record_step(&mut self, took_ns: u64, log: &mut dyn FnMut(&str)) {
        self.steps += 1;
        if self.steps > SLOW_WINDOW_STEPS {
            (self.steps, self.slow_steps) = (1, 0);
        }
        if took_ns <= STEP_NS_MAX || self.forces_huge_pages || !self.store.has_huge_pages() {
            return;
        }
        self.slow_steps += 1;
        if self.slow_steps == SLOW_MAX {
            self.store.disable_huge_pages();
            let took_ms = took_ns as f64 / 1e6;
            log(&format!(
                "populating a little memory takes {took_ms:.1} ms: no more huge pages are requested \
                 (-L requests them regardless)"
            ));
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use store::Config;

    const CONFIG: Config = Config {
        memory_bytes: 256 << 20,
        ..Config::DEFAULT
    };

    #[test]
    fn slow_huge_pages_are_given_up_unless_forced() {
        for forces_huge_pages in [false, true] {
            let store = Store::new(CONFIG).unwrap();
            let mut maintenance = MaintenancePacer::new(&store, forces_huge_pages);
            let mut lines = Vec::new();
            let mut record = |took_ns| {
                maintenance.record_step(took_ns, &mut |line| lines.push(line.to_owned()));
                store.has_huge_pages()
            };
            for _ in 0..SLOW_WINDOW_STEPS {
                assert!(record(STEP_NS_MAX));
            }
            for _ in 1..SLOW_MAX {
                assert!(record(3_400_000), "a few slow steps may be chance");
            }
            for _ in 0..SLOW_WINDOW_STEPS {
                assert!(record(STEP_NS_MAX));
            }
            for _ in 1..SLOW_MAX {
                assert!(record(3_400_000), "the earlier slow steps no longer count");
            }
            assert_eq!(record(3_400_000), forces_huge_pages);
            assert_eq!(record(3_400_000), forces_huge_pages);
            let line_count = if forces_huge_pages { 0 } else { 1 };
            assert_eq!(lines.len(), line_count, "{lines:?}");
            assert!(
                lines.iter().all(|line| line.contains("3.4 ms")),
                "{lines:?}"
            );
        }
    }

    #[test]
    fn work_that_arrives_during_a_pause_runs_after_it() {
        let store = Store::new(CONFIG).unwrap();
        let mut maintenance = MaintenancePacer::new(&store, false);
        let mut ignore = |_: &str| {};
        maintenance.run_at_start(&mut ignore);
        assert_eq!(maintenance.next_step_in_ns(), None);
        let before_ns = monotonic_ns();
        maintenance.step_unless_paused(&mut ignore);
        assert_eq!(
            maintenance.next_step_in_ns(),
            None,
            "there was nothing to do"
        );
        assert!(maintenance.paused_until_ns >= before_ns + STEP_PAUSE_NS);
        maintenance.paused_until_ns = monotonic_ns() + 3_600_000_000_000;
        maintenance.step_unless_paused(&mut ignore);
        assert!(
            maintenance
                .next_step_in_ns()
                .is_some_and(|in_ns| in_ns > STEP_PAUSE_NS)
        );
        maintenance.paused_until_ns = 0;
        assert_eq!(maintenance.next_step_in_ns(), Some(0));
        maintenance.step_unless_paused(&mut ignore);
        assert_eq!(maintenance.next_step_in_ns(), None);
    }
}
