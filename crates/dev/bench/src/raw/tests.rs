use std::net::{Ipv4Addr, TcpListener};

use super::*;

pub(super) fn links() -> (Link, Link) {
    let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).unwrap();
    let near = TcpStream::connect(listener.local_addr().unwrap()).unwrap();
    let (far, _) = listener.accept().unwrap();
    // reno is compiled into every kernel, and every process may use it.
    (
        Link::new(near, "reno").unwrap(),
        Link::new(far, "reno").unwrap(),
    )
}

#[test]
fn a_header_reads_back_as_it_was_written() {
    for run in Run::ALL {
        let header = Header {
            run,
            length: 0x0102_0304,
            count: 0x0506_0708_090A_0B0C,
        };
        assert_eq!(Header::decode(&header.encode()).unwrap(), header);
    }
}

#[test]
fn a_header_of_an_unknown_kind_is_refused() {
    let mut bytes = [0; HEADER_LEN];
    bytes[0] = 7;
    assert!(Header::decode(&bytes).is_err());
}

#[test]
fn a_stream_gives_every_message_whole() {
    let (mut near, mut far) = links();
    let header = |length| {
        Header {
            run: Run::Stream,
            length,
            count: 3,
        }
        .encode()
    };
    for length in [5_u8, 0, 7] {
        near.send(
            &header(u32::from(length)),
            &vec![length; usize::from(length)],
        )
        .unwrap();
    }
    let mut seen = Vec::new();
    let each = |_: &HeaderBytes, payload: &[u8]| {
        seen.push(payload.to_vec());
        Ok(())
    };
    far.receive_stream(3, &mut [vec![0; 16]], each).unwrap();
    assert_eq!(seen, [vec![5; 5], vec![], vec![7; 7]]);
}

#[test]
fn a_message_longer_than_the_buffer_is_refused() {
    let (mut near, mut far) = links();
    near.send(
        &Header {
            run: Run::Stream,
            length: 17,
            count: 1,
        }
        .encode(),
        &[0; 17],
    )
    .unwrap();
    assert!(
        far.receive_stream(1, &mut [vec![0; 16]], |_, _| Ok(()))
            .is_err()
    );
}
