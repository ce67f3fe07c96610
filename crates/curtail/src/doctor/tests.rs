//! Machines that are made up, and what a user is told of them.

use std::io::ErrorKind;

use sys::ring::Features;

use super::finding::{Finding, Mark};
use super::machine::{
    Bound, Clock, Control, Limits, Machine, Memory, NoRings, Peer, Peers, Processors, Runtimes,
    Turbo, Wanted,
};
use super::{judge, show};

const WANTED: Wanted = Wanted {
    memory_bytes: 1024 << 20,
    connections: 1024,
    workers: 4,
    backlog: 1024,
    lab: true,
};

/// A machine on which all is well.
fn sound() -> Machine {
    let features = Features {
        has_deferred_completions: true,
        has_incremental_buffers: true,
        sends_without_copy: true,
        sends_bundles: true,
    };
    Machine {
        is_root: false,
        runtimes: Runtimes {
            kernel: Some("6.18.4".to_owned()),
            rings: Ok(features),
            io_uring_disabled: Some(0),
            io_uring_group: Some(-1),
            server_group: Some(65_534),
            is_filtered: Some(false),
            chosen: "rings",
            said: Vec::new(),
        },
        limits: Limits {
            open_files_soft: 1024,
            open_files_hard: 524_288,
            open_files: 524_288,
            open_files_process: Some(1 << 20),
            open_files_all: Some((3_000, 2_000_000)),
            locked_bytes: 8 << 20,
            backlog_max: Some(4096),
            local_ports: Some((32_768, 60_999)),
            reuses_ports: Some(2),
            memory_areas: Some(65_530),
            has_lightweight_guard_pages: true,
        },
        control: Control {
            memory_bytes: Some(Bound::None),
            processors: Some(Bound::None),
        },
        memory: Memory {
            total_bytes: Some(64 << 30),
            available_bytes: Some(60 << 30),
            swap_bytes: Some(0),
            swappiness: Some(60),
            overcommit: Some(0),
            huge_pages: Some("madvise".to_owned()),
        },
        processors: Processors {
            allowed: vec![0, 1, 2, 3],
            online: Some(vec![0, 1, 2, 3]),
            cores: Some(vec![vec![0], vec![1], vec![2], vec![3]]),
            is_virtual: Some(false),
            hypervisor: None,
            stolen: Some(0.0),
            governor: Some("performance".to_owned()),
            turbo: Some(Turbo {
                is_on: false,
                off: "",
            }),
        },
        clock: Clock {
            source: Some("tsc".to_owned()),
            sources: vec!["tsc".to_owned(), "hpet".to_owned()],
            reading_ns: 21.0,
            resolution_ns: 1,
            late_ns: (2_300, 11_000),
            slack_ns: Some(50_000),
            may_go_first: true,
        },
        peers: Peers {
            servers: vec![Peer {
                name: "memcached".to_owned(),
                found: Ok((
                    "/usr/bin/memcached".to_owned(),
                    Some("memcached 1.6.45".to_owned()),
                )),
            }],
            connections: 15_360,
            open_files: 15_872,
        },
    }
}

/// A machine with something to say about everything.
fn ailing() -> Machine {
    let mut machine = sound();
    machine.runtimes.kernel = Some("5.10.0".to_owned());
    machine.runtimes.rings = Err(refused(
        ErrorKind::PermissionDenied,
        "Operation not permitted (os error 1)",
    ));
    machine.runtimes.is_filtered = Some(true);
    machine.runtimes.chosen = "events";
    machine.runtimes.said =
        vec!["no --runtime rings here: Operation not permitted (os error 1)".to_owned()];
    machine.limits = Limits {
        open_files_soft: 512,
        open_files_hard: 512,
        open_files: 512,
        open_files_process: Some(1024),
        open_files_all: Some((900, 1000)),
        locked_bytes: 64 << 10,
        backlog_max: Some(128),
        local_ports: Some((60_000, 60_999)),
        reuses_ports: Some(0),
        memory_areas: Some(6_000),
        has_lightweight_guard_pages: false,
    };
    machine.control = Control {
        memory_bytes: Some(Bound::At(512 << 20)),
        processors: Some(Bound::At(1.5)),
    };
    machine.memory = Memory {
        total_bytes: Some(1 << 30),
        available_bytes: Some(700 << 20),
        swap_bytes: Some(2 << 30),
        swappiness: Some(60),
        overcommit: Some(2),
        huge_pages: Some("never".to_owned()),
    };
    machine.processors = Processors {
        allowed: vec![0, 1, 2, 3],
        online: Some((0..8).collect()),
        cores: Some(vec![vec![0, 1], vec![2, 3]]),
        is_virtual: Some(true),
        hypervisor: Some("KVM".to_owned()),
        stolen: Some(0.034),
        governor: Some("powersave".to_owned()),
        turbo: Some(Turbo {
            is_on: true,
            off: "echo 0 > /boost",
        }),
    };
    machine.clock = Clock {
        source: Some("hpet".to_owned()),
        sources: vec!["hpet".to_owned(), "acpi_pm".to_owned()],
        reading_ns: 1_240.0,
        resolution_ns: 4_000_000,
        late_ns: (1_900_000, 3_990_000),
        slack_ns: None,
        may_go_first: false,
    };
    machine.peers.servers[0].found = Err("`memcached` is not on PATH".to_owned());
    machine
}

/// A machine that shows nothing of itself.
fn hidden() -> Machine {
    let mut machine = sound();
    machine.runtimes.kernel = None;
    machine.runtimes.io_uring_disabled = None;
    machine.runtimes.is_filtered = None;
    machine.limits.open_files_process = None;
    machine.limits.open_files_all = None;
    machine.limits.backlog_max = None;
    machine.limits.local_ports = None;
    machine.limits.reuses_ports = None;
    machine.limits.memory_areas = None;
    machine.control = Control::default();
    machine.memory = Memory::default();
    machine.processors = Processors::default();
    machine.clock.source = None;
    machine.peers = Peers::default();
    machine
}

fn refused(kind: ErrorKind, words: &str) -> NoRings {
    NoRings {
        kind,
        is_refused: true,
        words: words.to_owned(),
    }
}

fn find(machine: &Machine, wanted: &Wanted, name: &str) -> Finding {
    let findings = judge::findings(machine, wanted);
    let mut named = findings.into_iter().filter(|finding| finding.name == name);
    named.next().unwrap_or_else(|| panic!("no {name}"))
}

fn mark(machine: &Machine, name: &str) -> Mark {
    find(machine, &WANTED, name).mark
}

fn remedy(machine: &Machine, name: &str) -> String {
    let finding = find(machine, &WANTED, name);
    finding.remedy.unwrap_or_default()
}

#[test]
fn a_sound_machine_as_text() {
    insta::assert_snapshot!(show::text(&judge::findings(&sound(), &WANTED)));
}

#[test]
fn an_ailing_machine_as_text() {
    insta::assert_snapshot!(show::text(&judge::findings(&ailing(), &WANTED)));
}

#[test]
fn an_ailing_machine_as_json() {
    insta::assert_snapshot!(show::json(&judge::findings(&ailing(), &WANTED)).unwrap());
}

#[test]
fn on_a_sound_machine_all_is_fine() {
    for finding in judge::findings(&sound(), &WANTED) {
        assert_eq!(finding.mark, Mark::Fine, "{finding:?}");
        assert!(finding.means.is_none() && finding.remedy.is_none());
    }
}

#[test]
fn what_is_not_fine_says_what_it_means_and_what_to_do() {
    let findings = judge::findings(&ailing(), &WANTED);
    let mut troubled = 0;
    for finding in &findings {
        if [Mark::Note, Mark::Wrong].contains(&finding.mark) {
            troubled += 1;
            for words in [&finding.means, &finding.remedy] {
                assert!(
                    words.as_ref().is_some_and(|words| words.len() > 10),
                    "{finding:?}"
                );
            }
        }
    }
    assert!(troubled > 20, "{troubled}");
}

#[test]
fn no_line_is_wider_than_a_page_but_for_a_command() {
    for machine in [sound(), ailing(), hidden()] {
        for line in show::text(&judge::findings(&machine, &WANTED)).lines() {
            assert!(line.chars().count() <= 100 || line.contains('`'), "{line}");
        }
    }
}

#[test]
fn what_is_not_shown_is_neither_fine_nor_wrong() {
    let findings = judge::findings(&hidden(), &WANTED);
    let hidden = findings
        .iter()
        .filter(|finding| finding.mark == Mark::NotShown);
    assert!(hidden.count() >= 18);
    for finding in &findings {
        assert!(
            [Mark::Fine, Mark::NotShown].contains(&finding.mark),
            "{finding:?}"
        );
    }
}

#[test]
fn without_the_laboratory_nothing_is_said_of_it() {
    let alone = Wanted {
        lab: false,
        ..WANTED
    };
    let mut machine = ailing();
    machine.processors.allowed = vec![0];
    let findings = judge::findings(&machine, &alone);
    for name in ["ports of a client", "going first", "to compare with"] {
        assert!(
            findings.iter().all(|finding| finding.name != name),
            "{name}"
        );
    }
    machine.limits.open_files = 2_000;
    assert_eq!(find(&machine, &alone, "open files").mark, Mark::Fine);
    assert_eq!(
        mark(&machine, "open files"),
        Mark::Wrong,
        "the laboratory needs more"
    );
    assert_eq!(find(&machine, &alone, "processors").mark, Mark::Fine);
    assert_eq!(mark(&machine, "processors"), Mark::Note);
}

#[test]
fn why_there_is_no_io_uring_decides_what_to_do() {
    let mut machine = ailing();
    assert!(remedy(&machine, "io_uring").contains("seccomp"));
    machine.runtimes.io_uring_disabled = Some(2);
    assert!(remedy(&machine, "io_uring").contains("sysctl -w kernel.io_uring_disabled=0"));
    machine.runtimes.io_uring_disabled = Some(1);
    assert!(remedy(&machine, "io_uring").contains("kernel.io_uring_group"));
    machine.runtimes.io_uring_disabled = None;
    machine.runtimes.is_filtered = None;
    assert!(remedy(&machine, "io_uring").contains("Ask who"));
    for kind in [
        ErrorKind::Unsupported,
        ErrorKind::InvalidInput,
        ErrorKind::OutOfMemory,
        ErrorKind::Other,
    ] {
        machine.runtimes.rings = Err(refused(kind, "it says so"));
        let finding = find(&machine, &WANTED, "io_uring");
        assert_eq!(finding.mark, Mark::Note, "the server works all the same");
        assert!(finding.value.contains("it says so"));
    }
}

#[test]
fn rings_available_to_root_but_not_to_the_server_are_reported() {
    let mut machine = sound();
    machine.runtimes.io_uring_disabled = Some(1);
    assert_eq!(mark(&machine, "--runtime auto"), Mark::Fine, "as a user");
    machine.is_root = true;
    assert_eq!(mark(&machine, "--runtime auto"), Mark::Note);
    machine.runtimes.io_uring_group = Some(65_534);
    assert_eq!(mark(&machine, "--runtime auto"), Mark::Fine, "a member");
    machine.runtimes.server_group = None;
    assert_eq!(mark(&machine, "--runtime auto"), Mark::Note);
}

#[test]
fn root_without_anybody_to_become_is_wrong() {
    let mut machine = sound();
    machine.runtimes.server_group = None;
    let findings = judge::findings(&machine, &WANTED);
    assert!(
        findings.iter().all(|finding| !finding.is_wrong()),
        "a user starts it"
    );
    machine.is_root = true;
    assert_eq!(mark(&machine, "user"), Mark::Wrong);
    machine.runtimes.server_group = Some(65_534);
    assert_eq!(mark(&machine, "user"), Mark::Fine);
}

#[test]
fn open_files_are_enough_or_nearly_or_not() {
    let mut machine = sound();
    let wanted = Wanted {
        connections: 100_000,
        ..WANTED
    };
    let at = |machine: &Machine| find(machine, &wanted, "open files");
    assert_eq!(at(&machine).mark, Mark::Fine);
    machine.limits.open_files = 100_000;
    assert_eq!(at(&machine).mark, Mark::Note, "the last few would wait");
    machine.limits.open_files = 99_999;
    let told = at(&machine);
    assert_eq!(told.mark, Mark::Wrong);
    assert!(told.remedy.unwrap().starts_with("`ulimit -Hn 100040`"));
    machine.limits.open_files_process = Some(50_000);
    let told = at(&machine).remedy.unwrap();
    assert!(
        told.starts_with("`sysctl -w fs.nr_open=100040`, then"),
        "{told}"
    );
}

#[test]
fn a_bound_of_memory_below_what_is_wanted_is_wrong_and_just_above_worth_knowing() {
    let mut machine = sound();
    let name = "control group's memory";
    for (mib, expected) in [
        (1023, Mark::Wrong),
        (1024, Mark::Note),
        (1049, Mark::Note),
        (1050, Mark::Fine),
    ] {
        machine.control.memory_bytes = Some(Bound::At(mib << 20));
        assert_eq!(mark(&machine, name), expected, "{mib}");
    }
    machine.memory.available_bytes = Some((1 << 30) - 1);
    assert_eq!(mark(&machine, "memory"), Mark::Wrong);
}

#[test]
fn missing_huge_pages_are_reported_if_requested() {
    let mut machine = sound();
    machine.memory.huge_pages = Some("never".to_owned());
    assert_eq!(mark(&machine, "huge pages"), Mark::Note);
    let small = Wanted {
        memory_bytes: 255 << 20,
        ..WANTED
    };
    assert_eq!(find(&machine, &small, "huge pages").mark, Mark::Fine);
}

#[test]
fn a_slow_clock_has_a_remedy_where_a_better_one_is_offered() {
    let mut machine = ailing();
    assert!(remedy(&machine, "clock").contains("dmesg"));
    machine.clock.sources.push("tsc".to_owned());
    assert!(remedy(&machine, "clock").starts_with("`echo tsc > /sys"));
    machine.clock.source = Some("kvm-clock".to_owned());
    assert_eq!(mark(&machine, "clock"), Mark::Fine);
}

#[test]
fn a_bound_of_time_matters_below_the_workers() {
    let mut machine = sound();
    for (processors, expected) in [(3.9, Mark::Note), (4.0, Mark::Fine)] {
        machine.control.processors = Some(Bound::At(processors));
        assert_eq!(mark(&machine, "control group's time"), expected);
    }
}

#[test]
fn of_shared_cores_two_that_are_not_are_named() {
    let machine = ailing();
    let told = remedy(&machine, "shared cores");
    assert!(
        told.contains("server = [0]") && told.contains("load = [2]"),
        "{told}"
    );
    let mut machine = ailing();
    // Only one thread of each core may be used: nothing is shared.
    machine.processors.allowed = vec![1, 2];
    assert_eq!(mark(&machine, "shared cores"), Mark::Fine);
    machine.processors.allowed = vec![0, 1];
    machine.processors.cores = Some(vec![vec![0, 1]]);
    assert!(remedy(&machine, "shared cores").contains("smt/control"));
}

#[test]
fn an_older_kernel_has_rings_with_less() {
    let mut machine = sound();
    machine.runtimes.rings = Ok(Features {
        has_deferred_completions: false,
        has_incremental_buffers: false,
        sends_without_copy: true,
        sends_bundles: false,
    });
    assert_eq!(mark(&machine, "io_uring"), Mark::Fine);
    assert!(remedy(&machine, "deferred completions").contains("6.1 "));
    assert!(remedy(&machine, "shared buffers").contains("6.12 "));
    let unused = find(&machine, &WANTED, "not used yet");
    assert_eq!(unused.mark, Mark::Fine);
    assert_eq!(
        unused.value,
        "sends without a copy: there; bundles of sends: not here"
    );
}

#[test]
fn areas_of_memory_that_are_said_to_be_enough_are() {
    for areas in [0, 1_000, 7_167] {
        let mut machine = sound();
        machine.limits.memory_areas = Some(areas);
        let told = remedy(&machine, "areas of memory");
        assert!(told.ends_with("vm.max_map_count=7168`"), "{told}");
    }
    let mut machine = sound();
    machine.limits.memory_areas = Some(7168);
    assert_eq!(mark(&machine, "areas of memory"), Mark::Fine);
}
