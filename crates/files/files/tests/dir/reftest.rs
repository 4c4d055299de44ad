//! A directory behaves like the reference model for every sequence of operations.

#![expect(clippy::unwrap_used, reason = "test code")]

use files::dir::{LocalDirectory, Options};
use files::reftest::{Mismatch, Steps, compare, steps};
use files::{Caller, Data, Errno, FileSystem, Reply, Request};
use proptest::prelude::*;
use proptest::test_runner::{TestError, TestRunner};
use tempfile::TempDir;

/// Few descriptors and many objects, so that handles outlive descriptors.
const OPTIONS: Options = Options {
    identity: files::dir::Identity::Server,
    read_only: false,
    objects_max: 1000,
    descriptors_max: 2,
    held_max: 4,
};

fn agrees(
    options: Options,
    steps: &Steps,
    wrap: impl Fn(LocalDirectory) -> Box<dyn FileSystem>,
) -> Result<(), Mismatch> {
    let directory = TempDir::new().unwrap();
    let files = wrap(LocalDirectory::open(directory.path(), options).unwrap());
    compare(&[&*files, &*files], &Caller::default(), steps)
}

fn cases() -> u32 {
    let long = std::env::var("FINERAIL_LONG").is_ok_and(|value| value == "1");
    if long { 2000 } else { 100 }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(cases()))]

    #[test]
    fn random_operations_give_what_the_model_gives(steps in steps(60, 2)) {
        for options in [OPTIONS, Options::default()] {
            let result = agrees(options, &steps, |files| Box::new(files));
            prop_assert!(result.is_ok(), "{}", result.unwrap_err());
        }
    }
}

/// A file system whose behaviour `spoil` breaks.
struct Spoiled<F>(LocalDirectory, F);

impl<F> FileSystem for Spoiled<F>
where
    F: Fn(&Request, Result<Reply, Errno>) -> Result<Reply, Errno> + Send + Sync,
{
    fn call(&self, caller: &Caller, request: &Request, data: Data<'_>) -> Result<Reply, Errno> {
        (self.1)(request, self.0.call(caller, request, data))
    }
}

fn is_noticed(spoil: fn(&Request, Result<Reply, Errno>) -> Result<Reply, Errno>) -> bool {
    let mut runner = TestRunner::deterministic();
    let result = runner.run(&steps(60, 1), |steps| {
        let result = agrees(OPTIONS, &steps, |files| Box::new(Spoiled(files, spoil)));
        result.map_err(|mismatch| TestCaseError::fail(mismatch.to_string()))
    });
    matches!(result, Err(TestError::Fail(..)))
}

#[test]
fn a_wrong_error_a_wrong_count_and_a_lost_name_are_noticed() {
    assert!(is_noticed(|_, result| match result {
        Err(Errno::ENOTEMPTY) => Err(Errno::EEXIST),
        other => other,
    }));
    assert!(is_noticed(|request, result| match (request, result) {
        (Request::Read { .. }, Ok(Reply::Counts(counts))) if counts[0] > 0 => {
            Ok(Reply::Counts(vec![counts[0] - 1]))
        }
        (_, other) => other,
    }));
    assert!(is_noticed(|_, result| match result {
        Ok(Reply::Listing(mut listing)) if listing.is_end => {
            listing.entries.pop();
            Ok(Reply::Listing(listing))
        }
        other => other,
    }));
    assert!(!is_noticed(|_, result| result));
}
