//! What runtimes do to their process: which file descriptors and threads they leave behind, whether
//! idle threads wake up, how much memory a fibre uses, and how a stack overflow ends the process.

use std::collections::BTreeMap;
use std::fs;
use std::os::unix::net::UnixStream;
use std::os::unix::process::ExitStatusExt;
use std::process::{Command, Stdio};
use std::sync::Arc;
use std::time::{Duration, Instant};

use crate::tests::configurations::{LONG, configurations, start};
use crate::{Builder, Semaphore, Socket};

/// The name of an environment variable. If it is set, this process is the child of a test.
const CHILD: &str = "FIBRE_TEST_CHILD";

/// A child process that runs one test of this file and nothing else.
fn child(test: &str) -> Command {
    let (_, module) = module_path!().split_once("::").unwrap();
    let mut child = Command::new(std::env::current_exe().unwrap());
    child
        .args(["--exact", "--nocapture", &format!("{module}::{test}")])
        .env(CHILD, "1");
    child
}

/// Returns whether this process runs only this test, which measures the process. If not, runs the
/// test in a child, and fails as the child does.
fn is_alone(test: &str) -> bool {
    if std::env::var_os(CHILD).is_some() {
        return true;
    }
    let output = child(test).output().unwrap();
    let said = String::from_utf8_lossy(&output.stdout);
    print!("{said}");
    eprint!("{}", String::from_utf8_lossy(&output.stderr));
    assert!(output.status.success() && said.contains("1 passed"));
    false
}

/// The number of entries of a folder.
fn count(folder: &str) -> usize {
    fs::read_dir(folder).unwrap().count()
}

/// Waits until `condition` returns true, for at most [`LONG`]. Returns false if it never did. A
/// test waits because some changes come late: for example, the kernel's worker threads of an
/// io_uring end some time after the io_uring is closed.
fn becomes_true(mut condition: impl FnMut() -> bool) -> bool {
    let deadline = Instant::now() + LONG;
    while Instant::now() < deadline {
        if condition() {
            return true;
        }
        std::thread::sleep(Duration::from_millis(5));
    }
    false
}

#[test]
fn stopped_runtimes_leave_no_descriptor_and_no_thread() {
    if !is_alone("stopped_runtimes_leave_no_descriptor_and_no_thread") {
        return;
    }
    // Uses and stops a runtime of each configuration.
    let round = || {
        for configuration in configurations() {
            let runtime = start(2, configuration);
            runtime.run(|| {
                let (near, far) = UnixStream::pair().unwrap();
                let (near, far) = (Socket::new(near).unwrap(), Socket::new(far).unwrap());
                let echo = crate::spawn(move || {
                    let mut bytes = [0; 8];
                    let len = far.read(&mut bytes).unwrap();
                    far.write_all(&bytes[..len]).unwrap();
                });
                assert_eq!(near.exchange(b"ball", &mut [0; 8]).unwrap(), 4);
                echo.join().unwrap();
            });
            // This fibre still sleeps when the runtime is stopped.
            drop(runtime.spawn(|| crate::sleep(LONG)));
            runtime.stop(LONG).unwrap();
        }
    };
    // A process may create some descriptors and threads once and keep them. The first round creates
    // these, so that they do not count as leaks.
    round();
    let (fds, tasks) = (count("/proc/self/fd"), count("/proc/self/task"));
    for _ in 0..10 {
        round();
    }
    assert!(
        becomes_true(|| count("/proc/self/fd") <= fds),
        "descriptors leaked"
    );
    assert!(
        becomes_true(|| count("/proc/self/task") <= tasks),
        "threads leaked"
    );
}

/// What a thread has done since its start. While a thread sleeps, neither number changes.
#[derive(Debug, PartialEq, Eq)]
struct Activity {
    /// The number of voluntary context switches. A thread makes one whenever it blocks.
    switches: u64,
    /// The processor time in ticks of 10 ms.
    ticks: u64,
}

/// The activity of each thread whose name begins with `name`. The keys are the kernel's numbers of
/// the threads.
fn activities(name: &str) -> BTreeMap<String, Activity> {
    let mut activities = BTreeMap::new();
    for task in fs::read_dir("/proc/self/task").unwrap().flatten() {
        let Ok(status) = fs::read_to_string(task.path().join("status")) else {
            continue;
        };
        let field = |key: &str| {
            let line = status.lines().find(|line| line.starts_with(key));
            line.map_or("", |line| line[key.len()..].trim())
        };
        let Ok(stat) = fs::read_to_string(task.path().join("stat")) else {
            continue;
        };
        if field("Name:").starts_with(name) {
            let switches = field("voluntary_ctxt_switches:").parse().unwrap();
            // These are the fields after the name of the thread, which is in parentheses. The 12th
            // and the 13th of them are the times in user mode and in the kernel
            // (proc_pid_stat(5)).
            let fields = stat.rsplit_once(')').unwrap().1.split_whitespace();
            let times = fields.skip(11).take(2);
            let ticks = times.map(|time| time.parse::<u64>().unwrap()).sum();
            let activity = Activity { switches, ticks };
            activities.insert(task.file_name().into_string().unwrap(), activity);
        }
    }
    activities
}

#[test]
fn idle_runtime_wakes_no_processor() {
    if !is_alone("idle_runtime_wakes_no_processor") {
        return;
    }
    for (scheduler, io_backend) in configurations() {
        let builder = Builder::new().processors(2).scheduler(scheduler);
        let builder = builder
            .io_backend(crate::IoChoice::Only(io_backend))
            .name("quiet");
        // SAFETY: the fibres of this test use no `thread_local!`.
        let runtime = unsafe { builder.start() }.unwrap();
        // Even while a fibre waits, the *processors* (the threads that run fibres) must not wake
        // up.
        drop(runtime.spawn(|| crate::sleep(LONG * 60)));
        runtime.run(|| (0..100).for_each(|_| crate::yield_now()));
        // Waits until both threads have their names: a new thread sets its name itself.
        assert!(becomes_true(|| activities("quiet").len() == 2));
        // Events outside the runtime may wake a thread now and then. So the test passes as soon as
        // both threads have slept through one interval.
        let is_quiet = (0..20).any(|_| {
            let before = activities("quiet");
            std::thread::sleep(Duration::from_millis(300));
            before == activities("quiet")
        });
        assert!(is_quiet, "{scheduler:?} {io_backend:?}");
        runtime.stop(LONG).unwrap();
    }
}

/// Recurses until the stack overflows.
fn deep(depth: u64) -> u64 {
    // Makes the stack frame large. The result depends on it, so that it is not optimised away.
    let frame = std::hint::black_box([depth; 64]);
    if depth == u64::MAX {
        return 0;
    }
    deep(depth + 1) + frame[7]
}

#[test]
fn stack_overflow_kills_the_process() {
    if std::env::var_os(CHILD).is_some() {
        // SAFETY: the fibres of this test use no `thread_local!`.
        let runtime = unsafe { Builder::new().processors(1).start() }.unwrap();
        println!("{}", runtime.run(|| deep(0)));
        return;
    }
    if cfg!(feature = "sanitizer") {
        eprintln!("skipped: the sanitizer reports the overflow before the signal");
        return;
    }
    let mut child = child("stack_overflow_kills_the_process");
    child.stdout(Stdio::null()).stderr(Stdio::null());
    let status = child.status().unwrap();
    // The signal of the kernel, or that of an `abort` by the standard library, which handles the
    // kernel's signal.
    let signals = [libc::SIGSEGV, libc::SIGBUS, libc::SIGABRT];
    assert!(
        status
            .signal()
            .is_some_and(|signal| signals.contains(&signal)),
        "{status}"
    );
}

/// The resident memory of this process, in bytes.
fn resident() -> usize {
    let status = fs::read_to_string("/proc/self/status").unwrap();
    let line = status.lines().find(|line| line.starts_with("VmRSS:"));
    let kib = line.and_then(|line| line.split_whitespace().nth(1));
    kib.unwrap().parse::<usize>().unwrap() * 1024
}

#[test]
fn waiting_fibre_uses_less_than_8_kib() {
    if !is_alone("waiting_fibre_uses_less_than_8_kib") {
        return;
    }
    const FIBRES: usize = 20_000;
    // SAFETY: the fibres of this test use no `thread_local!`.
    let runtime = unsafe { Builder::new().processors(2).start() }.unwrap();
    // A fibre releases `waiting` just before it waits at `gate`.
    let (waiting, gate) = (Arc::new(Semaphore::new(0)), Arc::new(Semaphore::new(0)));
    let before = resident();
    let fibres: Vec<_> = (0..FIBRES)
        .map(|_| {
            let (waiting, gate) = (Arc::clone(&waiting), Arc::clone(&gate));
            runtime.spawn(move || {
                waiting.release();
                gate.acquire();
            })
        })
        .collect();
    for _ in 0..FIBRES {
        waiting.acquire();
    }
    assert_eq!(runtime.statistics().fibres, FIBRES);
    // The memory per fibre, in bytes.
    let each = resident().saturating_sub(before) / FIBRES;
    println!("{each} bytes per waiting fibre");
    if !cfg!(feature = "sanitizer") {
        assert!(each < 8192, "{each} bytes per fibre");
    }
    for _ in 0..FIBRES {
        gate.release();
    }
    fibres.into_iter().for_each(|fibre| fibre.join().unwrap());
    runtime.stop(LONG).unwrap();
}
