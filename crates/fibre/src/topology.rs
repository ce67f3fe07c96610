//! Finds the last-level cache of the CPU on which a thread runs.

use std::fs;
use std::sync::OnceLock;

/// The number of the last-level cache of the CPU that runs this thread; 0 if the kernel does not
/// report the cache. CPUs with the same number share the cache.
pub(crate) fn last_level_cache() -> u32 {
    static CACHES: OnceLock<Vec<u32>> = OnceLock::new();
    let caches = CACHES.get_or_init(caches);
    let cpu = rustix::thread::sched_getcpu();
    caches.get(cpu).copied().unwrap_or(0)
}

/// For each CPU, the number of its last-level cache. A cache has the number of the first CPU that
/// uses it.
fn caches() -> Vec<u32> {
    let mut caches = Vec::new();
    loop {
        let cpu = caches.len();
        let folder = format!("/sys/devices/system/cpu/cpu{cpu}/cache");
        if fs::metadata(format!("/sys/devices/system/cpu/cpu{cpu}")).is_err() {
            return caches;
        }
        // The kernel describes the caches of the CPU in folders `index0`, `index1` and so on. The
        // highest index is that of the last level. More than eight folders are not expected.
        let sharing = (0..8).rev().find_map(|index| {
            fs::read_to_string(format!("{folder}/index{index}/shared_cpu_list")).ok()
        });
        caches.push(sharing.as_deref().map_or(0, first_number));
    }
}

/// The first number of a list such as `0-3,8`.
fn first_number(list: &str) -> u32 {
    let digits = list.trim().split(|c: char| !c.is_ascii_digit()).next();
    digits.and_then(|digits| digits.parse().ok()).unwrap_or(0)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn first_number_of_a_cpu_list_is_parsed() {
        assert_eq!(first_number("0-3,8\n"), 0);
        assert_eq!(first_number("12,14\n"), 12);
        assert_eq!(first_number(""), 0);
    }
}
