//! A gateway process and a stranger that sends what it likes: another client is served, the memory of the gateway has
//! a limit, and what the stranger took is free again afterwards.

use std::io::{Read as _, Write as _};
use std::net::TcpStream;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;
use std::time::Duration;

use files::{Caller, FileSystem};
use lnet_types::Nid;

use crate::at;
use crate::common::{eventually, scaled};
use crate::lab::Lab;
use crate::stranger::Stranger;

/// Longer than a call takes on a busy machine, and shorter than the gateway's timeouts.
const PROMPT: Duration = Duration::from_secs(15);

/// The limit of what one stranger adds to the gateway's memory, in KiB.
const ADDED_KIB_MAX: u64 = 32 * 1024;

/// A gateway with a metrics endpoint.
struct Victim {
    lab: Lab,
    metrics: u16,
}

impl Victim {
    fn start() -> Self {
        let mut lab = Lab::with_transaction_timeout(5);
        let metrics = testkit::port();
        lab.restart(&["--metrics", &metrics.to_string()]);
        Self { lab, metrics }
    }

    /// Returns the value of a metric; 0 if the page does not have it.
    fn metric(&self, name: &str) -> u64 {
        let mut scrape = TcpStream::connect(("127.0.0.1", self.metrics)).unwrap();
        scrape.write_all(b"GET /metrics HTTP/1.1\r\n\r\n").unwrap();
        let mut text = String::new();
        scrape.read_to_string(&mut text).unwrap();
        let of_name = |line: &str| line.strip_prefix(name)?.trim().parse().ok();
        text.lines().find_map(of_name).unwrap_or_default()
    }

    fn dropped(&self, reason: &str) -> u64 {
        self.metric(&format!(
            "finerail_dropped_messages_total{{reason=\"{reason}\"}}"
        ))
    }

    /// Checks that a client without a session gets one, and an answer.
    fn serves_a_new_client(&self) {
        self.lab.with_client(PROMPT, |files| {
            files.lookup(&Caller::default(), at("d")).unwrap();
        });
    }

    /// Floods the gateway by this stranger. Meanwhile clients come and are served. Returns the gateway's memory
    /// afterwards, in KiB.
    fn outlives(&self, mut stranger: Stranger) -> u64 {
        let before = self.lab.resident_kib();
        let is_over = AtomicBool::new(false);
        thread::scope(|scope| {
            let flood = scope.spawn(|| {
                let sent = stranger.flood(scaled(100_000, 1_000_000));
                is_over.store(true, Ordering::SeqCst);
                sent
            });
            let mut clients = 0;
            while !is_over.load(Ordering::SeqCst) || clients == 0 {
                self.serves_a_new_client();
                clients += 1;
            }
            println!(
                "{} requests in {} clients' time",
                flood.join().unwrap(),
                clients
            );
        });
        self.serves_a_new_client();
        let added = self.lab.resident_kib().saturating_sub(before);
        println!("{added} KiB added");
        assert!(added <= ADDED_KIB_MAX, "{added} KiB");
        drop(stranger);
        eventually("nothing is expected of the stranger", || {
            let owed = self.metric("finerail_rpc_answers_unacknowledged");
            (self.metric("finerail_responses_awaited") < 8 && owed < 8).then_some(())
        });
        assert!(self.metric("finerail_rpc_unread_total") > 0);
        self.serves_a_new_client();
        self.lab.resident_kib()
    }
}

#[test]
fn a_client_that_floods_and_reads_no_answer_costs_a_bounded_amount_and_delays_nobody() {
    let victim = Victim::start();
    let files = victim.lab.client();
    files.mkdir(&Caller::default(), at("d"), 0o755).unwrap();
    let [first, second] = ["127.0.0.98@tcp", "127.0.0.99@tcp"].map(|nid| {
        let mut stranger = victim.lab.stranger(nid);
        stranger.answer_discovery();
        victim.outlives(stranger)
    });
    // What the first has taken serves the second.
    println!("{first} KiB, then {second} KiB");
    assert!(
        second <= first + ADDED_KIB_MAX / 8,
        "{first} KiB, then {second} KiB"
    );
    victim.lab.end();
}

#[test]
fn a_client_that_floods_and_does_not_answer_discovery_costs_a_bounded_amount_and_delays_nobody() {
    let victim = Victim::start();
    let files = victim.lab.client();
    files.mkdir(&Caller::default(), at("d"), 0o755).unwrap();
    victim.outlives(victim.lab.stranger("127.0.0.99@tcp"));
    victim.lab.end();
}

#[test]
fn sessions_under_forged_nids_keep_no_client_out() {
    let victim = Victim::start();
    let files = victim.lab.client();
    files.mkdir(&Caller::default(), at("d"), 0o755).unwrap();
    let mut stranger = victim.lab.stranger("127.0.0.99@tcp");
    let own = stranger.nid();
    for number in 0..6_000 {
        let forged = format!("127.0.9.{}@tcp", number / 250 + 1);
        let source: Nid = if number % 2 == 0 {
            own
        } else {
            forged.parse().unwrap()
        };
        let frame = stranger.session(source, number);
        stranger.send(&frame);
    }
    let arrived = || victim.metric("finerail_rpc_requests_total") + victim.dropped("bad_source");
    eventually("every request has arrived", || {
        (arrived() >= 6_000).then_some(())
    });
    victim.serves_a_new_client();
    assert!(
        victim.metric("finerail_rpc_sessions") <= 260,
        "those of one NID, and the clients of this test"
    );
    assert!(victim.metric("finerail_rpc_displaced_total") > 0);
    assert_eq!(victim.dropped("bad_source"), 3_000);
    victim.lab.end();
}
