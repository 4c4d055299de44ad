//! A router that is taken out while messages pass through it: none is lost.

#![expect(
    clippy::unwrap_used,
    reason = "a test fails by panicking, in its helpers too"
)]

mod common;

use std::path::PathBuf;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;

use lnet_dlc::protocol::{NodeNumbers, Part, Request};
use lnet_node::{AcceptMode, NodeOptions};
use lnet_noded::ManagedNode;

use common::process::{Process, run};
use common::site::{Site, yaml};
use common::{PATIENCE, eventually, finerail};

/// Pings under way at the same time.
const PINGS: usize = 8;
/// Peers notice within two seconds that a router no longer routes.
const QUICK: &str = "global:\n  alive_router_check_interval: 1\n  router_ping_timeout: 1\n";

fn socket(site: &Site, router: &str) -> PathBuf {
    site.path(format!("{router}.control"))
}

fn start_router(site: &Site, name: &str, nids: &[&str]) -> Process {
    let rest = format!("routing:\n  enable: 1\n{QUICK}");
    site.write(&format!("{name}.yaml"), yaml(nids, &rest));
    let control = format!("--control={}", socket(site, name).display());
    let router = Process::start(site.command(name, &["node", &control]));
    router.wait_for_output("ready: ");
    router
}

fn start_end(site: &Site, nid: &str, net: &str, gateways: [&str; 2]) -> ManagedNode {
    let routes = gateways.map(|gateway| format!("- net: {net}\n  gateway: {gateway}\n"));
    let text = yaml(&[nid], &format!("route:\n{}{QUICK}", routes.concat()));
    let options = NodeOptions {
        accept: Some(AcceptMode::All),
        port: site.port,
        ..NodeOptions::default()
    };
    lnet_noded::start(&lnet_config::parse(&text).unwrap(), options).unwrap()
}

fn numbers(site: &Site, router: &str) -> NodeNumbers {
    let mut dlc = lnet_dlc::Dlc::connect(socket(site, router)).unwrap();
    let mut numbers = None;
    dlc.request_pieces(&Request::Numbers, |piece| {
        if let Ok(Part::Node(node)) = Part::from_text(piece) {
            numbers = Some(*node);
        }
    })
    .unwrap();
    numbers.unwrap()
}

#[test]
fn a_router_that_stops_under_load_loses_no_message_and_tells_when_it_has_stopped() {
    let site = Site::new();
    let routers = [
        start_router(&site, "one", &["127.0.0.2@tcp", "127.0.0.3@tcp1"]),
        start_router(&site, "two", &["127.0.0.5@tcp", "127.0.0.6@tcp1"]),
    ];
    let server = start_end(
        &site,
        "127.0.0.4@tcp1",
        "tcp",
        ["127.0.0.3@tcp1", "127.0.0.6@tcp1"],
    );
    let gateways = ["127.0.0.2@tcp", "127.0.0.5@tcp"];
    let client = start_end(&site, "127.0.0.1@tcp", "tcp1", gateways);
    let target = "127.0.0.4@tcp1".parse().unwrap();
    let done = AtomicBool::new(false);
    let ended = thread::scope(|scope| {
        let (client, done) = (client.node(), &done);
        let pings = [(); PINGS].map(|()| {
            scope.spawn(move || {
                while !done.load(Ordering::Relaxed) {
                    client.ping(target, None, PATIENCE)?;
                }
                Ok::<(), lnet_node::PingError>(())
            })
        });
        eventually("both routers forward", || {
            let forwards = |name: &&str| numbers(&site, name).routed > 100;
            ["one", "two"].iter().all(forwards).then_some(())
        });
        let mut stop = finerail(["ctl", "--node"]);
        stop.arg(socket(&site, "one"));
        let ended = run_command(stop, &["set", "routing", "0", "--wait"]);
        done.store(true, Ordering::Relaxed);
        for ping in pings {
            let pinged = ping.join().unwrap_or_else(|_| panic!("a thread panicked"));
            pinged.unwrap();
        }
        ended
    });
    assert!(ended.contains("forwarding stops in "), "{ended}");
    assert!(ended.contains("forwarding has stopped"), "{ended}");
    let [one, two] = ["one", "two"].map(|name| numbers(&site, name));
    assert!(!one.routing && two.routing);
    assert_eq!((one.dropped, two.dropped), (0, 0));
    drop((client, server));
    for router in routers {
        router.stop().expect_code(0);
    }
}

fn run_command(mut command: std::process::Command, words: &[&str]) -> String {
    command.args(words);
    run(command).expect_code(0).err
}
