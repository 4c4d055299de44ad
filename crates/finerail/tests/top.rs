//! `finerail top` on running nodes, in the modes that need no terminal. `src/top/tests.rs` tests the live view.

mod common;

use std::path::Path;

use serde_json::Value;

use common::finerail;
use common::process::{Ended, Process, run};
use common::site::{Site, yaml};

/// Starts a client, a router and a storage node. The client has a control socket.
fn site() -> (Site, Vec<Process>) {
    let site = Site::new();
    site.write_routed_nodes();
    let mut nodes: Vec<Process> = ["storage", "router"]
        .into_iter()
        .map(|node| site.start_node(node))
        .collect();
    let control = format!("--control={}", site.path("control").display());
    let client = Process::start(site.command("client", &["node", &control]));
    client.wait_for_output("ready: ");
    nodes.push(client);
    (site, nodes)
}

fn top(socket: &Path, more: &[&str]) -> Ended {
    let mut command = finerail(["top", "--interval", "1.5", "--node"]);
    command.arg(socket).args(more);
    run(command)
}

#[test]
fn once_shows_interfaces_peers_and_routes_with_what_went_along_them() {
    let (site, nodes) = site();
    let text = top(&site.path("control"), &["--once"]).expect_code(0).out;
    for part in [
        "127.0.0.1@tcp   up ",
        "Interfaces 1\n",
        "Peers ",
        "Routes 1\n",
        "127.0.0.2@tcp",
    ] {
        assert!(text.contains(part), "{part} in {text}");
    }
    assert!(text.lines().all(|line| line == line.trim_end()), "{text}");
    // The client pings its gateway every second, so the rate of sends is above 0.
    let json = top(&site.path("control"), &["--once", "--json"])
        .expect_code(0)
        .out;
    assert_eq!(json.lines().count(), 1);
    let seen: Value = serde_json::from_str(&json).unwrap();
    assert!(seen["per_second"]["sent"].as_f64().unwrap() > 0.0, "{json}");
    assert!(
        seen["interfaces"][0]["sent_per_second"].as_f64().unwrap() > 0.0,
        "{json}"
    );
    assert_eq!(seen["routes"][0]["gateway"], "127.0.0.2@tcp");
    assert_eq!(seen["routes"][0]["state"], "up");
    nodes.into_iter().for_each(|node| drop(node.stop()));
}

#[test]
fn once_shows_the_clients_of_a_gateway() {
    let site = Site::new();
    site.write("gateway.yaml", yaml(&["127.0.0.1@tcp"], ""));
    std::fs::create_dir(site.path("files")).unwrap();
    let control = format!("--control={}", site.path("control").display());
    let words = ["store", "serve", "--identity", "server", &control];
    let mut serve = site.command("gateway", &words);
    serve.arg(site.path("files"));
    let gateway = Process::start(serve);
    gateway.wait_for_output("ready: ");
    let text = top(&site.path("control"), &["--once"]).expect_code(0).out;
    let line = "service  sessions 0  busy/s 0  crowded/s 0  refused/s 0  malformed/s 0";
    assert!(text.lines().any(|each| each == line), "{text}");
    gateway.stop().expect_code(0);
}

#[test]
fn without_a_node_once_says_so_and_how_to_start_one() {
    let site = Site::new();
    for more in [&["--once"][..], &["--json"], &["--once", "--rpc"]] {
        let ended = top(&site.path("nobody"), more).expect_code(1);
        ended
            .expect_error("no node is controlled at ")
            .expect_error("No such file or directory")
            .expect_error("start one with `finerail node --config ");
    }
}

#[test]
fn without_a_terminal_the_live_view_says_what_to_use() {
    let site = Site::new();
    let ended = top(&site.path("nobody"), &[]).expect_code(2);
    ended.expect_error("--once");
}
