//! A reader that follows `needed` reads a handshake to its last byte and no further.

use lnet_wire::{Connreq, DecodeError, Hello};
use proptest::prelude::*;

use crate::strategies;

/// Reads like a socket reader: as long as more bytes are needed than present. Returns the bytes
/// taken.
fn read(
    stream: &[u8],
    needed: impl Fn(&[u8]) -> Result<usize, DecodeError>,
) -> Result<usize, DecodeError> {
    let mut have = 0;
    loop {
        let want = needed(&stream[..have])?;
        assert!(
            want <= stream.len(),
            "asked for {want} of {} bytes",
            stream.len()
        );
        if want <= have {
            return Ok(have);
        }
        have = want;
    }
}

/// A HELLO with an address list, which encoders do not write.
fn with_addresses(hello: &Hello, addresses: &[u32]) -> Vec<u8> {
    let mut bytes = vec![0; Hello::MAX_LEN];
    let len = hello.encode(&mut bytes).unwrap();
    bytes.truncate(len);
    let count = addresses.len() as u32;
    match len {
        72 => bytes[28..32].copy_from_slice(&(4 * count).to_le_bytes()),
        _ => bytes[52..56].copy_from_slice(&count.to_le_bytes()),
    }
    bytes.extend(addresses.iter().flat_map(|address| address.to_le_bytes()));
    bytes
}

fn hello_with_list() -> impl Strategy<Value = Hello> {
    let below_4 =
        strategies::hello().prop_filter("no list in version 4", |hello| hello.version.number() < 4);
    prop_oneof![below_4, strategies::hello_v1()]
}

proptest! {
    // [CONN-8]
    #[test]
    fn a_connection_request_is_read_exactly(connreq in strategies::connreq()) {
        let mut stream = [0xFF; 64];
        let len = connreq.encode(&mut stream).unwrap();
        prop_assert_eq!(read(&stream, Connreq::needed), Ok(len));
    }

    // [CONN-8]
    #[test]
    fn a_hello_is_read_exactly(hello in strategies::hello()) {
        let mut stream = [0xFF; 200];
        let len = hello.encode(&mut stream).unwrap();
        prop_assert_eq!(read(&stream, Hello::needed), Ok(len));
    }

    #[test]
    fn a_hello_with_addresses_is_read_exactly(
        hello in hello_with_list(),
        addresses in proptest::collection::vec(1u32.., 0..=16),
    ) {
        let mut stream = with_addresses(&hello, &addresses);
        let len = stream.len();
        stream.extend([0xFF; 100]);
        prop_assert_eq!(read(&stream, Hello::needed), Ok(len));
        let received = Hello::decode(&stream).unwrap();
        prop_assert_eq!(received.len, len);
        prop_assert_eq!(received.addresses.len(), addresses.len());
        prop_assert!(received.addresses.iter().map(u32::from).eq(addresses));
    }

    #[test]
    fn more_bytes_never_need_less(hello in hello_with_list(), addresses in 0usize..=16) {
        let stream = with_addresses(&hello, &vec![7; addresses]);
        let steps: Vec<_> =
            (0..=stream.len()).map(|have| Hello::needed(&stream[..have]).unwrap()).collect();
        prop_assert!(steps.is_sorted());
        prop_assert!(steps.iter().all(|&step| step <= stream.len()));
    }
}

#[test]
fn junk_is_known_after_its_first_word() {
    assert!(Connreq::needed(b"GET ").is_err());
    assert!(Hello::needed(b"GET ").is_err());
    assert_eq!(Connreq::needed(b"GET"), Ok(4));
}
