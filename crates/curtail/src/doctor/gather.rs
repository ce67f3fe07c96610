//! Looking at the machine. What cannot be read is none; nothing here fails, and nothing judges.

use std::io;

use server::Kind;
use sys::machine::{self, Shown, Ticks};
use sys::ring::Ring;
use sys::{clock, limits, privileges, thread};

use super::machine::{
    Bound, Clock, Control, Limits, Machine, Memory, NoRings, Processors, Runtimes, Turbo,
};
use super::{peers, read, times};

/// Where version 2 of control groups is, alone or beside version 1.
const TREES: [&str; 2] = ["/sys/fs/cgroup", "/sys/fs/cgroup/unified"];
/// Where turbo is set, and what the file says where it is on.
const TURBO: [(&str, &str, &str); 2] = [
    (
        "/sys/devices/system/cpu/intel_pstate/no_turbo",
        "0",
        "echo 1 > /sys/devices/system/cpu/intel_pstate/no_turbo",
    ),
    (
        "/sys/devices/system/cpu/cpufreq/boost",
        "1",
        "echo 0 > /sys/devices/system/cpu/cpufreq/boost",
    ),
];

/// All that is to be seen of this machine. `shown`: its files.
pub(super) fn machine(shown: &Shown) -> Machine {
    // Before anything is raised: limits and slack are this process's own.
    let limits = limits(shown);
    let clock = clock(shown);
    Machine {
        is_root: privileges::is_root(),
        runtimes: runtimes(shown),
        limits,
        control: control(shown),
        memory: memory(shown),
        processors: processors(shown),
        clock,
        peers: peers::peers(),
    }
}

fn runtimes(shown: &Shown) -> Runtimes {
    let mut said = Vec::new();
    let chosen = server::best_runtime(&mut |line| said.push(line.to_owned()));
    let status = shown.text("/proc/self/status");
    let filter = status.and_then(|text| machine::field(&text, "Seccomp"));
    let user = privileges::find_user(server::DEFAULT_USER).ok().flatten();
    Runtimes {
        kernel: shown.text("/proc/sys/kernel/osrelease"),
        rings: Ring::probe().map_err(|error: io::Error| NoRings {
            kind: error.kind(),
            is_refused: error.raw_os_error().is_some(),
            words: error.to_string(),
        }),
        io_uring_disabled: number(shown, "/proc/sys/kernel/io_uring_disabled"),
        io_uring_group: number(shown, "/proc/sys/kernel/io_uring_group"),
        server_group: user.map(|user| user.gid),
        is_filtered: filter.map(|mode| mode == "2"),
        chosen: Kind::name(chosen),
        said,
    }
}

fn limits(shown: &Shown) -> Limits {
    let ends = |path: &str| read::ends(&shown.text(path)?);
    let (soft, hard) = (limits::open_files(), limits::open_files_hard());
    let most = number(shown, "/proc/sys/fs/nr_open");
    Limits {
        open_files_soft: soft,
        open_files_hard: hard,
        // As the server raises its own, in as far as this user may.
        open_files: limits::raise_open_files(most.unwrap_or(hard)),
        open_files_process: most,
        open_files_all: ends("/proc/sys/fs/file-nr"),
        locked_bytes: limits::raise_locked_memory(),
        backlog_max: number(shown, "/proc/sys/net/core/somaxconn"),
        local_ports: ends("/proc/sys/net/ipv4/ip_local_port_range"),
        reuses_ports: number(shown, "/proc/sys/net/ipv4/tcp_tw_reuse"),
        memory_areas: number(shown, "/proc/sys/vm/max_map_count"),
        has_lightweight_guard_pages: server::has_lightweight_guard_pages(),
    }
}

fn control(shown: &Shown) -> Control {
    let Some(own) = shown.text("/proc/self/cgroup") else {
        return Control::default();
    };
    let mut memory = Vec::new();
    let mut time = Vec::new();
    if let Some(path) = read::group_path(&own, "") {
        for tree in TREES {
            for group in read::groups_around(path) {
                let text = |file: &str| shown.text(&format!("{tree}{group}/{file}"));
                // The outermost group of all has a controller without its file, and no bound.
                let names = text("cgroup.controllers").unwrap_or_default();
                let has = |name| names.split_whitespace().any(|other| other == name);
                match text("memory.max") {
                    Some(text) => memory.extend(read::memory_max(&text)),
                    None => memory.extend(has("memory").then_some(Bound::None)),
                }
                match text("cpu.max") {
                    Some(text) => time.extend(read::cpu_max(&text)),
                    None => time.extend(has("cpu").then_some(Bound::None)),
                }
            }
        }
    }
    for group in groups(&own, "memory") {
        let path = format!("/sys/fs/cgroup/memory{group}/memory.limit_in_bytes");
        memory.extend(shown.text(&path).and_then(|text| read::memory_max(&text)));
    }
    for group in groups(&own, "cpu") {
        let text = |file: &str| shown.text(&format!("/sys/fs/cgroup/cpu{group}/{file}"));
        let quota = text("cpu.cfs_quota_us").zip(text("cpu.cfs_period_us"));
        time.extend(quota.and_then(|(time, period)| read::quota(&time, &period)));
    }
    Control {
        memory_bytes: tightest(&memory),
        processors: tightest(&time),
    }
}

fn groups(own: &str, controller: &str) -> Vec<String> {
    read::group_path(own, controller).map_or_else(Vec::new, read::groups_around)
}

/// None: no bound was shown.
fn tightest<T: PartialOrd + Copy>(bounds: &[Bound<T>]) -> Option<Bound<T>> {
    bounds
        .iter()
        .copied()
        .reduce(|one, other| match (one, other) {
            (Bound::At(one), Bound::At(other)) if other < one => Bound::At(other),
            (Bound::None, other) => other,
            (one, _) => one,
        })
}

fn memory(shown: &Shown) -> Memory {
    let text = shown.text("/proc/meminfo").unwrap_or_default();
    let bytes = |name: &str| machine::field_bytes(&text, name);
    let huge = shown.text("/sys/kernel/mm/transparent_hugepage/enabled");
    Memory {
        total_bytes: bytes("MemTotal"),
        available_bytes: bytes("MemAvailable"),
        swap_bytes: bytes("SwapTotal"),
        swappiness: number(shown, "/proc/sys/vm/swappiness"),
        overcommit: number(shown, "/proc/sys/vm/overcommit_memory"),
        huge_pages: huge.and_then(|text| read::chosen(&text)),
    }
}

fn processors(shown: &Shown) -> Processors {
    let allowed = thread::allowed_cpus().unwrap_or_default();
    let cpus = |path: &str| read::cpus(&shown.text(path)?);
    let core = |cpu: &usize| {
        let folder = format!("/sys/devices/system/cpu/cpu{cpu}/topology");
        cpus(&format!("{folder}/thread_siblings_list"))
    };
    let cores: Option<Vec<Vec<usize>>> = allowed.iter().map(core).collect();
    let turbo = TURBO.into_iter().find_map(|(path, on, off)| {
        let is_on = shown.text(path)? == on;
        Some(Turbo { is_on, off })
    });
    let cpuinfo = shown.text("/proc/cpuinfo");
    let ticks = shown.text("/proc/stat");
    let ticks = ticks.and_then(|text| Ticks::read(&text, &[]));
    Processors {
        allowed,
        online: cpus("/sys/devices/system/cpu/online"),
        cores: cores.map(|mut cores| {
            cores.sort_unstable();
            cores.dedup();
            cores
        }),
        is_virtual: cpuinfo.and_then(|text| machine::is_virtual(&text)),
        hypervisor: shown.hypervisor_name(),
        stolen: ticks.and_then(|ticks| ticks.stolen_since(Ticks::START)),
        governor: shown.governor(),
        turbo,
    }
}

fn clock(shown: &Shown) -> Clock {
    // Before the sleeps below ask for precision.
    let slack_ns = number(shown, "/proc/self/timerslack_ns");
    let sources = "/sys/devices/system/clocksource/clocksource0/available_clocksource";
    let sources = shown.text(sources).unwrap_or_default();
    Clock {
        source: shown.clock_source(),
        sources: sources.split_whitespace().map(str::to_owned).collect(),
        reading_ns: times::reading_ns(),
        resolution_ns: clock::resolution_ns(),
        late_ns: times::late_ns(),
        slack_ns,
        may_go_first: thread::may_go_first(),
    }
}

fn number<T: std::str::FromStr>(shown: &Shown, path: &str) -> Option<T> {
    read::number(&shown.text(path)?)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A machine that shows these files and no others.
    fn showing(files: &[(&str, &str)]) -> (tempfile::TempDir, Shown) {
        let folder = tempfile::tempdir().unwrap();
        for (path, text) in files {
            let path = folder.path().join(path.trim_start_matches('/'));
            std::fs::create_dir_all(path.parent().unwrap()).unwrap();
            std::fs::write(path, text).unwrap();
        }
        let shown = Shown::below(folder.path());
        (folder, shown)
    }

    #[test]
    fn a_machine_that_shows_nothing_is_seen_without_guesses() {
        let (_folder, shown) = showing(&[]);
        let machine = machine(&shown);
        assert_eq!(machine.runtimes.kernel, None);
        assert_eq!(machine.runtimes.is_filtered, None);
        assert_eq!(machine.limits.local_ports, None);
        assert_eq!(machine.control.memory_bytes, None);
        assert_eq!(machine.control.processors, None);
        assert_eq!(machine.memory.total_bytes, None);
        assert_eq!(machine.processors.is_virtual, None);
        assert_eq!(machine.processors.cores, None);
        assert_eq!(machine.clock.source, None);
        // What needs no file is known all the same.
        assert!(machine.limits.open_files >= machine.limits.open_files_soft);
        assert!(machine.clock.reading_ns > 0.0);
    }

    #[test]
    fn of_the_bounds_around_a_group_the_tightest_holds() {
        let (_folder, shown) = showing(&[
            ("/proc/self/cgroup", "0::/pod/container\n"),
            ("/sys/fs/cgroup/cgroup.controllers", "cpu memory\n"),
            ("/sys/fs/cgroup/pod/memory.max", "1000000\n"),
            ("/sys/fs/cgroup/pod/cpu.max", "max 100000\n"),
            ("/sys/fs/cgroup/pod/container/memory.max", "max\n"),
            ("/sys/fs/cgroup/pod/container/cpu.max", "50000 100000\n"),
        ]);
        let control = control(&shown);
        assert_eq!(control.memory_bytes, Some(Bound::At(1_000_000)));
        assert_eq!(control.processors, Some(Bound::At(0.5)));
    }

    #[test]
    fn a_container_sees_its_own_group_as_the_outermost() {
        let (_folder, shown) = showing(&[
            ("/proc/self/cgroup", "0::/\n"),
            ("/sys/fs/cgroup/memory.max", "536870912\n"),
            ("/sys/fs/cgroup/cgroup.controllers", "cpu memory\n"),
        ]);
        let control = control(&shown);
        assert_eq!(control.memory_bytes, Some(Bound::At(512 << 20)));
        assert_eq!(control.processors, Some(Bound::None));
    }

    #[test]
    fn version_1_of_control_groups_is_read_beside_an_empty_version_2() {
        let (_folder, shown) = showing(&[
            (
                "/proc/self/cgroup",
                "4:memory:/job\n1:cpu,cpuacct:/\n0::/\n",
            ),
            ("/sys/fs/cgroup/unified/cgroup.controllers", "\n"),
            (
                "/sys/fs/cgroup/memory/job/memory.limit_in_bytes",
                "7340032\n",
            ),
            (
                "/sys/fs/cgroup/memory/memory.limit_in_bytes",
                "9223372036854771712\n",
            ),
            ("/sys/fs/cgroup/cpu/cpu.cfs_quota_us", "-1\n"),
            ("/sys/fs/cgroup/cpu/cpu.cfs_period_us", "100000\n"),
        ]);
        let control = control(&shown);
        assert_eq!(control.memory_bytes, Some(Bound::At(7 << 20)));
        assert_eq!(control.processors, Some(Bound::None));
    }

    #[test]
    fn what_no_control_group_shows_is_not_taken_for_no_bound() {
        let (_folder, shown) = showing(&[("/proc/self/cgroup", "0::/x\n")]);
        assert_eq!(control(&shown).memory_bytes, None);
        let (_folder, shown) = showing(&[
            ("/proc/self/cgroup", "0::/\n"),
            ("/sys/fs/cgroup/cgroup.controllers", "cpu pids\n"),
        ]);
        assert_eq!(control(&shown).memory_bytes, None);
        assert_eq!(control(&shown).processors, Some(Bound::None));
    }

    #[test]
    fn turbo_is_read_where_its_driver_shows_it() {
        let path = "/sys/devices/system/cpu/intel_pstate/no_turbo";
        for (text, is_on) in [("0\n", true), ("1\n", false)] {
            let (_folder, shown) = showing(&[(path, text)]);
            assert_eq!(processors(&shown).turbo.unwrap().is_on, is_on);
        }
        let (_folder, shown) = showing(&[("/sys/devices/system/cpu/cpufreq/boost", "1\n")]);
        let turbo = processors(&shown).turbo.unwrap();
        assert!(turbo.is_on && turbo.off.contains("boost"));
    }
}
