//! Checks where `unsafe` occurs, and that each occurrence has a SAFETY comment.

use crate::rule::{Finding, Rule};
use crate::source::{Source, Token};
use crate::workspace::Workspace;

/// The packages that may contain unsafe code.
pub(crate) const MAY_BE_UNSAFE: [&str; 5] = [
    "finerail-sys",
    "bmi-ffi",
    "lnet-dlc-ffi",
    "lnet-ffi",
    "finerail-python",
];

pub(crate) fn check(workspace: &Workspace) -> Vec<Finding> {
    let mut found = Vec::new();
    for source in &workspace.sources {
        let may = MAY_BE_UNSAFE.contains(&source.package.as_str());
        for (index, token) in source.tokens.iter().enumerate() {
            if token.text != "unsafe" {
                continue;
            }
            if !may {
                found.push(finding(
                    source,
                    token,
                    "not in a crate that may contain unsafe code",
                ));
            } else if needs_comment(source, index)
                && !source.has_comment_above(token.line, "SAFETY:")
            {
                found.push(finding(source, token, "no SAFETY comment directly above"));
            }
        }
    }
    found
}

/// A block and an `impl` fulfil an obligation, and their comment says how. An `unsafe fn` or
/// `trait` creates an obligation, which its documentation describes.
fn needs_comment(source: &Source, index: usize) -> bool {
    let next = source.tokens.get(index + 1);
    next.is_some_and(|next| next.text == "{" || next.text == "impl")
}

fn finding(source: &Source, token: &Token, what: &str) -> Finding {
    Finding {
        rule: Rule::Unsafe,
        path: source.path.clone(),
        line: token.line,
        subject: "unsafe".to_owned(),
        what: what.to_owned(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::planted::{file, library, places};

    #[test]
    fn unsafe_outside_the_crate_of_system_calls_is_found_also_in_tests_and_macros() {
        let text =
            "// SAFETY: none.\nunsafe fn f() {}\n#[cfg(test)]\nmod t { m!(unsafe { 1 }); }\n";
        assert_eq!(
            places(&check(&library(text))),
            [(2, "unsafe"), (4, "unsafe")]
        );
    }

    #[test]
    fn the_word_in_a_comment_or_a_string_is_not_unsafe_code() {
        assert_eq!(
            check(&library("/// No unsafe.\nfn f() { g(\"unsafe\"); }\n")),
            []
        );
    }

    #[test]
    fn an_unsafe_block_needs_a_safety_comment_directly_above() {
        let text = "\
fn f() {
    // SAFETY: the descriptor is open.
    unsafe { a() };
    // This one is fine too.
    unsafe { b() };
    // SAFETY: far away.

    unsafe { c() };
}
/// # Safety
unsafe fn d() {}
unsafe impl Send for E {}
";
        let found = check(&file("finerail-sys", "crates/sys/src/lib.rs", text));
        assert_eq!(
            places(&found),
            [(5, "unsafe"), (8, "unsafe"), (12, "unsafe")]
        );
    }
}
