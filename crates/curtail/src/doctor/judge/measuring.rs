//! What a measurement stands on: clocks, processors, whom they are shared with, and with what to
//! compare.

use units::{show_duration, show_share};

use super::super::finding::{Finding, Group};
use super::super::machine::{Clock, Machine, Peer, Processors, Wanted};

const GROUP: Group = Group::Measuring;
const PEER: &str = "to compare with";

/// Sources that are read without a system call, and a few that are not on x86.
const READ_AT_ONCE: [&str; 4] = [
    "tsc",
    "kvm-clock",
    "hyperv_clocksource_tsc_page",
    "arch_sys_counter",
];
/// More than a reading takes without a system call.
const READING_NS: f64 = 200.0;
/// A generator that is later than this calls itself the limit (99th percentile).
const LATE_NS: u64 = 50_000;
/// More than a quiet host takes.
const STOLEN: f64 = 0.01;

pub(super) fn findings(machine: &Machine, wanted: &Wanted) -> Vec<Finding> {
    let processors = &machine.processors;
    let clock = &machine.clock;
    let mut findings = vec![
        source(clock),
        reading(clock),
        timers(clock),
        late(clock),
        count(processors, wanted),
        cores(processors),
        governor(processors),
        turbo(processors),
        virtual_machine(processors),
        stolen(processors),
    ];
    if wanted.lab {
        findings.push(priorities(clock));
        match machine.peers.servers.as_slice() {
            [] => findings.push(Finding::not_shown(GROUP, PEER)),
            servers => findings.extend(servers.iter().map(peer)),
        }
    }
    findings
}

fn source(clock: &Clock) -> Finding {
    let name = "clock";
    let Some(source) = &clock.source else {
        return Finding::not_shown(GROUP, name);
    };
    let finding = Finding::fine(GROUP, name, source.as_str());
    if READ_AT_ONCE.contains(&source.as_str()) {
        return finding;
    }
    let better = READ_AT_ONCE.iter().find(|better| {
        let mut sources = clock.sources.iter();
        sources.any(|source| source == **better)
    });
    let folder = "/sys/devices/system/clocksource/clocksource0";
    finding.note(
        "Each reading is a system call or a slow device: latencies and the server pay for it.",
        match better {
            Some(better) => format!("`echo {better} > {folder}/current_clocksource`"),
            None => "The kernel says at its start why it does not trust the processor's own \
                     (`dmesg | grep -i tsc`)."
                .to_owned(),
        },
    )
}

fn reading(clock: &Clock) -> Finding {
    let value = format!("{:.0} ns a reading", clock.reading_ns);
    let finding =
        Finding::fine(GROUP, "clock reading", value).number(clock.reading_ns, "nanoseconds");
    if clock.reading_ns <= READING_NS {
        return finding;
    }
    finding.note(
        "It takes a system call, and is part of each latency and of each burst.",
        "A clock that is read at once (see the clock above), and no tracer of system calls.",
    )
}

fn timers(clock: &Clock) -> Finding {
    let slack = match clock.slack_ns {
        Some(slack_ns) => format!(
            "; slack of {}, put aside by server and generator",
            show_duration(slack_ns)
        ),
        None => String::new(),
    };
    let value = format!("steps of {}{slack}", show_duration(clock.resolution_ns));
    let finding =
        Finding::fine(GROUP, "timers", value).number(clock.resolution_ns as f64, "nanoseconds");
    if clock.resolution_ns <= 1_000 {
        return finding;
    }
    finding.note(
        "Whoever sleeps wakes up at a tick: requests leave late, in lumps.",
        "A kernel with timers of high resolution (CONFIG_HIGH_RES_TIMERS, started without \
         `highres=off`).",
    )
}

fn late(clock: &Clock) -> Finding {
    let (median_ns, high_ns) = clock.late_ns;
    let value = format!(
        "{} late (median), {} (99 of 100), by sleeps of 1 ms",
        show_duration(median_ns),
        show_duration(high_ns)
    );
    let finding = Finding::fine(GROUP, "wake-ups", value).number(high_ns as f64, "nanoseconds");
    if high_ns <= LATE_NS {
        return finding;
    }
    finding.note(
        "A server that slept answers its first request so much later, and a generator that is \
         more than 50 µs late calls itself the limit.",
        "End what else runs here; `curtail serve --busy-poll 50us` where a processor can be \
         spared; keep idle processors awake (`cpupower idle-set -D 10`).",
    )
}

fn count(processors: &Processors, wanted: &Wanted) -> Finding {
    let allowed = processors.allowed.len();
    let name = "processors";
    if allowed == 0 {
        return Finding::not_shown(GROUP, name);
    }
    let value = match &processors.online {
        Some(online) => format!("{allowed} of {} may be used", online.len()),
        None => format!("{allowed} may be used"),
    };
    let finding = Finding::fine(GROUP, name, value).number(allowed as f64, "processors");
    if !wanted.lab || allowed > 1 {
        return finding;
    }
    finding.note(
        "Server and generator compete for one: experiments pin nothing, and latencies include \
         that.",
        "Two processors or more (`taskset`, a container's cpuset).",
    )
}

fn cores(processors: &Processors) -> Finding {
    let name = "shared cores";
    let Some(cores) = &processors.cores else {
        return Finding::not_shown(GROUP, name);
    };
    let allowed = &processors.allowed;
    let of_core = |core: &Vec<usize>| -> Vec<usize> {
        let own = core.iter().copied();
        own.filter(|cpu| allowed.contains(cpu)).collect()
    };
    let cores: Vec<Vec<usize>> = cores.iter().map(of_core).collect();
    let shared: Vec<&Vec<usize>> = cores.iter().filter(|core| core.len() > 1).collect();
    let Some(first) = shared.first() else {
        return Finding::fine(GROUP, name, "none: no two of them share one");
    };
    let value = format!(
        "{} of {} cores; processors {} share one",
        shared.len(),
        cores.len(),
        listed(first)
    );
    let firsts: Vec<usize> = cores
        .iter()
        .filter_map(|core| core.first().copied())
        .collect();
    let remedy = match firsts.as_slice() {
        [server, load, ..] => format!(
            "In an experiment's file, different cores: `[pins] server = [{server}]`, \
             `load = [{load}]`."
        ),
        _ => "A machine with two cores; switching the second thread off \
              (`echo off > /sys/devices/system/cpu/smt/control`) leaves one."
            .to_owned(),
    };
    Finding::fine(GROUP, name, value).note(
        "What runs on one slows the other down: a generator beside the server on one core measures \
         itself too.",
        remedy,
    )
}

fn listed(cpus: &[usize]) -> String {
    let cpus: Vec<String> = cpus.iter().map(ToString::to_string).collect();
    cpus.join(" and ")
}

fn governor(processors: &Processors) -> Finding {
    let name = "frequency";
    let Some(governor) = &processors.governor else {
        return Finding::not_shown(GROUP, name);
    };
    let finding = Finding::fine(GROUP, name, format!("governor {governor}"));
    if governor == "performance" {
        return finding;
    }
    finding.note(
        "A processor that was idle is slow at first: low rates look worse than they are.",
        "`cpupower frequency-set -g performance`",
    )
}

fn turbo(processors: &Processors) -> Finding {
    let name = "turbo";
    match processors.turbo {
        None => Finding::not_shown(GROUP, name),
        Some(turbo) if !turbo.is_on => Finding::fine(GROUP, name, "off"),
        Some(turbo) => Finding::fine(GROUP, name, "on").note(
            "Speed depends on heat and on the neighbours: trials differ more than servers do.",
            format!("While measuring: `{}`", turbo.off),
        ),
    }
}

fn virtual_machine(processors: &Processors) -> Finding {
    let name = "virtual machine";
    match processors.is_virtual {
        None => Finding::not_shown(GROUP, name),
        Some(false) => Finding::fine(GROUP, name, "no"),
        Some(true) => {
            let host = processors.hypervisor.as_deref();
            let value = host.map_or_else(|| "yes".to_owned(), |host| format!("yes: {host}"));
            Finding::fine(GROUP, name, value).note(
                "Its host takes processors away when it likes, and wake-ups go through it.",
                "Compare within one run, interleaved, as experiments do; not with figures of other \
                 machines.",
            )
        }
    }
}

fn stolen(processors: &Processors) -> Finding {
    let name = "taken by the host";
    let Some(share) = processors.stolen else {
        return Finding::not_shown(GROUP, name);
    };
    let value = format!(
        "{} of processor time since the machine began",
        show_share(share)
    );
    let finding = Finding::fine(GROUP, name, value).number(share, "share");
    if share <= STOLEN {
        return finding;
    }
    finding.note(
        "Neighbours are busy: their turns are in every tail here.",
        "Another time, another instance, or one with processors of its own. A report says how much \
         was taken during each run.",
    )
}

fn priorities(clock: &Clock) -> Finding {
    let name = "going first";
    if clock.may_go_first {
        return Finding::fine(GROUP, name, "this user may (experiments do)");
    }
    Finding::fine(GROUP, name, "this user may not").note(
        "What else runs here takes its turns on the processors of server and generator, and \
         latencies include it.",
        "Run the laboratory as root, or with CAP_SYS_NICE.",
    )
}

fn peer(peer: &Peer) -> Finding {
    let name = PEER;
    match &peer.found {
        Ok((program, version)) => {
            let version = version.as_deref().unwrap_or("no version told");
            let value = format!("{}: {program} ({version})", peer.name);
            Finding::fine(GROUP, name, value)
        }
        Err(why) => Finding::fine(GROUP, name, format!("{}: {why}", peer.name)).note(
            "Experiments leave it out and say so.",
            format!("Install it, or name its program: {}", variable(&peer.name)),
        ),
    }
}

/// How the laboratory is told of a program, for good.
fn variable(name: &str) -> String {
    format!(
        "`export CURTAIL_SERVER_{}=/path/to/it`",
        name.to_ascii_uppercase()
    )
}
