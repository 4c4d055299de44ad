//! `finerail dump --rpc` as a program, on captures of a real client and its servers.

#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    reason = "a test fails by panicking, in its helpers too"
)]

mod common;

use serde_json::Value;

use common::finerail;
use common::process::run;

/// Runs the program on a capture; `None` where the captures are absent.
fn dump(capture: &str, more: &[&str]) -> Option<String> {
    let file = testkit::shared_data(format!("captures/ptlrpc/{capture}"))?;
    let words = [&["dump", "--rpc"], more, &[file.to_str().unwrap()]].concat();
    Some(run(finerail(words)).expect_code(0).out)
}

#[test]
fn line_of_an_rpc_says_who_asks_which_target_for_what() {
    let Some(text) = dump("02-create.pcap", &[]) else {
        return;
    };
    assert!(
        text.contains("MDS_REINT") || text.contains("LDLM_ENQUEUE"),
        "{text}"
    );
    let last = text
        .lines()
        .rev()
        .find(|line| line.contains(" RPCs"))
        .unwrap();
    let count: usize = last.split(' ').next().unwrap().parse().unwrap();
    let lines = text.lines().filter(|line| line.contains(" > ")).count();
    assert_eq!(lines, count, "{text}");
}

#[test]
fn forms_for_programs_have_every_rpc() {
    let (Some(json), Some(csv)) = (
        dump("01-mount.pcap", &["--json"]),
        dump("01-mount.pcap", &["--csv"]),
    ) else {
        return;
    };
    let rows: Vec<Value> = json
        .lines()
        .map(|line| serde_json::from_str(line).unwrap())
        .collect();
    let rpcs = rows.iter().filter(|row| row["what"] == "RPC");
    let operations: Vec<&str> = rpcs.map(|row| row["operation"].as_str().unwrap()).collect();
    for operation in [
        "MGS_CONNECT",
        "LLOG_NEXT_BLOCK",
        "MDS_CONNECT",
        "OST_CONNECT",
    ] {
        assert!(operations.contains(&operation), "{operations:?}");
    }
    let summary = rows.last().unwrap();
    assert_eq!(summary["rpcs"], operations.len());
    assert!(csv.starts_with("time,operation,opcode,xid,client,server,target,job,"));
    assert_eq!(csv.lines().count(), operations.len() + 1);
}

/// Small reads and writes have their data in the messages themselves, without bulk.
#[test]
fn bytes_that_moved_are_the_same_in_every_form() {
    for (capture, operation, expected) in [
        ("02-create.pcap", "OST_WRITE", 4),
        ("05-lock-callback.pcap", "OST_READ", 4096),
        ("03-write-896k.pcap", "OST_WRITE", 917_504),
    ] {
        let table = ["--rpc-summary", "--by", "operation", "--json"];
        let forms = [&[][..], &["--json"], &["--csv"], &table].map(|more| dump(capture, more));
        let [Some(lines), Some(json), Some(csv), Some(table)] = forms else {
            return;
        };
        let of_line = |line: &str| {
            let words: Vec<&str> = line.split_whitespace().collect();
            let at = words.iter().position(|word| *word == "B")?;
            words[at - 1].parse::<u64>().ok()
        };
        let lines = lines.lines().filter(|line| line.contains(operation));
        assert_eq!(
            lines.filter_map(of_line).sum::<u64>(),
            expected,
            "{capture}"
        );
        let sum = |text: &str, rows: &dyn Fn(&Value) -> Vec<Value>| {
            let last = text.lines().map(|line| serde_json::from_str(line).unwrap());
            let rows = last.flat_map(|object: Value| rows(&object));
            let of = rows.filter(|row| row["operation"] == operation);
            of.map(|row| row["bytes"].as_u64().unwrap()).sum::<u64>()
        };
        assert_eq!(sum(&json, &|row| vec![row.clone()]), expected, "{capture}");
        let rows = |last: &Value| last["rows"].as_array().cloned().unwrap_or_default();
        assert_eq!(sum(&table, &rows), expected, "{capture}");
        let mut csv = csv::Reader::from_reader(csv.as_bytes());
        let names = csv.headers().unwrap().clone();
        let column = |name| names.iter().position(|known| known == name).unwrap();
        let (bytes, name) = (column("bytes"), column("operation"));
        let of = csv.records().map(Result::unwrap);
        let of = of.filter(|row| &row[name] == operation);
        let sum: u64 = of.map(|row| row[bytes].parse::<u64>().unwrap()).sum();
        assert_eq!(sum, expected, "{capture}");
    }
}

#[test]
fn table_counts_each_rpc_once() {
    let Some(text) = dump(
        "01-mount.pcap",
        &["--rpc-summary", "--by", "operation", "--json"],
    ) else {
        return;
    };
    let summary: Value = serde_json::from_str(text.lines().last().unwrap()).unwrap();
    let rows = summary["rows"].as_array().unwrap();
    let sum: u64 = rows.iter().map(|row| row["rpcs"].as_u64().unwrap()).sum();
    assert_eq!(Some(sum), summary["rpcs"].as_u64());
}

#[test]
fn place_of_the_status_is_the_pid_in_a_request() {
    let Some(text) = dump("01-mount.pcap", &["-v"]) else {
        return;
    };
    let mut is_request = false;
    let (mut pids, mut statuses) = (0, 0);
    for line in text.lines() {
        match line {
            line if line.ends_with("  request") => is_request = true,
            line if line.ends_with("  reply") => is_request = false,
            line if line.contains("ptlrpc_body    pid ") => {
                assert!(is_request, "{line}");
                pids += 1;
            }
            line if line.contains("ptlrpc_body    status ") => {
                assert!(!is_request, "{line}");
                statuses += 1;
            }
            _ => {}
        }
    }
    assert!(pids > 10 && statuses > 10, "{pids} {statuses}");
}

#[test]
fn what_is_only_read_is_marked_where_it_is_used() {
    let (Some(mount), Some(create)) = (
        dump("01-mount.pcap", &["-v"]),
        dump("02-create.pcap", &["-v"]),
    ) else {
        return;
    };
    let lines = |text: &str, what: &str| -> Vec<String> {
        let words = what.split(' ').collect::<Vec<_>>();
        let is_it = |line: &&str| {
            line.split_whitespace()
                .skip(1)
                .take(2)
                .eq(words.iter().copied())
        };
        text.lines().filter(is_it).map(str::to_owned).collect()
    };
    for (text, what, mark) in [
        (&mount, "ptlrpc_body opc", None),
        (
            &mount,
            "ptlrpc_body jobid",
            Some("  (only read, size checked)"),
        ),
        (&mount, "connect_data flags", None),
        (
            &mount,
            "connect_data compr_type",
            Some("  (only read, size checked)"),
        ),
        (&create, "lu_seq_range start", None),
        (&create, "lu_seq_range type", Some("  (only read)")),
    ] {
        let lines = lines(text, what);
        assert!(!lines.is_empty(), "{what}");
        for line in lines {
            assert_eq!(
                line.ends_with(mark.unwrap_or("only read)")),
                mark.is_some(),
                "{line}"
            );
        }
    }
}

/// The lines behind a line with these words, as far as they have no offset.
fn inside<'t>(text: &'t str, head: &str) -> Vec<&'t str> {
    let lines = text.lines().skip_while(|line| !line.contains(head)).skip(1);
    lines
        .take_while(|line| line.starts_with(&" ".repeat(16)))
        .collect()
}

#[test]
fn records_of_a_log_are_shown() {
    let (Some(text), Some(json)) = (
        dump("01-mount.pcap", &["-v"]),
        dump("01-mount.pcap", &["--json"]),
    ) else {
        return;
    };
    let records = inside(&text, " buffer         log_block ");
    assert_eq!(records.len(), 29, "{records:#?}");
    let words = |line: &str| line.split_whitespace().collect::<Vec<_>>().join(" ");
    let expected = "record 13 add_uuid 10.12.0.1@tcp2 - 10.12.0.1@tcp2";
    assert!(
        records
            .iter()
            .any(|line| words(line).ends_with("add_uuid 10.12.0.1@tcp2 - 10.12.0.1@tcp2")),
        "{expected} {records:#?}"
    );
    assert_eq!(
        words(records[0]),
        "record 1 marker start fr-clilov lov setup"
    );
    let header: Vec<&str> = text
        .lines()
        .filter(|line| line.contains("in use"))
        .collect();
    assert_eq!(words(header[0]), "records in use 1-29");

    let objects: Vec<Value> = json
        .lines()
        .map(|line| serde_json::from_str(line).unwrap())
        .collect();
    let of = |what: &str| {
        objects
            .iter()
            .find(|object| object["what"] == what)
            .unwrap()
    };
    let block = of("log_block");
    assert_eq!(block["records"].as_array().unwrap().len(), 29);
    assert_eq!(
        (&block["more"], &block["problem"]),
        (&Value::from(0), &Value::Null)
    );
    let commands = block["records"].as_array().unwrap().iter();
    let add = commands
        .clone()
        .find(|record| record["command"] == "add_uuid")
        .unwrap();
    assert_eq!(add["nid"], "10.12.0.1@tcp2");
    assert_eq!(add["arguments"], serde_json::json!(["", "10.12.0.1@tcp2"]));
    assert_eq!(of("log_header")["in_use"], serde_json::json!([[1, 29]]));
    let rpc = objects
        .iter()
        .find(|object| object["xid"] == block["match_bits"])
        .unwrap();
    assert_eq!(rpc["operation"], "LLOG_NEXT_BLOCK");
}

#[test]
fn table_of_where_the_targets_are_is_shown() {
    let (Some(text), Some(json)) = (
        dump("01-mount.pcap", &["-v"]),
        dump("01-mount.pcap", &["--json"]),
    ) else {
        return;
    };
    let targets = inside(&text, "  bulk");
    let words = |line: &&str| line.split_whitespace().collect::<Vec<_>>().join(" ");
    let targets: Vec<String> = targets.iter().map(words).collect();
    assert_eq!(
        targets[0],
        "target MDT0000 version 3, instance 1: 10.12.0.1@tcp2"
    );
    assert_eq!(targets.len(), 3, "{targets:#?}");
    let mut objects = json
        .lines()
        .map(|line| serde_json::from_str::<Value>(line).unwrap());
    let table = objects.find(|object| object["what"] == "targets").unwrap();
    let entry = &table["targets"][0];
    assert_eq!(
        (&entry["target"], &entry["nids"][0]),
        (&Value::from("MDT0000"), &Value::from("10.12.0.1@tcp2"))
    );
    let rpc = objects.find(|object| object["xid"] == table["match_bits"]);
    assert_eq!(rpc.unwrap()["operation"], "MGS_CONFIG_READ");
    // Bulk of data stays as it was: it is counted, and not printed.
    let data = dump("04-read-896k.pcap", &["-v"]).unwrap();
    assert!(!data.lines().any(|line| line.ends_with("  bulk")));
}
