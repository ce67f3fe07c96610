//! What the machine is: the inventory that a run folder carries; and what its host took of it
//! meanwhile.

use std::fs;
use std::path::Path;

use report::folder::Host;

use crate::error::Error;

/// Takes the inventory. What this machine does not tell is said to be unknown.
///
/// # Errors
/// The program under test cannot be read.
pub fn inventory(curtail: &Path) -> Result<Host, Error> {
    let cpuinfo = read("/proc/cpuinfo").unwrap_or_default();
    let kernel = [
        read("/proc/sys/kernel/ostype"),
        read("/proc/sys/kernel/osrelease"),
    ];
    Ok(Host {
        kernel: kernel
            .map(Option::unwrap_or_default)
            .join(" ")
            .trim()
            .to_owned(),
        cpu: field(&cpuinfo, "model name").unwrap_or_else(|| "unknown".to_owned()),
        processors: processors(&cpuinfo),
        memory_bytes: memory_bytes(),
        virtualised: hypervisor(&cpuinfo),
        clock: read("/sys/devices/system/clocksource/clocksource0/current_clocksource")
            .unwrap_or_else(|| "unknown".to_owned()),
        governor: read("/sys/devices/system/cpu/cpu0/cpufreq/scaling_governor"),
        open_files: sys::limits::open_files(),
        curtail: build(curtail)?,
    })
}

/// Version and digest of the program: two builds of one version are told apart, so that a run is
/// never continued by another build than began it.
fn build(curtail: &Path) -> Result<String, Error> {
    let program = fs::read(curtail).map_err(Error::file("read", curtail))?;
    Ok(format!(
        "{} (build {:016x})",
        env!("CARGO_PKG_VERSION"),
        fnv1a(&program)
    ))
}

/// FNV-1a, 64 bits (Fowler, Noll, Vo): tells builds apart, resists nobody.
fn fnv1a(bytes: &[u8]) -> u64 {
    bytes.iter().fold(0xcbf2_9ce4_8422_2325, |hash, &byte| {
        (hash ^ u64::from(byte)).wrapping_mul(0x0100_0000_01b3)
    })
}

/// The processor time of some processors since the machine began, in the kernel's ticks.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Ticks {
    all: u64,
    stolen: u64,
}

impl Ticks {
    /// Of `cpus`; of all processors where there are none named. None: the kernel does not tell.
    pub(crate) fn now(cpus: &[usize]) -> Option<Self> {
        Self::read(&fs::read_to_string("/proc/stat").ok()?, cpus)
    }

    /// From the text of `/proc/stat` (proc_stat(5)): `cpuN user nice system idle
    /// iowait irq softirq steal guest guest_nice`, where guest time is part of user time.
    fn read(stat: &str, cpus: &[usize]) -> Option<Self> {
        let of = |name: &str| -> Option<Self> {
            let line = stat.lines().find_map(|line| {
                let (first, rest) = line.split_once(' ')?;
                (first == name).then_some(rest)
            })?;
            let ticks = line.split_whitespace().take(8);
            let ticks: Vec<u64> = ticks.map(|word| word.parse().ok()).collect::<Option<_>>()?;
            Some(Self {
                all: ticks.iter().sum(),
                stolen: *ticks.get(7)?,
            })
        };
        if cpus.is_empty() {
            return of("cpu");
        }
        let mut sum = Self { all: 0, stolen: 0 };
        for cpu in cpus {
            let ticks = of(&format!("cpu{cpu}"))?;
            (sum.all, sum.stolen) = (sum.all + ticks.all, sum.stolen + ticks.stolen);
        }
        Some(sum)
    }

    /// The share that the host took since `earlier`. None: no time has passed.
    pub(crate) fn stolen_since(self, earlier: Self) -> Option<f64> {
        let all = self.all.checked_sub(earlier.all).filter(|&all| all > 0)?;
        // The kernel's counts may step back by a tick.
        Some(self.stolen.saturating_sub(earlier.stolen) as f64 / all as f64)
    }
}

fn processors(cpuinfo: &str) -> u32 {
    let online = cpuinfo
        .lines()
        .filter(|line| line.starts_with("processor"))
        .count();
    u32::try_from(online).unwrap_or(u32::MAX)
}

fn memory_bytes() -> u64 {
    let meminfo = read("/proc/meminfo").unwrap_or_default();
    let total = field(&meminfo, "MemTotal").unwrap_or_default();
    let kib = total
        .split_whitespace()
        .next()
        .and_then(|word| word.parse::<u64>().ok());
    kib.unwrap_or(0) * 1024
}

fn hypervisor(cpuinfo: &str) -> Option<String> {
    let flags = field(cpuinfo, "flags").unwrap_or_default();
    if !flags.split_whitespace().any(|flag| flag == "hypervisor") {
        return None;
    }
    let named = [
        read("/sys/hypervisor/type"),
        read("/sys/class/dmi/id/product_name"),
        read("/sys/class/dmi/id/sys_vendor"),
    ];
    let name = named.into_iter().flatten().find(|name| !name.is_empty());
    Some(name.unwrap_or_else(|| "a hypervisor without a name".to_owned()))
}

fn read(path: &str) -> Option<String> {
    fs::read_to_string(path)
        .ok()
        .map(|text| text.trim().to_owned())
}

/// The value of a `name : value` line.
fn field(text: &str, name: &str) -> Option<String> {
    text.lines().find_map(|line| {
        let (key, value) = line.split_once(':')?;
        (key.trim() == name).then(|| value.trim().to_owned())
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn this_machine_is_described() {
        let host = inventory(Path::new("/bin/sh")).unwrap();
        assert!(host.kernel.starts_with("Linux "), "{}", host.kernel);
        assert!(host.processors >= 1);
        assert!(host.memory_bytes > 1 << 20);
        assert!(host.curtail.contains("(build "));
    }

    #[test]
    fn what_the_host_took_is_a_share_of_all_time() {
        let earlier = "cpu  9 9 9 9 9 9 9 9 0 0\n\
                       cpu0 10 0 10 80 0 0 0 0 5 0\n\
                       cpu1 0 0 0 100 0 0 0 0 0 0\n\
                       cpu10 0 0 0 100 0 0 0 0 0 0\n";
        let later = "cpu  9 9 9 9 9 9 9 9 0 0\n\
                     cpu0 60 0 10 105 0 0 0 25 55 0\n\
                     cpu1 0 0 0 200 0 0 0 0 0 0\n\
                     cpu10 0 0 0 190 0 0 0 10 0 0\n";
        let share = |cpus: &[usize]| {
            let [earlier, later] = [earlier, later].map(|text| Ticks::read(text, cpus).unwrap());
            later.stolen_since(earlier)
        };
        assert_eq!(share(&[0]), Some(0.25));
        assert_eq!(share(&[1]), Some(0.0));
        assert_eq!(share(&[0, 10]), Some(0.175));
        assert_eq!(share(&[]), None, "no time has passed");
        assert_eq!(Ticks::read(later, &[7]), None, "no such processor");
        assert_eq!(Ticks::read("cpu 1 2 3\n", &[]), None, "an elder kernel");
        assert!(Ticks::now(&[]).is_some());
    }

    #[test]
    fn two_builds_of_one_version_are_told_apart() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("curtail");
        fs::write(&path, "one").unwrap();
        let one = build(&path).unwrap();
        fs::write(&path, "two").unwrap();
        assert_ne!(one, build(&path).unwrap());
        assert!(build(&folder.path().join("none")).is_err());
    }
}
