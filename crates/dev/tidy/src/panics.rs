//! Checks that code that can panic states why it does not.
//!
//! Clippy rejects `unwrap`, `expect` and `panic!` outside tests, and an attribute that relaxes it
//! states a reason. This rule requires the same for `unreachable!` and for the variants on errors,
//! which clippy allows. A comment is as good as an attribute.
//!
//! Code outside tests must not catch panics: the release profile aborts, so a panic that is caught
//! in a test build would not be caught in a release.

use syn::visit::{self, Visit};

use crate::rule::{Finding, Rule};
use crate::source::Source;
use crate::workspace::Workspace;

/// Methods that panic on the other variant.
const METHODS: [&str; 4] = ["unwrap", "expect", "unwrap_err", "expect_err"];
/// Macros that always panic. `assert!` is not among them, because it states an invariant itself.
const MACROS: [&str; 2] = ["panic", "unreachable"];
/// Clippy's lints for the same, which attributes may relax.
const LINTS: [&str; 4] = ["unwrap_used", "expect_used", "panic", "unreachable"];

pub(crate) fn check(workspace: &Workspace) -> Vec<Finding> {
    let mut found = Vec::new();
    for source in &workspace.sources {
        let mut panics = Panics {
            source,
            statements: Vec::new(),
            relaxed: 0,
            found: &mut found,
        };
        panics.visit_file(&source.tree);
    }
    found
}

struct Panics<'a> {
    source: &'a Source,
    /// First lines of the statements around the place, from the outermost to the innermost.
    statements: Vec<usize>,
    /// Number of functions around the place that relax the lint.
    relaxed: usize,
    found: &'a mut Vec<Finding>,
}

impl Panics<'_> {
    fn look_at(&mut self, ident: &syn::Ident) {
        let line = ident.span().start().line;
        if self.relaxed > 0 || self.source.in_test(line) || self.is_justified(line) {
            return;
        }
        self.found.push(Finding {
            rule: Rule::Panics,
            path: self.source.path.clone(),
            line,
            subject: ident.to_string(),
            what: "no comment states why this cannot happen".to_owned(),
        });
    }

    fn find_catch(&mut self, ident: &syn::Ident) {
        let line = ident.span().start().line;
        if !self.source.in_test(line) {
            self.found.push(Finding {
                rule: Rule::Panics,
                path: self.source.path.clone(),
                line,
                subject: ident.to_string(),
                what: "has no effect in a release build, where a panic aborts".to_owned(),
            });
        }
    }

    /// Returns whether there is a comment or a relaxed lint above the statement, above the line, or
    /// on the line.
    fn is_justified(&self, line: usize) -> bool {
        let statement = self.statements.last().copied().unwrap_or(line);
        let within = (statement..=line).map(|line| self.source.trimmed(line));
        let relaxed = within.into_iter().any(|text| {
            LINTS
                .iter()
                .any(|lint| text.contains(&format!("clippy::{lint}")))
        });
        relaxed
            || self.source.trimmed(line).contains("// ")
            || self.source.has_comment_above(line, "")
            || self.source.has_comment_above(statement, "")
    }

    fn in_function(&mut self, attributes: &[syn::Attribute], visit: impl FnOnce(&mut Self)) {
        let relaxes = usize::from(attributes.iter().any(relaxes));
        // A comment above a statement that contains a nested function does not justify the
        // function's body.
        let around = std::mem::take(&mut self.statements);
        self.relaxed += relaxes;
        visit(self);
        self.relaxed -= relaxes;
        self.statements = around;
    }
}

impl<'ast> Visit<'ast> for Panics<'_> {
    fn visit_item_fn(&mut self, function: &'ast syn::ItemFn) {
        self.in_function(&function.attrs, |this| visit::visit_item_fn(this, function));
    }

    fn visit_impl_item_fn(&mut self, function: &'ast syn::ImplItemFn) {
        self.in_function(&function.attrs, |this| {
            visit::visit_impl_item_fn(this, function)
        });
    }

    fn visit_item_const(&mut self, _: &'ast syn::ItemConst) {
        // The compiler evaluates constants and reports a panic as an error.
    }

    fn visit_stmt(&mut self, statement: &'ast syn::Stmt) {
        use syn::spanned::Spanned as _;
        self.statements.push(statement.span().start().line);
        visit::visit_stmt(self, statement);
        self.statements.pop();
    }

    fn visit_expr_method_call(&mut self, call: &'ast syn::ExprMethodCall) {
        if METHODS.iter().any(|name| call.method == name) {
            self.look_at(&call.method);
        }
        visit::visit_expr_method_call(self, call);
    }

    fn visit_expr_path(&mut self, path: &'ast syn::ExprPath) {
        if let Some(last) = path.path.segments.last()
            && last.ident == "catch_unwind"
        {
            self.find_catch(&last.ident);
        }
    }

    fn visit_macro(&mut self, call: &'ast syn::Macro) {
        if let Some(last) = call.path.segments.last()
            && MACROS.iter().any(|name| last.ident == name)
        {
            self.look_at(&last.ident);
        }
    }
}

/// Matches `#[expect(clippy::unwrap_used, reason = "...")]` and similar attributes.
fn relaxes(attribute: &syn::Attribute) -> bool {
    let syn::Meta::List(list) = &attribute.meta else {
        return false;
    };
    if !list.path.is_ident("expect") && !list.path.is_ident("allow") {
        return false;
    }
    list.tokens.clone().into_iter().any(|token| match token {
        proc_macro2::TokenTree::Ident(ident) => LINTS.iter().any(|lint| ident == lint),
        _ => false,
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::planted::{library, places};

    #[test]
    fn a_bare_panic_of_each_kind_is_found() {
        let text = "\
fn f() {
    a.unwrap();
    a.expect(\"b\");
    a.unwrap_err();
    a.expect_err(\"b\");
    panic!();
    std::unreachable!();
}
";
        let found = check(&library(text));
        let expected = [
            (2, "unwrap"),
            (3, "expect"),
            (4, "unwrap_err"),
            (5, "expect_err"),
            (6, "panic"),
            (7, "unreachable"),
        ];
        assert_eq!(places(&found), expected);
    }

    #[test]
    fn catching_a_panic_is_found_outside_tests_only() {
        let text = "\
fn f() {
    // No comment justifies it.
    let _ = std::panic::catch_unwind(g);
}
#[cfg(test)]
mod tests {
    #[test]
    fn a_test_may_panic() {
        catch_unwind(f);
    }
}
";
        assert_eq!(places(&check(&library(text))), [(3, "catch_unwind")]);
    }

    #[test]
    fn a_comment_at_the_line_or_above_the_statement_justifies() {
        let text = "\
fn f() {
    // The queue is never empty here: pushed above.
    let x = a
        .pop()
        .unwrap();
    b.unwrap(); // The length was checked.
    match c {
        // Excluded by the caller's check.
        _ => unreachable!(),
    }
}
";
        assert_eq!(check(&library(text)), []);
    }

    #[test]
    fn a_comment_for_one_statement_does_not_justify_the_next() {
        let text = "fn f() {\n    // Never empty.\n    a.unwrap();\n    b.unwrap();\n}\n";
        assert_eq!(places(&check(&library(text))), [(4, "unwrap")]);
    }

    #[test]
    fn documentation_does_not_justify() {
        let text = "/// Never fails.\nfn f() { a.unwrap(); }\n";
        assert_eq!(places(&check(&library(text))), [(2, "unwrap")]);
    }

    #[test]
    fn a_relaxed_lint_justifies_its_function_or_statement_only() {
        let text = "\
#[expect(clippy::unwrap_used, reason = \"filled above\")]
fn f() { a.unwrap(); }
fn g() {
    #[expect(clippy::expect_used, reason = \"filled above\")]
    let b = a.expect(\"filled\");
    c.unwrap();
}
";
        assert_eq!(places(&check(&library(text))), [(6, "unwrap")]);
    }

    #[test]
    fn tests_and_constants_may_panic() {
        let text = "#[cfg(test)]\nmod t {\nfn f() { a.unwrap(); }\n}\nconst A: u8 = B.unwrap();\n";
        assert_eq!(check(&library(text)), []);
    }
}
