//! Measures the length of functions and files.

use std::collections::BTreeMap;

use syn::visit::{self, Visit};

use crate::rule::{Finding, Rule};
use crate::source::Source;
use crate::workspace::Workspace;

/// Most lines of a function, from its `fn` to its closing brace.
const FUNCTION_LINES_MAX: usize = 100;
/// Most lines of a short function.
const SHORT_FUNCTION_LINES: usize = 30;
/// Least share of short functions, in percent.
const SHORT_SHARE_MIN: usize = 90;
/// Most lines of a file.
const FILE_LINES_MAX: usize = 800;

struct Function {
    name: String,
    line: usize,
    lines: usize,
}

pub(crate) fn function_length(workspace: &Workspace) -> Vec<Finding> {
    let mut found = Vec::new();
    for source in &workspace.sources {
        for function in functions(source) {
            if function.lines > FUNCTION_LINES_MAX {
                found.push(Finding {
                    rule: Rule::FunctionLength,
                    path: source.path.clone(),
                    line: function.line,
                    what: format!(
                        "{} lines, the limit is {FUNCTION_LINES_MAX}",
                        function.lines
                    ),
                    subject: function.name,
                });
            }
        }
    }
    found
}

/// Returns at most one finding, at the longest function of the workspace. It names the crates with
/// the lowest shares of short functions.
pub(crate) fn function_share(workspace: &Workspace) -> Vec<Finding> {
    let mut crates: BTreeMap<&str, (usize, usize)> = BTreeMap::new();
    let mut longest: Option<(&Source, Function)> = None;
    for source in &workspace.sources {
        for function in functions(source)
            .into_iter()
            .filter(|f| !source.in_test(f.line))
        {
            let (short, all) = crates.entry(&source.package).or_default();
            *short += usize::from(function.lines <= SHORT_FUNCTION_LINES);
            *all += 1;
            if longest
                .as_ref()
                .is_none_or(|(_, known)| known.lines < function.lines)
            {
                longest = Some((source, function));
            }
        }
    }
    let short: usize = crates.values().map(|&(short, _)| short).sum();
    let all: usize = crates.values().map(|&(_, all)| all).sum();
    match longest {
        Some((source, function)) if short * 100 < all * SHORT_SHARE_MIN => vec![Finding {
            rule: Rule::FunctionShare,
            path: source.path.clone(),
            line: function.line,
            subject: function.name,
            what: format!(
                "{short} of {all} functions have at most {SHORT_FUNCTION_LINES} lines, \
                 {SHORT_SHARE_MIN} % must; this is the longest, by crate: {}",
                shares(&crates)
            ),
        }],
        _ => Vec::new(),
    }
}

fn shares(crates: &BTreeMap<&str, (usize, usize)>) -> String {
    let each = crates
        .iter()
        .map(|(name, (short, all))| format!("{name} {short}/{all}"));
    each.collect::<Vec<_>>().join(", ")
}

pub(crate) fn file_length(workspace: &Workspace) -> Vec<Finding> {
    let long = workspace
        .sources
        .iter()
        .filter(|source| source.lines.len() > FILE_LINES_MAX);
    long.map(|source| Finding {
        rule: Rule::FileLength,
        path: source.path.clone(),
        line: FILE_LINES_MAX + 1,
        subject: String::new(),
        what: format!(
            "{} lines, the limit is {FILE_LINES_MAX}",
            source.lines.len()
        ),
    })
    .collect()
}

fn functions(source: &Source) -> Vec<Function> {
    let mut collector = Functions(Vec::new());
    collector.visit_file(&source.tree);
    collector.0
}

struct Functions(Vec<Function>);

impl Functions {
    fn push(&mut self, signature: &syn::Signature, body: &syn::Block) {
        let first = signature.fn_token.span.start().line;
        let last = body.brace_token.span.close().end().line;
        let name = signature.ident.to_string();
        self.0.push(Function {
            name,
            line: first,
            lines: last + 1 - first,
        });
    }
}

impl<'ast> Visit<'ast> for Functions {
    fn visit_item_fn(&mut self, function: &'ast syn::ItemFn) {
        self.push(&function.sig, &function.block);
        visit::visit_item_fn(self, function);
    }

    fn visit_impl_item_fn(&mut self, function: &'ast syn::ImplItemFn) {
        self.push(&function.sig, &function.block);
        visit::visit_impl_item_fn(self, function);
    }

    fn visit_trait_item_fn(&mut self, function: &'ast syn::TraitItemFn) {
        if let Some(body) = &function.default {
            self.push(&function.sig, body);
        }
        visit::visit_trait_item_fn(self, function);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::planted::{library, places};

    fn function(name: &str, lines: usize) -> String {
        format!("fn {name}() {{{}}}\n", "\n".repeat(lines - 1))
    }

    #[test]
    fn a_function_of_101_lines_is_too_long() {
        let text = function("longest_allowed", 100) + &function("too_long", 101);
        let found = function_length(&library(&text));
        assert_eq!(places(&found), [(101, "too_long")]);
    }

    #[test]
    fn methods_and_default_methods_and_tests_are_measured_too() {
        let long = function("long", 101);
        let text = format!(
            "impl A {{\n{long}}}\ntrait B {{\n{long}}}\n#[cfg(test)]\nmod t {{\n{long}}}\n"
        );
        assert_eq!(function_length(&library(&text)).len(), 3);
    }

    #[test]
    fn nine_short_functions_in_ten_are_enough_and_eight_are_not() {
        let share = |short| {
            let mut text: String = (0..short).map(|i| function(&format!("f{i}"), 30)).collect();
            text.extend((short..10).map(|i| function(&format!("f{i}"), 31)));
            function_share(&library(&text)).len()
        };
        assert_eq!((share(9), share(8)), (0, 1));
    }

    #[test]
    fn a_test_does_not_count_towards_the_share() {
        let long = function("long", 31);
        assert_eq!(
            function_share(&library(&format!("#[test]\n{long}"))).len(),
            0
        );
        assert_eq!(function_share(&library(&long)).len(), 1);
    }

    #[test]
    fn a_file_of_801_lines_is_too_long() {
        assert_eq!(file_length(&library(&"\n".repeat(800))), []);
        assert_eq!(
            places(&file_length(&library(&"\n".repeat(801)))),
            [(801, "")]
        );
    }
}
