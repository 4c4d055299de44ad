//! Checks the order of imports and the names of functions.

use std::collections::BTreeSet;

use syn::spanned::Spanned as _;
use syn::visit::{self, Visit};

use crate::rule::{Finding, Rule};
use crate::source::Source;
use crate::workspace::Workspace;

/// The three blocks, in order.
#[derive(Clone, Copy, Debug, Eq, Ord, PartialEq, PartialOrd)]
enum Block {
    Std,
    External,
    Own,
}

struct Import {
    block: Block,
    first: usize,
    last: usize,
    root: String,
}

pub(crate) fn imports(workspace: &Workspace) -> Vec<Finding> {
    let mut found = Vec::new();
    for source in &workspace.sources {
        look_at_imports(source, &source.tree.items, &mut found);
        for item in &source.tree.items {
            if let syn::Item::Mod(module) = item
                && let Some((_, items)) = &module.content
            {
                look_at_imports(source, items, &mut found);
            }
        }
    }
    found
}

fn look_at_imports(source: &Source, items: &[syn::Item], found: &mut Vec<Finding>) {
    let modules = modules(items);
    let imports = items.iter().filter_map(|item| import(item, &modules));
    let imports: Vec<Import> = imports.collect();
    for pair in imports.windows(2) {
        let [before, after] = pair else { continue };
        // Code between two imports ends the list.
        let gap = (before.last + 1..after.first).any(|line| source.trimmed(line).is_empty());
        let what = match after.block.cmp(&before.block) {
            std::cmp::Ordering::Less => "the blocks are std, external, this crate, in this order",
            std::cmp::Ordering::Equal if gap => "an empty line within a block of imports",
            std::cmp::Ordering::Greater if !gap => "no empty line between two blocks of imports",
            _ => continue,
        };
        found.push(Finding {
            rule: Rule::Imports,
            path: source.path.clone(),
            line: after.first,
            subject: after.root.clone(),
            what: what.to_owned(),
        });
    }
}

/// A path that begins with a module of the file belongs to this crate.
fn modules(items: &[syn::Item]) -> BTreeSet<String> {
    let modules = items.iter().filter_map(|item| match item {
        syn::Item::Mod(module) => Some(module.ident.to_string()),
        _ => None,
    });
    modules.collect()
}

/// Only private imports count: a re-export is part of the interface and its place is free.
fn import(item: &syn::Item, modules: &BTreeSet<String>) -> Option<Import> {
    let syn::Item::Use(item) = item else {
        return None;
    };
    let private = matches!(item.vis, syn::Visibility::Inherited) && item.attrs.is_empty();
    let root = match &item.tree {
        syn::UseTree::Path(path) => path.ident.to_string(),
        syn::UseTree::Name(name) => name.ident.to_string(),
        syn::UseTree::Rename(rename) => rename.ident.to_string(),
        _ => return None,
    };
    let block = match root.as_str() {
        "std" | "core" | "alloc" => Block::Std,
        "crate" | "self" | "super" => Block::Own,
        module if modules.contains(module) => Block::Own,
        _ => Block::External,
    };
    let span = item.span();
    private.then(|| Import {
        block,
        first: span.start().line,
        last: span.end().line,
        root,
    })
}

pub(crate) fn getters(workspace: &Workspace) -> Vec<Finding> {
    let mut found = Vec::new();
    for source in &workspace.sources {
        let mut names = FunctionNames(Vec::new());
        names.visit_file(&source.tree);
        let getters = names.0.iter().filter(|name| is_getter(&name.to_string()));
        found.extend(getters.map(|name| Finding {
            rule: Rule::Getter,
            path: source.path.clone(),
            line: name.span().start().line,
            subject: name.to_string(),
            what: "a function is named after what it returns".to_owned(),
        }));
    }
    found
}

/// A look-up is named `get` as in the standard library, and so are its variants. Get is also LNet's operation.
fn is_getter(name: &str) -> bool {
    let variants = ["get_mut", "get_many"];
    name.starts_with("get_") && !variants.contains(&name) && !name.starts_with("get_or_")
}

/// Words that the glossary of CONTRIBUTING.md replaces, with what stands for them.
const REPLACED: [(&str, &str); 12] = [
    ("abandon", "cancel"),
    ("cease", "free"),
    ("conclude", "complete"),
    ("farewell", "close"),
    ("give_up", "fail or cancel"),
    ("judge", "check or update"),
    ("meet", "ensure"),
    ("patient", "recovery target"),
    ("quest", "request"),
    ("retire", "free or unlink"),
    ("unhang", "remove"),
    ("unhold", "release"),
];

pub(crate) fn words(workspace: &Workspace) -> Vec<Finding> {
    let mut found = Vec::new();
    for source in &workspace.sources {
        for pair in source.tokens.windows(2) {
            let [keyword, name] = pair else { continue };
            if !["fn", "struct", "enum", "trait"].contains(&keyword.text.as_str()) {
                continue;
            }
            let Some(instead) = replaced(&name.text) else {
                continue;
            };
            found.push(Finding {
                rule: Rule::Words,
                path: source.path.clone(),
                line: name.line,
                subject: name.text.clone(),
                what: format!("the glossary has another word: {instead}"),
            });
        }
    }
    found
}

/// What stands for a name that is, or begins with, a word of the list. Names of tests are sentences, which begin
/// otherwise.
fn replaced(name: &str) -> Option<&'static str> {
    let is = |word: &str| {
        let name = name.to_ascii_lowercase();
        let rest = name.strip_prefix(word);
        rest.is_some_and(|rest| rest.is_empty() || rest.starts_with('_'))
    };
    REPLACED
        .iter()
        .find(|(word, _)| is(word))
        .map(|&(_, instead)| instead)
}

struct FunctionNames(Vec<syn::Ident>);

impl<'ast> Visit<'ast> for FunctionNames {
    fn visit_item_impl(&mut self, item: &'ast syn::ItemImpl) {
        // The trait chooses the names in its impl.
        if item.trait_.is_none() {
            visit::visit_item_impl(self, item);
        }
    }

    fn visit_signature(&mut self, signature: &'ast syn::Signature) {
        self.0.push(signature.ident.clone());
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::planted::{library, places};

    #[test]
    fn three_blocks_in_order_pass() {
        let text = "\
mod own;

use std::fmt;
use std::io;

use bytes::Bytes;
use lnet_types::Nid;

use crate::a::B;
use own::C;
";
        assert_eq!(imports(&library(text)), []);
    }

    #[test]
    fn blocks_in_the_wrong_order_are_found() {
        let text = "use bytes::Bytes;\n\nuse std::fmt;\n";
        assert_eq!(places(&imports(&library(text))), [(3, "std")]);
    }

    #[test]
    fn blocks_without_a_gap_between_and_with_a_gap_inside_are_found() {
        let text = "use std::fmt;\nuse bytes::Bytes;\n\nuse smallvec::SmallVec;\n";
        assert_eq!(
            places(&imports(&library(text))),
            [(2, "bytes"), (4, "smallvec")]
        );
    }

    #[test]
    fn the_imports_of_an_inner_module_are_looked_at() {
        let text = "mod tests {\n    use super::*;\n\n    use std::fmt;\n}\n";
        assert_eq!(places(&imports(&library(text))), [(4, "std")]);
    }

    #[test]
    fn a_function_named_get_is_found_unless_a_trait_names_it() {
        let text = "impl A {\n    fn get_b(&self) {}\n    fn get(&self) {}\n    fn get_mut(&mut self) {}\n}\nimpl T for A {\n    fn get_c(&self) {}\n}\n";
        assert_eq!(places(&getters(&library(text))), [(2, "get_b")]);
    }

    #[test]
    fn a_word_that_the_glossary_replaces_is_found() {
        let text = "fn judge_all() {}\nstruct Patient;\nfn meeting() {}\nfn give_up() {}\n";
        let found = words(&library(text));
        let subjects: Vec<&str> = found.iter().map(|f| f.subject.as_str()).collect();
        assert_eq!(subjects, ["judge_all", "Patient", "give_up"]);
    }
}
