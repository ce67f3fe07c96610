//! Benchmarks by name.

use anyhow::{Result, bail};

use crate::cargo::{self, Package};

/// Runs the benchmark called `name`, or all of the crate or family (`store` of `store-speed`)
/// called so; lists them without one.
pub(crate) fn run(name: Option<&str>, arguments: &[String]) -> Result<()> {
    let benches = find(&cargo::metadata()?.packages);
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
        let mut line = vec![
            "bench",
            "--package",
            &bench.package,
            "--bench",
            &bench.name,
            "--",
        ];
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
}

impl Bench {
    fn is_meant_by(&self, name: &str) -> bool {
        let of_family = |rest: &str| rest.starts_with('-');
        self.name == name
            || self.package == name
            || self.name.strip_prefix(name).is_some_and(of_family)
    }
}

fn find(packages: &[Package]) -> Vec<Bench> {
    let mut benches = Vec::new();
    for package in packages {
        for target in &package.targets {
            if target.kind.iter().any(|kind| kind == "bench") {
                benches.push(Bench {
                    package: package.name.clone(),
                    name: target.name.clone(),
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
                  {"name": "store", "kind": ["lib"]},
                  {"name": "reads", "kind": ["bench"]}]},
                {"name": "sys", "targets": [{"name": "sys", "kind": ["lib"]}]}]"#,
        )
        .unwrap();
        let benches = find(&packages);
        assert_eq!(
            benches,
            [Bench {
                package: "store".into(),
                name: "reads".into()
            }]
        );
        let is_meant = |name: &str| benches[0].is_meant_by(name);
        assert!(is_meant("reads") && is_meant("store"));
        assert!(!is_meant("read") && !is_meant("sys"));
        let family = Bench {
            package: "rivals".into(),
            name: "store-speed".into(),
        };
        assert!(family.is_meant_by("store"));
        assert!(listed(&benches).contains("reads (of store)"));
        assert!(listed(&[]).contains("no benchmarks"));
    }
}
