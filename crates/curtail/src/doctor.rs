//! `curtail doctor`: what this machine offers, and what stands in the way.
//!
//! ```text
//! gather ──► Machine ──judge──► findings ──show──► text or JSON
//! ```
//!
//! `gather` looks: at the files of `/proc` and `/sys` (`read` has what their texts mean), at the
//! clock, at a ring made as the server makes its own. `judge` is a function of what was seen and of
//! what is wanted. What the machine does not show is said to be not shown. Nothing is changed but
//! limits of this process, which ends.

mod finding;
mod gather;
mod judge;
mod machine;
mod peers;
mod read;
mod show;
mod times;

use std::io::Write;
use std::process::ExitCode;

use anyhow::Context;
use clap::Args;
use sys::machine::Shown;

use machine::Wanted;

const HELP: &str = "\
Marks: `fine`; `note`: worth knowing; `WRONG`: something would not work as documented; `-`: this \
machine does not show it.

Exit code: 0 nothing is wrong, 1 something is, 2 the command line was wrong.";

/// What is wanted of the machine, in the letters of `curtail serve`.
#[derive(Debug, Args)]
#[command(after_help = HELP)]
pub(crate) struct Flags {
    /// Memory the server is to have, in megabytes
    #[arg(short = 'm', long = "memory-limit", value_name = "NUM", default_value_t = 64,
          value_parser = clap::value_parser!(u64).range(1..=4_000_000))]
    memory_limit: u64,

    /// Connections at once it is to have
    #[arg(short = 'c', long = "conn-limit", value_name = "NUM", default_value_t = 1024,
          value_parser = clap::value_parser!(u32).range(1..=10_000_000))]
    conn_limit: u32,

    /// Its worker threads
    #[arg(short = 't', long = "threads", value_name = "NUM", default_value_t = 4,
          value_parser = clap::value_parser!(u32).range(1..=256))]
    threads: u32,

    /// Its backlog of connections
    #[arg(short = 'b', long = "listen-backlog", value_name = "NUM", default_value_t = 1024,
          value_parser = clap::value_parser!(u32).range(1..=65_535))]
    listen_backlog: u32,

    /// Print the findings as JSON (schema curtail.doctor/1, in docs/guide/doctor.md)
    #[arg(long)]
    json: bool,
}

pub(crate) fn run(flags: &Flags) -> anyhow::Result<ExitCode> {
    let wanted = Wanted {
        memory_bytes: flags.memory_limit << 20,
        connections: flags.conn_limit,
        workers: flags.threads,
        backlog: flags.listen_backlog,
        lab: cfg!(feature = "lab"),
    };
    let machine = gather::machine(&Shown::here());
    let findings = judge::findings(&machine, &wanted);
    let text = if flags.json {
        show::json(&findings).context("write the findings as JSON")?
    } else {
        show::text(&findings)
    };
    // A reader that has seen enough, such as `head`, is no failure of this machine's.
    match std::io::stdout().lock().write_all(text.as_bytes()) {
        Err(error) if error.kind() != std::io::ErrorKind::BrokenPipe => {
            return Err(error).context("write the findings to standard output");
        }
        _ => {}
    }
    Ok(match findings.iter().any(finding::Finding::is_wrong) {
        true => ExitCode::FAILURE,
        false => ExitCode::SUCCESS,
    })
}

#[cfg(test)]
mod tests;
