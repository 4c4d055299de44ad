//! Runs the bodies on the committed seeds and on edited seeds.

#![expect(
    clippy::unwrap_used,
    reason = "clippy knows only functions with #[test] as tests"
)]

use std::path::{Path, PathBuf};

use lnet_fuzz::{BODIES, Body};
use proptest::prelude::*;
use proptest::sample::{Index, select};
use proptest::test_runner::{Config, TestRunner};

fn fuzz_dir() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../../../fuzz")
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

/// A seed with up to eight bytes overwritten, truncated or extended.
fn edited(seeds: Vec<Vec<u8>>) -> impl Strategy<Value = Vec<u8>> {
    let edits = prop::collection::vec((any::<Index>(), any::<u8>()), 0..=8);
    (select(seeds), edits, any::<Index>(), any::<u8>()).prop_map(|(mut bytes, edits, len, fill)| {
        let size = bytes.len().max(1);
        for (at, value) in edits {
            if let Some(byte) = bytes.get_mut(at.index(size)) {
                *byte = value;
            }
        }
        bytes.resize(len.index(bytes.len() + 17), fill);
        bytes
    })
}

/// Panics with the smallest input for which the body fails.
fn check(target: &str, body: Body, inputs: impl Strategy<Value = Vec<u8>>) {
    let mut runner = TestRunner::new(Config {
        // All targets in this file would share the seeds of failures; the input is printed instead.
        failure_persistence: None,
        ..Config::default()
    });
    let outcome = runner.run(&inputs, |bytes| {
        body(&bytes);
        Ok(())
    });
    assert!(outcome.is_ok(), "{target}: {}", outcome.unwrap_err());
}

#[test]
fn bodies_hold_on_the_seeds() {
    for &(target, body) in BODIES {
        seeds(target).iter().for_each(|seed| body(seed));
    }
}

#[test]
fn bodies_hold_on_edited_seeds() {
    for &(target, body) in BODIES {
        check(target, body, edited(seeds(target)));
    }
}

#[test]
fn bodies_hold_on_random_bytes() {
    for &(target, body) in BODIES {
        check(target, body, prop::collection::vec(any::<u8>(), 0..600));
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
    let seeds = seeds("hello");
    assert!(seeds.iter().all(|seed| seed.len() >= 40));
    let body = |data: &[u8]| assert!(data.len() >= 40, "this body fails");
    check("hello", body, edited(seeds));
}
