//! What the slowest operations of the store take: visits for each, and time, while items of all
//! sizes come and go in a memory that is nine tenths full, the index grows, and the limit moves.
//!
//! `[--quick] [--seconds N] [churn|replicas]`: twenty seconds for each part, or so many, instead of
//! ten minutes; one part alone. In the *churn* one thread works and another tends, as in the
//! server; what the machine takes is in its figures. *Replicas* are three stores that do the same,
//! twice, so that what the machine takes from one of them can be told from what the store takes.
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

use peers::cases::chosen;
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
    let (seconds, parts) = match asked(&words) {
        Ok(asked) => asked,
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

/// Seconds for each part, and the parts.
fn asked(words: &[String]) -> Result<(u64, Vec<&'static str>), String> {
    let (mut seconds, mut wanted) = (600, None);
    let mut words = words.iter().map(String::as_str);
    while let Some(word) = words.next() {
        match word {
            // Of `cargo bench`.
            "--bench" => {}
            "--quick" => seconds = 20,
            "--seconds" => {
                let asked = words.next().and_then(|count| count.parse().ok());
                seconds = asked.ok_or("--seconds wants a number")?;
            }
            _ if word.starts_with("--") => return Err(format!("there is no option {word}")),
            _ => wanted = Some(word),
        }
    }
    Ok((seconds, chosen(&["churn", "replicas"], wanted)?))
}
