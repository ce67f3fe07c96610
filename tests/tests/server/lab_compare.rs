//! `curtail lab ab` and `lab compare`, with real servers.

use std::path::Path;
use std::process::{Command, Output};

use curtail_tests::process::curtail_path;

fn lab(arguments: &[&str], folder: &Path) -> Output {
    let mut command = Command::new(curtail_path());
    command.arg("lab").args(arguments).current_dir(folder);
    command.output().unwrap()
}

fn text(output: &Output) -> String {
    String::from_utf8_lossy(&[output.stdout.as_slice(), output.stderr.as_slice()].concat())
        .into_owned()
}

#[test]
fn two_builds_run_interleaved_and_their_runs_compare() {
    let folder = tempfile::tempdir().unwrap();
    let program = curtail_path();
    let program = program.to_str().unwrap();
    let ab = ["ab", program, program, "smoke", "--quick", "--into", "run"];
    let output = lab(&ab, folder.path());
    let said = text(&output);
    assert!(output.status.success(), "{said}");
    assert!(said.contains("Baseline: a-"), "{said}");
    assert!(
        said.contains("(response_p99_ns): lower is better"),
        "{said}"
    );
    // The same run, compared again, alone and with a run of other trials.
    let bound = "response_p99_ns > 1000x";
    let output = lab(&["compare", "run", "--fail-if", bound], folder.path());
    assert!(output.status.success(), "{}", text(&output));
    let output = lab(
        &["compare", "run", "--fail-if", "speed > 2x"],
        folder.path(),
    );
    assert!(
        !output.status.success() && text(&output).contains("`speed`"),
        "{}",
        text(&output)
    );
    let output = lab(&["compare", "run", "absent"], folder.path());
    assert!(
        !output.status.success() && text(&output).contains("absent"),
        "{}",
        text(&output)
    );
}

#[test]
fn what_is_neither_a_program_nor_a_revision_is_refused() {
    let folder = tempfile::tempdir().unwrap();
    let output = lab(&["ab", "no-such-revision", "other", "smoke"], folder.path());
    let said = text(&output);
    assert!(!output.status.success(), "{said}");
    assert!(
        said.contains("`no-such-revision` is neither a program nor a revision"),
        "{said}"
    );
}
