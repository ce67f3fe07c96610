//! Fake trees of a machine with everything, of a virtual machine and of a container: what the
//! doctor finds, what knobs write and meters read, and that everything is restored.

use std::fs;
use std::io::{BufReader, Cursor};
use std::path::Path;

use tempfile::TempDir;

use crate::doctor::{Environment, examine};
use crate::guard::{self, JOURNAL, Saved, restore, restore_journal};
use crate::knob::{Name, Probe, probe};
use crate::meter::{Meters, parse_ipmi};
use crate::root::Root;

fn write(tree: &Path, files: &[(&str, &str)]) {
    for (path, text) in files {
        let path = tree.join(path);
        fs::create_dir_all(path.parent().unwrap()).unwrap();
        fs::write(path, text).unwrap();
    }
}

const STAT: &str = "cpu  100 0 50 1000 20 5 5 0 0 0\ncpu0 100 0 50 1000 20 5 5 0\n\
                    intr 5000 1 2\nctxt 9000\nbtime 1\n";

/// Two processors, two packages with memory, a battery, a sensor and a device.
fn bare_metal() -> TempDir {
    let tree = TempDir::new().unwrap();
    for cpu in 0..2 {
        let cpufreq = format!("sys/devices/system/cpu/cpu{cpu}/cpufreq");
        let cpuidle = format!("sys/devices/system/cpu/cpu{cpu}/cpuidle");
        let files = [
            ("scaling_governor", "powersave\n"),
            ("scaling_available_governors", "performance powersave \n"),
            ("energy_performance_preference", "balance_performance\n"),
            (
                "energy_performance_available_preferences",
                "default performance balance_performance\n",
            ),
            ("scaling_min_freq", "1200000\n"),
            ("scaling_max_freq", "2900000\n"),
            ("cpuinfo_min_freq", "1200000\n"),
            ("cpuinfo_max_freq", "2900000\n"),
        ];
        for (file, text) in files {
            write(tree.path(), &[(&format!("{cpufreq}/{file}"), text)]);
        }
        for state in 0..4 {
            write(
                tree.path(),
                &[(&format!("{cpuidle}/state{state}/disable"), "0\n")],
            );
        }
    }
    for package in 0..2 {
        let zone = format!("sys/class/powercap/intel-rapl:{package}");
        let part = format!("sys/class/powercap/intel-rapl:{package}:0");
        write(
            tree.path(),
            &[
                (&format!("{zone}/name"), &format!("package-{package}\n")),
                (&format!("{zone}/energy_uj"), "900000\n"),
                (&format!("{zone}/max_energy_range_uj"), "1000000\n"),
                (
                    &format!("{zone}/constraint_0_power_limit_uw"),
                    "135000000\n",
                ),
                (&format!("{zone}/constraint_0_max_power_uw"), "135000000\n"),
                (&format!("{part}/name"), "dram\n"),
                (&format!("{part}/energy_uj"), "100\n"),
                (&format!("{part}/max_energy_range_uj"), "1000000\n"),
            ],
        );
    }
    write(
        tree.path(),
        &[
            ("sys/class/powercap/intel-rapl:0:1/name", "core\n"),
            ("sys/class/powercap/intel-rapl:0:1/energy_uj", "7\n"),
            ("sys/class/hwmon/hwmon0/power1_input", "30000000\n"),
            ("sys/class/hwmon/hwmon0/power1_average", "31000000\n"),
            ("sys/class/power_supply/BAT0/type", "Battery\n"),
            ("sys/class/power_supply/BAT0/status", "Discharging\n"),
            ("sys/class/power_supply/BAT0/current_now", "2000000\n"),
            ("sys/class/power_supply/BAT0/voltage_now", "10000000\n"),
            ("sys/class/net/eth0/gro_flush_timeout", "0\n"),
            ("sys/class/net/eth0/napi_defer_hard_irqs", "0\n"),
            ("proc/sys/net/core/busy_poll", "0\n"),
            ("proc/sys/net/core/busy_read", "0\n"),
            ("proc/cpuinfo", "flags\t\t: fpu sse2 aperfmperf\n"),
            ("proc/1/cgroup", "0::/init.scope\n"),
            ("proc/stat", STAT),
            ("run/.keep", ""),
        ],
    );
    tree
}

fn virtual_machine() -> TempDir {
    let tree = TempDir::new().unwrap();
    write(
        tree.path(),
        &[
            ("sys/class/net/eth0/gro_flush_timeout", "0\n"),
            ("sys/class/net/eth0/napi_defer_hard_irqs", "0\n"),
            ("proc/sys/net/core/busy_poll", "0\n"),
            ("proc/sys/net/core/busy_read", "0\n"),
            ("proc/cpuinfo", "flags\t\t: fpu hypervisor sse2\n"),
            ("proc/1/cgroup", "0::/init.scope\n"),
            ("proc/stat", STAT),
        ],
    );
    tree
}

fn container() -> TempDir {
    let tree = TempDir::new().unwrap();
    write(
        tree.path(),
        &[
            ("proc/cpuinfo", "flags\t\t: fpu sse2\n"),
            ("proc/1/cgroup", "0::/kubepods/pod7/abc\n"),
            ("proc/stat", STAT),
        ],
    );
    tree
}

/// All files with their contents.
fn contents(tree: &Path) -> Vec<(String, String)> {
    let mut found = Vec::new();
    for entry in fs::read_dir(tree).unwrap() {
        let path = entry.unwrap().path();
        match path.is_dir() {
            true => found.extend(contents(&path)),
            false => {
                let text = fs::read_to_string(&path).unwrap();
                found.push((path.display().to_string(), text.trim().to_owned()));
            }
        }
    }
    found.sort();
    found
}

#[test]
fn bare_metal_has_every_knob_that_is_a_file_and_every_meter() {
    let tree = bare_metal();
    let report = examine(&Root::at(tree.path()), Some("eth0"));
    assert_eq!(report.environment, Environment::BareMetal);
    for (name, probe) in &report.knobs {
        // Netlink does not reach another tree.
        let is_file = !matches!(name, Name::RxUsecs | Name::IrqSuspendTimeout);
        assert_eq!(
            matches!(probe, Probe::Usable(_)),
            is_file,
            "{name:?}: {probe:?}"
        );
    }
    let present = |name: Name| report.usable(name).unwrap().present.clone();
    assert_eq!(present(Name::Governor), "powersave");
    assert_eq!(present(Name::Frequency), "2900000");
    assert_eq!(present(Name::PowerLimit), "135");
    assert_eq!(present(Name::IdleState), "3");
    assert_eq!(
        report.meters,
        [
            "rapl:package-0",
            "rapl:package-0:dram",
            "rapl:package-0:core",
            "rapl:package-1",
            "rapl:package-1:dram",
            "hwmon:hwmon0:power1_input",
            "battery:BAT0",
        ]
    );
    assert!(report.remarks.is_empty(), "{:?}", report.remarks);
}

#[test]
fn a_virtual_machine_has_no_meter_and_says_so() {
    let tree = virtual_machine();
    let report = examine(&Root::at(tree.path()), Some("eth0"));
    assert_eq!(report.environment, Environment::VirtualMachine);
    assert!(report.usable(Name::BusyPoll).is_some());
    assert!(report.usable(Name::Frequency).is_none());
    assert!(report.meters.is_empty());
    let said = |text: &str| report.remarks.iter().any(|it| it.contains(text));
    assert!(said("no meter of energy") && said("are the host's") && said("cannot be set"));
}

#[test]
fn a_container_has_no_knob_and_says_so() {
    let tree = container();
    let report = examine(&Root::at(tree.path()), None);
    assert_eq!(report.environment, Environment::Container);
    assert!(
        report
            .knobs
            .iter()
            .all(|(_, probe)| matches!(probe, Probe::Absent(_)))
    );
    let said = |text: &str| report.remarks.iter().any(|it| it.contains(text));
    assert!(said("all its containers") && said("no knob may be set here"));
}

#[test]
fn a_knob_writes_what_it_says_and_refuses_what_it_does_not_take() {
    let tree = bare_metal();
    let root = Root::at(tree.path());
    let knob = |name| match probe(&root, name, Some("eth0")) {
        Probe::Usable(knob) => knob,
        other => panic!("{name:?}: {other:?}"),
    };
    let text = |name, value: &str| {
        let writes = knob(name).writes(value).unwrap();
        writes
            .into_iter()
            .map(|(_, text)| text)
            .collect::<Vec<String>>()
    };
    assert_eq!(text(Name::PowerLimit, "55"), ["55000000", "55000000"]);
    assert_eq!(
        text(Name::IdleState, "1"),
        ["0", "0", "1", "1", "0", "0", "1", "1"]
    );
    assert_eq!(
        text(Name::Frequency, "2000000")[..3],
        ["1200000", "2000000", "2000000"]
    );
    assert_eq!(text(Name::BusyPoll, "50"), ["50", "50"]);
    for (name, value) in [
        (Name::PowerLimit, "136"),
        (Name::PowerLimit, "5"),
        (Name::Governor, "ondemand"),
        (Name::Frequency, "1100000"),
        (Name::IdleState, "4"),
        (Name::GroFlushTimeout, "-1"),
    ] {
        assert!(knob(name).writes(value).is_err(), "{name:?} {value}");
    }
}

#[test]
fn the_guard_restores_the_first_value_of_each_place_when_its_input_ends() {
    let tree = bare_metal();
    let root = Root::at(tree.path());
    let before = contents(tree.path());
    let place = "sys/devices/system/cpu/cpu0/cpufreq/scaling_governor";
    let line = |value: &str| {
        Saved {
            place: format!("file:{place}").parse().unwrap(),
            value: value.into(),
        }
        .line()
    };
    root.write(place, "performance").unwrap();
    // A line that is cut off has no answer, so its place was not written.
    let input = format!(
        "{}{}file:sys/class/net/eth0/gro_fl",
        line("powersave"),
        line("performance")
    );
    let mut output = Vec::new();
    let restored = guard::serve(&root, BufReader::new(Cursor::new(input)), &mut output).unwrap();
    assert_eq!((restored.places, restored.failed.len()), (1, 0));
    assert_eq!(output, b"ok\nok\nok\n");
    assert_eq!(contents(tree.path()), before);
}

#[test]
fn a_second_guard_does_not_begin_and_a_place_that_is_gone_is_told() {
    let tree = bare_metal();
    let root = Root::at(tree.path());
    let gone = "file:sys/class/net/eth9/gro_flush_timeout\t7\n";
    let kept = "file:sys/class/net/eth0/gro_flush_timeout\t5\n";
    write(tree.path(), &[(JOURNAL, &format!("{gone}{kept}file:cut"))]);
    let error = guard::serve(&root, Cursor::new(""), Vec::new()).unwrap_err();
    assert_eq!(error.kind(), std::io::ErrorKind::AlreadyExists);
    let restored = restore_journal(&root).unwrap().unwrap();
    assert_eq!(restored.places, 1);
    assert!(restored.failed[0].contains("eth9"), "{restored:?}");
    assert_eq!(
        root.read("sys/class/net/eth0/gro_flush_timeout").unwrap(),
        "5"
    );
    // It stays, since not all is restored.
    assert!(root.path(JOURNAL).exists());
    fs::create_dir_all(root.path("sys/class/net/eth9")).unwrap();
    fs::write(root.path("sys/class/net/eth9/gro_flush_timeout"), "0").unwrap();
    assert!(restore_journal(&root).unwrap().unwrap().failed.is_empty());
    assert_eq!(restore_journal(&root).unwrap(), None);
}

#[test]
fn a_value_that_the_kernel_did_not_take_is_told() {
    let tree = bare_metal();
    let root = Root::at(tree.path());
    let path = root.path("sys/class/net/eth0/gro_flush_timeout");
    fs::remove_file(&path).unwrap();
    std::os::unix::fs::symlink("/dev/null", &path).unwrap();
    let place = "file:sys/class/net/eth0/gro_flush_timeout".parse().unwrap();
    let restored = restore(
        &root,
        &[Saved {
            place,
            value: "5".into(),
        }],
    );
    assert_eq!(restored.places, 0);
    assert!(restored.failed[0].ends_with("is , not 5"), "{restored:?}");
}

#[test]
fn counters_wrap_around_and_sensors_are_integrated() {
    let tree = bare_metal();
    let root = Root::at(tree.path());
    let mut meters = Meters::begin(&root, false, 0.0);
    let counter = "sys/class/powercap/intel-rapl:0/energy_uj";
    // 0.9 J, then past the end at 1 J to 0.1 J: 0.2 J; then 0.3 J more.
    root.write(counter, "100000").unwrap();
    meters.sample(&root, 1.0);
    root.write(counter, "400000").unwrap();
    root.write("sys/class/hwmon/hwmon0/power1_input", "50000000")
        .unwrap();
    meters.sample(&root, 2.0);
    let energies = meters.energies();
    let joules = |name: &str| energies.iter().find(|it| it.name == name).unwrap().joules;
    assert!((joules("rapl:package-0") - 0.5).abs() < 1e-9);
    assert!(joules("rapl:package-1").abs() < 1e-9);
    // A second at 30 W, a second from 30 to 50 W.
    assert!((joules("hwmon:hwmon0:power1_input") - 70.0).abs() < 1e-9);
    // 2 A at 10 V.
    assert!((joules("battery:BAT0") - 40.0).abs() < 1e-9);
    assert!((meters.processor_joules().unwrap() - 0.5).abs() < 1e-9);
}

#[test]
fn without_a_meter_there_are_proxies_and_no_joules() {
    let tree = virtual_machine();
    let root = Root::at(tree.path());
    let meters = Meters::begin(&root, false, 0.0);
    let later = STAT
        .replace("cpu  100", "cpu  300")
        .replace("ctxt 9000", "ctxt 9500");
    root.write("proc/stat", &later).unwrap();
    assert!(meters.energies().is_empty());
    assert_eq!(meters.processor_joules(), None);
    let proxies: Vec<(&str, f64)> = meters
        .proxies(&root)
        .into_iter()
        .map(|(it, value)| (it.name(), value))
        .collect();
    assert_eq!(
        proxies,
        [
            ("proxy: processor time (s)", 2.0),
            ("proxy: context switches", 500.0),
            ("proxy: interrupts", 0.0),
        ]
    );
}

#[test]
fn watts_are_read_from_ipmitool() {
    let text =
        "\n    Instantaneous power reading:                   212 Watts\n    Minimum: 1 Watts\n";
    assert_eq!(parse_ipmi(text), Some(212.0));
    assert_eq!(parse_ipmi("Instantaneous power reading: n/a"), None);
    assert_eq!(parse_ipmi("DCMI is not supported"), None);
}
