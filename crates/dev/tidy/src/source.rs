//! One Rust file: its lines, its tokens, its syntax tree, and which of its lines are tests.

use std::ops::RangeInclusive;

use anyhow::Context as _;
use proc_macro2::{TokenStream, TokenTree};
use syn::spanned::Spanned as _;
use syn::visit::{self, Visit};

/// One Rust file of the workspace.
pub struct Source {
    /// Path of the file, relative to the root of the workspace, with `/` as separator.
    pub path: String,
    /// Name of the package of the file.
    pub package: String,
    /// The lines as written, without line ends.
    pub lines: Vec<String>,
    /// All tokens in order. The brackets of a group are tokens of their own.
    pub tokens: Vec<Token>,
    /// The syntax tree.
    pub tree: syn::File,
    /// Whether the whole file is test code.
    pub(crate) is_test: bool,
    tests: Vec<RangeInclusive<usize>>,
}

/// One token of a file.
#[derive(Clone, Debug, Eq, PartialEq)]
pub struct Token {
    /// The identifier, literal, punctuation character or bracket.
    pub text: String,
    /// The line on which the token begins, counted from 1.
    pub line: usize,
}

impl Source {
    /// Parses the text of the file at `path`, which belongs to `package`.
    ///
    /// # Errors
    ///
    /// The text is not Rust.
    pub fn parse(path: &str, package: &str, text: &str) -> anyhow::Result<Self> {
        let tree = syn::parse_file(text).with_context(|| format!("{path} is not Rust"))?;
        let stream: TokenStream = text
            .parse()
            .map_err(|error| anyhow::anyhow!("{path}: {error}"))?;
        let mut tokens = Vec::new();
        flatten(stream, &mut tokens);
        let mut tests = TestLines::default();
        tests.visit_file(&tree);
        Ok(Self {
            path: path.to_owned(),
            package: package.to_owned(),
            lines: text.lines().map(str::to_owned).collect(),
            tokens,
            is_test: is_test_path(path, package) || tree.attrs.iter().any(is_test_attribute),
            tests: tests.ranges,
            tree,
        })
    }

    /// Returns whether the code on `line`, counted from 1, is compiled only for tests.
    #[must_use]
    pub fn in_test(&self, line: usize) -> bool {
        self.is_test || self.tests.iter().any(|range| range.contains(&line))
    }

    /// Returns the line, counted from 1, without its indentation; empty if there is no such line.
    #[must_use]
    pub fn trimmed(&self, line: usize) -> &str {
        let index = line.checked_sub(1);
        index
            .and_then(|index| self.lines.get(index))
            .map_or("", |text| text.trim())
    }

    /// Returns whether a comment that contains `text` ends directly above `line`. Documentation
    /// does not count, because it addresses the caller.
    #[must_use]
    pub fn has_comment_above(&self, line: usize, text: &str) -> bool {
        (1..line)
            .rev()
            .map(|above| self.trimmed(above))
            .take_while(|above| is_plain_comment(above))
            .any(|above| above.contains(text))
    }

    /// Returns the files, relative to the root, that this file declares as test modules:
    /// `#[cfg(test)] mod tests;` in `src/nid.rs` gives `src/nid/tests` and everything below it.
    pub(crate) fn test_modules(&self) -> Vec<String> {
        let below = self.module_directory();
        let modules = self.tree.items.iter().filter_map(|item| match item {
            syn::Item::Mod(module) if module.content.is_none() => Some(module),
            _ => None,
        });
        modules
            .filter(|module| module.attrs.iter().any(is_test_attribute))
            .map(|module| match module_path(module) {
                Some(file) => {
                    let directory = self
                        .path
                        .rsplit_once('/')
                        .map_or("", |(directory, _)| directory);
                    format!("{directory}/{}", file.trim_end_matches(".rs"))
                }
                None => format!("{below}/{}", module.ident),
            })
            .collect()
    }

    fn module_directory(&self) -> &str {
        let stem = self.path.strip_suffix(".rs").unwrap_or(&self.path);
        match stem.rsplit_once('/') {
            Some((directory, "lib" | "main" | "mod")) => directory,
            _ => stem,
        }
    }
}

/// Returns the file that `#[path = "..."]` gives a module, relative to the directory of the file that declares it.
fn module_path(module: &syn::ItemMod) -> Option<String> {
    let attribute = module
        .attrs
        .iter()
        .find(|attribute| attribute.path().is_ident("path"))?;
    match &attribute.meta.require_name_value().ok()?.value {
        syn::Expr::Lit(syn::ExprLit {
            lit: syn::Lit::Str(file),
            ..
        }) => Some(file.value()),
        _ => None,
    }
}

/// Returns whether the line, without indentation, is a comment other than documentation.
pub(crate) fn is_plain_comment(line: &str) -> bool {
    line.starts_with("//") && !line.starts_with("///") && !line.starts_with("//!")
}

/// Matches directories that Cargo compiles only for tests and benches, the fuzz targets, and the
/// crate with the bodies of fuzz targets, which panic to report a failure.
fn is_test_path(path: &str, package: &str) -> bool {
    let mut beside_sources = path.split('/').take_while(|part| *part != "src");
    path.starts_with("fuzz/")
        || package == "lnet-fuzz"
        || beside_sources.any(|part| ["tests", "benches", "examples"].contains(&part))
}

/// Matches `#[test]`, and `#[cfg(...)]` that names `test` outside `not(...)`.
fn is_test_attribute(attribute: &syn::Attribute) -> bool {
    match &attribute.meta {
        syn::Meta::Path(path) => path.is_ident("test"),
        syn::Meta::List(list) if list.path.is_ident("cfg") => names_test(list.tokens.clone()),
        _ => false,
    }
}

fn names_test(tokens: TokenStream) -> bool {
    let mut negated = false;
    for token in tokens {
        match token {
            TokenTree::Ident(ident) if ident == "test" => return true,
            TokenTree::Ident(ident) => negated = ident == "not",
            TokenTree::Group(group) if !negated && names_test(group.stream()) => return true,
            _ => {}
        }
    }
    false
}

fn flatten(stream: TokenStream, into: &mut Vec<Token>) {
    for tree in stream {
        let line = tree.span().start().line;
        match tree {
            TokenTree::Group(group) => {
                let (open, close) = brackets(group.delimiter());
                into.push(Token {
                    text: open.to_owned(),
                    line,
                });
                flatten(group.stream(), into);
                let line = group.span_close().start().line;
                into.push(Token {
                    text: close.to_owned(),
                    line,
                });
            }
            other => into.push(Token {
                text: other.to_string(),
                line,
            }),
        }
    }
}

fn brackets(delimiter: proc_macro2::Delimiter) -> (&'static str, &'static str) {
    match delimiter {
        proc_macro2::Delimiter::Parenthesis => ("(", ")"),
        proc_macro2::Delimiter::Brace => ("{", "}"),
        proc_macro2::Delimiter::Bracket => ("[", "]"),
        proc_macro2::Delimiter::None => ("", ""),
    }
}

/// Collects the lines of the items that are compiled only for tests.
#[derive(Default)]
struct TestLines {
    ranges: Vec<RangeInclusive<usize>>,
}

impl<'ast> Visit<'ast> for TestLines {
    fn visit_item(&mut self, item: &'ast syn::Item) {
        if item_attributes(item).iter().any(is_test_attribute) {
            let span = item.span();
            self.ranges.push(span.start().line..=span.end().line);
        } else {
            visit::visit_item(self, item);
        }
    }

    fn visit_impl_item_fn(&mut self, function: &'ast syn::ImplItemFn) {
        if function.attrs.iter().any(is_test_attribute) {
            let span = function.span();
            self.ranges.push(span.start().line..=span.end().line);
        }
    }
}

fn item_attributes(item: &syn::Item) -> &[syn::Attribute] {
    match item {
        syn::Item::Const(item) => &item.attrs,
        syn::Item::Enum(item) => &item.attrs,
        syn::Item::Fn(item) => &item.attrs,
        syn::Item::Impl(item) => &item.attrs,
        syn::Item::Macro(item) => &item.attrs,
        syn::Item::Mod(item) => &item.attrs,
        syn::Item::Static(item) => &item.attrs,
        syn::Item::Struct(item) => &item.attrs,
        syn::Item::Trait(item) => &item.attrs,
        syn::Item::Type(item) => &item.attrs,
        syn::Item::Use(item) => &item.attrs,
        _ => &[],
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn parse(path: &str, text: &str) -> Source {
        Source::parse(path, "planted", text).unwrap()
    }

    #[test]
    fn the_lines_of_a_test_module_are_test_lines() {
        let source = parse(
            "crates/a/src/b.rs",
            "fn f() {}\n#[cfg(test)]\nmod tests {\n}\nfn g() {}\n",
        );
        let tests: Vec<bool> = (1..=5).map(|line| source.in_test(line)).collect();
        assert_eq!(tests, [false, true, true, true, false]);
    }

    #[test]
    fn code_for_other_than_tests_is_not_test_code() {
        let source = parse("crates/a/src/b.rs", "#[cfg(not(test))]\nmod real {\n}\n");
        assert!(!source.in_test(2));
        let source = parse(
            "crates/a/src/b.rs",
            "#[cfg(any(test, fuzzing))]\nmod both {\n}\n",
        );
        assert!(source.in_test(2));
    }

    #[test]
    fn the_directories_of_tests_benches_and_fuzz_targets_are_test_code() {
        for path in [
            "crates/a/tests/b.rs",
            "crates/a/benches/b.rs",
            "crates/world/a/tests/src/b.rs",
            "fuzz/targets/b.rs",
        ] {
            assert!(parse(path, "").in_test(1), "{path}");
        }
        let bodies = Source::parse("crates/fuzz/src/b.rs", "lnet-fuzz", "").unwrap();
        assert!(bodies.in_test(1));
        assert!(!parse("crates/a/src/tests_of_time.rs", "").in_test(1));
    }

    #[test]
    fn a_test_module_in_a_file_of_its_own_is_named_from_its_parent() {
        let declaration = "#[cfg(test)]\nmod tests;\nmod other;\n";
        let names = |path| parse(path, declaration).test_modules();
        assert_eq!(names("crates/a/src/lib.rs"), ["crates/a/src/tests"]);
        assert_eq!(names("crates/a/src/nid.rs"), ["crates/a/src/nid/tests"]);
        assert_eq!(names("crates/a/src/nid/mod.rs"), ["crates/a/src/nid/tests"]);
    }

    #[test]
    fn a_test_module_with_a_path_is_named_by_the_path() {
        let declaration = "#[cfg(test)]\n#[path = \"nid_tests.rs\"]\nmod tests;\n";
        let source = parse("crates/a/src/nid.rs", declaration);
        assert_eq!(source.test_modules(), ["crates/a/src/nid_tests"]);
    }

    #[test]
    fn tokens_carry_their_lines_also_within_macro_calls() {
        let source = parse(
            "crates/a/src/b.rs",
            "fn f() {\n    m! {\n        x::y()\n    }\n}\n",
        );
        let found = source.tokens.iter().find(|token| token.text == "y");
        assert_eq!(found.map(|token| token.line), Some(3));
    }

    #[test]
    fn documentation_is_no_comment() {
        let source = parse(
            "crates/a/src/b.rs",
            "/// SAFETY: none.\nfn f() {}\n// SAFETY: some.\nfn g() {}\n",
        );
        assert!(!source.has_comment_above(2, "SAFETY:"));
        assert!(source.has_comment_above(4, "SAFETY:"));
    }
}
