//! Tests of the metrics endpoint from outside: its text, its limits, its clients, and the files that use its metrics.

#![expect(clippy::unwrap_used, clippy::panic, reason = "test code")]

#[path = "../common/mod.rs"]
mod common;
mod openmetrics;

use std::collections::BTreeSet;
use std::fs;
use std::io::{ErrorKind, Read, Write};
use std::net::{TcpStream, ToSocketAddrs};
use std::path::PathBuf;
use std::process::{Command, Stdio};
use std::time::Duration;

use lnet_config::PeerConfig;
use lnet_node::{Node, NodeOptions};
use lnet_noded::{MetricsEndpoint, MetricsOptions, RpcCounts, metrics};
use lnet_types::{Net, Nid};

use common::{PATIENCE, nid};
use openmetrics::{Exposition, Labels};

fn start(port: u16, nids: &[&str], rest: &str) -> Node {
    common::start(port, nids, rest).into_node()
}

fn serve(node: &Node) -> MetricsEndpoint {
    MetricsEndpoint::open(node, &MetricsOptions::at_port(0)).unwrap()
}

fn connect(endpoint: &MetricsEndpoint) -> TcpStream {
    let stream = TcpStream::connect(endpoint.address()).unwrap();
    stream.set_read_timeout(Some(PATIENCE)).unwrap();
    stream
}

/// Returns head and body of the answer to these bytes; both are empty if the connection ends without an answer.
fn ask(endpoint: &MetricsEndpoint, request: &[u8]) -> (String, String) {
    let mut stream = connect(endpoint);
    stream.write_all(request).unwrap();
    let mut answer = String::new();
    match stream.read_to_string(&mut answer) {
        Ok(_) => {}
        // The endpoint closes without reading the rest of a request that it rejects.
        Err(error) if error.kind() == ErrorKind::ConnectionReset => {}
        Err(error) => panic!("{error}"),
    }
    match answer.split_once("\r\n\r\n") {
        Some((head, body)) => (head.to_owned(), body.to_owned()),
        None => (answer, String::new()),
    }
}

fn scrape(endpoint: &MetricsEndpoint) -> Exposition {
    let (head, body) = ask(
        endpoint,
        b"GET /metrics HTTP/1.1\r\nHost: a\r\nAccept: application/openmetrics-text\r\n\r\n",
    );
    assert!(head.starts_with("HTTP/1.1 200 OK\r\n"), "{head}");
    let length = format!("Content-Length: {}", body.len());
    assert!(head.contains(&length), "{head}");
    Exposition::parse(&body).unwrap()
}

/// Starts two nodes; the first has pinged the second.
fn after_traffic() -> (Node, Node) {
    let port = testkit::port();
    let route = "route:\n- net: tcp9\n  gateway: 127.0.0.2@tcp\n  hop: 2\n";
    // The gateway starts first: a node pings its gateways as soon as it runs.
    let asked = start(port, &["127.0.0.2@tcp"], "");
    let asking = start(port, &["127.0.0.1@tcp"], route);
    for _ in 0..3 {
        asking.ping(nid("127.0.0.2@tcp"), None, PATIENCE).unwrap();
    }
    (asking, asked)
}

#[test]
fn a_scrape_agrees_with_what_the_node_counted() {
    let (node, _other) = after_traffic();
    let endpoint = serve(&node);
    let before = node.stats();
    let seen = scrape(&endpoint);
    let after = node.stats();
    let between = |name, labels: &[(&str, &str)], low: u64, high: u64| {
        let value = seen.value(name, labels).unwrap_or(-1.0);
        assert!(
            value >= low as f64 && value <= high as f64,
            "{name} {value}"
        );
    };
    let nid = [("nid", "127.0.0.1@tcp"), ("type", "get")];
    let (low, high) = (before.nis.last().unwrap(), after.nis.last().unwrap());
    assert!(low.sent.get >= 3, "it has pinged");
    between(
        "finerail_ni_sent_messages_total",
        &nid,
        low.sent.get,
        high.sent.get,
    );
    between(
        "finerail_sent_messages_total",
        &[],
        before.send_count,
        after.send_count,
    );
    between(
        "finerail_received_bytes_total",
        &[],
        before.recv_length,
        after.recv_length,
    );
    let (low, high) = (&before.socklnd, &after.socklnd);
    between(
        "finerail_socklnd_sent_bytes_total",
        &[],
        low.bytes_out,
        high.bytes_out,
    );
    between(
        "finerail_socklnd_connections",
        &[],
        low.connections_open,
        high.connections_open,
    );
    let dropped = seen.sum("finerail_dropped_messages_total");
    assert!(dropped >= before.drop_count as f64 && dropped <= after.drop_count as f64);
}

#[test]
fn peers_routes_and_latencies_have_series_of_their_own() {
    let (node, _other) = after_traffic();
    let seen = scrape(&serve(&node));
    let peer = ("peer", "127.0.0.2@tcp");
    let kind = ("kind", "get_rtt");
    let route = [("net", "tcp9"), ("gateway", "127.0.0.2@tcp")];
    assert_eq!(seen.value("finerail_peer_ni_health", &[peer]), Some(1000.0));
    assert_eq!(seen.value("finerail_route_hops", &route), Some(2.0));
    assert_eq!(seen.value("finerail_routes", &[]), Some(1.0));
    let samples = seen.value("finerail_peer_ni_latency_samples_total", &[peer, kind]);
    let sum = seen.value("finerail_peer_ni_latency_seconds_total", &[peer, kind]);
    let max = seen.value("finerail_peer_ni_latency_max_seconds", &[peer, kind]);
    let (samples, sum, max) = (samples.unwrap(), sum.unwrap(), max.unwrap());
    assert!(samples >= 3.0, "{samples} samples");
    assert!(0.0 < max && max <= sum, "{max} of {sum} s");
    assert!(sum <= samples * max, "{sum} s in {samples} samples");
}

#[test]
fn a_histogram_counts_every_sample_once_and_its_buckets_add_up() {
    let (node, _other) = after_traffic();
    let seen = scrape(&serve(&node));
    let labels = [("nid", "127.0.0.1@tcp"), ("kind", "get_rtt")];
    let count = seen.value("finerail_ni_latency_seconds_count", &labels);
    let sum = seen.value("finerail_ni_latency_seconds_sum", &labels);
    assert!(count.unwrap() >= 3.0 && sum.unwrap() > 0.0, "it has pinged");
    let all = seen.series("finerail_ni_latency_seconds_bucket");
    let of_kind = all.iter().filter(|(of, _)| {
        labels
            .iter()
            .all(|(name, value)| of.get(*name).is_some_and(|of| of == value))
    });
    let bound = |of: &Labels| of["le"].replace("+Inf", "inf").parse::<f64>().unwrap();
    let mut buckets: Vec<_> = of_kind.map(|(of, value)| (bound(of), *value)).collect();
    buckets.sort_by(|(one, _), (other, _)| one.total_cmp(other));
    assert_eq!(buckets.len(), 23);
    assert!(buckets.is_sorted_by_key(|(_, value)| *value), "{buckets:?}");
    assert_eq!(buckets.last(), Some(&(f64::INFINITY, count.unwrap())));
}

#[test]
fn what_goes_along_a_route_is_counted_by_it() {
    let port = testkit::port();
    let beyond = start(
        port,
        &["127.0.0.4@tcp1"],
        "route:\n- net: tcp\n  gateway: 127.0.0.3@tcp1\n",
    );
    let routing = "routing:\n  enable: 1\n";
    let router = start(port, &["127.0.0.2@tcp", "127.0.0.3@tcp1"], routing);
    let route = "route:\n- net: tcp1\n  gateway: 127.0.0.2@tcp\n";
    let asking = start(port, &["127.0.0.1@tcp"], route);
    for _ in 0..3 {
        asking.ping(nid("127.0.0.4@tcp1"), None, PATIENCE).unwrap();
    }
    let seen = scrape(&serve(&asking));
    let route = [("net", "tcp1"), ("gateway", "127.0.0.2@tcp")];
    let sent = seen.value("finerail_route_sent_messages_total", &route);
    let dropped = seen.value("finerail_route_dropped_messages_total", &route);
    assert!(sent.unwrap() >= 3.0, "{sent:?}");
    assert_eq!(dropped, Some(0.0));
    drop((router, beyond));
}

/// Starts a node with this many configured peers, none of which exists.
fn with_peers(count: u32) -> Node {
    let yaml = "net:\n- net type: tcp\n  local NI(s):\n  - nid: 127.0.0.1@tcp\n";
    let mut config = lnet_config::parse(yaml).unwrap();
    let peers = (0..count).map(|number| PeerConfig {
        nids: vec![Nid::from_number(Net::tcp(0), 0x0A00_0000 | number)],
        multi_rail: true,
    });
    config.peers = peers.collect();
    let options = NodeOptions {
        port: testkit::port(),
        ..NodeOptions::default()
    };
    lnet_noded::start(&config, options).unwrap().into_node()
}

#[test]
fn above_the_limit_all_other_peers_are_one() {
    let node = with_peers(1100);
    let seen = scrape(&serve(&node));
    let credits = seen.series("finerail_peer_ni_tx_credits_max");
    assert_eq!(credits.len(), 1001);
    assert_eq!(seen.value("finerail_peer_nis", &[]), Some(1100.0));
    let one = seen.value(
        "finerail_peer_ni_tx_credits_max",
        &[("peer", "10.0.0.0@tcp")],
    );
    let others = seen.value("finerail_peer_ni_tx_credits_max", &[("peer", "others")]);
    assert!(one.unwrap() > 0.0);
    assert_eq!(others.unwrap(), 100.0 * one.unwrap());
    let health = seen.value("finerail_peer_ni_health", &[("peer", "others")]);
    assert_eq!(health, Some(1000.0));
}

#[test]
fn whatever_the_limit_is_the_sums_are_the_same() {
    let (node, other) = after_traffic();
    other.shutdown(PATIENCE);
    for last in 3..6 {
        let absent = nid(&format!("127.0.0.{last}@tcp"));
        let _nobody = node.ping(absent, None, PATIENCE);
    }
    let limited = |peer_nis_max| {
        let options = MetricsOptions {
            peer_nis_max,
            ..MetricsOptions::at_port(0)
        };
        Exposition::parse(&metrics(&node, &options)).unwrap()
    };
    let all = limited(1000);
    let known = all.series("finerail_peer_ni_up").len();
    assert!(known >= 2, "{known} peers");
    for limit in 0..known {
        let seen = limited(limit);
        assert_eq!(seen.series("finerail_peer_ni_up").len(), limit + 1);
        for name in [
            "finerail_peer_ni_sent_messages_total",
            "finerail_peer_ni_received_messages_total",
            "finerail_peer_ni_failures_total",
            "finerail_peer_ni_latency_samples_total",
            "finerail_peer_ni_tx_credits_max",
        ] {
            assert_eq!(seen.sum(name), all.sum(name), "{name}, limit {limit}");
        }
    }
}

#[test]
fn routes_above_the_limit_are_only_numbers() {
    let (node, _other) = after_traffic();
    let options = MetricsOptions {
        routes_max: 0,
        ..MetricsOptions::at_port(0)
    };
    let seen = Exposition::parse(&metrics(&node, &options)).unwrap();
    assert_eq!(seen.series("finerail_route_up").len(), 0);
    assert_eq!(seen.value("finerail_routes", &[]), Some(1.0));
}

#[test]
fn what_is_no_scrape_is_refused_by_its_status() {
    let node = start(testkit::port(), &["127.0.0.1@tcp"], "");
    let endpoint = serve(&node);
    let status = |request: &str| {
        let (head, _) = ask(&endpoint, format!("{request}\r\n\r\n").as_bytes());
        head.lines().next().unwrap_or_default().to_owned()
    };
    assert_eq!(status("GET / HTTP/1.1"), "HTTP/1.1 404 Not Found");
    assert_eq!(
        status("POST /metrics HTTP/1.1"),
        "HTTP/1.1 405 Method Not Allowed"
    );
    assert_eq!(status("\u{1}\u{2}"), "HTTP/1.1 400 Bad Request");
    let (head, body) = ask(&endpoint, b"HEAD /metrics HTTP/1.1\r\n\r\n");
    assert!(head.starts_with("HTTP/1.1 200"), "{head}");
    assert_eq!(body, "");
}

#[test]
fn a_request_without_end_is_cut_off() {
    let node = start(testkit::port(), &["127.0.0.1@tcp"], "");
    let endpoint = serve(&node);
    let exactly = [b'a'; 8 << 10];
    let (head, _) = ask(&endpoint, &exactly);
    assert!(head.starts_with("HTTP/1.1 431 "), "{head}");
}

#[test]
fn a_new_scrape_is_served_whatever_number_of_clients_say_nothing_or_read_nothing() {
    let node = start(testkit::port(), &["127.0.0.1@tcp"], "");
    let endpoint = serve(&node);
    let mut idle: Vec<_> = (0..40).map(|_| connect(&endpoint)).collect();
    scrape(&endpoint);
    for mut stream in (0..40).map(|_| connect(&endpoint)) {
        // It asks and then takes nothing.
        stream.write_all(b"GET /metrics HTTP/1.1\r\n\r\n").unwrap();
        idle.push(stream);
    }
    scrape(&endpoint);
    drop(idle);
}

#[test]
fn clients_that_say_nothing_neither_keep_others_out_for_long_nor_the_node_from_ending() {
    let node = start(testkit::port(), &["127.0.0.1@tcp"], "");
    let endpoint = serve(&node);
    let mut silent: Vec<_> = (0..32).map(|_| connect(&endpoint)).collect();
    // Their time expires after some seconds, and then there is room again.
    for stream in &mut silent {
        let mut byte = [0];
        assert_eq!(stream.read(&mut byte).unwrap(), 0, "cut off");
    }
    scrape(&endpoint);
    let _silent = connect(&endpoint);
    let address = endpoint.address();
    drop(endpoint);
    assert!(TcpStream::connect(address).is_err(), "it is closed");
}

#[test]
fn a_client_that_sends_byte_by_byte_is_cut_off() {
    let node = start(testkit::port(), &["127.0.0.1@tcp"], "");
    let endpoint = serve(&node);
    let mut stream = connect(&endpoint);
    // Each read waits this long for bytes that never come, which sets the pace of the writes.
    let pace = Duration::from_millis(50);
    stream.set_read_timeout(Some(pace)).unwrap();
    let mut byte = [0];
    let cut_off = (0..600).any(|_| {
        let refused = stream.write_all(b"G").is_err();
        refused || !matches!(stream.read(&mut byte), Err(error) if error.kind() == ErrorKind::WouldBlock)
    });
    assert!(cut_off, "it may go on for ever");
}

#[test]
fn an_address_in_use_is_an_error_that_names_it() {
    let node = start(testkit::port(), &["127.0.0.1@tcp"], "");
    let endpoint = serve(&node);
    let again = MetricsEndpoint::open(&node, &MetricsOptions::at(endpoint.address()));
    let error = again.unwrap_err().to_string();
    assert!(error.contains(&endpoint.address().to_string()), "{error}");
    let port = MetricsOptions::at_port(9).address;
    let loopback = port
        .to_socket_addrs()
        .unwrap()
        .all(|a| a.ip().is_loopback());
    assert!(loopback, "a port alone stays on this machine");
}

/// Returns every word of a text that has the prefix of metrics.
fn names_in(text: &str) -> BTreeSet<String> {
    let words = text.split(|c: char| !(c.is_ascii_alphanumeric() || c == '_' || c == ':'));
    let names = words.filter(|word| word.starts_with("finerail_"));
    names.map(str::to_owned).collect()
}

#[test]
fn the_dashboard_and_the_rules_use_only_names_that_exist() {
    let node = start(testkit::port(), &["127.0.0.1@tcp"], "");
    let options = MetricsOptions::at_port(0);
    let mut exported = Exposition::parse(&metrics(&node, &options))
        .unwrap()
        .names();
    let of_rpcs = RpcCounts::start(&node).unwrap().metrics()();
    let of_rpcs = Exposition::parse(&format!("{of_rpcs}# EOF\n")).unwrap();
    exported.extend(of_rpcs.names());
    let contrib = PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("../../../contrib");
    for file in ["grafana-dashboard.json", "prometheus-rules.yaml"] {
        let used = names_in(&fs::read_to_string(contrib.join(file)).unwrap());
        assert!(used.len() >= 5, "{file} uses {used:?}");
        let unknown: Vec<_> = used.difference(&exported).collect();
        assert!(unknown.is_empty(), "{file}: {unknown:?}");
    }
    let wrong = names_in("rate(finerail_sent_total[5m])");
    assert!(wrong.difference(&exported).next().is_some(), "it can fail");
}

#[test]
fn the_dashboard_is_json_whose_panels_have_queries() {
    let contrib = PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("../../../contrib");
    let text = fs::read_to_string(contrib.join("grafana-dashboard.json")).unwrap();
    let dashboard: serde_json::Value = serde_json::from_str(&text).unwrap();
    let panels = dashboard["panels"].as_array().unwrap();
    let queries = panels.iter().filter(|panel| panel["type"] != "row");
    for panel in queries {
        let targets = panel["targets"].as_array().unwrap();
        let asked = targets.iter().all(|target| target["expr"].is_string());
        assert!(asked && !targets.is_empty(), "{}", panel["title"]);
    }
}

#[test]
fn many_others_are_looked_at_in_turns_and_none_is_missing() {
    let node = with_peers(20_000);
    let endpoint = serve(&node);
    for _ in 0..4 {
        let seen = scrape(&endpoint);
        let one = seen.value(
            "finerail_peer_ni_tx_credits_max",
            &[("peer", "10.0.0.0@tcp")],
        );
        let all = seen.sum("finerail_peer_ni_tx_credits_max");
        assert_eq!(seen.value("finerail_peer_nis", &[]), Some(20_000.0));
        assert_eq!(all, 20_000.0 * one.unwrap());
    }
}

#[test]
fn every_alert_is_explained() {
    let root = testkit::workspace::root();
    let rules = fs::read_to_string(root.join("contrib/prometheus-rules.yaml")).unwrap();
    let docs = fs::read_to_string(root.join("docs/monitoring.md")).unwrap();
    let alerts = rules
        .lines()
        .filter_map(|line| line.trim().strip_prefix("- alert: "));
    let alerts: BTreeSet<&str> = alerts.collect();
    let rows = docs.lines().filter_map(|line| line.strip_prefix("| `"));
    let names = rows.filter_map(|row| row.split('`').next());
    let explained: BTreeSet<&str> = names.filter(|name| name.starts_with("Finerail")).collect();
    assert!(alerts.len() >= 10, "{alerts:?}");
    assert_eq!(alerts, explained);
}

/// What `curl` gets is judged by Prometheus' own checker.
#[test]
fn the_checker_of_prometheus_has_no_complaint() {
    if !testkit::require("promtool") {
        return;
    }
    let (node, _other) = after_traffic();
    let (_, body) = ask(
        &serve(&node),
        b"GET /metrics HTTP/1.1\r\nAccept: */*\r\n\r\n",
    );
    let judged = |text: &str| {
        let mut command = Command::new("promtool");
        command.args(["check", "metrics"]).stdin(Stdio::piped());
        let mut child = command
            .stdout(Stdio::piped())
            .stderr(Stdio::piped())
            .spawn()
            .unwrap();
        child
            .stdin
            .take()
            .unwrap()
            .write_all(text.as_bytes())
            .unwrap();
        child.wait_with_output().unwrap()
    };
    let found = judged(&body);
    let told = String::from_utf8_lossy(&found.stderr).into_owned();
    assert!(found.status.success() && told.is_empty(), "{told}");
    let wrong = body.replace("finerail_sent_messages_total", "finerail_sent_messages");
    assert!(!judged(&wrong).status.success(), "it can fail");
}
