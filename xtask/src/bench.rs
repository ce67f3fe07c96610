//! Benchmarks by name.

use anyhow::{Result, bail};

use crate::cargo::{self, Package};
use crate::peers;

/// Runs the benchmark called `name`, or all of the crate or family (`store` of
/// `benches/store/speed/main.rs`) called so; lists them without one.
pub(crate) fn run(name: Option<&str>, arguments: &[String]) -> Result<()> {
    let mut benches = find(&cargo::metadata()?.packages, None);
    let packages = cargo::metadata_of(peers::MANIFEST)?.packages;
    benches.extend(find(&packages, Some(peers::MANIFEST)));
    let Some(name) = name else {
        println!("{}", listed(&benches));
        return Ok(());
    };
    let chosen: Vec<&Bench> = benches
        .iter()
        .filter(|bench| bench.is_meant_by(name))
        .collect();
    if chosen.is_empty() {
        bail!(
            "no benchmark or crate with benchmarks is called {name:?}; {}",
            listed(&benches)
        );
    }
    for bench in chosen {
        let mut line = vec!["bench"];
        if let Some(manifest) = bench.manifest {
            line.extend(["--manifest-path", manifest]);
        }
        line.extend(["--package", &bench.package, "--bench", &bench.name, "--"]);
        line.extend(arguments.iter().map(String::as_str));
        cargo::run(&line)?;
    }
    Ok(())
}

/// A benchmark of a crate.
#[derive(Debug, PartialEq, Eq)]
struct Bench {
    package: String,
    name: String,
    /// The folder below `benches` that it stands in.
    family: Option<String>,
    /// Of a workspace of its own.
    manifest: Option<&'static str>,
}

impl Bench {
    fn is_meant_by(&self, name: &str) -> bool {
        self.name == name || self.package == name || self.family.as_deref() == Some(name)
    }
}

fn find(packages: &[Package], manifest: Option<&'static str>) -> Vec<Bench> {
    let mut benches = Vec::new();
    for package in packages {
        for target in &package.targets {
            if target.kind.iter().any(|kind| kind == "bench") {
                let below = target.src_path.rsplit_once("/benches/");
                let family = below.and_then(|(_, path)| path.split_once('/'));
                benches.push(Bench {
                    package: package.name.clone(),
                    name: target.name.clone(),
                    family: family.map(|(folder, _)| folder.to_owned()),
                    manifest,
                });
            }
        }
    }
    benches
}

fn listed(benches: &[Bench]) -> String {
    if benches.is_empty() {
        return "there are no benchmarks yet: they live in `benches/` inside a crate".to_owned();
    }
    let mut text = "the benchmarks are:".to_owned();
    for bench in benches {
        text.push_str(&format!("\n  {} (of {})", bench.name, bench.package));
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_benchmarks_are_found_and_the_list_names_their_crates() {
        let packages: Vec<Package> = serde_json::from_str(
            r#"[{"name": "store", "targets": [
                  {"name": "store", "kind": ["lib"], "src_path": "/store/src/lib.rs"},
                  {"name": "reads", "kind": ["bench"], "src_path": "/store/benches/far/a.rs"}]},
                {"name": "sys", "targets": [
                  {"name": "sys", "kind": ["lib"], "src_path": "/sys/src/lib.rs"}]}]"#,
        )
        .unwrap();
        let benches = find(&packages, None);
        assert_eq!(
            benches,
            [Bench {
                package: "store".into(),
                name: "reads".into(),
                family: Some("far".into()),
                manifest: None,
            }]
        );
        let is_meant = |name: &str| benches[0].is_meant_by(name);
        assert!(is_meant("reads") && is_meant("store") && is_meant("far"));
        assert!(!is_meant("read") && !is_meant("sys"));
        assert!(listed(&benches).contains("reads (of store)"));
        assert!(listed(&[]).contains("no benchmarks"));
    }
}
