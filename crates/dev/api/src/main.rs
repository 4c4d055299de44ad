//! Compares the public items of the crates that people embed with those that are written down.
//!
//! rustdoc describes the items of a crate in JSON, which it does only if asked as a nightly compiler is
//! (`RUSTC_BOOTSTRAP`).

use std::collections::BTreeSet;
use std::path::{Path, PathBuf};
use std::process::{Command, ExitCode};

use anyhow::{Context, bail, ensure};

/// The packages, and the names of their libraries.
const EMBEDDED: [(&str, &str); 12] = [
    ("finerail-bmi", "bmi"),
    ("finerail-fgr", "fgr"),
    ("finerail-files", "files"),
    ("lnet-capture", "lnet_capture"),
    ("lnet-config", "lnet_config"),
    ("lnet-dlc", "lnet_dlc"),
    ("lnet-node", "lnet_node"),
    ("lnet-policy", "lnet_policy"),
    ("lnet-rpc", "lnet_rpc"),
    ("lnet-types", "lnet_types"),
    ("lnet-wire", "lnet_wire"),
    ("zoid", "zoid"),
];

fn main() -> anyhow::Result<ExitCode> {
    let writes = match std::env::args().nth(1).as_deref() {
        None => false,
        Some("--write") => true,
        Some(_) => bail!("usage: cargo run -p api [-- --write]"),
    };
    let mut is_same = true;
    for (package, library) in EMBEDDED {
        let items = items(package, library)?;
        let file = testkit::workspace::root().join(format!("api/{package}.txt"));
        if writes {
            std::fs::write(&file, items).with_context(|| file.display().to_string())?;
        } else {
            is_same &= compare(package, &file, &items)?;
        }
    }
    if !is_same {
        eprintln!(
            "`cargo run -p api -- --write` writes this down; see docs/book/reference/stability.md"
        );
    }
    Ok(if is_same {
        ExitCode::SUCCESS
    } else {
        ExitCode::FAILURE
    })
}

/// Returns the public items of a package, one a line.
fn items(package: &str, library: &str) -> anyhow::Result<String> {
    let target = testkit::workspace::root().join("target/api");
    let status = Command::new(env!("CARGO"))
        .args([
            "rustdoc",
            "--quiet",
            "--locked",
            "--lib",
            "--package",
            package,
        ])
        .arg("--target-dir")
        .arg(&target)
        .args(["--", "-Z", "unstable-options", "--output-format", "json"])
        .current_dir(testkit::workspace::root())
        .env("RUSTC_BOOTSTRAP", "1")
        .status()?;
    ensure!(status.success(), "rustdoc of {package}: {status}");
    let described: PathBuf = target.join(format!("doc/{library}.json"));
    let api = public_api::Builder::from_rustdoc_json(described)
        .omit_blanket_impls(true)
        .omit_auto_trait_impls(true)
        .omit_auto_derived_impls(true)
        .build()
        .with_context(|| format!("the description of {package}"))?;
    Ok(api.items().map(|item| format!("{item}\n")).collect())
}

/// Prints what is new and what is gone; returns true if nothing is.
fn compare(package: &str, file: &Path, items: &str) -> anyhow::Result<bool> {
    let known = std::fs::read_to_string(file).with_context(|| file.display().to_string())?;
    let (known, now): (BTreeSet<_>, BTreeSet<_>) =
        (known.lines().collect(), items.lines().collect());
    for gone in known.difference(&now) {
        println!("{package}: gone: {gone}");
    }
    for new in now.difference(&known) {
        println!("{package}: new: {new}");
    }
    Ok(known == now)
}
