//! The two messages of the protocol: request and reply.
//!
//! Each message is the payload of one PUT. Header and body together fit into [`MESSAGE_MAX`] bytes, so that a
//! router carries a message in its small buffers. All numbers are little-endian.
//!
//! ```text
//! request                                            reply
//! offset  size  field                                offset  size  field
//!      0     4  magic "FRPC"                              0     4  magic "FRPC"
//!      4     2  version, 2                                4     2  version, 2
//!      6     2  kind, 1                                   6     2  kind, 2
//!      8    16  client                                    8     8  transaction (xid)
//!     24     8  transaction (xid), not 0                 16     8  server incarnation
//!     32     8  lowest xid still unanswered              24     8  server's clock, in ms
//!     40     8  server incarnation, 0 = not known        32     4  outcome
//!     48     8  session, 0 = none yet                    36     4  status, an errno or 0
//!     56     8  match bits of the reply                  40     4  bytes of bulk moved
//!     64     8  match bits of the bulk                   44     4  body length
//!     72     8  deadline by the server's clock, in ms    48        body
//!     80     4  bulk length
//!     84     4  bulk kind: 0 none, 1 read, 2 write
//!     88     4  attempt, from 1
//!     92     4  opcode
//!     96     4  body length
//!    100        body
//! ```
//!
//! "Read" and "write" are the server's view of the client's memory, as with Lustre's bulk. With *read* the
//! server GETs what the client sends. With *write* the server PUTs what the client receives.
//!
//! Decoding borrows from the message, checks every field before its use, and never panics. A message with bytes
//! behind its body is rejected, so that one message has exactly one encoding.

use std::fmt;
use std::time::Duration;

use thiserror::Error;

/// The longest message (header and body), in bytes: a small router buffer.
pub const MESSAGE_MAX: usize = 4096;
/// Longest body of a request, in bytes.
pub const REQUEST_BODY_MAX: usize = MESSAGE_MAX - REQUEST_HEADER_LEN;
/// Longest body of a reply, in bytes.
pub const REPLY_BODY_MAX: usize = MESSAGE_MAX - REPLY_HEADER_LEN;

/// Portal of requests, lazy at the server. This portal and the two below lie outside the portals of Lustre (1
/// to 33) and of selftest (50 to 52).
pub const REQUEST_PORTAL: u32 = 40;
/// Portal of replies, at the client.
pub const REPLY_PORTAL: u32 = 41;
/// Portal of bulk, at the client.
pub const BULK_PORTAL: u32 = 42;
/// Match bits of the request portal.
pub const REQUEST_MATCH_BITS: u64 = u64::from_le_bytes(*b"FRPC-REQ");

/// The first reserved opcode. The protocol itself uses the opcodes from here on; callers may not.
pub const RESERVED_OPCODES: u32 = 0xFFFF_FF00;
/// Opens a session: the server makes a record of the client and answers with its incarnation.
pub(crate) const OPCODE_CONNECT: u32 = 0xFFFF_FF01;
/// Ends a session: the server forgets the client.
pub(crate) const OPCODE_GOODBYE: u32 = 0xFFFF_FF02;

const MAGIC: u32 = u32::from_le_bytes(*b"FRPC");
const VERSION: u16 = 2;
const KIND_REQUEST: u16 = 1;
const KIND_REPLY: u16 = 2;
const REQUEST_HEADER_LEN: usize = 100;
const REPLY_HEADER_LEN: usize = 48;
const CLOCK_AT: usize = 24;

/// The name of a client for the life of its process: 128 bits, random so that no two clients have the same.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct ClientId(pub [u8; 16]);

impl fmt::Display for ClientId {
    /// Writes 32 hexadecimal digits.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:032x}", u128::from_be_bytes(self.0))
    }
}

impl fmt::Debug for ClientId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(self, f)
    }
}

/// The direction of the bulk, seen from the server.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum BulkKind {
    /// The call has no bulk.
    #[default]
    None,
    /// The server reads the client's memory (GET).
    Read,
    /// The server writes the client's memory (PUT).
    Write,
}

impl BulkKind {
    fn to_wire(self) -> u32 {
        match self {
            Self::None => 0,
            Self::Read => 1,
            Self::Write => 2,
        }
    }

    fn from_wire(value: u32) -> Option<Self> {
        match value {
            0 => Some(Self::None),
            1 => Some(Self::Read),
            2 => Some(Self::Write),
            _ => None,
        }
    }
}

/// The fields of a request, without its body.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct RequestHeader {
    /// The client that sends the request.
    pub client: ClientId,
    /// Transaction id: names the call among the client's calls. Ascending, never 0, the same in every attempt.
    pub xid: u64,
    /// The lowest transaction id whose reply the client still waits for. The server may forget all lower ones.
    pub lowest: u64,
    /// The incarnation of the server that the client means, or 0 if the client knows none yet.
    pub incarnation: u64,
    /// The session that the server gave this client, or 0 if the client has none yet.
    pub session: u64,
    /// Match bits at which the client receives the reply; fresh in every attempt.
    pub reply_bits: u64,
    /// Match bits of the client's bulk memory; fresh in every attempt.
    pub bulk_bits: u64,
    /// Length of the client's bulk memory, in bytes.
    pub bulk_len: u32,
    /// The direction of the bulk.
    pub bulk: BulkKind,
    /// The number of this attempt at the call, from 1.
    pub attempt: u32,
    /// The operation that the client asks for.
    pub opcode: u32,
    /// When the client stops waiting, by the server's clock, in ms; 0 if the client does not yet know that
    /// clock.
    pub deadline: u64,
}

/// How the server answers a call, apart from what the handler returned.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Outcome {
    /// The handler ran; its status and body follow.
    Done,
    /// A limit is reached, or the deadline of the request is over by the server's clock; the request was not
    /// executed. The client retries.
    Busy,
    /// The request names another incarnation of the server; it was not executed.
    WrongIncarnation,
    /// The server has no record of this session; the request was not executed.
    UnknownClient,
    /// The request asks for more than this server accepts; it was not executed and never will be.
    Refused,
}

impl Outcome {
    const ALL: [Self; 5] = [
        Self::Done,
        Self::Busy,
        Self::WrongIncarnation,
        Self::UnknownClient,
        Self::Refused,
    ];

    fn to_wire(self) -> u32 {
        match self {
            Self::Done => 0,
            Self::Busy => 1,
            Self::WrongIncarnation => 2,
            Self::UnknownClient => 3,
            Self::Refused => 4,
        }
    }

    fn from_wire(value: u32) -> Option<Self> {
        Self::ALL
            .into_iter()
            .find(|outcome| outcome.to_wire() == value)
    }
}

/// The fields of a reply, without its body.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ReplyHeader {
    /// The transaction id of the call.
    pub xid: u64,
    /// The incarnation of the server that answers.
    pub incarnation: u64,
    /// The time of the server's clock when the server sent the reply, in ms.
    pub clock: u64,
    /// How the server answers the call.
    pub outcome: Outcome,
    /// 0, or the errno that the handler returned. Has a meaning only with [`Outcome::Done`].
    pub status: i32,
    /// Bytes of bulk that the server moved.
    pub bulk_len: u32,
}

/// Why a message is rejected.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
pub enum DecodeError {
    /// The message is shorter than its header, or shorter than its header says.
    #[error("{have} bytes; {need} are needed")]
    Short {
        /// Bytes needed.
        need: usize,
        /// Bytes there.
        have: usize,
    },
    /// The message has bytes behind its body, or more than [`MESSAGE_MAX`] bytes.
    #[error("{have} bytes; the message ends at byte {end}")]
    Long {
        /// Where the message should end, in bytes from its start.
        end: usize,
        /// Bytes there.
        have: usize,
    },
    /// A field has a value that is not allowed.
    #[error("{field} at offset {offset} must not be {value:#x}")]
    Field {
        /// The field.
        field: &'static str,
        /// Its offset in the message, in bytes.
        offset: usize,
        /// The value of the field.
        value: u64,
    },
}

/// Encodes a request. The caller has checked that the body is at most [`REQUEST_BODY_MAX`] bytes.
#[must_use]
pub fn encode_request(header: &RequestHeader, body: &[u8]) -> Vec<u8> {
    let mut out = Vec::with_capacity(REQUEST_HEADER_LEN + body.len());
    put_prefix(&mut out, KIND_REQUEST);
    out.extend_from_slice(&header.client.0);
    for value in [
        header.xid,
        header.lowest,
        header.incarnation,
        header.session,
        header.reply_bits,
        header.bulk_bits,
        header.deadline,
    ] {
        out.extend_from_slice(&value.to_le_bytes());
    }
    for value in [
        header.bulk_len,
        header.bulk.to_wire(),
        header.attempt,
        header.opcode,
        wire_len(body),
    ] {
        out.extend_from_slice(&value.to_le_bytes());
    }
    out.extend_from_slice(body);
    out
}

/// Decodes a request.
///
/// # Errors
///
/// Returns the field at fault and its offset, or the lengths that do not agree.
pub fn decode_request(bytes: &[u8]) -> Result<(RequestHeader, &[u8]), DecodeError> {
    let mut fields = Fields::open(bytes, KIND_REQUEST, REQUEST_HEADER_LEN)?;
    let client = ClientId(fields.array());
    let xid = fields.u64_where("xid", |xid| xid != 0)?;
    let lowest = fields.u64_where("lowest xid", |lowest| lowest <= xid)?;
    let incarnation = fields.u64();
    let session = fields.u64();
    let reply_bits = fields.u64();
    let bulk_bits = fields.u64();
    let deadline = fields.u64();
    let bulk_len = fields.u32();
    let bulk = fields.named("bulk kind", BulkKind::from_wire)?;
    let attempt = fields.u32_where("attempt", |attempt| attempt != 0)?;
    let opcode = fields.u32();
    let body = fields.body()?;
    let header = RequestHeader {
        client,
        xid,
        lowest,
        incarnation,
        session,
        reply_bits,
        bulk_bits,
        bulk_len,
        bulk,
        attempt,
        opcode,
        deadline,
    };
    Ok((header, body))
}

/// Encodes a reply. The caller has checked that the body is at most [`REPLY_BODY_MAX`] bytes.
#[must_use]
pub fn encode_reply(header: &ReplyHeader, body: &[u8]) -> Vec<u8> {
    let mut out = Vec::with_capacity(REPLY_HEADER_LEN + body.len());
    put_prefix(&mut out, KIND_REPLY);
    out.extend_from_slice(&header.xid.to_le_bytes());
    out.extend_from_slice(&header.incarnation.to_le_bytes());
    out.extend_from_slice(&header.clock.to_le_bytes());
    out.extend_from_slice(&header.outcome.to_wire().to_le_bytes());
    out.extend_from_slice(&header.status.to_le_bytes());
    out.extend_from_slice(&header.bulk_len.to_le_bytes());
    out.extend_from_slice(&wire_len(body).to_le_bytes());
    out.extend_from_slice(body);
    out
}

/// Returns the same reply with another time of the server's clock.
pub(crate) fn with_clock(reply: &[u8], clock: u64) -> Vec<u8> {
    let mut reply = reply.to_vec();
    if let Some(field) = reply.get_mut(CLOCK_AT..CLOCK_AT + 8) {
        field.copy_from_slice(&clock.to_le_bytes());
    }
    reply
}

/// Decodes a reply.
///
/// # Errors
///
/// Returns the field at fault and its offset, or the lengths that do not agree.
pub fn decode_reply(bytes: &[u8]) -> Result<(ReplyHeader, &[u8]), DecodeError> {
    let mut fields = Fields::open(bytes, KIND_REPLY, REPLY_HEADER_LEN)?;
    let xid = fields.u64();
    let incarnation = fields.u64();
    let clock = fields.u64();
    let outcome = fields.named("outcome", Outcome::from_wire)?;
    let status = fields.u32().cast_signed();
    let bulk_len = fields.u32();
    let body = fields.body()?;
    Ok((
        ReplyHeader {
            xid,
            incarnation,
            clock,
            outcome,
            status,
            bulk_len,
        },
        body,
    ))
}

/// Encodes the body of the reply that opens a session: the number of the session (8 bytes), and for how many
/// milliseconds the server remembers a silent client (4 bytes).
pub(crate) fn encode_session(number: u64, idle: Duration) -> Vec<u8> {
    let idle = u32::try_from(idle.as_millis()).unwrap_or(u32::MAX);
    [&number.to_le_bytes()[..], &idle.to_le_bytes()].concat()
}

/// Decodes the body that [`encode_session`] made; `None` if its length is not 12 bytes.
pub(crate) fn decode_session(body: &[u8]) -> Option<(u64, Duration)> {
    let (number, idle) = body.split_first_chunk::<8>()?;
    let idle = u32::from_le_bytes(idle.try_into().ok()?);
    Some((
        u64::from_le_bytes(*number),
        Duration::from_millis(u64::from(idle)),
    ))
}

fn put_prefix(out: &mut Vec<u8>, kind: u16) {
    out.extend_from_slice(&MAGIC.to_le_bytes());
    out.extend_from_slice(&VERSION.to_le_bytes());
    out.extend_from_slice(&kind.to_le_bytes());
}

/// Returns the length as the header carries it. Callers keep a body within [`MESSAGE_MAX`]; a receiver rejects
/// a longer one.
fn wire_len(body: &[u8]) -> u32 {
    u32::try_from(body.len()).unwrap_or(u32::MAX)
}

/// Reads the fields of a header one after the other. [`Fields::open`] checks that the message has a whole
/// header; a read beyond the end would give zeros.
struct Fields<'a> {
    bytes: &'a [u8],
    at: usize,
}

impl<'a> Fields<'a> {
    fn open(bytes: &'a [u8], kind: u16, header_len: usize) -> Result<Self, DecodeError> {
        if bytes.len() < header_len {
            return Err(DecodeError::Short {
                need: header_len,
                have: bytes.len(),
            });
        }
        if bytes.len() > MESSAGE_MAX {
            return Err(DecodeError::Long {
                end: MESSAGE_MAX,
                have: bytes.len(),
            });
        }
        let mut fields = Self { bytes, at: 0 };
        fields.u32_where("magic", |magic| magic == MAGIC)?;
        fields.u16_where("version", |version| version == VERSION)?;
        fields.u16_where("kind", |found| found == kind)?;
        Ok(fields)
    }

    fn array<const N: usize>(&mut self) -> [u8; N] {
        let mut array = [0; N];
        if let Some(field) = self.bytes.get(self.at..self.at + N) {
            array.copy_from_slice(field);
        }
        self.at += N;
        array
    }

    fn u32(&mut self) -> u32 {
        u32::from_le_bytes(self.array())
    }

    fn u64(&mut self) -> u64 {
        u64::from_le_bytes(self.array())
    }

    fn u16_where(
        &mut self,
        field: &'static str,
        good: impl Fn(u16) -> bool,
    ) -> Result<u16, DecodeError> {
        let offset = self.at;
        let value = u16::from_le_bytes(self.array());
        check(field, offset, u64::from(value), good(value)).map(|()| value)
    }

    fn u32_where(
        &mut self,
        field: &'static str,
        good: impl Fn(u32) -> bool,
    ) -> Result<u32, DecodeError> {
        let offset = self.at;
        let value = self.u32();
        check(field, offset, u64::from(value), good(value)).map(|()| value)
    }

    fn u64_where(
        &mut self,
        field: &'static str,
        good: impl Fn(u64) -> bool,
    ) -> Result<u64, DecodeError> {
        let offset = self.at;
        let value = self.u64();
        check(field, offset, value, good(value)).map(|()| value)
    }

    fn named<T>(
        &mut self,
        field: &'static str,
        from_wire: impl Fn(u32) -> Option<T>,
    ) -> Result<T, DecodeError> {
        let offset = self.at;
        let value = self.u32();
        from_wire(value).ok_or(DecodeError::Field {
            field,
            offset,
            value: u64::from(value),
        })
    }

    /// Reads the body length and returns the body, which must end the message.
    fn body(mut self) -> Result<&'a [u8], DecodeError> {
        let length = self.u32() as usize;
        let body = &self.bytes[self.at..];
        let end = self.at.saturating_add(length);
        match body.len().cmp(&length) {
            std::cmp::Ordering::Less => Err(DecodeError::Short {
                need: end,
                have: self.bytes.len(),
            }),
            std::cmp::Ordering::Greater => Err(DecodeError::Long {
                end,
                have: self.bytes.len(),
            }),
            std::cmp::Ordering::Equal => Ok(body),
        }
    }
}

fn check(field: &'static str, offset: usize, value: u64, good: bool) -> Result<(), DecodeError> {
    if good {
        Ok(())
    } else {
        Err(DecodeError::Field {
            field,
            offset,
            value,
        })
    }
}

#[cfg(test)]
#[path = "proto_tests.rs"]
mod tests;
