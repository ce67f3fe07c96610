//! The description of the machine that a run folder contains.

use std::fs;
use std::path::Path;

use report::record::Host;
use sys::machine::{self, Shown};

use crate::error::Error;

const PROFILE: &str = env!("PROFILE");

/// What to know of figures that are measured with this build. None: they may be quoted.
pub(crate) fn profile_note() -> Option<String> {
    let is_optimised = matches!(PROFILE, "dist" | "profiling");
    (!is_optimised).then(|| {
        format!("Built for a first look (profile {PROFILE}); figures to quote: `--profile dist`.")
    })
}

/// Describes this machine. What it does not report is `unknown`.
pub(crate) fn inventory(curtail: &Path) -> Result<Host, Error> {
    let shown = Shown::here();
    let cpuinfo = shown.text("/proc/cpuinfo").unwrap_or_default();
    let meminfo = shown.text("/proc/meminfo").unwrap_or_default();
    let kernel = ["/proc/sys/kernel/ostype", "/proc/sys/kernel/osrelease"];
    let kernel = kernel.map(|path| shown.text(path).unwrap_or_default());
    let unknown = || "unknown".to_owned();
    Ok(Host {
        kernel: kernel.join(" ").trim().to_owned(),
        cpu: machine::field(&cpuinfo, "model name").unwrap_or_else(unknown),
        processors: processors(&cpuinfo),
        memory_bytes: machine::field_bytes(&meminfo, "MemTotal").unwrap_or(0),
        virtualised: hypervisor(&shown, &cpuinfo),
        clock: shown.clock_source().unwrap_or_else(unknown),
        governor: shown.governor(),
        open_files: sys::limits::open_files(),
        curtail: build(curtail)?,
    })
}

fn hypervisor(shown: &Shown, cpuinfo: &str) -> Option<String> {
    if machine::is_virtual(cpuinfo) != Some(true) {
        return None;
    }
    let name = shown.hypervisor_name();
    Some(name.unwrap_or_else(|| "a hypervisor without a name".to_owned()))
}

/// Version, profile and digest of the program. The digest distinguishes builds of one version, so
/// that only the build that began a run resumes it.
fn build(curtail: &Path) -> Result<String, Error> {
    let program = fs::read(curtail).map_err(Error::file("read", curtail))?;
    Ok(format!(
        "{} ({PROFILE}, build {:016x})",
        env!("CARGO_PKG_VERSION"),
        fnv1a(&program)
    ))
}

/// FNV-1a, 64 bits (Fowler, Noll, Vo): distinguishes builds, but is not cryptographic.
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn builds_of_one_version_are_distinguished() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("curtail");
        fs::write(&path, "one").unwrap();
        let one = build(&path).unwrap();
        fs::write(&path, "two").unwrap();
        assert_ne!(one, build(&path).unwrap());
        assert!(build(&folder.path().join("none")).is_err());
    }
}
