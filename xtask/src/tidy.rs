//! The rules of the repository no compiler knows.
//!
//! Each rule is one file and one function from a [`Tree`] (the repository's files as text) to
//! [`Violation`]s, tested on a tree of a few lines. All violations are listed at once, each with
//! its place and its remedy.
//!
//! ```text
//! git ls-files ─ Tree ┬ edges         who may depend on whom         xtask/layers.toml
//!                     ├ cycles        modules are in layers          `cargo xtask modules CRATE`
//!                     ├ dependencies  each is accounted for          docs/dependencies.md
//!                     ├ unsafety      none outside the platform layer
//!                     ├ purity        no I/O and no clock in the pure layer
//!                     ├ orderings     atomics say what they pair with
//!                     ├ documents     paths named in documents exist
//!                     ├ retired       names that were replaced          xtask/retired.toml
//!                     ├ lines         width, trailing blanks, final newline
//!                     └ words         names and promises that say nothing
//! ```

mod cycles;
mod dependencies;
mod documents;
mod edges;
mod layers;
mod lines;
mod manifests;
mod orderings;
mod purity;
mod retired;
mod rust;
mod tree;
mod unsafety;
mod violation;
mod words;

use anyhow::{Context, Result, bail};

use crate::limits::Limits;
use layers::Layers;
use retired::Retired;
use tree::Tree;
use violation::Violation;

/// Checks the repository and lists everything that is wrong.
pub(crate) fn run() -> Result<()> {
    let tree = Tree::read(&crate::cargo::root())?;
    let limits = Limits::load()?;
    let table = tree
        .text(layers::PATH)
        .with_context(|| format!("{} is missing", layers::PATH))?;
    let list = tree
        .text(retired::PATH)
        .with_context(|| format!("{} is missing", retired::PATH))?;
    let mut violations = violations(&tree, &Layers::parse(table)?, &limits);
    violations.extend(retired::check(&tree, &Retired::parse(list)?));
    if violations.is_empty() {
        println!("{} files are tidy", tree.files().len());
        return Ok(());
    }
    for violation in &violations {
        println!("{violation}");
    }
    bail!("{} places are not tidy", violations.len());
}

/// Prints the layers of a crate's modules, the highest first.
pub(crate) fn modules(member: &str) -> Result<()> {
    let picture = cycles::picture(&Tree::read(&crate::cargo::root())?, member);
    if picture.is_empty() {
        bail!("{member} is no crate with modules");
    }
    print!("{picture}");
    Ok(())
}

/// All rules over one tree, in the order of places.
fn violations(tree: &Tree, layers: &Layers, limits: &Limits) -> Vec<Violation> {
    let (manifests, mut found) = manifests::read(tree);
    let (sources, untokenised) = rust::read(tree);
    found.extend(untokenised);
    found.extend(edges::check(&manifests, layers));
    found.extend(cycles::check(tree, &limits.module_cycles));
    found.extend(dependencies::check(tree, &manifests));
    found.extend(unsafety::check(&sources, layers));
    found.extend(purity::check(&sources, layers));
    found.extend(orderings::check(&sources));
    found.extend(documents::check(tree, &limits.paths));
    found.extend(lines::check(tree));
    found.extend(words::check(tree, &sources, &limits.words));
    found.sort();
    found.dedup();
    found
}
