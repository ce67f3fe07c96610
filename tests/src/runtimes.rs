//! The runtime under test. A test that starts servers is a function without `#[test]`; at the end
//! of its file, [`on_runtimes!`](crate::on_runtimes) makes a test of it for each runtime.

use std::cell::Cell;
use std::env;
use std::sync::OnceLock;
use std::sync::atomic::{AtomicBool, Ordering};

use crate::device_pair;

/// The runtime of a server, with the scheduler if it has several.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Runtime {
    /// epoll.
    Events,
    /// io_uring.
    Rings,
    /// A thread per connection.
    Threads,
    /// A fibre per connection, on the fair scheduler and io_uring.
    Fibres,
    /// A fibre per connection, on the stealing scheduler over epoll.
    FibresSteal,
    /// A stack of its own, in a network namespace.
    Bypass,
}

impl Runtime {
    const ALL: [Self; 6] = [
        Self::Events,
        Self::Rings,
        Self::Threads,
        Self::Fibres,
        Self::FibresSteal,
        Self::Bypass,
    ];

    /// The flags that select it.
    #[must_use]
    pub fn flags(self) -> &'static [&'static str] {
        match self {
            Self::Events => &["--runtime", "events"],
            Self::Rings => &["--runtime", "rings"],
            Self::Threads => &["--runtime", "threads"],
            Self::Fibres => &["--runtime", "fibres"],
            Self::FibresSteal => &["--runtime", "fibres", "--fibre-scheduler", "steal"],
            Self::Bypass => &["--runtime", "bypass"],
        }
    }
}

/// Makes tests of functions: `NAME::RUNTIME` for each name and each runtime in brackets. Where this
/// machine cannot run a runtime, its tests are skipped.
///
/// ```ignore
/// on_runtimes! {
///     [events rings]
///     an_idle_server_does_not_wake_up,
///     #[ignore = "slow"] a_full_server_evicts,
/// }
/// ```
#[macro_export]
macro_rules! on_runtimes {
    ($runtimes:tt $($(#[$attribute:meta])* $test:ident,)+) => {
        $($crate::on_runtimes!(@one $runtimes [$(#[$attribute])*] $test);)+
    };
    (@one [$($runtime:ident)+] $attributes:tt $test:ident) => {
        mod $test {
            $($crate::on_runtimes!(@test $runtime $attributes $test);)+
        }
    };
    (@test $runtime:ident [$($attribute:tt)*] $test:ident) => {
        #[test]
        $($attribute)*
        fn $runtime() {
            $crate::runtimes::$runtime(super::$test);
        }
    };
}

thread_local! {
    /// The runtime of this thread's test.
    static GIVEN: Cell<Option<Runtime>> = const { Cell::new(None) };
}
/// Whether the tests of this process are given their runtimes.
static ARE_GIVEN: AtomicBool = AtomicBool::new(false);

/// The runtime under test: the one that this test was made for. In a program without
/// [`on_runtimes!`](crate::on_runtimes), `$CURTAIL_RUNTIME`, or else `events`.
///
/// # Panics
/// Another thread than that of the test asks, or there is no runtime `$CURTAIL_RUNTIME`.
#[must_use]
pub fn runtime() -> Runtime {
    if let Some(given) = GIVEN.get() {
        return given;
    }
    assert!(
        !ARE_GIVEN.load(Ordering::Relaxed),
        "the test knows its runtime, not the threads that it starts"
    );
    let Ok(name) = env::var("CURTAIL_RUNTIME") else {
        return Runtime::Events;
    };
    let mut all = Runtime::ALL.into_iter();
    all.find(|runtime| runtime.flags()[1] == name)
        .unwrap_or_else(|| panic!("CURTAIL_RUNTIME: no runtime is called `{name}`"))
}

/// Runs `test` on `events`.
pub fn events(test: fn()) {
    on(Runtime::Events, test);
}

/// Runs `test` on `rings`, if there is io_uring.
pub fn rings(test: fn()) {
    let probed = sys::ring::Ring::probe().map(drop);
    if can_run("rings", &probed.map_err(|error| error.to_string())) {
        on(Runtime::Rings, test);
    }
}

/// Runs `test` on `threads`.
pub fn threads(test: fn()) {
    on(Runtime::Threads, test);
}

/// Runs `test` on `fibres`, over epoll if there is no io_uring.
#[expect(clippy::print_stderr, reason = "a test must report what it skips")]
pub fn fibres(test: fn()) {
    if let Err(error) = ::runtime::rings_for_fibres() {
        eprintln!("skipped: fibres over io_uring: {error}; over epoll instead");
    }
    on(Runtime::Fibres, test);
}

/// Runs `test` on `fibres` with the stealing scheduler.
pub fn fibres_steal(test: fn()) {
    on(Runtime::FibresSteal, test);
}

/// Runs `test` on `bypass`, if this process may create network namespaces. The thread of the test
/// moves to one, so it is not a thread that runs other tests afterwards.
pub fn bypass(test: fn()) {
    static PROBED: OnceLock<Result<(), String>> = OnceLock::new();
    let probed = PROBED.get_or_init(|| device_pair::probe().map_err(|error| format!("{error:#}")));
    if can_run("bypass", probed) {
        let test = std::thread::spawn(move || on(Runtime::Bypass, test));
        test.join()
            .unwrap_or_else(|panic| std::panic::resume_unwind(panic));
    }
}

fn on(runtime: Runtime, test: fn()) {
    ARE_GIVEN.store(true, Ordering::Relaxed);
    GIVEN.set(Some(runtime));
    test();
    GIVEN.set(None);
}

/// Whether a runtime was found to work here. If not, prints that its test is skipped.
#[expect(clippy::print_stderr, reason = "a test must report what it skips")]
fn can_run(name: &str, probed: &Result<(), String>) -> bool {
    if let Err(error) = probed {
        eprintln!("skipped: --runtime {name}: {error}");
    }
    probed.is_ok()
}
