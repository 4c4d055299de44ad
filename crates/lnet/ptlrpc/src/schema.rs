//! Which buffer of which RPC holds what.

use crate::body::Body;
use crate::layouts::common::{
    BODY, CONFIG_READ, CONFIG_RESULT, CONNECT_DATA, HANDLE, IDX_INFO, LLOGD, LOG_HEADER,
    QUOTA_BODY, QUOTACTL, RANGE, STATFS,
};
use crate::layouts::evidence::{self, not_seen};
use crate::layouts::ldlm::{DLM_REP, DLM_REQ, GL_DESC, INTENT};
use crate::layouts::mds::{
    IOEPOCH, LAYOUT_INTENT, MDT_BODY, REC_CREATE, REC_LINK, REC_MIGRATE, REC_OPEN, REC_OTHER,
    REC_RENAME, REC_RESYNC, REC_SETATTR, REC_SETXATTR, REC_UNLINK,
};
use crate::layouts::ost::{IOOBJ, LADVISE, LADVISE_HEADER, NIOBUF, OST_BODY, OST_LVB};
use crate::layouts::{Evidence, Field, Format, Layout, UNDECODED};
use crate::message::{Buffer, Message};
use crate::opcode::opc;
use crate::schema::Part::{Blob, Empty, Many, Number, One, Record, Text};
use crate::view::{View, pad8};

/// What a buffer holds.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Part {
    /// One structure.
    One(&'static Layout),
    /// Several structures, one behind the other.
    Many(&'static Layout),
    /// A name that ends with NUL.
    Text(&'static str),
    /// A number.
    Number(&'static str),
    /// Bytes that this crate names, and does not look into.
    Blob(&'static str),
    /// Nothing: its length is 0.
    Empty,
    /// The record of `MDS_REINT`, whose first number says which.
    Record,
}

/// The buffers of an RPC.
struct Schema {
    opc: u32,
    evidence: Evidence,
    request: &'static [Part],
    reply: &'static [Part],
}

const fn live(opc: u32, request: &'static [Part], reply: &'static [Part]) -> Schema {
    let evidence = Evidence::Live;
    Schema {
        opc,
        evidence,
        request,
        reply,
    }
}

const fn read(opc: u32, request: &'static [Part], reply: &'static [Part]) -> Schema {
    let evidence = Evidence::Read;
    Schema {
        opc,
        evidence,
        request,
        reply,
    }
}

static BARE: &[Part] = &[One(&BODY)];
static CONNECT: &[Part] = &[
    One(&BODY),
    Text("target_uuid"),
    Text("client_uuid"),
    One(&HANDLE),
    One(&CONNECT_DATA),
    Text("selinux_policy"),
];
static CONNECT_REPLY: &[Part] = &[One(&BODY), One(&CONNECT_DATA)];
static MDT: &[Part] = &[One(&BODY), One(&MDT_BODY), Empty];
static MDT_REPLY: &[Part] = &[
    One(&BODY),
    One(&MDT_BODY),
    Blob("lov_ea"),
    Blob("acl"),
    Blob("extra"),
    Blob("extra"),
    Blob("encryption"),
];
static OST: &[Part] = &[One(&BODY), One(&OST_BODY), Empty];
static STATFS_REPLY: &[Part] = &[One(&BODY), One(&STATFS)];
static LOCK: &[Part] = &[One(&BODY), One(&DLM_REQ)];
static LOCK_LVB: &[Part] = &[One(&BODY), One(&DLM_REQ), Blob("lvb")];
static LOCK_REPLY: &[Part] = &[One(&BODY), One(&DLM_REP), One(&OST_LVB)];
static LOG: &[Part] = &[One(&BODY), One(&LLOGD)];
static LOG_BLOCK: &[Part] = &[One(&BODY), One(&LLOGD), Blob("log_block")];
static KEY: &[Part] = &[One(&BODY), Text("key"), Blob("value"), Blob("extra")];
static VALUE: &[Part] = &[One(&BODY), Blob("value")];
static QUOTA: &[Part] = &[One(&BODY), One(&QUOTACTL), Blob("iterator")];
static DQACQ: &[Part] = &[One(&BODY), One(&QUOTA_BODY)];
static BRW: &[Part] = &[
    One(&BODY),
    One(&OST_BODY),
    Many(&IOOBJ),
    Many(&NIOBUF),
    Empty,
    Blob("inline_data"),
];
static IDX: &[Part] = &[One(&BODY), One(&IDX_INFO)];
static OUT: &[Part] = &[One(&BODY), Blob("updates"), Blob("update_buffers")];
static REINT: &[Part] = &[One(&BODY), Record];
static INTENDED: &[Part] = &[One(&BODY), One(&DLM_REQ), One(&INTENT)];
static HSM: &[Part] = &[One(&BODY), One(&MDT_BODY), Blob("hsm"), Blob("hsm")];

/// The known RPCs, in rising order of their opcodes.
// [PTLRPC-12]
static SCHEMAS: &[Schema] = &[
    read(1, OST, OST),
    read(2, OST, OST),
    live(
        opc::OST_READ,
        BRW,
        &[One(&BODY), One(&OST_BODY), Blob("inline_data")],
    ),
    live(
        opc::OST_WRITE,
        BRW,
        &[One(&BODY), One(&OST_BODY), Blob("results")],
    ),
    read(opc::OST_CREATE, OST, OST),
    read(
        opc::OST_DESTROY,
        &[One(&BODY), One(&OST_BODY), One(&DLM_REQ), Empty],
        OST,
    ),
    read(7, KEY, VALUE),
    live(opc::OST_CONNECT, CONNECT, CONNECT_REPLY),
    live(opc::OST_DISCONNECT, BARE, BARE),
    read(opc::OST_PUNCH, OST, OST),
    read(opc::OST_STATFS, BARE, STATFS_REPLY),
    live(16, OST, OST),
    read(17, KEY, OST),
    read(19, QUOTA, QUOTA),
    read(
        21,
        &[
            One(&BODY),
            One(&OST_BODY),
            One(&LADVISE_HEADER),
            Many(&LADVISE),
        ],
        OST,
    ),
    read(22, OST, OST),
    read(23, OST, OST),
    live(opc::MDS_GETATTR, MDT, MDT_REPLY),
    read(
        opc::MDS_GETATTR_NAME,
        &[One(&BODY), One(&MDT_BODY), Empty, Text("name")],
        MDT_REPLY,
    ),
    live(
        opc::MDS_CLOSE,
        &[
            One(&BODY),
            One(&IOEPOCH),
            Record,
            Empty,
            Blob("close_data"),
            Blob("numbers"),
        ],
        &[
            One(&BODY),
            One(&MDT_BODY),
            Blob("lov_ea"),
            Blob("cookies"),
            Empty,
            Empty,
        ],
    ),
    live(opc::MDS_REINT, &[], MDT_REPLY),
    live(opc::MDS_READPAGE, MDT, MDT),
    live(opc::MDS_CONNECT, CONNECT, CONNECT_REPLY),
    live(opc::MDS_DISCONNECT, BARE, BARE),
    live(
        opc::MDS_GET_ROOT,
        &[One(&BODY), One(&MDT_BODY), Text("fileset")],
        MDT,
    ),
    live(opc::MDS_STATFS, &[One(&BODY), One(&MDT_BODY)], STATFS_REPLY),
    live(44, MDT, MDT),
    read(46, KEY, BARE),
    read(48, QUOTA, QUOTA),
    read(
        opc::MDS_GETXATTR,
        &[
            One(&BODY),
            One(&MDT_BODY),
            Empty,
            Text("name"),
            Blob("value"),
            Text("selinux_policy"),
        ],
        &[One(&BODY), One(&MDT_BODY), Blob("value")],
    ),
    read(53, KEY, VALUE),
    read(54, HSM, HSM),
    read(55, HSM, HSM),
    read(56, HSM, HSM),
    read(57, HSM, HSM),
    read(58, HSM, HSM),
    read(59, HSM, HSM),
    read(60, HSM, HSM),
    read(
        61,
        &[
            One(&BODY),
            One(&MDT_BODY),
            Blob("flags"),
            Empty,
            Empty,
            One(&DLM_REQ),
        ],
        BARE,
    ),
    read(
        62,
        &[One(&BODY), One(&MDT_BODY), Blob("fids"), Empty, Empty],
        &[One(&BODY), One(&MDT_BODY), Blob("fids"), Blob("results")],
    ),
    read(63, OUT, OUT),
    live(opc::LDLM_ENQUEUE, LOCK, LOCK_REPLY),
    read(102, LOCK, LOCK_REPLY),
    live(opc::LDLM_CANCEL, LOCK, BARE),
    live(opc::LDLM_BL_CALLBACK, LOCK, BARE),
    live(opc::LDLM_CP_CALLBACK, LOCK_LVB, BARE),
    live(
        opc::LDLM_GL_CALLBACK,
        &[One(&BODY), One(&DLM_REQ), One(&GL_DESC)],
        VALUE,
    ),
    read(107, KEY, BARE),
    live(opc::MGS_CONNECT, CONNECT, CONNECT_REPLY),
    live(opc::MGS_DISCONNECT, BARE, BARE),
    read(
        253,
        &[One(&BODY), Blob("target_info"), Blob("nids")],
        &[One(&BODY), Blob("target_info")],
    ),
    live(
        opc::MGS_CONFIG_READ,
        &[One(&BODY), One(&CONFIG_READ)],
        &[One(&BODY), One(&CONFIG_RESULT)],
    ),
    live(opc::OBD_PING, BARE, BARE),
    read(403, IDX, IDX),
    live(
        opc::LLOG_CREATE,
        &[One(&BODY), One(&LLOGD), Text("name"), One(&MDT_BODY)],
        LOG,
    ),
    live(opc::LLOG_NEXT_BLOCK, LOG, LOG_BLOCK),
    live(opc::LLOG_READ_HEADER, LOG, &[One(&BODY), One(&LOG_HEADER)]),
    read(opc::LLOG_PREV_BLOCK, LOG, LOG_BLOCK),
    read(601, DQACQ, DQACQ),
    read(602, DQACQ, DQACQ),
    live(
        700,
        &[One(&BODY), Number("op"), One(&RANGE)],
        &[One(&BODY), One(&RANGE)],
    ),
    read(801, BARE, BARE),
    read(802, BARE, BARE),
    read(803, BARE, BARE),
    read(
        900,
        &[One(&BODY), Number("op"), One(&RANGE)],
        &[One(&BODY), One(&RANGE)],
    ),
    read(
        901,
        &[One(&BODY), One(&RANGE)],
        &[One(&BODY), Blob("ranges")],
    ),
    read(1000, OUT, OUT),
    read(
        1101,
        &[One(&BODY), Blob("lfsck")],
        &[One(&BODY), Blob("lfsck")],
    ),
    read(
        1102,
        &[One(&BODY), Blob("lfsck")],
        &[One(&BODY), Blob("lfsck")],
    ),
];

static ENTRY: &[Part] = &[
    Empty,
    Empty,
    Text("name"),
    Blob("ea"),
    Text("secctx_name"),
    Blob("secctx"),
    Text("selinux_policy"),
    Blob("encryption"),
];

/// The buffers behind the record of `MDS_REINT`, by its number.
// [PTLRPC-13]
fn behind_record(sub_op: u32) -> &'static [Part] {
    static SETATTR: &[Part] = &[
        Empty,
        One(&IOEPOCH),
        Blob("ea"),
        Blob("cookies"),
        One(&DLM_REQ),
    ];
    static CREATE: &[Part] = &[
        Empty,
        Text("name"),
        Blob("ea"),
        One(&DLM_REQ),
        Text("secctx_name"),
        Blob("secctx"),
        Text("selinux_policy"),
        Blob("encryption"),
    ];
    static LINK: &[Part] = &[
        Empty,
        Empty,
        Text("name"),
        One(&DLM_REQ),
        Text("selinux_policy"),
    ];
    static UNLINK: &[Part] = &[Empty, Text("name"), One(&DLM_REQ), Text("selinux_policy")];
    static RENAME: &[Part] = &[
        Empty,
        Empty,
        Text("name"),
        Text("new_name"),
        One(&DLM_REQ),
        Text("selinux_policy"),
    ];
    static SETXATTR: &[Part] = &[Empty, Text("name"), Blob("value"), One(&DLM_REQ)];
    static MIGRATE: &[Part] = &[
        Empty,
        Empty,
        Text("name"),
        Text("target"),
        One(&DLM_REQ),
        Text("selinux_policy"),
        One(&IOEPOCH),
        Blob("close_data"),
        Blob("ea"),
    ];
    static RESYNC: &[Part] = &[One(&DLM_REQ)];
    match sub_op {
        1 => SETATTR,
        2 => CREATE,
        3 => LINK,
        4 => UNLINK,
        5 => RENAME,
        6 => ENTRY,
        7 => SETXATTR,
        9 => MIGRATE,
        10 => RESYNC,
        _ => &[],
    }
}

/// The layout of the record of `MDS_REINT`.
pub(crate) fn record(sub_op: u32) -> &'static Layout {
    match sub_op {
        1 => &REC_SETATTR,
        2 => &REC_CREATE,
        3 => &REC_LINK,
        4 => &REC_UNLINK,
        5 => &REC_RENAME,
        6 => &REC_OPEN,
        7 => &REC_SETXATTR,
        9 => &REC_MIGRATE,
        10 => &REC_RESYNC,
        _ => &REC_OTHER,
    }
}

/// The buffers behind an intent's opcode in a request.
// [PTLRPC-14]
fn behind_intent(intent: u64) -> &'static [Part] {
    static OPEN: &[Part] = &[
        Record,
        Empty,
        Empty,
        Text("name"),
        Blob("ea"),
        Text("secctx_name"),
        Blob("secctx"),
        Text("selinux_policy"),
        Blob("encryption"),
    ];
    static CREATE: &[Part] = &[
        Record,
        Empty,
        Text("name"),
        Blob("ea"),
        Text("secctx_name"),
        Blob("secctx"),
        Text("selinux_policy"),
        Blob("encryption"),
    ];
    static XATTR: &[Part] = &[One(&MDT_BODY), Empty, Text("selinux_policy")];
    static LAYOUT: &[Part] = &[One(&LAYOUT_INTENT), Blob("ea")];
    static QUOTA: &[Part] = &[One(&QUOTA_BODY)];
    static GETATTR: &[Part] = &[One(&MDT_BODY), Empty, Text("name"), Text("secctx_name")];
    match intent {
        1 | 3 => OPEN,
        2 => CREATE,
        0x80 => XATTR,
        0x400 => LAYOUT,
        0x800 | 0x1000 => QUOTA,
        0x4000 | 0x8000 => &[],
        _ => GETATTR,
    }
}

/// The buffers of a reply to a lock request with this intent.
fn intent_reply(intent: u64) -> &'static [Part] {
    static OPEN: &[Part] = &[
        One(&BODY),
        One(&DLM_REP),
        One(&MDT_BODY),
        Blob("lov_ea"),
        Blob("acl"),
        Blob("extra"),
        Blob("extra"),
        Blob("inline_data"),
        Blob("secctx"),
        Blob("encryption"),
        Blob("default_lmv"),
    ];
    static XATTR: &[Part] = &[
        One(&BODY),
        One(&DLM_REP),
        One(&MDT_BODY),
        Blob("lov_ea"),
        Blob("acl"),
        Blob("names"),
        Blob("values"),
        Blob("lengths"),
    ];
    static LAYOUT: &[Part] = &[One(&BODY), One(&DLM_REP), Blob("lvb")];
    static QUOTA: &[Part] = &[One(&BODY), One(&DLM_REP), Blob("lvb"), One(&QUOTA_BODY)];
    static GETATTR: &[Part] = &[
        One(&BODY),
        One(&DLM_REP),
        One(&MDT_BODY),
        Blob("lov_ea"),
        Blob("acl"),
        Blob("extra"),
        Blob("secctx"),
        Blob("default_lmv"),
        Blob("encryption"),
    ];
    match intent {
        1 | 3 => OPEN,
        0x80 => XATTR,
        0x400 => LAYOUT,
        0x800 | 0x1000 => QUOTA,
        0x4000 | 0x8000 => LOCK_REPLY,
        _ => GETATTR,
    }
}

/// The buffer of a lock request that holds the intent.
pub(crate) const INTENT_BUFFER: usize = 2;

/// Returns the intent of a lock request.
pub(crate) fn intent_of(message: &Message<'_>, body: &Body<'_>) -> Option<u64> {
    if body.opc() != opc::LDLM_ENQUEUE || !body.is_request() {
        return None;
    }
    message.buffer(INTENT_BUFFER)?.u64(0)
}

/// Returns the parts that stand in front, and those behind them.
fn parts(
    message: &Message<'_>,
    body: &Body<'_>,
    intent: Option<u64>,
) -> Option<(Evidence, &'static [Part], &'static [Part])> {
    let found = SCHEMAS.binary_search_by_key(&body.opc(), |schema| schema.opc);
    let schema = SCHEMAS.get(found.ok()?)?;
    let evidence = schema.evidence;
    if !body.is_request() {
        let parts = match intent {
            Some(intent) => intent_reply(intent),
            None => schema.reply,
        };
        return Some((evidence, parts, &[]));
    }
    Some(match (schema.opc, intent_of(message, body)) {
        (opc::MDS_REINT, _) => {
            let sub_op = message.buffer(1).and_then(|view| view.u32(0));
            let behind = behind_record(sub_op.unwrap_or_default());
            (evidence, REINT, behind)
        }
        (_, Some(intent)) => (evidence, INTENDED, behind_intent(intent)),
        _ => (evidence, schema.request, &[]),
    })
}

/// Returns what the buffers of all RPCs hold.
#[cfg(test)]
pub(crate) fn all_parts() -> impl Iterator<Item = Part> {
    let schemas = SCHEMAS.iter();
    let schemas = schemas.flat_map(|schema| [schema.request, schema.reply]);
    let records = (0..=u8::MAX).map(|sub_op| behind_record(sub_op.into()));
    // An intent is one bit, or two.
    let intents = (0..=u16::MAX).map(u64::from);
    let intents = intents.flat_map(|intent| [behind_intent(intent), intent_reply(intent)]);
    let all = schemas.chain(records).chain(intents);
    all.chain([REINT, INTENDED]).flatten().copied()
}

/// Returns how sure the order of an RPC's buffers is; `None` for opcodes without a known order.
#[must_use]
pub fn evidence_of(opc: u32) -> Option<Evidence> {
    let found = SCHEMAS.binary_search_by_key(&opc, |schema| schema.opc);
    SCHEMAS.get(found.ok()?).map(|schema| schema.evidence)
}

/// Calls `each` with every field of a message in the order of its bytes: header, buffers, padding. `intent` is that of
/// the request, if the message is the reply to a lock request. Bytes at hand only: a message that was captured in part
/// ends with them.
pub fn fields<'a>(message: &Message<'a>, intent: Option<u64>, each: &mut dyn FnMut(Field<'a>)) {
    let body = Body::of(message);
    let is_request = body.is_some_and(|body| body.is_request());
    let each: &mut dyn FnMut(Field<'a>) = &mut |mut field: Field<'a>| {
        // The place of a reply's status has the sender's pid in a request.
        if is_request && field.part == BODY.name && field.name == "status" {
            field.name = "pid";
        }
        if not_seen(&field, body.as_ref()).is_some() {
            field.evidence = Evidence::Read;
        }
        each(field);
    };
    header(message, each);
    let known = body.and_then(|body| parts(message, &body, intent));
    let (evidence, front, behind) = known.unwrap_or((Evidence::Live, BARE, &[]));
    let mut parts = front.iter().chain(behind);
    for buffer in message.buffers() {
        let part = parts.next().copied();
        let explained = one_buffer(&buffer, part.unwrap_or(Empty), evidence, each);
        let rest = buffer.view.part(explained, usize::MAX);
        put(
            each,
            "buffer",
            UNDECODED,
            buffer.at + explained,
            rest,
            Format::Bytes,
        );
        let padding = pad8(buffer.len) - buffer.len;
        let pad = message.view().part(buffer.at + buffer.len, padding);
        put(
            each,
            "buffer",
            "pad",
            buffer.at + buffer.len,
            pad,
            Format::Bytes,
        );
    }
    let rest = message.view().part(message.needed(), usize::MAX);
    put(
        each,
        "message",
        UNDECODED,
        message.needed(),
        rest,
        Format::Bytes,
    );
}

/// Gives a field of live evidence, if it has bytes.
fn put<'a>(
    each: &mut dyn FnMut(Field<'a>),
    part: &'static str,
    name: &'static str,
    at: usize,
    view: View<'a>,
    format: Format,
) {
    if !view.bytes().is_empty() {
        each(Field::new(part, name, at, view, Evidence::Live, format));
    }
}

fn header<'a>(message: &Message<'a>, each: &mut dyn FnMut(Field<'a>)) {
    for (index, (name, evidence)) in evidence::HEADER.into_iter().enumerate() {
        let format = if index == 0 { Format::Dec } else { Format::Hex };
        let view = message.view().part(4 * index, 4);
        if !view.bytes().is_empty() {
            let at = 4 * index;
            each(Field::new("header", name, at, view, evidence, format));
        }
    }
    let lengths = 4 * evidence::HEADER.len();
    for index in 0..message.count() {
        let at = lengths + 4 * index;
        put(
            each,
            "header",
            "buflen",
            at,
            message.view().part(at, 4),
            Format::Dec,
        );
    }
    let end = lengths + 4 * message.count();
    let pad = message.view().part(end, message.header_len() - end);
    put(each, "header", "pad", end, pad, Format::Bytes);
}

/// Gives the fields of one buffer; returns how many of its bytes they explain.
fn one_buffer<'a>(
    buffer: &Buffer<'a>,
    part: Part,
    evidence: Evidence,
    each: &mut dyn FnMut(Field<'a>),
) -> usize {
    let (view, at) = (buffer.view, buffer.at);
    // The order of the buffers and the layout inside of each are as sure as the less sure of both. The body is the first of
    // every RPC.
    let mut weaker = |field: Field<'a>| {
        let evidence = if field.part == BODY.name {
            field.evidence
        } else {
            field.evidence.min(evidence)
        };
        each(Field { evidence, ..field });
    };
    match part {
        One(layout) => layout.walk(view, at, &mut weaker),
        Record => record(view.u32(0).unwrap_or_default()).walk(view, at, &mut weaker),
        Many(layout) => {
            let mut done = 0;
            while done < view.bytes().len() {
                done += layout.walk(view.part(done, layout.len), at + done, &mut weaker);
            }
            done
        }
        Text(name) => whole(view, at, name, Format::Text, evidence, each),
        Number(name) => whole(view, at, name, Format::Dec, evidence, each),
        Blob(name) => whole(view, at, name, Format::Bytes, evidence, each),
        Empty => 0,
    }
}

fn whole<'a>(
    view: View<'a>,
    at: usize,
    name: &'static str,
    format: Format,
    evidence: Evidence,
    each: &mut dyn FnMut(Field<'a>),
) -> usize {
    let len = view.bytes().len();
    if len > 0 {
        let evidence = evidence.min(evidence::of_buffer(name));
        each(Field::new("buffer", name, at, view, evidence, format));
    }
    len
}
