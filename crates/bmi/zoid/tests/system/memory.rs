//! A server whose pool is full or constantly changing.

use std::time::Instant;

use bmi::{Buffer, Error};

use crate::bed::{Bed, End, LIMIT, immediate, pattern, pending};

/// The size of the pool in bytes.
const POOL: usize = 64 << 10;

fn bed() -> Bed {
    Bed::with(|options| options.total = options.unexpected + POOL as u64)
}

/// Returns the number of allocated bytes of the pool.
fn used(end: &End) -> u64 {
    let counts = end.counters.read();
    counts.memory_taken - counts.memory_returned
}

fn pieces(server: &End, count: usize) -> Vec<Buffer> {
    (0..count).map(|_| server.memory(8)).collect()
}

// [MEM-10]
#[test]
fn a_long_list_waits_for_memory_like_a_temporary_buffer() {
    let bed = bed();
    let (server, client) = bed.greeted_pair();
    let list = pieces(&server, 300);
    let base = used(&server);
    let rest: Vec<Buffer> =
        std::iter::from_fn(|| server.bmi.allocate(server.peer, 2048).ok()).collect();
    let op = pending(server.receive(1, list));
    assert_eq!(server.counters.read().waited_for_memory, 1);
    drop(rest);
    immediate(client.send(1, pattern(2400)));
    let done = server.wait(op);
    assert_eq!(done.result, Ok(2400));
    let parts = done.payload.into_buffers();
    let bytes: Vec<u8> = parts.iter().flat_map(|part| part.to_vec()).collect();
    assert_eq!(bytes, pattern(2400));
    let counts = server.counters.read();
    assert_eq!((counts.copies, counts.temporary_buffers), (0, 0));
    assert_eq!(used(&server), base);
}

// [CTL-16]
#[test]
fn a_list_beyond_what_the_plugin_reads_is_copied() {
    let bed = Bed::new();
    let (server, client) = bed.greeted_pair();
    let count = (1 << 16) + 1;
    let op = pending(server.receive(1, pieces(&server, count)));
    immediate(client.send(1, pattern(count * 8)));
    assert_eq!(server.wait(op).result, Ok(count * 8));
    assert_eq!(server.counters.read().copies, 1);
}

// [MEM-15]
#[test]
fn r56_a_program_that_takes_and_frees_memory_without_pause_starves_nobody() {
    let bed = bed();
    let (server, client) = bed.greeted_pair();
    let mut held = Some(server.memory(POOL / 2));
    let op = pending(server.receive(1, server.outside(POOL * 3 / 4)));
    server.bmi.test(op, std::time::Duration::ZERO).unwrap();
    assert_eq!(bed.metric("zoidd_server_waiting_for_memory"), 1.0);
    let began = Instant::now();
    while server.counters.read().temporary_buffers == 0 {
        // The next one before the last one goes: half of the pool is always out.
        held = match server.bmi.allocate(server.peer, POOL / 2) {
            Ok(next) => Some(next),
            Err(error) => {
                assert_eq!(error, Error::NoMem);
                None
            }
        };
        assert!(began.elapsed() < LIMIT, "starved");
    }
    drop(held);
    immediate(client.send(1, pattern(POOL / 2)));
    assert_eq!(server.wait(op).result, Ok(POOL / 2));
    assert!(bed.metric("zoidd_server_allocations_held_back_total") > 0.0);
    assert_eq!(bed.metric("zoidd_server_waiting_for_memory"), 0.0);
    assert!(bed.metric("zoidd_server_memory_wait_longest_seconds") >= 5.0);
    assert!(server.bmi.allocate(server.peer, POOL / 2).is_ok());
}
