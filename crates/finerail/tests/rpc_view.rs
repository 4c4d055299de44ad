//! What a router with `--rpc` shows of the RPCs that pass it: `finerail top --rpc`, `finerail ctl watch --rpc`; and
//! `finerail explain --targets` with what was learned on the way.

#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    reason = "a test fails by panicking, in its helpers too"
)]

mod common;

use lnet_ptlrpc::client::Service;
use lnet_ptlrpc::server::Served;
use serde_json::Value;

use common::finerail;
use common::lustre::{LustreNode, log_of};
use common::process::{Ended, Process, run};
use common::site::{Site, yaml};

/// A router with `--rpc`, and behind it a server with an MGS and an MDT.
struct Lab {
    site: Site,
    router: Process,
    server: LustreNode,
}

impl Lab {
    fn start() -> Self {
        let site = Site::new();
        let route = "route:\n- net: tcp1\n  gateway: 127.0.0.5@tcp\n";
        site.write("own.yaml", yaml(&["127.0.0.1@tcp"], route));
        let nids = ["127.0.0.5@tcp", "127.0.0.6@tcp1"];
        site.write("router.yaml", yaml(&nids, "routing:\n  enable: 1\n"));
        let control = format!("--control={}", site.path("control").display());
        let router = Process::start(site.command("router", &["node", "--rpc", &control]));
        router.wait_for_output("ready: ");
        let far = yaml(
            &["127.0.0.7@tcp1"],
            "route:\n- net: tcp\n  gateway: 127.0.0.6@tcp1\n",
        );
        let log = log_of(&[("fs1-MDT0000", &[&["127.0.0.7@tcp1"]])]);
        let targets = vec![
            Served::new(Service::Mgs, "MGS").log("fs1-client", log),
            Served::new(Service::Mdt, "fs1-MDT0000_UUID"),
        ];
        let server = LustreNode::configured(site.port, &far, targets);
        Self {
            site,
            router,
            server,
        }
    }

    /// Runs `finerail doctor mount` through the router.
    fn look(&self) {
        let mut doctor = finerail(["doctor", "mount", "--targets", "--timeout", "20"]);
        doctor.arg("--port").arg(self.site.port.to_string());
        doctor.arg("--state").arg(self.site.path("state"));
        doctor.arg("--save").arg(self.site.path("fs1.json"));
        doctor.arg("--config").arg(self.site.path("own.yaml"));
        doctor.arg("127.0.0.7@tcp1:/fs1");
        run(doctor).expect_code(0);
        self.server.expect_no_harm("through a router that watches");
    }

    fn node(&self, words: &[&str]) -> std::process::Command {
        let mut command = finerail(words);
        command.env("FINERAIL_CONTROL", self.site.path("control"));
        command
    }
}

fn top(lab: &Lab) -> Value {
    let words = ["top", "--rpc", "--json", "--once", "--interval", "0.2"];
    let json = run(lab.node(&words)).expect_code(0).out;
    serde_json::from_str(&json).unwrap()
}

fn counted(rows: &Value, by: &str, name: &str) -> f64 {
    let mut rows = rows.as_array().unwrap().iter();
    let row = rows.find(|row| row[by] == name);
    row.map_or(0.0, |row| row["rpcs"].as_f64().unwrap())
}

#[test]
fn a_router_shows_who_asked_whom_for_what_and_how_long_it_took() {
    let lab = Lab::start();
    let filter = ["--operation", "mds_connect", "--job", "doctor"];
    let words = [
        &["ctl", "watch", "--rpc", "--json", "--count", "1"],
        &filter[..],
    ]
    .concat();
    let watch = Process::start(lab.node(&words));
    let none = ["ctl", "watch", "--rpc", "--client", "127.0.0.77@tcp"];
    let other = Process::start(lab.node(&none));
    // A watch sees RPCs from its begin on, so it has to have begun: it ends when it has seen one.
    let mut watch = watch;
    let mut looks = 0;
    while watch.is_running() {
        lab.look();
        looks += 1;
        assert!(looks < 20, "the watch sees nothing");
    }
    let line: Value = serde_json::from_str(&watch.wait().out).unwrap();
    assert_eq!(line["event"], "rpc");
    assert_eq!(line["operation"], "MDS_CONNECT");
    assert_eq!(line["client"], "127.0.0.1@tcp");
    assert_eq!(line["status"], 0);
    assert!(line["micros"].as_u64().unwrap() > 0, "{line}");
    assert_eq!(other.output(), "");
    let seen = when_counted(&lab, f64::from(looks));
    assert_eq!(
        counted(&seen["operations"], "operation", "MGS_CONNECT"),
        f64::from(looks)
    );
    assert_eq!(seen["missed"], 0);
    let client = counted(&seen["clients"], "client", "127.0.0.1@tcp");
    assert_eq!(seen["rpcs"].as_f64().unwrap(), client);
    let slowest = seen["slowest"].as_array().unwrap();
    assert!(
        slowest.iter().all(|row| row["nanos"].as_u64().unwrap() > 0),
        "{seen}"
    );
    let order: Vec<u64> = slowest
        .iter()
        .map(|row| row["nanos"].as_u64().unwrap())
        .collect();
    assert!(order.is_sorted_by(|one, other| one >= other), "{order:?}");
    let text = run(lab.node(&["top", "--rpc", "--once", "--interval", "0.2"]))
        .expect_code(0)
        .out;
    for part in [
        "rpcs/s ",
        "outstanding 0",
        "Clients 1\n",
        "Operations ",
        "MDS_CONNECT",
        "Slowest ",
    ] {
        assert!(text.contains(part), "{part} in {text}");
    }
    drop(other);
    drop(lab.router.stop());
}

/// Returns what the router shows when it has counted the disconnects of so many looks.
fn when_counted(lab: &Lab, looks: f64) -> Value {
    common::eventually("every RPC is counted", || {
        let seen = top(lab);
        let ends = ["MDS_DISCONNECT", "MGS_DISCONNECT"];
        let mut ends = ends
            .iter()
            .map(|end| counted(&seen["operations"], "operation", end));
        ends.all(|count| count >= looks).then_some(seen)
    })
}

#[test]
fn a_node_that_does_not_count_says_how_it_would() {
    let site = Site::new();
    site.write("own.yaml", yaml(&["127.0.0.1@tcp"], ""));
    let control = format!("--control={}", site.path("control").display());
    let node = Process::start(site.command("own", &["node", &control]));
    node.wait_for_output("ready: ");
    let asked = |words: &[&str]| -> Ended {
        let mut command = finerail(words);
        command.env("FINERAIL_CONTROL", site.path("control"));
        run(command)
    };
    let top = asked(&["top", "--rpc", "--once"]).expect_code(1);
    assert!(top.err.contains("finerail node --rpc"), "{}", top.err);
    let watch = asked(&["ctl", "watch", "--rpc"]);
    assert_ne!(watch.code(), Some(0));
    assert!(watch.err.contains("finerail node --rpc"), "{}", watch.err);
    // Wrong usage, as lnetctl says it.
    asked(&["ctl", "watch", "--client", "127.0.0.1@tcp"]).expect_code(234);
    drop(node.stop());
}

#[test]
fn explain_takes_the_saved_targets() {
    let site = Site::new();
    let route = "route:\n- net: tcp1\n  gateway: 127.0.0.5@tcp\n";
    let own = site.write("own.yaml", yaml(&["127.0.0.1@tcp"], route));
    let saved = site.write(
        "fs1.json",
        r#"{"fs": "fs1", "mgs": [["127.0.0.2@tcp"]], "targets": {
            "fs1-MDT0000": {"nids": ["10.9.0.1@tcp9", "127.0.0.7@tcp1"], "failover": [], "is_inactive": false},
            "fs1-OST0000": {"nids": ["127.0.0.7@tcp1"], "failover": [["10.9.0.1@tcp9"]], "is_inactive": false},
            "fs1-OST0001": {"nids": ["10.9.0.2@tcp9"], "failover": [], "is_inactive": true}}}"#,
    );
    let explain = |more: &[&str]| {
        let mut command = finerail(["explain", "--config"]);
        command.arg(&own).arg("--targets").arg(&saved).args(more);
        run(command)
    };
    let text = explain(&[]).expect_code(1).out;
    let lines: Vec<&str> = text.lines().collect();
    assert_eq!(lines.len(), 5, "{text}");
    assert_eq!(lines[0], "MGS          127.0.0.1@tcp to 127.0.0.2@tcp");
    let through = "127.0.0.1@tcp to 127.0.0.7@tcp1 by 127.0.0.5@tcp";
    assert_eq!(lines[1], format!("fs1-MDT0000  {through}"));
    assert_eq!(lines[2], format!("fs1-OST0000  {through}"));
    assert!(
        lines[3].starts_with("fs1-OST0000  no path: 10.9.0.1@tcp9: "),
        "{text}"
    );
    assert_eq!(
        lines[4],
        "fs1: 4 nodes of the MGS and the targets, 1 without a path"
    );
    let mended = ["--json", "--add-route", "tcp9=127.0.0.6@tcp"];
    let json: Value = serde_json::from_str(&explain(&mended).expect_code(0).out).unwrap();
    assert_eq!(json["rows"][3]["path"]["gateway"], "127.0.0.6@tcp");
    let both = explain(&["--to", "127.0.0.2@tcp"]);
    both.expect_code(2);
    let bridge = "net:\n- net type: tcp\n  local NI(s):\n  - nid: 172.17.0.1@tcp\n    interfaces:\n      0: docker0\n";
    let bridge = site.write("bridge.yaml", bridge);
    let mut command = finerail(["explain", "--config"]);
    command.arg(&bridge).arg("--targets").arg(&saved);
    let text = run(command).expect_code(1).out;
    assert_eq!(text.matches("[virtual-interface]").count(), 1, "{text}");
    let wrong = site.write("wrong.json", "[]");
    let mut command = finerail(["explain", "--config"]);
    command.arg(&own).arg("--targets").arg(wrong);
    run(command)
        .expect_code(2)
        .expect_error("doctor mount --save");
}
