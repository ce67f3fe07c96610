//! Every scheduler over either way of waiting for the kernel.

#![allow(dead_code, reason = "not every test uses all of it")]
#![allow(
    clippy::unwrap_used,
    clippy::print_stderr,
    reason = "a failing test says where"
)]

use std::time::Duration;

use fibre::{Builder, IoBackend, IoChoice, Runtime, Scheduler};

/// More than anything takes on a machine that others use too.
pub(crate) const LONG: Duration = Duration::from_secs(60);

/// What can be started here, of every kind.
pub(crate) fn kinds() -> Vec<(Scheduler, IoBackend)> {
    let mut kinds = Vec::new();
    for kind in [IoBackend::Rings, IoBackend::Readiness] {
        let started = Builder::new()
            .processors(1)
            .io_backend(IoChoice::Only(kind))
            .start();
        if started.is_ok() {
            kinds.extend(Scheduler::ALL.map(|scheduler| (scheduler, kind)));
        } else {
            eprintln!("skipped: {} cannot be used here", kind.name());
        }
    }
    kinds
}

pub(crate) fn start(processors: usize, (scheduler, kind): (Scheduler, IoBackend)) -> Runtime {
    let builder = Builder::new().processors(processors).scheduler(scheduler);
    builder.io_backend(IoChoice::Only(kind)).start().unwrap()
}

/// A runtime of each kind.
pub(crate) fn each(processors: usize, test: impl Fn(&Runtime)) {
    for kind in kinds() {
        // Seen where the test fails.
        eprintln!("{kind:?}, {processors} processors");
        let runtime = start(processors, kind);
        test(&runtime);
        if let Err(given_up) = runtime.stop(LONG) {
            panic!("{kind:?}: {given_up}");
        }
    }
}

/// The same test, run by a fibre of it.
pub(crate) fn each_inside(processors: usize, test: impl Fn() + Copy + Send + 'static) {
    each(processors, |runtime| runtime.run(test));
}
