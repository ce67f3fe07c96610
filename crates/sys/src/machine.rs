//! Facts about the machine, from the files of `/proc` and `/sys`.
//!
//! [`Shown`] reads files, and functions without I/O parse their text. A container or another kernel
//! may not have all of these files. The result is then `None`, never a guess.

mod ticks;

use std::path::PathBuf;

pub use ticks::Ticks;

/// A tree of files that contains the `/proc` and `/sys` of a machine.
#[derive(Debug, Clone)]
pub struct Shown {
    root: PathBuf,
}

impl Shown {
    /// Returns the tree of this machine.
    #[must_use]
    pub fn here() -> Self {
        Self::below("/")
    }

    /// Returns the tree below `root`, which contains `proc` and `sys`. Used by tests.
    pub fn below(root: impl Into<PathBuf>) -> Self {
        Self { root: root.into() }
    }

    /// Returns the text of the file at an absolute path, without surrounding white space. `None` if
    /// the file does not exist or this user may not read it.
    #[must_use]
    pub fn text(&self, path: &str) -> Option<String> {
        let path = self.root.join(path.trim_start_matches('/'));
        let text = std::fs::read_to_string(path).ok()?;
        Some(text.trim().to_owned())
    }

    /// Returns the name of the kernel's clock source, such as `tsc`.
    #[must_use]
    pub fn clock_source(&self) -> Option<String> {
        self.text("/sys/devices/system/clocksource/clocksource0/current_clocksource")
    }

    /// Returns the name of the frequency governor of the first processor. `None` if there is no
    /// governor, as in most virtual machines.
    #[must_use]
    pub fn governor(&self) -> Option<String> {
        self.text("/sys/devices/system/cpu/cpu0/cpufreq/scaling_governor")
    }

    /// Returns the name of the hypervisor, or else of the product or the vendor, of a virtual
    /// machine. On a physical machine it may be the product's name too.
    #[must_use]
    pub fn hypervisor_name(&self) -> Option<String> {
        let paths = [
            "/sys/hypervisor/type",
            "/sys/class/dmi/id/product_name",
            "/sys/class/dmi/id/sys_vendor",
        ];
        let mut names = paths.into_iter().filter_map(|path| self.text(path));
        names.find(|name| !name.is_empty())
    }
}

/// Returns whether the machine is virtual, from the text of `/proc/cpuinfo`: x86 processors of a
/// virtual machine have the flag `hypervisor`. `None` if the text has no flags, as on processors
/// other than x86.
#[must_use]
pub fn is_virtual(cpuinfo: &str) -> Option<bool> {
    let flags = field(cpuinfo, "flags")?;
    Some(flags.split_whitespace().any(|flag| flag == "hypervisor"))
}

/// Returns the value of the first line of the form `name: value`.
#[must_use]
pub fn field(text: &str, name: &str) -> Option<String> {
    text.lines().find_map(|line| {
        let (key, value) = line.split_once(':')?;
        (key.trim() == name).then(|| value.trim().to_owned())
    })
}

/// Returns the value of a line such as `MemTotal:  24683952 kB`, in bytes.
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
    fn missing_file_is_none() {
        let nothing = Shown::below("/no-such-folder-here");
        assert_eq!(nothing.text("/proc/stat"), None);
        assert_eq!(nothing.clock_source(), None);
        assert_eq!(nothing.governor(), None);
        assert_eq!(nothing.hypervisor_name(), None);
        assert!(Shown::here().text("/proc/self/status").is_some());
    }

    #[test]
    fn hypervisor_name_is_the_vendor_if_the_product_name_is_empty() {
        let folder = tempfile::tempdir().unwrap();
        let names = folder.path().join("sys/class/dmi/id");
        std::fs::create_dir_all(&names).unwrap();
        std::fs::write(names.join("product_name"), "\n").unwrap();
        std::fs::write(names.join("sys_vendor"), "QEMU\n").unwrap();
        let shown = Shown::below(folder.path());
        assert_eq!(shown.hypervisor_name().as_deref(), Some("QEMU"));
    }

    #[test]
    fn is_virtual_needs_the_flag_hypervisor_and_is_none_without_flags() {
        let flags = |list: &str| format!("processor : 0\nflags\t\t: {list}\n");
        assert_eq!(is_virtual(&flags("fpu hypervisor lm")), Some(true));
        assert_eq!(is_virtual(&flags("fpu hypervisors lm")), Some(false));
        assert_eq!(is_virtual("processor : 0\nFeatures : fp asimd\n"), None);
        assert_eq!(is_virtual(""), None);
    }

    #[test]
    fn malformed_lines_and_sizes_that_overflow_are_none() {
        let text = "MemTotal:       24683952 kB\nHugePages_Total:       3\nodd line\nA: 1: 2\n";
        assert_eq!(field_bytes(text, "MemTotal"), Some(24_683_952 * 1024));
        assert_eq!(field_bytes(text, "HugePages_Total"), None, "it has no unit");
        assert_eq!(field_bytes(text, "MemFree"), None);
        assert_eq!(field_bytes("M: 99999999999999999999 kB", "M"), None);
        assert_eq!(field_bytes("M: 18446744073709551615 kB", "M"), None);
        assert_eq!(field_bytes("M: -1 kB", "M"), None);
        assert_eq!(field(text, "A").as_deref(), Some("1: 2"));
        assert_eq!(field("", "A"), None);
    }
}
