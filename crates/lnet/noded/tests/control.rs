//! Tests of the control endpoint from outside: permissions, rule blocks, malformed frames, slow clients.

#![expect(clippy::unwrap_used, reason = "test code")]

mod common;

use std::fs;
use std::io::{ErrorKind, Read, Write};
use std::os::unix::fs::PermissionsExt;
use std::os::unix::net::UnixStream;
use std::path::PathBuf;
use std::sync::Barrier;
use std::thread;

use lnet_dlc::protocol::{Code, Frame, Header, HealthTarget, ImportMode, Reply, Request};
use lnet_noded::{ControlEndpoint, ControlError, ControlOptions, ManagedNode};
use lnet_policy::{DesignRules, Priority, RuleBlock, RuleList, RuleType};
use tempfile::TempDir;

use common::{PATIENCE, start};

struct Bed {
    node: ManagedNode,
    endpoint: ControlEndpoint,
    _directory: TempDir,
}

impl Bed {
    fn new() -> Self {
        Self::with("")
    }

    /// Starts a node with further sections of configuration.
    fn with(rest: &str) -> Self {
        let directory = tempfile::tempdir().unwrap();
        let node = start(testkit::port(), &["127.0.0.1@tcp"], rest);
        let endpoint = ControlEndpoint::open(&node, &at(directory.path().join("c"))).unwrap();
        Self {
            node,
            endpoint,
            _directory: directory,
        }
    }

    fn connect(&self) -> UnixStream {
        let stream = UnixStream::connect(self.endpoint.path()).unwrap();
        stream.set_read_timeout(Some(PATIENCE)).unwrap();
        stream
    }
}

fn at(path: PathBuf) -> ControlOptions {
    ControlOptions { path, group: None }
}

fn ask(stream: &mut UnixStream, code: Code, body: &[u8]) -> Frame {
    ask_seen(stream, code, 0, body)
}

fn ask_seen(stream: &mut UnixStream, code: Code, generation: u32, body: &[u8]) -> Frame {
    let frame = Frame {
        more: false,
        code,
        sequence: 41,
        status: 0,
        generation,
        body: body.to_vec(),
    };
    stream.write_all(&frame.to_bytes().unwrap()).unwrap();
    read(stream)
}

fn read(stream: &mut UnixStream) -> Frame {
    let mut bytes = [0; Header::LEN];
    stream.read_exact(&mut bytes).unwrap();
    let header = Header::parse(&bytes).unwrap();
    let mut body = vec![0; header.length as usize];
    stream.read_exact(&mut body).unwrap();
    Frame {
        more: header.more,
        code: header.code,
        sequence: header.sequence,
        status: header.status,
        generation: header.generation,
        body,
    }
}

/// Asserts that the node has closed the connection and sends nothing more.
fn assert_cut_off(stream: &mut UnixStream) {
    let mut byte = [0];
    let ended = match stream.read(&mut byte) {
        Ok(count) => count == 0,
        Err(error) => error.kind() == ErrorKind::ConnectionReset,
    };
    assert!(ended, "the connection goes on");
}

fn net_rules() -> RuleBlock {
    let mut rules = RuleList::new();
    let mut design = DesignRules::new(&mut rules);
    design.add_net("tcp", Priority::new(2).unwrap()).unwrap();
    RuleBlock::from_list(&rules, RuleType::Net).unwrap()
}

#[test]
fn rules_that_were_added_are_given_back_byte_for_byte() {
    let bed = Bed::new();
    let stream = &mut bed.connect();
    let block = net_rules().encode().unwrap();
    let added = ask(stream, Code::IOC_LIBCFS_ADD_RULES, &block);
    assert_eq!((added.status, added.sequence, added.body), (0, 41, vec![]));
    let wanted = (RuleType::Net as u32).to_le_bytes();
    let got = ask(stream, Code::IOC_LIBCFS_GET_RULES, &wanted);
    assert_eq!((got.status, got.more, got.body), (0, false, block));
}

#[test]
fn rules_of_the_configuration_are_in_force_from_the_start() {
    let bed = Bed::with("udsp: [{src: tcp, priority: 2}, {dst: tcp, priority: 2}]\n");
    let wanted = (RuleType::Net as u32).to_le_bytes();
    let got = ask(&mut bed.connect(), Code::IOC_LIBCFS_GET_RULES, &wanted);
    assert_eq!(got.body, net_rules().encode().unwrap());
}

#[test]
fn a_malformed_block_is_refused_with_its_errno_and_changes_nothing() {
    let bed = Bed::new();
    let stream = &mut bed.connect();
    let block = net_rules().encode().unwrap();
    ask(stream, Code::IOC_LIBCFS_ADD_RULES, &block);
    let refused = ask(stream, Code::IOC_LIBCFS_ADD_RULES, &block[..30]);
    assert_eq!(refused.status, -22);
    assert!(matches!(
        Reply::from_body(&refused.body),
        Ok(Reply::Failed(_))
    ));
    let wanted = (RuleType::Net as u32).to_le_bytes();
    assert_eq!(ask(stream, Code::IOC_LIBCFS_GET_RULES, &wanted).body, block);
}

#[test]
fn an_unknown_rule_type_and_an_unknown_code_are_refused_and_the_connection_goes_on() {
    let bed = Bed::new();
    let stream = &mut bed.connect();
    assert_eq!(
        ask(stream, Code::IOC_LIBCFS_GET_RULES, &[9, 0, 0, 0]).status,
        -22
    );
    assert_eq!(ask(stream, Code(77), b"").status, -95);
    assert_eq!(ask(stream, Code::DOCUMENT, b"{").status, -22);
    let block = net_rules().encode().unwrap();
    assert_eq!(ask(stream, Code::IOC_LIBCFS_ADD_RULES, &block).status, 0);
}

#[test]
fn rules_for_a_list_that_has_changed_are_refused_and_change_nothing() {
    let bed = Bed::new();
    let stream = &mut bed.connect();
    let wanted = (RuleType::Net as u32).to_le_bytes();
    let seen = ask(stream, Code::IOC_LIBCFS_GET_RULES, &wanted).generation;
    assert_ne!(seen, 0);
    let block = net_rules().encode().unwrap();
    let changed = ask(stream, Code::IOC_LIBCFS_ADD_RULES, &block);
    assert_ne!(changed.generation, seen);

    let empty = RuleBlock::from_list(&RuleList::new(), RuleType::Net).unwrap();
    let empty = empty.encode().unwrap();
    let late = ask_seen(stream, Code::IOC_LIBCFS_ADD_RULES, seen, &empty);
    assert_eq!((late.status, late.generation), (-116, changed.generation));
    assert_eq!(ask(stream, Code::IOC_LIBCFS_GET_RULES, &wanted).body, block);

    let timely = ask_seen(stream, Code::IOC_LIBCFS_ADD_RULES, late.generation, &empty);
    assert_eq!(timely.status, 0);
    assert_eq!(ask(stream, Code::IOC_LIBCFS_GET_RULES, &wanted).body, empty);
}

#[test]
fn an_import_that_changes_rules_makes_their_generation_another_one() {
    let bed = Bed::new();
    let stream = &mut bed.connect();
    let wanted = (RuleType::Net as u32).to_le_bytes();
    let seen = ask(stream, Code::IOC_LIBCFS_GET_RULES, &wanted).generation;
    let import = Request::Import {
        yaml: "udsp: [{src: tcp, priority: 2}]\n".to_owned(),
        mode: ImportMode::Add,
        partial: false,
        dry_run: false,
    };
    let imported = ask(stream, Code::DOCUMENT, &import.to_body().unwrap());
    assert_eq!(imported.status, 0);
    let block = net_rules().encode().unwrap();
    let late = ask_seen(stream, Code::IOC_LIBCFS_ADD_RULES, seen, &block);
    assert_eq!(late.status, -116);
}

/// A client of another version can then tell which version the node speaks.
#[test]
fn a_frame_of_another_version_is_answered_with_one_of_ours_and_the_end() {
    let bed = Bed::new();
    let stream = &mut bed.connect();
    let mut old = [0; Header::LEN];
    old[..6].copy_from_slice(b"FLCT\x01\x00");
    stream.write_all(&old).unwrap();
    let answer = read(stream);
    assert_eq!((answer.status, answer.body), (-93, vec![]));
    assert_cut_off(stream);
}

#[test]
fn health_is_set_for_what_exists_only() {
    let bed = Bed::new();
    let stream = &mut bed.connect();
    let mut set = |nid: &str, health| {
        let target = HealthTarget::Ni(nid.into());
        let body = Request::SetHealth { target, health }.to_body().unwrap();
        ask(stream, Code::DOCUMENT, &body).status
    };
    assert_eq!(set("127.0.0.1@tcp", 400), 0);
    assert_eq!(set("127.0.0.2@tcp", 400), -2);
    assert_eq!(set("nonsense", 400), -22);
    assert_eq!(set("127.0.0.1@tcp", 1001), -22);
}

#[test]
fn bytes_that_are_no_frame_end_the_connection_and_no_other() {
    let bed = Bed::new();
    let good = &mut bed.connect();
    for bytes in [[0xff; 32], *b"GET / HTTP/1.1\r\nHost: localhost\r"] {
        let mut bad = bed.connect();
        bad.write_all(&bytes).unwrap();
        assert_cut_off(&mut bad);
    }
    let block = net_rules().encode().unwrap();
    assert_eq!(ask(good, Code::IOC_LIBCFS_ADD_RULES, &block).status, 0);
}

#[test]
fn a_client_that_stops_in_the_middle_stalls_nobody() {
    let bed = Bed::new();
    let mut slow = bed.connect();
    slow.write_all(b"FLCT").unwrap();
    let block = net_rules().encode().unwrap();
    assert_eq!(
        ask(&mut bed.connect(), Code::IOC_LIBCFS_ADD_RULES, &block).status,
        0
    );
    assert!(bed.node.node().stats().nis.len() > 1);
}

#[test]
fn connections_are_limited_and_come_free_again() {
    let bed = Bed::new();
    let block = net_rules().encode().unwrap();
    let mut open: Vec<UnixStream> = (0..32).map(|_| bed.connect()).collect();
    for stream in &mut open {
        assert_eq!(ask(stream, Code::IOC_LIBCFS_ADD_RULES, &block).status, 0);
    }
    let mut refused = bed.connect();
    let told = read(&mut refused);
    assert_eq!((told.code, told.status), (Code::NOT_SERVED, -11));
    let why = String::from_utf8(told.body).unwrap();
    assert!(why.contains("32 connections are open already"), "{why}");
    assert_cut_off(&mut refused);
    drop(open);
    let served = (0..1000).any(|_| {
        let mut stream = bed.connect();
        let frame = Frame {
            more: false,
            code: Code::IOC_LIBCFS_ADD_RULES,
            sequence: 1,
            status: 0,
            generation: 0,
            body: block.clone(),
        };
        let asked = stream.write_all(&frame.to_bytes().unwrap());
        let mut bytes = [0; Header::LEN];
        let is_answer = |bytes| Header::parse(bytes).is_ok_and(|header| header.status == 0);
        asked.is_ok() && stream.read_exact(&mut bytes).is_ok() && is_answer(&bytes)
    });
    assert!(served, "no connection came free");
}

#[test]
fn the_socket_is_for_its_owner_and_goes_with_the_endpoint() {
    let bed = Bed::new();
    let path = bed.endpoint.path().to_owned();
    let mode = fs::metadata(&path).unwrap().permissions().mode();
    assert_eq!(mode & 0o777, 0o600);
    let mut open = bed.connect();
    drop(bed.endpoint);
    assert_cut_off(&mut open);
    assert!(!path.exists());
}

#[test]
fn an_endpoint_ends_though_somebody_has_removed_its_path() {
    let bed = Bed::new();
    fs::remove_file(bed.endpoint.path()).unwrap();
    drop(bed.endpoint);
}

#[test]
fn of_nodes_that_start_at_the_same_moment_one_gets_the_path() {
    let bed = Bed::new();
    for round in 0..20 {
        let path = bed.endpoint.path().with_extension(round.to_string());
        let start = Barrier::new(8);
        let open = || {
            start.wait();
            ControlEndpoint::open(&bed.node, &at(path.clone()))
        };
        let opened: Vec<_> = thread::scope(|scope| {
            let nodes: Vec<_> = (0..8).map(|_| scope.spawn(open)).collect();
            nodes.into_iter().map(|node| node.join().unwrap()).collect()
        });
        assert_eq!(opened.iter().filter(|done| done.is_ok()).count(), 1);
        assert!(UnixStream::connect(&path).is_ok());
    }
}

#[test]
fn a_path_in_use_is_refused_a_dead_socket_is_replaced_and_a_file_is_kept() {
    let bed = Bed::new();
    let path = bed.endpoint.path().to_owned();
    let again = ControlEndpoint::open(&bed.node, &at(path.clone()));
    assert!(matches!(again, Err(ControlError::InUse(_))));

    let dead = path.with_extension("dead");
    drop(std::os::unix::net::UnixListener::bind(&dead).unwrap());
    assert!(ControlEndpoint::open(&bed.node, &at(dead)).is_ok());

    let file = path.with_extension("file");
    fs::write(&file, "precious").unwrap();
    let onto = ControlEndpoint::open(&bed.node, &at(file.clone()));
    assert!(matches!(onto, Err(ControlError::NotASocket(_))));
    assert_eq!(fs::read_to_string(&file).unwrap(), "precious");
}
