//! The bodies of frames of any type.

use super::header::{FrameHeader, FrameType};
use super::memory::Places;
use super::session::{Event, Hello, Welcome};
use super::test::{Readiness, TestReq};
use super::transfer::{Data, Grant, RecvReply, RecvReq, SendInline, SendReq};
use crate::bytes::{Reader, Writer};
use crate::error::{DecodeError, EncodeError, Problem};

/// The body of a frame. Status and payload length are in the header.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Frame<'a> {
    /// Client: identifies itself.
    Hello(Hello),
    /// Daemon: accepts the client and states the limits.
    Welcome(Welcome),
    /// Client: requests to send a message.
    SendReq(SendReq),
    /// Daemon: a buffer is reserved; send the message.
    Grant(Grant),
    /// Either: payload.
    Data(Data),
    /// Client: the granted buffer will not be filled.
    Abort {
        /// The transfer.
        grant: u64,
    },
    /// Daemon: the result of a send.
    SendDone,
    /// Client: requests a message for a buffer.
    RecvReq(RecvReq),
    /// Daemon: a message follows, or the error.
    RecvReply(RecvReply),
    /// Client: the message has arrived, or why it was not accepted.
    RecvAck {
        /// The transfer.
        grant: u64,
    },
    /// Client: asks which of these operations would succeed.
    TestReq(TestReq<'a>),
    /// Daemon: answers TEST_REQ.
    TestReply(Readiness<'a>),
    /// Client: answer the request with this id now.
    Wake,
    /// Daemon: notifies the client of a change.
    Event(Event),
    /// Either: requests a PONG.
    Ping,
    /// Either: answers PING.
    Pong,
    /// Client: leaves.
    Bye,
    /// Client: the message's memory in the client.
    Places(Places<'a>),
    /// Client: requests to send a short message, and includes it.
    SendInline(SendInline<'a>),
}

impl<'a> Frame<'a> {
    /// Returns the type of the frame.
    #[must_use]
    pub const fn frame_type(&self) -> FrameType {
        match self {
            Self::Hello(_) => FrameType::HELLO,
            Self::Welcome(_) => FrameType::WELCOME,
            Self::SendReq(_) => FrameType::SEND_REQ,
            Self::Grant(_) => FrameType::GRANT,
            Self::Data(_) => FrameType::DATA,
            Self::Abort { .. } => FrameType::ABORT,
            Self::SendDone => FrameType::SEND_DONE,
            Self::RecvReq(_) => FrameType::RECV_REQ,
            Self::RecvReply(_) => FrameType::RECV_REPLY,
            Self::RecvAck { .. } => FrameType::RECV_ACK,
            Self::TestReq(_) => FrameType::TEST_REQ,
            Self::TestReply(_) => FrameType::TEST_REPLY,
            Self::Wake => FrameType::WAKE,
            Self::Event(_) => FrameType::EVENT,
            Self::Ping => FrameType::PING,
            Self::Pong => FrameType::PONG,
            Self::Bye => FrameType::BYE,
            Self::Places(_) => FrameType::PLACES,
            Self::SendInline(_) => FrameType::SEND_INLINE,
        }
    }

    /// Decodes the body of the frame with the given `header`; `body` is exactly the body. Offsets of errors
    /// count from the start of the body.
    ///
    /// # Errors
    ///
    /// An unknown type; a length that does not match the body; a number outside its range.
    // [FWD-4]
    pub fn decode(header: &FrameHeader, body: &'a [u8]) -> Result<Self, DecodeError> {
        let reader = Reader::new(header.frame_type.what(), body);
        let one_u64 = || reader.require_exactly(8).and_then(|()| reader.u64(0));
        let nothing = |frame: Self| reader.require_exactly(0).map(|()| frame);
        match header.frame_type {
            FrameType::HELLO => Hello::decode(&reader).map(Self::Hello),
            FrameType::WELCOME => Welcome::decode(&reader).map(Self::Welcome),
            FrameType::SEND_REQ => SendReq::decode(&reader).map(Self::SendReq),
            FrameType::GRANT => Grant::decode(&reader).map(Self::Grant),
            FrameType::DATA => Data::decode(&reader).map(Self::Data),
            FrameType::ABORT => one_u64().map(|grant| Self::Abort { grant }),
            FrameType::SEND_DONE => nothing(Self::SendDone),
            FrameType::RECV_REQ => RecvReq::decode(&reader).map(Self::RecvReq),
            FrameType::RECV_REPLY => RecvReply::decode(&reader).map(Self::RecvReply),
            FrameType::RECV_ACK => one_u64().map(|grant| Self::RecvAck { grant }),
            FrameType::TEST_REQ => TestReq::decode(&reader).map(Self::TestReq),
            FrameType::TEST_REPLY => Readiness::decode(&reader).map(Self::TestReply),
            FrameType::WAKE => nothing(Self::Wake),
            FrameType::EVENT => Event::decode(&reader).map(Self::Event),
            FrameType::PING => nothing(Self::Ping),
            FrameType::PONG => nothing(Self::Pong),
            FrameType::BYE => nothing(Self::Bye),
            FrameType::PLACES => Places::decode(&reader).map(Self::Places),
            FrameType::SEND_INLINE => SendInline::decode(&reader).map(Self::SendInline),
            FrameType(value) => {
                let (field, value) = ("frame type", value.into());
                Err(reader.error(0, Problem::UnknownValue { field, value }))
            }
        }
    }

    /// Returns the length of the body in bytes.
    #[must_use]
    pub const fn body_len(&self) -> usize {
        match self {
            Self::Hello(_) => Hello::LEN,
            Self::Welcome(_) => Welcome::LEN,
            Self::SendReq(_) => SendReq::LEN,
            Self::Grant(_) => Grant::LEN,
            Self::Data(_) => Data::LEN,
            Self::Abort { .. } | Self::RecvAck { .. } => 8,
            Self::RecvReq(_) => RecvReq::LEN,
            Self::RecvReply(_) => RecvReply::LEN,
            Self::TestReq(test) => test.encoded_len(),
            Self::TestReply(readiness) => readiness.encoded_len(),
            Self::Event(_) => Event::LEN,
            Self::Places(places) => places.encoded_len(),
            Self::SendInline(send) => send.encoded_len(),
            Self::SendDone | Self::Wake | Self::Ping | Self::Pong | Self::Bye => 0,
        }
    }

    /// Returns the length of header and body in bytes.
    #[must_use]
    pub const fn encoded_len(&self) -> usize {
        FrameHeader::LEN + self.body_len()
    }

    /// Writes header and body and returns their length. The caller writes the payload. Type and body length
    /// in `header` are ignored.
    ///
    /// # Errors
    ///
    /// The buffer is too short, or receivers would reject a list, number or payload.
    pub fn encode(&self, header: FrameHeader, buffer: &mut [u8]) -> Result<usize, EncodeError> {
        let needed = self.encoded_len();
        let available = buffer.len();
        let Some(buffer) = buffer.get_mut(..needed) else {
            return Err(EncodeError::BufferTooSmall { needed, available });
        };
        let header = FrameHeader {
            frame_type: self.frame_type(),
            body_len: self.body_len() as u32,
            ..header
        };
        header.check()?;
        header.encode(buffer)?;
        self.encode_body(buffer.get_mut(FrameHeader::LEN..).unwrap_or_default())?;
        Ok(needed)
    }

    fn encode_body(&self, body: &mut [u8]) -> Result<(), EncodeError> {
        match self {
            Self::Hello(hello) => hello.encode(body),
            Self::Welcome(welcome) => welcome.encode(body),
            Self::SendReq(send) => send.encode(body),
            Self::Grant(grant) => grant.encode(body),
            Self::Data(data) => data.encode(body),
            Self::Abort { grant } | Self::RecvAck { grant } => {
                Writer::new(body, 8)?.u64(*grant);
                Ok(())
            }
            Self::RecvReq(recv) => recv.encode(body),
            Self::RecvReply(reply) => reply.encode(body),
            Self::TestReq(test) => test.encode(body),
            Self::TestReply(readiness) => readiness.encode(body),
            Self::Event(event) => event.encode(body),
            Self::Places(places) => places.encode(body),
            Self::SendInline(send) => send.encode(body),
            Self::SendDone | Self::Wake | Self::Ping | Self::Pong | Self::Bye => Ok(()),
        }
    }
}
