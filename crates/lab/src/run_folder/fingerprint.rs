//! Checks that a run is resumed on the host on which it began.
//!
//! Trials of two hosts are not comparable, and the figures would not show the difference. Compared
//! are properties that are stable across reboots of a host and affect measurements: kernel,
//! processors, memory, hypervisor, clock source and frequency governor. The limit of open files is
//! not compared, because the shell sets it. Two hosts with equal properties are not distinguished.

use report::record::Host;

/// Tolerance: firmware and kernel reserve a small part of the memory, which varies between boots.
const MEMORY_SHARE: f64 = 0.01;

/// The differences between the host of a run and this one: ``memory `8.0 GiB` there, …``. None:
/// there are none.
pub(super) fn difference(there: &Host, here: &Host) -> Option<String> {
    let none = || "none".to_owned();
    let gib = |bytes: u64| format!("{:.1} GiB", bytes as f64 / f64::from(1 << 30));
    let mut differences: Vec<String> = Vec::new();
    let mut compare = |what: &str, there: String, here: String| {
        if there != here {
            differences.push(format!("{what} `{there}` there, `{here}` here"));
        }
    };
    compare("kernel", there.kernel.clone(), here.kernel.clone());
    compare("processor", there.cpu.clone(), here.cpu.clone());
    compare(
        "processors online",
        there.processors.to_string(),
        here.processors.to_string(),
    );
    let most = there.memory_bytes.max(here.memory_bytes) as f64;
    if there.memory_bytes.abs_diff(here.memory_bytes) as f64 > MEMORY_SHARE * most {
        compare("memory", gib(there.memory_bytes), gib(here.memory_bytes));
    }
    compare(
        "hypervisor",
        there.virtualised.clone().unwrap_or_else(none),
        here.virtualised.clone().unwrap_or_else(none),
    );
    compare("clock source", there.clock.clone(), here.clock.clone());
    compare(
        "frequency governor",
        there.governor.clone().unwrap_or_else(none),
        here.governor.clone().unwrap_or_else(none),
    );
    (!differences.is_empty()).then(|| differences.join("; "))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn host() -> Host {
        Host {
            kernel: "Linux 6.12.1".to_owned(),
            cpu: "a processor".to_owned(),
            processors: 8,
            memory_bytes: 16 << 30,
            virtualised: None,
            clock: "tsc".to_owned(),
            governor: Some("performance".to_owned()),
            open_files: 1024,
            curtail: "0.1.0".to_owned(),
        }
    }

    #[test]
    fn open_files_and_small_memory_changes_are_ignored() {
        let mut later = host();
        (later.open_files, later.memory_bytes) = (1 << 20, (16 << 30) - (40 << 20));
        assert_eq!(difference(&host(), &later), None);
    }

    type Change = fn(&mut Host);

    #[test]
    fn every_difference_is_named() {
        let changes: [(Change, &str); 7] = [
            (
                |host| host.kernel = "Linux 6.13.0".to_owned(),
                "kernel `Linux 6.12.1` there, `Linux 6.13.0` here",
            ),
            (
                |host| host.cpu = "another".to_owned(),
                "processor `a processor` there, `another` here",
            ),
            (
                |host| host.processors = 2,
                "processors online `8` there, `2` here",
            ),
            (
                |host| host.memory_bytes = 8 << 30,
                "memory `16.0 GiB` there, `8.0 GiB` here",
            ),
            (
                |host| host.virtualised = Some("KVM".to_owned()),
                "hypervisor `none` there, `KVM` here",
            ),
            (
                |host| host.clock = "hpet".to_owned(),
                "clock source `tsc` there, `hpet` here",
            ),
            (
                |host| host.governor = None,
                "frequency governor `performance` there, `none` here",
            ),
        ];
        let mut all = host();
        for (change, expected) in changes {
            let mut other = host();
            change(&mut other);
            assert_eq!(difference(&host(), &other).as_deref(), Some(expected));
            change(&mut all);
        }
        let joined = changes.map(|(_, expected)| expected).join("; ");
        assert_eq!(difference(&host(), &all), Some(joined));
    }
}
