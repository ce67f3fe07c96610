//! Memory and processor time: the machine's, and what a control group leaves of them.

use units::show_size;

use super::super::finding::{Finding, Group};
use super::super::machine::{Bound, Machine, Memory, Wanted};

const GROUP: Group = Group::Limits;

/// What a server holds beside `-m`, whatever it stores: its code, its stacks, huge pages that are
/// not full yet.
const BESIDE: u64 = 16 << 20;
/// For each worker: buffers.
const BESIDE_WORKER: u64 = 512 << 10;
/// For each connection: its socket in the kernel, which counts too, and answers under way.
const BESIDE_CONNECTION: u64 = 8 << 10;

pub(super) fn findings(machine: &Machine, wanted: &Wanted) -> Vec<Finding> {
    let memory = &machine.memory;
    vec![
        available(memory, wanted),
        group_memory(machine.control.memory_bytes, wanted),
        group_processors(machine.control.processors, wanted),
        overcommit(memory),
        huge_pages(memory, wanted),
        swap(memory),
    ]
}

/// `-m` as it is typed.
fn flag(wanted: &Wanted) -> String {
    format!("-m {}", wanted.memory_bytes >> 20)
}

fn available(memory: &Memory, wanted: &Wanted) -> Finding {
    let name = "memory";
    let Some(available) = memory.available_bytes else {
        return Finding::not_shown(GROUP, name);
    };
    let total = memory.total_bytes.map(show_size);
    let value = match total {
        Some(total) => format!("{} available of {total}", show_size(available)),
        None => format!("{} available", show_size(available)),
    };
    let finding = Finding::fine(GROUP, name, value).number(available as f64, "bytes");
    if available >= wanted.memory_bytes {
        return finding;
    }
    finding.wrong(
        format!(
            "The server takes {} as it fills; then the machine swaps, or the kernel kills.",
            flag(wanted)
        ),
        "Lower -m, or end what else takes memory.",
    )
}

fn group_memory(bound: Option<Bound<u64>>, wanted: &Wanted) -> Finding {
    let name = "control group's memory";
    let bytes = match bound {
        None => return Finding::not_shown(GROUP, name),
        Some(Bound::None) => return Finding::fine(GROUP, name, "no bound"),
        Some(Bound::At(bytes)) => bytes,
    };
    let finding = Finding::fine(GROUP, name, show_size(bytes)).number(bytes as f64, "bytes");
    let needed = wanted.memory_bytes
        + BESIDE
        + BESIDE_WORKER * u64::from(wanted.workers)
        + BESIDE_CONNECTION * u64::from(wanted.connections);
    let needed_mib = needed.div_ceil(1 << 20);
    let remedy = format!(
        "Lower -m, or give the container {needed_mib} MiB (`docker run --memory {needed_mib}m`, \
         `MemoryMax={needed_mib}M` in a unit)."
    );
    let flag = flag(wanted);
    if bytes < wanted.memory_bytes {
        finding.wrong(
            format!("Less than {flag}: the kernel kills it as it fills."),
            remedy,
        )
    } else if bytes < needed {
        finding.note(
            format!(
                "Little is left beside {flag} for buffers and {} sockets.",
                wanted.connections
            ),
            remedy,
        )
    } else {
        finding
    }
}

fn group_processors(bound: Option<Bound<f64>>, wanted: &Wanted) -> Finding {
    let name = "control group's time";
    let processors = match bound {
        None => return Finding::not_shown(GROUP, name),
        Some(Bound::None) => return Finding::fine(GROUP, name, "no bound"),
        Some(Bound::At(processors)) => processors,
    };
    let value = format!("{processors:.2} processors' worth");
    let finding = Finding::fine(GROUP, name, value).number(processors, "processors");
    if processors >= f64::from(wanted.workers) {
        return finding;
    }
    finding.note(
        format!(
            "-t {} may use more. Once a period's share is spent all stand still until the next, \
             often for tens of milliseconds: that is the tail.",
            wanted.workers
        ),
        "Take the bound away (a request or weight shares as well, without standing still), or \
         lower -t to it.",
    )
}

fn overcommit(memory: &Memory) -> Finding {
    let name = "address space";
    let fine = |value: &str| Finding::fine(GROUP, name, value);
    match memory.overcommit {
        None => Finding::not_shown(GROUP, name),
        Some(2) => fine("accounted strictly (vm.overcommit_memory = 2)").note(
            "`cache_memlimit` cannot raise the limit beyond -m, and all of -m counts against the \
             kernel's commit limit from the start.",
            "`sysctl -w vm.overcommit_memory=0`, unless that is as it should be.",
        ),
        Some(how) => fine(&format!("granted freely (vm.overcommit_memory = {how})")),
    }
}

fn huge_pages(memory: &Memory, wanted: &Wanted) -> Finding {
    let name = "huge pages";
    let Some(mode) = &memory.huge_pages else {
        return Finding::not_shown(GROUP, name);
    };
    let finding = Finding::fine(GROUP, name, mode.as_str());
    if mode != "never" {
        return finding;
    }
    if wanted.memory_bytes < server::HUGE_FROM {
        let value = "never; not asked for below -m 256";
        return Finding::fine(GROUP, name, value);
    }
    finding.note(
        "The server asks for them from -m 256 on; with them a request of many took an eighth less \
         processor time.",
        "`echo madvise > /sys/kernel/mm/transparent_hugepage/enabled`",
    )
}

fn swap(memory: &Memory) -> Finding {
    let name = "swap";
    let swap = match memory.swap_bytes {
        None => return Finding::not_shown(GROUP, name),
        Some(0) => return Finding::fine(GROUP, name, "none"),
        Some(swap) => swap,
    };
    let how = memory.swappiness;
    let how = how.map_or_else(String::new, |how| format!(" (vm.swappiness = {how})"));
    Finding::fine(GROUP, name, format!("{}{how}", show_size(swap)))
        .number(swap as f64, "bytes")
        .note(
            "Items that were not asked for lately may be swapped out; who asks for one then waits \
             for a disk, and so do all others of that worker.",
            "`curtail serve -k`, `swapoff -a`, or `sysctl -w vm.swappiness=1`",
        )
}
