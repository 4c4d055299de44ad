//! `finerail files` on directories of this machine, with the real program.

#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    reason = "a test fails by panicking, in its helpers too"
)]

mod common;

use std::ffi::{OsStr, OsString};
use std::fs::{self, File, Permissions};
use std::os::unix::ffi::{OsStrExt, OsStringExt};
use std::os::unix::fs::{FileExt, MetadataExt, PermissionsExt, symlink};
use std::path::PathBuf;

use serde_json::Value;
use tempfile::TempDir;

use common::process::{Ended, run};
use common::{finerail, pattern};

struct Lab(TempDir);

impl Lab {
    fn new() -> Self {
        let lab = Self(TempDir::with_prefix("finerail-test-").unwrap());
        fs::create_dir(lab.path("kept")).unwrap();
        lab
    }

    fn path(&self, name: impl AsRef<OsStr>) -> PathBuf {
        self.0.path().join(name.as_ref())
    }

    /// Runs `finerail files` with these words; `@` stands for `dir:` and this directory, `~` for this directory.
    fn files(&self, words: &[&str]) -> Ended {
        let here = self.0.path().as_os_str();
        let word = |word: &&str| match word.as_bytes() {
            [b'@', rest @ ..] => bytes(&[b"dir:", here.as_bytes(), b"/", rest]),
            [b'~', rest @ ..] => bytes(&[here.as_bytes(), b"/", rest]),
            rest => bytes(&[rest]),
        };
        let words = words.iter().map(word);
        run(finerail([OsString::from("files")].into_iter().chain(words)))
    }

    fn json(&self, words: &[&str]) -> Value {
        let ended = self.files(&[words, &["--json"]].concat()).expect_code(0);
        serde_json::from_str(&ended.out).unwrap()
    }
}

fn bytes(parts: &[&[u8]]) -> OsString {
    OsString::from_vec(parts.concat())
}

#[test]
fn a_tree_goes_there_and_back_with_strange_names() {
    let lab = Lab::new();
    fs::create_dir_all(lab.path("tree/d/empty")).unwrap();
    fs::write(lab.path("tree/large"), pattern(9_000_000)).unwrap();
    fs::write(lab.path("tree/d").join(OsStr::from_bytes(b"a\n\xff")), "x").unwrap();
    symlink("../large", lab.path("tree/d/link")).unwrap();
    let sparse = File::create(lab.path("tree/sparse")).unwrap();
    sparse.write_all_at(b"end", 50 << 20).unwrap();
    let sum = lab.json(&["put", "-r", "~tree", "@kept/"]);
    assert_eq!((&sum["files"], &sum["links"]), (&3.into(), &1.into()));
    lab.files(&["check", "-a", "~tree", "@kept/tree"])
        .expect_code(0);
    lab.files(&["get", "-r", "@kept/tree", "~back"])
        .expect_code(0);
    lab.files(&["check", "-a", "~tree", "@back"]).expect_code(0);
    let sparse = fs::metadata(lab.path("back/sparse")).unwrap();
    assert!(sparse.blocks() * 512 < 1 << 20, "{}", sparse.blocks());
    assert!(lab.path("back/d/empty").is_dir());
    let again = lab.json(&["put", "-rs", "~tree", "@kept/"]);
    assert_eq!((&again["skipped"], &again["bytes"]), (&3.into(), &0.into()));
    let ls = lab.files(&["ls", "@kept/tree/d"]).expect_code(0).out;
    assert_eq!(ls, "a\\n\u{fffd}\nempty\nlink\n");
    let usage = lab.json(&["du", "@kept"]);
    assert_eq!(usage[0]["files"], 3);
    lab.files(&["rm", "-r", "@kept/tree"]).expect_code(0);
    assert_eq!(fs::read_dir(lab.path("kept")).unwrap().count(), 0);
}

#[test]
fn the_target_is_the_name_or_the_directory_that_receives() {
    let lab = Lab::new();
    fs::write(lab.path("a"), "a").unwrap();
    fs::write(lab.path("b"), "b").unwrap();
    lab.files(&["put", "~a", "@kept/name"]).expect_code(0);
    lab.files(&["put", "~a", "@kept/"]).expect_code(0);
    lab.files(&["put", "~a", "~b", "@kept/d"])
        .expect_code(2)
        .expect_error("-p makes it");
    lab.files(&["put", "-p", "~a", "~b", "@kept/d"])
        .expect_code(0);
    lab.files(&["get", "@kept/d/a", "@kept/d/b", "~"])
        .expect_code(0);
    for name in ["name", "a", "d/a", "d/b"] {
        assert!(lab.path("kept").join(name).is_file(), "{name}");
    }
    let missing = lab.files(&["put", "~nope", "@kept/"]).expect_code(2);
    missing.expect_error("nope");
    lab.files(&["put", "~a", "~kept"])
        .expect_code(2)
        .expect_error("not an address");
    lab.files(&["get", "@kept/nope", "~x"]).expect_code(2);
    fs::create_dir(lab.path("tree")).unwrap();
    lab.files(&["put", "~tree", "@kept/"])
        .expect_code(1)
        .expect_error("-r includes it");
}

#[test]
fn names_are_made_changed_linked_and_removed() {
    let lab = Lab::new();
    lab.files(&["mkdir", "@kept/a/b"])
        .expect_code(1)
        .expect_error("ENOENT");
    lab.files(&["mkdir", "-p", "@kept/a/b", "@kept/c"])
        .expect_code(0);
    fs::write(lab.path("kept/a/f"), "content").unwrap();
    lab.files(&["ln", "@kept/a/f", "@kept/c/hard"])
        .expect_code(0);
    lab.files(&["ln", "-s", "a/f", "@kept/soft"]).expect_code(0);
    lab.files(&["mv", "@kept/a/f", "@kept/c/"]).expect_code(0);
    lab.files(&["mv", "-n", "@kept/c/f", "@kept/c/hard"])
        .expect_code(1)
        .expect_error("EEXIST");
    lab.files(&["mv", "@kept/c/f", "@kept/x/y"])
        .expect_code(1)
        .expect_error("-p makes");
    let cat = lab
        .files(&["cat", "@kept/c/f", "@kept/c/hard"])
        .expect_code(0);
    assert_eq!(cat.out, "contentcontent");
    let stat = lab.json(&["stat", "@kept/soft", "@kept/c/f"]);
    assert_eq!(
        (&stat[0]["kind"], &stat[1]["links"]),
        (&"symlink".into(), &2.into())
    );
    lab.files(&["rm", "@kept/a"])
        .expect_code(1)
        .expect_error("-r includes it");
    lab.files(&["rm", "-d", "@kept/a"])
        .expect_code(1)
        .expect_error("ENOTEMPTY");
    lab.files(&["rm", "@kept/none"])
        .expect_code(1)
        .expect_error("ENOENT");
    lab.files(&["rm", "-f", "@kept/none"]).expect_code(0);
    lab.files(&["rm", "@kept/soft"]).expect_code(0);
    lab.files(&["rm", "-d", "@kept/a/b"]).expect_code(0);
    assert!(lab.path("kept/c/f").exists());
}

#[test]
fn a_changed_byte_is_found_by_trees_and_by_digests() {
    let lab = Lab::new();
    fs::create_dir(lab.path("tree")).unwrap();
    fs::write(lab.path("tree/f"), pattern(5_000_000)).unwrap();
    fs::write(lab.path("tree/g"), "g").unwrap();
    lab.files(&["put", "-r", "~tree", "@kept/tree"])
        .expect_code(0);
    let list = lab
        .files(&["check", "--digests", "@tree"])
        .expect_code(0)
        .out;
    fs::write(lab.path("list"), list).unwrap();
    let list = lab.path("list");
    let against = ["check", "@kept/tree", "--against", list.to_str().unwrap()];
    lab.files(&against).expect_code(0);
    let file = File::options()
        .write(true)
        .open(lab.path("kept/tree/f"))
        .unwrap();
    file.write_all_at(b"!", 4_999_999).unwrap();
    let ended = lab.files(&against).expect_code(1);
    assert!(ended.out.contains("f: other content"), "{ended:?}");
    let ended = lab.files(&["check", "@tree", "@kept/tree"]).expect_code(1);
    assert!(
        ended.out.contains("f: other content, at byte 4999999"),
        "{ended:?}"
    );
    fs::write(lab.path("list"), "rubbish\n").unwrap();
    lab.files(&against)
        .expect_code(2)
        .expect_error("line 1: not 64");
    lab.files(&["check", "@tree"]).expect_code(2);
}

#[test]
fn one_failure_is_said_and_the_others_go_on() {
    if common::is_root() {
        eprintln!("as root nothing is forbidden: a directory stands in the way instead");
    }
    let lab = Lab::new();
    fs::create_dir_all(lab.path("tree/sub")).unwrap();
    for name in ["tree/a", "tree/b", "tree/sub/c"] {
        fs::write(lab.path(name), "x").unwrap();
    }
    fs::create_dir_all(lab.path("kept/tree/a")).unwrap();
    fs::set_permissions(lab.path("tree/b"), Permissions::from_mode(0o604)).unwrap();
    let ended = lab
        .files(&["put", "-r", "--json", "~tree", "@kept/tree"])
        .expect_code(1);
    let sum: Value = serde_json::from_str(&ended.out).unwrap();
    assert_eq!((&sum["files"], &sum["failures"]), (&2.into(), &1.into()));
    let name = sum["failed"][0]["name"].as_str().unwrap();
    assert!(name.ends_with("kept/tree/a"), "{name}");
    ended.expect_error("EISDIR");
    assert!(lab.path("kept/tree/sub/c").exists());
    let mode = fs::metadata(lab.path("kept/tree/b")).unwrap().mode();
    assert_eq!(mode & 0o777, 0o604);
}
