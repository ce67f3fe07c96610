//! Checks that a run is resumed on the host on which it began.
//!
//! Trials of two hosts are not comparable, and the figures would not show the difference.

use report::record::Host;

/// The differences between the host of a run and this one: ``memory `8.0 GiB` there, …``. None:
/// there are none.
pub(super) fn difference(there: &Host, here: &Host) -> Option<String> {
    let differences: Vec<String> = there
        .differences(here)
        .into_iter()
        .map(|it| format!("{} `{}` there, `{}` here", it.what, it.first, it.second))
        .collect();
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
