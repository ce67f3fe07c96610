//! `calibrate [--short] [--only QUESTION] [--server-cpu N] [--load-cpu N]`: prints the calibration
//! table of the load generator; exits with 1 if a line is out of bound. The server takes the first
//! processor and the generator the second, unless told otherwise; both go before whatever else
//! wants those, where this process may say so, as the laboratory's do.
#![forbid(unsafe_code)]
#![expect(
    clippy::print_stdout,
    clippy::print_stderr,
    reason = "a program prints"
)]

use std::env;
use std::process::{Command, ExitCode};

use anyhow::{Context, bail};
use curtail_tests::calibration::{self, Setting, lines, server};

/// The word by which this program tells itself that it goes first.
const GOES_FIRST: &str = "goes-first";

fn main() -> ExitCode {
    match run() {
        Ok(true) => ExitCode::SUCCESS,
        Ok(false) => ExitCode::FAILURE,
        Err(error) => {
            eprintln!("calibrate: {error:#}");
            ExitCode::from(2)
        }
    }
}

fn run() -> anyhow::Result<bool> {
    let words: Vec<String> = env::args().skip(1).collect();
    let mut words: Vec<&str> = words.iter().map(String::as_str).collect();
    if let ["known-law-server", law, seed, cpu] = words[..] {
        let cpu = if cpu == "-" {
            None
        } else {
            Some(cpu.parse().context("CPU")?)
        };
        server::serve(law.parse()?, seed.parse().context("SEED")?, cpu)?;
        return Ok(true);
    }
    if words.first() == Some(&GOES_FIRST) {
        words.remove(0);
        println!("both go before other processes");
    } else if sys::thread::may_go_first() {
        return go_first(&words);
    } else {
        println!("not allowed to go before other processes: their turns are in the figures");
    }
    let (setting, only) = setting(&words)?;
    let pins = (setting.server_cpu, setting.load_cpu);
    if let (Some(server), Some(load)) = pins {
        println!("server on processor {server}, generator on processor {load}");
    } else {
        println!("not pinned: server and generator may disturb each other");
    }
    let found = lines::all(&setting, only, |line| eprintln!("{} …", line.case))?;
    print!("{}", calibration::table(&found));
    let out = found.iter().filter(|line| !line.within).count();
    println!("{} lines, {out} out of bound", found.len());
    Ok(out == 0)
}

/// Calls this program once more, before whatever else wants the processors.
fn go_first(words: &[&str]) -> anyhow::Result<bool> {
    let mut command = Command::new(env::current_exe()?);
    command.arg(GOES_FIRST).args(words);
    let bounds = sys::child::Bounds {
        dies_with_parent: true,
        own_session: true,
        goes_first: true,
        ..Default::default()
    };
    sys::child::bind(&mut command, &bounds)?;
    let status = command.status().context("start this program again")?;
    match status.code() {
        Some(0) => Ok(true),
        Some(1) => Ok(false),
        _ => bail!("it ended with {status}"),
    }
}

fn setting<'a>(words: &[&'a str]) -> anyhow::Result<(Setting, Option<&'a str>)> {
    let cpus = sys::thread::allowed_cpus()?;
    let both = cpus.len() >= 2;
    let mut setting = Setting {
        program: env::current_exe()?,
        short: false,
        server_cpu: both.then(|| cpus[0]),
        load_cpu: both.then(|| cpus[1]),
    };
    let mut only = None;
    let mut words = words.iter();
    while let Some(&word) = words.next() {
        match word {
            "--short" => setting.short = true,
            "--only" => {
                let names = lines::QUESTIONS.map(|(name, _)| name);
                let name = words.next().copied().filter(|name| names.contains(name));
                only = Some(name.with_context(|| format!("--only wants one of {names:?}"))?);
            }
            "--server-cpu" => setting.server_cpu = Some(number(word, words.next())?),
            "--load-cpu" => setting.load_cpu = Some(number(word, words.next())?),
            _ => {
                bail!("no option `{word}`; there are --short, --only, --server-cpu and --load-cpu")
            }
        }
    }
    Ok((setting, only))
}

fn number(option: &str, text: Option<&&str>) -> anyhow::Result<usize> {
    let text = text.with_context(|| format!("{option} wants a number"))?;
    text.parse().with_context(|| format!("{option} {text}"))
}
