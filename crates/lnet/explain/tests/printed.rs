//! Explains every output of a kernel node that describes a configuration: one by one, and all outputs of one node
//! together.

#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    reason = "a test fails by panicking, in its helpers too"
)]

use std::collections::BTreeMap;
use std::fs;
use std::path::PathBuf;

use lnet_explain::{Question, Settings, Source, explain, import};
use lnet_policy::Profile;
use lnet_types::Nid;

const SECTIONS: [&str; 6] = ["net:", "peer:", "route:", "routing:", "global:", "udsp:"];

/// Returns the directory of the outputs; `None`, with a message, if it does not exist.
fn outputs() -> Option<PathBuf> {
    testkit::shared_data("lnetctl")
}

/// Returns the YAML documents in a file, each with the node that printed it. A document ends at a line that belongs
/// to no document.
fn blocks(text: &str) -> Vec<(String, String)> {
    let mut blocks: Vec<(String, String)> = Vec::new();
    let (mut node, mut open) = (String::new(), false);
    for line in text.lines() {
        if let Some(prompt) = line.strip_prefix("### ") {
            node = prompt.split('#').next().unwrap().to_owned();
            open = false;
        } else if SECTIONS.contains(&line) {
            let has = |(_, block): &(String, String)| block.lines().any(|one| one == line);
            let again = open && blocks.last().is_some_and(has);
            if !open || again {
                blocks.push((node.clone(), String::new()));
            }
            open = true;
        } else if !line.starts_with([' ', '-']) {
            open = false;
        }
        if open {
            let (_, block) = blocks.last_mut().unwrap();
            block.push_str(line);
            block.push('\n');
        }
    }
    blocks
}

/// Explains messages to every NID that the texts name, and to one unknown NID.
fn explain_all(sources: &[Source<'_>], profile: Profile) -> usize {
    let settings = Settings {
        profile: Some(profile),
        ..Settings::default()
    };
    let node = import(sources, &settings).unwrap().node;
    let known = node.state.peer_nis.iter().map(|ni| ni.nid);
    let own = node.state.nis.iter().map(|ni| ni.nid);
    let unknown: Nid = "10.77.0.1@tcp77".parse().unwrap();
    let targets: Vec<Nid> = known.chain(own).chain([unknown]).collect();
    for &to in &targets {
        let question = Question {
            to,
            from: None,
            size: 4096,
            sends: 20,
        };
        let told = explain(&node, &question).unwrap();
        let decided = told.answer.path.is_some() != told.answer.error.is_some();
        assert!(decided, "{to}: {:?}", told.answer);
        assert_eq!(told.forecast.picks.len(), 20);
    }
    targets.len()
}

#[test]
fn every_output_of_kernel_nodes_is_explained() {
    let Some(directory) = outputs() else { return };
    let (mut count, mut paths) = (0, 0);
    for entry in fs::read_dir(directory).unwrap() {
        let path = entry.unwrap().path();
        let text = fs::read_to_string(&path).unwrap();
        for (node, block) in blocks(&text) {
            let name = format!("{} {node}", path.display());
            // Scripts print parts of outputs. A part that is no document is skipped.
            if lnet_config::read(&block).is_err() {
                println!("no document: {name}: {}", block.lines().next().unwrap());
                continue;
            }
            let source = Source {
                name: &name,
                text: &block,
            };
            for profile in [Profile::Design, Profile::Lustre] {
                paths += explain_all(&[source], profile);
            }
            count += 1;
        }
    }
    println!("{count} outputs, {paths} questions");
    assert!(count >= 60, "only {count} outputs were found");
}

#[test]
fn all_that_a_node_printed_is_explained_together() {
    let Some(directory) = outputs() else { return };
    let text = fs::read_to_string(directory.join("e-show-export.txt")).unwrap();
    let mut by_node: BTreeMap<String, Vec<String>> = BTreeMap::new();
    for (node, block) in blocks(&text) {
        by_node.entry(node).or_default().push(block);
    }
    for (node, blocks) in by_node {
        let source = |text| Source { name: &node, text };
        let sources: Vec<Source<'_>> = blocks.iter().map(|text| source(text)).collect();
        assert!(explain_all(&sources, Profile::Lustre) > 1);
    }
}

#[test]
fn an_export_says_what_it_does_not_hold() {
    let Some(directory) = outputs() else { return };
    let text = fs::read_to_string(directory.join("e-show-export.txt")).unwrap();
    let blocks = blocks(&text);
    let is_export = |block: &str| block.contains("\npeer:\n") && block.contains("\nglobal:\n");
    let (_, export) = blocks.iter().find(|(_, block)| is_export(block)).unwrap();
    let source = Source {
        name: "export",
        text: export,
    };
    let node = import(&[source], &Settings::default()).unwrap().node;
    let question = Question {
        to: "10.1.0.2@tcp".parse().unwrap(),
        from: None,
        size: 0,
        sends: 4,
    };
    let told = explain(&node, &question).unwrap();
    let stamps = told
        .assumed
        .iter()
        .find(|one| one.what.starts_with("round-robin"))
        .unwrap();
    let other = ["it may be the turn of 10.2.0.1@tcp1 (eth1) → 10.2.0.2@tcp1"];
    assert_eq!(stamps.alternatives, other);
}
