//! Checks the order of the rooms of `lnet-core`: a room names rooms below it and itself, and never [`Core`], which joins
//! them.
//!
//! ```text
//!  ground ◀─ fabric ◀─ traffic ◀─ upkeep ◀─ Core
//! ```
//!
//! [`Core`]: ../../lnet/core/src/lib.rs

use crate::rule::{Finding, Rule};
use crate::source::Source;
use crate::workspace::Workspace;

const PACKAGE: &str = "lnet-core";

/// The rooms, lowest first.
const ROOMS: [&str; 4] = ["ground", "fabric", "traffic", "upkeep"];

/// The modules beside the rooms that a room may name: the forms in which its values are written.
const FORMS: [&str; 2] = ["record", "state"];

/// The limit of methods of `Core`, without those that the table of inputs makes.
const METHODS_MAX: usize = 100;

pub(crate) fn check(workspace: &Workspace) -> Vec<Finding> {
    let of_core = workspace.sources.iter();
    let of_core = of_core.filter(|source| source.package == PACKAGE && !source.is_test);
    let mut found = Vec::new();
    let mut methods = 0;
    for source in of_core {
        found.extend(upward(source));
        methods += methods_of_core(source);
        if methods > METHODS_MAX {
            let what = format!("Core has more than {METHODS_MAX} methods: a room is their place");
            found.push(finding(source, 1, "Core", what));
            methods = 0;
        }
    }
    found
}

/// Returns the room of a file, by its number.
fn room(path: &str) -> Option<usize> {
    let folder = path.split("/src/").nth(1)?.split('/').next()?;
    ROOMS.iter().position(|room| *room == folder)
}

fn upward(source: &Source) -> Vec<Finding> {
    let Some(here) = room(&source.path) else {
        return Vec::new();
    };
    let mut found = Vec::new();
    for window in source.tokens.windows(4) {
        let [start, colon, colon_too, name] = window else {
            continue;
        };
        let is_path = start.text == "crate" && colon.text == ":" && colon_too.text == ":";
        if !is_path || source.in_test(name.line) {
            continue;
        }
        let there = ROOMS.iter().position(|room| *room == name.text);
        let is_allowed = there.is_some_and(|there| there <= here) || FORMS.contains(&&*name.text);
        if !is_allowed {
            let what = format!("{} is not below the room {}", name.text, ROOMS[here]);
            found.push(finding(source, name.line, &name.text, what));
        }
    }
    found
}

fn methods_of_core(source: &Source) -> usize {
    let impls = source.tree.items.iter().filter_map(|item| match item {
        syn::Item::Impl(block) if block.trait_.is_none() => Some(block),
        _ => None,
    });
    let of_core = impls.filter(|block| match &*block.self_ty {
        syn::Type::Path(path) => path.path.is_ident("Core"),
        _ => false,
    });
    let items = of_core.flat_map(|block| &block.items);
    items
        .filter(|item| matches!(item, syn::ImplItem::Fn(_)))
        .count()
}

fn finding(source: &Source, line: usize, subject: &str, what: String) -> Finding {
    Finding {
        rule: Rule::Rooms,
        path: source.path.clone(),
        line,
        subject: subject.to_owned(),
        what,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::planted::{file, places};

    fn core(path: &str, text: &str) -> Workspace {
        file(PACKAGE, &format!("crates/lnet/core/src/{path}"), text)
    }

    #[test]
    fn a_room_that_names_a_higher_one_or_core_is_found() {
        let text = "use crate::ground::io::NiId;\nuse crate::fabric::Fabric;\n\
                    use crate::traffic::send::tx::Tx;\nuse crate::Core;\n";
        let workspace = core("fabric/ni.rs", text);
        assert_eq!(places(&check(&workspace)), [(3, "traffic"), (4, "Core")]);
    }

    #[test]
    fn what_joins_the_rooms_may_name_them() {
        let text = "use crate::upkeep::Upkeep;\nuse crate::Core;\n";
        assert!(check(&core("view.rs", text)).is_empty());
    }

    #[test]
    fn a_core_with_too_many_methods_is_found() {
        let methods: String = (0..=METHODS_MAX)
            .map(|n| format!("fn m{n}() {{}}\n"))
            .collect();
        let workspace = core("view.rs", &format!("impl Core {{\n{methods}}}\n"));
        assert_eq!(places(&check(&workspace)), [(1, "Core")]);
    }
}
