//! The manifests of the workspace's crates.
//!
//! The workspace is flat: a crate lies in `crates/NAME`, in `tests` or in `xtask`. The fuzz
//! targets and `studies/peers` are workspaces of their own: only a nightly compiler builds the
//! former, and no program or test needs the latter. What they depend on is not read here.

use toml::{Table, Value};

use super::Violation;
use super::tree::Tree;
use crate::peers;

const FUZZ: &str = "fuzz/Cargo.toml";

/// The workspace's manifests.
#[derive(Debug, Default)]
pub(crate) struct Manifests {
    /// One for each crate.
    pub(crate) crates: Vec<Manifest>,
    /// Entries of `[workspace.dependencies]`.
    pub(crate) table: Vec<Entry>,
}

/// A crate's manifest.
#[derive(Debug)]
pub(crate) struct Manifest {
    /// Of the file.
    pub(crate) path: String,
    /// Of the package.
    pub(crate) name: String,
    /// What it depends on, all sections.
    pub(crate) dependencies: Vec<Dependency>,
}

/// A dependency of a crate.
#[derive(Debug)]
pub(crate) struct Dependency {
    /// The package's own name, even where the crate renames it.
    pub(crate) name: String,
    /// It stands in `[dev-dependencies]`.
    pub(crate) only_tests: bool,
    /// Its version comes from the workspace table.
    pub(crate) inherited: bool,
    /// Where it is written.
    pub(crate) line: usize,
}

/// An entry of `[workspace.dependencies]`.
#[derive(Debug)]
pub(crate) struct Entry {
    /// The package.
    pub(crate) name: String,
    /// It is a crate of the workspace.
    pub(crate) member: bool,
    /// Where it is written, in the root manifest.
    pub(crate) line: usize,
}

impl Manifests {
    /// Whether a crate of the workspace is called so.
    pub(crate) fn has(&self, name: &str) -> bool {
        self.crates.iter().any(|manifest| manifest.name == name)
    }
}

/// Reads all manifests; what cannot be read, or lies where none belongs, is a violation.
pub(crate) fn read(tree: &Tree) -> (Manifests, Vec<Violation>) {
    let mut manifests = Manifests::default();
    let mut found = Vec::new();
    for file in tree.files().iter().filter(|file| is_manifest(&file.path)) {
        let table: Table = match file.text.parse() {
            Ok(table) => table,
            Err(error) => {
                let what = format!("not TOML: {error}");
                found.push(Violation::new(&file.path, 1, what, "correct it"));
                continue;
            }
        };
        if file.path == "Cargo.toml" {
            manifests.table = entries(&table, &file.text);
        } else if let Some(manifest) = manifest(&file.path, &table, &file.text) {
            found.extend(misplaced(&manifest));
            manifests.crates.push(manifest);
        }
    }
    (manifests, found)
}

fn is_manifest(path: &str) -> bool {
    let is_apart = path == FUZZ || path == peers::MANIFEST;
    (path == "Cargo.toml" || path.ends_with("/Cargo.toml")) && !is_apart
}

fn misplaced(manifest: &Manifest) -> Option<Violation> {
    let place = manifest.path.trim_end_matches("/Cargo.toml");
    let flat = place == "tests"
        || place == "xtask"
        || place.strip_prefix("crates/") == Some(manifest.name.as_str());
    (!flat).then(|| {
        let what = format!("the crate {} lies in {place}", manifest.name);
        Violation::new(
            &manifest.path,
            1,
            what,
            "a crate lies in crates/ under its own name",
        )
    })
}

fn manifest(path: &str, table: &Table, text: &str) -> Option<Manifest> {
    let name = table.get("package")?.get("name")?.as_str()?.to_owned();
    let mut dependencies = Vec::new();
    collect(table, text, &mut dependencies);
    for target in table
        .get("target")
        .and_then(Value::as_table)
        .into_iter()
        .flat_map(Table::values)
    {
        if let Some(target) = target.as_table() {
            collect(target, text, &mut dependencies);
        }
    }
    Some(Manifest {
        path: path.to_owned(),
        name,
        dependencies,
    })
}

fn collect(table: &Table, text: &str, dependencies: &mut Vec<Dependency>) {
    for section in ["dependencies", "build-dependencies", "dev-dependencies"] {
        let Some(entries) = table.get(section).and_then(Value::as_table) else {
            continue;
        };
        for (key, value) in entries {
            dependencies.push(Dependency {
                name: package(key, value),
                only_tests: section == "dev-dependencies",
                inherited: value.get("workspace").and_then(Value::as_bool) == Some(true),
                line: line_of(text, section, key),
            });
        }
    }
}

fn entries(root: &Table, text: &str) -> Vec<Entry> {
    let table = root
        .get("workspace")
        .and_then(|workspace| workspace.get("dependencies"));
    let Some(table) = table.and_then(Value::as_table) else {
        return Vec::new();
    };
    table
        .iter()
        .map(|(key, value)| Entry {
            name: package(key, value),
            member: value.get("path").is_some(),
            line: line_of(text, "dependencies", key),
        })
        .collect()
}

fn package(key: &str, value: &Value) -> String {
    value
        .get("package")
        .and_then(Value::as_str)
        .unwrap_or(key)
        .to_owned()
}

/// The line of `key` in a section whose header ends with `section`.
fn line_of(text: &str, section: &str, key: &str) -> usize {
    let header = format!("{section}]");
    let own_header = format!("{section}.{key}]");
    let mut inside = false;
    for (index, line) in text.lines().enumerate() {
        let line = line.trim();
        if line.starts_with('[') {
            let end = line.split(['.', '[']).next_back().unwrap_or_default();
            inside = end == header;
            if line.ends_with(&own_header) {
                return index + 1;
            }
        } else if inside
            && line
                .strip_prefix(key)
                .is_some_and(|rest| rest.starts_with([' ', '.', '=']))
        {
            return index + 1;
        }
    }
    1
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_section_is_read_with_names_and_lines() {
        let text = "[package]\nname = \"load\"\n\
            [dependencies]\nsys.workspace = true\nhash = { package = \"rapidhash\", version = \"4\" }\n\
            [dev-dependencies]\nsys = { workspace = true }\n\
            [target.'cfg(unix)'.dependencies.libc]\nworkspace = true\n";
        let (manifests, found) = read(&Tree::of(&[("crates/load/Cargo.toml", text)]));
        assert!(found.is_empty(), "{found:?}");
        let seen: Vec<_> = manifests.crates[0]
            .dependencies
            .iter()
            .map(|it| (it.name.as_str(), it.only_tests, it.inherited, it.line))
            .collect();
        assert!(seen.contains(&("sys", false, true, 4)));
        assert!(seen.contains(&("rapidhash", false, false, 5)));
        assert!(seen.contains(&("sys", true, true, 7)));
        assert!(seen.contains(&("libc", false, true, 8)));
    }

    #[test]
    fn a_crate_lies_under_its_own_name() {
        let text = "[package]\nname = \"load\"\n";
        let places = ["crates/load", "crates/generator", "crates/load/inner"];
        let judged = places.map(|place| {
            let path = format!("{place}/Cargo.toml");
            read(&Tree::of(&[(path.as_str(), text)])).1.len()
        });
        assert_eq!(judged, [0, 1, 1]);
    }

    #[test]
    fn a_manifest_that_is_not_toml_is_named() {
        let (_, found) = read(&Tree::of(&[("crates/load/Cargo.toml", "[package\n")]));
        assert_eq!(found[0].path, "crates/load/Cargo.toml");
    }
}
