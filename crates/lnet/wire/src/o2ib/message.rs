//! Decoders and encoders of messages.

use lnet_types::Nid;

use super::{
    ENVELOPE_LEN, FRAGMENTS_MAX, IMMEDIATE_MAX, IMMEDIATE_PAYLOAD_AT, MAGIC, MESSAGE_MAX, VERSION,
    checksum,
};
use crate::bytes::{ByteOrder, Reader, Writer};
use crate::error::{DecodeError, EncodeError, Problem};
use crate::header::{Header, HeaderForm};

const WHAT: &str = "o2ib message";
/// Bytes of a descriptor without its fragments, and of one fragment.
const DESCRIPTOR_LEN: usize = 8;
const FRAGMENT_LEN: usize = 12;

/// The type of a message.
// [IB-5]
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
#[repr(u8)]
pub enum MessageKind {
    /// Asks for a connection; travels as private data of the CM's request.
    Connreq = 0xC0,
    /// Accepts a connection; travels as private data of the CM's reply.
    Connack = 0xC1,
    /// Carries credits, or shows that the sender lives.
    Noop = 0xD0,
    /// An LNet message with its payload.
    Immediate = 0xD1,
    /// The header of a PUT or REPLY whose payload is to be written by RDMA.
    PutReq = 0xD2,
    /// Answers a PUT_REQ: no payload is wanted, or none can be received.
    PutNak = 0xD3,
    /// Answers a PUT_REQ with the memory to write to.
    PutAck = 0xD4,
    /// The payload of a PUT_REQ is written.
    PutDone = 0xD5,
    /// The header of a GET, with the memory to write the reply to.
    GetReq = 0xD6,
    /// The reply to a GET_REQ is written.
    GetDone = 0xD7,
}

impl MessageKind {
    /// All types, in the order of their numbers.
    pub const ALL: [Self; 10] = [
        Self::Connreq,
        Self::Connack,
        Self::Noop,
        Self::Immediate,
        Self::PutReq,
        Self::PutNak,
        Self::PutAck,
        Self::PutDone,
        Self::GetReq,
        Self::GetDone,
    ];

    /// Returns the least bytes of a message of this type; a descriptor counts without its fragments.
    // [IB-5]
    #[must_use]
    pub const fn least_len(self) -> usize {
        match self {
            Self::Connreq | Self::Connack => 56,
            Self::Noop => ENVELOPE_LEN,
            Self::Immediate => IMMEDIATE_PAYLOAD_AT,
            Self::PutReq => 128,
            Self::PutNak | Self::PutDone | Self::GetDone => 60,
            Self::PutAck => 72,
            Self::GetReq => 136,
        }
    }

    /// Returns true if a message of this type takes a credit.
    // [IB-21]
    #[must_use]
    pub const fn takes_credit(self) -> bool {
        matches!(self, Self::Immediate | Self::PutReq | Self::GetReq)
    }
}

/// What two ends agree about a connection.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Parameters {
    /// Messages with a credit that may be under way in one direction.
    pub queue_depth: u16,
    /// The most fragments of a descriptor.
    pub fragments: u16,
    /// The most bytes of a message.
    pub message_size: u32,
}

impl Parameters {
    pub(super) fn read(reader: &Reader<'_>, at: usize) -> Result<Self, DecodeError> {
        Ok(Self {
            queue_depth: reader.u16(at)?,
            fragments: reader.u16(at + 2)?,
            message_size: reader.u32(at + 4)?,
        })
    }

    pub(super) fn write(&self, writer: &mut Writer<'_>) {
        writer
            .u16(self.queue_depth)
            .u16(self.fragments)
            .u32(self.message_size);
    }
}

/// A piece of registered memory.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Fragment {
    /// Its bytes.
    pub length: u32,
    /// Its address, as the device of its owner knows it.
    pub address: u64,
}

/// Memory that the other end may write to.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Descriptor {
    /// The key of all fragments.
    pub rkey: u32,
    /// The fragments, 1 to [`FRAGMENTS_MAX`].
    pub fragments: Vec<Fragment>,
}

impl Descriptor {
    /// Returns the bytes of all fragments.
    #[must_use]
    pub fn bytes(&self) -> u64 {
        let lengths = self
            .fragments
            .iter()
            .map(|fragment| u64::from(fragment.length));
        lengths.sum()
    }

    // [IB-6]
    fn read(reader: &Reader<'_>, at: usize, end: usize) -> Result<Self, DecodeError> {
        let count = reader.u32(at + 4)?;
        if count == 0 || count > FRAGMENTS_MAX.into() {
            let problem = Problem::OutOfRange {
                field: "fragments",
                value: count.into(),
                min: 1,
                max: FRAGMENTS_MAX.into(),
            };
            return Err(reader.error(at + 4, problem));
        }
        let first = at + DESCRIPTOR_LEN;
        let needed = first + count as usize * FRAGMENT_LEN;
        if needed > end {
            let problem = Problem::Truncated {
                needed,
                available: end,
            };
            return Err(reader.error(end, problem));
        }
        let fragment = |index: usize| {
            let at = first + index * FRAGMENT_LEN;
            let (length, address) = (reader.u32(at)?, reader.u64(at + 4)?);
            if address.checked_add(length.into()).is_none() {
                let problem = Problem::OutOfRange {
                    field: "fragment address",
                    value: address,
                    min: 0,
                    max: u64::MAX - u64::from(length),
                };
                return Err(reader.error(at + 4, problem));
            }
            Ok(Fragment { length, address })
        };
        Ok(Self {
            rkey: reader.u32(at)?,
            fragments: (0..count as usize)
                .map(fragment)
                .collect::<Result<_, _>>()?,
        })
    }

    fn write(&self, writer: &mut Writer<'_>) {
        // A caller has checked the number of fragments, which is at most 257.
        writer.u32(self.rkey).u32(self.fragments.len() as u32);
        for fragment in &self.fragments {
            writer.u32(fragment.length).u64(fragment.address);
        }
    }
}

/// The fields that each message has.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Envelope {
    /// Credits given back to the receiver.
    pub credits: u8,
    /// The sender's NID.
    pub source: Nid,
    /// The incarnation of the sender's NI.
    pub source_incarnation: u64,
    /// The receiver's NID.
    pub destination: Nid,
    /// The incarnation of the receiver's NI as the sender knows it; 0 if unknown.
    pub destination_incarnation: u64,
}

/// The part of a message that depends on its type.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Body<'a> {
    /// Asks for a connection.
    Connreq(Parameters),
    /// Accepts a connection.
    Connack(Parameters),
    /// Nothing.
    Noop,
    /// An LNet message.
    Immediate {
        /// Its header.
        header: Header,
        /// What follows the header: at least its payload.
        payload: &'a [u8],
    },
    /// The header of a message with payload that is to be written.
    PutReq {
        /// The header.
        header: Header,
        /// Names the message to its sender.
        cookie: u64,
    },
    /// No payload is wanted.
    PutNak {
        /// The cookie of the PUT_REQ.
        cookie: u64,
        /// 0, or a negative errno.
        status: i32,
    },
    /// Where to write the payload.
    PutAck {
        /// The cookie of the PUT_REQ.
        source_cookie: u64,
        /// Names the message to its receiver.
        sink_cookie: u64,
        /// The memory.
        descriptor: Descriptor,
    },
    /// The payload is written.
    PutDone {
        /// The sink's cookie.
        cookie: u64,
        /// 0, or a negative errno.
        status: i32,
    },
    /// The header of a GET with memory for the reply.
    GetReq {
        /// The header.
        header: Header,
        /// Names the message to its sender.
        cookie: u64,
        /// The memory.
        descriptor: Descriptor,
    },
    /// The reply is written.
    GetDone {
        /// The cookie of the GET_REQ.
        cookie: u64,
        /// The bytes of the reply, or a negative errno.
        status: i32,
    },
}

impl Body<'_> {
    /// Returns the type.
    #[must_use]
    pub const fn kind(&self) -> MessageKind {
        match self {
            Self::Connreq(_) => MessageKind::Connreq,
            Self::Connack(_) => MessageKind::Connack,
            Self::Noop => MessageKind::Noop,
            Self::Immediate { .. } => MessageKind::Immediate,
            Self::PutReq { .. } => MessageKind::PutReq,
            Self::PutNak { .. } => MessageKind::PutNak,
            Self::PutAck { .. } => MessageKind::PutAck,
            Self::PutDone { .. } => MessageKind::PutDone,
            Self::GetReq { .. } => MessageKind::GetReq,
            Self::GetDone { .. } => MessageKind::GetDone,
        }
    }

    fn len(&self) -> usize {
        let more = match self {
            Self::Immediate { payload, .. } => payload.len(),
            Self::PutAck { descriptor, .. } | Self::GetReq { descriptor, .. } => {
                descriptor.fragments.len() * FRAGMENT_LEN
            }
            _ => 0,
        };
        self.kind().least_len() + more
    }
}

/// A message.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Message<'a> {
    /// The fields that each message has.
    pub envelope: Envelope,
    /// The rest.
    pub body: Body<'a>,
}

impl<'a> Message<'a> {
    /// Decodes the message in the `bytes` of a receive buffer or of private data, and makes every check that needs no
    /// state. Ignores bytes behind the length that the message states.
    ///
    /// # Errors
    ///
    /// A short input, a wrong magic number, another version ([`Problem::UnknownVersion`]), a length above that of the
    /// input or below that of the type, a wrong checksum, a malformed or wildcard source NID, an unknown type, a
    /// descriptor without fragments, with too many, or with a fragment that passes the end of the address space, a
    /// malformed LNet header, or less payload than the header states. Each is a protocol error.
    // [IB-7]
    pub fn decode(bytes: &'a [u8]) -> Result<Self, DecodeError> {
        let reader = Reader::new(WHAT, bytes);
        reader.require(6)?;
        let magic = reader.u32(0)?;
        let order =
            ByteOrder::of_magic(magic, MAGIC).ok_or(reader.error(0, Problem::BadMagic(magic)))?;
        let reader = reader.with_order(order);
        let version = reader.u16(4)?;
        if version != VERSION {
            return Err(reader.error(4, Problem::UnknownVersion(version.into())));
        }
        reader.require(ENVELOPE_LEN)?;
        let message = Self::stated(&reader, bytes)?;
        Self::verify(&reader, message)?;
        let [number, credits] = reader.array(6)?;
        let unknown = Problem::UnknownValue {
            field: "type",
            value: number.into(),
        };
        let kind = MessageKind::ALL
            .into_iter()
            .find(|kind| *kind as u8 == number)
            .ok_or(reader.error(6, unknown))?;
        Reader::new(WHAT, message).require(kind.least_len())?;
        let source = reader.nid4(16)?;
        if source.is_any() {
            return Err(reader.error(16, Problem::BadNid));
        }
        let envelope = Envelope {
            credits,
            source,
            source_incarnation: reader.u64(24)?,
            destination: reader.nid4(32)?,
            destination_incarnation: reader.u64(40)?,
        };
        let body = Self::body(kind, &reader, message)?;
        Ok(Self { envelope, body })
    }

    /// Returns the version of a message that speaks another one than [`VERSION`], and the NID at the place where each known
    /// version has the sender. `None` for other bytes.
    // [IB-3]
    #[must_use]
    pub fn other_version(bytes: &[u8]) -> Option<(u16, Option<Nid>)> {
        let reader = Reader::new(WHAT, bytes);
        let order = ByteOrder::of_magic(reader.u32(0).ok()?, MAGIC)?;
        let reader = reader.with_order(order);
        let version = reader.u16(4).ok()?;
        let source = reader.nid4(16).ok().filter(|nid| !nid.is_any());
        (version != VERSION).then_some((version, source))
    }

    /// Returns as many of the bytes as the message states.
    fn stated(reader: &Reader<'_>, bytes: &'a [u8]) -> Result<&'a [u8], DecodeError> {
        let stated = reader.u32(8)?;
        let available = bytes.len();
        let problem = Problem::OutOfRange {
            field: "length",
            value: stated.into(),
            min: ENVELOPE_LEN as u64,
            max: available as u64,
        };
        bytes
            .get(..stated as usize)
            .filter(|message| message.len() >= ENVELOPE_LEN)
            .ok_or(reader.error(8, problem))
    }

    // [IB-8]
    fn verify(reader: &Reader<'_>, message: &[u8]) -> Result<(), DecodeError> {
        let found = reader.u32(12)?;
        if found != 0 && found != checksum(message) {
            return Err(reader.error(12, Problem::BadChecksum(found)));
        }
        Ok(())
    }

    fn body(
        kind: MessageKind,
        reader: &Reader<'_>,
        message: &'a [u8],
    ) -> Result<Body<'a>, DecodeError> {
        let end = message.len();
        let status = |at| reader.u32(at).map(u32::cast_signed);
        Ok(match kind {
            MessageKind::Connreq => Body::Connreq(Parameters::read(reader, 48)?),
            MessageKind::Connack => Body::Connack(Parameters::read(reader, 48)?),
            MessageKind::Noop => Body::Noop,
            MessageKind::Immediate => Self::immediate(reader, message)?,
            MessageKind::PutReq => Body::PutReq {
                header: Self::header(message)?,
                cookie: reader.u64(120)?,
            },
            MessageKind::PutNak => Body::PutNak {
                cookie: reader.u64(48)?,
                status: status(56)?,
            },
            MessageKind::PutAck => Body::PutAck {
                source_cookie: reader.u64(48)?,
                sink_cookie: reader.u64(56)?,
                descriptor: Descriptor::read(reader, 64, end)?,
            },
            MessageKind::PutDone => Body::PutDone {
                cookie: reader.u64(48)?,
                status: status(56)?,
            },
            MessageKind::GetReq => Body::GetReq {
                header: Self::header(message)?,
                cookie: reader.u64(120)?,
                descriptor: Descriptor::read(reader, 128, end)?,
            },
            MessageKind::GetDone => Body::GetDone {
                cookie: reader.u64(48)?,
                status: status(56)?,
            },
        })
    }

    fn header(message: &[u8]) -> Result<Header, DecodeError> {
        Header::decode(
            HeaderForm::Nid4,
            message.get(ENVELOPE_LEN..).unwrap_or_default(),
        )
    }

    fn immediate(reader: &Reader<'_>, message: &'a [u8]) -> Result<Body<'a>, DecodeError> {
        let header = Self::header(message)?;
        let payload = message.get(IMMEDIATE_PAYLOAD_AT..).unwrap_or_default();
        let needed = IMMEDIATE_PAYLOAD_AT + header.payload_length as usize;
        if payload.len() < header.payload_length as usize {
            let available = message.len();
            let problem = Problem::Truncated { needed, available };
            return Err(reader.error(available, problem));
        }
        Ok(Body::Immediate { header, payload })
    }

    /// Writes the message without a checksum, little-endian, and returns its length.
    ///
    /// # Errors
    ///
    /// A buffer that is too short, a NID with a 16-byte address, payload above [`IMMEDIATE_MAX`], or a number of
    /// fragments that is not 1 to [`FRAGMENTS_MAX`].
    pub fn encode(&self, buffer: &mut [u8]) -> Result<usize, EncodeError> {
        let len = self.body.len();
        match &self.body {
            Body::Immediate { payload, .. } if payload.len() > IMMEDIATE_MAX => {
                return Err(too_large("payload", payload.len(), IMMEDIATE_MAX));
            }
            Body::PutAck { descriptor, .. } | Body::GetReq { descriptor, .. } => {
                let count = descriptor.fragments.len();
                if count == 0 || count > FRAGMENTS_MAX.into() {
                    return Err(too_large("fragments", count, FRAGMENTS_MAX.into()));
                }
            }
            _ => {}
        }
        let mut writer = Writer::new(buffer, len)?;
        self.envelope.write(self.body.kind(), len, &mut writer)?;
        match &self.body {
            Body::Connreq(parameters) | Body::Connack(parameters) => parameters.write(&mut writer),
            Body::Noop => {}
            Body::Immediate { header, payload } => {
                write_header(header, &mut writer)?;
                writer.bytes(payload);
            }
            Body::PutReq { header, cookie } => {
                write_header(header, &mut writer)?;
                writer.u64(*cookie);
            }
            Body::PutNak { cookie, status }
            | Body::PutDone { cookie, status }
            | Body::GetDone { cookie, status } => {
                writer.u64(*cookie).u32(status.cast_unsigned());
            }
            Body::PutAck {
                source_cookie,
                sink_cookie,
                descriptor,
            } => {
                writer.u64(*source_cookie).u64(*sink_cookie);
                descriptor.write(&mut writer);
            }
            Body::GetReq {
                header,
                cookie,
                descriptor,
            } => {
                write_header(header, &mut writer)?;
                writer.u64(*cookie);
                descriptor.write(&mut writer);
            }
        }
        Ok(len)
    }
}

/// Writes an IMMEDIATE message except for its payload, which the caller puts at [`IMMEDIATE_PAYLOAD_AT`]. Returns the
/// length with the payload.
///
/// # Errors
///
/// Those of [`Message::encode`].
pub fn encode_immediate(
    envelope: &Envelope,
    header: &Header,
    buffer: &mut [u8],
) -> Result<usize, EncodeError> {
    let payload = header.payload_length as usize;
    if payload > IMMEDIATE_MAX {
        return Err(too_large("payload", payload, IMMEDIATE_MAX));
    }
    let len = IMMEDIATE_PAYLOAD_AT + payload;
    let mut writer = Writer::new(buffer, len)?;
    envelope.write(MessageKind::Immediate, len, &mut writer)?;
    write_header(header, &mut writer)?;
    Ok(len)
}

impl Envelope {
    fn write(
        &self,
        kind: MessageKind,
        len: usize,
        writer: &mut Writer<'_>,
    ) -> Result<(), EncodeError> {
        writer.u32(MAGIC).u16(VERSION);
        // The length is at most 4,096 here.
        writer
            .bytes(&[kind as u8, self.credits])
            .u32(len as u32)
            .u32(0);
        writer.nid4(self.source)?.u64(self.source_incarnation);
        writer
            .nid4(self.destination)?
            .u64(self.destination_incarnation);
        Ok(())
    }
}

fn write_header(header: &Header, writer: &mut Writer<'_>) -> Result<(), EncodeError> {
    let mut bytes = [0; HeaderForm::Nid4.len()];
    header.encode(HeaderForm::Nid4, &mut bytes)?;
    writer.bytes(&bytes);
    Ok(())
}

fn too_large(field: &'static str, value: usize, max: usize) -> EncodeError {
    EncodeError::TooLarge {
        field,
        value: value as u64,
        max: max as u64,
    }
}

const _: () = assert!(MESSAGE_MAX >= 136 + FRAGMENTS_MAX as usize * FRAGMENT_LEN);
