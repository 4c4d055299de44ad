//! What is counted, phrase by phrase of the description.

use zoidd::Metric;

use crate::bed::{Bed, immediate, pattern, pending};

/// A phrase, and what shows it: the daemon's metrics, by the beginning of their names,
/// and counters of the library.
const PHRASES: [(&str, &[&str], &[&str]); 20] = [
    (
        "messages by kind and direction",
        &["messages_total{kind="],
        &[],
    ),
    (
        "bytes by kind and direction",
        &["payload_bytes_total{kind="],
        &[],
    ),
    (
        "refused attempts (ENOMEM)",
        &["not_now_total"],
        &["not_now"],
    ),
    (
        "immediate/pending ratio",
        &[
            "posts_immediate_ratio",
            "posts_total",
            "posts_immediate_total",
        ],
        &["posts", "posts_immediate"],
    ),
    ("copies", &["server_copies_total"], &["copies"]),
    (
        "temp allocations",
        &["server_temporary_buffers_total"],
        &["temporary_buffers"],
    ),
    (
        "no_mem length",
        &["server_waiting_for_memory"],
        &["waited_for_memory"],
    ),
    (
        "no_mem longest wait",
        &["server_memory_wait_longest_seconds"],
        &["longest_memory_wait_us"],
    ),
    ("unexpected pool used", &["unexpected_pool_used_bytes"], &[]),
    (
        "unexpected pool high water",
        &["unexpected_pool_high_bytes"],
        &[],
    ),
    ("registered posts", &["posts_registered"], &[]),
    (
        "cancelled ignored/honoured",
        &["cancels_ignored_total", "cancels_honoured_total"],
        &[],
    ),
    (
        "test round trips",
        &["client_tests_total", "server_tests_total"],
        &["tests"],
    ),
    (
        "test sleeps timed out",
        &[
            "client_tests_timed_out_total",
            "server_tests_timed_out_total",
        ],
        &[],
    ),
    (
        "holds used/expired",
        &["holds_used_total", "holds_expired_total"],
        &[],
    ),
    ("grants waiting", &["bulk_waiting", "bulk_waits_total"], &[]),
    (
        "reconnects",
        &["reconnections_total", "clients_reattached_total"],
        &["reconnects"],
    ),
    (
        "protocol errors",
        &[
            "violations_total{",
            "bad_commands_total",
            "server_protocol_errors_total",
        ],
        &["protocol_errors"],
    ),
    (
        "latency histograms (post→complete)",
        &[
            "post_to_end_seconds_bucket{direction=\"to_server\",le=\"+Inf\"}",
            "post_to_end_seconds_bucket{direction=\"to_client\",le=\"+Inf\"}",
        ],
        &["post_to_end_seconds_count"],
    ),
    ("per client", &["client_sent_bytes_total{pid="], &[]),
];

// [WATCH-1]
#[test]
fn every_phrase_of_the_description_has_its_metric() {
    let bed = Bed::new();
    let (_server, client) = bed.greeted_pair();
    let metrics = bed.metrics();
    let text = client.counters.exposition();
    for (phrase, of_daemon, of_library) in PHRASES {
        for name in of_daemon {
            let name = format!("zoidd_{name}");
            let is_there = |metric: &Metric| metric.name.starts_with(&name);
            assert!(metrics.iter().any(is_there), "{phrase}: {name}");
        }
        for name in of_library {
            let name = format!("zoid_{name} ");
            assert!(
                text.lines().any(|line| line.starts_with(&name)),
                "{phrase}: {name}"
            );
        }
    }
}

// [SEG-6]
#[test]
fn r12_copies_of_the_server_are_among_the_daemons_metrics() {
    let bed = Bed::with(|options| options.job_weights = [(7, 2)].into());
    let (server, client) = bed.greeted_pair();
    for outside in [false, true] {
        let room = match outside {
            false => server.memory(3000),
            true => server.outside(3000),
        };
        let op = pending(server.receive(1, room));
        immediate(client.send(1, pattern(3000)));
        assert_eq!(server.wait(op).result, Ok(3000));
    }
    // What it counts is written down when it asks for something.
    let nothing = server
        .bmi
        .test_context(server.context, 1, std::time::Duration::ZERO);
    assert!(nothing.unwrap().is_empty());
    assert_eq!(bed.metric("zoidd_server_copies_total"), 1.0);
    assert_eq!(bed.metric("zoidd_server_temporary_buffers_total"), 1.0);
    assert_eq!(bed.metric("zoidd_job_weight{job=\"7\"}"), 2.0);
    let counts = client.counters.read();
    // The greeting and the two messages.
    assert_eq!((counts.posts, counts.posts_immediate), (3, 3));
}
