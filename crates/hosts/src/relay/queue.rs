//! The frames on one direction of a link: which are lost, and when each of the others is due.
//! Without I/O; time is an argument, and randomness follows from the seed.

use std::cmp::Reverse;
use std::collections::BinaryHeap;
use std::time::Duration;

use rand_xoshiro::Xoshiro256PlusPlus;
use rand_xoshiro::rand_core::{Rng, SeedableRng};

use crate::Link;

/// Bytes that a queued frame takes in addition to its own.
const OVERHEAD: usize = size_of::<Delayed>();

/// One direction of a link.
#[derive(Debug)]
pub(super) struct LinkQueue {
    delay_ns: u64,
    jitter_ns: u64,
    loss: f64,
    random: Xoshiro256PlusPlus,
    frames: BinaryHeap<Reverse<Delayed>>,
    /// Of the queued frames, with their overhead.
    bytes: usize,
    bytes_max: usize,
    /// Frames seen.
    sequence: u64,
    last_arrival_ns: u64,
}

/// What happens to a frame.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Fate {
    /// It will be due.
    Queued,
    /// It is lost, as the link's loss demands.
    Lost,
    /// The queue is full.
    Dropped,
}

/// A frame with the time at which it is due. Ordered by that time, then by arrival.
#[derive(Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct Delayed {
    pub(super) due_ns: u64,
    sequence: u64,
    pub(super) frame: Box<[u8]>,
}

impl LinkQueue {
    /// An empty queue of at most `bytes_max` bytes. Each `stream` has random numbers of its own.
    pub(super) fn new(link: &Link, stream: usize, bytes_max: usize) -> Self {
        let mut random = Xoshiro256PlusPlus::seed_from_u64(link.seed);
        for _ in 0..stream {
            // 2^128 numbers further on.
            random.jump();
        }
        Self {
            delay_ns: nanoseconds(link.delay),
            jitter_ns: nanoseconds(link.jitter),
            loss: link.loss,
            random,
            frames: BinaryHeap::new(),
            bytes: 0,
            bytes_max,
            sequence: 0,
            last_arrival_ns: 0,
        }
    }

    /// Takes a frame that arrived at `arrived_ns`. Frames are passed in the order of their arrival;
    /// a time before the previous one's is a correction of the clock, and is replaced by it, so
    /// that frames stay in order without jitter.
    pub(super) fn push(&mut self, arrived_ns: u64, frame: &[u8]) -> Fate {
        // Two numbers for every frame, whatever becomes of it: losses depend only on the seed and
        // the frame's position in the stream.
        let is_lost = unit(self.random.next_u64()) < self.loss;
        let share = unit(self.random.next_u64());
        let sequence = self.sequence;
        self.sequence += 1;
        self.last_arrival_ns = self.last_arrival_ns.max(arrived_ns);
        if is_lost {
            return Fate::Lost;
        }
        let bytes = self.bytes + frame.len() + OVERHEAD;
        if bytes > self.bytes_max {
            return Fate::Dropped;
        }
        self.bytes = bytes;
        let jitter_ns = (share * self.jitter_ns as f64) as u64;
        self.frames.push(Reverse(Delayed {
            due_ns: self.last_arrival_ns + self.delay_ns + jitter_ns,
            sequence,
            frame: frame.into(),
        }));
        Fate::Queued
    }

    /// When the next frame is due.
    pub(super) fn next_due_ns(&self) -> Option<u64> {
        self.frames.peek().map(|next| next.0.due_ns)
    }

    /// The next frame, if it is due at `now_ns`.
    pub(super) fn pop_due(&mut self, now_ns: u64) -> Option<Delayed> {
        if self.next_due_ns()? > now_ns {
            return None;
        }
        let Reverse(delayed) = self.frames.pop()?;
        self.bytes -= delayed.frame.len() + OVERHEAD;
        Some(delayed)
    }
}

fn nanoseconds(duration: Duration) -> u64 {
    u64::try_from(duration.as_nanos()).unwrap_or(u64::MAX)
}

/// The 53 high bits of a random word as a number from 0 to below 1.
fn unit(word: u64) -> f64 {
    (word >> 11) as f64 / (1_u64 << 53) as f64
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn link(delay_ns: u64, jitter_ns: u64, loss: f64, seed: u64) -> Link {
        Link {
            delay: Duration::from_nanos(delay_ns),
            jitter: Duration::from_nanos(jitter_ns),
            loss,
            seed,
        }
    }

    /// Passes frames that arrive at the times `arrivals_ns`, each with its number as content.
    fn fates(queue: &mut LinkQueue, arrivals_ns: &[u64]) -> Vec<Fate> {
        (0_u32..)
            .zip(arrivals_ns)
            .map(|(number, &at_ns)| queue.push(at_ns, &number.to_be_bytes()))
            .collect()
    }

    /// The numbers of the frames in the order in which they leave, with the times they are due.
    fn departures(queue: &mut LinkQueue) -> Vec<(u32, u64)> {
        let number = |frame: &[u8]| u32::from_be_bytes(frame.try_into().unwrap());
        std::iter::from_fn(|| queue.pop_due(u64::MAX))
            .map(|it| (number(&it.frame), it.due_ns))
            .collect()
    }

    fn arrivals() -> impl Strategy<Value = Vec<u64>> {
        prop::collection::vec(0_u64..5_000, 1..400).prop_map(|gaps| {
            gaps.iter()
                .scan(1_000_000, |time_ns, gap_ns| {
                    *time_ns += gap_ns;
                    Some(*time_ns)
                })
                .collect()
        })
    }

    proptest! {
        #[test]
        fn without_jitter_frames_keep_their_order_and_have_the_exact_delay(
            arrivals_ns in arrivals(),
            delay_ns in 0_u64..10_000_000,
            loss in 0.0..0.5,
            seed: u64,
        ) {
            let mut queue = LinkQueue::new(&link(delay_ns, 0, loss, seed), 0, usize::MAX);
            let fates = fates(&mut queue, &arrivals_ns);
            let expected: Vec<(u32, u64)> = (0..)
                .zip(fates.iter().zip(&arrivals_ns))
                .filter(|(_, (fate, _))| **fate == Fate::Queued)
                .map(|(number, (_, at_ns))| (number, at_ns + delay_ns))
                .collect();
            prop_assert_eq!(departures(&mut queue), expected);
            prop_assert_eq!(queue.bytes, 0);
        }

        #[test]
        fn with_jitter_each_delay_is_within_its_bounds_and_departures_are_in_time_order(
            arrivals_ns in arrivals(),
            delay_ns in 0_u64..10_000_000,
            jitter_ns in 0_u64..10_000_000,
            seed: u64,
        ) {
            let mut queue = LinkQueue::new(&link(delay_ns, jitter_ns, 0.0, seed), 0, usize::MAX);
            fates(&mut queue, &arrivals_ns);
            let departures = departures(&mut queue);
            prop_assert_eq!(departures.len(), arrivals_ns.len());
            prop_assert!(departures.is_sorted_by_key(|&(_, due_ns)| due_ns));
            for (number, due_ns) in departures {
                let taken_ns = due_ns - arrivals_ns[number as usize];
                prop_assert!((delay_ns..=delay_ns + jitter_ns).contains(&taken_ns));
            }
        }

        #[test]
        fn a_seed_loses_the_same_frames_whatever_delay_and_jitter(
            seed: u64,
            loss in 0.0..0.5,
            stream in 0_usize..4,
            delay_ns in 0_u64..10_000_000,
        ) {
            let at_ns = vec![0; 1000];
            let lost = |link: &Link| fates(&mut LinkQueue::new(link, stream, usize::MAX), &at_ns);
            let one = lost(&link(0, 0, loss, seed));
            prop_assert_eq!(one, lost(&link(delay_ns, 2 * delay_ns, loss, seed)));
        }

        #[test]
        fn the_share_lost_is_the_loss(seed: u64, stream in 0_usize..4, loss in 0.0..0.5) {
            let count = 20_000_usize;
            let mut queue = LinkQueue::new(&link(0, 0, loss, seed), stream, usize::MAX);
            let fates = fates(&mut queue, &vec![0; count]);
            let lost = fates.iter().filter(|&&fate| fate == Fate::Lost).count();
            // Six standard deviations of the binomial distribution; at most one more frame where
            // the deviation vanishes.
            let mean = count as f64 * loss;
            let bound = 6.0 * (mean * (1.0 - loss)).sqrt() + 1.0;
            prop_assert!((lost as f64 - mean).abs() <= bound, "{lost} of {count}, {loss}");
        }

        #[test]
        fn a_full_queue_drops_and_counts_again_after_departures(seed: u64, frames in 1_usize..50) {
            let room = frames * (4 + OVERHEAD);
            let mut queue = LinkQueue::new(&link(1000, 0, 0.0, seed), 0, room);
            let fates = fates(&mut queue, &vec![0; frames + 3]);
            let dropped = fates.iter().filter(|&&fate| fate == Fate::Dropped).count();
            prop_assert_eq!(dropped, 3);
            prop_assert!(queue.pop_due(999).is_none());
            prop_assert!(queue.pop_due(1000).is_some());
            prop_assert_eq!(queue.push(1, b"next"), Fate::Queued);
            prop_assert_eq!(queue.push(1, b"over"), Fate::Dropped);
        }
    }

    #[test]
    fn streams_of_one_seed_lose_different_frames() {
        let link = link(0, 0, 0.5, 1);
        let at_ns = [0; 200];
        let [one, two] = [0, 1].map(|it| fates(&mut LinkQueue::new(&link, it, 1 << 20), &at_ns));
        assert_ne!(one, two);
    }

    #[test]
    fn a_clock_that_is_set_back_does_not_reorder_frames() {
        let mut queue = LinkQueue::new(&link(100, 0, 0.0, 1), 0, 1 << 20);
        fates(&mut queue, &[50, 40, 60]);
        assert_eq!(departures(&mut queue), [(0, 150), (1, 150), (2, 160)]);
    }
}
