//! What the store must not do while it answers, done by the main thread.
//!
//! It may have to share a processor with a worker, and the kernel may not take it from either for
//! milliseconds: so it does a little and sleeps, which hands the processor back.

use std::sync::Arc;

use store::{Store, Tended, Tender};
use sys::clock::thread_cpu_ns;

/// How long it sleeps between two steps.
pub(crate) const PAUSE_NS: u64 = 500_000;
/// Processor time of a step with huge pages that takes too long, since a worker may have to wait
/// for as long. A machine clears one in a tenth of this; where its host has to find the memory
/// first, it takes milliseconds.
const HUGE_NS_MAX: u64 = 1_000_000;
/// So many such steps, and no more huge pages are asked for. One may have been by chance.
const SLOW_MAX: u32 = 3;

/// Who does it.
pub(crate) struct Keeper {
    store: Arc<Store>,
    tender: Tender,
    /// Huge pages however long they take.
    insists: bool,
    /// Steps with them that took too long.
    slow: u32,
}

impl Keeper {
    pub(crate) fn new(store: &Arc<Store>, insists: bool) -> Self {
        Self {
            store: Arc::clone(store),
            tender: Tender::new(store),
            insists,
            slow: 0,
        }
    }

    /// Does a little; true: there may be more to do. `say` is told what an operator may want to
    /// know.
    pub(crate) fn step(&mut self, say: &mut dyn FnMut(&str)) -> bool {
        let before_ns = thread_cpu_ns();
        let tended = self.tender.step();
        self.judge(tended, thread_cpu_ns() - before_ns, say);
        tended != Tended::Nothing
    }

    fn judge(&mut self, tended: Tended, took_ns: u64, say: &mut dyn FnMut(&str)) {
        let is_slow = tended == Tended::Populated && took_ns > HUGE_NS_MAX;
        if !is_slow || self.insists || !self.store.has_huge_pages() {
            return;
        }
        self.slow += 1;
        if self.slow == SLOW_MAX {
            self.store.refuse_huge_pages();
            let took_ms = took_ns as f64 / 1e6;
            say(&format!(
                "huge pages take {took_ms:.1} ms to come: further memory comes in small ones (-L \
                 insists)"
            ));
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use store::Config;

    #[test]
    fn huge_pages_that_take_long_are_given_up_unless_they_are_insisted_on() {
        let config = Config {
            memory_bytes: 256 << 20,
            ..Config::DEFAULT
        };
        for insists in [false, true] {
            let store = Store::new(config).unwrap();
            let mut keeper = Keeper::new(&store, insists);
            let mut said = Vec::new();
            let mut judge = |tended, took_ns| {
                keeper.judge(tended, took_ns, &mut |line| said.push(line.to_owned()));
                store.has_huge_pages()
            };
            for _ in 0..SLOW_MAX {
                assert!(judge(Tended::Populated, HUGE_NS_MAX));
                assert!(judge(Tended::GaveBack, 2 * HUGE_NS_MAX));
            }
            for _ in 1..SLOW_MAX {
                assert!(judge(Tended::Populated, 3_400_000), "it may be by chance");
            }
            assert_eq!(judge(Tended::Populated, 3_400_000), insists);
            assert_eq!(judge(Tended::Populated, 3_400_000), insists);
            let lines = if insists { 0 } else { 1 };
            assert_eq!(said.len(), lines, "{said:?}");
            assert!(said.iter().all(|line| line.contains("3.4 ms")), "{said:?}");
        }
    }
}
