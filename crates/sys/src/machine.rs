//! What the machine says of itself, in the files of `/proc` and `/sys`.
//!
//! [`Shown`] reads them; what they mean is found out by functions of their text. A container may
//! have some of them only, and other kernels others: what is not there is none, never a guess.

mod ticks;

use std::path::PathBuf;

pub use ticks::Ticks;

/// The files in which the kernel shows the machine.
#[derive(Debug, Clone)]
pub struct Shown {
    root: PathBuf,
}

impl Shown {
    /// This machine's.
    #[must_use]
    pub fn here() -> Self {
        Self::below("/")
    }

    /// Those of a tree that has its own `proc` and `sys`, such as one that a test made up.
    pub fn below(root: impl Into<PathBuf>) -> Self {
        Self { root: root.into() }
    }

    /// The text of the file at an absolute path, without the white space around it. None: it is
    /// not there, or not for this user.
    #[must_use]
    pub fn text(&self, path: &str) -> Option<String> {
        let path = self.root.join(path.trim_start_matches('/'));
        let text = std::fs::read_to_string(path).ok()?;
        Some(text.trim().to_owned())
    }

    /// What the kernel tells time by.
    #[must_use]
    pub fn clock_source(&self) -> Option<String> {
        self.text("/sys/devices/system/clocksource/clocksource0/current_clocksource")
    }

    /// The frequency governor of the first processor. `None` without one, as in most virtual
    /// machines.
    #[must_use]
    pub fn governor(&self) -> Option<String> {
        self.text("/sys/devices/system/cpu/cpu0/cpufreq/scaling_governor")
    }

    /// The name of what a virtual machine runs under, as far as it has one.
    #[must_use]
    pub fn hypervisor_name(&self) -> Option<String> {
        let named = [
            "/sys/hypervisor/type",
            "/sys/class/dmi/id/product_name",
            "/sys/class/dmi/id/sys_vendor",
        ];
        let mut names = named.into_iter().filter_map(|path| self.text(path));
        names.find(|name| !name.is_empty())
    }
}

/// Whether a processor says that it is a virtual machine's, from the text of `/proc/cpuinfo`. None:
/// it says nothing of its abilities, as on machines that are not x86.
#[must_use]
pub fn is_virtual(cpuinfo: &str) -> Option<bool> {
    let flags = field(cpuinfo, "flags")?;
    Some(flags.split_whitespace().any(|flag| flag == "hypervisor"))
}

/// The value of the first `name: value` line.
#[must_use]
pub fn field(text: &str, name: &str) -> Option<String> {
    text.lines().find_map(|line| {
        let (key, value) = line.split_once(':')?;
        (key.trim() == name).then(|| value.trim().to_owned())
    })
}

/// Bytes, from a line such as `MemTotal:  24683952 kB`.
#[must_use]
pub fn field_bytes(text: &str, name: &str) -> Option<u64> {
    let value = field(text, name)?;
    let kib = value.strip_suffix("kB")?.trim_end().parse::<u64>().ok()?;
    kib.checked_mul(1024)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_not_shown_is_none() {
        let nothing = Shown::below("/no-such-folder-here");
        assert_eq!(nothing.text("/proc/stat"), None);
        assert_eq!(nothing.clock_source(), None);
        assert_eq!(nothing.governor(), None);
        assert_eq!(nothing.hypervisor_name(), None);
        assert!(Shown::here().text("/proc/self/status").is_some());
    }

    #[test]
    fn a_hypervisor_without_a_product_is_named_by_its_maker() {
        let folder = tempfile::tempdir().unwrap();
        let names = folder.path().join("sys/class/dmi/id");
        std::fs::create_dir_all(&names).unwrap();
        std::fs::write(names.join("product_name"), "\n").unwrap();
        std::fs::write(names.join("sys_vendor"), "QEMU\n").unwrap();
        let shown = Shown::below(folder.path());
        assert_eq!(shown.hypervisor_name().as_deref(), Some("QEMU"));
    }

    #[test]
    fn a_processor_says_whether_it_is_virtual_or_nothing_at_all() {
        let flags = |list: &str| format!("processor : 0\nflags\t\t: {list}\n");
        assert_eq!(is_virtual(&flags("fpu hypervisor lm")), Some(true));
        assert_eq!(is_virtual(&flags("fpu hypervisors lm")), Some(false));
        assert_eq!(is_virtual("processor : 0\nFeatures : fp asimd\n"), None);
        assert_eq!(is_virtual(""), None);
    }

    #[test]
    fn fields_of_odd_texts() {
        let text = "MemTotal:       24683952 kB\nHugePages_Total:       3\nodd line\nA: 1: 2\n";
        assert_eq!(field_bytes(text, "MemTotal"), Some(24_683_952 * 1024));
        assert_eq!(field_bytes(text, "HugePages_Total"), None, "no bytes");
        assert_eq!(field_bytes(text, "MemFree"), None);
        assert_eq!(field_bytes("M: 99999999999999999999 kB", "M"), None);
        assert_eq!(field_bytes("M: 18446744073709551615 kB", "M"), None);
        assert_eq!(field_bytes("M: -1 kB", "M"), None);
        assert_eq!(field(text, "A").as_deref(), Some("1: 2"));
        assert_eq!(field("", "A"), None);
    }
}
