//! Every link that a plan loads has a name with both ends, on every machine that the project knows.

#![allow(
    clippy::unwrap_used,
    reason = "a test fails by panicking, in its helpers too"
)]

mod common;

use fgr::evaluate::{Gateways, LinkLoads, Traffic};
use fgr::links::{LinkNames, in_digits};
use fgr::{Machine, Options, PRESETS, Policy, assign, preset, read_machine};

use common::{mini, titan_machine};

const CHAPTER: &str = include_str!("../../../../docs/machine-files.md");

fn machines() -> Vec<Machine> {
    let presets = PRESETS.iter().map(|name| preset(name).unwrap().unwrap());
    let blocks = CHAPTER.split("```yaml\n").skip(1);
    let examples = blocks.map(|block| block.split("```").next().unwrap());
    let examples = examples.map(|text| read_machine("example", text).unwrap());
    let mut machines: Vec<Machine> = presets.chain(examples).collect();
    machines.push(mini());
    machines.extend(titan_machine());
    machines
}

/// A word without a letter is a position if it is in parentheses, and otherwise needs a word such as `switch` before it.
fn is_named(end: &str) -> bool {
    let starts = end.starts_with(|c: char| c.is_alphabetic() || c == '(');
    starts && !end.contains("endpoint") && !end.contains("unused")
}

#[test]
fn every_loaded_link_of_every_machine_has_a_name() {
    for machine in machines() {
        let plan = assign(&machine, Policy::suited(&machine), &Options::default()).unwrap();
        let names = LinkNames::new(&machine);
        let mut seen = 0;
        for traffic in [Traffic::Write, Traffic::Read] {
            let loads = LinkLoads::new(&machine, &plan, Gateways::Primary, traffic);
            let loaded = loads.links(&machine.fabric);
            for (link, ..) in loaded.filter(|(_, load, _)| *load > 0.0) {
                let ends = names.ends(link);
                assert!(
                    is_named(&ends.from) && is_named(&ends.to) && ends.from != ends.to,
                    "{}: {ends:?}",
                    machine.name
                );
                assert!(names.name(link).contains(" → "));
                seen += 1;
            }
        }
        assert!(seen > 0, "{} has no loaded link", machine.name);
    }
}

#[test]
fn a_name_without_a_word_is_noticed() {
    for wrong in ["", "21 4 7", "endpoint 3", "12.1"] {
        assert!(!is_named(wrong), "{wrong}");
    }
}

#[test]
fn a_small_load_keeps_two_digits() {
    let words = [0.0, 4.94, 0.849, 0.0412, 0.00123, 0.00004].map(in_digits);
    assert_eq!(words, ["0.0", "4.9", "0.85", "0.041", "0.0012", "4.0e-5"]);
}
