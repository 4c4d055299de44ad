//! Tests of the search against a model, a plain list of entries that is searched as the protocol says: [DATA-13],
//! [DATA-14], [DATA-15], [DATA-16].

use lnet_types::{Nid, ProcessId};
use lnet_wire::{Body, Get, Handle, Header, Put};
use proptest::prelude::*;

use super::net::config;
use super::nid;
use crate::*;

const PORTAL: u32 = 30;

#[derive(Clone, Debug)]
struct Entry {
    me: MeSpec,
    md: MdSpec,
}

#[derive(Clone, Debug)]
struct Message {
    get: bool,
    bits: u64,
    length: u32,
    offset: u32,
    source: ProcessId,
}

fn process() -> impl Strategy<Value = ProcessId> {
    let nids = [nid("10.0.0.2@tcp"), nid("10.0.0.3@tcp")];
    (0..2_usize, 12345_u32..12347).prop_map(move |(at, pid)| ProcessId { nid: nids[at], pid })
}

fn entry(wildcard: bool) -> impl Strategy<Value = Entry> {
    let me = (
        process(),
        0..3_u64,
        0..3_u64,
        any::<(bool, bool, bool, bool)>(),
    )
        .prop_map(
            move |(mut match_id, match_bits, ignore, (any_nid, any_pid, unlink, before))| {
                let mut ignore_bits = 0;
                if wildcard {
                    ignore_bits = ignore;
                    match_id.nid = if any_nid || ignore == 0 {
                        Nid::ANY
                    } else {
                        match_id.nid
                    };
                    match_id.pid = if any_pid {
                        ProcessId::ANY_PID
                    } else {
                        match_id.pid
                    };
                }
                let position = if before {
                    InsertPosition::Before
                } else {
                    InsertPosition::After
                };
                let unlink_with_md = unlink;
                MeSpec {
                    portal: PORTAL,
                    match_id,
                    match_bits,
                    ignore_bits,
                    unlink_with_md,
                    position,
                }
            },
        );
    let md = (0..20_u32, 0..20_u32, 0..4_u32, 1..4_u32, any::<[bool; 4]>()).prop_map(
        |(length, max, threshold, operations, [remote, truncate, max_size, unlink])| {
            let mut options = MdOptions::from_bits_truncate(operations);
            options.set(MdOptions::MANAGE_REMOTE, remote);
            options.set(MdOptions::TRUNCATE, truncate);
            options.set(MdOptions::MAX_SIZE, max_size);
            MdSpec {
                length,
                threshold: (threshold < 3).then_some(threshold),
                max_size: max.min(length),
                options,
                unlink_when_exhausted: unlink,
                user: 0,
            }
        },
    );
    (me, md).prop_map(|(me, md)| Entry { me, md })
}

fn message() -> impl Strategy<Value = Message> {
    let offset = prop_oneof![9 => 0..25_u32, 1 => Just(u32::MAX)];
    (any::<bool>(), 0..4_u64, 0..12_u32, offset, process()).prop_map(
        |(get, bits, length, offset, source)| Message {
            get,
            bits,
            length,
            offset,
            source,
        },
    )
}

/// An entry of the model.
#[derive(Debug)]
struct Live {
    handle: MdHandle,
    me: MeSpec,
    md: MdSpec,
    offset: u64,
    threshold: Option<u32>,
}

impl Live {
    fn exhausted(&self) -> bool {
        let max = self.md.options.contains(MdOptions::MAX_SIZE);
        self.threshold == Some(0)
            || max && self.offset + u64::from(self.md.max_size) > u64::from(self.md.length)
    }

    fn takes(&self, message: &Message) -> bool {
        let bit = if message.get {
            MdOptions::OP_GET
        } else {
            MdOptions::OP_PUT
        };
        let ProcessId { nid, pid } = self.me.match_id;
        !self.exhausted()
            && self.md.options.contains(bit)
            && (self.me.match_bits ^ message.bits) & !self.me.ignore_bits == 0
            && (pid == ProcessId::ANY_PID || pid == message.source.pid)
            && (nid == Nid::ANY || nid == message.source.nid)
    }
}

type Outcome = Result<(MdHandle, u32, u32), DropReason>;

/// Gives a message to the first entry that fits, and unlinks what is used up.
fn model(list: &mut Vec<Live>, message: &Message) -> Outcome {
    let ignoring = |live: &Live| live.me.ignore_bits != 0;
    let found = (list
        .iter()
        .position(|live| ignoring(live) && live.takes(message)))
    .or_else(|| {
        list.iter()
            .position(|live| !ignoring(live) && live.takes(message))
    });
    let at = found.ok_or(DropReason::NoMatch)?;
    let live = &mut list[at];
    let remote = live.md.options.contains(MdOptions::MANAGE_REMOTE);
    let offset = if remote {
        u64::from(message.offset)
    } else {
        live.offset
    };
    let left = u64::from(live.md.length).saturating_sub(offset);
    let max = live.md.options.contains(MdOptions::MAX_SIZE);
    let allowed = if max {
        left.min(u64::from(live.md.max_size))
    } else {
        left
    };
    let wanted = u64::from(message.length);
    if wanted > allowed && !live.md.options.contains(MdOptions::TRUNCATE) {
        return Err(DropReason::TooLong);
    }
    let moved = wanted.min(allowed);
    live.offset = (offset + moved).min(u64::from(u32::MAX));
    live.threshold = live.threshold.map(|left| left - 1);
    let outcome = (live.handle, offset as u32, moved as u32);
    if live.exhausted() && live.md.unlink_when_exhausted {
        list.remove(at);
    }
    Ok(outcome)
}

struct Subject {
    core: Core,
    ni: NiId,
}

impl Subject {
    fn new(entries: &[Entry]) -> (Self, Vec<Live>) {
        let now = lnet_types::Time::ZERO;
        let mut core = Core::new(config(1), now);
        let tunables = Tunables::default();
        let ni = core
            .add_ni(
                NiConfig {
                    nid: nid("10.0.0.1@tcp"),
                    tunables,
                },
                now,
            )
            .unwrap();
        let mut list = Vec::new();
        for Entry { me, md } in entries {
            let entry = core.me_attach(*me).unwrap();
            let handle = core.md_attach(entry, *md, now).unwrap();
            let live = Live {
                handle,
                me: *me,
                md: *md,
                offset: 0,
                threshold: md.threshold,
            };
            match me.position {
                InsertPosition::Before => list.insert(0, live),
                InsertPosition::After => list.push(live),
            }
        }
        (Self { core, ni }, list)
    }

    fn offer(&mut self, message: &Message) -> Outcome {
        let now = lnet_types::Time::ZERO;
        let Message {
            get,
            bits: match_bits,
            length,
            offset,
            source,
        } = *message;
        let (ptl_index, none) = (PORTAL, Handle::NONE);
        let body = if get {
            let (return_wmd, src_offset, sink_length) = (none, offset, length);
            Body::Get(Get {
                return_wmd,
                match_bits,
                ptl_index,
                src_offset,
                sink_length,
            })
        } else {
            Body::Put(Put {
                ack_wmd: none,
                match_bits,
                hdr_data: 0,
                ptl_index,
                offset,
            })
        };
        let header = Header {
            dest_nid: nid("10.0.0.1@tcp"),
            src_nid: source.nid,
            dest_pid: 12345,
            src_pid: source.pid,
            payload_length: if get { 0 } else { length },
            body,
        };
        let verdict = self
            .core
            .header(self.ni, ProcessId::lustre(source.nid), &header, now);
        let rx = match verdict {
            Verdict::Receive { rx, .. } => rx,
            Verdict::Drop(reason) => return Err(reason),
            other => panic!("{other:?}"),
        };
        self.core.arrived(rx, Ok(()), now);
        let mut outcome = None;
        while let Some(output) = self.core.poll_output() {
            match output {
                Output::Transmit(transmit) => {
                    self.core.sent(transmit.tx, MessageStatus::Ok, now);
                }
                Output::Event(event) => outcome = Some((event.md, event.offset, event.mlength)),
                other => panic!("{other:?}"),
            }
        }
        Ok(outcome.expect("an event for every match"))
    }
}

fn agree(entries: &[Entry], messages: &[Message]) -> Result<(), TestCaseError> {
    let (mut subject, mut list) = Subject::new(entries);
    for message in messages {
        prop_assert_eq!(
            subject.offer(message),
            model(&mut list, message),
            "{:?}",
            message
        );
    }
    Ok(())
}

proptest! {
    // [DATA-13] [DATA-14]
    #[test]
    fn a_wildcard_portal_matches_as_a_plain_list_does(
        entries in proptest::collection::vec(entry(true), 0..8),
        messages in proptest::collection::vec(message(), 1..16),
    ) {
        agree(&entries, &messages)?;
    }

    #[test]
    fn a_unique_portal_matches_as_a_plain_list_does(
        entries in proptest::collection::vec(entry(false), 0..8),
        messages in proptest::collection::vec(message(), 1..16),
    ) {
        agree(&entries, &messages)?;
    }
}

#[test]
fn the_first_entry_decides_what_kind_a_portal_is() {
    let now = lnet_types::Time::ZERO;
    let mut core = Core::new(config(1), now);
    let wildcard = super::net::any_me();
    let unique = MeSpec {
        match_id: ProcessId::lustre(nid("10.0.0.2@tcp")),
        ..wildcard
    };
    let me = core.me_attach(unique).unwrap();
    assert_eq!(core.me_attach(wildcard), Err(PortalError::PortalKind(30)));
    core.me_unlink(me, now).unwrap();
    assert_eq!(
        core.me_attach(wildcard),
        Err(PortalError::PortalKind(30)),
        "for ever"
    );
    assert_eq!(core.me_unlink(me, now), Err(PortalError::UnknownHandle));
}

// [DATA-16]
#[test]
fn another_nid_of_the_same_peer_matches_too() {
    let source = ProcessId::lustre(nid("10.0.0.3@tcp"));
    let me = MeSpec {
        match_id: source,
        match_bits: 0,
        ..super::net::any_me()
    };
    let md = super::net::open_md(8);
    let (mut subject, _) = Subject::new(&[Entry { me, md }]);
    let other = ProcessId::lustre(nid("10.0.0.2@tcp"));
    let message = Message {
        get: false,
        bits: 0,
        length: 1,
        offset: 0,
        source: other,
    };
    assert_eq!(subject.offer(&message), Err(DropReason::NoMatch));
    subject
        .core
        .add_peer(other.nid, &[source.nid], true)
        .unwrap();
    assert!(subject.offer(&message).is_ok());
}
