//! Who may depend on whom.
//!
//! - Every crate has a row in `xtask/layers.toml`, and every row a crate.
//! - A row's edges lead to its own layer or one below, never up, and never to the outside.
//! - `[dependencies]` and `[build-dependencies]` draw only edges of the row.
//! - `[dev-dependencies]` may also draw edges to pure crates: they are values in, values out, and
//!   bring no engine into the test of another. Tests that need more stand in `tests/`, outside.

use super::Violation;
use super::layers::{self, Layer, Layers};
use super::manifests::{Manifest, Manifests};

/// Compares the table with itself and with every manifest.
pub(crate) fn check(manifests: &Manifests, layers: &Layers) -> Vec<Violation> {
    let mut found = table(manifests, layers);
    for manifest in &manifests.crates {
        if layers.layer(&manifest.name).is_none() {
            let what = format!("the crate {} has no row", manifest.name);
            let remedy = format!("name it and its edges in {}", layers::PATH);
            found.push(Violation::new(&manifest.path, 1, what, remedy));
        } else {
            found.extend(drawn(manifest, manifests, layers));
        }
    }
    found
}

/// Edges a manifest draws and its row does not.
fn drawn(manifest: &Manifest, manifests: &Manifests, layers: &Layers) -> Vec<Violation> {
    let mut found = Vec::new();
    for dependency in &manifest.dependencies {
        let (from, to) = (manifest.name.as_str(), dependency.name.as_str());
        let for_tests = dependency.only_tests && layers.layer(to) == Some(Layer::Pure);
        if manifests.has(to) && !for_tests && !layers.draws(from, to) {
            let remedy = if dependency.only_tests {
                "a crate's own tests use pure crates and those of its row; others stand in tests/"
                    .to_owned()
            } else {
                format!("the edges are those of {}", layers::PATH)
            };
            let what = format!("{from} may not depend on {to}");
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

/// Rows without a crate, and edges that lead up or out.
fn table(manifests: &Manifests, layers: &Layers) -> Vec<Violation> {
    let mut found = Vec::new();
    let mut report = |what: String, remedy: &str| {
        found.push(Violation::new(layers::PATH, 1, what, remedy));
    };
    for (layer, member, row) in layers.rows() {
        if !manifests.has(member) {
            report(
                format!("the row {member} has no crate"),
                "remove it until the crate is born",
            );
        }
        if layers
            .rows()
            .filter(|(_, other, _)| *other == member)
            .count()
            > 1
        {
            report(format!("{member} stands in two layers"), "leave one");
        }
        for to in row {
            match layers.layer(to) {
                _ if to == "*" && layer == Layer::Outside => {}
                None => report(
                    format!("{member} leads to {to}, which has no row"),
                    "remove it",
                ),
                Some(Layer::Outside) => {
                    report(
                        format!("{member} leads outside, to {to}"),
                        "nothing depends on tools",
                    );
                }
                Some(other) if other > layer => {
                    report(
                        format!("{member} leads up, to {to}"),
                        "move what it needs down",
                    );
                }
                Some(_) => {}
            }
        }
    }
    found
}

#[cfg(test)]
mod tests {
    use super::super::manifests;
    use super::super::tree::Tree;
    use super::*;

    const TABLE: &str = "[pure]\nprotocol = []\nmodel = [\"protocol\"]\n[platform]\nstore = []\n\
        [engines]\nsession = [\"protocol\", \"store\"]\n[programs]\n[outside]\n";

    fn judged(table: &str, crates: &[(&str, &str)]) -> Vec<String> {
        let files: Vec<(String, String)> = crates
            .iter()
            .map(|(name, rest)| {
                let text = format!("[package]\nname = \"{name}\"\n{rest}");
                (format!("crates/{name}/Cargo.toml"), text)
            })
            .collect();
        let files: Vec<(&str, &str)> = files
            .iter()
            .map(|(path, text)| (path.as_str(), text.as_str()))
            .collect();
        let (manifests, found) = manifests::read(&Tree::of(&files));
        assert!(found.is_empty(), "{found:?}");
        check(&manifests, &Layers::parse(table).unwrap())
            .iter()
            .map(ToString::to_string)
            .collect()
    }

    #[test]
    fn edges_of_the_table_and_tests_with_pure_rooms_are_welcome() {
        let found = judged(
            TABLE,
            &[
                ("protocol", ""),
                ("model", "[dependencies]\nprotocol.workspace = true\n"),
                ("store", "[dev-dependencies]\nmodel.workspace = true\n"),
                (
                    "session",
                    "[dependencies]\nprotocol.workspace = true\nstore.workspace = true\n",
                ),
            ],
        );
        assert!(found.is_empty(), "{found:?}");
    }

    #[test]
    fn an_edge_the_table_does_not_draw_is_named_with_its_line() {
        let found = judged(
            TABLE,
            &[
                ("protocol", ""),
                ("model", ""),
                (
                    "store",
                    "[dependencies]\nlibc = \"1\"\nprotocol.workspace = true\n",
                ),
                ("session", ""),
            ],
        );
        assert_eq!(found.len(), 1, "{found:?}");
        assert!(found[0].starts_with("crates/store/Cargo.toml:5: store may not depend on proto"));
    }

    #[test]
    fn tests_may_not_reach_engines() {
        let found = judged(
            TABLE,
            &[
                ("protocol", ""),
                ("model", ""),
                ("store", "[dev-dependencies]\nsession.workspace = true\n"),
                ("session", ""),
            ],
        );
        assert_eq!(found.len(), 1, "{found:?}");
        assert!(found[0].contains("others stand in tests/"));
    }

    #[test]
    fn crates_without_a_row_and_rows_without_a_crate_are_named() {
        let found = judged(
            "[pure]\nprotocol = []\n[platform]\n[engines]\n[programs]\n[outside]\n",
            &[("stranger", "")],
        );
        assert!(
            found
                .iter()
                .any(|line| line.contains("the crate stranger has no row"))
        );
        assert!(
            found
                .iter()
                .any(|line| line.contains("the row protocol has no crate"))
        );
    }

    #[test]
    fn the_table_may_not_lead_up_or_out() {
        let table = "[pure]\nprotocol = [\"store\", \"xtask\", \"nobody\"]\n[platform]\nstore = []\n\
            [engines]\n[programs]\n[outside]\nxtask = []\n";
        let found = judged(table, &[("protocol", ""), ("store", ""), ("xtask", "")]);
        assert!(found.iter().any(|line| line.contains("leads up, to store")));
        assert!(
            found
                .iter()
                .any(|line| line.contains("leads outside, to xtask"))
        );
        assert!(found.iter().any(|line| line.contains("leads to nobody")));
    }
}
