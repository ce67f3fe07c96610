//! Instructions an operation: what a noisy neighbour cannot change.
//!
//! This program calls itself under `valgrind --tool=cachegrind`, once for so many requests and once
//! for twice as many; the difference is theirs alone.

use std::process::{Command, Stdio};

use crate::subject::Kind;
use crate::{Case, NEAR, Records, case, prepared, requests, work};

/// Word before the name of a case, a cache and a count, by which this program tells itself to do so
/// many requests once.
pub(crate) const BARE: &str = "--bare";
/// Items: few, since cachegrind takes fifty times as long.
const ITEMS: u32 = NEAR / 10;
const REQUESTS: usize = 20_000;

/// The cases: how far memory is does not matter here.
const CASES: [Case; 5] = [
    case("gets", ITEMS, 0, 1, 1),
    case("gets in bursts of 16", ITEMS, 0, 16, 1),
    case("95/5", ITEMS, 5, 1, 1),
    case("50/50", ITEMS, 50, 1, 1),
    case("sets", ITEMS, 100, 1, 1),
];

/// Prints the table.
pub(crate) fn print(kinds: &[Kind]) {
    println!("\ninstructions an operation, user mode, {ITEMS} items that fit");
    let version = Command::new("valgrind").arg("--version").output();
    if version.is_err() {
        println!("  skipped: valgrind is not installed");
        return;
    }
    let kinds = kinds.iter().copied();
    let kinds = kinds.filter(|kind| !kind.is_apart() && *kind != Kind::CurtailHuge);
    let kinds: Vec<Kind> = kinds.collect();
    let names: String = kinds.iter().map(|k| format!("{:>22}", k.name())).collect();
    println!("  {:<22}{names}", "");
    for case in CASES {
        let counts: String = kinds
            .iter()
            .map(|kind| {
                let of = |requests| counted(case.name, *kind, requests);
                match (of(REQUESTS), of(2 * REQUESTS)) {
                    (Some(once), Some(twice)) => {
                        let each = twice.saturating_sub(once) as f64 / REQUESTS as f64;
                        format!("{each:22.0}")
                    }
                    _ => format!("{:>22}", "failed"),
                }
            })
            .collect();
        println!("  {:<22}{counts}", case.name);
    }
}

/// Does the requests of a case once, as the words after [`BARE`] say.
pub(crate) fn bare(words: &[String]) {
    let [name, cache, count] = words else {
        return;
    };
    let case = CASES.into_iter().find(|case| case.name == name);
    let kind = Kind::ALL.into_iter().find(|kind| kind.name() == cache);
    let (Some(case), Some(kind), Ok(count)) = (case, kind, count.parse::<usize>()) else {
        return;
    };
    let case = Case {
        requests: 2 * REQUESTS,
        ..case
    };
    let records = Records::of(case);
    let mut handles = prepared(case, kind, &records);
    // All are drawn, however many are made.
    let stream = requests(case, 0);
    for handle in &mut handles {
        std::hint::black_box(work(handle.as_mut(), &records, &stream[..count], case));
    }
}

/// Instructions of a whole process.
fn counted(name: &str, kind: Kind, requests: usize) -> Option<u64> {
    let program = std::env::current_exe().ok()?;
    let output = Command::new("valgrind")
        .args([
            "--tool=cachegrind",
            "--cache-sim=no",
            "--cachegrind-out-file=/dev/null",
        ])
        .arg(program)
        .args([BARE, name, kind.name(), &requests.to_string()])
        .stdout(Stdio::null())
        .output()
        .ok()?;
    // ==123== I refs:        1,234,567
    let text = String::from_utf8(output.stderr).ok()?;
    let line = text
        .lines()
        .find(|line| line.contains("I refs:") || line.contains("I   refs:"))?;
    let number: String = line
        .rsplit(':')
        .next()?
        .chars()
        .filter(char::is_ascii_digit)
        .collect();
    number.parse().ok()
}
