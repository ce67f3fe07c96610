//! What the machine is: the inventory that a run folder carries.

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
