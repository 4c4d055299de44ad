//! Golden vectors, round trips, and the errors for invalid input.

#![expect(
    clippy::unwrap_used,
    reason = "clippy knows only functions with #[test] as tests"
)]

mod bad_input;
mod golden_ctl;
mod golden_fwd;
mod golden_segment;
mod round_trip;

use zoid_proto::ctl::{Reply, ReplyHeader, Request, RequestHeader};
use zoid_proto::fwd::{Frame, FrameHeader, FrameType};
use zoid_proto::{DecodeError, Status};

/// Encodes a command of session 0x51 and sequence 9, on slot 2 if it is answered.
fn command(request: &Request<'_>) -> Vec<u8> {
    let header = RequestHeader {
        opcode: request.opcode(),
        len: 0,
        slot: request.is_answered().then_some(2),
        session: 0x51,
        sequence: 9,
        spilled: false,
    };
    let mut bytes = vec![0xEE; request.encoded_len()];
    assert_eq!(request.encode(header, &mut bytes), Ok(bytes.len()));
    bytes
}

fn decode_command(bytes: &[u8]) -> Result<Request<'_>, DecodeError> {
    Request::decode(&RequestHeader::decode(bytes)?, bytes)
}

/// Encodes a reply to `opcode` of session 0x51, sequence 9 and epoch 0xE.
fn reply(opcode: zoid_proto::ctl::Opcode, reply: &Reply<'_>) -> Vec<u8> {
    let header = ReplyHeader {
        opcode,
        len: 0,
        status: Status::NONE,
        session: 0x51,
        sequence: 9,
        epoch: 0xE,
    };
    let mut bytes = vec![0xEE; reply.encoded_len()];
    assert_eq!(reply.encode(header, &mut bytes), Ok(bytes.len()));
    bytes
}

fn decode_reply(bytes: &[u8]) -> Result<Reply<'_>, DecodeError> {
    Reply::decode(&ReplyHeader::decode(bytes)?, bytes)
}

/// Encodes a frame of request 5.
fn frame(frame: &Frame<'_>, status: Status) -> Vec<u8> {
    let header = FrameHeader::new(FrameType(0), 5).with_status(status);
    let mut bytes = vec![0xEE; frame.encoded_len()];
    assert_eq!(frame.encode(header, &mut bytes), Ok(bytes.len()));
    bytes
}

fn decode_frame(bytes: &[u8]) -> Result<Frame<'_>, DecodeError> {
    let header = FrameHeader::decode(bytes)?;
    Frame::decode(&header, &bytes[FrameHeader::LEN..])
}

/// Decodes hexadecimal digits; ignores spaces, line ends and comments after `;`.
fn hex(text: &str) -> Vec<u8> {
    let digits: String = text
        .lines()
        .filter_map(|line| line.split(';').next())
        .flat_map(str::chars)
        .filter(|c| !c.is_whitespace())
        .collect();
    (0..digits.len())
        .step_by(2)
        .map(|at| u8::from_str_radix(&digits[at..at + 2], 16).unwrap())
        .collect()
}
