//! What a check writes to files, and what earlier ones have left there.

use lnet_ptlrpc::client::{Export, Service};
use serde_json::json;

use crate::common::finerail;
use crate::common::process::run;
use crate::common::site::Site;
use crate::words;
use crate::world::{AMPLE, MGS, World};

#[test]
fn list_that_cannot_be_written_does_not_cost_the_report() {
    let site = Site::new();
    let nodes = World::healthy().start(&site);
    let (port, state) = (site.port.to_string(), site.path("state"));
    let source = format!("{MGS}:/fs1");
    let check = |path: &str| {
        let more = ["--save", path, source.as_str()];
        let ended = run(finerail(words(
            &port,
            state.to_str().unwrap(),
            AMPLE,
            &more,
        )));
        ended.expect_code(2)
    };
    // What can be known before is said before.
    for path in [site.path("none/fs1.json"), site.path("")] {
        let ended = check(path.to_str().unwrap());
        assert!(ended.err.contains("--save"), "{}", ended.err);
        assert_eq!(nodes[0].server.lock().unwrap().asked, [] as [u32; 0]);
    }
    // Not even root can write here.
    let ended = check("/proc/self/task/fs1.json");
    let first = ended.out.lines().next().unwrap_or_default();
    assert_eq!(first, "fs1: this machine can mount it", "{}", ended.err);
    assert!(ended.err.contains("cannot write "), "{}", ended.err);
}

#[test]
fn records_that_this_run_cannot_use_are_named() {
    let site = Site::new();
    let nodes = World::healthy().start(&site);
    let (port, state) = (site.port.to_string(), site.path("state"));
    std::fs::create_dir_all(&state).unwrap();
    let record = |server: &str, port: u16, uuid: &str| {
        let export = Export::new(Service::Mgs, "MGS", uuid.to_owned(), 1);
        let record = json!({"server": server, "port": port, "time": 1, "export": export});
        site.write(&format!("state/{uuid}.json"), record.to_string())
    };
    let files = [
        record(MGS, 987, "of-another-port"),
        record("storage five", site.port, "of-no-nid"),
    ];
    let source = format!("{MGS}:/fs1");
    let ended = run(finerail(words(
        &port,
        state.to_str().unwrap(),
        AMPLE,
        &[&source],
    )));
    let text = ended.expect_code(0).out;
    let line = |uuid: &str| {
        let mut lines = text.lines();
        lines.find(|line| line.starts_with("left: ") && line.contains(uuid))
    };
    assert!(line("of-another-port").unwrap().contains("--port 987"));
    assert!(line("of-no-nid").unwrap().contains("storage five"));
    for file in files {
        assert!(file.exists(), "{}", file.display());
    }
    drop(nodes);
}
