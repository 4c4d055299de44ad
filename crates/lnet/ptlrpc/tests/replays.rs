//! A real client and its servers, each side replayed: our server answers the recorded requests of the client with the bytes
//! that the servers sent, and our client reads their replies to the end.

#![allow(
    clippy::expect_used,
    clippy::unwrap_used,
    clippy::panic,
    reason = "a test fails by panicking, in its helpers too"
)]

mod common;

use std::collections::{BTreeMap, BTreeSet};

use lnet_ptlrpc::client::{Ending, Exchange, Export, Limits, Service, Start, Step};
use lnet_ptlrpc::server::{LogWriter, Served, Server};
use lnet_ptlrpc::{Body, FileSystem, Message, Records, Role, Text, View, opc, portal};
use lnet_types::{Nid, Time};
use lnet_wire::Body as LnetBody;

use crate::common::captures::{captures, pair};

/// What our server can answer, and how often the client asked for it.
const ASKED: [(u32, usize); 13] = [
    (opc::OST_CONNECT, 2),
    (opc::OST_DISCONNECT, 2),
    (opc::MDS_CONNECT, 1),
    (opc::MDS_DISCONNECT, 1),
    (opc::MDS_STATFS, 2),
    (opc::MGS_CONNECT, 1),
    (opc::MGS_DISCONNECT, 1),
    (opc::MGS_CONFIG_READ, 1),
    (opc::OBD_PING, 2),
    // One of them for a log that the MGS does not have.
    (opc::LLOG_CREATE, 3),
    (opc::LLOG_NEXT_BLOCK, 2),
    (opc::LLOG_READ_HEADER, 2),
    (opc::OST_STATFS, 0),
];

/// Bytes of a reply that no other server can repeat.
struct Mask {
    /// The operations; none for every one.
    of: &'static [u32],
    /// The buffer, the offset in it, and the length.
    place: (usize, usize, usize),
    why: &'static str,
}

const CONNECTS: &[u32] = &[opc::MGS_CONNECT, opc::MDS_CONNECT, opc::OST_CONNECT];

const MASKS: &[Mask] = &[
    Mask {
        of: CONNECTS,
        place: (0, 0, 8),
        why: "the handle of the connection: the server draws it",
    },
    Mask {
        of: &[],
        place: (0, 40, 16),
        why: "the last transactions: what all clients changed so far",
    },
    Mask {
        of: &[],
        place: (0, 68, 8),
        why: "the times that the server needed, and expects to need",
    },
    Mask {
        of: &[],
        place: (0, 76, 12),
        why: "limit and volume of locks: the memory of the server",
    },
    Mask {
        of: &[opc::LLOG_CREATE, opc::LLOG_NEXT_BLOCK],
        place: (1, 0, 20),
        why: "the identifier of the log: the place of a file on the server",
    },
    Mask {
        of: &[opc::LLOG_READ_HEADER],
        place: (1, 16, 8),
        why: "when the log was made",
    },
    Mask {
        of: &[opc::LLOG_READ_HEADER],
        place: (1, 32, 4),
        why: "the size of the first record, which nobody needs",
    },
];

/// A request of the client with what the server sent.
struct Recorded {
    ends: (Nid, Nid),
    portal: u32,
    xid: u64,
    opc: u32,
    request: Vec<u8>,
    reply: Vec<u8>,
    bulk: Vec<u8>,
}

impl Recorded {
    fn asked(&self, buffer: usize) -> &[u8] {
        buffer_of(&self.request, buffer)
    }

    fn got(&self, buffer: usize) -> &[u8] {
        buffer_of(&self.reply, buffer)
    }

    /// Returns what is asked for: the target, the name of a log, or the place in it.
    fn key(&self) -> (u32, Vec<u8>) {
        key(&self.request)
    }
}

fn buffer_of(bytes: &[u8], index: usize) -> &[u8] {
    let message = Message::parse(bytes).expect("a message");
    message.buffer(index).map_or(&[], |view| view.bytes())
}

fn opc_of(bytes: &[u8]) -> u32 {
    let message = Message::parse(bytes).expect("a message");
    Body::of(&message).expect("a body").opc()
}

fn key(request: &[u8]) -> (u32, Vec<u8>) {
    let opc = opc_of(request);
    let what = match opc {
        opc::LLOG_CREATE => buffer_of(request, 2),
        connect if CONNECTS.contains(&connect) => Text::new(buffer_of(request, 1)).bytes(),
        _ => buffer_of(request, 1),
    };
    (opc, what.to_vec())
}

/// Everything that our server can answer, in the order of the captures, which are one mount; empty where they are absent.
fn recorded() -> Vec<Recorded> {
    let mut all: Vec<Recorded> = Vec::new();
    for (heard, role) in captures().iter().flat_map(|path| pair(path).2) {
        let LnetBody::Put(put) = heard.header.body else {
            continue;
        };
        let (from, to) = (heard.header.src_nid, heard.header.dest_nid);
        let asked = all
            .iter_mut()
            .find(|one| one.xid == put.match_bits && one.ends == (to, from));
        match (role, asked) {
            (Role::Request(_), _) => {
                let opc = opc_of(&heard.payload);
                if ASKED.iter().any(|(known, _)| *known == opc) {
                    all.push(Recorded {
                        ends: (from, to),
                        portal: put.ptl_index,
                        xid: put.match_bits,
                        opc,
                        request: heard.payload,
                        reply: Vec::new(),
                        bulk: Vec::new(),
                    });
                }
            }
            (Role::Reply(_), Some(asked)) => asked.reply = heard.payload,
            (Role::Bulk, Some(asked)) if put.ptl_index == portal::MGS_BULK => {
                asked.bulk = heard.payload;
            }
            _ => {}
        }
    }
    all
}

/// Returns the log whose blocks and header were read, as our server has it.
fn log_of(recorded: &[Recorded]) -> LogWriter {
    let of = |opc: u32| recorded.iter().find(|one| one.opc == opc).unwrap();
    let header = of(opc::LLOG_READ_HEADER).got(1);
    let mut log = LogWriter::default();
    for record in Records::new(of(opc::LLOG_NEXT_BLOCK).got(2)) {
        let record = record.expect("a record");
        let alive = header[88 + record.index as usize / 8] >> (record.index % 8) & 1;
        log.record(record.data.bytes(), alive == 1);
    }
    log
}

/// Returns our server with what the recorded ones had: the log, the table, the space, and what they grant.
fn server_of(recorded: &[Recorded]) -> Server {
    let mut targets = Vec::new();
    for connect in recorded.iter().filter(|one| CONNECTS.contains(&one.opc)) {
        let service = match connect.opc {
            opc::MGS_CONNECT => Service::Mgs,
            opc::MDS_CONNECT => Service::Mdt,
            _ => Service::Ost,
        };
        let name = Text::new(connect.asked(1)).to_string();
        let mut served = Served::new(service, &name);
        served.grants = connect.got(1).to_vec();
        match service {
            Service::Mgs => {
                let table = recorded.iter().find(|one| !one.bulk.is_empty()).unwrap();
                let newest = View::little(table.got(1)).u64(8).unwrap();
                served.tables.insert(newest, table.bulk.clone());
                served = served
                    .log("fr-client", log_of(recorded))
                    .log("params", LogWriter::default());
            }
            Service::Mdt => {
                let statfs = recorded.iter().find(|one| one.opc == opc::MDS_STATFS);
                served.statfs = statfs.unwrap().got(1).to_vec();
            }
            Service::Ost => {}
        }
        targets.push(served);
    }
    Server::new(targets)
}

/// The names that the recorded servers drew, and those that ours drew for the same.
#[derive(Default)]
struct Names {
    handles: BTreeMap<Vec<u8>, Vec<u8>>,
    logs: BTreeMap<Vec<u8>, Vec<u8>>,
}

impl Names {
    /// Returns a recorded request as the client would ask our server.
    fn translated(&self, one: &Recorded) -> Vec<u8> {
        let mut request = one.request.clone();
        let places = [(&self.handles, 0, 8), (&self.logs, 1, 20)];
        for (names, buffer, len) in places {
            let at = start_of(&request, buffer);
            let known = request.get(at..at + len).and_then(|old| names.get(old));
            if let Some(new) = known {
                request[at..at + len].copy_from_slice(new);
            }
        }
        request
    }

    fn learn(&mut self, one: &Recorded, reply: &[u8]) {
        let (names, buffer, len) = match one.opc {
            opc::LLOG_CREATE => (&mut self.logs, 1, 20),
            connect if CONNECTS.contains(&connect) => (&mut self.handles, 0, 8),
            _ => return,
        };
        let old = one.got(buffer)[..len].to_vec();
        let new = buffer_of(reply, buffer)[..len].to_vec();
        assert!(one.opc == opc::LLOG_CREATE || new.iter().any(|byte| *byte != 0));
        names.insert(old, new);
    }
}

/// Returns the offset of a buffer in its message.
fn start_of(bytes: &[u8], index: usize) -> usize {
    let message = Message::parse(bytes).expect("a message");
    let buffer = message.buffers().nth(index);
    buffer.map_or(bytes.len(), |buffer| buffer.at)
}

/// Returns the reply with all masks, and notes which of them are there.
fn masked(opc: u32, reply: &[u8]) -> Vec<u8> {
    let mut bytes = reply.to_vec();
    let masks = MASKS.iter();
    for Mask { place, .. } in masks.filter(|mask| mask.of.is_empty() || mask.of.contains(&opc)) {
        let (buffer, at, len) = *place;
        let at = start_of(reply, buffer) + at;
        if let Some(place) = bytes.get_mut(at..at + len) {
            place.fill(0);
        }
    }
    bytes
}

// [PTLRPC-3] [PTLRPC-20] [PTLRPC-22] [PTLRPC-24]
#[test]
fn our_server_answers_a_real_client_with_the_bytes_of_the_real_servers() {
    let all = recorded();
    if all.is_empty() {
        return;
    }
    for (opc, count) in ASKED {
        let found = all.iter().filter(|one| one.opc == opc).count();
        assert_eq!(found, count, "operation {opc}");
    }
    let mut server = server_of(&all);
    let mut names = Names::default();
    let mut needed = BTreeSet::new();
    for one in &all {
        let opc = one.opc;
        let answers = server.request(one.portal, one.xid, &names.translated(one));
        let (bulk, replies): (Vec<_>, Vec<_>) = answers
            .into_iter()
            .partition(|answer| answer.portal == portal::MGS_BULK);
        let bulk: Vec<u8> = bulk.into_iter().flat_map(|answer| answer.bytes).collect();
        assert_eq!(bulk, one.bulk, "bulk of operation {opc}");
        let [reply] = &replies[..] else {
            panic!("{} replies to operation {opc}", replies.len());
        };
        assert_eq!(reply.match_bits, one.xid);
        let (ours, theirs) = (masked(opc, &reply.bytes), masked(opc, &one.reply));
        let differs = (0..ours.len().max(theirs.len())).find(|at| ours.get(*at) != theirs.get(*at));
        assert_eq!(
            differs, None,
            "the reply to operation {opc} at this offset: {:02x?} and not {:02x?}",
            &reply.bytes, &one.reply
        );
        for (index, mask) in MASKS.iter().enumerate() {
            let (buffer, at, len) = mask.place;
            let bytes = |reply: &[u8]| {
                buffer_of(reply, buffer)
                    .get(at..at + len)
                    .map(<[u8]>::to_vec)
            };
            let is_of = mask.of.is_empty() || mask.of.contains(&opc);
            if is_of && bytes(&reply.bytes) != bytes(&one.reply) {
                needed.insert(index);
            }
        }
        names.learn(one, &reply.bytes);
        // Any other byte that differs is seen: the comparison hides nothing but the masks.
        let mut planted = reply.bytes.clone();
        planted[start_of(&reply.bytes, 0) + 16] ^= 1;
        assert_ne!(masked(opc, &planted), theirs);
    }
    assert_eq!(
        server.connected(),
        [],
        "the client has ended its connections"
    );
    for (index, mask) in MASKS.iter().enumerate() {
        assert!(
            needed.contains(&index),
            "nothing needs the mask of {}",
            mask.why
        );
    }
}

fn begin() -> Start {
    Start {
        first_xid: 1 << 40,
        limits: Limits::default(),
        now: Time::ZERO,
    }
}

/// Runs a conversation of ours against the recorded replies to the same questions. Returns the operations it asked for.
fn run(exchange: &mut Exchange, all: &[Recorded]) -> Vec<u32> {
    let mut seen = Vec::new();
    for _ in 0..100 {
        let request = match exchange.step(Time::ZERO) {
            Step::Send(request) => request,
            Step::Over => return seen,
            Step::Wait(_) => panic!("a wait after {seen:?}"),
        };
        let (opc, what) = key(&request.bytes);
        seen.push(opc);
        let found = all.iter().find(|one| one.key() == (opc, what.clone()));
        let Some(one) = found else {
            panic!("nobody asked operation {opc} for {what:02x?}");
        };
        assert_eq!(request.portal, one.portal);
        if !one.bulk.is_empty() {
            exchange.bulk(request.match_bits, &one.bulk);
        }
        exchange.answer(request.match_bits, &one.reply, one.reply.len(), Time::ZERO);
    }
    panic!("no end after {seen:?}");
}

// [PTLRPC-20] [PTLRPC-22] [PTLRPC-24]
#[test]
fn replies_of_a_real_mgs_give_a_check_the_same_targets_to_the_end() {
    let all = recorded();
    if all.is_empty() {
        return;
    }
    let export = Export::new(Service::Mgs, "MGS", "a client".to_owned(), 7);
    let mut exchange = Exchange::read_log(export, "fr", begin());
    let asked = run(&mut exchange, &all);
    let expected = [
        opc::MGS_CONNECT,
        opc::LLOG_CREATE,
        opc::LLOG_READ_HEADER,
        opc::LLOG_NEXT_BLOCK,
        // The log may have grown.
        opc::LLOG_READ_HEADER,
        // The rules of security, which this file system does not have.
        opc::LLOG_CREATE,
        opc::MGS_CONFIG_READ,
        opc::MGS_DISCONNECT,
    ];
    assert_eq!(asked, expected);
    assert_eq!(exchange.failure(), None);
    assert_eq!((exchange.ending(), exchange.strays()), (&Ending::Clean, 0));
    let granted = exchange.granted().expect("the MGS granted");
    assert_eq!(granted.release.to_string(), "2.17.57.62");
    assert_eq!(granted.instance, 0);
    let (found, rules) = exchange.log().unwrap();
    assert!(rules.texts().is_empty() && found.problems.is_empty());
    let mut system = FileSystem::default();
    let block = all.iter().find(|one| one.opc == opc::LLOG_NEXT_BLOCK);
    for record in Records::new(block.unwrap().got(2)) {
        if let Some(command) = record.expect("a record").command() {
            system.take(&command);
        }
    }
    assert_eq!(system.targets.len(), 3);
    for (name, target) in &system.targets {
        let found = &found.targets[name];
        assert_eq!((&found.nids, found.index), (&target.nids, target.index));
        // The table says that each is where the log has it.
        assert_eq!(found.now, target.nids, "{name}");
    }
}

#[test]
fn replies_of_a_real_target_are_understood() {
    let all = recorded();
    if all.is_empty() {
        return;
    }
    let export = Export::new(Service::Mdt, "fr-MDT0000_UUID", "a client".to_owned(), 7);
    let mut exchange = Exchange::knock(export, begin());
    // The client pinged other targets of that node.
    let ping = |one: &Recorded| one.opc == opc::OBD_PING;
    let mut mdt: Vec<Recorded> = recorded().into_iter().filter(|one| !ping(one)).collect();
    mdt.extend(recorded().into_iter().filter(ping).map(|one| Recorded {
        portal: portal::MDS_REQUEST,
        ..one
    }));
    let asked = run(&mut exchange, &mdt);
    let expected = [
        opc::MDS_CONNECT,
        opc::OBD_PING,
        opc::MDS_STATFS,
        opc::MDS_DISCONNECT,
    ];
    assert_eq!(asked, expected);
    assert_eq!(
        (exchange.failure(), exchange.ending()),
        (None, &Ending::Clean)
    );
    assert_eq!(exchange.granted().unwrap().instance, 1);
    assert_eq!(exchange.statfs().unwrap().state, 0);
}
