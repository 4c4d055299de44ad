//! Bad input and faults: which test covers which, and those that fit nowhere else.
//!
//! | What | Test |
//! |---|---|
//! | null pointers; negative sizes and counts; list totals; null buffers; buffer types; memory that is foreign, interior or freed; capacities; time-outs; options; calls without initialize | `bmi-ffi`: `arguments_that_cannot_be_are_answered` |
//! | limits and one byte more | conformance `limits_are_inclusive`, `r02_*`, `r03_*` |
//! | pre-allocated memory that is not the segment's; beyond either end of its region | `r68_*` here and in `zbmi` |
//! | more memory than the pool; none | `r18_more_than_the_region_is_refused`, `r56_*`, `r06_*` |
//! | freed twice, never delivered, no beginning of a message | `zbmi`: `r53_*` |
//! | ids that are unknown, collected, doubled or none; capacity 0 | conformance `ids_that_name_nothing_are_refused`, `r06_*`, `r59_*` |
//! | 17 contexts, unknown context | conformance `contexts_are_sixteen` |
//! | unknown addresses; strings too long or not addresses | conformance `addresses_are_checked_and_stable`, `r16_*` |
//! | options without meaning | conformance `options_are_answered`, `r06_*` |
//! | finalize while a test sleeps, with operations pending, and again | conformance `finalize_ends_a_sleeping_test`, `r50_*`, `r17_*`, here |
//! | both roles in one process | `r17_*` |
//! | unknown method name | `r01_*` |
//! | daemon absent; wrong instance | `a_client_without_a_daemon_is_refused_after_its_time`, `r50_*`, `r07_*` |
//! | queues used up, segment too large | `zoidd`: `without_room_for_queues_*`, `without_room_in_shared_memory_*` |
//! | segment cut by somebody | `zoidd`: `a_segment_cut_by_a_third_party_is_noticed_at_the_next_heartbeat` |
//! | answers that make no sense | here |
//! | limits smaller than compiled ones | `r02_*` |
//! | extreme tags, no bytes, 10,000 operations, classes | conformance `the_extreme_tags_are_tags`, `messages_of_no_bytes_match`, `ten_thousand_operations_complete_once`, `unexpected_classes_are_apart` |
//! | two servers | `a12_*` |
//! | frames and commands that are wrong, cut, random | `zoidd`: `tests/hostile.rs` |
//! | interrupted anywhere; stopped and continued | `processes`: `r10_*` |

use std::time::Duration;

use bmi::{Error, Tag};
use zoid_proto::Status;

use crate::bed::{Bed, pending};
use crate::stub::{Reply, Stub};

#[test]
fn finalize_with_operations_pending_and_twice_is_an_end() {
    let bed = Bed::new();
    let (server, client) = bed.meet();
    let ops = [&client, &server].map(|end| (end, pending(end.receive_into(1, 8))));
    for (end, op) in ops {
        end.bmi.finalize();
        end.bmi.finalize();
        let tested = end.bmi.test(op, Duration::ZERO);
        assert_eq!(tested.err(), Some(Error::NetDown));
    }
}

#[test]
fn a_daemon_that_answers_with_nonsense_is_a_protocol_error() {
    let stub = Stub::new(|_| Reply::Refused(Status(-5)));
    let client = stub.client();
    let (bmi, context, peer) = (&client.bmi, client.context, client.peer);
    let post = bmi.post_send(context, peer, vec![1], Tag(1), 0);
    assert_eq!(post.unwrap_err().error, Error::Proto);
}
