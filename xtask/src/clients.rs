//! The client libraries of others, all of them: the slow ones too, and each against an installed
//! memcached for comparison.

use anyhow::Result;

use crate::suite::{self, Tally};

/// Runs the clients whose test has a name that begins with `filter`; an error if one of them cannot
/// run. `memcached` is the one on the PATH, or that of the variable `MEMCACHED`.
pub(crate) fn run(filter: Option<&str>) -> Result<()> {
    let names = format!("clients::{}", filter.unwrap_or_default());
    let line = [
        "test",
        "--package",
        "curtail-tests",
        "--test",
        "on_runtimes",
        "--",
        &names,
        "--skip",
        "::bypass",
        "--include-ignored",
        "--show-output",
    ];
    let mut command = crate::cargo::command(&line);
    command.env("CURTAIL_CLIENTS_ALL", "1");
    suite::logged(command, "clients", &mut Tally::default())
}
