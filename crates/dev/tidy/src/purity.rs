//! Checks that pure crates stay pure: the same input gives the same output, with a virtual clock as
//! with a real one.
//!
//! A pure crate takes time as a parameter and returns what is to be sent. Code can only use what it
//! can name. The rule therefore checks the names in the crate's source and the names of all
//! packages that are compiled into it. Tests of a pure crate may use anything.

use std::collections::BTreeSet;

use crate::rule::{Finding, Rule};
use crate::source::{Source, Token};
use crate::workspace::Workspace;

/// The packages without I/O, clocks and randomness.
const PURE: &[&str] = &[
    "lnet-lnd",
    "lnet-config",
    "lnet-core",
    "lnet-explain",
    "lnet-o2ib",
    "lnet-policy",
    "lnet-ptlrpc",
    "lnet-types",
    "lnet-wire",
    "zoid-proto",
];

/// Equally pure folders of packages that also access the system, each with the folder inside it that does; empty
/// if none does.
const PURE_FOLDERS: [(&str, &str); 7] = [
    ("crates/bmi/zoidd/src/zbmi/", ""),
    ("crates/lnet/dlc/src/protocol/", ""),
    ("crates/lnet/node/src/stack/", ""),
    ("crates/lnet/selftest/src/", "driver/"),
    ("crates/lnet/sim/src/", "stacks/"),
    ("crates/lnet/site/src/lint/", ""),
    ("crates/lnet/tcp/src/", "sockets/"),
];

/// Names that a pure crate must not contain, and what they stand for.
const NAMES: [(&str, &str); 24] = [
    ("Instant", "a clock"),
    ("SystemTime", "a clock"),
    ("UNIX_EPOCH", "a clock"),
    ("JoinHandle", "a thread"),
    ("thread_local", "a thread"),
    ("mpsc", "a thread"),
    ("Mutex", "a lock"),
    ("RwLock", "a lock"),
    ("Condvar", "a lock"),
    ("OnceLock", "a global"),
    ("LazyLock", "a global"),
    ("TcpStream", "a socket"),
    ("TcpListener", "a socket"),
    ("UdpSocket", "a socket"),
    ("UnixStream", "a socket"),
    ("UnixListener", "a socket"),
    ("UnixDatagram", "a socket"),
    ("ToSocketAddrs", "a name service"),
    ("File", "a file"),
    ("HashMap", "a random order"),
    ("HashSet", "a random order"),
    ("RandomState", "a random order"),
    ("DefaultHasher", "a hash that changes with the toolchain"),
    ("unsafe", "unsafe code"),
];

/// Modules of the standard library that access the system.
const MODULES: [&str; 5] = ["env", "fs", "os", "process", "thread"];

/// Packages that access the system. They must not be compiled in, not even indirectly.
const PACKAGES: [&str; 24] = [
    "ahash",
    "async-std",
    "chrono",
    "crossbeam-channel",
    "crossbeam-utils",
    "fastrand",
    "getrandom",
    "jiff",
    "libc",
    "mio",
    "nix",
    "parking_lot",
    "rand",
    "rand_core",
    "rayon",
    "rustix",
    "signal-hook",
    "smol",
    "socket2",
    "tempfile",
    "time",
    "tokio",
    "finerail-sys",
    "lnet-tcp",
];

pub(crate) fn check(workspace: &Workspace) -> Vec<Finding> {
    let mut found = Vec::new();
    for source in workspace
        .sources
        .iter()
        .filter(|source| is_pure_source(source))
    {
        let tokens = source
            .tokens
            .iter()
            .filter(|token| !source.in_test(token.line));
        let tokens: Vec<&Token> = tokens.collect();
        forbidden_names(source, &tokens, &mut found);
        forbidden_modules(source, &tokens, &mut found);
    }
    for package in workspace
        .packages
        .iter()
        .filter(|package| is_pure(&package.name))
    {
        let compiled_in: BTreeSet<&String> = package.closure.union(&package.dependencies).collect();
        for name in compiled_in
            .into_iter()
            .filter(|name| PACKAGES.contains(&name.as_str()))
        {
            found.push(Finding {
                rule: Rule::Purity,
                path: package.path.clone(),
                line: 1,
                subject: name.clone(),
                what: "compiled into a pure crate although it accesses the system".to_owned(),
            });
        }
    }
    found
}

pub(crate) fn is_pure(package: &str) -> bool {
    PURE.contains(&package)
}

fn is_pure_source(source: &Source) -> bool {
    let is_in_pure_folder = PURE_FOLDERS.iter().any(|(folder, impure)| {
        let inside = source.path.strip_prefix(folder);
        inside.is_some_and(|inside| impure.is_empty() || !inside.starts_with(impure))
    });
    is_pure(&source.package) || is_in_pure_folder
}

fn forbidden_names(source: &Source, tokens: &[&Token], found: &mut Vec<Finding>) {
    for token in tokens {
        let atomic = token.text.starts_with("Atomic").then_some("shared state");
        let listed = NAMES
            .iter()
            .find(|(name, _)| *name == token.text)
            .map(|(_, what)| *what);
        if let Some(what) = listed.or(atomic) {
            found.push(finding(source, token, what));
        }
    }
}

/// Finds `std::fs` anywhere, and `fs` in the first list of a `use std::{...}`.
fn forbidden_modules(source: &Source, tokens: &[&Token], found: &mut Vec<Finding>) {
    for (index, token) in tokens.iter().enumerate() {
        let after = |offset: usize| tokens.get(index + offset).map(|token| token.text.as_str());
        if token.text != "std" || after(1) != Some(":") || after(2) != Some(":") {
            continue;
        }
        let rest = tokens.get(index + 3..).unwrap_or_default();
        for module in first_names(rest)
            .into_iter()
            .filter(|m| MODULES.contains(&m.text.as_str()))
        {
            found.push(finding(source, module, "access to the system"));
        }
    }
}

/// Returns the name that follows, or the names at the start of the entries of the braces that
/// follow.
fn first_names<'a>(tokens: &[&'a Token]) -> Vec<&'a Token> {
    match tokens {
        [open, rest @ ..] if open.text == "{" => {
            let mut depth = 1;
            let mut begins = true;
            let mut names = Vec::new();
            for token in rest {
                match token.text.as_str() {
                    "{" => depth += 1,
                    "}" if depth == 1 => break,
                    "}" => depth -= 1,
                    _ if depth == 1 && begins => names.push(*token),
                    _ => {}
                }
                begins = token.text == ",";
            }
            names
        }
        [name, ..] => vec![name],
        [] => Vec::new(),
    }
}

fn finding(source: &Source, token: &Token, what: &str) -> Finding {
    Finding {
        rule: Rule::Purity,
        path: source.path.clone(),
        line: token.line,
        subject: token.text.clone(),
        what: format!("{what} in a pure crate"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::planted::{file, package, packages, places};

    fn core(text: &str) -> Workspace {
        file("lnet-core", "crates/lnet/core/src/lib.rs", text)
    }

    #[test]
    fn every_forbidden_name_is_found_in_code_imports_and_macros() {
        for (name, _) in NAMES {
            let text = format!("fn f() {{\n    m!({name});\n}}\n");
            assert_eq!(places(&check(&core(&text))), [(2, name)]);
        }
        assert_eq!(
            places(&check(&core("use a::AtomicU64;\n"))),
            [(1, "AtomicU64")]
        );
    }

    #[test]
    fn modules_of_std_that_access_the_system_are_found_in_paths_and_lists() {
        let text = "\
use std::{fmt, fs, collections::{BTreeMap, env}, thread};
fn f() {
    std::process::exit(1);
    std::fmt::Write(x);
}
";
        let found = check(&core(text));
        assert_eq!(places(&found), [(1, "fs"), (1, "thread"), (3, "process")]);
    }

    #[test]
    fn tests_comments_and_impure_crates_are_left_alone() {
        let text = "/// Not an Instant.\n#[cfg(test)]\nmod t {\nuse std::time::Instant;\n}\n";
        assert_eq!(check(&core(text)), []);
        assert_eq!(
            check(&file(
                "lnet-node",
                "crates/lnet/node/src/lib.rs",
                "use a::Instant;\n"
            )),
            []
        );
    }

    #[test]
    fn sources_beside_sockets_must_be_pure_and_the_sockets_need_not() {
        let in_tcp = |path: &str| check(&file("lnet-tcp", path, "use a::Instant;\n"));
        let found = in_tcp("crates/lnet/tcp/src/closing.rs");
        assert_eq!(places(&found), [(1, "Instant")]);
        assert_eq!(in_tcp("crates/lnet/tcp/src/sockets/mod.rs"), []);
        let stack = file(
            "lnet-node",
            "crates/lnet/node/src/stack/turn.rs",
            "use a::Instant;\n",
        );
        assert_eq!(places(&check(&stack)), [(1, "Instant")]);
    }

    #[test]
    fn a_package_that_accesses_the_system_is_found_even_if_compiled_in_indirectly() {
        let mut core = package("lnet-core", &["slab"]);
        core.closure.insert("getrandom".to_owned());
        let node = package("lnet-node", &["mio"]);
        let found = check(&packages(vec![core, node]));
        assert_eq!(places(&found), [(1, "getrandom")]);
    }
}
