//! A console and test nodes over real sockets.

#![expect(clippy::unwrap_used, reason = "test code")]

mod common;

use std::time::Duration;

use lnet_selftest::TestNode;
use lnet_selftest::console::{BatchState, Console, Distribution, Kind, Test, parse_parameters};
use lnet_selftest::pattern::Check;

use common::{nid, test_node};

/// A site of three nodes besides the console's own: a client and two servers.
struct Site {
    console: Console<TestNode>,
    client: TestNode,
    servers: [TestNode; 2],
}

impl Site {
    fn new() -> Self {
        let port = testkit::port();
        let mut console = Console::new(test_node(port, "127.0.0.1@tcp"));
        let servers = [
            test_node(port, "127.0.0.3@tcp"),
            test_node(port, "127.0.0.4@tcp"),
        ];
        let client = test_node(port, "127.0.0.2@tcp");
        console.new_session("site", 300, false, 1).unwrap();
        let group = [nid("127.0.0.3@tcp"), nid("127.0.0.4@tcp")];
        assert_eq!(console.add_group("servers", &group).unwrap(), []);
        // The console's own node is a client, too; loopback reaches it.
        let group = [nid("127.0.0.2@tcp"), nid("127.0.0.1@tcp")];
        assert_eq!(console.add_group("clients", &group).unwrap(), []);
        Self {
            console,
            client,
            servers,
        }
    }

    /// Starts a test in the batch that every session has.
    fn run(&mut self, text: &str, repeat: Option<u32>) {
        let console = &mut self.console;
        let test = test(text, repeat);
        assert_eq!(console.add_test("batch", test).unwrap(), []);
        assert_eq!(console.run("batch").unwrap(), []);
    }

    fn wait(&mut self) {
        let console = &mut self.console;
        testkit::eventually("the batch ends", || {
            let answers = console.query("batch", 0).unwrap();
            answers
                .into_iter()
                .all(|(_, answer)| answer.unwrap().active == 0)
        });
    }
}

fn test(text: &str, repeat: Option<u32>) -> Test {
    let words: Vec<String> = text.split(' ').map(str::to_owned).collect();
    Test {
        kind: parse_parameters(&words).unwrap(),
        repeat,
        concurrency: 3,
        stop_on_error: true,
        distribution: Distribution::default(),
        from: "clients".to_owned(),
        to: "servers".to_owned(),
    }
}

#[test]
fn pings_of_a_batch_arrive_and_are_counted_at_both_ends() {
    let mut site = Site::new();
    site.run("ping", Some(20));
    site.wait();
    let stat = site
        .console
        .stat(&[nid("127.0.0.3@tcp"), nid("127.0.0.2@tcp")])
        .unwrap();
    let [server, client] = [0, 1].map(|at| stat[at].1.clone().unwrap());
    // The server received the session, the test, this request, and sixty pings.
    assert_eq!((server.rpc.received, server.rpc.sent), (63, 0));
    assert_eq!((client.rpc.sent, client.framework.ping_errors), (60, 0));
    assert_eq!(site.console.end_session().unwrap(), []);
    assert_eq!(site.servers[0].session(), None);
}

// [LST-21] [LST-22]
#[test]
fn bulk_of_every_check_and_direction_is_good() {
    let mut site = Site::new();
    let mut expected = [0, 0];
    for check in Check::ALL {
        for (at, direction) in ["read", "write"].into_iter().enumerate() {
            for size in ["1M", "4K", "12345"] {
                let name = format!("{}-{direction}-{size}", check.name());
                let text = format!("brw {direction} check={} size={size}", check.name());
                site.console.add_batch(&name).unwrap();
                let mut test = test(&text, Some(2));
                if let Kind::Bulk { len, .. } = test.kind {
                    expected[at] += u64::from(len) * 6;
                }
                test.distribution = Distribution::parse("1:1").unwrap();
                assert_eq!(site.console.add_test(&name, test).unwrap(), []);
                assert_eq!(site.console.run(&name).unwrap(), []);
                testkit::eventually("the batch ends", || {
                    site.console.query(&name, 0).unwrap();
                    site.console.session().unwrap().batch(&name).unwrap().state == BatchState::Idle
                });
            }
        }
    }
    for node in [&site.servers[0], &site.servers[1], &site.client] {
        let counters = node.counters();
        assert_eq!((counters.bad_data, counters.failed), (0, 0));
    }
    let counters = site.servers[0].counters();
    assert_eq!([counters.bulk_put, counters.bulk_get], expected);
    assert_eq!(counters.dropped.total(), 0);
}

#[test]
fn a_test_without_end_stops_when_the_console_says_so() {
    for force in [false, true] {
        let mut site = Site::new();
        site.run("brw read size=64K check=simple", None);
        testkit::eventually("the servers are loaded", || {
            site.servers
                .iter()
                .all(|server| server.counters().bulk_put > 1 << 20)
        });
        assert_eq!(site.console.stop("batch", force).unwrap(), []);
        site.wait();
        assert_eq!(site.client.under_way().0, 0);
        assert!(force || site.client.counters().failed == 0);
    }
}

#[test]
fn a_session_that_ends_stops_what_runs_in_it() {
    let mut site = Site::new();
    site.run("ping", None);
    assert_eq!(site.console.end_session().unwrap(), []);
    testkit::eventually("nothing is under way", || site.client.under_way().0 == 0);
}

#[test]
fn a_client_that_ends_in_the_middle_of_a_test_harms_nobody() {
    let mut site = Site::new();
    site.run("brw write size=1M check=full", None);
    testkit::eventually("the servers are loaded", || {
        site.servers
            .iter()
            .all(|server| server.counters().bulk_get > 1 << 20)
    });
    let node = site.client.node().clone();
    drop(site.client);
    node.shutdown(Duration::ZERO);
    testkit::eventually("the servers have let go of it", || {
        site.servers.iter().all(|server| server.under_way().1 <= 3)
    });
    let answers = site.console.stop("batch", true).unwrap();
    assert_eq!(answers.len(), 1, "{answers:?}");
    testkit::eventually("the servers are idle", || {
        site.servers.iter().all(|server| server.under_way().1 == 0)
    });
}
