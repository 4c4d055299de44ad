//! The decoders of `lnet-wire`.

#![expect(
    clippy::panic,
    reason = "a body says by a panic that a promise is broken"
)]

use lnet_types::Nid;
use lnet_wire::o2ib::{MESSAGE_MAX, Message, REJECTION_LEN, Rejection, checksum};
use lnet_wire::{
    ByteOrder, Connreq, DecodeError, Header, HeaderForm, Hello, KsockHeader, PingInfo,
    PingInfoRepr, PingNi,
};

/// The longest ping info. Longer ones have only more of the same, and each is truncated at every
/// byte.
const PING_INFO_MAX: usize = 400;

/// A connection request, in either version and byte order.
pub fn connreq(data: &[u8]) {
    check_complaint(data, Connreq::needed(data).err());
    let decoded = Connreq::decode(data);
    check_complaint(data, decoded.err());
    let Ok(request) = decoded else { return };
    let mut encoded = [0; Connreq::MAX_LEN];
    let len = request.version.wire_len();
    assert_eq!(Connreq::needed(data), Ok(len));
    assert_eq!(request.encode(&mut encoded), Ok(len));
    assert_eq!(Connreq::decode(&encoded), Ok(request));
}

/// A HELLO of any version and byte order, with and without addresses.
pub fn hello(data: &[u8]) {
    check_complaint(data, Hello::needed(data).err());
    let decoded = Hello::decode(data);
    check_complaint(data, decoded.err());
    let Ok(received) = decoded else { return };
    assert_eq!(Hello::needed(data), Ok(received.len));
    assert!(received.len <= Hello::MAX_LEN);
    assert_eq!(received.addresses.iter().count(), received.addresses.len());
    for cut in 0..received.len {
        assert!(Hello::needed(&data[..cut]).is_ok_and(|needed| cut < needed));
        assert!(Hello::decode(&data[..cut]).is_err());
    }
    let mut encoded = [0; Hello::MAX_LEN];
    assert_eq!(
        received.hello.encode(&mut encoded),
        Ok(received.hello.version.base_len())
    );
    assert_eq!(
        Hello::decode(&encoded).map(|again| again.hello),
        Ok(received.hello)
    );
}

/// A frame header in both byte orders.
pub fn ksock_frame(data: &[u8]) {
    for order in [ByteOrder::Little, ByteOrder::Big] {
        let decoded = KsockHeader::decode(order, data);
        check_complaint(data, decoded.err());
        let Ok(header) = decoded else { continue };
        assert_eq!(
            KsockHeader::decode(ByteOrder::Little, &header.to_bytes()),
            Ok(header)
        );
        if order == ByteOrder::Little {
            assert!(data.starts_with(&header.to_bytes()));
        }
        let ack = header.zc_ack();
        check_complaint(data, ack.err());
        // No sender uses these two cookies for requests: 0 means none, 1 keepalive.
        assert!(ack.is_err() || ack.is_ok_and(|ack| !ack.contains(0) && !ack.contains(1)));
    }
}

/// An LNet header in both forms.
pub fn lnet_header(data: &[u8]) {
    for form in [HeaderForm::Nid4, HeaderForm::Nid16] {
        let decoded = Header::decode(form, data);
        check_complaint(data, decoded.err());
        let Ok(header) = decoded else { continue };
        let mut encoded = [0; 96];
        assert_eq!(header.encode(form, &mut encoded), Ok(form.len()));
        assert_eq!(Header::decode(form, &encoded), Ok(header));
        let wildcard = header.dest_nid.is_any() || header.src_nid.is_any();
        if Header::reserved_is_zero(form, data) && !wildcard {
            assert!(data.starts_with(&encoded[..form.len()]));
        }
    }
}

/// A message of the o2ib LND, and a rejection, in either byte order.
pub fn o2ib_message(data: &[u8]) {
    let rejection = Rejection::decode(data);
    check_complaint(data, rejection.err());
    if let Ok(rejection) = rejection {
        let bytes = rejection.to_bytes();
        assert_eq!(Rejection::decode(&bytes), Ok(rejection));
        assert!(data.len() >= REJECTION_LEN);
    }
    assert_ne!(checksum(data), 0);
    let decoded = Message::decode(data);
    check_complaint(data, decoded.as_ref().err().copied());
    let Ok(message) = decoded else { return };
    let mut encoded = [0; MESSAGE_MAX];
    match message.encode(&mut encoded) {
        Ok(len) => assert_eq!(Message::decode(&encoded[..len]), Ok(message)),
        // A receive buffer holds no longer message; the decoder takes any length.
        Err(error) => assert!(data.len() > MESSAGE_MAX, "{error}"),
    }
}

/// A ping info, complete or truncated, in either byte order.
pub fn ping_info(data: &[u8]) {
    let data = &data[..data.len().min(PING_INFO_MAX)];
    let parsed = PingInfo::parse(data);
    check_complaint(data, parsed.as_ref().err().copied());
    let Ok(info) = parsed else { return };
    assert!(info.nids().count() <= data.len() / 12);
    assert!(info.metadata().len() <= data.len());
    let nids: Vec<Nid> = info.nids().collect();
    for cut in 16..data.len() {
        let Ok(part) = PingInfo::parse(&data[..cut]) else {
            panic!("cut at {cut}, a good info is bad");
        };
        assert!(
            part.nids()
                .eq(nids.iter().copied().take(part.nids().count()))
        );
        assert!(part.is_truncated() || part.nids().count() == nids.len());
    }
    if info.validate(u32::MAX).is_ok() && !info.is_truncated() {
        check_ping_encoding(&info);
    }
}

/// The encoding of a complete info decodes to an equal info.
fn check_ping_encoding(info: &PingInfo<'_>) {
    let nis: Vec<PingNi> = info.nis().filter(|ni| !ni.nid.is_any()).collect();
    let sequence = info.sequence().unwrap_or_default();
    let repr = PingInfoRepr {
        features: info.features(),
        pid: info.pid(),
        sequence,
        nis: &nis,
    };
    let mut encoded = vec![0; repr.encoded_len()];
    assert_eq!(repr.encode(&mut encoded), Ok(encoded.len()));
    let Ok(again) = PingInfo::parse(&encoded) else {
        panic!("written and rejected")
    };
    assert_eq!(
        (again.pid(), again.sequence()),
        (info.pid(), info.sequence())
    );
    assert_eq!(
        (again.features(), again.validate(u32::MAX)),
        (info.features(), Ok(()))
    );
    let mut expected = nis;
    expected.sort_by_key(|ni| ni.nid.is_large());
    assert!(again.nis().eq(expected));
}

/// The offset of an error is in the input, or its end.
fn check_complaint(data: &[u8], complaint: Option<DecodeError>) {
    if let Some(complaint) = complaint {
        assert!(
            complaint.offset <= data.len(),
            "{complaint} of {} bytes",
            data.len()
        );
    }
}
