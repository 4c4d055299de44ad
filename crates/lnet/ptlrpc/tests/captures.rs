//! The captures of a real client and its servers: every byte of every RPC has a name, and every request its reply.

#![allow(
    clippy::expect_used,
    clippy::unwrap_used,
    clippy::panic,
    reason = "a test fails by panicking, in its helpers too"
)]

use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::fs::File;
use std::io::BufReader;
use std::path::PathBuf;

use lnet_capture::{Decoder, Direction, Kind, LNET_PORT, Payload};
use lnet_ptlrpc::client::{Exchange, Export, Limits, Service, Start, Step};
use lnet_ptlrpc::{
    Body, End, Evidence, FileSystem, Message, Opened, Pairer, PortalUse, Records, Role, Rpc, Seen,
    evidence_of, fields, opcode_name, open, portal_use,
};
use lnet_types::Time;
use lnet_wire::{Body as LnetBody, Header};

/// The captures, or nothing where the folder of shared data is absent.
fn captures() -> Vec<PathBuf> {
    let folder = testkit::workspace::root().join("../shared/data/captures/ptlrpc");
    let Ok(entries) = std::fs::read_dir(&folder) else {
        eprintln!("skipped: {} is absent", folder.display());
        return Vec::new();
    };
    let mut files: Vec<PathBuf> = entries
        .map(|entry| entry.expect("an entry").path())
        .filter(|path| path.extension().is_some_and(|ext| ext == "pcap"))
        .collect();
    files.sort();
    assert!(!files.is_empty(), "no captures in {}", folder.display());
    files
}

fn keep(header: &Header) -> usize {
    match header.body {
        LnetBody::Put(put) if portal_use(put.ptl_index) != PortalUse::Bulk => 64 << 10,
        _ => 0,
    }
}

struct Heard {
    time: lnet_types::Time,
    place: u64,
    header: Header,
    payload: Vec<u8>,
}

/// All LNet messages of a capture.
fn messages(path: &PathBuf) -> Vec<Heard> {
    let file = BufReader::new(File::open(path).expect("the capture opens"));
    let mut all = Vec::new();
    let decoder = Decoder::new(&[LNET_PORT]).keeping(keep);
    let (_, result) = decoder.decode(file, |message| {
        if let Kind::Lnet(lnet) = message.kind {
            let head = match lnet.payload {
                Payload::Opaque { head, .. } => head,
                _ => &[],
            };
            let side = u64::from(message.direction == Direction::FromAcceptor);
            all.push(Heard {
                time: message.time,
                place: u64::from(message.connection.id) << 1 | side,
                header: lnet.header,
                payload: head.to_vec(),
            });
        }
        Ok(())
    });
    result.expect("the capture is readable");
    all
}

fn pair(path: &PathBuf) -> (Vec<Rpc>, Pairer, Vec<(Heard, Role)>) {
    let mut pairer = Pairer::default();
    let mut rpcs = Vec::new();
    let mut roles = Vec::new();
    for heard in messages(path) {
        let seen = Seen {
            time: heard.time,
            place: heard.place,
            header: &heard.header,
            head: &heard.payload,
        };
        let role = pairer.take(&seen, &mut |rpc| rpcs.push(rpc));
        roles.push((heard, role));
    }
    pairer.finish(&mut |rpc| rpcs.push(rpc));
    (rpcs, pairer, roles)
}

// [PTLRPC-12] [PTLRPC-1] [PTLRPC-3] [PTLRPC-13] [PTLRPC-14]
#[test]
fn no_byte_of_a_known_rpc_is_undecoded() {
    let mut checked = 0;
    let mut live = BTreeSet::new();
    for path in captures() {
        for (heard, role) in pair(&path).2 {
            let intent = match role {
                Role::Request(intent) | Role::Reply(intent) => intent,
                _ => continue,
            };
            let Ok(Opened::Clear(message, _)) = open(&heard.payload, heard.payload.len()) else {
                panic!("{}: not readable", path.display());
            };
            assert_eq!(heard.payload.len(), heard.header.payload_length as usize);
            let body = Body::of(&message).expect("a body");
            live.insert(body.opc());
            let mut at = 0;
            fields(&message, intent, &mut |field| {
                assert_eq!(field.at, at, "{field:?} leaves a gap or overlaps");
                assert!(
                    !field.is_undecoded(),
                    "{}: {} {}: {} bytes at {at}",
                    path.display(),
                    opcode_name(body.opc()).unwrap_or("?"),
                    if body.is_request() {
                        "request"
                    } else {
                        "reply"
                    },
                    field.bytes.len()
                );
                let _printed = field.to_string();
                at += field.bytes.len();
            });
            assert_eq!(at, heard.payload.len());
            checked += 1;
        }
    }
    if checked == 0 {
        return;
    }
    assert!(checked >= 270, "only {checked} messages");
    // The marks of the schemas are those of the captures: nothing is called live that was not seen.
    let marked: BTreeSet<u32> = lnet_ptlrpc::OPCODES
        .iter()
        .map(|(opc, _)| *opc)
        .filter(|opc| evidence_of(*opc) == Some(Evidence::Live))
        .collect();
    assert_eq!(marked, live);
}

// [PTLRPC-4] [PTLRPC-6] [PTLRPC-7]
#[test]
fn every_request_has_its_reply_and_every_bulk_its_request() {
    for path in captures() {
        let (rpcs, pairer, _) = pair(&path);
        let tally = &pairer.tally;
        assert!(!rpcs.is_empty(), "{}", path.display());
        let open: Vec<_> = rpcs.iter().filter(|rpc| rpc.end != End::Answered).collect();
        assert!(open.is_empty(), "{}: {open:#?}", path.display());
        assert_eq!(tally.orphan_replies, 0, "{}", path.display());
        assert_eq!(tally.orphan_bulk, 0, "{}", path.display());
        assert_eq!(tally.malformed, 0, "{}", path.display());
    }
}

/// Reads all blocks of configuration logs that a capture has.
fn file_system(path: &PathBuf) -> (FileSystem, Vec<String>) {
    let (mut system, mut lines) = (FileSystem::default(), Vec::new());
    for (heard, role) in pair(path).2 {
        let Ok(Opened::Clear(message, _)) = open(&heard.payload, heard.payload.len()) else {
            continue;
        };
        let is_block = Body::of(&message).is_some_and(|body| body.opc() == 502);
        let Some(block) = message
            .buffer(2)
            .filter(|_| is_block && matches!(role, Role::Reply(_)))
        else {
            continue;
        };
        for record in Records::new(block.bytes()) {
            let record = record.expect("a record");
            assert!(record.index > 0);
            if let Some(command) = record.command() {
                lines.push(command.to_string());
                system.take(&command);
            }
        }
    }
    (system, lines)
}

// [PTLRPC-17] [PTLRPC-18] [PTLRPC-19]
#[test]
fn log_of_a_mount_names_every_target_with_its_nid() {
    for path in captures() {
        if !path.ends_with("01-mount.pcap") {
            continue;
        }
        let (system, lines) = file_system(&path);
        assert!(
            lines
                .iter()
                .any(|line| line == "add_uuid 10.12.0.1@tcp2 10.12.0.1@tcp2"),
            "{lines:#?}"
        );
        assert!(system.problems.is_empty(), "{:?}", system.problems);
        let kinds: Vec<&str> = system
            .targets
            .keys()
            .map(|name| name.split_once('-').map_or("", |(_, kind)| kind))
            .collect();
        assert_eq!(
            kinds,
            ["MDT0000", "OST0000", "OST0001"],
            "{:?}",
            system.targets
        );
        for target in system.targets.values() {
            assert_eq!(target.nids, ["10.12.0.1@tcp2"]);
            assert!(!target.is_inactive);
        }
    }
}

/// The successful replies of a capture to an operation, in their order.
fn replies(path: &PathBuf, opc: u32) -> Vec<Vec<u8>> {
    let heard = pair(path).2.into_iter();
    let replies = heard.filter(|(heard, role)| {
        let is_reply = matches!(role, Role::Reply(_));
        let message = Message::parse(&heard.payload).ok();
        let body = message.and_then(|message| Body::of(&message));
        is_reply && body.is_some_and(|body| body.opc() == opc && body.status() == 0)
    });
    replies.map(|(heard, _)| heard.payload).collect()
}

// [PTLRPC-20] [PTLRPC-22]
#[test]
fn replies_of_a_real_mgs_give_a_check_the_same_targets() {
    for path in captures() {
        if !path.ends_with("01-mount.pcap") {
            continue;
        }
        let mut replies: BTreeMap<u32, VecDeque<Vec<u8>>> = BTreeMap::new();
        for operation in [250, 501, 503, 502] {
            replies.insert(operation, self::replies(&path, operation).into());
        }
        let system = file_system(&path).0;
        let fs = system
            .targets
            .keys()
            .next()
            .unwrap()
            .split_once('-')
            .unwrap()
            .0;
        let export = Export::new(Service::Mgs, "MGS", "a client".to_owned(), 7);
        let start = Start {
            first_xid: 1 << 40,
            limits: Limits::default(),
            now: Time::ZERO,
        };
        let mut exchange = Exchange::read_log(export, fs, start);
        let mut seen = Vec::new();
        while let Step::Send(request) = exchange.step(Time::ZERO) {
            let message = Message::parse(&request.bytes).unwrap();
            let opc = Body::of(&message).unwrap().opc();
            seen.push(opc);
            let queue = replies.get_mut(&opc);
            // The last header is read twice here: the log may have grown.
            let reply = queue.and_then(|queue| match queue.len() {
                1 => queue.front().cloned(),
                _ => queue.pop_front(),
            });
            let Some(reply) = reply else {
                break;
            };
            exchange.answer(request.match_bits, &reply, reply.len(), Time::ZERO);
            if seen.iter().filter(|seen| **seen == 501).count() > 1 {
                break;
            }
        }
        let granted = exchange.granted().expect("the MGS granted");
        assert_eq!(granted.release.to_string(), "2.17.57.62");
        assert_eq!(
            exchange.log().unwrap().0.targets,
            system.targets,
            "{seen:?}"
        );
    }
}
