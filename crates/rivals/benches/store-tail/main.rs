//! What the slowest operations of the store take: visits for each, and time, while items of all
//! sizes come and go in a memory that is nine tenths full, the index grows, and the limit moves.
//!
//! `[--quick] [churn]`: twenty seconds instead of ten minutes. `churn.rs` says what is done and
//! what the figures are worth.
#![allow(clippy::print_stdout, reason = "a benchmark speaks to the terminal")]

mod churn;
mod requests;
mod ticks;
mod times;

use store::Config;

const MEMORY: u64 = 256 << 20;

const CONFIG: Config = Config {
    memory_bytes: MEMORY,
    memory_max: 2 * MEMORY,
    hash_seed: 7,
    ..Config::DEFAULT
};

fn main() {
    let quick = std::env::args().any(|word| word == "--quick");
    let seconds = if quick { 20 } else { 600 };
    churn::print(seconds);
}
