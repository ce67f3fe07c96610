//! How many packages the production server is built from.
//!
//! Each is code that runs beside other people's data. The bound stands in `xtask/limits.toml`,
//! so that a dependency that brings twenty more is noticed by whoever adds it.

use std::collections::BTreeSet;

use anyhow::{Result, bail};

use crate::cargo;
use crate::limits::{self, Limits};

/// Counts and compares.
pub(crate) fn run() -> Result<()> {
    let tree = cargo::output(&[
        "tree",
        "--package",
        "curtail",
        "--no-default-features",
        "--features",
        "serve",
        "--edges",
        "normal",
        "--prefix",
        "none",
        "--format",
        "{p}",
    ])?;
    let census = Census::of(&tree);
    let bound = Limits::load()?.serve_crates;
    println!(
        "{} packages in the production server ({} members of this workspace, {} from elsewhere); \
         the bound is {bound}",
        census.total(),
        census.members.len(),
        census.elsewhere.len(),
    );
    if census.total() > bound {
        for package in &census.elsewhere {
            println!("  {package}");
        }
        bail!(
            "{} packages exceed serve_crates = {bound}: leave the newest out, or raise the bound \
             in {} and say why",
            census.total(),
            limits::PATH
        );
    }
    Ok(())
}

/// Packages by origin, each `name vVERSION` once.
#[derive(Debug, Default, PartialEq, Eq)]
struct Census {
    members: BTreeSet<String>,
    elsewhere: BTreeSet<String>,
}

impl Census {
    /// Reads the lines of `cargo tree --prefix none --format {p}`: a crate shows its path.
    fn of(tree: &str) -> Self {
        let mut census = Self::default();
        for line in tree.lines() {
            let mut words = line.split_whitespace();
            let (Some(name), Some(version)) = (words.next(), words.next()) else {
                continue;
            };
            let here = words.next().is_some_and(|word| word.starts_with("(/"));
            let origin = if here {
                &mut census.members
            } else {
                &mut census.elsewhere
            };
            origin.insert(format!("{name} {version}"));
        }
        census
    }

    fn total(&self) -> usize {
        self.members.len() + self.elsewhere.len()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_package_counts_once_and_two_versions_twice() {
        let tree = "curtail v0.1.0 (/checkout/crates/curtail)\n\
                    store v0.1.0 (/checkout/crates/store)\n\
                    libc v0.2.1\n\
                    thiserror-impl v2.0.0 (proc-macro)\n\
                    libc v0.2.1 (*)\n\
                    libc v0.3.0\n\n\
                    store v0.1.0 (/checkout/crates/store) (*)\n";
        let census = Census::of(tree);
        assert_eq!(census.members.len(), 2);
        assert_eq!(
            census
                .elsewhere
                .iter()
                .map(String::as_str)
                .collect::<Vec<_>>(),
            ["libc v0.2.1", "libc v0.3.0", "thiserror-impl v2.0.0"]
        );
        assert_eq!(census.total(), 5);
    }
}
