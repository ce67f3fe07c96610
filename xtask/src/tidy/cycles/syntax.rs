//! What one file says about modules: which it declares, what it defines, imports and names.

use std::collections::BTreeSet;

use proc_macro2::{Delimiter, Span, TokenStream, TokenTree};
use syn::spanned::Spanned;
use syn::visit::{self, Visit};
use syn::{Attribute, ImplItem, Item, Meta, Path, Type, UseTree};

/// The segments of a path, without generic arguments.
pub(crate) type Segments = Vec<String>;

/// A module as it is written, without the code that only tests contain.
#[derive(Debug, Default)]
pub(crate) struct Module {
    /// Modules declared as `mod name;`.
    pub(crate) declared: Vec<String>,
    /// Modules written as `mod name { … }`.
    pub(crate) inline: Vec<(String, Module)>,
    /// Names of the items defined here.
    pub(crate) defined: BTreeSet<String>,
    /// Imports, also those inside functions.
    pub(crate) imports: Vec<Import>,
    /// Other paths of more than one segment.
    pub(crate) paths: Vec<Named>,
    /// Methods defined by inherent implementations: the type, and the method's name.
    pub(crate) methods: Vec<(Segments, String)>,
    /// Methods called on `self`, or as `Self::…`, in an `impl`: the type, and the method's name.
    pub(crate) calls: Vec<(Named, String)>,
    /// Lines of the items that only tests contain.
    pub(crate) test_lines: usize,
}

/// A path with its place.
#[derive(Debug, Clone)]
pub(crate) struct Named {
    pub(crate) path: Segments,
    /// From 1.
    pub(crate) line: usize,
}

/// One name of a `use`.
#[derive(Debug)]
pub(crate) struct Import {
    /// As it is known here; `None` if it stands for everything in the path (`*`).
    pub(crate) name: Option<String>,
    pub(crate) from: Named,
}

/// Parses a file; an error is text for people.
pub(crate) fn parse(text: &str) -> Result<Module, String> {
    let file = syn::parse_file(text).map_err(|error| error.to_string())?;
    let mut module = Module::default();
    if file.attrs.iter().any(is_test) {
        return Ok(module);
    }
    module.read(&file.items);
    Ok(module)
}

impl Module {
    fn read(&mut self, items: &[Item]) {
        let mut reader = Reader {
            module: self,
            implemented: None,
        };
        for item in items {
            reader.define(item);
            reader.visit_item(item);
        }
    }
}

struct Reader<'m> {
    module: &'m mut Module,
    /// The type of the `impl` around.
    implemented: Option<Segments>,
}

impl Reader<'_> {
    fn define(&mut self, item: &Item) {
        let name = match item {
            Item::Const(it) => &it.ident,
            Item::Enum(it) => &it.ident,
            Item::Fn(it) => &it.sig.ident,
            Item::Static(it) => &it.ident,
            Item::Struct(it) => &it.ident,
            Item::Trait(it) => &it.ident,
            Item::Type(it) => &it.ident,
            Item::Union(it) => &it.ident,
            _ => return,
        };
        if !attributes(item).iter().any(is_test) {
            self.module.defined.insert(name.to_string());
        }
    }

    fn import(&mut self, tree: &UseTree, prefix: &Segments, line: usize) {
        let mut path = prefix.clone();
        let name = match tree {
            UseTree::Path(it) => {
                path.push(it.ident.to_string());
                return self.import(&it.tree, &path, line);
            }
            UseTree::Group(group) => {
                for tree in &group.items {
                    self.import(tree, prefix, line_of(tree.span()));
                }
                return;
            }
            UseTree::Glob(_) => None,
            // `self` in a group is the prefix itself.
            UseTree::Name(it) if it.ident == "self" => path.last().cloned(),
            UseTree::Name(it) => {
                path.push(it.ident.to_string());
                Some(it.ident.to_string())
            }
            UseTree::Rename(it) => {
                if it.ident != "self" {
                    path.push(it.ident.to_string());
                }
                Some(it.rename.to_string())
            }
        };
        let from = Named { path, line };
        self.module.imports.push(Import { name, from });
    }

    fn name(&mut self, path: Segments, line: usize) {
        match (path.as_slice(), &self.implemented) {
            ([first, method, ..], Some(owner)) if first == "Self" => {
                self.call(&owner.clone(), method, line);
            }
            ([_, _, ..], _) => self.module.paths.push(Named { path, line }),
            _ => {}
        }
    }

    fn call(&mut self, owner: &Segments, method: &str, line: usize) {
        let owner = Named {
            path: owner.clone(),
            line,
        };
        self.module.calls.push((owner, method.to_owned()));
    }

    /// Paths and calls on `self` in the tokens of a macro.
    fn scan(&mut self, tokens: TokenStream) {
        let trees: Vec<TokenTree> = tokens.into_iter().collect();
        let mark = |at: usize, mark: char| matches!(trees.get(at), Some(TokenTree::Punct(it)) if it.as_char() == mark);
        let word = |at: usize| match trees.get(at) {
            Some(TokenTree::Ident(it)) => Some((it.to_string(), line_of(it.span()))),
            _ => None,
        };
        let mut at = 0;
        while at < trees.len() {
            if let TokenTree::Group(group) = &trees[at] {
                self.scan(group.stream());
            }
            let Some((first, line)) = word(at) else {
                at += 1;
                continue;
            };
            at += 1;
            if first == "self"
                && mark(at, '.')
                && let Some((method, _)) = word(at + 1)
                && matches!(trees.get(at + 2), Some(TokenTree::Group(it)) if it.delimiter() == Delimiter::Parenthesis)
                && let Some(owner) = self.implemented.clone()
            {
                self.call(&owner, &method, line);
            }
            let mut path = vec![first];
            while mark(at, ':')
                && mark(at + 1, ':')
                && let Some((next, _)) = word(at + 2)
            {
                path.push(next);
                at += 3;
            }
            self.name(path, line);
        }
    }
}

impl<'ast> Visit<'ast> for Reader<'_> {
    fn visit_item(&mut self, item: &'ast Item) {
        if attributes(item).iter().any(is_test) {
            self.module.test_lines += lines_of(item.span());
            return;
        }
        match item {
            Item::Use(it) => self.import(&it.tree, &Vec::new(), line_of(it.span())),
            Item::Mod(it) => match &it.content {
                Some((_, items)) => {
                    let mut inner = Module::default();
                    inner.read(items);
                    self.module.test_lines += inner.test_lines;
                    self.module.inline.push((it.ident.to_string(), inner));
                }
                None => self.module.declared.push(it.ident.to_string()),
            },
            Item::Impl(it) => {
                let owner = match &*it.self_ty {
                    Type::Path(path) => Some(segments(&path.path)),
                    _ => None,
                };
                if let (Some(owner), None) = (&owner, &it.trait_) {
                    let methods = it.items.iter().filter_map(|item| match item {
                        ImplItem::Fn(it) if !it.attrs.iter().any(is_test) => {
                            Some((owner.clone(), it.sig.ident.to_string()))
                        }
                        _ => None,
                    });
                    self.module.methods.extend(methods);
                }
                let outer = std::mem::replace(&mut self.implemented, owner);
                visit::visit_item_impl(self, it);
                self.implemented = outer;
            }
            _ => visit::visit_item(self, item),
        }
    }

    fn visit_impl_item(&mut self, item: &'ast ImplItem) {
        if let ImplItem::Fn(it) = item
            && it.attrs.iter().any(is_test)
        {
            self.module.test_lines += lines_of(item.span());
            return;
        }
        visit::visit_impl_item(self, item);
    }

    fn visit_path(&mut self, path: &'ast Path) {
        self.name(segments(path), line_of(path.span()));
        visit::visit_path(self, path);
    }

    fn visit_expr_method_call(&mut self, call: &'ast syn::ExprMethodCall) {
        if let syn::Expr::Path(receiver) = &*call.receiver
            && receiver.path.is_ident("self")
            && let Some(owner) = self.implemented.clone()
        {
            self.call(
                &owner,
                &call.method.to_string(),
                line_of(call.method.span()),
            );
        }
        visit::visit_expr_method_call(self, call);
    }

    fn visit_macro(&mut self, call: &'ast syn::Macro) {
        self.scan(call.tokens.clone());
    }

    // `pub(super)` and `pub(in crate::…)` say where a name is visible, not what is needed.
    fn visit_visibility(&mut self, _: &'ast syn::Visibility) {}

    fn visit_attribute(&mut self, _: &'ast Attribute) {}
}

fn line_of(span: Span) -> usize {
    span.start().line
}

/// The number of lines.
fn lines_of(span: Span) -> usize {
    span.end().line + 1 - span.start().line
}

fn segments(path: &Path) -> Segments {
    path.segments
        .iter()
        .map(|it| it.ident.to_string())
        .collect()
}

fn attributes(item: &Item) -> &[Attribute] {
    match item {
        Item::Const(it) => &it.attrs,
        Item::Enum(it) => &it.attrs,
        Item::Fn(it) => &it.attrs,
        Item::Impl(it) => &it.attrs,
        Item::Macro(it) => &it.attrs,
        Item::Mod(it) => &it.attrs,
        Item::Static(it) => &it.attrs,
        Item::Struct(it) => &it.attrs,
        Item::Trait(it) => &it.attrs,
        Item::Type(it) => &it.attrs,
        Item::Union(it) => &it.attrs,
        Item::Use(it) => &it.attrs,
        _ => &[],
    }
}

/// Whether only tests contain what the attribute stands at.
fn is_test(attribute: &Attribute) -> bool {
    match &attribute.meta {
        Meta::Path(path) => path.is_ident("test"),
        Meta::List(list) if list.path.is_ident("cfg") => {
            holds(&list.tokens.clone().into_iter().collect::<Vec<_>>()) == Some(false)
        }
        _ => false,
    }
}

/// Whether a condition of `cfg` holds outside of tests; `None` if something else decides that.
fn holds(condition: &[TokenTree]) -> Option<bool> {
    match condition {
        [TokenTree::Ident(word)] if word == "test" => Some(false),
        [TokenTree::Ident(word), TokenTree::Group(group)] => {
            let inner: Vec<TokenTree> = group.stream().into_iter().collect();
            let comma = |it: &TokenTree| matches!(it, TokenTree::Punct(it) if it.as_char() == ',');
            let mut parts = inner
                .split(comma)
                .filter(|part| !part.is_empty())
                .map(holds);
            match word.to_string().as_str() {
                "not" => parts.next().flatten().map(|it| !it),
                "all" => parts.any(|it| it == Some(false)).then_some(false),
                "any" => parts.all(|it| it == Some(false)).then_some(false),
                _ => None,
            }
        }
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read(text: &str) -> Module {
        parse(text).expect("Rust")
    }

    fn spelt(named: impl IntoIterator<Item = Segments>) -> Vec<String> {
        named.into_iter().map(|path| path.join("::")).collect()
    }

    #[test]
    fn imports_are_spelt_out() {
        let module = read("use a::{self, b::{C as D, e}, f::*};\nfn g() { use h::I; }");
        let imports = module.imports.iter().map(|it| {
            let name = it.name.as_deref().unwrap_or("*");
            format!("{name} = {}", it.from.path.join("::"))
        });
        assert_eq!(
            imports.collect::<Vec<_>>(),
            [
                "a = a",
                "D = a::b::C",
                "e = a::b::e",
                "* = a::f",
                "I = h::I"
            ]
        );
    }

    #[test]
    fn paths_are_found_in_types_expressions_patterns_and_macros() {
        let module = read(
            "fn a(b: c::D) -> e::F { g::h(); matches!(i, j::K) }\n\
             pub(in crate::l) fn m() { if let n::O = p { } }",
        );
        let paths = spelt(module.paths.into_iter().map(|it| it.path));
        assert_eq!(paths, ["c::D", "e::F", "g::h", "j::K", "n::O"]);
    }

    #[test]
    fn methods_and_calls_know_their_type() {
        let module = read(
            "impl a::B { fn c(&self) { self.d(); Self::e(); assert!(self.f()); other.g(); } }\n\
             impl H for B { fn i(&self) {} }",
        );
        let methods: Vec<_> = module
            .methods
            .iter()
            .map(|(_, name)| name.as_str())
            .collect();
        let calls: Vec<_> = module.calls.iter().map(|(_, name)| name.as_str()).collect();
        assert_eq!(methods, ["c"]);
        assert_eq!(calls, ["d", "e", "f"]);
        assert_eq!(module.calls[0].0.path, ["a", "B"]);
    }

    #[test]
    fn what_only_tests_contain_is_left_out_and_counted() {
        let module = read(
            "#[cfg(test)]\nmod tests {\n    use a::B;\n}\n#[cfg(all(test, loom))]\nmod c;\n\
             #[cfg(any(test, unix))]\nuse d::E;\n#[cfg(not(test))]\nfn f() {}\n#[test]\nfn g() {}",
        );
        assert_eq!(
            spelt(module.imports.into_iter().map(|it| it.from.path)),
            ["d::E"]
        );
        assert!(module.declared.is_empty());
        assert_eq!(module.defined.into_iter().collect::<Vec<_>>(), ["f"]);
        assert_eq!(module.test_lines, 4 + 2 + 2);
    }
}
