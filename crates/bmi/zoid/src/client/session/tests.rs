use super::connect::RETRY;
use super::*;

/// Returns a state in which call 1 waits for a message of at most 8 bytes.
fn receiving() -> State {
    let mut state = State::new([0; 16]);
    let segments = [sys::span::Span::from(vec![0; 8])].into_iter().collect();
    let sink = Some(Sink::new(segments, 8));
    let call = Call {
        sink,
        ..Call::default()
    };
    state.calls.insert(1, call);
    state
}

// [FWD-8]
#[test]
fn a_message_that_is_announced_twice_is_a_violation_whatever_its_grant() {
    for grant in [0, 7] {
        let mut state = receiving();
        state.coming(1, grant, 8).unwrap();
        state.expect_payload(grant, 0, 8).unwrap();
        state.filled();
        let again = state.coming(1, grant, 4).unwrap_err();
        assert_eq!(again.kind(), ErrorKind::InvalidData);
    }
}

// [FWD-8]
#[test]
fn payload_before_its_announcement_touches_no_memory() {
    let mut state = receiving();
    for grant in [0, 7] {
        let verdict = state.expect_payload(grant, 0, 8).unwrap();
        assert!(matches!(verdict, Verdict::Drop));
    }
}

#[test]
fn a_lost_connection_leaves_the_memory_marked_that_is_being_written() {
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("socket");
    let _listener = std::os::unix::net::UnixListener::bind(&path).unwrap();
    let place = Place::Unix(vec![path]);
    let link = Link::connect(&place, RETRY, std::sync::Arc::default()).unwrap();
    let link = Arc::new(link);
    let mut state = receiving();
    state.connection = Connection::Up(Arc::clone(&link));
    state.coming(1, 7, 8).unwrap();
    state.expect_payload(7, 0, 4).unwrap();
    state.lose(&link, Error::ConnReset);
    assert_eq!(state.filling, Some((1, 4)));
    let answers = &state.calls[&1].answers;
    assert_eq!(answers.back(), Some(&Answer::Lost(Error::ConnReset)));
}
