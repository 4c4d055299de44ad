//! The decoder of the control protocol.

use lnet_dlc::protocol::{Code, Frame, FrameError, Header, Reply, Request};

/// A stream of frames of either side: each header, and the body that its code announces.
pub fn control_frame(data: &[u8]) {
    let mut rest = data;
    while let Some((bytes, behind)) = rest.split_first_chunk::<{ Header::LEN }>() {
        let Ok(header) = Header::parse(bytes) else {
            return;
        };
        check_header(&header, bytes);
        let Some((body, next)) = behind.split_at_checked(header.length as usize) else {
            return;
        };
        check_frame(&header, body);
        if header.code == Code::DOCUMENT {
            check_document(body);
        }
        rest = next;
    }
}

/// An accepted header encodes to the same bytes.
fn check_header(header: &Header, bytes: &[u8; Header::LEN]) {
    let written = header.emit();
    assert_eq!(written, *bytes);
    assert_eq!(Header::parse(&written), Ok(*header));
    assert!(header.length as usize <= Header::BODY_MAX);
}

fn check_frame(header: &Header, body: &[u8]) {
    let frame = Frame {
        more: header.more,
        code: header.code,
        sequence: header.sequence,
        status: header.status,
        generation: header.generation,
        body: body.to_vec(),
    };
    let expected: Result<Vec<u8>, FrameError> = Ok([&header.emit(), body].concat());
    assert_eq!(frame.to_bytes(), expected);
}

/// A request or an answer: rejected, or equal after encoding and decoding.
fn check_document(body: &[u8]) {
    if let Ok(request) = Request::from_body(body) {
        let again = request
            .to_body()
            .and_then(|bytes| Request::from_body(&bytes));
        assert!(again.is_ok_and(|again| again == request));
    }
    if let Ok(reply) = Reply::from_body(body) {
        let again = reply.to_body().and_then(|bytes| Reply::from_body(&bytes));
        assert!(again.is_ok_and(|again| again == reply));
    }
}
