//! What is fine, what is worth knowing, what is wrong: a function of what was seen and what is
//! wanted. *Wrong* is what would keep the server or the laboratory from working as documented.

mod limits;
mod measuring;
mod memory;
mod runtimes;

use super::finding::Finding;
use super::machine::{Machine, Wanted};

/// All findings, in the order they are shown.
pub(super) fn findings(machine: &Machine, wanted: &Wanted) -> Vec<Finding> {
    [
        runtimes::findings(machine),
        limits::findings(machine, wanted),
        memory::findings(machine, wanted),
        measuring::findings(machine, wanted),
    ]
    .concat()
}

/// Bytes to read: `64 MiB`, `23.5 GiB`.
fn bytes_text(bytes: u64) -> String {
    const UNITS: [(u64, &str); 3] = [(1 << 30, "GiB"), (1 << 20, "MiB"), (1 << 10, "KiB")];
    let unit = UNITS.into_iter().find(|(unit, _)| bytes >= *unit);
    let Some((unit, name)) = unit else {
        return format!("{bytes} bytes");
    };
    match bytes % unit {
        0 => format!("{} {name}", bytes / unit),
        _ => format!("{:.1} {name}", bytes as f64 / unit as f64),
    }
}

/// Nanoseconds to read: `35 ns`, `5.1 µs`, `4 ms`.
fn time_text(time_ns: u64) -> String {
    match time_ns {
        0..1_000 => format!("{time_ns} ns"),
        1_000..100_000 => format!("{:.1} µs", time_ns as f64 / 1e3),
        100_000..1_000_000 => format!("{} µs", time_ns / 1_000),
        _ => format!("{:.1} ms", time_ns as f64 / 1e6),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn bytes_and_times_are_read_at_a_glance() {
        for (bytes, text) in [
            (0, "0 bytes"),
            (1023, "1023 bytes"),
            (64 << 20, "64 MiB"),
            ((1 << 30) + (1 << 29), "1.5 GiB"),
        ] {
            assert_eq!(bytes_text(bytes), text);
        }
        for (time_ns, text) in [
            (1, "1 ns"),
            (5_100, "5.1 µs"),
            (104_999, "104 µs"),
            (4_000_000, "4.0 ms"),
        ] {
            assert_eq!(time_text(time_ns), text);
        }
    }
}
