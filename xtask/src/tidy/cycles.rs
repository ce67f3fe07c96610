//! Modules are in layers: at every level, siblings do not import each other in a cycle.
//!
//! Each sibling stands for its subtree. A module and those below it may import each other if the
//! folder is small; in a larger one the module's own file counts as one of the siblings. A path
//! leads to the module that defines the item, whatever modules export it again. An `impl` imports
//! its type, and a call of a method on `self`, or by the name of its type, imports the module
//! which defines the method. Code that only tests contain is left out.
//!
//! What the rule cannot see: calls of methods on anything but `self` (the receiver's type is not
//! known), and macros of the crate's own.
//!
//! A crate that has cycles is listed in `xtask/limits.toml` with the number of modules in them,
//! which may only become smaller.

mod imports;
mod levels;
mod syntax;

use std::cmp::Ordering;
use std::collections::BTreeMap;
use std::fmt::Write as _;

use super::Violation;
use super::tree::Tree;
use crate::limits;
use imports::Target;
use levels::{Example, Level};

/// Compares the cycles of every crate with the list of those that are known.
pub(crate) fn check(tree: &Tree, listed: &BTreeMap<String, usize>) -> Vec<Violation> {
    // Of each crate: the number of its modules in cycles, and the cycles.
    let mut crates: BTreeMap<&str, (usize, Vec<Violation>)> = BTreeMap::new();
    for (member, root) in roots(tree) {
        let target = imports::read(tree, root);
        for level in levels::levels(&target) {
            for cycle in level.cycles() {
                let (count, cycles) = crates.entry(member).or_default();
                *count += cycle.len();
                cycles.push(describe(&target, &level, &cycle));
            }
        }
    }
    for member in listed.keys() {
        crates.entry(member).or_default();
    }
    let mut found = Vec::new();
    for (member, (count, cycles)) in crates {
        let known = listed.get(member).copied().unwrap_or_default();
        let (what, remedy) = match count.cmp(&known) {
            Ordering::Equal => continue,
            Ordering::Greater => {
                found.extend(cycles);
                let what = format!("{member} has {count} modules in cycles, {known} are known");
                (what, "add none")
            }
            Ordering::Less => {
                let what =
                    format!("{member} is listed with {known} modules in cycles and has {count}");
                (what, "lower the number in module_cycles")
            }
        };
        found.push(Violation::new(limits::PATH, 1, what, remedy));
    }
    found
}

/// The layers of a crate's modules, and the imports within its cycles, as text.
pub(crate) fn picture(tree: &Tree, member: &str) -> String {
    let mut text = String::new();
    for (_, root) in roots(tree).filter(|(name, _)| *name == member) {
        let target = imports::read(tree, root);
        for level in levels::levels(&target) {
            draw(&mut text, &target, &level);
        }
    }
    text
}

fn draw(text: &mut String, target: &Target, level: &Level) {
    let name = |file: usize| {
        let name = target.files[file].name.as_str();
        let (_, last) = name.rsplit_once("::").unwrap_or(("", name));
        if last.is_empty() { "(root)" } else { last }
    };
    let _ = writeln!(text, "{}", target.files[level.parent].path);
    for layer in level.layers().iter().rev() {
        let groups = layer.iter().map(|group| {
            let names: Vec<&str> = group.iter().map(|it| name(*it)).collect();
            match names.as_slice() {
                [alone] => (*alone).to_owned(),
                cycle => format!("( {} )", cycle.join(" ")),
            }
        });
        let _ = writeln!(text, "    {}", groups.collect::<Vec<_>>().join(" "));
    }
    for cycle in level.cycles() {
        for ((from, to), example) in &level.imports {
            if cycle.contains(from) && cycle.contains(to) {
                let place = place(target, *example);
                let _ = writeln!(
                    text,
                    "        {} imports {}: {place}",
                    name(*from),
                    name(*to)
                );
            }
        }
    }
}

fn place(target: &Target, example: Example) -> String {
    format!("{}:{}", target.files[example.from].path, example.line)
}

fn describe(target: &Target, level: &Level, cycle: &[usize]) -> Violation {
    let way = level.shortest(cycle);
    let steps = way.iter().map(|example| {
        let to = &target.files[example.to].name;
        format!("{} imports {to}", place(target, *example))
    });
    let what = format!(
        "{} modules import each other in a cycle ({})",
        cycle.len(),
        steps.collect::<Vec<_>>().join(", ")
    );
    let (file, line) = way
        .first()
        .map_or((cycle[0], 1), |example| (example.from, example.line));
    let remedy = "move what both need below them, or pass it as an argument or a trait";
    Violation::new(&target.files[file].path, line, what, remedy)
}

/// The first files of all libraries and programs, with the folder that the crate is named after.
fn roots(tree: &Tree) -> impl Iterator<Item = (&str, &str)> {
    tree.files().iter().filter_map(|file| {
        let (folder, source) = file.path.split_once("/src/")?;
        let member = folder.strip_prefix("crates/").unwrap_or(folder);
        let program = source
            .strip_prefix("bin/")
            .is_some_and(|it| !it.contains('/'));
        let first = matches!(source, "lib.rs" | "main.rs") || program;
        (first && !member.contains('/')).then_some((member, file.path.as_str()))
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    const CYCLE: [(&str, &str); 3] = [
        ("crates/x/src/lib.rs", "mod a;\nmod b;"),
        ("crates/x/src/a.rs", "pub struct A;\nuse crate::b::B;"),
        ("crates/x/src/b.rs", "pub struct B;\n\nuse crate::a::A;"),
    ];

    fn judged(files: &[(&str, &str)], listed: &[(&str, usize)]) -> Vec<String> {
        let listed = listed
            .iter()
            .map(|(name, count)| ((*name).to_owned(), *count));
        check(&Tree::of(files), &listed.collect())
            .iter()
            .map(ToString::to_string)
            .collect()
    }

    #[test]
    fn a_cycle_is_named_with_its_imports() {
        let found = judged(&CYCLE, &[]);
        assert_eq!(found.len(), 2, "{found:?}");
        assert!(
            found[0].starts_with(
                "crates/x/src/a.rs:2: 2 modules import each other in a cycle \
                 (crates/x/src/a.rs:2 imports b, crates/x/src/b.rs:3 imports a)"
            ),
            "{found:?}"
        );
    }

    #[test]
    fn the_known_number_may_only_become_smaller() {
        assert_eq!(judged(&CYCLE, &[("x", 2)]), [""; 0]);
        let found = judged(&CYCLE, &[("x", 1)]);
        assert!(
            found[1].contains("x has 2 modules in cycles, 1 are known"),
            "{found:?}"
        );
        let found = judged(&CYCLE, &[("x", 3)]);
        assert!(
            found[0].contains("is listed with 3 modules in cycles and has 2"),
            "{found:?}"
        );
        let found = judged(&CYCLE[..1], &[("gone", 3)]);
        assert!(found[0].contains("gone is listed with 3"), "{found:?}");
    }

    #[test]
    fn the_picture_has_the_highest_layer_first() {
        let files = [
            ("crates/x/src/lib.rs", "mod a;\nmod b;\nmod c;"),
            ("crates/x/src/a.rs", "pub struct A;\nuse crate::b::B;"),
            CYCLE[2],
            ("crates/x/src/c.rs", "use crate::b::B;"),
        ];
        let expected = "crates/x/src/lib.rs\n    a c\n    b\n";
        let without: Vec<(&str, &str)> = files
            .into_iter()
            .map(|(path, text)| (path, text.trim_end_matches("\n\nuse crate::a::A;")))
            .collect();
        assert_eq!(picture(&Tree::of(&without), "x"), expected);
        let with = picture(&Tree::of(&files), "x");
        assert!(with.contains("( a b )"), "{with}");
        assert!(with.contains("b imports a: crates/x/src/b.rs:3"), "{with}");
    }
}
