//! Every dependency is accounted for.
//!
//! Versions stand once, in `[workspace.dependencies]`; each entry that is not a crate has a row
//! in the table under `## Crates` of `docs/dependencies.md`, with every cell filled.

use super::Violation;
use super::manifests::Manifests;
use super::tree::Tree;

const DOCUMENT: &str = "docs/dependencies.md";
const HEADING: &str = "## Crates";
const ROOT: &str = "Cargo.toml";

/// Compares the workspace table with the document.
pub(crate) fn check(tree: &Tree, manifests: &Manifests) -> Vec<Violation> {
    let rows = rows(tree.text(DOCUMENT).unwrap_or_default());
    let mut found = versions(manifests);
    for entry in manifests.table.iter().filter(|entry| !entry.member) {
        if !rows.iter().any(|row| row.name == entry.name) {
            let what = format!("{} has no row in {DOCUMENT}", entry.name);
            let remedy = "say there why it is taken and what else was weighed";
            found.push(Violation::new(ROOT, entry.line, what, remedy));
        }
    }
    for row in rows {
        if !manifests.table.iter().any(|entry| entry.name == row.name) {
            let what = format!("{} is not in [workspace.dependencies]", row.name);
            found.push(Violation::new(DOCUMENT, row.line, what, "remove its row"));
        }
        if !row.filled {
            let what = format!("the row of {} has an empty cell", row.name);
            found.push(Violation::new(DOCUMENT, row.line, what, "fill it"));
        }
    }
    found
}

/// Versions stated anywhere but in the workspace table.
fn versions(manifests: &Manifests) -> Vec<Violation> {
    let mut found = Vec::new();
    for manifest in &manifests.crates {
        for dependency in manifest.dependencies.iter().filter(|it| !it.inherited) {
            let what = format!("{} states its own version", dependency.name);
            let remedy = "versions stand once: write `workspace = true`";
            found.push(Violation::new(
                &manifest.path,
                dependency.line,
                what,
                remedy,
            ));
        }
    }
    found
}

/// A row of the document.
struct Row {
    name: String,
    line: usize,
    filled: bool,
}

/// The rows `| \`name\` | … |` between the heading and the next.
fn rows(document: &str) -> Vec<Row> {
    let mut rows = Vec::new();
    let mut inside = false;
    for (index, line) in document.lines().enumerate() {
        if line.starts_with("## ") {
            inside = line.trim_end() == HEADING;
        } else if inside && line.starts_with("| `") {
            let cells: Vec<&str> = line
                .trim()
                .trim_matches('|')
                .split('|')
                .map(str::trim)
                .collect();
            rows.push(Row {
                name: cells[0].trim_matches('`').to_owned(),
                line: index + 1,
                filled: cells.len() == 4 && cells.iter().all(|cell| !cell.is_empty()),
            });
        }
    }
    rows
}

#[cfg(test)]
mod tests {
    use super::super::manifests;
    use super::*;

    const DOCUMENT_TEXT: &str = "# Dependencies\n\n## Crates\n\n| crate | why | weighed | where |\n\
        |---|---|---|---|\n| `libc` | gaps | rustix alone | platform |\n\n## Tools\n\n| `memcached` |\n";

    fn judged(root: &str, store: &str, document: &str) -> Vec<String> {
        let store = format!("[package]\nname = \"store\"\n[dependencies]\n{store}");
        let tree = Tree::of(&[
            (ROOT, root),
            ("crates/store/Cargo.toml", &store),
            (DOCUMENT, document),
        ]);
        let (manifests, found) = manifests::read(&tree);
        assert!(found.is_empty(), "{found:?}");
        check(&tree, &manifests)
            .iter()
            .map(ToString::to_string)
            .collect()
    }

    #[test]
    fn a_dependency_with_a_row_is_welcome() {
        let root =
            "[workspace.dependencies]\nstore = { path = \"crates/store\" }\nlibc = \"0.2\"\n";
        assert_eq!(
            judged(root, "libc.workspace = true\n", DOCUMENT_TEXT),
            [""; 0]
        );
    }

    #[test]
    fn a_dependency_without_row_is_named_with_its_line() {
        let root = "[workspace.dependencies]\nlibc = \"0.2\"\nmemchr = \"2\"\n";
        let found = judged(root, "libc.workspace = true\n", DOCUMENT_TEXT);
        assert!(
            found[0].starts_with("Cargo.toml:3: memchr has no row"),
            "{found:?}"
        );
    }

    #[test]
    fn a_row_without_dependency_and_an_empty_cell_are_named() {
        let document = "## Crates\n| `libc` | | x | platform |\n| `gone` | a | b | c |\n";
        let root = "[workspace.dependencies]\nlibc = \"0.2\"\n";
        let found = judged(root, "libc.workspace = true\n", document);
        assert!(
            found
                .iter()
                .any(|it| it.contains(":2: the row of libc has an empty cell"))
        );
        assert!(found.iter().any(|it| it.contains(":3: gone is not in")));
    }

    #[test]
    fn a_version_in_a_crate_is_named() {
        let root = "[workspace.dependencies]\nlibc = \"0.2\"\n";
        let found = judged(root, "libc = \"0.2\"\n", DOCUMENT_TEXT);
        assert_eq!(found.len(), 1);
        assert!(found[0].starts_with("crates/store/Cargo.toml:4: libc states its own version"));
    }
}
