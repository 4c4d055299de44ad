//! Tests of a test node's answers, request by request.

use super::*;
use crate::wire::{DebugRequest, PingRequest};

const SESSION: SessionId = SessionId {
    nid: 0x0002_0000_0A01_0001,
    stamp: 1,
};
const OTHER: SessionId = SessionId {
    stamp: 2,
    ..SESSION
};

fn at(seconds: u64) -> Time {
    Time::from_secs(seconds)
}

fn ask_with(framework: &mut Framework, features: u32, body: Body, now: Time) -> (u32, Body) {
    match framework.handle(&Message::new(features, body), now) {
        Verdict::Reply(features, body) => (features, body),
        other => panic!("{other:?}"),
    }
}

fn ask(framework: &mut Framework, body: Body) -> Body {
    ask_with(framework, 1, body, at(0)).1
}

fn status(framework: &mut Framework, body: Body) -> u32 {
    ask(framework, body).status().unwrap()
}

fn make(session: SessionId, force: u32) -> Body {
    Body::MakeRequest(MakeRequest {
        session,
        force,
        name: Name::new("name").unwrap(),
        ..MakeRequest::default()
    })
}

fn remove(session: SessionId) -> Body {
    Body::RemoveRequest(RemoveRequest {
        session,
        ..RemoveRequest::default()
    })
}

fn batch(operation: u32, test: u32) -> Body {
    Body::BatchRequest(BatchRequest {
        session: SESSION,
        batch: 1,
        operation,
        test,
        ..BatchRequest::default()
    })
}

fn test_request() -> TestRequest {
    TestRequest {
        session: SESSION,
        batch: 1,
        service: Service::PING.0,
        repeat: 1,
        concurrency: 1,
        params: Params::Ping { size: 0, flags: 0 },
        ..TestRequest::default()
    }
}

fn client() -> TestRequest {
    TestRequest {
        is_client: 1,
        destinations: 1,
        ..test_request()
    }
}

fn debug() -> Body {
    Body::DebugRequest(DebugRequest::default())
}

/// Makes a framework with a session.
fn with_session() -> Framework {
    let mut framework = Framework::default();
    assert_eq!(status(&mut framework, make(SESSION, 0)), 0);
    framework
}

/// Makes a framework with a session and a batch of one test, as client.
fn with_test() -> Framework {
    let mut framework = with_session();
    assert_eq!(add(&mut framework, client()), 0);
    framework
}

fn add(framework: &mut Framework, request: TestRequest) -> u32 {
    let message = Message::new(1, Body::TestRequest(request));
    match framework.handle(&message, at(0)) {
        Verdict::Fetch(request, len) => {
            assert_eq!(len, 12 * request.destinations);
            let one = ProcessId::lustre("10.0.0.1@tcp".parse().unwrap());
            let list = vec![one; request.destinations as usize];
            framework
                .add_client(&request, Some(list))
                .1
                .status()
                .unwrap()
        }
        Verdict::Reply(_, body) => body.status().unwrap(),
        Verdict::Drop => panic!("dropped"),
    }
}

#[test]
fn a_session_is_made_joined_and_removed_by_the_last_who_joined() {
    let mut framework = Framework::default();
    let made = ask(&mut framework, make(SESSION, 0));
    let expected = MakeReply {
        status: 0,
        session: SESSION,
        timeout: 100,
        name: Name::EMPTY,
    };
    assert_eq!(made, Body::MakeReply(expected));
    assert_eq!(status(&mut framework, make(SESSION, 0)), 0);
    for left in [SESSION, SessionId::NONE] {
        let removed = ask(&mut framework, remove(SESSION));
        let expected = SessionReply {
            status: 0,
            session: left,
        };
        assert_eq!(removed, Body::RemoveReply(expected));
    }
    assert_eq!(status(&mut framework, remove(SESSION)), 3);
}

// [LST-9]
#[test]
fn another_session_is_refused_with_the_name_of_the_first_unless_it_comes_with_force() {
    let mut framework = with_session();
    let Body::MakeReply(refused) = ask(&mut framework, make(OTHER, 0)) else {
        panic!("another reply");
    };
    assert_eq!((refused.status, refused.session), (16, SESSION));
    assert_eq!(refused.name.to_string(), "name");
    assert_eq!(status(&mut framework, remove(OTHER)), 16);
    assert_eq!(status(&mut framework, make(OTHER, 1)), 0);
    assert_eq!(status(&mut framework, remove(SESSION)), 16);
}

#[test]
fn the_wildcard_is_no_session() {
    let any = SessionId {
        nid: u64::MAX,
        stamp: 1,
    };
    let mut framework = with_session();
    assert_eq!(status(&mut framework, make(any, 0)), 22);
    assert_eq!(status(&mut framework, remove(any)), 22);
    let stat = StatRequest {
        session: any,
        ..StatRequest::default()
    };
    assert_eq!(status(&mut framework, Body::StatRequest(stat)), 22);
    let test = TestRequest {
        session: any,
        ..test_request()
    };
    assert_eq!(add(&mut framework, test), 22);
}

#[test]
fn debug_tells_the_session_and_that_there_is_none() {
    let mut framework = Framework::default();
    assert_eq!(status(&mut framework, debug()), 3);
    let mut framework = with_test();
    let Body::DebugReply(reply) = ask(&mut framework, debug()) else {
        panic!("another reply");
    };
    assert_eq!(
        (reply.status, reply.session, reply.timeout),
        (0, SESSION, 100)
    );
    assert_eq!(
        (reply.batches, reply.name.to_string()),
        (1, "name".to_owned())
    );
}

// [LST-8] [LST-12]
#[test]
fn features_that_nobody_knows_or_that_differ_from_the_session_are_refused() {
    let mut framework = Framework::default();
    for body in [make(SESSION, 0), debug()] {
        let (features, body) = ask_with(&mut framework, 3, body, at(0));
        assert_eq!((features, body.status()), (1, Some(71)));
    }
    let (features, made) = ask_with(&mut framework, 0, make(SESSION, 0), at(0));
    assert_eq!((features, made.status()), (0, Some(0)));
    let (features, body) = ask_with(&mut framework, 1, remove(SESSION), at(0));
    let expected = SessionReply {
        status: 71,
        session: SESSION,
    };
    assert_eq!((features, body), (0, Body::RemoveReply(expected)));
}

// [LST-13]
#[test]
fn a_test_out_of_range_is_refused() {
    let mut framework = with_session();
    let good = test_request();
    for wrong in [
        TestRequest { repeat: 0, ..good },
        TestRequest {
            concurrency: 0,
            ..good
        },
        TestRequest {
            concurrency: 1025,
            ..good
        },
        TestRequest {
            destinations: 256 * 341 + 1,
            ..good
        },
        TestRequest {
            is_client: 1,
            destinations: 0,
            ..good
        },
        TestRequest {
            is_client: 1,
            destinations: 342,
            ..good
        },
        TestRequest { service: 5, ..good },
        TestRequest {
            service: 11,
            ..client()
        },
    ] {
        assert_eq!(add(&mut framework, wrong), 22, "{wrong:?}");
    }
    let unknown = TestRequest {
        service: 13,
        ..good
    };
    assert_eq!(add(&mut framework, unknown), 2);
    let other = TestRequest {
        session: OTHER,
        ..good
    };
    assert_eq!(add(&mut framework, other), 2);
    assert_eq!(add(&mut framework, good), 0);
}

#[test]
fn a_list_that_is_none_is_refused() {
    let mut framework = with_session();
    let (_, body) = framework.add_client(&client(), None);
    assert_eq!(body.status(), Some(22));
}

#[test]
fn a_console_cannot_take_memory_without_end() {
    let mut framework = with_session();
    let large = TestRequest {
        concurrency: 1024,
        destinations: 64,
        ..client()
    };
    assert_eq!(add(&mut framework, large), 0);
    assert_eq!(add(&mut framework, client()), 12);
    let mut framework = with_session();
    let added = (0..1000).filter(|_| add(&mut framework, client()) == 0);
    assert_eq!(added.count(), 256);
    let mut framework = with_session();
    let batches = (0..1000).filter(|&batch| {
        let request = TestRequest {
            batch,
            ..test_request()
        };
        add(&mut framework, request) == 0
    });
    assert_eq!(batches.count(), 256);
}

#[test]
fn a_batch_runs_until_every_test_of_it_has_ended() {
    let mut framework = with_test();
    add(&mut framework, client());
    let active = |framework: &mut Framework, operation, test| {
        let Body::BatchReply(reply) = ask(framework, batch(operation, test)) else {
            panic!("another reply");
        };
        (reply.status, reply.active)
    };
    assert_eq!(active(&mut framework, BatchRequest::QUERY, 0), (0, 0));
    assert_eq!(active(&mut framework, BatchRequest::RUN, 0), (0, 2));
    assert_eq!(add(&mut framework, client()), 16);
    let tests: Vec<TestId> = std::iter::from_fn(|| framework.poll_effect())
        .map(|effect| match effect {
            Effect::Start(test, _) => test,
            Effect::Stop { .. } => panic!("{effect:?}"),
        })
        .collect();
    // A repeated request starts nothing a second time.
    assert_eq!(active(&mut framework, BatchRequest::RUN, 0), (0, 2));
    assert_eq!(framework.poll_effect(), None);
    framework.ended(tests[0]);
    assert_eq!(active(&mut framework, BatchRequest::QUERY, 0), (0, 1));
    assert_eq!(active(&mut framework, BatchRequest::QUERY, 1), (0, 0));
    assert_eq!(active(&mut framework, BatchRequest::QUERY, 2), (0, 1));
    assert_eq!(active(&mut framework, BatchRequest::QUERY, 3), (2, 0));
    assert_eq!(active(&mut framework, BatchRequest::STOP, 0), (0, 1));
    let stop = Effect::Stop {
        test: tests[1],
        abort: false,
    };
    assert_eq!(framework.poll_effect(), Some(stop));
    framework.ended(tests[1]);
    assert_eq!(active(&mut framework, BatchRequest::QUERY, 0), (0, 0));
}

#[test]
fn an_operation_that_does_not_exist_is_dropped() {
    let mut framework = with_test();
    let message = Message::new(1, batch(4, 0));
    assert_eq!(framework.handle(&message, at(0)), Verdict::Drop);
    let ping = Message::new(1, Body::PingRequest(PingRequest::default()));
    assert_eq!(framework.handle(&ping, at(0)), Verdict::Drop);
}

// [LST-10]
#[test]
fn a_batch_of_another_session_or_without_tests_is_not_found() {
    let mut framework = with_session();
    assert_eq!(status(&mut framework, batch(BatchRequest::RUN, 0)), 2);
    assert_eq!(
        status(&mut Framework::default(), batch(BatchRequest::RUN, 0)),
        3
    );
}

// [LST-11]
#[test]
fn a_session_ends_a_hundred_seconds_after_the_last_word_of_its_console() {
    let mut framework = with_test();
    ask_with(&mut framework, 1, debug(), at(60));
    assert!(!framework.tick(at(159)));
    assert_eq!(framework.deadline(), Some(at(160)));
    assert!(framework.tick(at(160)));
    assert_eq!(status(&mut framework, debug()), 3);
}

#[test]
fn what_runs_when_its_session_ends_is_aborted_and_a_zombie_until_it_has_ended() {
    let mut framework = with_test();
    ask(&mut framework, batch(BatchRequest::RUN, 0));
    let Some(Effect::Start(test, _)) = framework.poll_effect() else {
        panic!("no test began");
    };
    assert_eq!(status(&mut framework, make(OTHER, 1)), 0);
    let stop = Effect::Stop { test, abort: true };
    assert_eq!(framework.poll_effect(), Some(stop));
    let zombies = |framework: &mut Framework| {
        let request = StatRequest {
            session: OTHER,
            ..StatRequest::default()
        };
        match ask(framework, Body::StatRequest(request)) {
            Body::StatReply(reply) => reply.framework.zombie_sessions,
            other => panic!("{other:?}"),
        }
    };
    assert_eq!(zombies(&mut framework), 1);
    framework.ended(test);
    assert_eq!(zombies(&mut framework), 0);
}

#[test]
fn errors_of_tests_are_counted_in_their_session() {
    let mut framework = with_session();
    framework.note_error(Service::BULK);
    framework.note_error(Service::PING);
    framework.note_error(Service::PING);
    let request = StatRequest {
        session: SESSION,
        ..StatRequest::default()
    };
    let message = Body::StatRequest(request);
    let (_, Body::StatReply(reply)) = ask_with(&mut framework, 1, message, at(3)) else {
        panic!("another reply");
    };
    let counters = FrameworkCounters {
        running_ms: 3000,
        bulk_errors: 1,
        ping_errors: 2,
        ..FrameworkCounters::default()
    };
    assert_eq!(reply.framework, counters);
}
