//! A slow disk: whether it keeps its law, and whether anything is left of it. They need root,
//! `/dev/fuse`, loop devices and `mkfs.ext4`.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

use curtail_tests::disk_process::{DiskProcess, can_run, disk, succeeds};
use curtail_tests::process::curtail_path;
use curtail_tests::processes::{eventually, processes_with};

/// The folder of the kernel that exists while the loop device of the disk of process `pid` does.
fn loop_device(pid: u32) -> PathBuf {
    let mounts = fs::read_to_string(format!("/proc/{pid}/mounts")).unwrap();
    let mount = mounts
        .lines()
        .find(|line| line.contains(" /mnt/files ext4 "))
        .unwrap();
    let device = mount.split(' ').next().unwrap().trim_start_matches("/dev/");
    let folder = Path::new("/sys/block").join(device).join("loop");
    assert!(folder.exists());
    folder
}

#[test]
fn a_disk_keeps_its_law() {
    if !can_run() {
        return;
    }
    // Other work on the machine adds to the delays, though not in each of some runs.
    assert!((0..5).any(|_| calibrated_is_close()));
}

/// Whether the delays of 200 reads are close to their law. None is too early.
fn calibrated_is_close() -> bool {
    let law = "spindle:seek=3ms,turn=4ms";
    let printed = succeeds(&mut disk(&[
        "calibrate",
        "--size=32MiB",
        "--reads=200",
        "--law",
        law,
    ]))
    .unwrap();
    let found: serde_json::Value = serde_json::from_str(&printed).unwrap();
    let number = |name: &str| found[name].as_f64().unwrap();
    // 3 ms, half of 4 ms, and a few microseconds; the error of 200 draws is 0.15 ms.
    assert!(
        (4.4e6..=5.6e6).contains(&number("law_mean_ns")),
        "{printed}"
    );
    ["mean_ns", "p50_ns", "p99_ns"].into_iter().all(|name| {
        let (law, measured) = (number(&format!("law_{name}")), number(name));
        assert!(measured > law * 0.99, "{name}: {printed}");
        name == "p99_ns" || measured < law + 3e6
    })
}

#[test]
fn commands_switch_delays_and_errors() {
    if !can_run() {
        return;
    }
    let law = "--law=spindle:seek=30ms,seek-law=fixed,turn=0us";
    let fill = "--fill=head -c 3000 /dev/zero > $FILES/f";
    let running =
        DiskProcess::start(&["--size=32MiB", law, fill, "--no-delay", "--memory=16MiB"]).unwrap();
    assert!(
        !Path::new("/mnt/files/f").exists(),
        "its files are seen outside"
    );
    let read = [
        "dd",
        "if=/mnt/files/f",
        "of=/dev/null",
        "iflag=direct",
        "bs=4096",
    ];
    let took = || {
        let began = Instant::now();
        let output = running.inside().args(read).output().unwrap();
        (output.status.success(), began.elapsed())
    };
    assert!(took().0);
    assert_eq!(running.tell("delay on").unwrap(), "ok\n");
    let (succeeded, slow) = took();
    assert!(succeeded && slow >= Duration::from_millis(30), "{slow:?}");
    let counts: serde_json::Value = serde_json::from_str(&running.tell("counts").unwrap()).unwrap();
    assert_eq!(counts["reads"], 1, "{counts}");
    assert!(
        (30_000_000..31_000_000).contains(&counts["busy_ns"].as_u64().unwrap()),
        "{counts}"
    );
    running.tell("errors on").unwrap();
    let failed = running.inside().args(read).output().unwrap();
    let printed = String::from_utf8_lossy(&failed.stderr).into_owned();
    assert!(printed.contains("Input/output error"), "{printed}");
    running.tell("errors off").unwrap();
    assert!(took().0);
    let refused = disk(&["tell", &running.pid().to_string(), "delay"])
        .output()
        .unwrap();
    let printed = String::from_utf8_lossy(&refused.stderr).into_owned();
    assert!(
        printed.contains("`delay` is no command: known are delay on|off"),
        "{printed}"
    );
}

#[test]
fn the_page_cache_is_bounded_by_the_memory() {
    if !can_run() {
        return;
    }
    let fill = "--fill=head -c 24000000 /dev/zero > $FILES/f";
    let running =
        DiskProcess::start(&["--size=32MiB", "--law=nvme", fill, "--memory=8MiB"]).unwrap();
    let cat = || {
        let mut cat = running.inside();
        cat.args(["cat", "/mnt/files/f"]).output().unwrap()
    };
    let twice = || {
        for _ in 0..2 {
            assert!(cat().status.success());
        }
    };
    twice();
    let counts: serde_json::Value = serde_json::from_str(&running.tell("counts").unwrap()).unwrap();
    let read = counts["read_bytes"].as_u64().unwrap();
    // Without a bound, the second reading would need nothing of the disk.
    assert!(read > 40_000_000, "{counts}");
}

#[test]
fn nothing_is_left_of_a_disk_that_is_killed() {
    if !can_run() {
        return;
    }
    let mut running = DiskProcess::start(&["--size=32MiB", "--law=ssd:seek=100001ns"]).unwrap();
    let device = loop_device(running.pid());
    let processes = processes_with("seek=100001ns").len();
    assert_eq!(processes, 2, "the disk, and its server");
    running.kill().unwrap();
    running.wait().unwrap();
    eventually("the loop device is released", || !device.exists());
    eventually("the server has ended", || {
        processes_with("seek=100001ns").is_empty()
    });
}

/// All processes are killed while data that were written wait for the disk. Unmounting then needs
/// the server, which has ended.
#[test]
fn nothing_is_left_of_a_disk_that_is_killed_while_it_writes() {
    if !can_run() {
        return;
    }
    let law = "--law=ssd:seek=100003ns";
    let mut running = DiskProcess::start(&["--size=32MiB", law, "--options=noatime"]).unwrap();
    let device = loop_device(running.pid());
    let server = *processes_with("disk\0serve")
        .iter()
        .find(|pid| processes_with("seek=100003ns").contains(pid))
        .unwrap();
    let write = "head -c 20000000 /dev/zero > /mnt/files/f";
    let mut inside = running.inside();
    let written = inside.args(["sh", "-c", write]).output().unwrap();
    assert!(written.status.success());
    // Stopped, it holds the requests of the unmounting until it is killed.
    let server = rustix::process::Pid::from_raw(i32::try_from(server).unwrap()).unwrap();
    rustix::process::kill_process(server, rustix::process::Signal::STOP).unwrap();
    running.kill().unwrap();
    rustix::process::kill_process(server, rustix::process::Signal::KILL).unwrap();
    running.wait().unwrap();
    eventually("the loop device is released", || !device.exists());
    eventually("the server has ended", || {
        processes_with("seek=100003ns").is_empty()
    });
}

#[test]
fn nothing_is_left_of_a_laboratory_that_is_killed() {
    if !can_run() {
        return;
    }
    let experiment = r#"
question = "Is anything left of a disk?"
seed = 1
repeats = 1
[disk]
law = "ssd:seek=100002ns"
size = "32MiB"
memory = "16MiB"
fill = "echo filled > {files}/f"
timeout = "30s"
[program]
command = ["sleep", "100.002"]
timeout = "200s"
[[beside]]
name = "server"
command = ["sh", "-c", "cat {files}/f; exec sleep 200.002"]
ready = { line = "filled" }
"#;
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("disk.toml");
    fs::write(&file, experiment).unwrap();
    let mut lab = Command::new(curtail_path());
    lab.args(["lab", "run"])
        .arg(&file)
        .arg("--into")
        .arg(folder.path().join("runs"));
    let lab = lab
        .stdin(Stdio::null())
        .stdout(Stdio::null())
        .stderr(Stdio::null());
    let mut lab = lab.spawn().unwrap();
    eventually("the program runs", || {
        !processes_with("sleep\x00100.002").is_empty()
    });
    let disks = processes_with("disk\0run");
    let of_law = processes_with("seek=100002ns");
    let run = *disks.iter().find(|pid| of_law.contains(pid)).unwrap();
    let device = loop_device(run);
    lab.kill().unwrap();
    lab.wait().unwrap();
    eventually("the loop device is released", || !device.exists());
    for text in ["seek=100002ns", "sleep\x00100.002", "sleep\x00200.002"] {
        eventually("the processes have ended", || {
            processes_with(text).is_empty()
        });
    }
}
