//! Runs a test under each configuration: every scheduler with every I/O backend.

use std::time::Duration;

use crate::{Builder, IoBackend, IoChoice, Runtime, Scheduler};

/// A configuration: the scheduler and the I/O backend of a runtime.
pub(crate) type Configuration = (Scheduler, IoBackend);

/// A timeout that is reached only if a test hangs, even on a busy machine.
pub(crate) const LONG: Duration = Duration::from_secs(60);

/// All configurations whose I/O backend can be used on this machine.
pub(crate) fn configurations() -> Vec<Configuration> {
    let mut configurations = Vec::new();
    for io_backend in [IoBackend::Rings, IoBackend::Readiness] {
        let builder = Builder::new().processors(1);
        // SAFETY: the fibres of this test use no `thread_local!`.
        let started = unsafe { builder.io_backend(IoChoice::Only(io_backend)).start() };
        if started.is_ok() {
            configurations.extend(Scheduler::ALL.map(|scheduler| (scheduler, io_backend)));
        } else {
            eprintln!("skipped: {} cannot be used here", io_backend.name());
        }
    }
    configurations
}

/// Starts a runtime with this number of processors and this configuration.
pub(crate) fn start(processors: usize, (scheduler, io_backend): Configuration) -> Runtime {
    let builder = Builder::new().processors(processors).scheduler(scheduler);
    let builder = builder.io_backend(IoChoice::Only(io_backend));
    // SAFETY: the fibres of this test use no `thread_local!`.
    unsafe { builder.start() }.unwrap()
}

/// For each configuration, starts a runtime, calls `test` with it, and stops it. Stopping cancels
/// the fibres that have not ended; a fibre that does not end then makes the test fail.
pub(crate) fn for_each_configuration(processors: usize, test: impl Fn(&Runtime)) {
    for configuration in configurations() {
        // The test harness shows this line if the test fails.
        eprintln!("{configuration:?}, {processors} processors");
        let runtime = start(processors, configuration);
        test(&runtime);
        if let Err(fibres_left) = runtime.stop(LONG) {
            panic!("{configuration:?}: {fibres_left}");
        }
    }
}

/// As [`for_each_configuration`], but runs `test` in a fibre of the runtime.
pub(crate) fn for_each_configuration_in_fibre(
    processors: usize,
    test: impl Fn() + Copy + Send + 'static,
) {
    for_each_configuration(processors, |runtime| runtime.run(test));
}
