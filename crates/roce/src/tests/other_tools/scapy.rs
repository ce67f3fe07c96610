//! scapy, which computes the ICRC of each packet of a capture.

use std::path::{Path, PathBuf};
use std::process::Command;

/// The exit code that says that there is no scapy on this machine.
const SKIPPED: i32 = 77;

/// Asserts that scapy agrees with the ICRCs of a capture with this number of packets.
pub(crate) fn assert_agrees(capture: PathBuf, packets: usize) {
    let output = Command::new(script())
        .arg(temporary_folder().with_file_name("clients/scapy"))
        .arg(capture)
        .output()
        .unwrap();
    let printed = String::from_utf8_lossy(&output.stdout).into_owned();
    eprintln!("{}", printed.trim_end());
    if output.status.code() == Some(SKIPPED) {
        return;
    }
    let complaint = String::from_utf8_lossy(&output.stderr);
    let expected = format!("{packets} of {packets} packets agree\n");
    assert!(printed == expected, "{printed}{complaint}");
}

/// The folder `tmp` of the target folder: the test runs from `target/<profile>/deps`.
pub(crate) fn temporary_folder() -> PathBuf {
    let program = std::env::current_exe().unwrap();
    let folder = program.ancestors().nth(3).unwrap().join("tmp");
    std::fs::create_dir_all(&folder).unwrap();
    folder
}

/// The script, from any crate of the workspace.
fn script() -> PathBuf {
    let folders = Path::new(env!("CARGO_MANIFEST_DIR")).ancestors();
    let mut scripts = folders.map(|folder| folder.join("tests/clients/scapy.sh"));
    scripts.find(|script| script.exists()).unwrap()
}
