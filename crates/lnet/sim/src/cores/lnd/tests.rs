//! Tests the result of each event of a device, a connection or a message. Tests whose names begin with `w3_` cover
//! case W3: the events of verbs in the design documents of LNet Health.

use std::time::Duration;

use lnet_core::{MessageStatus, TxId};
use lnet_types::{Nid, ProcessId, Time};
use lnet_wire::{Body, Get, Handle, Header};

use super::*;

const TIMEOUT: Duration = Duration::from_secs(10);
const LIFE: Incarnation = Incarnation(1);

fn peer() -> Nid {
    "10.0.0.2@o2ib".parse().unwrap()
}

/// A driver at a point in time, with the actions that it requested.
struct Bench {
    lnd: Lnd,
    now: Time,
    actions: Actions,
}

impl Bench {
    fn new(kind: LndKind) -> Self {
        Self {
            lnd: Lnd::new(kind, TIMEOUT),
            now: Time::from_secs(100),
            actions: Actions::new(),
        }
    }

    /// Returns a driver with one posted message.
    fn with_posted(kind: LndKind) -> Self {
        let mut bench = Self::new(kind);
        bench.transmit(1);
        bench.connected();
        bench.actions.clear();
        bench
    }

    fn transmit(&mut self, tx: u64) {
        let nid = peer();
        let header = Header {
            dest_nid: nid,
            src_nid: nid,
            dest_pid: ProcessId::LUSTRE_PID,
            src_pid: ProcessId::LUSTRE_PID,
            payload_length: 0,
            body: Body::Get(Get {
                return_wmd: Handle::NONE,
                match_bits: 0,
                ptl_index: 0,
                src_offset: 0,
                sink_length: 0,
            }),
        };
        let message = Message {
            tx: TxId(tx),
            peer: nid,
            header,
            bytes: None,
            deadline: self.now + Duration::from_secs(100),
        };
        self.lnd.transmit(message, self.now, &mut self.actions);
    }

    fn event(&mut self, event: LndEvent) {
        self.lnd.event(event, self.now, &mut self.actions);
    }

    fn connected(&mut self) {
        self.event(LndEvent::Connected {
            peer: peer(),
            incarnation: LIFE,
        });
    }

    fn wait(&mut self, span: Duration) {
        self.now = self.now + span;
        self.lnd.tick(self.now, &mut self.actions);
    }

    /// Returns the results that were reported, in their order.
    fn fates(&mut self) -> Vec<(u64, MessageStatus)> {
        let fate = |action: Action| match action {
            Action::Sent { tx, status } => Some((tx.0, status)),
            _ => None,
        };
        self.actions.drain(..).filter_map(fate).collect()
    }

    fn fatal(&mut self) -> Vec<bool> {
        let fatal = |action: Action| match action {
            Action::Fatal(fatal) => Some(fatal),
            _ => None,
        };
        self.actions.drain(..).filter_map(fatal).collect()
    }

    /// Returns the result of a posted message that completes with this error.
    fn completed(kind: LndKind, error: CompletionError) -> MessageStatus {
        let mut bench = Self::with_posted(kind);
        bench.event(LndEvent::Completion {
            tx: TxId(1),
            result: Err(error),
        });
        bench.fates()[0].1
    }

    /// Returns the result of a message that waits for a connection when the connection fails with this error.
    fn not_connected(kind: LndKind, error: ConnectError) -> MessageStatus {
        let mut bench = Self::new(kind);
        bench.transmit(1);
        bench.event(LndEvent::ConnectFailed {
            peer: peer(),
            error,
        });
        bench.fates()[0].1
    }
}

#[test]
fn w3_a_fatal_device_event_ends_everything_and_takes_the_interface_out() {
    let mut bench = Bench::with_posted(LndKind::O2ib);
    bench.event(LndEvent::PortDown);
    bench.transmit(2);
    bench.event(LndEvent::DeviceFatal);
    let fates = [
        (2, MessageStatus::LocalDropped),
        (1, MessageStatus::LocalError),
    ];
    assert_eq!(bench.fates(), fates);
    bench.transmit(3);
    assert_eq!(bench.fates(), [(3, MessageStatus::LocalDropped)]);
    bench.event(LndEvent::PortUp);
    bench.event(LndEvent::DeviceReady);
    assert_eq!(bench.fatal(), [true, false]);
}

#[test]
fn w3_a_port_down_is_fatal_and_a_port_up_is_not_any_more() {
    let mut bench = Bench::with_posted(LndKind::O2ib);
    bench.event(LndEvent::PortDown);
    assert_eq!(bench.fatal(), [true]);
    bench.transmit(2);
    assert_eq!(bench.actions, [], "it waits for the port");
    bench.event(LndEvent::PortUp);
    assert_eq!(bench.actions.pop_front(), Some(Action::Fatal(false)));
    let posted = bench.actions.pop_front();
    assert!(matches!(posted, Some(Action::Post { message, .. }) if message.tx == TxId(2)));
}

#[test]
fn w3_each_completion_error_has_its_class() {
    let classes = CompletionError::ALL.map(|error| Bench::completed(LndKind::O2ib, error));
    let expected = [
        MessageStatus::LocalError,
        MessageStatus::NetworkTimeout,
        MessageStatus::RemoteTimeout,
        MessageStatus::RemoteDropped,
        MessageStatus::RemoteError,
    ];
    assert_eq!(classes, expected);
}

#[test]
fn w3_a_rejected_connection_means_that_the_peer_got_nothing() {
    let rejected = Bench::not_connected(LndKind::O2ib, ConnectError::Rejected);
    assert_eq!(rejected, MessageStatus::RemoteDropped);
    let unreachable = Bench::not_connected(LndKind::O2ib, ConnectError::Unreachable);
    assert_eq!(unreachable, MessageStatus::RemoteDropped);
}

#[test]
fn w3_a_connection_that_fails_here_is_a_local_failure() {
    let no_route = Bench::not_connected(LndKind::O2ib, ConnectError::NoRoute);
    assert_eq!(no_route, MessageStatus::LocalNoRoute);
    let aborted = Bench::not_connected(LndKind::O2ib, ConnectError::Aborted);
    assert_eq!(aborted, MessageStatus::LocalAborted);
}

#[test]
fn w3_a_transmit_timeout_says_how_far_the_message_came() {
    let mut stuck = Bench::new(LndKind::O2ib);
    stuck.transmit(1);
    stuck.wait(TIMEOUT);
    assert_eq!(stuck.fates(), [(1, MessageStatus::LocalTimeout)]);

    let mut silent = Bench::with_posted(LndKind::O2ib);
    assert_eq!(silent.lnd.next_deadline(), Some(silent.now + TIMEOUT));
    silent.wait(TIMEOUT);
    assert_eq!(silent.fates(), [(1, MessageStatus::RemoteTimeout)]);
    assert_eq!(silent.lnd.next_deadline(), None);
}

#[test]
fn w3_a_timeout_after_the_port_was_down_blames_nobody_alone() {
    let mut bench = Bench::with_posted(LndKind::O2ib);
    bench.event(LndEvent::PortDown);
    bench.event(LndEvent::PortUp);
    bench.wait(TIMEOUT);
    assert_eq!(bench.fates(), [(1, MessageStatus::NetworkTimeout)]);
}

#[test]
fn w3_a_stopped_driver_interrupts_what_was_not_posted() {
    let mut bench = Bench::with_posted(LndKind::O2ib);
    bench.event(LndEvent::PortDown);
    bench.transmit(2);
    bench.event(LndEvent::Interrupted);
    let fates = [
        (2, MessageStatus::LocalInterrupt),
        (1, MessageStatus::NetworkTimeout),
    ];
    assert_eq!(bench.fates(), fates);
}

#[test]
fn w3_a_class_that_allows_a_resend_is_never_given_to_what_may_have_arrived() {
    for kind in [LndKind::O2ib, LndKind::Sock] {
        for error in CompletionError::ALL {
            let class = Bench::completed(kind, error);
            let resends = matches!(
                class,
                MessageStatus::RemoteDropped
                    | MessageStatus::LocalInterrupt
                    | MessageStatus::LocalDropped
                    | MessageStatus::LocalAborted
                    | MessageStatus::LocalNoRoute
                    | MessageStatus::LocalTimeout
            );
            assert!(!(resends && error.may_have_arrived()), "{kind:?} {error:?}");
        }
    }
}

#[test]
fn a_stream_knows_less_of_a_failed_completion() {
    let classes = CompletionError::ALL.map(|error| Bench::completed(LndKind::Sock, error));
    assert_eq!(classes[0], MessageStatus::LocalError);
    assert_eq!(classes[1..], [MessageStatus::NetworkTimeout; 4]);
}

#[test]
fn a_reset_by_the_other_end_is_a_remote_error_of_a_stream_and_unclear_for_verbs() {
    for (kind, class) in [
        (LndKind::Sock, MessageStatus::RemoteError),
        (LndKind::O2ib, MessageStatus::NetworkTimeout),
    ] {
        let mut bench = Bench::with_posted(kind);
        bench.event(LndEvent::Closed { peer: peer() });
        assert_eq!(bench.fates(), [(1, class)]);
    }
}

#[test]
fn what_was_posted_beside_a_failed_message_is_flushed_and_what_waits_connects_again() {
    let mut bench = Bench::with_posted(LndKind::O2ib);
    bench.transmit(2);
    bench.event(LndEvent::Completion {
        tx: TxId(1),
        result: Err(CompletionError::ReceiverNotReady),
    });
    let fates = [
        (1, MessageStatus::RemoteDropped),
        (2, MessageStatus::NetworkTimeout),
    ];
    assert_eq!(bench.fates(), fates);
    bench.transmit(3);
    assert_eq!(bench.actions, [Action::Connect { peer: peer() }]);
}

#[test]
fn a_completion_that_comes_too_late_is_ignored() {
    let mut bench = Bench::with_posted(LndKind::O2ib);
    bench.wait(TIMEOUT);
    bench.actions.clear();
    let result = Ok(());
    bench.event(LndEvent::Completion {
        tx: TxId(1),
        result,
    });
    assert_eq!(bench.actions, []);
}

#[test]
fn a_connection_that_comes_too_late_posts_nothing() {
    let mut bench = Bench::new(LndKind::O2ib);
    bench.transmit(1);
    bench.now = bench.now + TIMEOUT;
    bench.connected();
    assert_eq!(bench.fates(), [(1, MessageStatus::LocalTimeout)]);
}
