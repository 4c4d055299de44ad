//! The messages of two nodes on a connection, made with the encoders of `lnet-wire`.

use lnet_types::Nid;
use lnet_wire::{
    Body, Connreq, Ctype, Get, Handle, Header, HeaderForm, Hello, KsockHeader, LNET_PORTAL,
    NiStatus, PING_MATCH_BITS, PingFeatures, PingInfoRepr, PingNi, Put, Reply,
};

/// Both directions of a conversation.
#[derive(Clone, Debug, Default)]
pub(crate) struct Talk {
    pub(crate) dialler: Vec<u8>,
    pub(crate) listener: Vec<u8>,
}

pub(crate) fn nid(text: &str) -> Nid {
    text.parse().expect("a NID")
}

pub(crate) fn connreq() -> Vec<u8> {
    let mut bytes = vec![0; Connreq::MAX_LEN];
    let length = Connreq::to(nid("10.0.0.2@tcp"))
        .encode(&mut bytes)
        .expect("it fits");
    bytes.truncate(length);
    bytes
}

pub(crate) fn dial_hello() -> Hello {
    Hello::dial(nid("10.0.0.1@tcp"), nid("10.0.0.2@tcp"), 77, Ctype::CONTROL)
}

pub(crate) fn hello(hello: &Hello) -> Vec<u8> {
    let mut bytes = vec![0; Hello::MAX_LEN];
    let length = hello.encode(&mut bytes).expect("it fits");
    bytes.truncate(length);
    bytes
}

pub(crate) fn answer(ctype: Ctype) -> Vec<u8> {
    hello(&dial_hello().reply(nid("10.0.0.2@tcp"), 88, ctype))
}

/// A frame from the dialler (or back), with its payload.
pub(crate) fn frame(to_listener: bool, body: Body, payload: &[u8]) -> Vec<u8> {
    let (src_nid, dest_nid) = match to_listener {
        true => (nid("10.0.0.1@tcp"), nid("10.0.0.2@tcp")),
        false => (nid("10.0.0.2@tcp"), nid("10.0.0.1@tcp")),
    };
    let payload_length = payload.len() as u32;
    let header = Header {
        dest_nid,
        src_nid,
        dest_pid: 12345,
        src_pid: 12345,
        payload_length,
        body,
    };
    let mut bytes = KsockHeader::LNET.to_bytes().to_vec();
    let mut encoded = vec![0; HeaderForm::Nid4.len()];
    header
        .encode(HeaderForm::Nid4, &mut encoded)
        .expect("it fits");
    bytes.extend(encoded);
    bytes.extend(payload);
    bytes
}

pub(crate) fn ping() -> Vec<u8> {
    let body = Body::Get(Get {
        return_wmd: Handle {
            interface: 5,
            object: 6,
        },
        match_bits: PING_MATCH_BITS,
        ptl_index: LNET_PORTAL,
        src_offset: 0,
        sink_length: 272,
    });
    frame(true, body, &[])
}

pub(crate) fn ping_reply() -> Vec<u8> {
    let nis = [PingNi {
        nid: nid("10.0.0.2@tcp"),
        status: NiStatus::UP,
    }];
    let features = PingFeatures::NI_STATUS | PingFeatures::RTE_DISABLED;
    let info = PingInfoRepr {
        features,
        pid: 12345,
        sequence: 2,
        nis: &nis,
    };
    let mut payload = vec![0; info.encoded_len()];
    info.encode(&mut payload).expect("it fits");
    frame(
        false,
        Body::Reply(Reply {
            dst_wmd: Handle {
                interface: 5,
                object: 6,
            },
        }),
        &payload,
    )
}

pub(crate) fn put(length: usize) -> Vec<u8> {
    let body = Body::Put(Put {
        ack_wmd: Handle::NONE,
        match_bits: 9,
        hdr_data: 3,
        ptl_index: 40,
        offset: 0,
    });
    // Payload that resembles frames: it consists of frame types.
    let payload: Vec<u8> = [0xC1, 0, 0, 0, 0, 0, 0, 0]
        .into_iter()
        .cycle()
        .take(length)
        .collect();
    frame(true, body, &payload)
}

/// A handshake, a ping, three PUTs, keepalives.
pub(crate) fn conversation() -> Talk {
    let keepalive = KsockHeader::KEEPALIVE.to_bytes();
    let dialler = [
        connreq(),
        hello(&dial_hello()),
        ping(),
        put(700),
        put(0),
        keepalive.to_vec(),
        put(33),
    ];
    let listener = [
        answer(Ctype::CONTROL),
        ping_reply(),
        keepalive.to_vec(),
        keepalive.to_vec(),
    ];
    Talk {
        dialler: dialler.concat(),
        listener: listener.concat(),
    }
}

/// The items in [`conversation`], by name.
pub(crate) const DIALLER_SAYS: [&str; 7] = ["CONNREQ", "HELLO", "GET", "PUT", "PUT", "NOOP", "PUT"];
pub(crate) const LISTENER_SAYS: [&str; 4] = ["HELLO", "REPLY", "NOOP", "NOOP"];
