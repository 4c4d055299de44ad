//! The crash matrix for clients that were attached before: the daemon dies or stops at each
//! step of the protocol while clients have a request, posts and tests in flight. Each of these ends, and the
//! same clients are served afterwards.
//!
//! Heartbeats have their default interval.

use std::time::Duration;

use crate::outstanding::{converse, request};
use crate::scene::{Process, Scene, eventually, is_long, let_pass};

/// What happens to a daemon that a failpoint has stopped.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum End {
    Killed,
    Continued,
}

/// Steps that a daemon with clients passes.
const STEPS: [&str; 7] = [
    "before-grant",
    "amid-arrival",
    "before-send-done",
    "before-recv-reply",
    "amid-delivery",
    "before-post-reply",
    "before-test-reply",
];

/// Steps that a daemon passes before it serves clients of the earlier one.
const FIRST_STEPS: [&str; 4] = [
    "journal-written",
    "names-created",
    "before-welcome",
    "before-init-reply",
];

/// A message that is sent with its request, and one that is streamed.
const SIZES: [usize; 2] = [100, 100_000];

/// The daemon's default; other scenes have longer heartbeats.
const HEARTBEAT: (&str, &str) = ("heartbeat-ms", "2000");

/// How often the setup of a scene passes a step, and once more.
const PASSES: u32 = 4;

/// A server, a client that only waits, and one that works.
struct Cast {
    server: Process,
    waiting: Process,
    working: Process,
    /// The receive of the waiting client, and the test that waits for it.
    answer: usize,
    test: u64,
}

impl Cast {
    /// Lets both clients send a request, which the server fetches and does not answer yet.
    fn new(scene: &Scene) -> Cast {
        let mut server = scene.server();
        let (mut waiting, mut working) = (scene.client(), scene.client());
        let answer = request(&mut waiting, 1);
        assert_eq!(server.fetch()[..2], [1, 1]);
        request(&mut working, 2);
        assert_eq!(server.fetch()[..2], [2, 2]);
        for _ in 0..2 {
            assert_eq!(server.ask("free"), "ok");
        }
        assert_eq!(working.ask("timeout 60000"), "ok");
        let test = waiting.tell(&format!("test {answer} 60000"));
        Cast {
            server,
            waiting,
            working,
            answer,
            test,
        }
    }

    /// Sends messages of a size in both directions until the daemon stops. Returns the commands in flight, of
    /// the client and of the server.
    fn work(&mut self, scene: &Scene, size: usize) -> [Vec<u64>; 2] {
        let mut told = [Vec::new(), Vec::new()];
        let [client, server] = &mut told;
        for tag in 10..10 + 2 * PASSES {
            if scene.daemon.is_stopped() {
                break;
            }
            let (there, back) = (2 * tag, 2 * tag + 1);
            client.push(
                self.working
                    .tell(&format!("receive 0 {back} {size} outside")),
            );
            client.push(self.working.tell(&format!("send 0 {there} {size} outside")));
            server.push(
                self.server
                    .tell(&format!("receive 2 {there} {size} memory")),
            );
            server.push(self.server.tell(&format!("send 2 {back} {size} memory")));
            server.push(self.server.tell("context 64 100"));
            let last = [*client.last().unwrap(), server[server.len() - 2]];
            eventually("an exchange ends, or the daemon stops", || {
                let ended = self.working.has_answered(last[0]) && self.server.has_answered(last[1]);
                ended || scene.daemon.is_stopped()
            });
        }
        // Both requests and each post have begun, so none begins at the next daemon.
        let begun = 1 + client.len() as u64;
        self.working.until_above("exchanges", begun);
        told
    }
}

impl Cast {
    /// Lets the server answer the waiting client.
    fn answer_the_first(&mut self) {
        assert_eq!(self.server.finish("send 1 1 100 memory"), "100");
        let answered = self.waiting.hear(self.test);
        assert_eq!(answered, Some(format!("{} 100", self.answer)));
    }

    fn converse_with_both(&mut self) {
        assert_eq!(self.working.ask("timeout 0"), "ok");
        for client in [&mut self.waiting, &mut self.working] {
            converse(&mut self.server, client, 9);
        }
    }
}

/// Collects every operation that these commands have posted. Returns the results.
fn collect(party: &mut Process, told: Vec<u64>, row: &str) -> Vec<String> {
    let mut ends = Vec::new();
    for number in told {
        let said = party
            .hear(number)
            .unwrap_or_else(|| panic!("{row}: a party died"));
        match said.strip_prefix("pending ") {
            // `Inval`: a test of all operations has collected it.
            Some(op) => ends.push(party.wait(op.parse().unwrap())),
            None => ends.push(said),
        }
    }
    ends
}

fn row(step: &str, size: usize, end: End) {
    let row = format!("{step}, {size} bytes, {end:?}");
    println!("{row}");
    let failpoint = format!("{step}=stop@{PASSES}");
    let mut scene = Scene::with(&[HEARTBEAT, ("failpoint", &failpoint)]);
    let mut cast = Cast::new(&scene);
    let [clients, servers] = cast.work(&scene, size);
    scene.daemon.until_stopped();
    match end {
        End::Killed => {
            scene.daemon.kill();
            scene.restart();
            assert_eq!(
                cast.waiting.hear(cast.test),
                Some(format!("{} NetReset", cast.answer)),
                "{row}"
            );
            collect(&mut cast.working, clients, &row);
            collect(&mut cast.server, servers, &row);
        }
        End::Continued => {
            let_pass(Duration::from_millis(if is_long() { 8000 } else { 700 }));
            scene.daemon.while_it_goes_on(|| {
                let done = size.to_string();
                for said in collect(&mut cast.working, clients, &row) {
                    assert_eq!(said.trim_start_matches("done "), done, "{row}");
                }
                collect(&mut cast.server, servers, &row);
                assert_eq!(cast.working.count("reconnects"), 0, "{row}");
                cast.answer_the_first();
                cast.converse_with_both();
            });
            return;
        }
    }
    cast.converse_with_both();
}

/// Tests a daemon that replaces a killed one and dies at a step of its own start.
fn row_of_the_next(step: &str) {
    println!("{step}");
    let mut scene = Scene::with(&[HEARTBEAT]);
    let mut cast = Cast::new(&scene);
    cast.server.tell("context 64 60000");
    scene.daemon.kill();
    scene.restart_to_die_at(step);
    scene.restart();
    assert_eq!(
        cast.waiting.hear(cast.test),
        Some(format!("{} NetReset", cast.answer)),
        "{step}"
    );
    cast.converse_with_both();
}

// [DEATH-22]
#[test]
fn whatever_step_a_daemon_is_killed_at_old_clients_are_served_by_the_next() {
    for step in STEPS {
        for size in SIZES {
            row(step, size, End::Killed);
        }
    }
}

// [DEATH-24]
#[test]
fn whatever_step_a_daemon_stands_still_at_nothing_is_lost() {
    for step in STEPS {
        for size in SIZES {
            row(step, size, End::Continued);
        }
    }
}

#[test]
fn a_daemon_that_dies_at_its_start_leaves_old_clients_to_the_next() {
    for step in FIRST_STEPS {
        row_of_the_next(step);
    }
}
