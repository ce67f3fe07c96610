//! The machine of a run, and how two machines differ.

use serde::{Deserialize, Serialize};

/// Share by which the memory of one machine may differ: firmware and kernel reserve a small part of
/// it, which varies between boots.
const MEMORY_SHARE: f64 = 0.01;

/// `host.json`: the machine. A run is resumed only if most of these fields are unchanged.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Host {
    /// `uname -sr`.
    pub kernel: String,
    /// Processor model.
    pub cpu: String,
    /// Processors online.
    pub processors: u32,
    /// Memory.
    pub memory_bytes: u64,
    /// Hypervisor, if one is detected.
    pub virtualised: Option<String>,
    /// Clock source of the kernel.
    pub clock: String,
    /// Frequency governor, if one is shown.
    pub governor: Option<String>,
    /// Limit of open files.
    pub open_files: u64,
    /// Version and digest of this build.
    pub curtail: String,
}

/// A property in which two machines, or the circumstances of two runs, differ.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Difference {
    /// The property, such as `clock source`.
    pub what: String,
    /// Its value in the first.
    pub first: String,
    /// Its value in the second.
    pub second: String,
}

impl Difference {
    /// None: the values are equal.
    pub(crate) fn of(what: &str, first: String, second: String) -> Option<Self> {
        (first != second).then(|| Self {
            what: what.to_owned(),
            first,
            second,
        })
    }
}

impl Host {
    /// The differences from another machine in properties that are stable across reboots and affect
    /// measurements. The limit of open files is not compared, because the shell sets it, nor is the
    /// build. Two machines with equal properties are not distinguished.
    #[must_use]
    pub fn differences(&self, other: &Self) -> Vec<Difference> {
        let text = |it: &Option<String>| it.clone().unwrap_or_else(|| "none".to_owned());
        let gib = |bytes: u64| format!("{:.1} GiB", bytes as f64 / f64::from(1 << 30));
        let properties = |host: &Self| {
            [
                ("kernel", host.kernel.clone()),
                ("processor", host.cpu.clone()),
                ("processors online", host.processors.to_string()),
                ("memory", gib(host.memory_bytes)),
                ("hypervisor", text(&host.virtualised)),
                ("clock source", host.clock.clone()),
                ("frequency governor", text(&host.governor)),
            ]
        };
        let most = self.memory_bytes.max(other.memory_bytes) as f64;
        let apart = self.memory_bytes.abs_diff(other.memory_bytes) as f64;
        let is_other_memory = apart > MEMORY_SHARE * most;
        let pairs = properties(self).into_iter().zip(properties(other));
        pairs
            .filter(|((what, _), _)| *what != "memory" || is_other_memory)
            .filter_map(|((what, first), (_, second))| Difference::of(what, first, second))
            .collect()
    }

    /// The difference in the build, which is no property of the machine.
    pub(crate) fn build_difference(&self, other: &Self) -> Option<Difference> {
        Difference::of(
            "build of curtail",
            self.curtail.clone(),
            other.curtail.clone(),
        )
    }
}
