//! Limits of files, connections and areas of memory.

use units::show_size;

use super::super::finding::{Finding, Group};
use super::super::machine::{Limits, Machine, Wanted};

const GROUP: Group = Group::Limits;
/// The kernel's way to say that open files have no bound in all.
const NO_BOUND_FROM: u64 = 1 << 60;

pub(super) fn findings(machine: &Machine, wanted: &Wanted) -> Vec<Finding> {
    let seen = &machine.limits;
    let mut findings = vec![
        open_files(seen, wanted, machine.peers.open_files),
        open_files_all(seen, wanted),
        backlog(seen, wanted),
    ];
    if wanted.lab {
        findings.push(local_ports(seen, machine.peers.connections));
        findings.push(port_reuse(seen));
    }
    findings.push(threads(seen, wanted));
    findings.push(stacks(seen, wanted));
    findings.push(locked(seen, wanted));
    findings
}

fn open_files(seen: &Limits, wanted: &Wanted, lab: u64) -> Finding {
    let most = seen.open_files;
    let own = server::open_files_needed(0, wanted.workers);
    let value = format!(
        "{} (hard limit {}), of which this user can make {most}: -c {} at most",
        seen.open_files_soft,
        seen.open_files_hard,
        most.saturating_sub(own)
    );
    let connections = wanted.connections;
    let needed = server::open_files_needed(connections, wanted.workers);
    let finding = Finding::fine(GROUP, "open files", value).number(most as f64, "files");
    let remedy = |needed: u64| {
        let first = match seen.open_files_process {
            Some(process) if process < needed => format!("`sysctl -w fs.nr_open={needed}`, then "),
            _ => String::new(),
        };
        format!(
            "{first}`ulimit -Hn {needed}` as root, `LimitNOFILE={needed}` in a unit, or \
             `docker run --ulimit nofile={needed}`."
        )
    };
    if most < u64::from(connections) {
        let means = format!("The server does not start with -c {connections}.");
        finding.wrong(means, remedy(needed))
    } else if wanted.lab && most < lab {
        let means = format!("The shipped experiments need up to {lab} and do not start.");
        finding.wrong(means, remedy(lab.max(needed)))
    } else if most < needed {
        let means = format!(
            "With -c {connections} the last few connections wait in the kernel: {needed} are wanted."
        );
        finding.note(means, remedy(needed))
    } else {
        finding
    }
}

fn open_files_all(seen: &Limits, wanted: &Wanted) -> Finding {
    let name = "open files in all";
    let Some((open, most)) = seen.open_files_all else {
        return Finding::not_shown(GROUP, name);
    };
    if most >= NO_BOUND_FROM {
        return Finding::fine(GROUP, name, format!("{open}, without a bound"));
    }
    let finding = Finding::fine(GROUP, name, format!("{open} of {most}"));
    let needed = server::open_files_needed(wanted.connections, wanted.workers);
    if most.saturating_sub(open) >= needed {
        return finding;
    }
    finding.wrong(
        format!("The machine has none left for -c {}.", wanted.connections),
        format!("`sysctl -w fs.file-max={}`", most + needed),
    )
}

fn backlog(seen: &Limits, wanted: &Wanted) -> Finding {
    let name = "backlog";
    let Some(most) = seen.backlog_max else {
        return Finding::not_shown(GROUP, name);
    };
    let asked = u64::from(wanted.backlog);
    let value = format!("{most} connections may wait to be accepted (net.core.somaxconn)");
    let finding = Finding::fine(GROUP, name, value).number(most as f64, "connections");
    if most >= asked {
        return finding;
    }
    finding.note(
        format!(
            "The kernel cuts -b {asked} to that. Of connections that come at once, those beyond it \
             are tried again a second later."
        ),
        format!("`sysctl -w net.core.somaxconn={asked}`"),
    )
}

fn local_ports(seen: &Limits, connections: u32) -> Finding {
    let name = "ports of a client";
    let Some((first, last)) = seen.local_ports else {
        return Finding::not_shown(GROUP, name);
    };
    let count = (last + 1).saturating_sub(first);
    let value = format!(
        "{count} to one server from one address (net.ipv4.ip_local_port_range: {first} to {last})"
    );
    let finding = Finding::fine(GROUP, name, value).number(count as f64, "ports");
    if count >= u64::from(connections) {
        return finding;
    }
    finding.wrong(
        format!("The shipped experiments open {connections}; those that find no port fail."),
        "`sysctl -w net.ipv4.ip_local_port_range=\"32768 60999\"`",
    )
}

fn port_reuse(seen: &Limits) -> Finding {
    let name = "ports used again";
    let fine = |value: &str| Finding::fine(GROUP, name, value);
    match seen.reuses_ports {
        None => Finding::not_shown(GROUP, name),
        Some(0) => fine("not within a minute (net.ipv4.tcp_tw_reuse = 0)").note(
            "`curtail load` again and again runs out of ports: each connection keeps its own for a \
             minute after it was closed.",
            "`sysctl -w net.ipv4.tcp_tw_reuse=2`",
        ),
        Some(2) => fine("after a second, on this machine's own addresses"),
        Some(_) => fine("after a second"),
    }
}

fn threads(seen: &Limits, wanted: &Wanted) -> Finding {
    let name = "areas of memory";
    let Some(areas) = seen.memory_areas else {
        return Finding::not_shown(GROUP, name);
    };
    let most = server::thread_connections_max(areas);
    let value =
        format!("{areas} (vm.max_map_count): with --runtime threads, {most} connections at most");
    let finding = Finding::fine(GROUP, name, value).number(areas as f64, "areas");
    let connections = wanted.connections as usize;
    if most >= connections {
        return finding;
    }
    let needed = server::thread_mappings_needed(connections);
    finding.note(
        format!("That is less than -c {connections}; the other runtimes do not mind."),
        format!("For `--runtime threads`: `sysctl -w vm.max_map_count={needed}`"),
    )
}

/// Guards of fibres' stacks.
fn stacks(seen: &Limits, wanted: &Wanted) -> Finding {
    let name = "stacks of fibres";
    let areas = match seen.memory_areas {
        _ if seen.has_lightweight_guard_pages => 0,
        Some(areas) => areas,
        None => return Finding::not_shown(GROUP, name),
    };
    let Some(most) = server::fibre_connections_max(areas, seen.has_lightweight_guard_pages) else {
        let value = "guarded without an area of memory each: as many as wanted, but with -k";
        return Finding::fine(GROUP, name, value);
    };
    let value =
        format!("two areas of memory each: with --runtime fibres, {most} connections at most");
    let finding = Finding::fine(GROUP, name, value).number(most as f64, "fibres");
    let connections = wanted.connections as usize;
    if most >= connections {
        return finding;
    }
    finding.note(
        format!("That is less than -c {connections}; rings and events do not mind."),
        format!(
            "For `--runtime fibres`: Linux 6.13, or `sysctl -w vm.max_map_count={}`",
            server::fibre_mappings_needed(connections)
        ),
    )
}

fn locked(seen: &Limits, wanted: &Wanted) -> Finding {
    let most = seen.locked_bytes;
    let value = match most {
        NO_BOUND_FROM.. => "all may be locked (-k)".to_owned(),
        _ if most < wanted.memory_bytes => format!(
            "{} may be locked, too little for -k (`ulimit -l`)",
            show_size(most)
        ),
        _ => format!("{} may be locked (-k)", show_size(most)),
    };
    Finding::fine(GROUP, "locked memory", value).number(most as f64, "bytes")
}
