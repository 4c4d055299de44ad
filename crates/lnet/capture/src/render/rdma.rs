//! Messages over RDMA as text: those of the connection manager, of the o2ib LND, and what acknowledgements say.

use std::fmt::{self, Write as _};

use lnet_wire::Header;
use lnet_wire::o2ib::{Body, Descriptor, Message, Parameters};

use super::line;
use crate::message::{Cm, CmStep, Nak, RdmaWrite, type_name};

pub(super) fn cm(text: &mut String, cm: &Cm<'_>) -> fmt::Result {
    if let Some(known) = cm.message {
        return message(text, known);
    }
    match (cm.step, cm.rejection) {
        (_, Some(rejection)) => {
            write!(text, "rejected: {:?}; the most is ", rejection.reason)?;
            parameters(text, &rejection.parameters)
        }
        (CmStep::Reject(reason), None) => write!(text, "rejected: {}", reason_text(reason)),
        _ => Ok(()),
    }
}

/// Returns the words for a reason of the connection manager.
pub(super) fn reason_text(reason: u16) -> String {
    match reason {
        4 => "timeout".to_owned(),
        8 => "nobody listens at this port (invalid service ID)".to_owned(),
        10 => "stale connection".to_owned(),
        CmStep::BY_PEER => "by the peer".to_owned(),
        other => format!("reason {other}"),
    }
}

pub(super) fn message(text: &mut String, message: &Message<'_>) -> fmt::Result {
    match &message.body {
        Body::Connreq(known) | Body::Connack(known) => {
            parameters(text, known)?;
            let incarnation = message.envelope.source_incarnation;
            write!(text, ", incarnation {incarnation:#x}")?;
        }
        Body::Noop => {}
        Body::Immediate { header, .. } => lnet(text, header)?,
        Body::PutReq { header, cookie } => {
            lnet(text, header)?;
            write!(text, " cookie {cookie:#x}")?;
        }
        Body::PutNak { cookie, status } | Body::PutDone { cookie, status } => {
            write!(text, "cookie {cookie:#x} status {status}")?;
        }
        Body::PutAck {
            source_cookie,
            sink_cookie,
            descriptor: memory,
        } => {
            write!(text, "cookie {source_cookie:#x} sink {sink_cookie:#x}")?;
            descriptor(text, memory)?;
        }
        Body::GetReq {
            header,
            cookie,
            descriptor: memory,
        } => {
            lnet(text, header)?;
            write!(text, " cookie {cookie:#x}")?;
            descriptor(text, memory)?;
        }
        Body::GetDone { cookie, status } => match status {
            0.. => write!(text, "cookie {cookie:#x} {status} bytes")?,
            _ => write!(text, "cookie {cookie:#x} status {status}")?,
        },
    }
    match message.envelope.credits {
        0 => Ok(()),
        credits => write!(text, " credits {credits}"),
    }
}

fn lnet(text: &mut String, header: &Header) -> fmt::Result {
    write!(text, "{} ", type_name(header.message_type()))?;
    line::header(text, header)
}

fn parameters(text: &mut String, parameters: &Parameters) -> fmt::Result {
    let Parameters {
        queue_depth,
        fragments,
        message_size,
    } = parameters;
    write!(
        text,
        "queue depth {queue_depth}, {fragments} fragments, messages of {message_size} bytes"
    )
}

fn descriptor(text: &mut String, descriptor: &Descriptor) -> fmt::Result {
    let (bytes, count) = (descriptor.bytes(), descriptor.fragments.len());
    let rkey = descriptor.rkey;
    write!(text, "; {bytes} bytes in {count} fragments, rkey {rkey:#x}")
}

pub(super) fn write(text: &mut String, write: RdmaWrite) -> fmt::Result {
    let RdmaWrite {
        address,
        rkey,
        length,
    } = write;
    write!(text, "{length} bytes to {address:#x}, rkey {rkey:#x}")
}

/// Returns the words for a negative acknowledgement.
pub(super) fn nak_text(nak: Nak) -> String {
    match nak {
        Nak::ReceiverNotReady => "the receiver has no buffer, and is asked again".to_owned(),
        Nak::SequenceError => "a packet is missing".to_owned(),
        Nak::InvalidRequest => "the request is not valid".to_owned(),
        Nak::RemoteAccess => "the memory may not be written".to_owned(),
        Nak::RemoteOperation => "the receiver cannot carry out the request".to_owned(),
        Nak::Other(code) => format!("code {code:#x}"),
    }
}

pub(super) fn packets_lost(text: &mut String, packets: u32, undecoded: u64) -> fmt::Result {
    write!(text, "{packets} packets are not in the capture")?;
    match undecoded {
        0 => Ok(()),
        _ => write!(
            text,
            ", {undecoded} bytes in front of them cannot be decoded"
        ),
    }
}
