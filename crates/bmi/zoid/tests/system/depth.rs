//! What an operation costs when many are outstanding: sleeps of the threads that wait, frames, commands.
//!
//! Counts do not depend on the machine's speed, so they have limits. `--nocapture` prints them.

use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;

use bmi::{Buffer, Class, Post, Setting, Tag};
use zoid::setting;

use crate::bed::{Bed, End, LIMIT};

/// How often each thread asks the server.
const ROUNDS: u32 = 100;

/// Returns how often the calling thread has given up its core to wait.
fn sleeps() -> u64 {
    let status = std::fs::read_to_string("/proc/thread-self/status").unwrap();
    let line = status
        .lines()
        .find_map(|line| line.strip_prefix("voluntary_ctxt_switches:"));
    line.unwrap().trim().parse().unwrap()
}

/// Answers every unexpected message with an expected one of the same tag, until `ends`.
fn answer_all(server: &End, ends: &AtomicBool) {
    let look = std::time::Duration::from_millis(100);
    while !ends.load(Ordering::Relaxed) {
        let found = server.bmi.test_unexpected(Class(0), 64, look).unwrap();
        for message in found {
            let answer = Buffer::from(vec![7; 8]);
            let to = message.from;
            let sent = server
                .bmi
                .post_send(server.context, to, answer, message.tag, 0);
            sent.unwrap();
        }
        let done = server
            .bmi
            .test_context(server.context, 64, std::time::Duration::ZERO);
        done.unwrap();
    }
}

/// Asks and waits for the answer.
fn ask(client: &End, tag: i32) {
    let memory = Buffer::from(vec![0; 8]);
    let bmi = &client.bmi;
    let answer = bmi.post_receive(client.context, client.peer, memory, Tag(tag), 0);
    let asked = client.unexpected(tag, &[1; 8]);
    let Post::Pending(answer) = answer.unwrap() else {
        panic!("an answer before the question");
    };
    let done = bmi.test(answer, LIMIT).unwrap().unwrap();
    assert_eq!(done.result, Ok(8));
    if let Post::Pending(asked) = asked {
        let done = bmi.test(asked, LIMIT).unwrap().unwrap();
        assert_eq!(done.result, Ok(8));
    }
}

/// Returns the sleeps of the client's threads for each question, with this many outstanding.
fn sleeps_with(depth: i32) -> f64 {
    let bed = Bed::new();
    let (server, client) = bed.greeted_pair();
    for side in [&server, &client] {
        side.bmi.set(None, &setting::PIPELINED).unwrap();
    }
    client.bmi.set(None, &Setting::PostTimeout(LIMIT)).unwrap();
    let ends = AtomicBool::new(false);
    let total: u64 = thread::scope(|scope| {
        scope.spawn(|| answer_all(&server, &ends));
        let askers: Vec<_> = (0..depth)
            .map(|number| {
                let client = &client;
                scope.spawn(move || {
                    let before = sleeps();
                    (0..ROUNDS).for_each(|_| ask(client, 100 + number));
                    sleeps() - before
                })
            })
            .collect();
        let slept = askers.into_iter().map(|asker| asker.join().unwrap());
        let total = slept.sum();
        ends.store(true, Ordering::Relaxed);
        total
    });
    let each = total as f64 / f64::from(depth as u32 * ROUNDS);
    let counts = client.counters.read();
    let commands = server.counters.read().commands as f64 / f64::from(depth as u32 * ROUNDS);
    println!(
        "depth {depth}: {each:.2} sleeps of the client, {commands:.2} commands, {:.2} frames",
        (counts.frames_sent + counts.frames_received) as f64 / f64::from(depth as u32 * ROUNDS)
    );
    each
}

// Each answer wakes the thread that waits for it. The thread that reads hands over when its own answer comes, and
// locks are contended; woken together, 16 threads sleep 16 times and more for each answer.
#[test]
fn an_answer_wakes_one_thread_however_many_wait() {
    for depth in [1, 16, 64] {
        let each = sleeps_with(depth);
        assert!(each < 4.0, "{each} sleeps for each of {depth} outstanding");
    }
}
