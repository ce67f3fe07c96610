//! The siblings of each level of a crate's modules, their layers, and the cycles among them.

use std::collections::{BTreeMap, BTreeSet, VecDeque};

use super::imports::Target;

/// Lines of a folder, its module's own file included, up to which that file and the modules below
/// it may import each other.
const SMALL_FOLDER: usize = 1500;

/// The modules below one module, each standing for its subtree, and what they import from each
/// other. In a large folder the module's own file is among them.
#[derive(Debug)]
pub(crate) struct Level {
    /// The module whose folder this is.
    pub(crate) parent: usize,
    /// Indices into [`Target::files`].
    pub(crate) siblings: Vec<usize>,
    /// From one sibling to another: the file with the import, its line, and the file imported.
    pub(crate) imports: BTreeMap<(usize, usize), Example>,
}

/// One import that stands for all of an edge.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct Example {
    pub(crate) from: usize,
    pub(crate) line: usize,
    pub(crate) to: usize,
}

/// All levels with siblings, the highest first.
pub(crate) fn levels(target: &Target) -> Vec<Level> {
    let sizes = sizes(target);
    let mut levels: BTreeMap<usize, Level> = BTreeMap::new();
    for (index, file) in target.files.iter().enumerate() {
        let Some(parent) = file.parent else { continue };
        let level = levels.entry(parent).or_insert_with(|| Level {
            parent,
            siblings: Vec::new(),
            imports: BTreeMap::new(),
        });
        if level.siblings.is_empty() && sizes[parent] > SMALL_FOLDER {
            level.siblings.push(parent);
        }
        level.siblings.push(index);
    }
    for (&(from, to), &line) in &target.imports {
        let (above_from, above_to) = (lineage(target, from), lineage(target, to));
        let shared = above_from
            .iter()
            .zip(&above_to)
            .take_while(|(a, b)| a == b)
            .count();
        let Some(level) = levels.get_mut(&above_from[shared - 1]) else {
            continue;
        };
        // A module that is above the other stands for its own file here.
        let ends = [&above_from, &above_to].map(|above| above.get(shared).copied());
        let [first, second] = ends.map(|end| end.unwrap_or(level.parent));
        if level.siblings.contains(&first) && level.siblings.contains(&second) {
            let example = Example { from, line, to };
            level.imports.entry((first, second)).or_insert(example);
        }
    }
    levels.into_values().collect()
}

/// The modules from the first file down to this one.
fn lineage(target: &Target, file: usize) -> Vec<usize> {
    let mut above: Vec<usize> =
        std::iter::successors(Some(file), |it| target.files[*it].parent).collect();
    above.reverse();
    above
}

/// Lines of each module with all below.
fn sizes(target: &Target) -> Vec<usize> {
    let mut sizes = vec![0; target.files.len()];
    for (index, file) in target.files.iter().enumerate() {
        for above in lineage(target, index) {
            sizes[above] += file.lines;
        }
    }
    sizes
}

impl Level {
    /// The siblings in layers, the lowest first: each imports only from layers below its own,
    /// except those of one cycle, which share a layer as one group.
    pub(crate) fn layers(&self) -> Vec<Vec<Vec<usize>>> {
        let mut layers: Vec<Vec<Vec<usize>>> = Vec::new();
        let mut height: BTreeMap<usize, usize> = BTreeMap::new();
        let mut rest = self.groups();
        while !rest.is_empty() {
            let (now, later): (Vec<_>, Vec<_>) = rest.into_iter().partition(|group| {
                let mut imported = group.iter().flat_map(|it| self.imported(*it));
                imported.all(|it| group.contains(&it) || height.contains_key(&it))
            });
            let placed = layers.len();
            height.extend(now.iter().flatten().map(|it| (*it, placed)));
            layers.push(now);
            rest = later;
        }
        layers
    }

    /// The groups of several modules that all import each other, by way of others or not.
    pub(crate) fn cycles(&self) -> Vec<Vec<usize>> {
        let mut groups = self.groups();
        groups.retain(|group| group.len() > 1);
        groups
    }

    /// One of the shortest ways from a module of the cycle back to itself.
    pub(crate) fn shortest(&self, cycle: &[usize]) -> Vec<Example> {
        let ways = cycle.iter().filter_map(|start| self.way_back(*start));
        ways.min_by_key(Vec::len).unwrap_or_default()
    }

    fn way_back(&self, start: usize) -> Option<Vec<Example>> {
        let mut reached: BTreeMap<usize, usize> = BTreeMap::new();
        let mut queue = VecDeque::from([start]);
        while let Some(at) = queue.pop_front() {
            for next in self.imported(at) {
                if next == start {
                    let back = |it: &usize| reached.get(it).copied();
                    let mut way: Vec<usize> = std::iter::successors(Some(at), back).collect();
                    way.reverse();
                    way.push(start);
                    return Some(
                        way.windows(2)
                            .map(|it| self.imports[&(it[0], it[1])])
                            .collect(),
                    );
                }
                reached.entry(next).or_insert_with(|| {
                    queue.push_back(next);
                    at
                });
            }
        }
        None
    }

    fn imported(&self, from: usize) -> impl Iterator<Item = usize> {
        let imports = self.imports.range((from, 0)..=(from, usize::MAX));
        imports.map(|((_, to), _)| *to)
    }

    /// The siblings, those of a cycle together: the strongly connected components.
    fn groups(&self) -> Vec<Vec<usize>> {
        let reached: BTreeMap<usize, BTreeSet<usize>> = self
            .siblings
            .iter()
            .map(|it| (*it, self.reached(*it)))
            .collect();
        let mut groups: Vec<Vec<usize>> = Vec::new();
        for sibling in &self.siblings {
            let mutual = |group: &&mut Vec<usize>| {
                reached[sibling].contains(&group[0]) && reached[&group[0]].contains(sibling)
            };
            match groups.iter_mut().find(mutual) {
                Some(group) => group.push(*sibling),
                None => groups.push(vec![*sibling]),
            }
        }
        groups
    }

    fn reached(&self, from: usize) -> BTreeSet<usize> {
        let mut reached = BTreeSet::new();
        let mut open = vec![from];
        while let Some(at) = open.pop() {
            open.extend(self.imported(at).filter(|next| reached.insert(*next)));
        }
        reached
    }
}

#[cfg(test)]
mod tests {
    use super::super::imports::read;
    use super::*;
    use crate::tidy::tree::Tree;

    fn target(files: &[(&str, &str)]) -> Target {
        read(&Tree::of(files), files[0].0)
    }

    fn names(target: &Target, group: &[usize]) -> String {
        let names = group.iter().map(|it| target.files[*it].name.as_str());
        names.collect::<Vec<_>>().join(" ")
    }

    #[test]
    fn siblings_stand_for_what_is_below_them() {
        let target = target(&[
            ("src/lib.rs", "mod a;\nmod b;\nmod c;"),
            ("src/a.rs", "mod deep;"),
            ("src/a/deep.rs", "pub struct A;\nuse crate::b::B;"),
            ("src/b.rs", "pub struct B;\nuse crate::c::C;"),
            (
                "src/c.rs",
                "pub struct C;\nuse crate::a::deep::A;\nuse crate::b::B;",
            ),
        ]);
        let level = &levels(&target)[0];
        let cycles = level.cycles();
        assert_eq!(cycles.len(), 1);
        assert_eq!(names(&target, &cycles[0]), "a b c");
        let shortest = level.shortest(&cycles[0]);
        assert_eq!(
            shortest.iter().map(|it| it.line).collect::<Vec<_>>(),
            [2, 3]
        );
    }

    #[test]
    fn layers_read_upward() {
        let target = target(&[
            ("src/lib.rs", "mod a;\nmod b;\nmod c;\nmod d;"),
            ("src/a.rs", "use crate::b::B;\nuse crate::d::D;"),
            ("src/b.rs", "pub struct B;\nuse crate::c::C;"),
            ("src/c.rs", "pub struct C;"),
            ("src/d.rs", "pub struct D;"),
        ]);
        let layers = levels(&target)[0].layers();
        let spelt = layers.iter().map(|layer| names(&target, &layer.concat()));
        assert_eq!(spelt.collect::<Vec<_>>(), ["c d", "b", "a"]);
    }

    #[test]
    fn a_module_and_those_below_it_are_free_in_a_small_folder_only() {
        let cycles = |lines: usize| {
            let long = format!("pub struct A;\nmod b;\nuse b::B;{}", "\n".repeat(lines));
            let target = target(&[
                ("src/lib.rs", "mod a;"),
                ("src/a.rs", &long),
                ("src/a/b.rs", "pub struct B;\nuse super::A;"),
            ]);
            let levels = levels(&target);
            levels
                .iter()
                .map(|level| level.cycles().len())
                .sum::<usize>()
        };
        assert_eq!(cycles(1400), 0);
        assert_eq!(cycles(1600), 1);
    }
}
