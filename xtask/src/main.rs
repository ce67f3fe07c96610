//! The verbs of the workspace: one each, the same locally and in continuous integration.
//!
//! `cargo xtask ci` runs all that decides whether a change may enter, cheapest first. Every verb
//! prints what it runs, so that whoever wants to leave this tool aside knows what to type.

#![forbid(unsafe_code)]
#![allow(
    clippy::print_stdout,
    clippy::print_stderr,
    reason = "a verb speaks to the terminal; it is all it does"
)]

mod bench;
mod calibrate;
mod cargo;
mod check;
mod ci;
mod clients;
mod dependencies;
mod fuzz;
mod limits;
mod models;
mod peers;
mod sanitize;
mod sim;
mod smoke;
mod suite;
mod tidy;
mod upstream;

use std::process::ExitCode;

use clap::{Parser, Subcommand};

/// The checks that keep the workspace in order.
#[derive(Parser)]
#[command(name = "cargo xtask", bin_name = "cargo xtask")]
struct Arguments {
    #[command(subcommand)]
    verb: Verb,
}

#[derive(Subcommand)]
enum Verb {
    /// Formatting and lints, warnings denied
    Check,
    /// All tests, counted; arguments choose some
    Test {
        /// Arguments of `cargo nextest run`, or of `cargo test` without it, such as `-p store`
        #[arg(trailing_var_arg = true, allow_hyphen_values = true)]
        arguments: Vec<String>,
    },
    /// The rules of the repository no compiler knows
    Tidy,
    /// The layers of a crate's modules, the highest first, with the imports of each cycle
    Modules {
        /// The crate
        name: String,
    },
    /// Fuzz one target; without a name, list them
    Fuzz {
        /// A target of `fuzz/`
        name: Option<String>,
        /// How long
        #[arg(long, default_value_t = 60)]
        seconds: u32,
    },
    /// Run a benchmark, or all of a crate; without a name, list them
    Bench {
        /// A benchmark or a crate
        name: Option<String>,
        /// Arguments of the benchmark
        #[arg(trailing_var_arg = true, allow_hyphen_values = true)]
        arguments: Vec<String>,
    },
    /// Lint and test the benchmarks next to other caches and schedulers (`studies/peers`)
    Peers,
    /// Hold the instrument against servers of known latency and print the table
    Calibrate {
        /// Arguments of the calibration
        #[arg(trailing_var_arg = true, allow_hyphen_values = true)]
        arguments: Vec<String>,
    },
    /// What threads share without locks: in many sequentially consistent orders (shuttle), and
    /// three parts of the store in weak ones, which alone show a missing fence (loom)
    Models,
    /// The store under the address sanitizer, where a nightly compiler is installed
    Sanitize {
        /// How long values are searched for those that are torn
        #[arg(long, default_value_t = 180)]
        seconds: u32,
    },
    /// The shortest experiment, from release build to report
    Smoke,
    /// Scenarios of the memory pool with faults, in virtual time, judged for linearizability
    Sim {
        /// Tells of this one; without it, many are run
        seed: Option<u64>,
        /// The first of many
        #[arg(long, default_value_t = 0)]
        first: u64,
        /// How many
        #[arg(long, default_value_t = 1000)]
        count: u64,
    },
    /// memcached's own tests, from its source tree, against this server
    Upstream(upstream::Options),
    /// Client libraries of others, the slow ones too, against this server and memcached
    Clients {
        /// A part of a test's name, such as `dalli`
        filter: Option<String>,
    },
    /// Versions, licences and sources of dependencies, those nobody uses, and their number
    Dependencies,
    /// What is known to be wrong with dependencies
    Advisories,
    /// Lints of each feature alone, such as the production server
    Features,
    /// All that decides whether a change may enter, cheapest first
    Ci,
}

fn main() -> ExitCode {
    let outcome = match Arguments::parse().verb {
        Verb::Check => check::all(),
        Verb::Test { arguments } => suite::run_and_print(&arguments),
        Verb::Tidy => tidy::run(),
        Verb::Modules { name } => tidy::modules(&name),
        Verb::Fuzz { name, seconds } => fuzz::run(name.as_deref(), seconds),
        Verb::Bench { name, arguments } => bench::run(name.as_deref(), &arguments),
        Verb::Peers => peers::run(),
        Verb::Calibrate { arguments } => calibrate::run(&arguments),
        Verb::Models => models::run(),
        Verb::Sanitize { seconds } => sanitize::run(seconds),
        Verb::Smoke => smoke::run(),
        Verb::Sim { seed, first, count } => sim::run(seed, first, count),
        Verb::Upstream(options) => upstream::run(&options),
        Verb::Clients { filter } => clients::run(filter.as_deref()),
        Verb::Dependencies => dependencies::check(),
        Verb::Advisories => dependencies::advisories(),
        Verb::Features => check::features(),
        Verb::Ci => return ci::run(),
    };
    match outcome {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("error: {error:#}");
            ExitCode::FAILURE
        }
    }
}
