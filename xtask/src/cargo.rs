//! Running cargo: in the repository's root, printed before it runs.

use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use anyhow::{Context, Result, bail};
use serde::Deserialize;

/// The repository's root.
///
/// Asked at run time, because a build directory shared by two checkouts would otherwise remember
/// the wrong one.
pub(crate) fn root() -> PathBuf {
    let xtask = std::env::var_os("CARGO_MANIFEST_DIR")
        .map_or_else(|| PathBuf::from(env!("CARGO_MANIFEST_DIR")), PathBuf::from);
    xtask
        .parent()
        .map_or_else(|| xtask.clone(), Path::to_path_buf)
}

/// A folder below the build directory: for builds with flags that change every crate and would
/// throw the usual build away, and for logs.
pub(crate) fn target_apart(name: &str) -> PathBuf {
    std::env::var_os("CARGO_TARGET_DIR")
        .map_or_else(|| root().join("target"), PathBuf::from)
        .join(name)
}

/// A cargo command in the root. `cargo` from `PATH`, so that `+nightly` finds rustup's.
pub(crate) fn command<S: AsRef<str>>(arguments: &[S]) -> Command {
    let mut command = Command::new("cargo");
    command.current_dir(root());
    for argument in arguments {
        command.arg(argument.as_ref());
    }
    command
}

/// Runs cargo with the terminal as it is; an error unless it succeeds.
pub(crate) fn run<S: AsRef<str>>(arguments: &[S]) -> Result<()> {
    run_command(&mut command(arguments))
}

/// Runs a tool of cargo's, the first argument; says so and passes if it is not installed.
pub(crate) fn run_tool<S: AsRef<str>>(arguments: &[S]) -> Result<()> {
    let name = arguments[0].as_ref();
    if has(name) {
        return run(arguments);
    }
    println!("skipped: cargo-{name} not installed");
    Ok(())
}

/// Whether cargo knows this tool.
pub(crate) fn has(name: &str) -> bool {
    let mut command = command(&[name, "--version"]);
    let output = command.stderr(Stdio::null()).output();
    output.is_ok_and(|output| output.status.success())
}

/// Prints and runs a command; an error unless it succeeds.
pub(crate) fn run_command(command: &mut Command) -> Result<()> {
    let line = spoken(command);
    println!("$ {line}");
    let status = command
        .status()
        .with_context(|| format!("failed to start `{line}`"))?;
    if !status.success() {
        bail!("`{line}` ended with {status}");
    }
    Ok(())
}

/// What cargo prints; an error, with what it complained of, unless it succeeds.
pub(crate) fn output<S: AsRef<str>>(arguments: &[S]) -> Result<String> {
    let mut command = command(arguments);
    let line = spoken(&command);
    let output = command
        .stderr(Stdio::piped())
        .output()
        .with_context(|| format!("failed to start `{line}`"))?;
    if !output.status.success() {
        bail!(
            "`{line}` ended with {}:\n{}",
            output.status,
            String::from_utf8_lossy(&output.stderr).trim_end()
        );
    }
    String::from_utf8(output.stdout).with_context(|| format!("`{line}` printed no UTF-8"))
}

/// What cargo knows of the workspace, as far as the verbs ask.
#[derive(Deserialize)]
pub(crate) struct Metadata {
    /// Members of the workspace.
    pub(crate) packages: Vec<Package>,
    /// Where builds go.
    pub(crate) target_directory: PathBuf,
}

/// A member of the workspace.
#[derive(Deserialize)]
pub(crate) struct Package {
    /// Its name.
    pub(crate) name: String,
    /// What it builds.
    pub(crate) targets: Vec<Target>,
}

/// A thing a package builds.
#[derive(Deserialize)]
pub(crate) struct Target {
    /// Its name.
    pub(crate) name: String,
    /// `lib`, `bin`, `bench`, ….
    pub(crate) kind: Vec<String>,
    /// Its first file.
    pub(crate) src_path: String,
}

/// Asks cargo about the workspace.
pub(crate) fn metadata() -> Result<Metadata> {
    metadata_of("Cargo.toml")
}

/// Asks cargo about the workspace of this manifest.
pub(crate) fn metadata_of(manifest: &str) -> Result<Metadata> {
    let question = ["metadata", "--no-deps", "--format-version", "1"];
    let text = output(&[&question[..], &["--manifest-path", manifest]].concat())?;
    serde_json::from_str(&text).context("failed to read `cargo metadata`")
}

/// The command as one would type it.
pub(crate) fn spoken(command: &Command) -> String {
    let mut line = command.get_program().to_string_lossy().into_owned();
    for argument in command.get_args() {
        line.push(' ');
        line.push_str(&argument.to_string_lossy());
    }
    line
}
