//! What the slowest operations of the store take: visits for each, and time, while items of all
//! sizes come and go in a memory that is nine tenths full, the index grows, and the limit moves.
//!
//! `[--quick] [churn|replicas]`: twenty seconds for each part instead of ten minutes, or one part
//! alone. In the *churn* one thread works and another tends, as in the server; what the machine
//! takes is in its figures. *Replicas* are three stores that do the same, so that what the machine
//! takes from one of them can be told from what the store takes itself.
#![allow(
    clippy::print_stdout,
    clippy::print_stderr,
    reason = "a benchmark speaks to the terminal"
)]

mod churn;
mod findings;
mod replicas;
mod requests;
mod ticks;
mod times;

use std::process::ExitCode;

use rivals::cases::chosen;
use store::Config;

const MEMORY: u64 = 256 << 20;

const CONFIG: Config = Config {
    memory_bytes: MEMORY,
    memory_max: 2 * MEMORY,
    hash_seed: 7,
    ..Config::DEFAULT
};

fn main() -> ExitCode {
    let words: Vec<String> = std::env::args().skip(1).collect();
    let seconds = match words.iter().any(|word| word == "--quick") {
        true => 20,
        false => 600,
    };
    let wanted = words.iter().find(|word| !word.starts_with("--"));
    let parts = match chosen(&["churn", "replicas"], wanted.map(String::as_str)) {
        Ok(parts) => parts,
        Err(error) => {
            eprintln!("store-tail: {error}");
            return ExitCode::FAILURE;
        }
    };
    if parts.contains(&"churn") {
        churn::print(seconds);
    }
    if parts.contains(&"replicas") {
        replicas::print(seconds);
    }
    ExitCode::SUCCESS
}
