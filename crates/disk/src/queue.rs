//! The queue of a disk, in virtual time: first come, first served, by one server for each channel.
//!
//! The recursion of Kiefer and Wolfowitz (1955): each request takes the channel that is free first.

use std::cmp::Reverse;
use std::collections::BinaryHeap;

use crate::law::{Draws, Law};

/// A disk with requests under way.
#[derive(Debug, Clone)]
pub struct Queue {
    law: Law,
    draws: Draws,
    /// When each channel is free.
    free_at_ns: BinaryHeap<Reverse<u64>>,
    /// Where the last request ended.
    head: u64,
}

/// The times of a request.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Admitted {
    /// When a channel begins to serve it.
    pub start_ns: u64,
    /// When it is done.
    pub due_ns: u64,
}

impl Admitted {
    /// How long it is served.
    #[must_use]
    pub fn service_ns(&self) -> u64 {
        self.due_ns - self.start_ns
    }
}

impl Queue {
    /// An idle disk.
    #[must_use]
    pub fn new(law: Law, seed: u64) -> Self {
        let free_at_ns = (0..law.channels).map(|_| Reverse(0)).collect();
        Self {
            law,
            draws: Draws::new(seed),
            free_at_ns,
            head: 0,
        }
    }

    /// Admits a request at `now_ns`. Times must not decrease from call to call.
    pub fn admit(&mut self, now_ns: u64, offset: u64, len: u32) -> Admitted {
        let is_contiguous = offset == self.head && offset > 0;
        self.head = offset + u64::from(len);
        let service_ns = self.law.draw_ns(&mut self.draws, len, is_contiguous);
        let free_at_ns = self.free_at_ns.pop().map_or(0, |it| it.0);
        let start_ns = free_at_ns.max(now_ns);
        let due_ns = start_ns + service_ns;
        self.free_at_ns.push(Reverse(due_ns));
        Admitted { start_ns, due_ns }
    }

    /// Forgets the requests under way: all channels are free. The stream of delays goes on.
    pub fn clear(&mut self) {
        self.free_at_ns = (0..self.law.channels).map(|_| Reverse(0)).collect();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const MS: u64 = 1_000_000;

    fn fixed(channels: u32) -> Queue {
        let text = format!("ssd:channels={channels},seek=1ms,seek-law=fixed,transfer=1000GiB");
        Queue::new(text.parse().unwrap(), 1)
    }

    fn dues_ms(queue: &mut Queue, arrivals_ms: &[u64]) -> Vec<u64> {
        let at = |(nth, now): (usize, &u64)| {
            // Never contiguous.
            queue.admit(now * MS, 1 + 9 * nth as u64, 4).due_ns / MS
        };
        arrivals_ms.iter().enumerate().map(at).collect()
    }

    #[test]
    fn one_arm_serves_one_request_after_another_and_channels_serve_several() {
        assert_eq!(dues_ms(&mut fixed(1), &[0, 0, 0, 9]), [1, 2, 3, 10]);
        assert_eq!(dues_ms(&mut fixed(2), &[0, 0, 0, 9]), [1, 1, 2, 10]);
    }

    #[test]
    fn waiting_times_are_those_of_theory() {
        // M/D/1 at half of the capacity: half a service time (Pollaczek and Khinchine).
        let mut queue = fixed(1);
        let mut draws = Draws::new(9);
        let (mut now, mut waited, count) = (0.0, 0, 100_000);
        for nth in 0..count {
            now -= 2.0 * MS as f64 * libm::log(1.0 - draws.unit());
            let admitted = queue.admit(now as u64, 1 + 9 * nth, 4);
            waited += admitted.start_ns - now as u64;
        }
        let mean_ms = waited as f64 / count as f64 / MS as f64;
        assert!((mean_ms / 0.5 - 1.0).abs() < 0.05, "{mean_ms}");
    }

    #[test]
    fn a_seed_determines_all_delays() {
        let dues = |seed| {
            let mut queue = Queue::new("spindle".parse().unwrap(), seed);
            let due = |nth| queue.admit(nth * MS, nth << 20, 4096).due_ns;
            (0..100).map(due).collect::<Vec<u64>>()
        };
        assert_eq!(dues(5), dues(5));
        assert_ne!(dues(5), dues(6));
    }

    #[test]
    fn a_file_that_is_read_in_order_needs_one_seek() {
        let mut queue = Queue::new("spindle:seek-law=fixed".parse().unwrap(), 1);
        let mut read = |offset| queue.admit(0, offset, 131_072).service_ns();
        assert!(read(1 << 20) > 450_000);
        assert_eq!(read((1 << 20) + 131_072), 218_453);
        assert!(read(0) > 450_000);
    }
}
