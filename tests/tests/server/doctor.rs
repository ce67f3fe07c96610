//! `curtail doctor`, on this machine as it is, and as it would be with less.

use std::fs::{self, File, Permissions};
use std::os::unix::fs::PermissionsExt;
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::{Command, Output, Stdio};

use curtail_tests::client::Client;
use curtail_tests::peer::Address;
use curtail_tests::process::{Server, curtail_path};
use serde_json::Value;

/// The exit code of a script that cannot run here.
const SKIPPED: i32 = 77;
/// The exit code of a shell that may not start a program.
const NOT_STARTED: i32 = 126;

fn output(command: &mut Command) -> Output {
    command.stdin(Stdio::null()).output().unwrap()
}

fn doctor(arguments: &[&str]) -> Output {
    output(Command::new(curtail_path()).arg("doctor").args(arguments))
}

fn findings(output: &Output) -> Vec<Value> {
    let said = String::from_utf8(output.stdout.clone()).unwrap();
    let value: Value = serde_json::from_str(&said).unwrap_or_else(|error| {
        let told = String::from_utf8_lossy(&output.stderr);
        panic!("{error}: {said}\n{told}")
    });
    assert_eq!(value["schema"], "curtail.doctor/1");
    value["findings"].as_array().unwrap().clone()
}

fn find<'a>(findings: &'a [Value], name: &str) -> &'a Value {
    let found = findings.iter().find(|finding| finding["name"] == name);
    found.unwrap_or_else(|| panic!("no {name}"))
}

#[test]
fn it_says_how_this_machine_is_and_exits_by_it() {
    let output = doctor(&[]);
    let said = String::from_utf8(output.stdout).unwrap();
    for heading in ["Server runtimes", "Limits", "Measuring"] {
        assert!(said.lines().any(|line| line == heading), "{said}");
    }
    let is_wrong = said.lines().any(|line| line.starts_with("  WRONG "));
    assert_eq!(output.status.code(), Some(i32::from(is_wrong)), "{said}");
    assert_eq!(String::from_utf8_lossy(&output.stderr), "");
}

#[test]
fn json_says_the_same() {
    let output = doctor(&["--json"]);
    let findings = findings(&output);
    let mut is_wrong = false;
    for finding in &findings {
        let text = |key: &str| finding[key].as_str().unwrap_or_default();
        assert!(
            ["runtimes", "limits", "measuring"].contains(&text("group")),
            "{finding}"
        );
        assert!(
            !text("name").is_empty() && !text("value").is_empty(),
            "{finding}"
        );
        match text("mark") {
            "fine" | "not-shown" => assert!(finding["remedy"].is_null(), "{finding}"),
            "note" | "wrong" => {
                assert!(
                    !text("means").is_empty() && !text("remedy").is_empty(),
                    "{finding}"
                );
                is_wrong |= text("mark") == "wrong";
            }
            _ => panic!("{finding}"),
        }
    }
    assert_eq!(output.status.code(), Some(i32::from(is_wrong)));
    let release = fs::read_to_string("/proc/sys/kernel/osrelease").unwrap();
    let kernel = find(&findings, "kernel");
    assert_eq!(kernel["value"], format!("Linux {}", release.trim()));
    let reading_ns = find(&findings, "clock reading")["number"].as_f64().unwrap();
    assert!(reading_ns > 0.0);
}

#[test]
fn it_answers_for_the_server_that_is_wanted() {
    // More memory than any machine has.
    let findings = findings(&doctor(&["--json", "-m", "4000000"]));
    let memory = find(&findings, "memory");
    assert_eq!(memory["mark"], "wrong");
    assert!(memory["means"].as_str().unwrap().contains("-m 4000000"));
    let output = doctor(&["-m", "4000000"]);
    assert_eq!(output.status.code(), Some(1));
}

#[test]
fn an_unprivileged_user_sees_which_limit_is_too_low() {
    let mut command = Command::new("sh");
    command.args(["-c", "ulimit -n 600 && exec \"$0\" doctor --json"]);
    command.arg(curtail_path());
    if sys::privileges::is_root() {
        // Root would raise the limit.
        let nobody = sys::privileges::find_user("nobody").unwrap().unwrap();
        command.uid(nobody.uid).gid(nobody.gid);
    }
    let output = output(&mut command);
    if output.status.code() == Some(NOT_STARTED) {
        eprintln!("skipped: the program is not where nobody may start it");
        return;
    }
    let findings = findings(&output);
    let files = find(&findings, "open files");
    assert_eq!(files["mark"], "wrong", "{files}");
    assert_eq!(files["number"], 600);
    assert!(
        files["means"].as_str().unwrap().contains("-c 1024"),
        "{files}"
    );
    assert!(
        files["remedy"].as_str().unwrap().contains("ulimit"),
        "{files}"
    );
    assert_eq!(output.status.code(), Some(1));
}

#[test]
fn where_io_uring_is_forbidden_it_says_what_the_server_says() {
    let output = output(without_io_uring().args(["doctor", "--json"]));
    if output.status.code() == Some(SKIPPED) || output.stdout.is_empty() {
        let told = String::from_utf8_lossy(&output.stderr);
        eprintln!("skipped: no filter of system calls can be set: {told}");
        return;
    }
    let findings = findings(&output);
    let ring = find(&findings, "io_uring");
    assert_eq!(ring["mark"], "note", "{ring}");
    assert!(
        ring["value"].as_str().unwrap().contains("not permitted"),
        "{ring}"
    );
    assert!(ring["means"].as_str().unwrap().contains("events"), "{ring}");
    let chosen = find(&findings, "--runtime auto")["value"].as_str().unwrap();
    assert!(chosen.starts_with("events"), "{chosen}");

    let folder = tempfile::tempdir().unwrap();
    // Whoever the server becomes may take its socket away again.
    fs::set_permissions(folder.path(), Permissions::from_mode(0o777)).unwrap();
    let (path, log) = (folder.path().join("socket"), folder.path().join("log"));
    let mut command = without_io_uring();
    command.args(["serve", "-s"]).arg(&path);
    command.stderr(File::create(&log).unwrap());
    let server = Server::at(command, Address::Unix(path)).unwrap();
    let mut client = Client::connect(&server.address).unwrap();
    assert_eq!(client.request("mn").unwrap(), "MN");
    let said = fs::read_to_string(&log).unwrap();
    let words = said.lines().find(|line| line.contains("rings")).unwrap();
    let words = words.strip_prefix("curtail: ").unwrap();
    assert!(chosen.contains(words), "{chosen}: {words}");
}

fn without_io_uring() -> Command {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR"));
    let script: PathBuf = folder.join("clients/without-io-uring.py");
    // A shell says 127 and nothing on standard output where there is no Python.
    let mut command = Command::new("sh");
    command.args(["-c", "exec python3 \"$0\" \"$@\""]);
    command.arg(script).arg(curtail_path());
    command
}
