//! The captures of a real client and its servers: every byte of every RPC has a name, and every request its reply.

#![allow(
    clippy::expect_used,
    clippy::unwrap_used,
    clippy::panic,
    reason = "a test fails by panicking, in its helpers too"
)]

mod common;

use std::collections::{BTreeMap, BTreeSet};
use std::path::PathBuf;

use lnet_ptlrpc::{
    Body, By, End, Evidence, Field, FileSystem, NOT_SEEN, Opened, Records, Role, SHOWN_AS_BYTES,
    Summary, evidence_of, fields, known_fields, not_seen, opcode_name, open,
};

use crate::common::captures::{captures, pair};

// [PTLRPC-12] [PTLRPC-1] [PTLRPC-3] [PTLRPC-13] [PTLRPC-14]
#[test]
fn no_byte_of_a_known_rpc_is_undecoded() {
    let mut checked = 0;
    let mut live = BTreeSet::new();
    for path in captures() {
        for (heard, role) in pair(&path).2 {
            let intent = match role {
                Role::Request(intent) | Role::Reply(intent) => intent,
                _ => continue,
            };
            let Ok(Opened::Clear(message, _)) = open(&heard.payload, heard.payload.len()) else {
                panic!("{}: not readable", path.display());
            };
            assert_eq!(heard.payload.len(), heard.header.payload_length as usize);
            let body = Body::of(&message).expect("a body");
            live.insert(body.opc());
            let mut at = 0;
            fields(&message, intent, &mut |field| {
                assert_eq!(field.at, at, "{field:?} leaves a gap or overlaps");
                assert!(
                    !field.is_undecoded(),
                    "{}: {} {}: {} bytes at {at}",
                    path.display(),
                    opcode_name(body.opc()).unwrap_or("?"),
                    if body.is_request() {
                        "request"
                    } else {
                        "reply"
                    },
                    field.bytes.len()
                );
                let _printed = field.to_string();
                assert!(
                    !field.is_bytes() || field.name == "pad" || is_allowed(&field),
                    "{}: {} {} is shown as bytes, without a reason",
                    path.display(),
                    field.part,
                    field.name
                );
                at += field.bytes.len();
            });
            assert_eq!(at, heard.payload.len());
            checked += 1;
        }
    }
    if checked == 0 {
        return;
    }
    assert!(checked >= 270, "only {checked} messages");
    // The marks of the schemas are those of the captures: nothing is called live that was not seen.
    let marked: BTreeSet<u32> = lnet_ptlrpc::OPCODES
        .iter()
        .map(|(opc, _)| *opc)
        .filter(|opc| evidence_of(*opc) == Some(Evidence::Live))
        .collect();
    assert_eq!(marked, live);
}

/// Whether a field may be shown as bytes.
fn is_allowed(field: &Field<'_>) -> bool {
    let mut rows = SHOWN_AS_BYTES.iter();
    rows.any(|row| (row.part, row.name) == (field.part, field.name))
}

/// The structure and the name of a field, as the tables have them.
fn name_of(field: &Field<'_>) -> (&'static str, &'static str) {
    match field.name {
        // In a request, the place of the status.
        "pid" => (field.part, "status"),
        name => (field.part, name),
    }
}

#[test]
fn a_field_is_called_live_if_and_only_if_the_captures_have_a_value_of_it() {
    let paths = captures();
    if paths.is_empty() {
        return;
    }
    let known: BTreeMap<_, _> = known_fields()
        .map(|(part, name, evidence)| ((part, name), evidence))
        .collect();
    let mut with_value = BTreeSet::new();
    for (heard, role) in paths.iter().flat_map(|path| pair(path).2) {
        let (Role::Request(intent) | Role::Reply(intent)) = role else {
            continue;
        };
        let Ok(Opened::Clear(message, _)) = open(&heard.payload, heard.payload.len()) else {
            panic!("not readable");
        };
        let body = Body::of(&message).expect("a body");
        fields(&message, intent, &mut |field| {
            assert_eq!(not_seen(&field, Some(&body)).map(|fact| fact.what), None);
            let is_frame = matches!(field.name, "pad" | "buflen");
            if is_frame {
                return;
            }
            let name = name_of(&field);
            let evidence = known.get(&name);
            assert_eq!(evidence, Some(&field.evidence), "{name:?}");
            // A buffer of zeros is a buffer.
            if field.part == "buffer" || field.bytes.iter().any(|byte| *byte != 0) {
                with_value.insert(name);
            }
        });
    }
    let live = known
        .iter()
        .filter(|(_, evidence)| **evidence == Evidence::Live);
    let live: BTreeSet<_> = live.map(|(name, _)| *name).collect();
    assert_eq!(live, with_value);
}

#[test]
fn page_has_the_evidence_of_every_field() {
    let page = testkit::workspace::root().join("docs/protocol/ptlrpc.md");
    let page = std::fs::read_to_string(page).expect("the page");
    let (_, section) = page.split_once("\n## Evidence\n").expect("the section");
    let section = section.split("\n## ").next().expect("a section");
    let mut expected: Vec<String> = Vec::new();
    let all: Vec<_> = known_fields().collect();
    for group in all.chunk_by(|before, next| before.0 == next.0) {
        let [(part, ..), ..] = group else { continue };
        let others: Vec<_> = group
            .iter()
            .filter(|(.., how)| *how != Evidence::Live)
            .collect();
        if *part == "buffer" {
            assert!(others.is_empty(), "{others:?}");
            let names: Vec<String> = group
                .iter()
                .map(|(_, name, _)| format!("`{name}`"))
                .collect();
            let words = |text: &str| text.split_whitespace().collect::<Vec<_>>().join(" ");
            let listed = format!("that the captures have: {}.", names.join(", "));
            assert!(words(section).contains(&listed), "{listed}");
            continue;
        }
        let named: Vec<String> = others
            .iter()
            .map(|(_, name, _)| format!("`{name}`"))
            .collect();
        let named = match others.len() {
            0 => "–".to_owned(),
            all if all == group.len() => "all".to_owned(),
            _ => named.join(", "),
        };
        expected.push(format!("| `{part}` | {named} |"));
    }
    // The second column says where a field without a value is known from.
    let read = |part: &str| {
        let mut fields = all.iter().filter(|(of, ..)| *of == part);
        fields.find_map(|(.., how)| (*how != Evidence::Live).then_some(*how))
    };
    let mut rows = Vec::new();
    for line in section.lines().filter(|line| line.starts_with("| `")) {
        let cells: Vec<&str> = line.split(" | ").collect();
        let [part, from, named] = cells[..] else {
            panic!("{line}");
        };
        let part_name = part.trim_start_matches("| ").trim_matches('`');
        let known = match from {
            "a table of sizes" => Evidence::Checked,
            "reading" => Evidence::Read,
            other => panic!("{other}"),
        };
        assert!(read(part_name).is_none_or(|how| how == known), "{line}");
        rows.push(format!("{part} | {named}"));
    }
    assert_eq!(rows, expected);
    let mut not_seen: Vec<&str> = NOT_SEEN.iter().map(|fact| fact.what).collect();
    not_seen.dedup();
    let (_, list) = section
        .split_once("whatever else is known of the field:")
        .expect("a list");
    let list = list.split_whitespace().collect::<Vec<_>>().join(" ");
    let list = list.split('.').next().expect("a sentence");
    assert_eq!(list, not_seen.join(", "));
}

#[test]
fn page_has_what_is_shown_as_bytes_with_the_reasons() {
    let page = testkit::workspace::root().join("docs/protocol/ptlrpc.md");
    let page = std::fs::read_to_string(page).expect("the page");
    let (_, section) = page
        .split_once("\n## Shown as bytes\n")
        .expect("the section");
    let section = section.split("\n## ").next().expect("a section");
    let mut expected: Vec<(&str, Vec<String>)> = Vec::new();
    for row in SHOWN_AS_BYTES {
        let name = match row.part {
            "buffer" => format!("`{}`", row.name),
            part if part == row.name => format!("`{part}`"),
            part => format!("`{part}.{}`", row.name),
        };
        match expected
            .iter_mut()
            .find(|(reason, _)| *reason == row.reason)
        {
            Some((_, names)) => names.push(name),
            None => expected.push((row.reason, vec![name])),
        }
    }
    let expected = expected.iter();
    let expected = expected.map(|(reason, names)| format!("| {reason} | {} |", names.join(", ")));
    let rows = section
        .lines()
        .filter(|line| line.starts_with("| "))
        .skip(1);
    assert_eq!(rows.collect::<Vec<_>>(), expected.collect::<Vec<_>>());
}

// [PTLRPC-4] [PTLRPC-6] [PTLRPC-7]
#[test]
fn every_request_has_its_reply_and_every_bulk_its_request() {
    for path in captures() {
        let (rpcs, pairer, _) = pair(&path);
        let tally = &pairer.tally;
        assert!(!rpcs.is_empty(), "{}", path.display());
        let open: Vec<_> = rpcs.iter().filter(|rpc| rpc.end != End::Answered).collect();
        assert!(open.is_empty(), "{}: {open:#?}", path.display());
        assert_eq!(tally.orphan_replies, 0, "{}", path.display());
        assert_eq!(tally.orphan_bulk, 0, "{}", path.display());
        assert_eq!(tally.malformed, 0, "{}", path.display());
    }
}

#[test]
fn small_reads_and_writes_count_with_the_bytes_that_they_moved() {
    for (file, operation, bytes) in [
        ("02-create.pcap", "OST_WRITE", 4),
        ("05-lock-callback.pcap", "OST_READ", 4096),
        ("03-write-896k.pcap", "OST_WRITE", 917_504),
    ] {
        for path in captures().iter().filter(|path| path.ends_with(file)) {
            let mut table = Summary::new(&[By::Operation]);
            pair(path).0.iter().for_each(|rpc| table.add(rpc));
            let rows = table.rows();
            let row = rows.iter().find(|(names, _)| names[0] == operation);
            assert_eq!(row.map(|(_, figures)| figures.bytes), Some(bytes), "{file}");
        }
    }
}

/// Reads all blocks of configuration logs that a capture has.
fn file_system(path: &PathBuf) -> (FileSystem, Vec<String>) {
    let (mut system, mut lines) = (FileSystem::default(), Vec::new());
    for (heard, role) in pair(path).2 {
        let Ok(Opened::Clear(message, _)) = open(&heard.payload, heard.payload.len()) else {
            continue;
        };
        let is_block = Body::of(&message).is_some_and(|body| body.opc() == 502);
        let Some(block) = message
            .buffer(2)
            .filter(|_| is_block && matches!(role, Role::Reply(_)))
        else {
            continue;
        };
        for record in Records::new(block.bytes()) {
            let record = record.expect("a record");
            assert!(record.index > 0);
            if let Some(command) = record.command() {
                lines.push(command.to_string());
                system.take(&command);
            }
        }
    }
    (system, lines)
}

// [PTLRPC-17] [PTLRPC-18] [PTLRPC-19]
#[test]
fn log_of_a_mount_names_every_target_with_its_nid() {
    for path in captures() {
        if !path.ends_with("01-mount.pcap") {
            continue;
        }
        let (system, lines) = file_system(&path);
        assert!(
            lines
                .iter()
                .any(|line| line == "add_uuid 10.12.0.1@tcp2 10.12.0.1@tcp2"),
            "{lines:#?}"
        );
        assert!(system.problems.is_empty(), "{:?}", system.problems);
        let kinds: Vec<&str> = system
            .targets
            .keys()
            .map(|name| name.split_once('-').map_or("", |(_, kind)| kind))
            .collect();
        assert_eq!(
            kinds,
            ["MDT0000", "OST0000", "OST0001"],
            "{:?}",
            system.targets
        );
        for target in system.targets.values() {
            assert_eq!(target.nids, ["10.12.0.1@tcp2"]);
            assert!(!target.is_inactive);
        }
    }
}
