//! The path of each message is what it was, bit for bit.
//!
//! `paths.txt` has a line for 100 drawn worlds with rules and faults, about 1,000 operations each: the number of the
//! first world, and a hash of everything that the nodes sent, reported and dropped, with its time. A change of the core
//! that changes no path leaves the file as it is. For one that does, write the file anew with
//! `FINERAIL_LONG=1 FINERAIL_OVERWRITE=1`.
//!
//! The first worlds run in each test run, all with `FINERAIL_LONG=1`.

use std::env::var_os;
use std::fmt::Write;
use std::path::Path;
use std::rc::Rc;

use lnet_sim::cores::{Limits, Options, Sim, draw};

fn limits() -> Limits {
    Limits {
        operations: 2_000,
        ..Limits::default()
    }
}

const WORLDS_PER_LINE: u64 = 100;

const LINES: u64 = 100;

/// The lines of a run that is not long.
const SHORT_LINES: u64 = 2;

fn line(first: u64) -> String {
    let mut hasher = blake3::Hasher::new();
    for seed in first..first + WORLDS_PER_LINE {
        let options = Options {
            trace: true,
            ..Options::default()
        };
        let outcome = Sim::run(Rc::new(draw(&limits(), seed)), options);
        assert!(outcome.violation.is_none(), "seed {seed}");
        hasher.update(outcome.trace.unwrap_or_default().as_bytes());
    }
    format!("{first} {}\n", hasher.finalize().to_hex())
}

#[test]
fn messages_take_the_paths_that_they_took() {
    let is_long = var_os("FINERAIL_LONG").is_some_and(|value| value == "1");
    let lines = if is_long { LINES } else { SHORT_LINES };
    let mut found = String::new();
    for index in 0..lines {
        let _written = write!(found, "{}", line(1 + index * WORLDS_PER_LINE));
    }
    let file = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/paths.txt");
    if is_long && var_os("FINERAIL_OVERWRITE").is_some() {
        std::fs::write(&file, &found).expect("the table can be written");
    }
    let kept = std::fs::read_to_string(&file).expect("the table is there");
    let due: String = kept.split_inclusive('\n').take(lines as usize).collect();
    assert_eq!(found, due);
}
