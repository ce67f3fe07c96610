//! What the store must not do while it answers, done by the main thread.
//!
//! It may have to share a processor with a worker, and the kernel may not take it from either for
//! milliseconds: so it does a little and rests, which hands the processor back.

use std::sync::Arc;

use store::{Store, Tended, Tender};
use sys::clock::{monotonic_ns, thread_cpu_ns};

/// How long it rests after a step.
const REST_NS: u64 = 250_000;
/// Processor time of a step that takes too long, since a worker may have to wait for as long. It
/// finds 64 KiB of small pages in a fortieth of this, and a huge one in a tenth; but where the host
/// has to find the memory of that first, it takes milliseconds.
const STEP_NS_MAX: u64 = 1_000_000;
/// So many such steps, and no more huge pages are asked for. One may have been by chance.
const SLOW_MAX: u32 = 3;
/// Steps after which those are forgotten: as many as 32 huge pages take.
const SLOW_WITHIN: u32 = 1024;

/// Who does it.
pub(crate) struct MaintenancePacer {
    store: Arc<Store>,
    tender: Tender,
    /// Huge pages however long they take.
    insists: bool,
    has_more: bool,
    rests_until_ns: u64,
    /// Steps that took too long, of so many.
    slow: u32,
    steps: u32,
}

impl MaintenancePacer {
    pub(crate) fn new(store: &Arc<Store>, insists: bool) -> Self {
        Self {
            store: Arc::clone(store),
            tender: Tender::new(store),
            insists,
            has_more: true,
            rests_until_ns: 0,
            slow: 0,
            steps: 0,
        }
    }

    /// Does all there is, where nobody is answered yet. `say` is told what an operator may want to
    /// know.
    pub(crate) fn prepare(&mut self, say: &mut dyn FnMut(&str)) {
        while self.has_more {
            self.step(say);
        }
    }

    /// Does a little, now that there may be something to do, unless it rests.
    pub(crate) fn attend(&mut self, say: &mut dyn FnMut(&str)) {
        self.has_more = true;
        if monotonic_ns() >= self.rests_until_ns {
            self.step(say);
            self.rests_until_ns = monotonic_ns() + REST_NS;
        }
    }

    /// When there is more to do, how long from now, in nanoseconds.
    pub(crate) fn due_ns(&self) -> Option<u64> {
        let rest_ns = self.rests_until_ns.saturating_sub(monotonic_ns());
        self.has_more.then_some(rest_ns)
    }

    fn step(&mut self, say: &mut dyn FnMut(&str)) {
        let before_ns = thread_cpu_ns();
        let tended = self.tender.step();
        self.has_more = tended != Tended::Nothing;
        if tended == Tended::Populated {
            self.judge(thread_cpu_ns() - before_ns, say);
        }
    }

    /// Gives huge pages up where they take too long.
    fn judge(&mut self, took_ns: u64, say: &mut dyn FnMut(&str)) {
        self.steps += 1;
        if self.steps > SLOW_WITHIN {
            (self.steps, self.slow) = (1, 0);
        }
        if took_ns <= STEP_NS_MAX || self.insists || !self.store.has_huge_pages() {
            return;
        }
        self.slow += 1;
        if self.slow == SLOW_MAX {
            self.store.refuse_huge_pages();
            let took_ms = took_ns as f64 / 1e6;
            say(&format!(
                "a little memory takes {took_ms:.1} ms to come: no more huge pages are asked for \
                 (-L insists)"
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
    fn huge_pages_that_take_long_are_given_up_unless_they_are_insisted_on() {
        for insists in [false, true] {
            let store = Store::new(CONFIG).unwrap();
            let mut maintenance = MaintenancePacer::new(&store, insists);
            let mut said = Vec::new();
            let mut judge = |took_ns| {
                maintenance.judge(took_ns, &mut |line| said.push(line.to_owned()));
                store.has_huge_pages()
            };
            for _ in 0..SLOW_WITHIN {
                assert!(judge(STEP_NS_MAX));
            }
            for _ in 1..SLOW_MAX {
                assert!(judge(3_400_000), "it may be by chance");
            }
            for _ in 0..SLOW_WITHIN {
                assert!(judge(STEP_NS_MAX));
            }
            for _ in 1..SLOW_MAX {
                assert!(judge(3_400_000), "the others are forgotten");
            }
            assert_eq!(judge(3_400_000), insists);
            assert_eq!(judge(3_400_000), insists);
            let lines = if insists { 0 } else { 1 };
            assert_eq!(said.len(), lines, "{said:?}");
            assert!(said.iter().all(|line| line.contains("3.4 ms")), "{said:?}");
        }
    }

    #[test]
    fn who_is_called_while_it_rests_does_it_afterwards() {
        let store = Store::new(CONFIG).unwrap();
        let mut maintenance = MaintenancePacer::new(&store, false);
        let mut ignore = |_: &str| {};
        maintenance.prepare(&mut ignore);
        assert_eq!(maintenance.due_ns(), None);
        let before_ns = monotonic_ns();
        maintenance.attend(&mut ignore);
        assert_eq!(maintenance.due_ns(), None, "there was nothing to do");
        assert!(maintenance.rests_until_ns >= before_ns + REST_NS);
        maintenance.rests_until_ns = monotonic_ns() + 3_600_000_000_000;
        maintenance.attend(&mut ignore);
        assert!(maintenance.due_ns().is_some_and(|due_ns| due_ns > REST_NS));
        maintenance.rests_until_ns = 0;
        assert_eq!(maintenance.due_ns(), Some(0));
        maintenance.attend(&mut ignore);
        assert_eq!(maintenance.due_ns(), None);
    }
}
