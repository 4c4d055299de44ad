//! Checks which crate depends on which, and that each has the lints of the workspace.

use std::collections::BTreeSet;

use crate::purity::is_pure;
use crate::rule::{Finding, Rule};
use crate::unsafety::MAY_BE_UNSAFE;
use crate::workspace::{Package, Workspace};

/// The layers: every crate, lowest first, with the crates of this workspace that its library may
/// use. Tests may use more, because they are not shipped.
const EDGES: &[(&str, &[&str])] = &[
    ("lnet-types", &[]),
    ("finerail-files", &[]),
    ("finerail-sys", &[]),
    ("testkit", &["finerail-sys"]),
    ("lnet-wire", &["lnet-types"]),
    ("lnet-policy", &["lnet-types"]),
    ("lnet-config", &["lnet-policy", "lnet-types"]),
    (
        "finerail-fgr",
        &["lnet-config", "lnet-policy", "lnet-types"],
    ),
    ("lnet-lnd", &["lnet-wire", "lnet-types"]),
    (
        "lnet-core",
        &["lnet-lnd", "lnet-policy", "lnet-wire", "lnet-types"],
    ),
    (
        "lnet-tcp",
        &["lnet-lnd", "lnet-wire", "lnet-types", "finerail-sys"],
    ),
    ("lnet-o2ib", &["lnet-lnd", "lnet-wire", "lnet-types"]),
    ("lnet-verbs", &["lnet-o2ib", "lnet-wire", "finerail-sys"]),
    ("lnet-capture", &["lnet-wire", "lnet-types"]),
    ("lnet-ptlrpc", &["lnet-wire", "lnet-types"]),
    (
        "lnet-conform",
        &[
            "lnet-o2ib",
            "lnet-verbs",
            "lnet-wire",
            "lnet-types",
            "finerail-sys",
        ],
    ),
    (
        "lnet-node",
        &[
            "lnet-lnd",
            "lnet-core",
            "lnet-tcp",
            "lnet-o2ib",
            "lnet-verbs",
            "lnet-wire",
            "lnet-types",
            "finerail-sys",
        ],
    ),
    (
        "lnet-dlc",
        &["lnet-config", "lnet-policy", "lnet-types", "finerail-sys"],
    ),
    (
        "lnet-noded",
        &[
            "lnet-node",
            "lnet-dlc",
            "lnet-policy",
            "lnet-ptlrpc",
            "lnet-core",
            "lnet-o2ib",
            "lnet-tcp",
            "lnet-config",
            "lnet-wire",
            "lnet-types",
            "finerail-sys",
        ],
    ),
    ("lnet-dlc-ffi", &["lnet-dlc", "lnet-policy"]),
    (
        "lnet-ffi",
        &[
            "lnet-node",
            "lnet-noded",
            "lnet-config",
            "lnet-wire",
            "lnet-types",
            "finerail-sys",
        ],
    ),
    (
        "lnet-rpc",
        &[
            "lnet-node",
            "lnet-core",
            "lnet-tcp",
            "lnet-wire",
            "lnet-types",
            "finerail-sys",
        ],
    ),
    (
        "lnet-selftest",
        &[
            "lnet-node",
            "lnet-core",
            "lnet-tcp",
            "lnet-wire",
            "lnet-types",
            "finerail-sys",
        ],
    ),
    (
        "files-lnet",
        &[
            "finerail-files",
            "lnet-rpc",
            "lnet-node",
            "lnet-core",
            "lnet-tcp",
            "lnet-wire",
            "lnet-types",
            "finerail-sys",
        ],
    ),
    (
        "lnet-explain",
        &[
            "lnet-core",
            "lnet-config",
            "lnet-policy",
            "lnet-wire",
            "lnet-types",
        ],
    ),
    (
        "lnet-sim",
        &[
            "lnet-node",
            "lnet-lnd",
            "lnet-core",
            "lnet-tcp",
            "lnet-o2ib",
            "lnet-policy",
            "lnet-wire",
            "lnet-types",
            "finerail-sys",
        ],
    ),
    (
        "lnet-site",
        &[
            "lnet-config",
            "lnet-policy",
            "lnet-types",
            "finerail-fgr",
            "lnet-explain",
            "lnet-core",
        ],
    ),
    ("finerail-bmi", &["finerail-sys"]),
    (
        "files-bmi",
        &["finerail-bmi", "finerail-files", "finerail-sys"],
    ),
    ("zoid-proto", &[]),
    ("zoidd", &["zoid-proto", "finerail-sys"]),
    ("zoid", &["finerail-bmi", "zoid-proto", "finerail-sys"]),
    ("bmi-ffi", &["finerail-bmi", "zoid", "finerail-sys"]),
    (
        "finerail-python",
        &[
            "finerail-fgr",
            "lnet-capture",
            "lnet-config",
            "lnet-conform",
            "lnet-dlc",
            "lnet-explain",
            "lnet-node",
            "lnet-noded",
            "lnet-site",
            "lnet-types",
            "lnet-wire",
            "finerail-sys",
        ],
    ),
    (
        "finerail",
        &[
            "lnet-dlc",
            "lnet-explain",
            "lnet-site",
            "lnet-sim",
            "lnet-policy",
            "finerail-bmi",
            "zoid",
            "zoidd",
            "zoid-proto",
            "finerail-fgr",
            "finerail-files",
            "files-bmi",
            "files-lnet",
            "lnet-capture",
            "lnet-ptlrpc",
            "lnet-conform",
            "lnet-rpc",
            "lnet-selftest",
            "lnet-noded",
            "lnet-node",
            "lnet-core",
            "lnet-tcp",
            "lnet-config",
            "lnet-wire",
            "lnet-types",
            "finerail-sys",
        ],
    ),
    (
        "finerail-bench",
        &[
            "finerail-files",
            "files-bmi",
            "finerail",
            "finerail-bmi",
            "zoid",
            "zoidd",
            "zoid-proto",
            "finerail-fgr",
            "lnet-selftest",
            "lnet-noded",
            "lnet-node",
            "lnet-core",
            "lnet-config",
            "lnet-dlc",
            "lnet-policy",
            "lnet-ptlrpc",
            "lnet-wire",
            "lnet-types",
            "finerail-sys",
        ],
    ),
    ("tidy", &["testkit"]),
    ("mutations", &["testkit"]),
    ("api", &["testkit"]),
    ("lustre-collector-check", &[]),
    (
        "lnet-fuzz",
        &[
            "finerail-fgr",
            "finerail-files",
            "files-bmi",
            "lnet-capture",
            "lnet-ptlrpc",
            "lnet-rpc",
            "lnet-selftest",
            "lnet-site",
            "files-lnet",
            "lnet-config",
            "lnet-core",
            "lnet-dlc",
            "lnet-o2ib",
            "lnet-policy",
            "lnet-wire",
            "lnet-types",
            "zoidd",
            "zoid-proto",
        ],
    ),
];

/// Packages that a program with an embedded node must not contain: documents and servers. None of
/// them may be compiled into the crate, not even indirectly.
const LEFT_OUT: [(&str, &[&str]); 1] = [(
    "lnet-node",
    &[
        "lnet-config",
        "lnet-dlc",
        "granit-parser",
        "prometheus-client",
        "serde-saphyr",
        "serde_json",
    ],
)];

/// Returns whether something must not be compiled into a package.
pub(crate) fn leaves_out(package: &str) -> bool {
    LEFT_OUT.iter().any(|(name, _)| *name == package)
}

pub(crate) fn left_out(workspace: &Workspace) -> Vec<Finding> {
    let what = "compiled into a crate that must not contain it";
    let mut found = Vec::new();
    for (name, unwanted) in LEFT_OUT {
        for package in workspace.packages.iter().filter(|p| p.name == name) {
            let compiled_in = unwanted
                .iter()
                .filter(|name| package.closure.contains(**name));
            found.extend(compiled_in.map(|name| finding(Rule::Layering, package, 1, name, what)));
        }
    }
    found
}

pub(crate) fn edges(workspace: &Workspace) -> Vec<Finding> {
    let members: BTreeSet<&str> = workspace.packages.iter().map(|p| p.name.as_str()).collect();
    let mut found = Vec::new();
    for package in &workspace.packages {
        let Some((_, allowed)) = EDGES.iter().find(|(name, _)| *name == package.name) else {
            let what = "not among the layers: add it in crates/dev/tidy/src/layering.rs";
            found.push(finding(Rule::Layering, package, 1, &package.name, what));
            continue;
        };
        let ours = package
            .dependencies
            .iter()
            .filter(|name| members.contains(name.as_str()));
        for name in ours.filter(|name| !allowed.contains(&name.as_str())) {
            let line = line_of(&package.manifest, name);
            let what = format!("{} may not depend on it", package.name);
            found.push(finding(Rule::Layering, package, line, name, &what));
        }
    }
    found
}

/// A package inherits the lints of the workspace. A package that may contain unsafe code repeats
/// them with `unsafe_code` relaxed, because Cargo inherits either all lints or none.
pub(crate) fn lints(workspace: &Workspace) -> Vec<Finding> {
    let shared = tables(&workspace.manifest, "workspace.lints");
    let mut found = Vec::new();
    if !shared.contains("rust unsafe_code = \"forbid\"") {
        let what = "the workspace does not forbid unsafe code";
        found.push(Finding {
            rule: Rule::Lints,
            path: "Cargo.toml".to_owned(),
            line: 1,
            subject: "unsafe_code".to_owned(),
            what: what.to_owned(),
        });
    }
    for package in &workspace.packages {
        let own = tables(&package.manifest, "lints");
        let expected = if MAY_BE_UNSAFE.contains(&package.name.as_str()) {
            shared
                .iter()
                .map(|line| line.replace("\"forbid\"", "\"deny\""))
                .collect()
        } else {
            BTreeSet::from([" workspace = true".to_owned()])
        };
        if own != expected {
            let line = line_of(&package.manifest, "[lints");
            let differing: Vec<&str> = own
                .symmetric_difference(&expected)
                .map(|line| line.trim())
                .collect();
            let what = format!("differs from the workspace's: {}", differing.join("; "));
            found.push(finding(Rule::Lints, package, line, "", &what));
        }
    }
    found
}

/// A crate with a `clippy.toml` of its own has every line of the root's file in it, because clippy
/// reads only one of them. A pure crate has one, which bans clocks and the like.
pub(crate) fn clippy(workspace: &Workspace) -> Vec<Finding> {
    let mut found = Vec::new();
    for package in &workspace.packages {
        let own = package.clippy.as_str();
        let place = |what: &str| Finding {
            rule: Rule::Lints,
            path: package.path.replace("Cargo.toml", "clippy.toml"),
            line: 1,
            subject: String::new(),
            what: what.to_owned(),
        };
        if own.is_empty() {
            if is_pure(&package.name) {
                found.push(place(
                    "a pure crate needs one, which bans clocks, threads and sockets",
                ));
            }
            continue;
        }
        let shared = workspace.clippy.lines().filter(|line| line.contains('='));
        for line in shared.filter(|line| !own.lines().any(|own| own == *line)) {
            found.push(place(&format!("lacks the root's {line:?}")));
        }
        if is_pure(&package.name) && !own.contains("disallowed-types") {
            found.push(place("bans no types"));
        }
    }
    found
}

/// Returns the entries of the table `name` and of its sub-tables, each as `SUBTABLE KEY = VALUE`.
fn tables(manifest: &str, name: &str) -> BTreeSet<String> {
    let mut current = None;
    let mut entries = BTreeSet::new();
    for line in manifest.lines().map(str::trim) {
        if let Some(header) = line
            .strip_prefix('[')
            .and_then(|rest| rest.strip_suffix(']'))
        {
            let rest = header.strip_prefix(name);
            current = rest.filter(|rest| rest.is_empty() || rest.starts_with('.'));
        } else if let Some(table) = current
            && !line.is_empty()
            && !line.starts_with('#')
        {
            entries.insert(format!("{} {line}", table.trim_start_matches('.')));
        }
    }
    entries
}

fn line_of(manifest: &str, start: &str) -> usize {
    manifest
        .lines()
        .position(|line| line.starts_with(start))
        .map_or(1, |index| index + 1)
}

fn finding(rule: Rule, package: &Package, line: usize, subject: &str, what: &str) -> Finding {
    Finding {
        rule,
        path: package.path.clone(),
        line,
        subject: subject.to_owned(),
        what: what.to_owned(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::planted::{package, packages, places};

    #[test]
    fn the_layers_have_no_cycle_because_every_edge_points_to_an_earlier_crate_in_the_list() {
        for (index, (name, allowed)) in EDGES.iter().enumerate() {
            for below in *allowed {
                let position = EDGES.iter().position(|(other, _)| other == below);
                assert!(position.is_some_and(|p| p < index), "{name} -> {below}");
            }
        }
    }

    #[test]
    fn an_edge_that_points_upwards_is_found_with_its_line() {
        let mut wire = package("lnet-wire", &["lnet-types", "lnet-core", "bytes"]);
        wire.manifest =
            "[dependencies]\nlnet-types.workspace = true\nlnet-core.workspace = true\n".to_owned();
        let workspace = packages(vec![
            wire,
            package("lnet-core", &[]),
            package("lnet-types", &[]),
        ]);
        assert_eq!(places(&edges(&workspace)), [(3, "lnet-core")]);
    }

    #[test]
    fn a_package_that_a_crate_must_not_contain_is_found_even_if_compiled_in_indirectly() {
        let mut node = package("lnet-node", &["lnet-core"]);
        node.closure.insert("prometheus-client".to_owned());
        let workspace = packages(vec![node, package("lnet-noded", &["prometheus-client"])]);
        assert_eq!(places(&left_out(&workspace)), [(1, "prometheus-client")]);
    }

    #[test]
    fn a_crate_outside_the_layers_is_found() {
        assert_eq!(
            places(&edges(&packages(vec![package("stray", &[])]))),
            [(1, "stray")]
        );
    }

    #[test]
    fn a_crate_without_the_workspaces_lints_is_found() {
        let with_lints = |name: &str, manifest: &str| {
            let mut package = package(name, &[]);
            package.manifest = manifest.to_owned();
            let mut workspace = packages(vec![package]);
            workspace.manifest =
                "[workspace.lints.rust]\nunsafe_code = \"forbid\"\nmissing_docs = \"warn\"\n"
                    .to_owned();
            lints(&workspace).len()
        };
        assert_eq!(with_lints("a", "[lints]\nworkspace = true\n"), 0);
        assert_eq!(with_lints("a", "[package]\n"), 1);
        assert_eq!(with_lints("a", "[lints.rust]\nunsafe_code = \"deny\"\n"), 1);
        let copy = "[lints.rust]\n# Why.\nunsafe_code = \"deny\"\nmissing_docs = \"warn\"\n";
        assert_eq!(with_lints("finerail-sys", copy), 0);
        assert_eq!(
            with_lints("finerail-sys", "[lints.rust]\nunsafe_code = \"deny\"\n"),
            1
        );
    }

    #[test]
    fn a_workspace_that_allows_unsafe_code_is_found() {
        assert_eq!(lints(&packages(Vec::new())).len(), 1);
    }

    #[test]
    fn a_clippy_configuration_that_drops_a_limit_or_bans_nothing_is_found() {
        let with_clippy = |name: &str, clippy: &str| {
            let mut package = package(name, &[]);
            package.clippy = clippy.to_owned();
            let mut workspace = packages(vec![package]);
            workspace.clippy = "# Why.\nlimit = 70\n".to_owned();
            super::clippy(&workspace).len()
        };
        assert_eq!(with_clippy("lnet-node", ""), 0);
        assert_eq!(with_clippy("lnet-core", ""), 1);
        assert_eq!(with_clippy("lnet-node", "limit = 71\n"), 1);
        assert_eq!(with_clippy("lnet-core", "limit = 70\n"), 1);
        assert_eq!(
            with_clippy("lnet-core", "limit = 70\ndisallowed-types = []\n"),
            0
        );
    }
}
