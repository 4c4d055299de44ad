//! Checks that public items and files are documented.

use syn::visit::{self, Visit};

use crate::rule::{Finding, Rule};
use crate::source::Source;
use crate::workspace::Workspace;

/// Unlike rustdoc's lint, this checks every `pub`, even if no other crate can reach it.
pub(crate) fn public_items(workspace: &Workspace) -> Vec<Finding> {
    let mut found = Vec::new();
    for source in &workspace.sources {
        let mut items = PublicItems {
            source,
            found: &mut found,
        };
        items.visit_file(&source.tree);
    }
    found
}

pub(crate) fn modules(workspace: &Workspace) -> Vec<Finding> {
    let undocumented = workspace.sources.iter().filter(|source| {
        !is_named_after_another(&source.path) && !is_documented(&source.tree.attrs)
    });
    undocumented
        .map(|source| Finding {
            rule: Rule::ModuleDoc,
            path: source.path.clone(),
            line: 1,
            subject: String::new(),
            what: "no `//!` comment says what this file is".to_owned(),
        })
        .collect()
}

/// A sibling file holds the tests of its parent, and a fuzz target only calls the function with its
/// name.
fn is_named_after_another(path: &str) -> bool {
    path.ends_with("/tests.rs") || path.starts_with("fuzz/fuzz_targets/")
}

fn is_documented(attributes: &[syn::Attribute]) -> bool {
    attributes
        .iter()
        .any(|attribute| attribute.path().is_ident("doc"))
}

struct PublicItems<'a> {
    source: &'a Source,
    found: &'a mut Vec<Finding>,
}

impl PublicItems<'_> {
    fn need(&mut self, attributes: &[syn::Attribute], ident: &syn::Ident) {
        let line = ident.span().start().line;
        if !is_documented(attributes) && !self.source.in_test(line) {
            self.found.push(Finding {
                rule: Rule::PublicDocs,
                path: self.source.path.clone(),
                line,
                subject: ident.to_string(),
                what: "public and not documented".to_owned(),
            });
        }
    }

    fn need_if_public(
        &mut self,
        visibility: &syn::Visibility,
        attributes: &[syn::Attribute],
        ident: &syn::Ident,
    ) {
        if matches!(visibility, syn::Visibility::Public(_)) {
            self.need(attributes, ident);
        }
    }
}

impl<'ast> Visit<'ast> for PublicItems<'_> {
    fn visit_item(&mut self, item: &'ast syn::Item) {
        match item {
            syn::Item::Const(i) => self.need_if_public(&i.vis, &i.attrs, &i.ident),
            syn::Item::Enum(i) => self.need_if_public(&i.vis, &i.attrs, &i.ident),
            syn::Item::Fn(i) => self.need_if_public(&i.vis, &i.attrs, &i.sig.ident),
            syn::Item::Static(i) => self.need_if_public(&i.vis, &i.attrs, &i.ident),
            syn::Item::Struct(i) => self.need_if_public(&i.vis, &i.attrs, &i.ident),
            syn::Item::Trait(i) => self.need_if_public(&i.vis, &i.attrs, &i.ident),
            syn::Item::Type(i) => self.need_if_public(&i.vis, &i.attrs, &i.ident),
            // A module in a file of its own is documented there. ModuleDoc checks it.
            syn::Item::Mod(i) if i.content.is_some() => {
                let mut attributes = i.attrs.clone();
                attributes.retain(|attribute| attribute.path().is_ident("doc"));
                self.need_if_public(&i.vis, &attributes, &i.ident);
            }
            _ => {}
        }
        visit::visit_item(self, item);
    }

    fn visit_item_enum(&mut self, item: &'ast syn::ItemEnum) {
        if matches!(item.vis, syn::Visibility::Public(_)) {
            for variant in &item.variants {
                self.need(&variant.attrs, &variant.ident);
            }
        }
    }

    fn visit_item_trait(&mut self, item: &'ast syn::ItemTrait) {
        if matches!(item.vis, syn::Visibility::Public(_)) {
            for member in &item.items {
                match member {
                    syn::TraitItem::Const(i) => self.need(&i.attrs, &i.ident),
                    syn::TraitItem::Fn(i) => self.need(&i.attrs, &i.sig.ident),
                    syn::TraitItem::Type(i) => self.need(&i.attrs, &i.ident),
                    _ => {}
                }
            }
        }
    }

    fn visit_impl_item_const(&mut self, item: &'ast syn::ImplItemConst) {
        self.need_if_public(&item.vis, &item.attrs, &item.ident);
    }

    fn visit_impl_item_fn(&mut self, item: &'ast syn::ImplItemFn) {
        self.need_if_public(&item.vis, &item.attrs, &item.sig.ident);
    }

    fn visit_field(&mut self, field: &'ast syn::Field) {
        // The documentation of the whole struct describes the fields of a tuple, as rustc assumes,
        // too.
        if let Some(ident) = &field.ident {
            self.need_if_public(&field.vis, &field.attrs, ident);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::planted::{file, library, places};

    #[test]
    fn every_kind_of_public_item_needs_documentation() {
        let text = "\
pub const A: u8 = 0;
pub enum B {
    C,
}
pub fn d() {}
pub static E: u8 = 0;
pub struct F {
    pub g: u8,
    h: u8,
}
pub trait I {
    fn j();
}
pub type K = u8;
pub mod l {}
impl F {
    pub const M: u8 = 0;
    pub fn n() {}
    fn o() {}
}
";
        let found = public_items(&library(text));
        let names: Vec<&str> = found
            .iter()
            .map(|finding| finding.subject.as_str())
            .collect();
        assert_eq!(
            names,
            [
                "A", "B", "C", "d", "E", "F", "g", "I", "j", "K", "l", "M", "n"
            ]
        );
    }

    #[test]
    fn documented_private_and_test_items_pass() {
        let text = "/// Says it.\npub fn a() {}\npub(crate) fn b() {}\nfn c() {}\n#[cfg(test)]\nmod t {\npub fn d() {}\n}\n";
        assert_eq!(public_items(&library(text)), []);
    }

    #[test]
    fn a_file_without_a_module_comment_is_found() {
        assert_eq!(modules(&library("//! What this is.\n")), []);
        assert_eq!(places(&modules(&library("// What this is.\n"))), [(1, "")]);
    }

    #[test]
    fn a_sibling_file_of_tests_and_a_fuzz_target_need_no_module_comment() {
        for path in [
            "crates/planted/src/nid/tests.rs",
            "fuzz/fuzz_targets/nid.rs",
        ] {
            assert_eq!(modules(&file("planted", path, "")), [], "{path}");
        }
    }
}
