//! Changes in time that a session showed: a link and a router that go down and come back, and two pings at once.
//!
//! ```text
//!  recorded   sample sample sample … last      taken every few seconds, while the kernel's timers ran
//!  here       sample …             … last      taken until ours is the recorded one
//! ```
//!
//! The moments of changes depend on timers, so they are not compared. Compared are the final output, in the same
//! layout, and that no sample before it shows anything that a kernel node does not show.

use std::thread;

use crate::common::eventually;
use crate::session::{Part, normal, parts};
use crate::site::{Fabric, Site};

/// Repeats `k-router-down`: the router's far interface goes down and comes back, then the router's node.
pub(crate) fn router_goes_and_comes(site: &Site, part: &Part) -> bool {
    let command = part.command.as_str();
    for state in ["down", "up"] {
        if command.starts_with(&format!("ip link set eth1 {state}")) {
            site.lab.ip("vm3", &["link", "set", "eth1", state]);
            return true;
        }
    }
    if !command.starts_with("for i in ") {
        return false;
    }
    let recorded = samples(&part.below);
    let last = recorded.last().unwrap();
    eventually("what the kernel node showed last", || {
        let printed = site.shell(&part.node, SAMPLE);
        let sample = without_gateways(printed.trim_end_matches("[rc=0]\n"));
        let sample = sample.as_str();
        let answer = sample.lines().next_back().unwrap();
        assert!(ANSWERS.contains(&answer), "{sample}");
        (sample == last).then_some(())
    });
    if let Some((_, peers)) = command.split_once("done; ") {
        let command = peers
            .split_once("; dmesg")
            .map_or(peers, |(command, _)| command);
        compare_peers(site, part, command);
    }
    true
}

/// One iteration of the session's loop. Our nodes name the gateways that are down, and why, in parentheses; kernel
/// nodes do not.
const SAMPLE: &str = "lnetctl route show -v 4 | grep -E 'state|type'; \
    lnetctl ping 10.2.0.2@tcp1 2>&1 | tr -d '\\n' | sed 's/ (no live route[^)]*)//'; echo";

/// All possible results of a ping while the router changes.
const ANSWERS: [&str; 3] = [
    "ping:- primary nid: 10.2.0.2@tcp1  Multi-Rail: false  peer_ni:  - nid: 10.2.0.2@tcp1",
    "manage:- ping:  errno: -5  descr: ! 'failed to ping 10.2.0.2@tcp1: Input/output error'",
    "manage:- ping:  errno: -113  descr: ! 'failed to ping 10.2.0.2@tcp1: No route to host'",
];

/// Removes the gateways that are down, which our nodes name behind the kernel's reason.
fn without_gateways(sample: &str) -> String {
    let lines = sample
        .lines()
        .map(|line| match line.split_once(" (no live route") {
            Some((reason, _)) => format!("{reason}'\n"),
            None => format!("{line}\n"),
        });
    lines.collect()
}

/// Returns the samples of a loop: the text between the lines with the time.
fn samples(printed: &str) -> Vec<String> {
    let mut samples: Vec<String> = Vec::new();
    for line in printed.lines() {
        let is_time = line.ends_with(" UTC 2026");
        let is_of_loop = line.starts_with("      ") || ANSWERS.contains(&line);
        match samples.last_mut() {
            _ if is_time => samples.push(String::new()),
            // The output of other programs follows the answer.
            Some(sample) if is_of_loop && !sample.contains("ping:") => {
                *sample += &format!("{line}\n");
            }
            _ => {}
        }
    }
    assert!(!samples.is_empty(), "{printed}");
    samples
}

/// Compares the lines about the router after the last loop in which it is down. Unlike a kernel node, our node does
/// not keep peers behind it that were not configured (see "peers" among the differences).
fn compare_peers(site: &Site, part: &Part, command: &str) {
    if !command.starts_with("lnetctl peer show") {
        return;
    }
    let is_of_peer = |line: &&str| line.contains(" nid: ") || line.starts_with("            ");
    let of_peers = |text: &str| -> String {
        let lines = text.lines().filter(|line| {
            is_of_peer(line)
                || line.starts_with("      peer state: ")
                || line.contains("health value")
        });
        normal(&lines.map(|line| format!("{line}\n")).collect::<String>())
    };
    let of_router = |text: &str| -> String {
        let peers = text.split("-     primary nid: ");
        of_peers(
            peers
                .skip(1)
                .find(|peer| peer.starts_with("10.1.0.3@tcp\n"))
                .unwrap(),
        )
    };
    let printed = site.shell(&part.node, command);
    assert_eq!(of_router(&printed), of_router(&part.below));
}

/// Repeats `g1-health`: an interface goes down and comes back, and its peers do not notice.
pub(crate) fn link_goes_and_comes(site: &Site, part: &Part) -> bool {
    let Some((sampling, _)) = part.command.split_once("done; };") else {
        return false;
    };
    // The session's own function, without its wait of a second.
    let sample = format!("sleep() {{ :; }}; {sampling}done; }}; samp 1");
    let mut phases = part.below.split(" LINK ");
    for state in ["up", "down", "up"] {
        site.lab.ip(&part.node, &["link", "set", "eth0", state]);
        let recorded = last_sample(phases.next().unwrap());
        eventually("what the kernel node showed last", || {
            let printed = last_sample(&site.shell(&part.node, &sample));
            (printed == recorded).then_some(())
        });
    }
    true
}

/// Returns the last line of a text about each interface, without the time and the counters of pings.
fn last_sample(printed: &str) -> Vec<String> {
    let mut last: Vec<String> = Vec::new();
    for line in printed.lines() {
        let words: Vec<&str> = line.split_whitespace().skip(1).collect();
        let is_counter = |word: &&str| word.starts_with("ping_count=") || word.starts_with("next=");
        if !words.iter().any(is_counter) {
            continue;
        }
        let kept: Vec<&str> = words.into_iter().filter(|word| !is_counter(word)).collect();
        let of_it = |line: &String| line.starts_with(&format!("{} {} ", kept[0], kept[1]));
        last.retain(|line| !of_it(line));
        last.push(kept.join(" "));
    }
    assert!(!last.is_empty(), "{printed}");
    last
}

/// Repeats `k-race`: two nodes that were just started ping each other at the same time, and both get an answer.
#[test]
fn two_pings_at_once_print_the_same_here() {
    let (Some(site), Some(parts)) = (Site::start(Fabric::Cables), parts("k-race.txt")) else {
        return;
    };
    let pings: Vec<&Part> = parts
        .iter()
        .filter(|part| part.command.starts_with("lnetctl ping"))
        .collect();
    assert!(pings.len() >= 10 && pings.len().is_multiple_of(2));
    for pair in pings.chunks_exact(2) {
        for node in ["vm1", "vm2"] {
            site.done(
                node,
                "lnetctl lnet unconfigure; lnetctl net add --net tcp --if eth0",
            );
        }
        // Both outputs are below the second command, in the order of their arrival.
        assert_eq!(pair[0].below.trim(), "");
        let mut recorded = answers(&pair[1].below);
        let mut printed = thread::scope(|scope| {
            let site = &site;
            let asked: Vec<_> = pair
                .iter()
                .map(|part| scope.spawn(|| site.shell(&part.node, &part.command)))
                .collect();
            let answered = asked.into_iter().map(|ping| ping.join().unwrap());
            answered.flat_map(|text| answers(&text)).collect::<Vec<_>>()
        });
        recorded.sort();
        printed.sort();
        assert_eq!(printed, recorded);
    }
}

/// Returns each answer with its exit code.
fn answers(printed: &str) -> Vec<String> {
    let answers = printed.trim_end().split_inclusive("[rc=0]");
    answers.map(|answer| answer.trim().to_owned()).collect()
}
