//! Incompatible versions, from the point of view of the library: a daemon that is newer, and one that rejects
//! the library's version. The library fails at once instead of waiting.

use std::io::Write;
use std::os::unix::net::UnixListener;

use bmi::Error;
use tempfile::TempDir;
use zoid::{Options, Zoid};
use zoid_proto::Status;
use zoid_proto::ctl::{Reply, Request};
use zoid_proto::fwd::{Frame, FrameHeader, Welcome};

use crate::plugin::{INIT, Plugin};

/// The status with which a daemon rejects a version: EPROTONOSUPPORT.
const NOT_MY_VERSION: Status = Status(-(45 | 1 << 30 | 1 << 7));

/// Returns the error of a client whose daemon answers HELLO with these bytes.
fn client_told(welcome: Vec<u8>) -> Error {
    let directory = TempDir::new().unwrap();
    let socket = directory.path().join("socket");
    let listener = UnixListener::bind(&socket).unwrap();
    let daemon = std::thread::spawn(move || {
        let (mut stream, _) = listener.accept().unwrap();
        stream.write_all(&welcome).unwrap();
        stream
    });
    let options = Options {
        socket: Some(socket),
        ..Options::default()
    };
    let client = bmi::Bmi::builder().method(Zoid::new(options)).start();
    let told = client.unwrap().lookup("zoid://").unwrap_err();
    drop(daemon.join());
    told
}

fn welcome(version: u16, status: Status) -> Vec<u8> {
    let frame = Frame::Welcome(Welcome {
        version,
        pid: 0,
        epoch: 1,
        heartbeat_ms: 1000,
        ..Welcome::default()
    });
    let mut bytes = vec![0; frame.encoded_len()];
    let header = FrameHeader::new(frame.frame_type(), 0).with_status(status);
    frame.encode(header, &mut bytes).unwrap();
    bytes
}

// [FWD-11]
#[test]
fn a_client_is_told_when_the_daemon_does_not_speak_its_version() {
    let refused = welcome(2, NOT_MY_VERSION);
    assert_eq!(client_told(refused), Error::ProtoNoSupport);
    assert_eq!(client_told(welcome(2, Status::NONE)), Error::ProtoNoSupport);
    let mut newer_frame = welcome(1, Status::NONE);
    newer_frame[4] = 2;
    assert_eq!(client_told(newer_frame), Error::Proto);
}

// [SEG-3]
#[test]
fn a_server_is_told_when_the_segment_is_of_another_version() {
    let plugin = Plugin::raw(2, |_, _, request| panic!("{request:?}"));
    assert_eq!(plugin.refuses(), Error::ProtoNoSupport);
}

#[test]
fn a_server_is_told_when_the_daemon_answers_in_another_version() {
    let plugin = Plugin::raw(1, |desk, header, _| {
        let mut message = [0; 4096];
        let init = Reply::Init(INIT);
        let len = init.encode(desk.header(header), &mut message).unwrap();
        message[4] = 2;
        desk.put(header, &message[..len]);
    });
    assert_eq!(plugin.refuses(), Error::ProtoNoSupport);
}

#[test]
fn a_server_is_told_when_the_daemon_refuses_its_version() {
    let plugin = Plugin::raw(1, |desk, header, request| {
        assert!(matches!(request, Request::Init(_)));
        desk.reject(header, NOT_MY_VERSION);
    });
    assert_eq!(plugin.refuses(), Error::ProtoNoSupport);
}
