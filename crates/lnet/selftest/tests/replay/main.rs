//! Captured selftest conversations of kernel nodes, with Finerail's node in the place of one of them.
//!
//! ```text
//!   capture ──▶ frames ──▶ server role   the test is the kernel console and client, our test node answers
//!                     └──▶ console role  our console and client ask, the test is the kernel test node
//! ```
//!
//! The test sends the kernel's half byte by byte, except for identifiers that name something of our node. The
//! test compares each frame of our node with the frame of the other kernel. `frame::MAY_DIFFER` lists every
//! byte that may differ. NIDs are replaced by NIDs of loopback. Discovery is left out, because a program asks
//! for it separately; `lnet-node` has a replay of its own for discovery.
//!
//! The captures are in `FINERAIL_SHARED_DATA`, or beside the workspace. If they are absent, the tests say so
//! and pass.

#![expect(
    clippy::unwrap_used,
    clippy::panic,
    clippy::expect_used,
    reason = "test code"
)]

#[path = "../common/mod.rs"]
mod common;
mod frame;
mod stage;

use std::collections::BTreeMap;

use lnet_selftest::TestNode;
use lnet_selftest::console::{BatchState, Console, Distribution, Test, parse_parameters};

use common::{nid, node, test_node};
use frame::{Frame, Party, differences, frames, may_differ};
use stage::Stage;

/// The first counters of each side. Only the increase since then is compared, because kernels count since their
/// module was loaded.
#[derive(Default)]
struct Base {
    first: Option<(Vec<u64>, Vec<u64>)>,
}

impl Base {
    /// Checks that each counter has risen since the first reply as much as the kernel's counter has.
    fn check(&mut self, kernel: &Frame, ours: &Frame) {
        let (kernel, ours) = (kernel.counters(), ours.counters());
        let (kernel_first, our_first) = self.first.get_or_insert((kernel.clone(), ours.clone()));
        for at in 0..kernel.len() {
            let risen = [kernel[at] - kernel_first[at], ours[at] - our_first[at]];
            assert_eq!(risen[0], risen[1], "counter {at}");
        }
    }
}

/// Plays the kernel's client against our test node: sends every request of the capture, and compares every
/// answer.
fn answer_as_a_kernel(capture: &str) -> Option<(TestNode, Vec<Vec<u64>>)> {
    let script = frames(capture)?;
    let port = testkit::port();
    let test_node = test_node(port, "127.0.0.2@tcp");
    let mut stage = Stage::dial(port);
    let mut handles: BTreeMap<Vec<u8>, Vec<u8>> = BTreeMap::new();
    let mut base = Base::default();
    let mut counters = Vec::new();
    for said in script {
        match said.party {
            Party::Client => {
                let mut frame = said.clone();
                if let Some(handle) = handles.get(&frame.handle()) {
                    frame.set_handle(handle);
                }
                stage.send(&frame);
            }
            Party::Server => {
                let ours = stage.receive(said.connection, &said, test_node.node());
                assert_eq!(differences(&said, &ours), Vec::<String>::new());
                if said.name() == "GET" {
                    handles.insert(said.handle(), ours.handle());
                }
                if said.name() == "STAT reply" {
                    base.check(&said, &ours);
                    counters.push(ours.counters());
                }
            }
        }
    }
    stage.expect_silence(test_node.node());
    Some((test_node, counters))
}

// [LST-2]
#[test]
fn a_kernel_console_and_its_pings_are_answered_as_a_kernel_answers() {
    let Some((test_node, counters)) = answer_as_a_kernel("c-lst-ping.pcap") else {
        return;
    };
    // In this capture the kernel has counted nothing before.
    let received: Vec<u64> = counters.iter().map(|row| row[2]).collect();
    assert_eq!(received, [8, 9, 10]);
    assert_eq!(test_node.session(), None);
}

#[test]
fn reads_of_a_kernel_client_are_served_as_a_kernel_serves_them() {
    let Some((test_node, _)) = answer_as_a_kernel("c-lst-brw-read-4k.pcap") else {
        return;
    };
    assert_eq!(test_node.counters().bulk_put, 4 * 4096);
}

// [LST-22]
#[test]
fn writes_of_a_kernel_client_are_served_as_a_kernel_serves_them() {
    let Some((test_node, _)) = answer_as_a_kernel("c-lst-brw-write-1M.pcap") else {
        return;
    };
    let counters = test_node.counters();
    assert_eq!((counters.bulk_get, counters.bad_data), (4 << 20, 0));
}

/// A capture, and the commands that make our console do what the kernel's console did.
struct Play {
    capture: &'static str,
    session: &'static str,
    test: &'static str,
    rpcs: u32,
}

/// Plays the kernel's test node against our console and client: compares every request, and sends every answer
/// of the capture.
fn ask_as_a_kernel(play: &Play) {
    let Some(script) = frames(play.capture) else {
        return;
    };
    let port = testkit::port();
    let mut stage = Stage::listen(port);
    let ours = TestNode::start(node(port, "127.0.0.1@tcp")).unwrap();
    let counted = ours.node().clone();
    let stamp = script[0].stamp();
    let mut prompter = Prompter::start(ours, play, stamp);
    let mut ids = BTreeMap::new();
    let mut stats = 0;
    for said in script {
        match said.party {
            Party::Client => {
                prompter.cue(said.name(), &mut stats);
                let frame = stage.receive(said.connection, &said, &counted);
                assert_eq!(differences(&said, &frame), Vec::<String>::new());
                for (captured, own) in said.ids().into_iter().zip(frame.ids()) {
                    ids.insert(captured, own);
                }
            }
            // Our node asked for no acknowledgement of memory that it sent from, so the kernel's NOOP is left
            // out.
            Party::Server if said.name() == "NOOP" => {}
            Party::Server => {
                let mut frame = said.clone();
                // A frame for memory of our node has the match bits that our node's own request named.
                if let Some(&own) = ids.get(&frame.match_bits()) {
                    frame.set_match_bits(own);
                }
                stage.send(&frame);
            }
        }
    }
    prompter.end();
    stage.expect_silence(&counted);
}

/// The user of our console, who types what the kernel's user typed. Runs in a thread of its own, because
/// commands wait for their answers.
struct Prompter {
    cues: Option<std::sync::mpsc::Sender<&'static str>>,
    thread: std::thread::JoinHandle<()>,
}

impl Prompter {
    fn start(ours: TestNode, play: &Play, stamp: i64) -> Self {
        let (cues, from) = std::sync::mpsc::channel();
        let words: Vec<String> = play.test.split(' ').map(str::to_owned).collect();
        let test = Test {
            kind: parse_parameters(&words).unwrap(),
            repeat: Some(play.rpcs),
            concurrency: 1,
            stop_on_error: true,
            distribution: Distribution::default(),
            from: "clients".to_owned(),
            to: "servers".to_owned(),
        };
        let session = play.session;
        let thread = std::thread::spawn(move || {
            let mut console = Console::new(ours);
            let server = [nid("127.0.0.2@tcp")];
            for cue in from {
                let failures = match cue {
                    "MAKE" => {
                        console.new_session(session, 300, false, stamp).unwrap();
                        console.add_group("servers", &server).unwrap()
                    }
                    "TEST" => {
                        let own = console.add_group("clients", &[nid("127.0.0.1@tcp")]);
                        assert_eq!(own.unwrap(), []);
                        console.add_batch("b").unwrap();
                        console.add_test("b", test.clone()).unwrap()
                    }
                    "LOAD" => console.run("b").unwrap(),
                    "STAT" => {
                        let answers = console.stat(&server).unwrap();
                        assert!(answers[0].1.is_ok(), "{answers:?}");
                        Vec::new()
                    }
                    _ => {
                        console.query("b", 0).unwrap();
                        let batch = console.session().unwrap().batch("b").unwrap();
                        assert_eq!(batch.state, BatchState::Idle);
                        let counters = console.caller().counters();
                        assert_eq!((counters.failed, counters.bad_data), (0, 0));
                        console.end_session().unwrap()
                    }
                };
                assert_eq!(failures, []);
            }
        });
        Self {
            cues: Some(cues),
            thread,
        }
    }

    /// Gives the command that makes the console send this request.
    fn cue(&mut self, request: &str, loads: &mut u32) {
        let cue = match request {
            "MAKE" => "MAKE",
            "TEST" => "TEST",
            "STAT" => "STAT",
            "REMOVE" => "REMOVE",
            "PING" | "BULK" if *loads == 0 => {
                *loads += 1;
                "LOAD"
            }
            _ => return,
        };
        let cues = self.cues.as_ref().unwrap();
        cues.send(cue).expect("the console lives");
    }

    fn end(mut self) {
        self.cues = None;
        if let Err(panic) = self.thread.join() {
            std::panic::resume_unwind(panic);
        }
    }
}

// [LST-1] [LST-3]
#[test]
fn a_kernel_test_node_is_pinged_as_by_a_kernel() {
    ask_as_a_kernel(&Play {
        capture: "c-lst-ping.pcap",
        session: "s_ping",
        test: "ping",
        rpcs: 5,
    });
}

#[test]
fn a_kernel_test_node_is_read_from_as_by_a_kernel() {
    ask_as_a_kernel(&Play {
        capture: "c-lst-brw-read-4k.pcap",
        session: "s_brw-read-4k",
        test: "brw read check=full size=4K",
        rpcs: 4,
    });
}

#[test]
fn a_kernel_test_node_is_written_to_as_by_a_kernel() {
    ask_as_a_kernel(&Play {
        capture: "c-lst-brw-write-1M.pcap",
        session: "s_brw-write-1M",
        test: "brw write check=simple size=1M",
        rpcs: 4,
    });
}

#[test]
fn every_byte_that_must_be_equal_is_compared() {
    for capture in [
        "c-lst-ping.pcap",
        "c-lst-brw-read-4k.pcap",
        "c-lst-brw-write-1M.pcap",
    ] {
        for mut frame in frames(capture).unwrap_or_default() {
            // The bytes that follow are data, and none of them may differ.
            frame.bytes.truncate(256);
            for at in 0..frame.bytes.len() {
                let mut changed = frame.clone();
                changed.bytes[at] ^= 0x40;
                let may_differ = may_differ(frame.name(), at);
                let is_noticed = !differences(&frame, &changed).is_empty();
                assert_eq!(is_noticed, !may_differ, "byte {at} of {}", frame.name());
            }
        }
    }
}
