//! `curtail lab ab`: two builds of this program in one run, interleaved.

mod builder;

use std::path::{Path, PathBuf};
use std::process::ExitCode;

use ::lab::Ending;
use anyhow::Context;
use clap::Args;
use report::Run;

use super::{Bounds, LABORATORY};
use builder::{Builder, git};

#[derive(Debug, Args)]
pub(super) struct Flags {
    /// The baseline: a revision of the repository, which is built, or the path of a program
    #[arg(value_name = "REVISION|PROGRAM")]
    baseline: String,

    /// What is compared with it
    #[arg(value_name = "REVISION|PROGRAM")]
    other: String,

    /// Name of a built-in experiment of measured trials, or path of a file
    #[arg(value_name = "EXPERIMENT")]
    experiment: String,

    /// The server of the experiment whose arguments both builds get [default: the first one of kind
    /// `curtail`]
    #[arg(long, value_name = "NAME")]
    server: Option<String>,

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
    let experiment = LABORATORY.load(&flags.experiment)?;
    // An experiment that cannot be run with builds is refused before minutes of building.
    experiment.of_builds(["a", "b"], flags.server.as_deref())?;
    let scratch = tempfile::tempdir().context("failed to make a folder for the builds")?;
    let builds = builds(flags, scratch.path())?;
    let names = [builds[0].name.as_str(), builds[1].name.as_str()];
    let experiment = experiment.of_builds(names, flags.server.as_deref())?;
    let mut options = LABORATORY.options()?;
    options.quick = flags.quick;
    options.seed = flags.seed;
    options.into.clone_from(&flags.into);
    options.servers = builds.map(|it| (it.name, it.program)).into();
    // The plan of an earlier run may name programs that no longer exist.
    options.fresh = true;
    let outcome = super::perform(&experiment.plan(&options)?, &options)?;
    let ending = super::finish(&outcome, &Bounds::default())?;
    if outcome.ending != Ending::Complete {
        return Ok(ending);
    }
    println!();
    let compared = super::print_compared(&Run::open(&outcome.folder)?, &flags.shown)?;
    Ok(match ending == ExitCode::SUCCESS {
        true => compared,
        false => ending,
    })
}

/// A program of a path, or the name of a revision.
enum Side {
    Program(PathBuf),
    Revision(String),
}

impl Side {
    fn of(repository: &Path, what: &str) -> anyhow::Result<Self> {
        let path = Path::new(what);
        if path.is_file() {
            return Ok(Self::Program(std::path::absolute(path)?));
        }
        let commit = format!("{what}^{{commit}}");
        let arguments = ["rev-parse", "--short", "--verify", "--quiet", &commit];
        let revision = git(repository, arguments).with_context(|| {
            format!(
                "`{what}` is neither a program nor a revision of {}",
                repository.display()
            )
        })?;
        Ok(Self::Revision(revision))
    }
}

/// The programs of both sides. Revisions are built, and copied to `scratch`.
fn builds(flags: &Flags, scratch: &Path) -> anyhow::Result<[Build; 2]> {
    let repository = &flags.repository;
    // Both are looked up before one is built.
    let sides = [
        Side::of(repository, &flags.baseline)?,
        Side::of(repository, &flags.other)?,
    ];
    let mut builder = None;
    // The letter distinguishes two of the same name.
    let mut build = |letter: &str, side: &Side| -> anyhow::Result<Build> {
        let (name, program) = match side {
            Side::Program(path) => {
                let stem = path.file_name().unwrap_or_default().to_string_lossy();
                (stem.into_owned(), path.clone())
            }
            Side::Revision(revision) => {
                let builder = match &mut builder {
                    Some(builder) => builder,
                    none => none.insert(Builder::new(repository)?),
                };
                let program = scratch.join(format!("curtail-{letter}"));
                builder.build(revision, &program)?;
                (revision.clone(), program)
            }
        };
        Ok(Build {
            name: format!("{letter}-{name}"),
            program,
        })
    };
    Ok([build("a", &sides[0])?, build("b", &sides[1])?])
}
