//! The program: `serve`, `load`, `agent`, `distribution`, `files`, `lab`, `disk`, `power`, `pool`,
//! `rival` and `doctor`. Each command is a module that turns flags into the configuration of a
//! crate and prints its output; nothing is decided here. `doctor` is a module, not a crate, because
//! only the program uses it.
//!
//! Exit codes: 0 done; 1 failed, and standard error says why, or the doctor found something wrong;
//! 2 the command line was wrong; 130 interrupted.

#![forbid(unsafe_code)]

#[macro_use]
mod output;

#[cfg(feature = "load")]
mod agent;
#[cfg(feature = "lab")]
mod disk;
#[cfg(feature = "load")]
mod distribution;
#[cfg(feature = "serve")]
mod doctor;
#[cfg(feature = "load")]
mod files;
#[cfg(feature = "lab")]
mod lab;
#[cfg(feature = "load")]
mod load;
#[cfg(feature = "lab")]
mod pool;
#[cfg(feature = "lab")]
mod power;
#[cfg(feature = "lab")]
mod rival;
#[cfg(feature = "serve")]
mod serve;
#[cfg(feature = "lab")]
mod stop;

#[cfg(feature = "serve")]
use std::ffi::OsString;
#[cfg(feature = "serve")]
use std::path::Path;
use std::process::ExitCode;

#[cfg(feature = "serve")]
use clap::Args;
use clap::{CommandFactory, Parser, Subcommand};

/// A memcached-compatible cache server that keeps its latency tail short, and the laboratory
/// that proves it.
#[derive(Debug, Parser)]
#[command(name = "curtail", version)]
struct Arguments {
    #[command(subcommand)]
    command: Command,
}

#[derive(Debug, Subcommand)]
enum Command {
    /// Run the cache server; takes memcached's flags.
    #[cfg(feature = "serve")]
    Serve(Box<serve::Flags>),
    /// Offer a load to a memcached-compatible server or a web server and measure its latency.
    #[cfg(feature = "load")]
    Load(Box<load::Flags>),
    /// Offer a part of a load for `curtail load --agent` on another host.
    #[cfg(feature = "load")]
    Agent(agent::Flags),
    /// Print lengths of keys and values, as the multithreaded-cache study does, for `curtail load
    /// --script - --lengths`.
    #[cfg(feature = "load")]
    Distribution(distribution::Flags),
    /// Make the files that `curtail load --protocol http` requests.
    #[cfg(feature = "load")]
    Files(files::Flags),
    /// Run experiments that compare servers, and draw a report.
    #[cfg(feature = "lab")]
    Lab(lab::Flags),
    /// Make a disk that is as slow as it is told to be, for the programs of an experiment.
    #[cfg(feature = "lab")]
    Disk(disk::Flags),
    /// Spend less energy while a latency objective holds: knobs, meters, a model and a tuner.
    #[cfg(feature = "lab")]
    Power(power::Flags),
    /// Keep keys and values in the memory of a passive host, over RDMA packets.
    #[cfg(feature = "lab")]
    Pool(pool::Flags),
    /// Serve another design, to compare with, in an experiment.
    #[cfg(feature = "lab")]
    Rival(rival::Flags),
    /// Say what this machine offers a server and a measurement, what stands in the way, and what
    /// to do about it.
    #[cfg(feature = "serve")]
    Doctor(doctor::Flags),
}

fn main() -> ExitCode {
    #[cfg(not(feature = "serve"))]
    let words = std::env::args_os();
    #[cfg(feature = "serve")]
    let (words, is_memcached) = command_line();
    #[cfg(feature = "serve")]
    if is_memcached && words.iter().any(|word| word == "--help") {
        print!("{}", serve::usage(&serve_command()));
        return ExitCode::SUCCESS;
    }
    let arguments = Arguments::try_parse_from(words);
    let arguments = arguments.unwrap_or_else(|error| name_as_typed(error).exit());
    let outcome = match arguments.command {
        #[cfg(feature = "serve")]
        Command::Serve(flags) => serve::run(&flags),
        #[cfg(feature = "load")]
        Command::Load(flags) => load::run(&flags),
        #[cfg(feature = "load")]
        Command::Agent(flags) => agent::run(&flags),
        #[cfg(feature = "load")]
        Command::Distribution(flags) => distribution::run(&flags),
        #[cfg(feature = "load")]
        Command::Files(flags) => files::run(&flags),
        #[cfg(feature = "lab")]
        Command::Lab(flags) => lab::run(&flags),
        #[cfg(feature = "lab")]
        Command::Disk(flags) => disk::run(&flags),
        #[cfg(feature = "lab")]
        Command::Power(flags) => power::run(&flags),
        #[cfg(feature = "lab")]
        Command::Pool(flags) => pool::run(&flags),
        #[cfg(feature = "lab")]
        Command::Rival(flags) => rival::run(&flags),
        #[cfg(feature = "serve")]
        Command::Doctor(flags) => doctor::run(&flags),
    };
    match outcome {
        Ok(_) if output::has_failed() => ExitCode::FAILURE,
        Ok(code) => code,
        Err(error) => {
            eprintln!("curtail: {}", told(&error));
            exit_code(&error)
        }
    }
}

/// An error and its causes, but for those that the one before has told already.
fn told(error: &anyhow::Error) -> String {
    let mut text = error.to_string();
    for cause in error.chain().skip(1).map(ToString::to_string) {
        if !text.contains(&cause) {
            text.push_str(": ");
            text.push_str(&cause);
        }
    }
    text
}

#[cfg(feature = "lab")]
fn exit_code(error: &anyhow::Error) -> ExitCode {
    let of_lab = error.downcast_ref::<::lab::Error>();
    of_lab.map_or(ExitCode::FAILURE, |error| ExitCode::from(error.exit_code()))
}

#[cfg(not(feature = "lab"))]
fn exit_code(_: &anyhow::Error) -> ExitCode {
    ExitCode::FAILURE
}

/// Names a flag by its letter too: it is what people type.
fn name_as_typed(mut error: clap::Error) -> clap::Error {
    use clap::error::{ContextKind, ContextValue};
    let Some(ContextValue::String(named)) = error.get(ContextKind::InvalidArg) else {
        return error;
    };
    let long = named.split([' ', '=']).next().unwrap_or_default();
    let command = Arguments::command();
    let letter = command
        .get_subcommands()
        .flat_map(clap::Command::get_arguments)
        .find(|argument| {
            argument
                .get_long()
                .is_some_and(|name| long.strip_prefix("--") == Some(name))
        })
        .and_then(clap::Arg::get_short);
    if let Some(letter) = letter {
        let named = format!("-{letter}, {named}");
        error.insert(ContextKind::InvalidArg, ContextValue::String(named));
    }
    error
}

/// The command line, and whether the program was called through a link whose name begins with
/// `memcached` (such as `memcached-debug`): then it is `curtail serve`. The flags of `serve` are
/// rewritten from getopt's syntax.
#[cfg(feature = "serve")]
fn command_line() -> (Vec<OsString>, bool) {
    let mut words = std::env::args_os();
    let program = words.next().unwrap_or_default();
    let is_memcached = Path::new(&program)
        .file_name()
        .is_some_and(|name| name.as_encoded_bytes().starts_with(b"memcached"));
    let mut words = words.peekable();
    let is_serve = words.peek().is_some_and(|word| word == "serve");
    if !is_memcached && !is_serve {
        return ([program].into_iter().chain(words).collect(), false);
    }
    if !is_memcached {
        words.next();
    }
    let serve::Canonical { flags, operands } = serve::canonical(&serve_command(), words);
    let mut line = vec!["curtail".into(), "serve".into()];
    line.extend(flags);
    if is_memcached {
        for word in operands {
            eprintln!("curtail: ignored, as memcached does: {}", word.display());
        }
    } else {
        line.extend(operands);
    }
    (line, is_memcached)
}

#[cfg(feature = "serve")]
fn serve_command() -> clap::Command {
    serve::Flags::augment_args(clap::Command::new("serve"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_flags_do_not_contradict_each_other() {
        Arguments::command().debug_assert();
    }

    #[test]
    fn a_cause_is_printed_once() {
        let denied = || std::io::Error::other("denied");
        let alone = anyhow::Error::new(denied()).context("listen");
        assert_eq!(told(&alone), "listen: denied");
        let with = anyhow::Error::new(denied()).context("listen: denied (try another)");
        assert_eq!(told(&with), "listen: denied (try another)");
    }
}
