//! Bytes of an LNet header.
//!
//! ```text
//!          dest NID  src NID  dest pid  src pid  type  payload length  union (40 bytes)
//!  Nid4    0         8        16        20       24    28              32              72
//!  Nid16   0         20       40        44       48    52              56              96
//!
//!  union   0                     16           24           28        32        36        40
//!  ACK     | dst_wmd             | match bits | mlength    | 0                           |
//!  PUT     | ack_wmd             | match bits | hdr_data             | portal  | offset  |
//!  GET     | return_wmd          | match bits | portal     | offset  | length  | 0       |
//!  REPLY   | dst_wmd             | 0                                                     |
//! ```
//!
//! Always little-endian, whatever the byte order of the frame header is.

use lnet_types::Nid;

use super::{Ack, Body, Get, Handle, Header, HeaderForm, LNET_MTU, MessageType, Put, Reply};
use crate::bytes::{Reader, Writer};
use crate::error::{DecodeError, EncodeError, Problem};

const WHAT: &str = "LNet header";

impl Header {
    /// Decodes the header at the start of `bytes`; ignores bytes after it.
    ///
    /// Ignores bytes that the type does not use, as kernels do;
    /// [`reserved_is_zero`](Self::reserved_is_zero) checks them.
    ///
    /// # Errors
    ///
    /// A short input, a malformed NID, an unknown type (HELLO is one), an ACK or GET with a
    /// payload, or a payload above [`LNET_MTU`]. Each is a protocol error that closes the
    /// connection.
    // [MSG-1]
    pub fn decode(form: HeaderForm, bytes: &[u8]) -> Result<Self, DecodeError> {
        let reader = Reader::new(WHAT, bytes);
        reader.require(form.len())?;
        let (dest_nid, src_nid) = read_nids(form, &reader)?;
        let at = form.pids_at();
        let message_type = read_type(&reader, at + 8)?;
        let payload_length = reader.u32(at + 12)?;
        let max = message_type.payload_max();
        if payload_length > max {
            let value = payload_length.into();
            let problem = Problem::OutOfRange {
                field: "payload length",
                value,
                min: 0,
                max: max.into(),
            };
            return Err(reader.error(at + 12, problem));
        }
        Ok(Self {
            dest_nid,
            src_nid,
            dest_pid: reader.u32(at)?,
            src_pid: reader.u32(at + 4)?,
            payload_length,
            body: read_body(message_type, &reader, form.union_at())?,
        })
    }

    /// Writes the header and returns its length; sets unused bytes to zero.
    ///
    /// # Errors
    ///
    /// A short buffer, a large NID in the 72-byte form, or a payload length that the type does not
    /// allow.
    // [MSG-6] [LARGE-4]
    pub fn encode(&self, form: HeaderForm, buffer: &mut [u8]) -> Result<usize, EncodeError> {
        let max = self.message_type().payload_max();
        if self.payload_length > max {
            return Err(EncodeError::TooLarge {
                field: "payload length",
                value: self.payload_length.into(),
                max: max.into(),
            });
        }
        let mut writer = Writer::new(buffer, form.len())?;
        match form {
            HeaderForm::Nid4 => writer.nid4(self.dest_nid)?.nid4(self.src_nid)?,
            HeaderForm::Nid16 => writer.nid16(self.dest_nid).nid16(self.src_nid),
        };
        writer.u32(self.dest_pid).u32(self.src_pid);
        writer
            .u32(self.message_type() as u32)
            .u32(self.payload_length);
        write_body(&self.body, &mut writer);
        writer.zeros();
        Ok(form.len())
    }

    /// Returns true if the bytes that the type does not use are zero, as all known senders write
    /// them. The encoded header then has the bytes of the decoded one; the only exception is the
    /// 20-byte wildcard NID, which has many encodings and does not occur in headers. Returns false
    /// for a short or malformed header.
    // [MSG-7]
    #[must_use]
    pub fn reserved_is_zero(form: HeaderForm, bytes: &[u8]) -> bool {
        let Ok(message_type) = read_type(&Reader::new(WHAT, bytes), form.pids_at() + 8) else {
            return false;
        };
        let from = form.union_at() + message_type.used_len();
        let reserved = bytes.get(from..form.len());
        reserved.is_some_and(|reserved| reserved.iter().all(|&byte| byte == 0))
    }

    /// The message type.
    #[must_use]
    pub const fn message_type(&self) -> MessageType {
        self.body.message_type()
    }
}

impl HeaderForm {
    /// Offset of the destination process id, the first field after the NIDs.
    const fn pids_at(self) -> usize {
        match self {
            Self::Nid4 => 16,
            Self::Nid16 => 40,
        }
    }

    const fn union_at(self) -> usize {
        self.pids_at() + 16
    }
}

impl MessageType {
    /// The type with this number; `None` for unknown numbers and for HELLO (4), which is never a
    /// message of its own.
    // [MSG-3]
    #[must_use]
    pub const fn from_number(number: u32) -> Option<Self> {
        match number {
            0 => Some(Self::Ack),
            1 => Some(Self::Put),
            2 => Some(Self::Get),
            3 => Some(Self::Reply),
            _ => None,
        }
    }

    /// The most payload that a message of this type carries, in bytes.
    // [MSG-4] [MSG-5]
    #[must_use]
    pub const fn payload_max(self) -> u32 {
        match self {
            Self::Ack | Self::Get => 0,
            Self::Put | Self::Reply => LNET_MTU,
        }
    }

    /// Bytes of the union that the type uses.
    const fn used_len(self) -> usize {
        match self {
            Self::Ack => 28,
            Self::Put => 40,
            Self::Get => 36,
            Self::Reply => 16,
        }
    }
}

// [LARGE-2] [LARGE-3]
fn read_nids(form: HeaderForm, reader: &Reader<'_>) -> Result<(Nid, Nid), DecodeError> {
    match form {
        HeaderForm::Nid4 => Ok((reader.nid4(0)?, reader.nid4(8)?)),
        HeaderForm::Nid16 => Ok((reader.nid16(0)?, reader.nid16(20)?)),
    }
}

fn read_type(reader: &Reader<'_>, at: usize) -> Result<MessageType, DecodeError> {
    let value = reader.u32(at)?;
    let unknown = Problem::UnknownValue {
        field: "message type",
        value,
    };
    MessageType::from_number(value).ok_or(reader.error(at, unknown))
}

fn read_body(
    message_type: MessageType,
    reader: &Reader<'_>,
    at: usize,
) -> Result<Body, DecodeError> {
    let handle = Handle {
        interface: reader.u64(at)?,
        object: reader.u64(at + 8)?,
    };
    Ok(match message_type {
        MessageType::Ack => Body::Ack(Ack {
            dst_wmd: handle,
            match_bits: reader.u64(at + 16)?,
            mlength: reader.u32(at + 24)?,
        }),
        MessageType::Put => Body::Put(Put {
            ack_wmd: handle,
            match_bits: reader.u64(at + 16)?,
            hdr_data: reader.u64(at + 24)?,
            ptl_index: reader.u32(at + 32)?,
            offset: reader.u32(at + 36)?,
        }),
        MessageType::Get => Body::Get(Get {
            return_wmd: handle,
            match_bits: reader.u64(at + 16)?,
            ptl_index: reader.u32(at + 24)?,
            src_offset: reader.u32(at + 28)?,
            sink_length: reader.u32(at + 32)?,
        }),
        MessageType::Reply => Body::Reply(Reply { dst_wmd: handle }),
    })
}

fn write_body(body: &Body, writer: &mut Writer<'_>) {
    match body {
        Body::Ack(ack) => {
            write_handle(ack.dst_wmd, writer);
            writer.u64(ack.match_bits).u32(ack.mlength);
        }
        Body::Put(put) => {
            write_handle(put.ack_wmd, writer);
            writer
                .u64(put.match_bits)
                .u64(put.hdr_data)
                .u32(put.ptl_index)
                .u32(put.offset);
        }
        Body::Get(get) => {
            write_handle(get.return_wmd, writer);
            writer.u64(get.match_bits).u32(get.ptl_index);
            writer.u32(get.src_offset).u32(get.sink_length);
        }
        Body::Reply(reply) => write_handle(reply.dst_wmd, writer),
    }
}

// [TYPE-6]
fn write_handle(handle: Handle, writer: &mut Writer<'_>) {
    writer.u64(handle.interface).u64(handle.object);
}
