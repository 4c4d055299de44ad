//! Invalid input and faults without a file of their own. `docs/bmi-requirements.md` says which test checks
//! what.

use std::time::Duration;

use bmi::{Error, Tag};
use zoid_proto::Status;

use crate::bed::{Bed, pending};
use crate::stub::{Reply, Stub};

// [BMI-53]
#[test]
fn finalize_with_operations_pending_and_twice_is_an_end() {
    let bed = Bed::new();
    let (server, client) = bed.greeted_pair();
    let ops = [&client, &server].map(|end| (end, pending(end.receive_into(1, 8))));
    for (end, op) in ops {
        end.bmi.finalize();
        end.bmi.finalize();
        let tested = end.bmi.test(op, Duration::ZERO);
        assert_eq!(tested.err(), Some(Error::NetDown));
    }
}

// [FWD-8]
#[test]
fn a_daemon_that_answers_with_nonsense_is_a_protocol_error() {
    let stub = Stub::new(|_| Reply::Refused(Status(-5)));
    let client = stub.client();
    let (bmi, context, peer) = (&client.bmi, client.context, client.peer);
    let post = bmi.post_send(context, peer, vec![1], Tag(1), 0);
    assert_eq!(post.unwrap_err().error, Error::Proto);
}

// [ZOID-4]
#[test]
fn a_server_does_not_talk_to_itself_or_to_other_servers() {
    let bed = Bed::new();
    let server = bed.serve();
    // A server may look up its own address, which names itself; nobody can post to it.
    let (bmi, context, peer) = (&server.bmi, server.context, server.peer);
    for refused in [
        bmi.post_send(context, peer, vec![1], Tag(1), 0),
        bmi.post_receive(context, peer, vec![1], Tag(1), 0),
    ] {
        assert_eq!(refused.unwrap_err().error, Error::Inval);
    }
    // No other address exists either.
    for (elsewhere, error) in [
        ("zoid://other", Error::Inval),
        ("zoid+tcp://127.0.0.1:1/other", Error::NoProtoOpt),
        ("tcp://127.0.0.1:1", Error::NoProtoOpt),
    ] {
        assert_eq!(bmi.lookup(elsewhere), Err(error), "{elsewhere}");
    }
}
