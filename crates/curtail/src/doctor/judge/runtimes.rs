//! What the server's runtimes stand on.

use std::io::ErrorKind;

use sys::ring::Features;

use super::super::finding::{Finding, Group};
use super::super::machine::{Machine, NoRings, Runtimes};

const GROUP: Group = Group::Runtimes;

/// The group that `kernel.io_uring_group` means where it means none.
const NO_GROUP: i64 = -1;

pub(super) fn findings(machine: &Machine) -> Vec<Finding> {
    let seen = &machine.runtimes;
    let mut findings = vec![match &seen.kernel {
        Some(release) => Finding::fine(GROUP, "kernel", format!("Linux {release}")),
        None => Finding::not_shown(GROUP, "kernel"),
    }];
    match &seen.rings {
        Ok(features) => findings.extend(there(*features)),
        Err(missing) => findings.push(not_there(missing, seen)),
    }
    findings.push(chosen(seen, machine.is_root));
    if machine.is_root {
        findings.push(user(seen));
    }
    findings
}

/// Whom a server that root starts becomes.
fn user(seen: &Runtimes) -> Finding {
    let name = server::DEFAULT_USER;
    let finding = Finding::fine(GROUP, "user", format!("root; the server becomes {name}"));
    if seen.server_group.is_some() {
        return finding;
    }
    finding.wrong(
        format!("There is no user {name}: the server does not start."),
        "`curtail serve -u USER` with one there is (`-u root` stays root), or start it as another.",
    )
}

fn there(features: Features) -> Vec<Finding> {
    let word = |is_there| if is_there { "there" } else { "not here" };
    let part = |name, is_there| Finding::fine(GROUP, name, word(is_there));
    let deferred = part("deferred completions", features.has_deferred_completions);
    let shared = part("shared buffers", features.has_incremental_buffers);
    vec![
        Finding::fine(
            GROUP,
            "io_uring",
            "there (multishot receive, provided buffers)",
        ),
        match features.has_deferred_completions {
            true => deferred,
            false => deferred.note(
                "What completes interrupts a worker, instead of waiting until it looks.",
                "Linux 6.1 or newer has them (DEFER_TASKRUN).",
            ),
        },
        match features.has_incremental_buffers {
            true => shared,
            false => shared.note(
                "Each message takes a buffer of its own, however small it is: more memory is \
                 touched.",
                "Linux 6.12 or newer has them (incremental buffers).",
            ),
        },
        Finding::fine(
            GROUP,
            "not used yet",
            format!(
                "sends without a copy: {}; bundles of sends: {}",
                word(features.sends_without_copy),
                word(features.sends_bundles)
            ),
        ),
    ]
}

fn not_there(missing: &NoRings, seen: &Runtimes) -> Finding {
    let (why, remedy) = match missing.kind {
        ErrorKind::PermissionDenied => forbidden(seen),
        ErrorKind::Unsupported if missing.is_refused => (
            "The kernel has no io_uring, or a filter of system calls pretends so.".to_owned(),
            "Linux 6.0 or newer has what is needed (CONFIG_IO_URING). In a container, choose a \
             seccomp profile that allows io_uring_setup, io_uring_enter and io_uring_register."
                .to_owned(),
        ),
        ErrorKind::Unsupported | ErrorKind::InvalidInput => (
            "The kernel's io_uring is older than what is needed.".to_owned(),
            "Linux 6.0 has it; 6.12 is better.".to_owned(),
        ),
        ErrorKind::OutOfMemory => (
            "The kernel has no memory for it, or not within this user's limit.".to_owned(),
            "Raise the limit of locked memory (`ulimit -l`) or free memory.".to_owned(),
        ),
        _ => (
            "The kernel does not make a ring.".to_owned(),
            "The error above says why.".to_owned(),
        ),
    };
    let means = format!(
        "{why} The server works all the same, on `events`; a request at a time over many \
         connections costs it about a tenth more processor time."
    );
    Finding::fine(GROUP, "io_uring", format!("not here: {}", missing.words)).note(means, remedy)
}

/// Who forbids it: the kernel's own setting, a filter, or somebody who does not show himself.
fn forbidden(seen: &Runtimes) -> (String, String) {
    match (seen.io_uring_disabled, seen.is_filtered) {
        (Some(2), _) => (
            "The kernel is set to let nobody use it (kernel.io_uring_disabled = 2).".to_owned(),
            "`sysctl -w kernel.io_uring_disabled=0`, if who set it agrees.".to_owned(),
        ),
        (Some(1), _) => (
            "The kernel is set to let few use it (kernel.io_uring_disabled = 1).".to_owned(),
            "`sysctl -w kernel.io_uring_group=GROUP` with the number of the server's group, or \
             `sysctl -w kernel.io_uring_disabled=0`."
                .to_owned(),
        ),
        (_, Some(true)) => (
            "A filter of system calls forbids it, as containers' usual ones do.".to_owned(),
            "A seccomp profile that allows io_uring_setup, io_uring_enter and io_uring_register \
             (`docker run --security-opt seccomp=PROFILE.json`), or leave it so."
                .to_owned(),
        ),
        _ => (
            "Something forbids it: a security module, or a filter that is not shown.".to_owned(),
            "Ask who set this machine up, or leave it so.".to_owned(),
        ),
    }
}

/// What `--runtime auto` takes. A server that root starts chooses as the user it becomes.
fn chosen(seen: &Runtimes, is_root: bool) -> Finding {
    let name = "--runtime auto";
    let is_member = match (seen.io_uring_group, seen.server_group) {
        (Some(NO_GROUP) | None, _) | (_, None) => false,
        (Some(allowed), Some(own)) => allowed == i64::from(own),
    };
    if is_root && seen.rings.is_ok() && seen.io_uring_disabled == Some(1) && !is_member {
        let value = "events: root may use io_uring here, the user that a server becomes may not";
        return Finding::fine(GROUP, name, value).note(
            "kernel.io_uring_disabled = 1. A request at a time over many connections costs `events` \
             about a tenth more processor time.",
            "`sysctl -w kernel.io_uring_group=GROUP` with the number of that user's group, or \
             `sysctl -w kernel.io_uring_disabled=0`.",
        );
    }
    let value = match seen.said.is_empty() {
        true => seen.chosen.to_owned(),
        false => format!("{}: \"{}\"", seen.chosen, seen.said.join("; ")),
    };
    Finding::fine(GROUP, name, value)
}
