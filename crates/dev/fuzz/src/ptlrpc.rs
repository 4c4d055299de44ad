//! Lustre's RPCs: bytes as a message, and bytes as a stream of messages that are paired.

use lnet_ptlrpc::{FileSystem, Opened, Pairer, Records, Seen, bytes_asked, fields, open, subject};
use lnet_types::{Net, Nid, Time};
use lnet_wire::{Body, Get, Handle, Header, Put};

/// Any bytes are a message or an error, and the fields of a message cover its bytes in order. Cut into pieces, the bytes
/// are requests, replies and bulk: every request ends exactly once.
pub fn ptlrpc(data: &[u8]) {
    one(data);
    log(data);
    stream(data);
}

fn one(data: &[u8]) {
    let Ok(Opened::Clear(message, _)) = open(data, data.len()) else {
        return;
    };
    let present = message.view().bytes().len();
    let intent = data.first().map(|byte| u64::from(*byte));
    let mut at = 0;
    fields(&message, intent, &mut |field| {
        assert_eq!(field.at, at, "fields overlap or leave a gap");
        at += field.bytes.len();
        let _printed = field.to_string();
    });
    assert_eq!(at, present, "bytes without a field");
    let line = subject(&message);
    assert!(!line.chars().any(char::is_control), "{line:?}");
    let _asked = bytes_asked(&message);
}

fn log(data: &[u8]) {
    let mut system = FileSystem::default();
    for record in Records::new(data).flatten() {
        if let Some(command) = record.command() {
            let line = command.to_string();
            assert!(!line.chars().any(char::is_control), "{line:?}");
            system.take(&command);
        }
    }
}

/// The bytes of one message of the stream: kind, match bits, portal, place, length of its payload in units of 8.
const HEAD: usize = 5;

fn stream(data: &[u8]) {
    let mut pairer = Pairer::default();
    let (mut rest, mut ended, mut time) = (data, 0u64, 0);
    while let Some((head, behind)) = rest.split_at_checked(HEAD) {
        let len = (usize::from(head[4]) * 8).min(behind.len());
        let (payload, behind) = behind.split_at(len);
        rest = behind;
        time += u64::from(head[3]);
        let header = header(head, len);
        let seen = Seen {
            time: Time::from_secs(time),
            place: u64::from(head[3] & 3),
            header: &header,
            head: payload,
        };
        let _role = pairer.take(&seen, &mut |_| ended += 1);
    }
    pairer.finish(&mut |_| ended += 1);
    assert_eq!(pairer.outstanding(), 0);
    assert_eq!(pairer.tally.rpcs, ended);
}

fn header(head: &[u8], len: usize) -> Header {
    let node = |number: u8| Nid::from_ip(Net::tcp(0), [10, 0, 0, number & 3].into());
    let (match_bits, ptl_index) = (u64::from(head[1]), u32::from(head[2] % 64));
    let handle = Handle {
        interface: 1,
        object: u64::from(head[1]),
    };
    let body = match head[0] % 4 {
        0 | 1 => Body::Put(Put {
            ack_wmd: Handle::NONE,
            match_bits,
            hdr_data: 0,
            ptl_index,
            offset: u32::from(head[0] >> 4),
        }),
        2 => Body::Get(Get {
            return_wmd: handle,
            match_bits,
            ptl_index,
            src_offset: 0,
            sink_length: 4096,
        }),
        _ => Body::Reply(lnet_wire::Reply { dst_wmd: handle }),
    };
    Header {
        dest_nid: node(head[0] >> 2),
        src_nid: node(head[0] >> 4),
        dest_pid: 12345,
        src_pid: 12345,
        payload_length: len as u32,
        body,
    }
}
