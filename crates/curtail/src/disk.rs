//! `curtail disk`: a slow disk with a known law, for the programs that are started on it.

mod hold;

use std::ffi::OsString;
use std::fs::File;
use std::io::{self, Write};
use std::os::fd::AsFd;
use std::os::unix::net::UnixListener;
use std::os::unix::process::CommandExt;
use std::path::PathBuf;
use std::process::{Command, ExitCode, Stdio};

use ::disk::law::Law;
use ::disk::stack::{Settings, Stack};
use ::disk::{calibration, control, memory_group, server};
use anyhow::{Context, bail};
use clap::{Args, Subcommand};
use sys::child::{Bounds, bind};
use sys::signals::Signals;

use crate::load::parse;
use crate::stop;

/// A disk that is as slow as it is told to be.
#[derive(Debug, Args)]
pub(crate) struct Flags {
    #[command(subcommand)]
    command: Verb,
}

#[derive(Debug, Subcommand)]
enum Verb {
    /// Make a disk, fill it, and run a command on it; without a command, until it is stopped
    Run(Run),
    /// Run a command with the files of another `curtail disk run`, and within its bound of memory
    Enter(Enter),
    /// Send a command to a running disk: `delay on`, `delay off`, `errors on`, `errors off`,
    /// `counts` or `reset`
    Tell(Tell),
    /// Read files into memory and keep them there, until it is stopped
    Hold(hold::Flags),
    /// Make a disk, read random blocks of it, and print the times beside those of its law
    Calibrate(Calibrate),
    /// Print the laws that have a name, with their mean times for 4 KiB and 16 KiB
    Laws,
    /// Serve the file of a disk (`run` starts this itself)
    #[command(hide = true)]
    Serve(Serve),
}

#[derive(Debug, Args)]
struct Shape {
    /// Size of the disk; memory is used for what is written to it
    #[arg(long, value_name = "SIZE", default_value = "1GiB", value_parser = units::size_bytes)]
    size: u64,

    /// Its law: a name of `curtail disk laws`, and changes, as in
    /// `spindle:seek=2ms,seek-law=exponential,turn=0us,transfer=100MiB,channels=1`
    #[arg(long, value_name = "LAW", default_value = "spindle", value_parser = parse::<Law>)]
    law: Law,

    /// Seed of its delays
    #[arg(long, value_name = "N", default_value_t = 1)]
    seed: u64,

    /// Folder on which it is mounted: `DIR/files` has the files. Other processes see the folder as
    /// it was
    #[arg(long, value_name = "DIR", default_value = "/mnt")]
    at: PathBuf,
}

#[derive(Debug, Args)]
struct Run {
    #[command(flatten)]
    shape: Shape,

    /// Bound of the memory of the programs on the disk, with the pages that they cache
    #[arg(long, value_name = "SIZE", value_parser = units::size_bytes)]
    memory: Option<u64>,

    /// Options with which ext4 is mounted once it is filled
    #[arg(long, value_name = "OPTIONS", default_value = "ro,noatime")]
    options: String,

    /// A command for /bin/sh that fills the disk, whose folder it has as `$FILES`, without delays
    #[arg(long, value_name = "COMMAND")]
    fill: Option<String>,

    /// Leave the delays off until `curtail disk tell PID 'delay on'`
    #[arg(long)]
    no_delay: bool,

    /// The command, with `$FILES`
    #[arg(last = true, value_name = "COMMAND")]
    command: Vec<OsString>,
}

#[derive(Debug, Args)]
struct Enter {
    /// Process of the disk
    pid: u32,
    /// The command
    #[arg(last = true, required = true, value_name = "COMMAND")]
    command: Vec<OsString>,
}

#[derive(Debug, Args)]
struct Tell {
    /// Process of the disk
    pid: u32,
    /// The command
    command: String,
    /// Its folder
    #[arg(long, value_name = "DIR", default_value = "/mnt")]
    at: PathBuf,
}

#[derive(Debug, Args)]
struct Calibrate {
    #[command(flatten)]
    shape: Shape,

    /// Number of reads
    #[arg(long, value_name = "N", default_value_t = 2_000,
          value_parser = clap::value_parser!(u32).range(1..=1_000_000))]
    reads: u32,
}

#[derive(Debug, Args)]
struct Serve {
    #[arg(long, value_parser = parse::<Law>)]
    law: Law,
    #[arg(long)]
    seed: u64,
    #[arg(long)]
    size: u64,
}

pub(crate) fn run(flags: &Flags) -> anyhow::Result<ExitCode> {
    match &flags.command {
        Verb::Run(run) => run_on_disk(run),
        Verb::Enter(enter) => run_inside(enter),
        Verb::Tell(tell) => {
            let answer = control::tell(&control::socket_of(tell.pid, &tell.at), &tell.command);
            println!(
                "{}",
                answer.with_context(|| format!("tell disk {}", tell.pid))?
            );
            Ok(ExitCode::SUCCESS)
        }
        Verb::Hold(flags) => hold::run(flags),
        Verb::Calibrate(calibrate) => calibrate_disk(calibrate),
        Verb::Laws => {
            for law in Law::presets() {
                let [page, pages] =
                    [4_096, 16_384].map(|len| units::show_duration(law.mean_ns(len)));
                println!("{law}\n    mean {page} for 4 KiB, {pages} for 16 KiB");
            }
            Ok(ExitCode::SUCCESS)
        }
        Verb::Serve(serve) => serve_file(serve),
    }
}

fn build(shape: &Shape, options: &str, memory: Option<u64>) -> anyhow::Result<Stack> {
    let program = std::env::current_exe().context("find this program")?;
    let mut server = Command::new(program);
    server.args(["disk", "serve"]);
    server.arg(format!("--law={}", shape.law));
    server.arg(format!("--seed={}", shape.seed));
    server.arg(format!("--size={}", shape.size));
    let settings = Settings {
        law: shape.law.clone(),
        seed: shape.seed,
        size: shape.size,
        at: shape.at.clone(),
        options: options.to_owned(),
        memory,
    };
    Ok(Stack::build(settings, server)?)
}

fn run_on_disk(flags: &Run) -> anyhow::Result<ExitCode> {
    // Before the disk, so that no signal ends this process between two steps of its making. With
    // a command, a signal ends both at once.
    let signals = Signals::block().context("take over the signals")?;
    let stack = build(&flags.shape, &flags.options, flags.memory)?;
    if let Some(fill) = &flags.fill {
        let mut command = Command::new("/bin/sh");
        command
            .args(["-c", fill])
            .env("FILES", stack.files())
            .stdin(Stdio::null());
        let status = command.status().context("start /bin/sh")?;
        if !status.success() {
            bail!("`--fill {fill}` failed ({status})");
        }
    }
    stack.finish_filling()?;
    if !flags.no_delay {
        stack.tell("delay on")?;
    }
    let pid = std::process::id();
    if flags.command.is_empty() {
        println!("disk {pid} at {}", stack.files().display());
        io::stdout().flush().context("print")?;
        stop::wait(&signals, None).context("wait for a signal")?;
        return Ok(ExitCode::SUCCESS);
    }
    let mut inside = Command::new(std::env::current_exe().context("find this program")?);
    inside
        .args(["disk", "enter", &pid.to_string(), "--"])
        .args(&flags.command);
    let bounds = Bounds {
        dies_with_parent: true,
        ..Bounds::default()
    };
    bind(&mut inside, &bounds).context("prepare the command")?;
    let status = inside
        .env("FILES", stack.files())
        .status()
        .context("start the command")?;
    eprintln!("{}", stack.tell("counts")?);
    let code = status.code().and_then(|code| u8::try_from(code).ok());
    Ok(ExitCode::from(code.unwrap_or(1)))
}

fn run_inside(flags: &Enter) -> anyhow::Result<ExitCode> {
    let pid = flags.pid;
    memory_group::join(pid).with_context(|| format!("join the memory group of disk {pid}"))?;
    sys::mount::enter_mounts(pid).with_context(|| format!("enter the mounts of disk {pid}"))?;
    let (program, arguments) = flags.command.split_first().context("no command")?;
    let error = Command::new(program).args(arguments).exec();
    Err(error).with_context(|| program.display().to_string())
}

fn calibrate_disk(flags: &Calibrate) -> anyhow::Result<ExitCode> {
    let stack = build(&flags.shape, "ro,noatime", None)?;
    let file = stack.files().join("calibration");
    calibration::prepare(&file).context("fill the disk")?;
    stack.finish_filling()?;
    // The file's own blocks are found without delays, as in a disk that has been used.
    calibration::calibrate(&file, &flags.shape.law, 0, 1).context("read the disk")?;
    stack.tell("delay on")?;
    let seed = flags.shape.seed;
    let found = calibration::calibrate(&file, &flags.shape.law, seed, flags.reads);
    let found = found.context("read the disk")?;
    let counts = stack.tell("counts")?;
    println!("{}", serde_json::to_string(&found).context("print")?);
    eprintln!("{counts}");
    let us = |ns: f64| ns / 1e3;
    for (name, law, measured) in [
        ("mean", found.law_mean_ns, found.mean_ns),
        ("median", found.law_p50_ns as f64, found.p50_ns as f64),
        ("p99", found.law_p99_ns as f64, found.p99_ns as f64),
    ] {
        let (law, measured) = (us(law), us(measured));
        let more = measured - law;
        eprintln!("{name:<7} law {law:>9.1} us   measured {measured:>9.1} us   {more:+.1} us");
    }
    Ok(ExitCode::SUCCESS)
}

fn serve_file(flags: &Serve) -> anyhow::Result<ExitCode> {
    let device = io::stdin()
        .as_fd()
        .try_clone_to_owned()
        .context("take the file")?;
    let listener = io::stdout()
        .as_fd()
        .try_clone_to_owned()
        .context("take the socket")?;
    let served = server::Served {
        law: flags.law.clone(),
        seed: flags.seed,
        size: flags.size,
    };
    server::serve(File::from(device), &UnixListener::from(listener), served)
        .context("serve the disk")?;
    Ok(ExitCode::SUCCESS)
}
