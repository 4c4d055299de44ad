//! An adapter that falls silent for a while, its link up all the time: soon after its return messages arrive again,
//! whatever TCP's own pauses have become.

#![expect(
    clippy::unwrap_used,
    reason = "a test fails by panicking, in its helpers too"
)]

mod common;

use std::fs;
use std::net::{Ipv4Addr, TcpListener};
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use fgr::config::{AfterReturn, Timing};
use lnet_types::Net;
use tempfile::TempDir;

use common::finerail;
use common::netns::{End, Lab};
use common::process::Process;

/// Pings that fail while the adapter is silent, of two seconds each: TCP's next attempt is more than twenty seconds
/// away then.
const SILENT_PINGS: u32 = 14;

/// Pings that may fail after the return.
const LATE_PINGS: u32 = 4;

/// Returns of each form in the long suite; the ordinary run takes none, because each takes one to two minutes.
/// FINERAIL_RETURNS sets another number.
const RETURNS: usize = 20;

/// The interval of router checks and the timeout of a check, in seconds.
const CHECKS: [&str; 2] = ["5", "5"];

/// For how many seconds the adapter is silent, drawn for each return.
const SILENCES: std::ops::RangeInclusive<u64> = 20..=90;

/// How long pings are watched after a return.
const WATCHED: Duration = Duration::from_secs(25);

/// How long after a return messages may be lost, as the plan states for this kernel.
fn stated() -> Duration {
    let timing = Timing {
        transaction_timeout: Timing::PLANNED.transaction_timeout,
        check_interval: 5,
        ping_timeout: 5,
    };
    let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).unwrap();
    let is_limited = sys::limit_resend_pause(&listener, Duration::from_secs(2)).is_ok();
    let AfterReturn {
        finerail,
        finerail_unlimited,
    } = timing.after_return();
    let seconds = if is_limited {
        finerail
    } else {
        finerail_unlimited
    };
    Duration::from_secs(seconds.into())
}

/// Draws the silences of some returns: from PROPTEST_RNG_SEED if it is set, as everywhere.
fn silences(returns: usize) -> Vec<Duration> {
    let seed = std::env::var("PROPTEST_RNG_SEED").ok();
    let mut state: u64 = seed.and_then(|seed| seed.parse().ok()).unwrap_or(1);
    let (first, last) = (*SILENCES.start(), *SILENCES.end());
    let drawn = std::iter::repeat_with(|| {
        // Constants of Knuth's MMIX; the high bits are the random ones.
        state = state
            .wrapping_mul(6_364_136_223_846_793_005)
            .wrapping_add(1_442_695_040_888_963_407);
        Duration::from_secs(first + (state >> 33) % (last - first + 1))
    });
    drawn.take(returns).collect()
}

const DOCUMENT: &str = "net:\n- net type: tcp\n  local NI(s):\n  - interfaces:\n      0: eth0\n";

const NODES: [(&str, &str); 2] = [("a", "10.66.0.1"), ("b", "10.66.0.2")];

fn socket(directory: &Path, node: &str) -> PathBuf {
    directory.join(format!("{node}.sock"))
}

/// The name of a room's port at the bridge.
fn port(room: &str) -> String {
    format!("port-{room}")
}

/// Pings a node from another one; returns whether it answered within two seconds.
fn ping(lab: &Lab, directory: &Path, from: &str, to: &str) -> bool {
    ping_nid(lab, directory, from, &format!("{to}@tcp"))
}

fn ping_nid(lab: &Lab, directory: &Path, from: &str, nid: &str) -> bool {
    let socket = socket(directory, from);
    let socket = socket.to_str().unwrap();
    let args = ["ctl", "--node", socket, "ping", "--timeout", "2", nid];
    lab.run(from, &args).status.success()
}

#[test]
fn a_peer_that_was_silent_for_long_is_reached_soon_after_its_return() {
    let Some(lab) = Lab::build(&["a", "b", "switch"]) else {
        return;
    };
    let directory = TempDir::new().unwrap();
    lab.ip("switch", &["link", "add", "br0", "type", "bridge"]);
    lab.ip("switch", &["link", "set", "br0", "up"]);
    let mut nodes = Vec::new();
    for (room, address) in NODES {
        let address = format!("{address}/24");
        let end = End {
            room,
            interface: "eth0",
            address: &address,
        };
        lab.plug(&end, ["switch", "br0", &port(room)]);
        let document = directory.path().join(format!("{room}.yaml"));
        fs::write(&document, DOCUMENT).unwrap();
        let socket = socket(directory.path(), room);
        let [document, socket] = [&document, &socket].map(|path| path.to_str().unwrap());
        nodes.push(lab.start(room, &["node", "--config", document, "--control", socket]));
    }
    let [(a, from_a), (b, from_b)] = NODES;
    let ping = |from, to| ping(&lab, directory.path(), from, to);
    assert!(ping(a, from_b) && ping(b, from_a));

    lab.ip("switch", &["link", "set", &port(b), "nomaster"]);
    for number in 0..SILENT_PINGS {
        assert!(!ping(a, from_b), "ping {number} through a silent adapter");
    }
    lab.ip("switch", &["link", "set", &port(b), "master", "br0"]);

    for (from, to) in [(a, from_b), (b, from_a)] {
        let late = (0..20).take_while(|_| !ping(from, to)).count();
        assert!(
            late <= LATE_PINGS as usize,
            "{late} pings from {from} failed"
        );
    }
}

/// Two clients, three routers of one net, and a server, each interface at a port of a bridge.
const MACHINE: &str = "
machine: silence
fabric:
  kind: mesh
  dimensions:
    - {name: x, size: 6, cost: 1, capacity: [1]}
clients:
  list:
    - {id: 1, name: c1, at: [0]}
    - {id: 2, name: c2, at: [5]}
groups:
  - name: A
    nets: [tcp201]
    sub-groups:
      - modules:
          - {blade: ra, at: [1], nodes: [{id: 11, name: r1, nets: [tcp201]}]}
          - {blade: rb, at: [4], nodes: [{id: 12, name: r2, nets: [tcp201]}]}
          - {blade: rc, at: [3], nodes: [{id: 13, name: r3, nets: [tcp201]}]}
";

/// The nodes with their addresses towards the clients and towards the servers.
const SITE: [(&str, Option<&str>, Option<&str>); 6] = [
    ("c1", Some("10.95.0.1"), None),
    ("c2", Some("10.95.0.2"), None),
    ("r1", Some("10.95.0.11"), Some("10.96.0.11")),
    ("r2", Some("10.95.0.12"), Some("10.96.0.12")),
    ("r3", Some("10.95.0.13"), Some("10.96.0.13")),
    ("oss1", None, Some("10.96.0.201")),
];

/// Writes the plan of the site, with a document for each node.
fn plan(directory: &TempDir, form: &str) {
    let path = |name: &str| directory.path().join(name);
    fs::write(path("machine.yaml"), MACHINE).unwrap();
    fs::write(path("servers.csv"), "oss1,10.96.0.201@tcp201\n").unwrap();
    let made = finerail(["fgr", "config", "--per-node", "--form", form])
        .args(["--client-net", "tcp100"])
        .args(["--client-addresses", "10.95.0.0"])
        .args(["--router-addresses", "10.96.0.0"])
        .args(["--check-interval", CHECKS[0], "--ping-timeout", CHECKS[1]])
        .arg("--machine")
        .arg(path("machine.yaml"))
        .arg("--servers")
        .arg(path("servers.csv"))
        .arg("-o")
        .arg(path("plan"))
        .output()
        .unwrap();
    assert!(made.status.success(), "{made:?}");
}

/// Plugs a node in, and starts it with its document of the plan.
fn start_node(
    lab: &Lab,
    directory: &TempDir,
    (room, towards_clients, towards_servers): &(&str, Option<&str>, Option<&str>),
) -> Process {
    for (bridge, address) in [("clients", towards_clients), ("servers", towards_servers)] {
        let Some(address) = address else { continue };
        let (interface, address) = (format!("{bridge}0"), format!("{address}/16"));
        let end = End {
            room,
            interface: &interface,
            address: &address,
        };
        lab.plug(&end, ["switch", bridge, &format!("{bridge}-{room}")]);
    }
    let nodes = directory.path().join("plan/nodes");
    let document = nodes.join(format!("{room}.yaml"));
    let socket = socket(directory.path(), room);
    let [document, socket] = [&document, &socket].map(|path| path.to_str().unwrap());
    lab.start(room, &["node", "--config", document, "--control", socket])
}

/// The gateway that c1 takes first.
struct FirstGateway {
    address: String,
    net: Net,
}

fn first_gateway(directory: &TempDir) -> FirstGateway {
    let document = fs::read_to_string(directory.path().join("plan/nodes/c1.yaml")).unwrap();
    let config = lnet_config::parse(&document).unwrap();
    let routes = config.routes.iter();
    let first = routes.min_by_key(|route| route.priority).unwrap();
    let rule = config.rules.rules().first().map(ToString::to_string);
    let named = rule
        .as_deref()
        .map(|rule| rule.split("--rte ").nth(1).unwrap());
    let gateway = first.gateway.to_string();
    let address = named.unwrap_or(&gateway).split('@').next().unwrap();
    FirstGateway {
        address: address.to_owned(),
        net: first.gateway.net(),
    }
}

/// A planned site that runs.
struct Planned {
    lab: Lab,
    directory: TempDir,
    /// The primary of c1, and the NID by which the server knows c1.
    primary: String,
    client: String,
    _nodes: Vec<Process>,
}

impl Planned {
    fn start(form: &str) -> Option<Self> {
        let lab = Lab::build(&["c1", "c2", "r1", "r2", "r3", "oss1", "switch"])?;
        let directory = TempDir::new().unwrap();
        plan(&directory, form);
        for bridge in ["clients", "servers"] {
            lab.ip("switch", &["link", "add", bridge, "type", "bridge"]);
            lab.ip("switch", &["link", "set", bridge, "up"]);
        }
        let nodes = SITE.iter().map(|node| start_node(&lab, &directory, node));
        let nodes = nodes.collect();
        let first = first_gateway(&directory);
        let of = |(name, near, _): &(&str, Option<&str>, Option<&str>)| {
            (*near == Some(first.address.as_str())).then(|| (*name).to_owned())
        };
        Some(Self {
            primary: SITE.iter().find_map(of).unwrap(),
            client: format!("10.95.0.1@{}", first.net),
            lab,
            directory,
            _nodes: nodes,
        })
    }

    /// Pings in both directions until a time has passed. Returns when pings that failed began, from the start on.
    fn watch(&self, time: Duration) -> Vec<Duration> {
        let start = Instant::now();
        let lost_from = |room: &str, to: &str| {
            let mut lost = Vec::new();
            while start.elapsed() < time {
                let began = start.elapsed();
                if !ping_nid(&self.lab, self.directory.path(), room, to) {
                    lost.push(began);
                }
            }
            lost
        };
        // A thread for each direction: a ping that is lost takes two seconds.
        std::thread::scope(|scope| {
            let requests = scope.spawn(|| lost_from("c1", "10.96.0.201@tcp201"));
            let mut lost = lost_from("oss1", &self.client);
            lost.extend(requests.join().unwrap());
            lost
        })
    }

    /// The client-side adapter of the primary falls silent, its link up all the time, and returns.
    fn return_after(&self, silence: Duration) -> Vec<Duration> {
        let port = format!("clients-{}", self.primary);
        self.lab.ip("switch", &["link", "set", &port, "nomaster"]);
        let _during = self.watch(silence);
        self.lab
            .ip("switch", &["link", "set", &port, "master", "clients"]);
        self.watch(WATCHED)
    }
}

fn returns(form: &str) {
    let set = |name: &str| std::env::var(name).ok();
    if set("FINERAIL_LONG").is_none_or(|value| value != "1") {
        println!("{RETURNS} returns take half an hour: FINERAIL_LONG=1 runs them");
        return;
    }
    let returns = set("FINERAIL_RETURNS").map_or(RETURNS, |count| count.parse().unwrap());
    let Some(site) = Planned::start(form) else {
        return;
    };
    let healthy = site.watch(Duration::from_secs(5));
    assert!(healthy.is_empty(), "before any failure: {healthy:?}");
    let stated = stated();
    let (mut lost_pings, mut with_loss, mut last) = (0, 0, Duration::ZERO);
    for (number, silence) in (1..).zip(silences(returns)) {
        let lost = site.return_after(silence);
        println!("return {number} after {silence:?}: lost pings began at {lost:?}");
        lost_pings += lost.len();
        with_loss += usize::from(!lost.is_empty());
        last = last.max(lost.into_iter().max().unwrap_or_default());
    }
    println!(
        "{form}: {lost_pings} pings of 2 s lost in {with_loss} of {returns} returns, the last began {last:?} after the \
         return; the plan states {stated:?}"
    );
    assert!(last <= stated, "{last:?}");
}

#[test]
fn silences_are_drawn_between_20_and_90_seconds() {
    let drawn = silences(1000);
    let within = drawn
        .iter()
        .all(|silence| SILENCES.contains(&silence.as_secs()));
    assert!(within, "{drawn:?}");
    let [least, most] = [drawn.iter().min(), drawn.iter().max()].map(|end| end.unwrap().as_secs());
    assert!(least <= 22 && most >= 88, "{least} to {most}");
}

#[test]
fn twenty_returns_with_slot_nets_lose_no_more_than_the_plan_states() {
    returns("slot-nets");
}

#[test]
fn twenty_returns_in_the_multi_rail_form_lose_no_more_than_the_plan_states() {
    returns("multi-rail");
}
