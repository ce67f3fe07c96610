//! The exit codes of the program, as its documentation states them.
//!
//! These tests run the program that Cargo builds for them. So `cargo test --workspace` builds it
//! once, with the same features as everything else.
#![cfg(feature = "lab")]
// The helpers of tests may panic, as tests may.
#![allow(clippy::unwrap_used)]

use std::fs::File;
use std::process::{Command, Output, Stdio};

fn run(arguments: &[&str]) -> Output {
    let mut command = Command::new(env!("CARGO_BIN_EXE_curtail"));
    command.args(arguments).output().unwrap()
}

/// Asserts that the program ends with this code and says this.
fn ends_with(arguments: &[&str], code: i32, said: &str) {
    let output = run(arguments);
    let text = [&output.stdout[..], &output.stderr].concat();
    let text = String::from_utf8_lossy(&text);
    assert_eq!(output.status.code(), Some(code), "{arguments:?}: {text}");
    assert!(text.contains(said), "{arguments:?}: {text}");
}

#[test]
fn what_is_done_ends_with_0() {
    ends_with(
        &["--version"],
        0,
        concat!("curtail ", env!("CARGO_PKG_VERSION")),
    );
    ends_with(&["serve", "--help"], 0, "--port");
}

#[test]
fn what_fails_ends_with_1() {
    ends_with(&["lab", "plan", "/no/such.toml"], 1, "/no/such.toml");
    ends_with(&["serve", "-l", "192.0.2.1", "-u", "root"], 1, "192.0.2.1");
}

/// An experiment of a command, run into a folder of its own.
fn lab(verb: &str, command: &str, tables: &str, flags: &[&str], code: i32, said: &str) {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("one.toml");
    let text = format!(
        "question = \"Does it end?\"\nseed = 1\nrepeats = 6\n\
         [[factor]]\nname = \"status\"\nvalues = [0, 1]\n\
         [program]\ncommand = [\"sh\", \"-c\", \"{command}\"]\ntimeout = \"10s\"\n{tables}"
    );
    std::fs::write(&path, text).unwrap();
    let into = folder.path().join("run");
    let paths = [path.to_str().unwrap(), "--into", into.to_str().unwrap()];
    ends_with(&[&["lab", verb], &paths[..], flags].concat(), code, said);
}

fn lab_run(command: &str, tables: &str, flags: &[&str], code: i32, said: &str) {
    lab("run", command, tables, flags, code, said);
}

#[test]
fn a_pilot_says_how_many_repeats_would_decide() {
    let decides = "repeats that would decide";
    lab("pilot", "true {status}", "", &[], 0, decides);
    lab(
        "pilot",
        "exit {status}",
        "",
        &["--repeats", "2"],
        1,
        decides,
    );
}

#[test]
fn commands_are_tried_and_their_file_runs_again() {
    let folder = tempfile::tempdir().unwrap();
    let path = |name: &str| folder.path().join(name).to_str().unwrap().to_owned();
    let (first, again, file) = (path("first"), path("again"), path("written.toml"));
    let command = "curtail serve -m 64 -t 1";
    let flags = [
        "--trial",
        "100ms",
        "--warmup",
        "0s",
        "--repeats",
        "1",
        "-r",
        "100",
    ];
    let head = ["lab", "try", command, "--into", &first, "--write", &file];
    ends_with(
        &[&head[..], &flags].concat(),
        0,
        "added `-p {port} -l 127.0.0.1",
    );
    let kept = std::fs::read_to_string(path("first/experiment.toml")).unwrap();
    assert_eq!(kept, std::fs::read_to_string(&file).unwrap());
    ends_with(&["lab", "run", &file, "--into", &again], 0, "report: ");
    ends_with(&["lab", "try", "redis-server"], 1, "has no `{port}`");
}

#[test]
fn a_run_with_a_cell_that_never_succeeds_ends_with_1() {
    lab_run("exit {status}", "", &[], 1, "no trial succeeded: status 1");
    lab_run("true {status}", "", &[], 0, "report: ");
}

#[test]
fn a_missed_target_ends_with_1_if_it_shall() {
    let target = "[[target]]\nname = \"one\"\nmetric = \"exit_status\"\n\
                  of = { status = 0 }\nat-least = 1\n";
    lab_run("true {status}", target, &[], 0, "missed");
    lab_run(
        "true {status}",
        target,
        &["--fail-if-missed"],
        1,
        "target missed: ",
    );
}

#[test]
fn a_wrong_command_line_ends_with_2() {
    ends_with(&["no-such-command"], 2, "no-such-command");
    ends_with(&["serve", "--no-such-flag"], 2, "--no-such-flag");
    ends_with(&["serve", "-m", "many"], 2, "many");
}

/// The output of `lab list` is longer than a pipe's reader may want, and than a full disk takes.
#[test]
fn a_closed_pipe_or_a_full_disk_behind_the_output_is_no_panic() {
    for arguments in [
        &["lab", "list"][..],
        &["serve", "-h"],
        &["doctor"],
        &["help"],
    ] {
        let command = || {
            let mut command = Command::new(env!("CARGO_BIN_EXE_curtail"));
            command.args(arguments).stderr(Stdio::piped());
            command
        };
        let mut child = command().stdout(Stdio::piped()).spawn().unwrap();
        drop(child.stdout.take());
        let closed = child.wait_with_output().unwrap();
        let said = String::from_utf8_lossy(&closed.stderr);
        assert!(!said.contains("panicked"), "{arguments:?}: {said}");

        let full = File::options().write(true).open("/dev/full").unwrap();
        let full = command().stdout(full).output().unwrap();
        let said = String::from_utf8_lossy(&full.stderr);
        assert!(!said.contains("panicked"), "{arguments:?}: {said}");
        if arguments[0] == "lab" {
            assert_eq!(closed.status.code(), Some(0), "{said}");
            assert_eq!(full.status.code(), Some(1), "{said}");
            assert!(said.starts_with("curtail: standard output: "), "{said}");
        }
    }
}
