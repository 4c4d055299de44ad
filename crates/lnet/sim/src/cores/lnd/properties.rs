//! Checks for random events that each message has exactly one result, in time, and is posted at most once.

use std::collections::BTreeMap;
use std::time::Duration;

use lnet_core::TxId;
use lnet_types::{Nid, ProcessId, Time};
use lnet_wire::{Ack, Body, Handle, Header};
use proptest::prelude::*;

use super::*;

const TIMEOUT: Duration = Duration::from_secs(10);

#[derive(Clone, Debug)]
enum Step {
    Transmit(u8),
    Event(LndEvent),
    Wait(u64),
}

fn peer(number: u8) -> Nid {
    Nid::from_number(lnet_types::Net::tcp(0), u32::from(number))
}

fn event() -> impl Strategy<Value = LndEvent> {
    let peer = (0..3_u8).prop_map(peer);
    let errors = proptest::sample::select(&CompletionError::ALL[..]);
    let tx = (0..40_u64).prop_map(TxId);
    prop_oneof![
        1 => Just(LndEvent::DeviceFatal),
        1 => Just(LndEvent::DeviceReady),
        1 => Just(LndEvent::PortDown),
        1 => Just(LndEvent::PortUp),
        1 => Just(LndEvent::Interrupted),
        6 => peer.clone().prop_map(|peer| LndEvent::Connected { peer, incarnation: Incarnation(1) }),
        2 => peer.clone().prop_map(|peer| LndEvent::ConnectFailed {
            peer,
            error: ConnectError::Rejected,
        }),
        1 => peer.prop_map(|peer| LndEvent::Closed { peer }),
        4 => (tx.clone(), Just(Ok(()))).prop_map(|(tx, result)| LndEvent::Completion { tx, result }),
        2 => (tx, errors.prop_map(Err)).prop_map(|(tx, result)| LndEvent::Completion { tx, result }),
    ]
}

fn step() -> impl Strategy<Value = Step> {
    prop_oneof![
        6 => (0..3_u8).prop_map(Step::Transmit),
        8 => event().prop_map(Step::Event),
        2 => (0..6_u64).prop_map(Step::Wait),
    ]
}

fn message(tx: u64, to: u8, now: Time) -> Message {
    let header = Header {
        dest_nid: peer(to),
        src_nid: peer(9),
        dest_pid: ProcessId::LUSTRE_PID,
        src_pid: ProcessId::LUSTRE_PID,
        payload_length: 0,
        body: Body::Ack(Ack {
            dst_wmd: Handle::NONE,
            match_bits: 0,
            mlength: 0,
        }),
    };
    Message {
        tx: TxId(tx),
        peer: peer(to),
        header,
        bytes: None,
        deadline: now + TIMEOUT * 2,
    }
}

proptest! {
    #[test]
    fn every_message_has_one_fate_within_the_timeout_and_is_posted_once_at_most(
        sock in any::<bool>(),
        steps in proptest::collection::vec(step(), 1..80),
    ) {
        let kind = if sock { LndKind::Sock } else { LndKind::O2ib };
        let (mut lnd, mut now, mut actions) = (Lnd::new(kind, TIMEOUT), Time::ZERO, Actions::new());
        let mut begun: BTreeMap<u64, Time> = BTreeMap::new();
        let (mut fates, mut posts) = (BTreeMap::new(), BTreeMap::new());
        let end = [Step::Wait(10)];
        for step in steps.iter().chain(&end) {
            match step {
                Step::Transmit(to) => {
                    let tx = begun.len() as u64;
                    begun.insert(tx, now);
                    lnd.transmit(message(tx, *to, now), now, &mut actions);
                }
                Step::Event(event) => lnd.event(*event, now, &mut actions),
                Step::Wait(seconds) => {
                    now = now + Duration::from_secs(*seconds);
                    lnd.tick(now, &mut actions);
                }
            }
            for action in actions.drain(..) {
                match action {
                    Action::Sent { tx, .. } => *fates.entry(tx.0).or_insert(0) += 1,
                    Action::Post { message, .. } => *posts.entry(message.tx.0).or_insert(0) += 1,
                    _ => {}
                }
            }
            if matches!(step, Step::Wait(_)) {
                for (tx, at) in begun.iter().filter(|(_, at)| now >= **at + TIMEOUT) {
                    prop_assert_eq!(fates.get(tx), Some(&1), "message of {}", at);
                }
            }
        }
        prop_assert!(fates.values().chain(posts.values()).all(|&count| count == 1));
        prop_assert_eq!(lnd.next_deadline(), None);
    }
}
