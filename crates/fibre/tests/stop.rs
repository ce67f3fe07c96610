//! How fibres and runtimes end: by panics, when told, or never.

#![allow(
    clippy::unwrap_used,
    clippy::print_stderr,
    clippy::print_stdout,
    reason = "a failing test says where"
)]

#[path = "common/each.rs"]
mod each;

use std::os::unix::net::UnixStream;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::time::{Duration, Instant};

use each::{LONG, each, each_inside, kinds, start};
use fibre::{Builder, Mutex, Runtime, Semaphore, Socket};

#[test]
fn a_panic_with_a_mutex_held_leaves_it_to_the_next() {
    each_inside(2, || {
        let mutex = Arc::new(Mutex::new(0));
        let other = Arc::clone(&mutex);
        let panicked = fibre::spawn(move || {
            let mut guard = other.lock();
            *guard = 1;
            fibre::yield_now();
            panic!("on purpose");
        });
        assert!(panicked.join().is_err());
        assert_eq!(*mutex.lock(), 1);
    });
}

/// Does what waits when it is dropped.
struct Waits {
    socket: Socket<UnixStream>,
    done: Arc<AtomicUsize>,
}

impl Drop for Waits {
    fn drop(&mut self) {
        // Stays here.
        fibre::yield_now();
        // These fail: they would have to wait, and what they lend would be gone.
        assert!(self.socket.read(&mut [0; 8]).is_err());
        assert!(fibre::offload(|| ()).is_err());
        self.done.fetch_add(1, Ordering::Relaxed);
    }
}

#[test]
fn what_waits_while_a_fibre_unwinds_fails() {
    each_inside(2, || {
        let done = Arc::new(AtomicUsize::new(0));
        let count = Arc::clone(&done);
        let panicked = fibre::spawn(move || {
            let (near, _far) = UnixStream::pair().unwrap();
            let _waits = Waits {
                socket: Socket::new(near).unwrap(),
                done: count,
            };
            panic!("on purpose");
        });
        let panic = panicked.join().unwrap_err();
        assert_eq!(panic.downcast_ref::<&str>(), Some(&"on purpose"));
        assert_eq!(done.load(Ordering::Relaxed), 1);
    });
}

/// A result that does not end well.
struct Bad;

impl Drop for Bad {
    fn drop(&mut self) {
        panic!("a result that panics");
    }
}

#[test]
fn a_panic_in_the_drop_of_an_unused_result_ends_no_processor() {
    each(1, |runtime| {
        let gate = Arc::new(Semaphore::new(0));
        let opened = Arc::clone(&gate);
        drop(runtime.spawn(move || {
            opened.acquire();
            Bad
        }));
        gate.release();
        assert_eq!(runtime.run(|| 7), 7);
    });
}

/// Fibres of each sort, told to end.
fn spawn_cancellable_fibres(runtime: &Runtime) -> Arc<AtomicUsize> {
    let ended = Arc::new(AtomicUsize::new(0));
    for sort in 0..3 {
        for _ in 0..10 {
            let ended = Arc::clone(&ended);
            drop(runtime.spawn(move || {
                match sort {
                    0 => assert_eq!(fibre::sleep(LONG * 60), Err(fibre::Cancelled)),
                    1 => {
                        let (near, _far) = UnixStream::pair().unwrap();
                        let read = Socket::new(near).unwrap().read(&mut [0; 8]);
                        assert!(fibre::is_cancelled(&read.unwrap_err()));
                    }
                    _ => {
                        while !fibre::current().is_cancelled() {
                            fibre::yield_now();
                        }
                    }
                }
                ended.fetch_add(1, Ordering::Relaxed);
            }));
        }
    }
    ended
}

#[test]
fn stopping_cancels_all_fibres() {
    for kind in kinds() {
        let runtime = start(2, kind);
        let ended = spawn_cancellable_fibres(&runtime);
        runtime.stop(LONG).unwrap();
        assert_eq!(ended.load(Ordering::Relaxed), 30, "{kind:?}");
        // At once, and by being dropped; a timeout that no clock has.
        let runtime = start(2, kind);
        let ended = spawn_cancellable_fibres(&runtime);
        drop(runtime);
        assert_eq!(ended.load(Ordering::Relaxed), 30, "{kind:?}");
        start(1, kind).stop(Duration::MAX).unwrap();
    }
}

#[test]
fn a_fibre_that_does_not_end_is_abandoned() {
    if cfg!(feature = "sanitizer") {
        eprintln!("skipped: what is given up is never freed, as the sanitizer would report");
        return;
    }
    for kind in kinds() {
        let runtime = start(2, kind);
        let is_over = Arc::new(AtomicBool::new(false));
        let (began, over) = (Arc::new(Semaphore::new(0)), Arc::clone(&is_over));
        let begins = Arc::clone(&began);
        // Never leaves its processor.
        drop(runtime.spawn(move || {
            begins.release();
            while !over.load(Ordering::Relaxed) {
                std::thread::yield_now();
            }
        }));
        began.acquire();
        // Waits for what nobody gives; and one that looks again and again.
        drop(runtime.spawn(|| Semaphore::new(0).acquire()));
        drop(runtime.spawn(|| {
            loop {
                fibre::yield_now();
            }
        }));
        let before = Instant::now();
        let given_up = runtime.stop(Duration::from_millis(50)).unwrap_err();
        assert_eq!(given_up.count, 3, "{kind:?}");
        assert!(before.elapsed() < LONG);
        // The process goes on, and so may another runtime.
        is_over.store(true, Ordering::Relaxed);
        assert_eq!(start(1, kind).run(|| 7), 7);
    }
}

#[test]
fn a_number_of_processors_that_cannot_be_is_refused() {
    assert!(Builder::new().processors(0).start().is_err());
    let many = fibre::limits::PROCESSORS_MAX + 1;
    assert!(Builder::new().processors(many).start().is_err());
}
