//! Every output of kernel nodes is read, and printed again with the same bytes.

use crate::{DIFFERENCES, Reading, read};

/// The files of outputs.
const FILES: [&str; 11] = [
    "a-ping.txt",
    "b-discover.txt",
    "c-lst.txt",
    "d-routed.txt",
    "e-errors-help.txt",
    "e-show-export.txt",
    "f-udsp.txt",
    "g1-health.txt",
    "h-host-vs-kernel.txt",
    "k-race.txt",
    "k-router-down.txt",
];

/// Keys at the left margin that begin a document.
const KEYS: [&str; 19] = [
    "net",
    "route",
    "peer",
    "peer list",
    "routing",
    "buffers",
    "global",
    "udsp",
    "statistics",
    "ping",
    "discover",
    "cpt-of-nid",
    "error",
    "manage",
    "add",
    "del",
    "set",
    "show",
    "yaml",
];

/// The outputs of kernel nodes, if they are available.
pub(super) fn outputs(file: &str) -> Option<String> {
    let path = testkit::shared_data(format!("lnetctl/{file}"))?;
    Some(std::fs::read_to_string(path).unwrap())
}

/// A document in a file of outputs.
struct Block {
    place: String,
    text: String,
}

/// The documents of a file: from a key or a mark at the left margin to the next one, or to a line
/// that belongs to no document.
fn blocks(file: &str, outputs: &str) -> Vec<Block> {
    let mut blocks: Vec<Block> = Vec::new();
    let mut open = false;
    let mut fed = false;
    for (line, number) in outputs.lines().zip(1..) {
        // An input file that a test gave to lnetctl is part of the command.
        fed = (fed || line.ends_with("<<E")) && line != "E";
        if fed {
            continue;
        }
        let key = line.strip_suffix(':').filter(|key| KEYS.contains(key));
        let marked = open && blocks.last().is_some_and(|block| block.text == "---\n");
        if line == "---" || (key.is_some() && !marked) {
            let place = format!("{file}:{number}");
            let text = format!("{line}\n");
            blocks.push(Block { place, text });
            open = true;
            continue;
        }
        // The next command of a pipeline may print lines of a document without its head.
        let in_udsp = blocks
            .last()
            .is_some_and(|block| block.text.starts_with("udsp"));
        let foreign = in_udsp && line.starts_with("      -") || line.starts_with("-- ");
        open &= marked || (line.starts_with([' ', '-']) || line == "...") && !foreign;
        if let Some(block) = blocks.last_mut().filter(|_| open) {
            block.text.push_str(line);
            block.text.push('\n');
        }
    }
    blocks
}

fn all_blocks() -> Option<Vec<Block>> {
    let mut all = Vec::new();
    for file in FILES {
        all.extend(blocks(file, &outputs(file)?));
    }
    Some(all)
}

fn reading(block: &Block) -> Reading {
    read(&block.text).unwrap_or_else(|error| panic!("{}", error.render(&block.place)))
}

/// Blocks that a deliberate difference explains: the code of the difference and the way to
/// recognise them.
fn difference(block: &Block) -> Option<&'static str> {
    let code = if block.text.contains("descr: cannot open '") {
        "descr-quoted"
    } else {
        return None;
    };
    assert!(DIFFERENCES.iter().any(|difference| difference.code == code));
    Some(code)
}

#[test]
fn every_document_of_kernel_nodes_is_read_without_a_warning() {
    let Some(blocks) = all_blocks() else { return };
    assert!(blocks.len() > 200, "only {} were found", blocks.len());
    for block in blocks.iter().filter(|block| difference(block).is_none()) {
        let reading = reading(block);
        let warnings: Vec<_> = reading.warnings.iter().map(ToString::to_string).collect();
        assert!(warnings.is_empty(), "{}: {warnings:?}", block.place);
    }
}

// [CONF-8] [CONF-44]
#[test]
fn every_document_of_kernel_nodes_is_printed_with_the_same_bytes() {
    let Some(blocks) = all_blocks() else { return };
    let mut wrong = Vec::new();
    for block in blocks.iter().filter(|block| difference(block).is_none()) {
        let printed = reading(block).document.to_yaml();
        if printed != block.text {
            wrong.push(format!(
                "{}\n{}\n=== printed\n{printed}",
                block.place, block.text
            ));
        }
    }
    assert!(
        wrong.is_empty(),
        "{} differ:\n{}",
        wrong.len(),
        wrong.join("\n")
    );
}
