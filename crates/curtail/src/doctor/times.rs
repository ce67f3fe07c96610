//! What looking at the clock costs, and how late a sleep ends: found out by doing it, in less than
//! half a second.

use sys::clock::{monotonic_ns, sleep_until_ns};

/// Groups of readings; the median of them counts, so that what interrupts some does not.
const GROUPS: usize = 31;
const READINGS: u64 = 1_000;
const SLEEPS: usize = 200;
const SLEEP_NS: u64 = 1_000_000;
/// Where sleeps are very late, fewer of them tell enough.
const SLEEPING_NS: u64 = 400_000_000;

/// Nanoseconds that a reading of the clock takes.
pub(super) fn reading_ns() -> f64 {
    let mut groups: Vec<u64> = (0..GROUPS)
        .map(|_| {
            let start_ns = monotonic_ns();
            for _ in 0..READINGS {
                std::hint::black_box(monotonic_ns());
            }
            monotonic_ns() - start_ns
        })
        .collect();
    groups.sort_unstable();
    groups[GROUPS / 2] as f64 / READINGS as f64
}

/// How much later than asked sleeps of a millisecond end: the median, and 99 of a hundred. A
/// thread sleeps that asks for precision, as those of server and generator do.
pub(super) fn late_ns() -> (u64, u64) {
    sys::thread::sleep_precisely();
    let end_ns = monotonic_ns() + SLEEPING_NS;
    let mut late: Vec<u64> = (0..SLEEPS)
        .map_while(|_| {
            let due_ns = monotonic_ns() + SLEEP_NS;
            sleep_until_ns(due_ns);
            let now_ns = monotonic_ns();
            (due_ns < end_ns).then(|| now_ns - due_ns)
        })
        .collect();
    late.sort_unstable();
    (quantile(&late, 50), quantile(&late, 99))
}

/// Of so many sorted, the one that so many hundredths do not exceed.
fn quantile(sorted: &[u64], hundredths: usize) -> u64 {
    let rank = (sorted.len() * hundredths).div_ceil(100);
    sorted.get(rank.saturating_sub(1)).copied().unwrap_or(0)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn quantiles_are_of_those_seen() {
        let hundred: Vec<u64> = (1..=100).collect();
        assert_eq!(quantile(&hundred, 50), 50);
        assert_eq!(quantile(&hundred, 99), 99);
        assert_eq!(quantile(&[7], 99), 7);
        assert_eq!(quantile(&[], 50), 0);
    }

    #[test]
    fn they_are_found_out_in_a_moment() {
        let start_ns = monotonic_ns();
        assert!(reading_ns() > 0.0);
        let (median_ns, high_ns) = late_ns();
        assert!(median_ns <= high_ns);
        assert!(monotonic_ns() - start_ns < 30_000_000_000, "bounded");
    }
}
