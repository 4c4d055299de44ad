//! `lustre_collector` parses `net show -v 4` and `stats show` of running nodes and finds their
//! counters.
//!
//! ```text
//!  client ── 3 pings ──▶ server       what the client's control endpoint prints ─▶ the collector's
//!                                      parsers ─▶ records ─▶ compared with what the nodes did
//! ```

#![expect(clippy::unwrap_used, clippy::panic, reason = "test code")]

use lnet_dlc::Dlc;
use lnet_dlc::protocol::{Request, Section, Show};
use lnet_node::NodeOptions;
use lnet_noded::{ControlEndpoint, ControlOptions, ManagedNode};
use lustre_collector::{LNetStats, Record, parse_lnetctl_output, parse_lnetctl_stats};
use tempfile::TempDir;

const CLIENT: &str = "127.0.0.1@tcp";
const SERVER: &str = "127.0.0.2@tcp";
/// A second NI of the client, which sends nothing.
const IDLE: &str = "127.0.0.3@tcp1";

const PINGS: usize = 3;

/// A node with its control endpoint.
struct Bed {
    dlc: Dlc,
    _endpoint: ControlEndpoint,
    _directory: TempDir,
    _node: ManagedNode,
}

impl Bed {
    fn start(port: u16, nids: &[&str]) -> Self {
        let mut yaml = String::from("net:\n");
        for nid in nids {
            let net = nid.split_once('@').unwrap().1;
            yaml += &format!("- net type: {net}\n  local NI(s):\n  - nid: {nid}\n");
        }
        let options = NodeOptions {
            port,
            ..NodeOptions::default()
        };
        let node = lnet_noded::start(&lnet_config::parse(&yaml).unwrap(), options).unwrap();
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("control.sock");
        let options = ControlOptions { path, group: None };
        let endpoint = ControlEndpoint::open(&node, &options).unwrap();
        Self {
            dlc: Dlc::connect(endpoint.path()).unwrap(),
            _endpoint: endpoint,
            _directory: directory,
            _node: node,
        }
    }

    fn show(&mut self, section: Section, verbosity: u8) -> String {
        let show = Show::all(section, verbosity);
        self.dlc.request(&Request::Show(show)).unwrap()
    }

    fn ping(&mut self, nid: &str) {
        let ping = Request::Ping {
            nids: vec![nid.to_owned()],
            source: None,
            timeout: 30,
            discover: false,
        };
        self.dlc.request(&ping).unwrap();
    }
}

/// Starts a client and a server, pings the server from the client, and waits until both have counted every message: an
/// answer may arrive before its sender has counted it.
fn pinged() -> [Bed; 2] {
    let port = testkit::port();
    let mut nodes = [&[CLIENT, IDLE][..], &[SERVER]].map(|nids| Bed::start(port, nids));
    for _ in 0..PINGS {
        nodes[0].ping(SERVER);
    }
    testkit::eventually("every message is counted", || {
        let mut shown = nodes
            .iter_mut()
            .map(|node| node.show(Section::Statistics, 0));
        shown.all(|text| text.contains("msgs_alloc: 0\n"))
    });
    nodes
}

fn lnet(records: &[Record]) -> impl Iterator<Item = &LNetStats> {
    records.iter().map(|record| match record {
        Record::LNetStat(stat) => stat,
        other => panic!("not a figure of LNet: {other:?}"),
    })
}

/// Returns NID, name and value of each record of an interface.
fn of_interfaces(records: &[Record]) -> Vec<(&str, &str, i64)> {
    let figures = lnet(records).map(|stat| match stat {
        LNetStats::SendCount(stat) | LNetStats::RecvCount(stat) | LNetStats::DropCount(stat) => {
            (stat.nid.as_str(), stat.param.0.as_str(), stat.value)
        }
        other => panic!("not of an interface: {other:?}"),
    });
    figures.collect()
}

/// Returns name and value of each record of the whole node.
fn of_node(records: &[Record]) -> Vec<(&str, i64)> {
    let figures = lnet(records).map(|stat| match stat {
        LNetStats::SendLength(stat) | LNetStats::RecvLength(stat) | LNetStats::DropLength(stat) => {
            (stat.param.0.as_str(), stat.value)
        }
        other => panic!("not of a node: {other:?}"),
    });
    figures.collect()
}

#[test]
fn the_collector_finds_every_interface_and_its_counters_in_net_show() {
    let [mut client, mut server] = pinged();
    let shown = client.show(Section::Net, 4);
    let records = parse_lnetctl_output(shown.as_bytes()).unwrap();
    let pings = i64::try_from(PINGS).unwrap();
    let expected = [("0@lo", 0), (CLIENT, pings), (IDLE, 0)].map(|(nid, count)| {
        [
            (nid, "send_count", count),
            (nid, "recv_count", count),
            (nid, "drop_count", 0),
        ]
    });
    assert_eq!(of_interfaces(&records), expected.concat(), "{shown}");
    let shown = server.show(Section::Net, 4);
    let records = parse_lnetctl_output(shown.as_bytes()).unwrap();
    let received = (SERVER, "recv_count", pings);
    assert!(of_interfaces(&records).contains(&received), "{shown}");
}

#[test]
fn the_collector_finds_the_bytes_sent_and_received_in_stats_show() {
    let [mut client, mut server] = pinged();
    let shown = client.show(Section::Statistics, 0);
    let records = parse_lnetctl_stats(shown.as_bytes()).unwrap();
    let length = |name: &str| {
        let named = of_node(&records).into_iter().find(|(own, _)| *own == name);
        named.unwrap().1
    };
    // The request of a ping has no payload. The response lists the server's loopback and interface:
    // a header of 16 bytes, and 16 bytes for each.
    let answer = 16 + 2 * 16;
    assert_eq!(length("send_length"), 0, "{shown}");
    assert_eq!(
        length("recv_length"),
        i64::try_from(PINGS).unwrap() * answer,
        "{shown}"
    );
    assert_eq!(length("drop_length"), 0, "{shown}");
    assert_eq!(of_node(&records).len(), 3);
    let shown = server.show(Section::Statistics, 0);
    let records = parse_lnetctl_stats(shown.as_bytes()).unwrap();
    let sent = ("send_length", i64::try_from(PINGS).unwrap() * answer);
    assert!(of_node(&records).contains(&sent), "{shown}");
}

/// The collector rejects output with missing keys. Otherwise its success would prove nothing.
#[test]
fn the_collector_rejects_output_without_a_required_key() {
    let [mut client, _server] = pinged();
    let whole = client.show(Section::Net, 4);
    let without = |key: &str| -> String {
        let lines = whole.lines().filter(|line| !line.contains(key));
        lines.map(|line| format!("{line}\n")).collect()
    };
    for key in ["dev cpt:", "aborted:", "send_count:", "CPT:"] {
        let shown = without(key);
        assert!(shown.len() < whole.len(), "{key}");
        assert!(parse_lnetctl_output(shown.as_bytes()).is_err(), "{key}");
    }
}
