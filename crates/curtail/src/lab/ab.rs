//! `curtail lab ab`: two builds of this program in one run, interleaved.

use std::ffi::OsStr;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, ExitCode};

use ::lab::{Ending, Experiment, Options};
use anyhow::{Context, bail};
use clap::Args;
use report::Run;

#[derive(Debug, Args)]
pub(super) struct Flags {
    /// The baseline: a revision of the repository, which is built, or the path of a program
    #[arg(value_name = "REVISION|PROGRAM")]
    baseline: String,

    /// What is compared with it
    #[arg(value_name = "REVISION|PROGRAM")]
    other: String,

    /// Name of a built-in experiment of kind `cache`, or path of a file
    #[arg(value_name = "EXPERIMENT")]
    experiment: String,

    /// The repository
    #[arg(long, value_name = "FOLDER", default_value = ".")]
    repository: PathBuf,

    /// Run the experiment's short form
    #[arg(long)]
    quick: bool,

    /// Seed, instead of the file's
    #[arg(long, value_name = "N")]
    seed: Option<u64>,

    /// Run folder, instead of a new one named by experiment and time
    #[arg(long, value_name = "FOLDER")]
    into: Option<PathBuf>,

    #[command(flatten)]
    shown: super::Shown,
}

/// One side of the comparison.
struct Build {
    /// The name of its server.
    name: String,
    program: PathBuf,
}

pub(super) fn run(flags: &Flags) -> anyhow::Result<ExitCode> {
    let experiment = Experiment::load(&flags.experiment)?;
    let scratch = tempfile::tempdir().context("make a folder for the builds")?;
    let builds = [
        build(&flags.repository, &flags.baseline, "a", scratch.path())?,
        build(&flags.repository, &flags.other, "b", scratch.path())?,
    ];
    let experiment = experiment.of_builds([&builds[0].name, &builds[1].name])?;
    let mut options = Options::new()?;
    options.quick = flags.quick;
    options.seed = flags.seed;
    options.into.clone_from(&flags.into);
    options.servers = builds.map(|it| (it.name, it.program)).into();
    // The plan of an earlier run may name programs that no longer exist.
    options.fresh = true;
    let plan = experiment.plan(&options)?;
    eprint!("{}", ::lab::plan_text(&plan, &options)?);
    let outcome = ::lab::run(&plan, &options, &mut *::lab::for_stderr())?;
    if outcome.ending != Ending::Complete {
        return Ok(ExitCode::from(outcome.exit_code()));
    }
    super::draw(&outcome.folder)?;
    println!();
    super::print_compared(&Run::open(&outcome.folder)?, &flags.shown)
}

/// The program of a revision, which is built, or of a path. `side` distinguishes two of the same
/// name.
fn build(repository: &Path, what: &str, side: &str, scratch: &Path) -> anyhow::Result<Build> {
    let path = Path::new(what);
    if path.is_file() {
        let stem = path.file_name().unwrap_or_default().to_string_lossy();
        return Ok(Build {
            name: format!("{side}-{stem}"),
            program: std::path::absolute(path)?,
        });
    }
    let resolved = git(
        repository,
        [
            "rev-parse",
            "--short",
            "--verify",
            "--quiet",
            &format!("{what}^{{commit}}"),
        ],
    );
    let revision = resolved.with_context(|| {
        format!(
            "`{what}` is neither a program nor a revision of {}",
            repository.display()
        )
    })?;
    let tree = scratch.join("tree");
    let tree_text = tree.as_os_str();
    let add = [
        OsStr::new("worktree"),
        OsStr::new("add"),
        OsStr::new("--detach"),
        tree_text,
        OsStr::new(&revision),
    ];
    git(repository, add)?;
    let built = build_tree(repository, &tree);
    let remove = [
        OsStr::new("worktree"),
        OsStr::new("remove"),
        OsStr::new("--force"),
        tree_text,
    ];
    git(repository, remove)?;
    let program = scratch.join(format!("curtail-{side}"));
    fs::copy(
        built.with_context(|| format!("build {revision}"))?,
        &program,
    )?;
    Ok(Build {
        name: format!("{side}-{revision}"),
        program,
    })
}

/// Builds a work tree. Its target folder is one of the repository's, so that dependencies are built
/// once.
fn build_tree(repository: &Path, tree: &Path) -> anyhow::Result<PathBuf> {
    let target = std::path::absolute(repository.join("target/ab"))?;
    let mut cargo = Command::new(std::env::var_os("CARGO").unwrap_or_else(|| "cargo".into()));
    cargo.args(["build", "--release", "--package", "curtail", "--target-dir"]);
    let status = cargo
        .arg(&target)
        .current_dir(tree)
        .status()
        .context("start cargo")?;
    if !status.success() {
        bail!("cargo build: {status}");
    }
    Ok(target.join("release/curtail"))
}

/// The output of a git command, without the line break.
fn git<I: AsRef<OsStr>>(
    repository: &Path,
    arguments: impl IntoIterator<Item = I>,
) -> anyhow::Result<String> {
    let mut git = Command::new("git");
    let output = git
        .arg("-C")
        .arg(repository)
        .args(arguments)
        .output()
        .context("start git")?;
    if !output.status.success() {
        let message = String::from_utf8_lossy(&output.stderr);
        bail!("git: {}: {}", output.status, message.trim());
    }
    Ok(String::from_utf8_lossy(&output.stdout).trim().to_owned())
}
