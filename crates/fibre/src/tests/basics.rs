//! Basic use of fibres, with every scheduler and every I/O backend.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::time::Duration;

use crate::tests::configurations::for_each_configuration;

#[test]
fn join_returns_every_result() {
    for processors in 1..=3 {
        for_each_configuration(processors, |runtime| {
            let sum = runtime.run(|| {
                let fibres: Vec<_> = (0..1000_usize).map(|n| crate::spawn(move || n)).collect();
                fibres
                    .into_iter()
                    .map(|fibre| fibre.join().unwrap())
                    .sum::<usize>()
            });
            // The sum of the numbers from 0 to 999.
            assert_eq!(sum, 499_500);
        });
    }
}

#[test]
fn all_yielding_fibres_run_to_their_end() {
    for_each_configuration(2, |runtime| {
        let yields = Arc::new(AtomicUsize::new(0));
        let fibres: Vec<_> = (0..100)
            .map(|_| {
                let yields = Arc::clone(&yields);
                runtime.spawn(move || {
                    for _ in 0..100 {
                        yields.fetch_add(1, Ordering::Relaxed);
                        crate::yield_now();
                    }
                })
            })
            .collect();
        fibres.into_iter().for_each(|fibre| fibre.join().unwrap());
        assert_eq!(yields.load(Ordering::Relaxed), 100 * 100);
    });
}

#[test]
fn panic_ends_only_its_fibre() {
    for_each_configuration(2, |runtime| {
        let panicked = runtime.spawn(|| panic!("on purpose")).join();
        assert_eq!(
            panicked.unwrap_err().downcast_ref::<&str>(),
            Some(&"on purpose")
        );
        assert_eq!(runtime.run(|| 7), 7);
    });
}

/// Five fibres increment a counter in turn. If a fibre did not run any more, the others would wait
/// for it, and the test would not end.
#[test]
fn fibres_that_yield_until_their_turn_comes_are_not_starved() {
    for_each_configuration(2, |runtime| {
        const FIBRES: usize = 5;
        const TURNS: usize = 2000;
        let turns = Arc::new(AtomicUsize::new(0));
        let fibres: Vec<_> = (0..FIBRES)
            .map(|number| {
                let turns = Arc::clone(&turns);
                runtime.spawn(move || {
                    while turns.load(Ordering::Acquire) < TURNS {
                        if turns.load(Ordering::Acquire) % FIBRES == number {
                            turns.fetch_add(1, Ordering::AcqRel);
                        }
                        crate::yield_now();
                    }
                })
            })
            .collect();
        fibres.into_iter().for_each(|fibre| fibre.join().unwrap());
        assert!(turns.load(Ordering::Relaxed) >= TURNS);
    });
}

#[test]
fn fibres_exchange_values_through_channels() {
    for_each_configuration(2, |runtime| {
        let (sender, receiver) = crate::channel::<u32>(4);
        let (answer_sender, answer_receiver) = crate::channel::<u32>(4);
        let echo = runtime.spawn(move || {
            while let Ok(value) = receiver.receive() {
                answer_sender.send(value + 1).unwrap();
            }
        });
        let client = runtime.spawn(move || {
            for n in 0..5000 {
                sender.send(n).unwrap();
                assert_eq!(answer_receiver.receive(), Ok(n + 1));
            }
        });
        client.join().unwrap();
        echo.join().unwrap();
    });
}

#[test]
fn sleepers_wake_in_order() {
    // The runtime has only one processor. With two, the sleepers could run in the wrong order: the
    // kernel may preempt the thread of one processor for longer than the sleeps differ.
    for_each_configuration(1, |runtime| {
        let order = Arc::new(crate::Mutex::new(Vec::new()));
        let fibres: Vec<_> = [150_u64, 50, 100]
            .map(|ms| {
                let order = Arc::clone(&order);
                runtime.spawn(move || {
                    crate::sleep(Duration::from_millis(ms)).unwrap();
                    order.lock().push(ms);
                })
            })
            .into();
        fibres.into_iter().for_each(|fibre| fibre.join().unwrap());
        assert_eq!(*order.lock(), [50, 100, 150]);
    });
}

#[test]
fn cancelling_ends_a_sleep() {
    for_each_configuration(1, |runtime| {
        let has_begun = Arc::new(AtomicBool::new(false));
        let begins = Arc::clone(&has_begun);
        let sleeper = runtime.spawn(move || {
            begins.store(true, Ordering::Relaxed);
            crate::sleep(Duration::from_secs(3600))
        });
        // With one processor, another fibre runs only once the sleeper waits. So if another fibre
        // sees the flag, the sleeper sleeps.
        runtime.run(move || {
            while !has_begun.load(Ordering::Relaxed) {
                crate::yield_now();
            }
        });
        sleeper.fibre().cancel();
        assert_eq!(sleeper.join().unwrap(), Err(crate::Cancelled));
        // To stop a runtime also cancels its fibres. `for_each_configuration` stops this runtime
        // while the following fibre sleeps, and fails if the sleep does not end.
        drop(runtime.spawn(|| crate::sleep(Duration::from_secs(3600))));
    });
}

/// With two processors, the fibre may be cancelled before it sleeps, while it begins to sleep, or
/// later. The sleep ends in each case.
#[test]
fn cancelling_at_any_moment_ends_a_sleep() {
    for_each_configuration(2, |runtime| {
        for _ in 0..100 {
            let has_begun = Arc::new(AtomicBool::new(false));
            let begins = Arc::clone(&has_begun);
            let sleeper = runtime.spawn(move || {
                begins.store(true, Ordering::Relaxed);
                // If the cancellation is lost, the sleep ends, and its result is `Ok`.
                crate::sleep(Duration::from_secs(30))
            });
            while !has_begun.load(Ordering::Relaxed) {
                std::thread::yield_now();
            }
            sleeper.fibre().cancel();
            assert_eq!(sleeper.join().unwrap(), Err(crate::Cancelled));
        }
    });
}
