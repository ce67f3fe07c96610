//! What a machine offers: each knob with its value and bounds, each meter, and what is missing.

use crate::knob::{Knob, Name, Probe, probe};
use crate::meter::{counters, powers};
use crate::root::Root;

/// What kind of machine it is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Environment {
    /// No hypervisor and no container were seen.
    BareMetal,
    /// The processor says that a hypervisor runs it.
    VirtualMachine,
    /// A marker of a container runtime, or a control group of one.
    Container,
}

/// Everything about a machine.
#[derive(Debug, Clone, PartialEq)]
pub struct Report {
    /// Its kind.
    pub environment: Environment,
    /// All knobs.
    pub knobs: Vec<(Name, Probe)>,
    /// Names of its meters.
    pub meters: Vec<String>,
    /// What follows.
    pub remarks: Vec<String>,
}

/// Looks at a machine; at knobs of the network, for this device.
#[must_use]
pub fn examine(root: &Root, device: Option<&str>) -> Report {
    let knobs: Vec<(Name, Probe)> = Name::ALL
        .iter()
        .map(|&(_, name)| (name, probe(root, name, device)))
        .collect();
    let counters = counters(root).into_iter().map(|it| it.name().to_owned());
    let powers = powers(root).into_iter().map(|it| it.name().to_owned());
    let meters: Vec<String> = counters.chain(powers).collect();
    let environment = environment(root);
    let remarks = remarks(root, environment, &knobs, &meters);
    Report {
        environment,
        knobs,
        meters,
        remarks,
    }
}

impl Report {
    /// A knob that may be set.
    #[must_use]
    pub fn usable(&self, name: Name) -> Option<&Knob> {
        self.knobs.iter().find_map(|(it, probe)| match probe {
            Probe::Usable(knob) if *it == name => Some(knob),
            _ => None,
        })
    }
}

fn environment(root: &Root) -> Environment {
    let groups = root.read("proc/1/cgroup").unwrap_or_default();
    let runtimes = ["docker", "kubepods", "containerd", "libpod", "lxc"];
    let is_container = root.path(".dockerenv").exists()
        || root.path("run/.containerenv").exists()
        || runtimes.iter().any(|it| groups.contains(it));
    match (is_container, is_virtual(root)) {
        (true, _) => Environment::Container,
        (false, true) => Environment::VirtualMachine,
        (false, false) => Environment::BareMetal,
    }
}

/// Whether a hypervisor runs the processor. A container may be in a virtual machine.
fn is_virtual(root: &Root) -> bool {
    let text = root.read("proc/cpuinfo").unwrap_or_default();
    let flags = text
        .lines()
        .find(|it| it.starts_with("flags"))
        .unwrap_or_default();
    flags.split_whitespace().any(|it| it == "hypervisor")
}

fn remarks(
    root: &Root,
    environment: Environment,
    knobs: &[(Name, Probe)],
    meters: &[String],
) -> Vec<String> {
    let mut remarks = Vec::new();
    let mut say = |text: &str| remarks.push(text.to_owned());
    if meters.is_empty() {
        say("no meter of energy: only proxies (processor time, wake-ups), which are not joules");
    }
    if root
        .path("sys/class/powercap/intel-rapl:0/energy_uj")
        .exists()
        && !meters.iter().any(|it| it.starts_with("rapl:"))
    {
        say("RAPL is there, but its counters may be read by root only");
    }
    let is = |name: Name, wanted: fn(&Probe) -> bool| {
        knobs.iter().any(|(it, probe)| *it == name && wanted(probe))
    };
    if environment == Environment::Container {
        say("a container: settings are those of the host and of all its containers");
    }
    if is_virtual(root) {
        say(
            "a virtual machine: speed and energy are the host's, and what an idle state saves is \
             decided there",
        );
    }
    if is(Name::Frequency, |it| matches!(it, Probe::Absent(_))) {
        say("the speed cannot be set: `curtail power tune` has the delay of interrupts only");
    }
    if knobs
        .iter()
        .any(|(_, probe)| matches!(probe, Probe::ReadOnly(..)))
    {
        say("some knobs are there but may not be written: run it as root, on the host");
    }
    if !knobs
        .iter()
        .any(|(_, probe)| matches!(probe, Probe::Usable(_)))
    {
        say("no knob may be set here: the model (`curtail lab run energy-sweep`) needs none");
    }
    remarks
}
