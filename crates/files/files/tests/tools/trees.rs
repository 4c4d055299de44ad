//! Usage, comparison and removal of trees.

#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    reason = "a test fails by panicking, in its helpers too"
)]

use std::fs::{self, File, Permissions};
use std::os::unix::fs::{MetadataExt, PermissionsExt, symlink};
use std::sync::Mutex;

use files::FileSystem;
use files::tools::{
    Below, CheckOptions, Failures, Options, PIECE, Progress, check, digest, old_parts, remove,
    usage,
};
use files::{Errno, Request};

use crate::common::{Lab, everything, path, pattern, texts};

/// Returns the differences, sorted.
fn differences(lab: &Lab, options: &CheckOptions) -> Vec<String> {
    let (one, other) = (lab.source(), lab.target());
    let (one, other) = (lab.tree(&one, "from"), lab.tree(&other, "to"));
    let found = Mutex::new(Vec::new());
    let progress = Progress::default();
    let note = |path: Option<&files::Path>, difference: files::tools::Difference| {
        found
            .lock()
            .unwrap()
            .push(format!("{}: {difference}", other.shown(path)));
    };
    let failures = check(one, other, &everything(), options, &progress, &note);
    assert_eq!(texts(&failures), [""; 0]);
    let mut found = found.into_inner().unwrap();
    // A copy leaves mode and time of the top directory unchanged, because this directory existed
    // before.
    found.retain(|line| !line.starts_with("to/: "));
    found.sort();
    found
}

const WHOLE: CheckOptions = CheckOptions {
    jobs: 3,
    quick: false,
    attributes: true,
};

#[test]
fn every_difference_is_found() {
    let lab = Lab::new();
    fs::create_dir_all(lab.from("d/e")).unwrap();
    let long = pattern(2 * PIECE as usize + 100);
    for name in [
        "same", "byte", "size", "mode", "missing", "kind", "d/e/deep",
    ] {
        fs::write(lab.from(name), &long).unwrap();
    }
    symlink("x", lab.from("link")).unwrap();
    let (_, failures) = lab.copy(&lab.source(), &lab.target(), &Options::default());
    assert_eq!(failures.count, 0);
    assert_eq!(differences(&lab, &WHOLE), [""; 0]);
    let mut changed = long.clone();
    changed[PIECE as usize + 5] ^= 1;
    let time = fs::metadata(lab.to("byte")).unwrap().modified().unwrap();
    fs::write(lab.to("byte"), &changed).unwrap();
    File::options()
        .write(true)
        .open(lab.to("byte"))
        .unwrap()
        .set_modified(time)
        .unwrap();
    fs::write(lab.to("size"), "short").unwrap();
    fs::set_permissions(lab.to("mode"), Permissions::from_mode(0o600)).unwrap();
    for name in ["missing", "kind", "link"] {
        fs::remove_file(lab.to(name)).unwrap();
    }
    fs::create_dir(lab.to("kind")).unwrap();
    symlink("y", lab.to("link")).unwrap();
    fs::write(lab.to("d/e/extra"), "").unwrap();
    let quick = CheckOptions {
        quick: true,
        attributes: false,
        ..WHOLE
    };
    let expected = [
        "to/d/e/extra: only there",
        "to/kind: of another kind",
        "to/link: points elsewhere",
        "to/missing: missing",
        "to/size: 5 bytes instead of 8388708",
    ];
    assert_eq!(differences(&lab, &quick), expected);
    let whole = differences(&lab, &WHOLE);
    let byte = format!("to/byte: other content, at byte {}", PIECE + 5);
    assert!(whole.contains(&byte), "{whole:?}");
    let mode = whole.iter().find(|line| line.starts_with("to/mode"));
    assert!(mode.unwrap().starts_with("to/mode: mode 0600 instead of 0"));
}

#[test]
fn a_digest_is_that_of_blake3() {
    let lab = Lab::new();
    let bytes = pattern(PIECE as usize + 1);
    fs::write(lab.from("a"), &bytes).unwrap();
    let files = lab.source();
    let found = digest(lab.tree(&files, ""), &path("a"), &Progress::default()).unwrap();
    assert_eq!(&found.0, blake3::hash(&bytes).as_bytes());
}

#[test]
fn a_file_with_several_names_takes_space_once() {
    let lab = Lab::new();
    fs::create_dir(lab.from("d")).unwrap();
    fs::write(lab.from("a"), pattern(100_000)).unwrap();
    fs::hard_link(lab.from("a"), lab.from("d/b")).unwrap();
    fs::write(lab.from("d/c"), pattern(5)).unwrap();
    symlink("x", lab.from("d/link")).unwrap();
    let (files, progress) = (lab.source(), Progress::default());
    let mut failures = Failures::default();
    let found = usage(lab.tree(&files, ""), None, &progress, &mut failures).unwrap();
    assert_eq!((found.files, found.directories, found.others), (2, 2, 1));
    assert_eq!(found.bytes, 100_005);
    assert!(found.space >= 100_000 && found.space < 200_000, "{found:?}");
}

#[test]
fn a_removal_takes_links_and_not_what_they_point_to() {
    let lab = Lab::new();
    let outside = tempfile::tempdir().unwrap();
    fs::write(outside.path().join("precious"), "").unwrap();
    fs::create_dir_all(lab.from("d/e/f")).unwrap();
    for number in 0..600 {
        fs::write(lab.from(format!("d/e/{number}")), "").unwrap();
    }
    symlink(outside.path(), lab.from("d/link")).unwrap();
    let (files, progress) = (lab.source(), Progress::default());
    let tree = lab.tree(&files, "from");
    let mut failures = Failures::default();
    remove(tree, &path("d"), false, &progress, &mut failures);
    assert!(
        texts(&failures)[0].contains("-r includes it"),
        "{failures:?}"
    );
    let mut failures = Failures::default();
    remove(tree, &path("d"), true, &progress, &mut failures);
    assert_eq!(texts(&failures), [""; 0]);
    assert!(!lab.from("d").exists());
    assert!(outside.path().join("precious").exists());
    assert_eq!((progress.files(), progress.directories()), (601, 3));
}

#[test]
fn what_cannot_be_removed_is_said_once_and_the_rest_goes() {
    let lab = Lab::new();
    fs::create_dir_all(lab.from("d/e")).unwrap();
    for name in ["d/e/keep", "d/e/go", "d/other"] {
        fs::write(lab.from(name), "").unwrap();
    }
    let stubborn = lab.odd_source(|files, caller, request, data| match request {
        Request::Remove { place, .. } if place.path.as_bytes() == b"d/e/keep" => Err(Errno::EPERM),
        _ => files.call(caller, request, data),
    });
    let mut failures = Failures::default();
    let tree = lab.tree(&stubborn, "from");
    remove(tree, &path("d"), true, &Progress::default(), &mut failures);
    let expected = ["cannot remove from/d/e/keep: Operation not permitted (EPERM)"];
    assert_eq!(texts(&failures), expected);
    assert!(lab.from("d/e/keep").exists());
    assert!(!lab.from("d/e/go").exists() && !lab.from("d/other").exists());
}

#[test]
fn a_directory_is_a_root_that_its_server_may_forget() {
    let lab = Lab::new();
    fs::create_dir_all(lab.from("a/b/c")).unwrap();
    fs::write(lab.from("a/b/f"), "f").unwrap();
    let stale = std::sync::atomic::AtomicBool::new(false);
    let forgetful = lab.odd_source(move |files, caller, request, data| match request {
        Request::ReadDir { .. } if !stale.swap(true, std::sync::atomic::Ordering::Relaxed) => {
            Err(Errno::ESTALE)
        }
        _ => files.call(caller, request, data),
    });
    let below = Below::new(std::sync::Arc::new(forgetful), path("a/b"));
    let root = below.getattr(&lab.caller, files::Handle::ROOT).unwrap();
    assert!(root.is_directory());
    let listing = below
        .readdir(&lab.caller, files::Handle::ROOT, 0, 100, true)
        .unwrap();
    assert_eq!(listing.entries.len(), 4);
    let at = |name: &[u8]| files::Place::from_root(name).unwrap();
    below
        .rename(&lab.caller, at(b"f"), at(b"c/g"), files::RenameMode::Keep)
        .unwrap();
    let found = below.lookup(&lab.caller, at(b"c")).unwrap();
    let inner = files::Place::of(found.handle, b"g").unwrap();
    assert_eq!(below.lookup(&lab.caller, inner).unwrap().attributes.size, 1);
    assert_eq!(fs::read(lab.from("a/b/c/g")).unwrap(), b"f");
    let outside = below.lookup(&lab.caller, at(b"a"));
    assert_eq!(outside.unwrap_err(), Errno::ENOENT);
}

#[test]
fn old_parts_are_found_and_removed_and_what_is_new_or_no_part_stays() {
    let lab = Lab::new();
    let part = format!(
        "{}{}",
        files::tools::PART_PREFIX,
        "0123456789abcdef".repeat(2)
    );
    fs::create_dir(lab.to("d")).unwrap();
    for name in [
        format!("d/{part}"),
        part.clone(),
        format!("{part}0"),
        "a".into(),
    ] {
        fs::write(lab.to(name), "x").unwrap();
    }
    let target = lab.target();
    let tree = lab.tree(&target, "to");
    let now = fs::metadata(lab.to("a")).unwrap().ctime();
    let find = |before: i64, is_removed: bool| {
        let (progress, mut failures, mut found) = (Progress::default(), Failures::default(), 0);
        let each = |_: &files::Path| {
            found += 1;
            is_removed
        };
        old_parts(tree, None, before, &progress, &mut failures, each);
        assert_eq!(texts(&failures), [""; 0]);
        (found, progress.files())
    };
    assert_eq!(find(now - 1, true), (0, 0));
    assert_eq!(find(now + 60, false), (2, 0));
    assert_eq!(find(now + 60, true), (2, 2));
    assert_eq!(find(now + 60, true), (0, 0));
    assert!(lab.to("a").exists() && lab.to(format!("{part}0")).exists());
}
