//! Fuzzing one target for a while.

use anyhow::{Context, Result, bail};
use serde::Deserialize;

use crate::cargo;

const MANIFEST: &str = "fuzz/Cargo.toml";

/// Fuzzes the target called `name`; lists them without one.
pub(crate) fn run(name: Option<&str>, seconds: u32) -> Result<()> {
    let path = cargo::root().join(MANIFEST);
    let text = std::fs::read_to_string(&path).with_context(|| {
        format!("failed to open {MANIFEST}, where the fuzz targets are declared")
    })?;
    let targets = targets(&text)?;
    let Some(name) = name else {
        println!("the fuzz targets are: {}", targets.join(", "));
        return Ok(());
    };
    if !targets.iter().any(|target| target == name) {
        bail!(
            "no fuzz target is called {name:?}; there are: {}",
            targets.join(", ")
        );
    }
    if !cargo::has("+nightly") {
        bail!("fuzzing needs a nightly compiler: rustup toolchain install nightly");
    }
    if !cargo::has("fuzz") {
        bail!("fuzzing needs cargo-fuzz: cargo install cargo-fuzz");
    }
    cargo::run(&[
        "+nightly",
        "fuzz",
        "run",
        name,
        "--",
        &format!("-max_total_time={seconds}"),
    ])
}

/// The names of the manifest's programs.
fn targets(manifest: &str) -> Result<Vec<String>> {
    #[derive(Deserialize)]
    struct Manifest {
        #[serde(default)]
        bin: Vec<Bin>,
    }
    #[derive(Deserialize)]
    struct Bin {
        name: String,
    }
    let manifest: Manifest =
        toml::from_str(manifest).with_context(|| format!("failed to read {MANIFEST}"))?;
    Ok(manifest.bin.into_iter().map(|bin| bin.name).collect())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn targets_are_the_programs_of_the_manifest() {
        let manifest = "[package]\nname = \"fuzz\"\n[[bin]]\nname = \"request\"\npath = \"a.rs\"\n\
                        [[bin]]\nname = \"reply\"\npath = \"b.rs\"\n";
        assert_eq!(targets(manifest).unwrap(), ["request", "reply"]);
    }
}
