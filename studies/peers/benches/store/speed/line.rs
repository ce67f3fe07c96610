//! How long a cache line takes from the processor that wrote it to the one that reads it: what two
//! threads pay for a record that both ask for, whatever holds it. From machine to machine, and from
//! day to day on a virtual one, it differs by several times.

use std::hint::spin_loop;
use std::sync::atomic::{AtomicU32, Ordering};
use std::thread;
use std::time::Instant;

const BATCHES: usize = 15;
/// There and back, in a batch.
const TRIPS: u32 = 20_000;
/// Looks between two that let others run: both threads may have one processor.
const LOOKS: u32 = 1_000;

#[derive(Default)]
#[repr(align(64))]
struct Line(AtomicU32);

/// One way, in nanoseconds; the median of some batches.
pub(crate) fn transfer_ns() -> f64 {
    let times: Vec<f64> = (0..BATCHES).map(|_| batch_ns()).collect();
    measure::median(&times).unwrap_or(f64::NAN)
}

fn batch_ns() -> f64 {
    let line = Line::default();
    thread::scope(|scope| {
        scope.spawn(|| {
            for trip in 0..TRIPS {
                wait_for(&line, 2 * trip + 1);
                line.0.store(2 * trip + 2, Ordering::Relaxed);
            }
        });
        // The other is there.
        line.0.store(1, Ordering::Relaxed);
        wait_for(&line, 2);
        let start = Instant::now();
        for trip in 1..TRIPS {
            line.0.store(2 * trip + 1, Ordering::Relaxed);
            wait_for(&line, 2 * trip + 2);
        }
        start.elapsed().as_nanos() as f64 / f64::from(2 * (TRIPS - 1))
    })
}

fn wait_for(line: &Line, number: u32) {
    let mut looks = 0;
    while line.0.load(Ordering::Relaxed) != number {
        looks += 1;
        if looks % LOOKS == 0 {
            thread::yield_now();
        }
        spin_loop();
    }
}
