//! The program: `serve`, `load`, `lab`. Each command is a module that turns flags into the
//! configuration of a room and prints what the room says; nothing is decided here.
//!
//! Exit codes: 0 done; 1 failed, and standard error says why; 2 the command line was wrong;
//! 130 interrupted.

#![forbid(unsafe_code)]
#![allow(
    clippy::print_stdout,
    clippy::print_stderr,
    reason = "a program prints"
)]

#[cfg(feature = "serve")]
mod serve;

use std::process::ExitCode;

use clap::{Parser, Subcommand};

/// A memcached-compatible cache server that keeps its latency tail short, and the laboratory
/// that proves it.
#[derive(Debug, Parser)]
#[command(name = "curtail", version, disable_help_subcommand = true)]
struct Arguments {
    #[command(subcommand)]
    command: Command,
}

#[derive(Debug, Subcommand)]
enum Command {
    /// Run the cache server; takes memcached's flags.
    #[cfg(feature = "serve")]
    Serve(serve::Flags),
}

fn main() -> ExitCode {
    let arguments = if is_called_memcached() {
        let rest = std::env::args_os().skip(1);
        Arguments::parse_from(["curtail".into(), "serve".into()].into_iter().chain(rest))
    } else {
        Arguments::parse()
    };
    let outcome = match arguments.command {
        #[cfg(feature = "serve")]
        Command::Serve(flags) => serve::run(&flags),
    };
    match outcome {
        Ok(code) => code,
        Err(error) => {
            eprintln!("curtail: {error:#}");
            ExitCode::FAILURE
        }
    }
}

/// Called through a link named `memcached`, the program is `curtail serve`.
fn is_called_memcached() -> bool {
    let called = std::env::args_os().next().unwrap_or_default();
    std::path::Path::new(&called)
        .file_name()
        .is_some_and(|name| name == "memcached")
}
