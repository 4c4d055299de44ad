//! The vectors of the published specification, `docs/protocol/vectors.md`: each is decoded, and encoded to the same
//! bytes.

use lnet_wire::{
    Connreq, FrameType, Header, HeaderForm, Hello, HelloVersion, KsockHeader, PingInfo,
    PingInfoRepr, PingNi,
};

use crate::hex;

const VECTORS: &str = include_str!("../../../../../docs/protocol/vectors.md");

/// The vectors with their names: a `##` heading, and the block of hexadecimal digits below it.
fn vectors() -> Vec<(&'static str, Vec<u8>)> {
    let sections = VECTORS.split("\n## ").skip(1);
    let read = |section: &'static str| {
        let (name, rest) = section.split_once('\n').unwrap();
        let (_, block) = rest.split_once("```hex\n").unwrap();
        let (block, _) = block.split_once("```").unwrap();
        let lines = block.lines().map(|line| line.split('#').next().unwrap());
        (name, hex(&lines.collect::<String>()))
    };
    sections.map(read).collect()
}

fn request(bytes: &[u8]) -> Vec<u8> {
    let mut encoded = [0xAA; Connreq::MAX_LEN];
    let connreq = Connreq::decode(bytes).unwrap();
    let len = connreq.encode(&mut encoded).unwrap();
    encoded[..len].to_vec()
}

fn hello(bytes: &[u8]) -> Vec<u8> {
    let mut encoded = [0xAA; Hello::MAX_LEN];
    let len = Hello::decode(bytes)
        .unwrap()
        .hello
        .encode(&mut encoded)
        .unwrap();
    encoded[..len].to_vec()
}

fn frame(bytes: &[u8]) -> Vec<u8> {
    let (ksock, rest) = bytes.split_at(KsockHeader::LEN);
    let order = KsockHeader::order_of(ksock).unwrap();
    let frame = KsockHeader::decode(order, ksock).unwrap();
    let mut encoded = frame.to_bytes().to_vec();
    if frame.frame_type == FrameType::Lnet {
        let mut header = [0xAA; 72];
        let form = HelloVersion::V3.header_form();
        assert_eq!(form, HeaderForm::Nid4);
        Header::decode(form, rest)
            .unwrap()
            .encode(form, &mut header)
            .unwrap();
        encoded.extend_from_slice(&header);
    }
    encoded
}

fn info(bytes: &[u8]) -> Vec<u8> {
    let info = PingInfo::parse(bytes).unwrap();
    info.validate(200).unwrap();
    let nis: Vec<PingNi> = info.nis().collect();
    let repr = PingInfoRepr {
        features: info.features(),
        pid: info.pid(),
        sequence: info.sequence().unwrap(),
        nis: &nis,
    };
    let mut encoded = vec![0xAA; repr.encoded_len()];
    repr.encode(&mut encoded).unwrap();
    encoded
}

#[test]
fn every_published_vector_decodes_and_encodes_to_the_same_bytes() {
    let vectors = vectors();
    assert_eq!(vectors.len(), 15);
    for (name, bytes) in vectors {
        let encoded = match name.split('-').next().unwrap() {
            "request" if name == "request-refusal" => Connreq::REJECTION.to_vec(),
            "request" => request(&bytes),
            "hello" => hello(&bytes),
            "frame" | "message" => frame(&bytes),
            "info" => info(&bytes),
            _ => panic!("{name} is of no known kind"),
        };
        assert_eq!(encoded, bytes, "{name}");
    }
}
