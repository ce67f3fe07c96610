//! How fibres end by a panic or by cancellation, how runtimes stop, and what happens to fibres that
//! never end.

use std::os::unix::net::UnixStream;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::time::{Duration, Instant};

use crate::tests::configurations::{
    LONG, configurations, for_each_configuration, for_each_configuration_in_fibre, start,
};
use crate::{Builder, Mutex, Runtime, Semaphore, Socket};

#[test]
fn panic_of_the_holder_unlocks_a_mutex() {
    for_each_configuration_in_fibre(2, || {
        let mutex = Arc::new(Mutex::new(0));
        let other = Arc::clone(&mutex);
        let panicked = crate::spawn(move || {
            let mut guard = other.lock();
            *guard = 1;
            crate::yield_now();
            panic!("on purpose");
        });
        assert!(panicked.join().is_err());
        assert_eq!(*mutex.lock(), 1);
    });
}

/// A value whose drop calls functions that wait.
struct WaitsInDrop {
    socket: Socket<UnixStream>,
    /// The number of completed drops.
    done: Arc<AtomicUsize>,
}

impl Drop for WaitsInDrop {
    fn drop(&mut self) {
        // Returns immediately, without a yield: a fibre that unwinds does not leave its processor.
        crate::yield_now();
        // A fibre must not wait while it unwinds, so these calls fail.
        assert!(self.socket.read(&mut [0; 8]).is_err());
        assert!(crate::offload(|| ()).is_err());
        self.done.fetch_add(1, Ordering::Relaxed);
    }
}

#[test]
fn waits_during_unwinding_fail() {
    for_each_configuration_in_fibre(2, || {
        let done = Arc::new(AtomicUsize::new(0));
        let count = Arc::clone(&done);
        let panicked = crate::spawn(move || {
            let (near, _far) = UnixStream::pair().unwrap();
            let _waits = WaitsInDrop {
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

/// A result whose drop panics.
struct PanicsInDrop;

impl Drop for PanicsInDrop {
    fn drop(&mut self) {
        panic!("on purpose, in drop");
    }
}

#[test]
fn panic_in_the_drop_of_an_unused_result_ends_no_processor() {
    for_each_configuration(1, |runtime| {
        let gate = Arc::new(Semaphore::new(0));
        let fibres_gate = Arc::clone(&gate);
        drop(runtime.spawn(move || {
            fibres_gate.acquire();
            PanicsInDrop
        }));
        // The join handle has been dropped, so the runtime drops the result when the fibre ends.
        gate.release();
        assert_eq!(runtime.run(|| 7), 7);
    });
}

/// Spawns 30 fibres, which end only when they are cancelled: 10 sleep, 10 read from a socket, and
/// 10 yield. Returns a counter. Each fibre increments it when it ends.
fn spawn_cancellable_fibres(runtime: &Runtime) -> Arc<AtomicUsize> {
    let ended = Arc::new(AtomicUsize::new(0));
    for kind in 0..3 {
        for _ in 0..10 {
            let ended = Arc::clone(&ended);
            drop(runtime.spawn(move || {
                match kind {
                    0 => assert_eq!(crate::sleep(LONG * 60), Err(crate::Cancelled)),
                    1 => {
                        let (near, _far) = UnixStream::pair().unwrap();
                        let read = Socket::new(near).unwrap().read(&mut [0; 8]);
                        assert!(crate::is_cancelled(&read.unwrap_err()));
                    }
                    _ => {
                        while !crate::current().is_cancelled() {
                            crate::yield_now();
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
    for configuration in configurations() {
        let runtime = start(2, configuration);
        let ended = spawn_cancellable_fibres(&runtime);
        runtime.stop(LONG).unwrap();
        assert_eq!(ended.load(Ordering::Relaxed), 30, "{configuration:?}");
        // Dropping a runtime stops it, too.
        let runtime = start(2, configuration);
        let ended = spawn_cancellable_fibres(&runtime);
        drop(runtime);
        assert_eq!(ended.load(Ordering::Relaxed), 30, "{configuration:?}");
        // The deadline of this stop is so late that the clock cannot represent it.
        start(1, configuration).stop(Duration::MAX).unwrap();
    }
}

#[test]
fn a_fibre_that_does_not_end_is_abandoned() {
    if cfg!(feature = "sanitizer") {
        eprintln!("skipped: the sanitizer would report the memory of abandoned fibres as leaked");
        return;
    }
    for configuration in configurations() {
        let runtime = start(2, configuration);
        let is_over = Arc::new(AtomicBool::new(false));
        let start_signal = Arc::new(Semaphore::new(0));
        // This fibre neither waits nor yields, so it occupies one of the two processors.
        drop(runtime.spawn({
            let (is_over, start_signal) = (Arc::clone(&is_over), Arc::clone(&start_signal));
            move || {
                start_signal.release();
                while !is_over.load(Ordering::Relaxed) {
                    std::thread::yield_now();
                }
            }
        }));
        start_signal.acquire();
        // The first of these fibres waits for a permit that is never released. The second yields
        // for ever.
        drop(runtime.spawn(|| Semaphore::new(0).acquire()));
        drop(runtime.spawn(|| {
            loop {
                crate::yield_now();
            }
        }));
        let before = Instant::now();
        let fibres_left = runtime.stop(Duration::from_millis(50)).unwrap_err();
        assert_eq!(fibres_left.count, 3, "{configuration:?}");
        assert!(before.elapsed() < LONG);
        // Lets the first fibre end. The process can still start another runtime.
        is_over.store(true, Ordering::Relaxed);
        assert_eq!(start(1, configuration).run(|| 7), 7);
    }
}

#[test]
fn invalid_number_of_processors_is_refused() {
    // SAFETY: the fibres of this test use no `thread_local!`.
    assert!(unsafe { Builder::new().processors(0).start() }.is_err());
    let too_many = crate::limits::PROCESSORS_MAX + 1;
    // SAFETY: the fibres of this test use no `thread_local!`.
    assert!(unsafe { Builder::new().processors(too_many).start() }.is_err());
}
