//! Effects of runtimes on the process: file descriptors, threads, wake-ups of idle threads, memory,
//! and a stack overflow.

#![allow(
    clippy::unwrap_used,
    clippy::print_stderr,
    clippy::print_stdout,
    reason = "a panic shows where a test fails"
)]

#[path = "common/configurations.rs"]
mod configurations;

use std::collections::BTreeMap;
use std::fs;
use std::os::unix::net::UnixStream;
use std::os::unix::process::ExitStatusExt;
use std::process::{Command, Stdio};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use configurations::{LONG, configurations, start};
use fibre::{Builder, Semaphore, Socket};

/// Lets only one test at a time measure the process. The tests of this file are threads of one
/// process.
fn measure_alone() -> MutexGuard<'static, ()> {
    static MEASURING: Mutex<()> = Mutex::new(());
    MEASURING.lock().unwrap_or_else(PoisonError::into_inner)
}

/// The number of entries of a folder.
fn count(folder: &str) -> usize {
    fs::read_dir(folder).unwrap().count()
}

/// Waits until `condition` returns true, for at most [`LONG`]. Returns false if it never did. Some
/// effects come late: worker threads of the kernel, for example, end some time after their ring.
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
    let _guard = measure_alone();
    let round = || {
        for configuration in configurations() {
            let runtime = start(2, configuration);
            runtime.run(|| {
                let (near, far) = UnixStream::pair().unwrap();
                let (near, far) = (Socket::new(near).unwrap(), Socket::new(far).unwrap());
                let echo = fibre::spawn(move || {
                    let mut bytes = [0; 8];
                    let len = far.read(&mut bytes).unwrap();
                    far.write_all(&bytes[..len]).unwrap();
                });
                assert_eq!(near.exchange(b"ball", &mut [0; 8]).unwrap(), 4);
                echo.join().unwrap();
            });
            drop(runtime.spawn(|| fibre::sleep(LONG)));
            runtime.stop(LONG).unwrap();
        }
    };
    // Some descriptors and threads may be created once in a process and kept. The first round
    // creates them, so that they do not count as leaks.
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

/// What a thread has done since its start. A thread that sleeps changes neither number.
#[derive(Debug, PartialEq, Eq)]
struct Activity {
    /// The number of voluntary context switches. A thread makes one whenever it blocks.
    switches: u64,
    /// The processor time in ticks of 10 ms.
    ticks: u64,
}

/// The activity of each thread whose name begins with `name`.
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
            // The fields after the name, which is in parentheses. The 12th and the 13th are the
            // times in user mode and in the kernel (proc_pid_stat(5)).
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
    let _guard = measure_alone();
    for (scheduler, io_backend) in configurations() {
        let builder = Builder::new().processors(2).scheduler(scheduler);
        let builder = builder
            .io_backend(fibre::IoChoice::Only(io_backend))
            .name("quiet");
        let runtime = builder.start().unwrap();
        // A waiting fibre must not wake the *processors*, the threads that run fibres.
        drop(runtime.spawn(|| fibre::sleep(LONG * 60)));
        runtime.run(|| (0..100).for_each(|_| fibre::yield_now()));
        // A new thread sets its name itself, a little after its start.
        assert!(becomes_true(|| activities("quiet").len() == 2));
        // Other events may wake a thread now and then, so one quiet interval is enough.
        let is_quiet = (0..20).any(|_| {
            let before = activities("quiet");
            std::thread::sleep(Duration::from_millis(300));
            before == activities("quiet")
        });
        assert!(is_quiet, "{scheduler:?} {io_backend:?}");
        runtime.stop(LONG).unwrap();
    }
}

/// An environment variable. If it is set, this process is the child that overflows a stack.
const OVERFLOWS: &str = "FIBRE_TEST_OVERFLOWS";

/// Recurses until the stack overflows.
fn deep(depth: u64) -> u64 {
    let frame = std::hint::black_box([depth; 64]);
    if depth == u64::MAX {
        return 0;
    }
    deep(depth + 1) + frame[7]
}

#[test]
fn stack_overflow_kills_the_process() {
    if std::env::var_os(OVERFLOWS).is_some() {
        let runtime = Builder::new().processors(1).start().unwrap();
        println!("{}", runtime.run(|| deep(0)));
        return;
    }
    if cfg!(feature = "sanitizer") {
        eprintln!("skipped: the sanitizer reports the overflow before the signal");
        return;
    }
    let mut child = Command::new(std::env::current_exe().unwrap());
    child.args(["--exact", "stack_overflow_kills_the_process"]);
    child
        .env(OVERFLOWS, "1")
        .stdout(Stdio::null())
        .stderr(Stdio::null());
    let status = child.status().unwrap();
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
    const FIBRES: usize = 20_000;
    let _guard = measure_alone();
    let runtime = Builder::new().processors(2).start().unwrap();
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
