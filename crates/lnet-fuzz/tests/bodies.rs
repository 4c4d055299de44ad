//! The bodies on the committed seeds and on what a few edits make of them.

#![expect(
    clippy::unwrap_used,
    reason = "clippy knows only functions with #[test] as tests"
)]

use std::path::{Path, PathBuf};

use arbtest::arbitrary::{Result, Unstructured};
use arbtest::arbtest;
use lnet_fuzz::{BODIES, Body};

fn fuzz_dir() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../../fuzz")
}

fn seeds(target: &str) -> Vec<Vec<u8>> {
    let directory = fuzz_dir().join("seeds").join(target);
    let mut paths: Vec<PathBuf> = directory
        .read_dir()
        .unwrap()
        .map(|entry| entry.unwrap().path())
        .collect();
    paths.sort();
    paths
        .iter()
        .map(|path| std::fs::read(path).unwrap())
        .collect()
}

/// A seed with up to eight bytes overwritten, cut or prolonged.
fn edited(seeds: &[Vec<u8>], u: &mut Unstructured<'_>) -> Result<Vec<u8>> {
    let mut bytes = u.choose(seeds)?.clone();
    for _ in 0..u.int_in_range(0..=8)? {
        let at = u.choose_index(bytes.len().max(1))?;
        let value = u.arbitrary()?;
        if let Some(byte) = bytes.get_mut(at) {
            *byte = value;
        }
    }
    let len = u.int_in_range(0..=bytes.len() + 16)?;
    bytes.resize(len, u.arbitrary()?);
    Ok(bytes)
}

fn check(target: &str, body: Body) {
    let seeds = seeds(target);
    seeds.iter().for_each(|seed| body(seed));
    arbtest(|u| {
        body(&edited(&seeds, u)?);
        Ok(())
    });
}

#[test]
fn bodies_hold_on_edited_seeds() {
    for &(target, body) in BODIES {
        check(target, body);
    }
}

#[test]
fn bodies_hold_on_random_bytes() {
    for &(_, body) in BODIES {
        arbtest(|u| {
            body(u.peek_bytes(u.len()).unwrap_or_default());
            Ok(())
        });
    }
}

#[test]
fn every_body_has_a_target_and_every_target_a_body() {
    let directory = fuzz_dir().join("fuzz_targets");
    let mut targets: Vec<String> = directory
        .read_dir()
        .unwrap()
        .map(|entry| {
            entry
                .unwrap()
                .path()
                .file_stem()
                .unwrap()
                .to_string_lossy()
                .into_owned()
        })
        .collect();
    targets.sort();
    let bodies: Vec<&str> = BODIES.iter().map(|&(name, _)| name).collect();
    assert_eq!(targets, bodies);
}

#[test]
#[should_panic(expected = "this body fails")]
fn a_body_that_fails_is_noticed() {
    check("hello", |data| assert!(data.len() < 40, "this body fails"));
}
