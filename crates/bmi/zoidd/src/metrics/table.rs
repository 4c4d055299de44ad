//! The metrics without a label, one per row.

use super::View;

/// A metric: its name, its help text, its value.
type Row = (&'static str, &'static str, fn(&View<'_>) -> u64);

/// Metrics that only increase.
pub(super) const COUNTERS: [Row; 48] = [
    (
        "wire_bytes_in_total",
        "Bytes from clients, frames included.",
        |view| view.daemon.bytes_in,
    ),
    (
        "wire_bytes_out_total",
        "Bytes to clients, frames included.",
        |view| view.daemon.bytes_out,
    ),
    ("frames_in_total", "Frames from clients.", |view| {
        view.daemon.frames_in
    }),
    ("commands_total", "Commands of the server.", |view| {
        view.daemon.commands
    }),
    (
        "bad_commands_total",
        "Commands not understood or not answerable.",
        |view| view.daemon.bad_commands,
    ),
    (
        "replies_delayed_total",
        "Replies that waited for room in their queue.",
        |view| view.daemon.replies_delayed,
    ),
    ("connections_total", "Connections accepted.", |view| {
        view.daemon.connections
    }),
    (
        "connections_refused_total",
        "Connections rejected: another user, or too many.",
        |view| view.daemon.connections_refused,
    ),
    (
        "reconnections_total",
        "Clients that attached again after a lost connection.",
        |view| view.daemon.reconnections,
    ),
    (
        "clients_silent_total",
        "Clients lost because they were silent.",
        |view| view.daemon.silent,
    ),
    (
        "standstills_total",
        "Times in which the daemon did not run for a heartbeat or longer.",
        |view| view.daemon.standstills,
    ),
    (
        "standstill_losses_total",
        "Clients that disconnected while the daemon did not run.",
        |view| view.daemon.standstill_losses,
    ),
    (
        "advice_total",
        "Advice given to clients that test too often.",
        |view| view.daemon.advice,
    ),
    (
        "not_now_total",
        "Sends and receives answered \"not now\".",
        |view| view.engine.not_now,
    ),
    ("waits_total", "Sends and receives that waited.", |view| {
        view.engine.waits
    }),
    (
        "waits_satisfied_total",
        "Waits that found a counterpart or memory.",
        |view| view.engine.waits_satisfied,
    ),
    ("client_tests_total", "Tests of clients.", |view| {
        view.engine.client_tests
    }),
    (
        "client_tests_timed_out_total",
        "Tests of clients that slept until their timeout.",
        |view| view.engine.client_tests_timed_out,
    ),
    ("posts_total", "Operations posted by the server.", |view| {
        view.engine.posts
    }),
    (
        "posts_immediate_total",
        "Operations completed within their post.",
        |view| view.engine.posts_immediate,
    ),
    (
        "posts_completed_total",
        "Operations that succeeded.",
        |view| view.engine.posts_completed,
    ),
    ("posts_failed_total", "Operations that failed.", |view| {
        view.engine.posts_failed
    }),
    ("server_tests_total", "Tests of the server.", |view| {
        view.engine.server_tests
    }),
    (
        "server_tests_timed_out_total",
        "Tests of the server that slept until their timeout.",
        |view| view.engine.server_tests_timed_out,
    ),
    (
        "holds_total",
        "Posts held for the call that follows a client's test.",
        |view| view.engine.holds,
    ),
    (
        "holds_used_total",
        "Holds whose call came in time.",
        |view| view.engine.holds_used,
    ),
    (
        "holds_expired_total",
        "Holds that ended at their deadline.",
        |view| view.engine.holds_expired,
    ),
    (
        "cancels_honoured_total",
        "Cancels that ended an operation.",
        |view| view.engine.cancels_honoured,
    ),
    (
        "cancels_ignored_total",
        "Cancels that came too late.",
        |view| view.engine.cancels_ignored,
    ),
    (
        "size_mismatches_total",
        "Messages larger than their buffer.",
        |view| view.engine.size_mismatches,
    ),
    (
        "stalls_total",
        "Transfers without progress for too long.",
        |view| view.engine.stalls,
    ),
    (
        "bulk_waits_total",
        "Large transfers that waited for their turn.",
        |view| view.engine.bulk_waits,
    ),
    ("clients_attached_total", "Clients that attached.", |view| {
        view.engine.clients_attached
    }),
    (
        "clients_reattached_total",
        "Clients that reattached.",
        |view| view.engine.clients_reattached,
    ),
    (
        "clients_left_total",
        "Clients that left with BYE or were disconnected by the server.",
        |view| view.engine.clients_left,
    ),
    (
        "clients_lost_total",
        "Clients whose connection broke.",
        |view| view.engine.clients_lost,
    ),
    ("servers_attached_total", "Servers that attached.", |view| {
        view.engine.servers_attached
    }),
    ("servers_lost_total", "Servers that left.", |view| {
        view.engine.servers_lost
    }),
    (
        "unexpected_inline_total",
        "Unexpected messages sent against a credit.",
        |view| view.engine.unexpected_inline,
    ),
    (
        "transfers_stopped_total",
        "Transfers that were stopped, including stalled ones.",
        |view| view.engine.transfers_stopped,
    ),
    (
        "client_memory_copies_total",
        "Messages copied directly from and to clients' memory.",
        |view| view.daemon.copies,
    ),
    (
        "client_memory_bytes_total",
        "Bytes of these messages.",
        |view| view.daemon.copied_bytes,
    ),
    (
        "client_memory_faults_total",
        "Messages whose client named memory that it does not have.",
        |view| view.daemon.faults,
    ),
    (
        "server_copies_total",
        "Copies between memory outside the segment and temporary buffers, by the server.",
        |view| view.reported.copies,
    ),
    (
        "server_temporary_buffers_total",
        "Temporary buffers allocated, by the server.",
        |view| view.reported.temporary_buffers,
    ),
    (
        "server_memory_waits_total",
        "Operations that waited for memory of the pool, by the server.",
        |view| view.reported.memory_waits,
    ),
    (
        "server_allocations_held_back_total",
        "Allocations rejected in favour of operations that wait for memory, by the server.",
        |view| view.reported.allocations_held_back,
    ),
    (
        "server_protocol_errors_total",
        "Invalid replies that the server received.",
        |view| view.reported.protocol_errors,
    ),
];

/// Current values.
pub(super) const GAUGES: [Row; 23] = [
    ("uptime_seconds", "Time since the daemon's start.", |view| {
        view.uptime.as_secs()
    }),
    ("segment_bytes", "Memory shared with the server.", |view| {
        view.options.total
    }),
    (
        "unexpected_pool_bytes",
        "Part of it for unexpected messages.",
        |view| view.options.unexpected,
    ),
    (
        "max_unexpected_bytes",
        "Size of the largest unexpected message.",
        |view| view.options.max_unexpected,
    ),
    (
        "max_expected_bytes",
        "Size of the largest expected message.",
        |view| view.options.max_expected,
    ),
    ("clients_max", "Clients that may be attached.", |view| {
        view.options.max_clients as u64
    }),
    ("clients", "Attached clients.", |view| {
        view.gauges.clients as u64
    }),
    ("requests", "Unanswered requests of clients.", |view| {
        view.gauges.requests as u64
    }),
    ("waiting", "Requests that wait for a counterpart.", |view| {
        view.gauges.waiting as u64
    }),
    (
        "posts",
        "Operations of the server, including complete ones.",
        |view| view.gauges.posts as u64,
    ),
    (
        "posts_done",
        "Complete operations that were not collected.",
        |view| view.gauges.posts_done as u64,
    ),
    ("transfers", "Running transfers.", |view| {
        view.gauges.transfers as u64
    }),
    (
        "bulk_waiting",
        "Transfers that wait for their turn.",
        |view| view.gauges.bulk_waiting as u64,
    ),
    (
        "unexpected_pool_used_bytes",
        "Unexpected memory in use.",
        |view| view.gauges.pool_used,
    ),
    (
        "unexpected_pool_high_bytes",
        "The most unexpected memory in use so far.",
        |view| view.engine.pool_high_water,
    ),
    (
        "unexpected_messages",
        "Unexpected messages in memory.",
        |view| view.gauges.unexpected as u64,
    ),
    (
        "unexpected_ready",
        "Unexpected messages not fetched yet.",
        |view| view.gauges.unexpected_ready as u64,
    ),
    (
        "posts_registered",
        "Operations of the server that wait for a message or move one.",
        |view| view.gauges.posts.saturating_sub(view.gauges.posts_done) as u64,
    ),
    (
        "client_tests_sleeping",
        "Tests of clients that sleep.",
        |view| view.gauges.client_tests as u64,
    ),
    (
        "segment_huge_page_bytes",
        "Size of the segment's huge pages; 0 for normal pages.",
        |view| view.huge_page_bytes,
    ),
    (
        "server_waiting_for_memory",
        "Operations that wait for memory of the pool, by the server.",
        |view| view.reported.waiting_for_memory,
    ),
    (
        "server_memory_used_bytes",
        "Expected memory in use, by the server.",
        |view| view.reported.memory_used,
    ),
    ("server_attached", "1 with a server, 0 without.", |view| {
        u64::from(view.server)
    }),
];
