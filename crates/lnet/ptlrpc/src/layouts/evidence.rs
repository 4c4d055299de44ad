//! What is known from captures, and what from reading only: by field, by buffer, and by what a value says.

use super::{Evidence, Field, Layout, common, ldlm, mds, ost};
use crate::body::Body;
use crate::opcode::opc;

/// All structures.
pub(super) static LAYOUTS: &[&Layout] = &[
    &common::BODY,
    &common::CONNECT_DATA,
    &common::STATFS,
    &common::RANGE,
    &common::QUOTACTL,
    &common::QUOTA_BODY,
    &common::IDX_INFO,
    &common::HANDLE,
    &common::CONFIG_READ,
    &common::CONFIG_RESULT,
    &common::LLOGD,
    &common::LOG_HEADER,
    &ldlm::DLM_REQ,
    &ldlm::DLM_REP,
    &ldlm::INTENT,
    &ldlm::GL_DESC,
    &mds::MDT_BODY,
    &mds::REC_SETATTR,
    &mds::REC_CREATE,
    &mds::REC_OPEN,
    &mds::REC_LINK,
    &mds::REC_UNLINK,
    &mds::REC_RENAME,
    &mds::REC_MIGRATE,
    &mds::REC_SETXATTR,
    &mds::REC_RESYNC,
    &mds::REC_OTHER,
    &mds::IOEPOCH,
    &mds::LAYOUT_INTENT,
    &ost::OST_BODY,
    &ost::IOOBJ,
    &ost::NIOBUF,
    &ost::LADVISE_HEADER,
    &ost::LADVISE,
    &ost::OST_LVB,
];

/// The fields of a message's header, with those that no capture has a value of.
pub(crate) static HEADER: [(&str, Evidence); 8] = [
    ("bufcount", Evidence::Live),
    ("secflvr", Evidence::Live),
    ("magic", Evidence::Live),
    ("repsize", Evidence::Live),
    ("cksum", Evidence::Checked),
    ("flags", Evidence::Live),
    ("opc", Evidence::Checked),
    ("pad", Evidence::Checked),
];

/// The buffers that captures have, of those that hold a name or bytes.
static BUFFERS: &[&str] = &[
    "acl",
    "client_uuid",
    "default_lmv",
    "ea",
    "inline_data",
    "lengths",
    "log_block",
    "lov_ea",
    "lvb",
    "name",
    "names",
    "new_name",
    "op",
    "results",
    "target_uuid",
    "value",
    "values",
];

/// Returns how sure a buffer with a name or with bytes is.
pub(crate) fn of_buffer(name: &str) -> Evidence {
    match BUFFERS.contains(&name) {
        true => Evidence::Live,
        false => Evidence::Read,
    }
}

/// Returns every field of every structure and the buffers that captures have: the structure, the field, and how sure it is.
pub fn known_fields() -> impl Iterator<Item = (&'static str, &'static str, Evidence)> {
    let header = HEADER
        .iter()
        .map(|(name, evidence)| ("header", *name, *evidence));
    let specs = LAYOUTS.iter().flat_map(|layout| {
        let specs = layout.specs.iter();
        let specs = specs.map(|spec| (layout.name, spec.name, layout.evidence_of(spec)));
        let tail = layout.tail.name();
        specs.chain(tail.map(|name| (layout.name, name, layout.tail_evidence())))
    });
    let buffers = BUFFERS.iter().map(|name| ("buffer", *name, Evidence::Live));
    header.chain(specs).chain(buffers)
}

/// Something that no capture has, and how it is recognised.
#[derive(Clone, Copy, Debug)]
pub struct NotSeen {
    /// What it is.
    pub what: &'static str,
    /// The structure.
    part: &'static str,
    /// Its field.
    field: &'static str,
    /// The value.
    value: Value,
}

#[derive(Clone, Copy, Debug)]
enum Value {
    /// One of these bits is set.
    Bits(u64),
    /// It is an error, in the reply to a connect.
    ErrorOfConnect,
}

const fn bits(what: &'static str, part: &'static str, field: &'static str, bits: u64) -> NotSeen {
    let value = Value::Bits(bits);
    NotSeen {
        what,
        part,
        field,
        value,
    }
}

/// What no capture has, though the field has other values there.
pub static NOT_SEEN: &[NotSeen] = &[
    bits("early replies", "header", "cksum", u64::MAX),
    bits("resend", "ptlrpc_body", "flags", 0x2),
    // Bulk of several messages has the low bits of the last.
    bits("multi-part bulk", "ptlrpc_body", "mbits", 0x3f),
    NotSeen {
        what: "errors in connects",
        part: "ptlrpc_body",
        field: "status",
        value: Value::ErrorOfConnect,
    },
    // Replayed requests and locks, and the end of both; a target that recovers, a client that was there before.
    bits("recovery", "ptlrpc_body", "flags", 0x4 | 0x40 | 0x80),
    bits("recovery", "ptlrpc_body", "op_flags", 0x1 | 0x2 | 0x100),
    bits("recovery", "connect_data", "transno", u64::MAX),
    // Any flavor but null.
    bits("gss", "header", "secflvr", 0xf_ffff),
    bits("LIGHTWEIGHT", "connect_data", "flags", 1 << 48),
];

/// Returns what a field says that no capture has.
#[must_use]
pub fn not_seen(field: &Field<'_>, body: Option<&Body<'_>>) -> Option<&'static NotSeen> {
    let mut facts = NOT_SEEN.iter();
    facts.find(|fact| {
        let is_it = fact.part == field.part && fact.field == field.name;
        is_it
            && match fact.value {
                Value::Bits(bits) => field.number().is_some_and(|number| number & bits != 0),
                Value::ErrorOfConnect => body.is_some_and(|body| {
                    let connects = [opc::MGS_CONNECT, opc::MDS_CONNECT, opc::OST_CONNECT];
                    connects.contains(&body.opc()) && body.status() < 0
                }),
            }
    })
}
