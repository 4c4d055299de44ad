//! The decoders of `zoid-proto`.

use zoid_proto::ctl::{CTL_MESSAGE_LEN, Reply, ReplyHeader, Request, RequestHeader};
use zoid_proto::fwd::{Frame, FrameHeader};
use zoid_proto::{DecodeError, SegmentHeader};

/// A command, a reply, or the segment's first page.
pub fn zoid_command(data: &[u8]) {
    check_complaint(data, SegmentHeader::decode(data).err());
    let header = RequestHeader::decode(data);
    check_complaint(data, header.err());
    if let Ok(header) = header {
        command(&header, data);
    }
    let header = ReplyHeader::decode(data);
    check_complaint(data, header.err());
    if let Ok(header) = header {
        reply(&header, data);
    }
}

fn command(header: &RequestHeader, data: &[u8]) {
    let request = Request::decode(header, data);
    check_complaint(data, request.err());
    let Ok(request) = request else { return };
    let mut bytes = [0; CTL_MESSAGE_LEN];
    let len = request.encode(*header, &mut bytes);
    assert_eq!(len, Ok(data.len()));
    let again = RequestHeader::decode(&bytes[..data.len()]);
    assert!(again.is_ok_and(|again| again.opcode == header.opcode && again.slot == header.slot));
    assert_eq!(Request::decode(header, &bytes[..data.len()]), Ok(request));
}

fn reply(header: &ReplyHeader, data: &[u8]) {
    let reply = Reply::decode(header, data);
    check_complaint(data, reply.err());
    let Ok(reply) = reply else { return };
    let mut bytes = [0; CTL_MESSAGE_LEN];
    assert_eq!(reply.encode(*header, &mut bytes), Ok(data.len()));
    assert_eq!(ReplyHeader::decode(&bytes[..data.len()]), Ok(*header));
    assert_eq!(Reply::decode(header, &bytes[..data.len()]), Ok(reply));
}

/// A frame: its header, and the body after it.
pub fn zoid_frame(data: &[u8]) {
    let header = FrameHeader::decode(data);
    check_complaint(data, header.err());
    let Ok(header) = header else { return };
    let len = FrameHeader::LEN + header.body_len as usize;
    let Some(body) = data.get(FrameHeader::LEN..len) else {
        return;
    };
    let frame = Frame::decode(&header, body);
    check_complaint(body, frame.err());
    let Ok(frame) = frame else { return };
    let mut bytes = vec![0; len];
    assert_eq!(frame.encode(header, &mut bytes), Ok(len));
    assert_eq!(FrameHeader::decode(&bytes), Ok(header));
    assert_eq!(
        Frame::decode(&header, &bytes[FrameHeader::LEN..]),
        Ok(frame)
    );
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
