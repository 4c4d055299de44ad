//! Tests `finerail-bench path` in its short form: it runs, prints all results, and leaves no files.

use std::fs;
use std::path::Path;
use std::process::Command;

use serde_json::Value;
use tempfile::TempDir;
use testkit::QueueTurn;

#[test]
fn the_path_is_measured_with_few_files_and_leaves_none() {
    let _turn = QueueTurn::take();
    let directory = TempDir::with_prefix("finerail-test-").unwrap();
    let program = env!("CARGO_BIN_EXE_finerail-bench");
    assert!(
        Path::new(program).with_file_name("finerail").is_file(),
        "build the program finerail first: the bench runs its commands"
    );
    let mut command = Command::new(program);
    command.args(["path", "--short", "--json", "--files", "20", "--directory"]);
    let output = command.arg(directory.path()).output().unwrap();
    assert!(output.status.success(), "{output:?}");
    let report: Value = serde_json::from_slice(&output.stdout).unwrap();
    let rows = report["rows"].as_array().unwrap();
    let has = |what: &str, beside: &str| {
        let is = |row: &&Value| row["what"] == what && row["beside"] == beside;
        rows.iter().any(|row| is(&row))
    };
    for clients in ["1 client", "16 clients"] {
        assert!(has(&format!("write, {clients}"), "slowest hop"), "{rows:?}");
        assert!(
            has(&format!("read, {clients}"), "plain program"),
            "{rows:?}"
        );
        let mount = has(&format!("write, {clients}, mount"), "tools");
        assert_eq!(mount, report["mount"].is_null(), "{report}");
    }
    assert!(has("random reads of 4 KiB, 16 in flight", "plain program"));
    assert!(has("names made and removed, 1 in flight", "plain program"));
    for row in rows {
        let figures = [&row["figure"], &row["limit"]];
        let positive = |figure: &Value| figure[0].as_f64().unwrap() > 0.0;
        assert!(figures.into_iter().all(positive), "{row}");
    }
    assert_eq!(report["small"]["files"], 20);
    let left = fs::read_dir(directory.path()).unwrap().count();
    assert_eq!(left, 0, "files of the bench are left");
}
