//! Which module of a crate imports which: paths resolved to the modules that define their items.

use std::collections::{BTreeMap, BTreeSet};

use super::syntax::{self, Module, Segments};
use crate::tidy::tree::Tree;

/// A library or program: its modules, each a file, and what they import from each other.
#[derive(Debug)]
pub(crate) struct Target {
    /// All files, the first one first; a module comes before those below it.
    pub(crate) files: Vec<ModuleFile>,
    /// From a file to another, with the first line that needs it.
    pub(crate) imports: BTreeMap<(usize, usize), usize>,
}

/// A module that is a file.
#[derive(Debug)]
pub(crate) struct ModuleFile {
    /// From the root of the repository.
    pub(crate) path: String,
    /// Below the crate, `a::b`; empty for the first file.
    pub(crate) name: String,
    /// The module that declares it.
    pub(crate) parent: Option<usize>,
    /// Without those of tests.
    pub(crate) lines: usize,
}

/// A module of any kind, inline ones too.
struct Scope {
    module: Module,
    /// Its index in [`Target::files`], or that of the module around.
    file: usize,
    parent: Option<usize>,
    children: BTreeMap<String, usize>,
}

/// What a path leads to.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
enum Found {
    Scope(usize),
    /// An item by name, and what follows it in the path.
    Item(usize, String, Option<String>),
}

/// Reads the library or program that begins with the file `root`. Files that are missing or no
/// Rust are left out: compilers name them.
pub(crate) fn read(tree: &Tree, root: &str) -> Target {
    let mut reader = Reader {
        tree,
        files: Vec::new(),
        scopes: Vec::new(),
    };
    let folder = root.rsplit_once('/').map_or("", |(folder, _)| folder);
    reader.file(root, folder, "", None);
    let imports = imports(&reader.scopes);
    Target {
        files: reader.files,
        imports,
    }
}

struct Reader<'t> {
    tree: &'t Tree,
    files: Vec<ModuleFile>,
    scopes: Vec<Scope>,
}

impl Reader<'_> {
    /// Reads a file whose modules are in `folder`.
    fn file(
        &mut self,
        path: &str,
        folder: &str,
        name: &str,
        parent: Option<usize>,
    ) -> Option<usize> {
        let text = self.tree.text(path)?;
        let module = syntax::parse(text).ok()?;
        let file = self.files.len();
        self.files.push(ModuleFile {
            path: path.to_owned(),
            name: name.to_owned(),
            parent: parent.map(|scope| self.scopes[scope].file),
            lines: text.lines().count().saturating_sub(module.test_lines),
        });
        Some(self.scope(module, folder, name, file, parent))
    }

    fn scope(
        &mut self,
        mut module: Module,
        folder: &str,
        name: &str,
        file: usize,
        parent: Option<usize>,
    ) -> usize {
        let index = self.scopes.len();
        let declared = std::mem::take(&mut module.declared);
        let inline = std::mem::take(&mut module.inline);
        self.scopes.push(Scope {
            module,
            file,
            parent,
            children: BTreeMap::new(),
        });
        for child in declared {
            let path = format!("{folder}/{child}.rs");
            let name = below(name, &child);
            if let Some(scope) = self.file(&path, &format!("{folder}/{child}"), &name, Some(index))
            {
                self.scopes[index].children.insert(child, scope);
            }
        }
        for (child, module) in inline {
            let (folder, name) = (format!("{folder}/{child}"), below(name, &child));
            let scope = self.scope(module, &folder, &name, file, Some(index));
            self.scopes[index].children.insert(child, scope);
        }
        index
    }
}

fn below(name: &str, child: &str) -> String {
    if name.is_empty() {
        child.to_owned()
    } else {
        format!("{name}::{child}")
    }
}

/// Resolves everything that modules name.
fn imports(scopes: &[Scope]) -> BTreeMap<(usize, usize), usize> {
    let names = Names { scopes };
    let mut methods: BTreeMap<(usize, String, String), BTreeSet<usize>> = BTreeMap::new();
    for (index, scope) in scopes.iter().enumerate() {
        for (owner, method) in &scope.module.methods {
            if let Some(Found::Item(home, item, _)) = names.resolve(index, owner) {
                let modules = methods.entry((home, item, method.clone())).or_default();
                modules.insert(scope.file);
            }
        }
    }
    let mut imports = BTreeMap::new();
    for (index, scope) in scopes.iter().enumerate() {
        let mut add = |file: usize, line: usize| {
            if file != scope.file {
                let first = imports.entry((scope.file, file)).or_insert(line);
                *first = line.min(*first);
            }
        };
        let module = &scope.module;
        let imported = module.imports.iter().map(|import| &import.from);
        for named in imported.chain(&module.paths) {
            match names.resolve(index, &named.path) {
                Some(Found::Scope(target)) => add(scopes[target].file, named.line),
                Some(Found::Item(home, item, rest)) => {
                    add(scopes[home].file, named.line);
                    let method = rest.and_then(|method| methods.get(&(home, item, method)));
                    for file in method.into_iter().flatten() {
                        add(*file, named.line);
                    }
                }
                None => {}
            }
        }
        for (owner, method) in &module.calls {
            if let Some(Found::Item(home, item, _)) = names.resolve(index, &owner.path)
                && let Some(modules) = methods.get(&(home, item, method.clone()))
                // With several methods of the name, for instance one for each platform, which
                // one is meant is not known.
                && !modules.contains(&scope.file)
            {
                modules.iter().for_each(|file| add(*file, owner.line));
            }
        }
    }
    imports
}

struct Names<'s> {
    scopes: &'s [Scope],
}

impl Names<'_> {
    /// Where a path that stands in `scope` leads; `None` out of the crate.
    fn resolve(&self, scope: usize, path: &Segments) -> Option<Found> {
        self.follow(scope, path, &mut BTreeSet::new())
    }

    /// `seen` has the imports that are being followed, since imports may form a cycle.
    fn follow(
        &self,
        scope: usize,
        path: &[String],
        seen: &mut BTreeSet<(usize, usize)>,
    ) -> Option<Found> {
        let mut at = scope;
        for (index, segment) in path.iter().enumerate() {
            match segment.as_str() {
                "crate" => at = 0,
                "self" => {}
                "super" => at = self.scopes[at].parent?,
                name => {
                    let last = index + 1 == path.len();
                    match self.look_up(at, name, last, seen)? {
                        Found::Scope(next) => at = next,
                        Found::Item(home, item, _) => {
                            return Some(Found::Item(home, item, path.get(index + 1).cloned()));
                        }
                    }
                }
            }
        }
        Some(Found::Scope(at))
    }

    /// A name in a module: an item of it, a module below, or an import.
    fn look_up(
        &self,
        at: usize,
        name: &str,
        last: bool,
        seen: &mut BTreeSet<(usize, usize)>,
    ) -> Option<Found> {
        let scope = &self.scopes[at];
        let child = scope.children.get(name).map(|child| Found::Scope(*child));
        if !last && child.is_some() {
            return child;
        }
        if scope.module.defined.contains(name) {
            return Some(Found::Item(at, name.to_owned(), None));
        }
        let named = |wanted: Option<&str>, seen: &mut BTreeSet<(usize, usize)>| {
            let imports = scope.module.imports.iter().enumerate();
            for (index, import) in imports.filter(|(_, it)| it.name.as_deref() == wanted) {
                if !seen.insert((at, index)) {
                    continue;
                }
                let mut path = import.from.path.clone();
                if wanted.is_none() {
                    path.push(name.to_owned());
                }
                let found = self.follow(at, &path, seen);
                seen.remove(&(at, index));
                if found.is_some() {
                    return found;
                }
            }
            None
        };
        // What is not found is in another crate.
        named(Some(name), seen)
            .or(child)
            .or_else(|| named(None, seen))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn edges(files: &[(&str, &str)]) -> Vec<String> {
        let target = read(&Tree::of(files), files[0].0);
        let name = |file: &usize| match target.files[*file].name.as_str() {
            "" => "lib",
            name => name,
        };
        let edges = target.imports.iter();
        edges
            .map(|((from, to), line)| format!("{} -> {} ({line})", name(from), name(to)))
            .collect()
    }

    #[test]
    fn paths_lead_to_the_module_that_defines_the_item() {
        let found = edges(&[
            ("src/lib.rs", "mod a;\nmod b;\npub use b::Deep;"),
            (
                "src/a.rs",
                "use crate::Deep;\nfn f() { super::b::g(); std::fs::read(); }",
            ),
            ("src/b.rs", "mod c;\npub use c::Deep;\npub fn g() {}"),
            ("src/b/c.rs", "pub struct Deep;\nuse self::Deep as Other;"),
        ]);
        assert_eq!(
            found,
            [
                "lib -> b::c (3)",
                "a -> b (2)",
                "a -> b::c (1)",
                "b -> b::c (2)"
            ]
        );
    }

    #[test]
    fn an_impl_imports_its_type_and_a_call_the_method() {
        let found = edges(&[
            ("src/lib.rs", "mod a;\nmod b;\nmod c;\nmod d;"),
            (
                "src/a.rs",
                "pub struct A;\nimpl A { fn go(&self) { self.far(); } }",
            ),
            (
                "src/b.rs",
                "use crate::a::A;\nimpl A { pub fn far(&self) { Self::near(); } }",
            ),
            ("src/c.rs", "use crate::a::A;\nimpl A { pub fn near() {} }"),
            ("src/d.rs", "fn f() { crate::a::A::near(); }"),
        ]);
        assert_eq!(
            found,
            [
                "a -> b (2)",
                "b -> a (1)",
                "b -> c (2)",
                "c -> a (1)",
                "d -> a (1)",
                "d -> c (1)"
            ]
        );
    }

    #[test]
    fn imports_of_everything_are_looked_through() {
        let found = edges(&[
            ("src/lib.rs", "mod a;\nmod b;\nmod c;"),
            ("src/a.rs", "pub use crate::b::*;"),
            ("src/b.rs", "pub struct B;\npub use crate::a::*;"),
            ("src/c.rs", "use crate::a::B;\nuse crate::a::Missing;"),
        ]);
        assert_eq!(found, ["a -> b (1)", "b -> a (2)", "c -> b (1)"]);
    }

    #[test]
    fn lines_of_tests_and_test_modules_are_left_out() {
        let files = [
            ("src/lib.rs", "mod a;\n#[cfg(test)]\nmod t;"),
            (
                "src/a.rs",
                "fn f() {}\n#[cfg(test)]\nmod tests {\n    use crate::t;\n}",
            ),
            ("src/t.rs", ""),
        ];
        let target = read(&Tree::of(&files), "src/lib.rs");
        assert_eq!(target.files.len(), 2);
        assert_eq!(target.files[1].lines, 1);
        assert!(target.imports.is_empty());
    }
}
