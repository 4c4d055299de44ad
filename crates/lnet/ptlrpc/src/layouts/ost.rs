//! Structures of object servers.

use super::{Evidence, Format::*, Layout, Tail, names, s, u};

/// `ost_body`.
pub(crate) static OST_BODY: Layout = Layout {
    name: "ost_body",
    len: 208,
    evidence: Evidence::Checked,
    tail: Tail::Nothing,
    specs: &[
        s("valid", 0, 8, Flags(names::OBDO_VALID)),
        s("object", 8, 16, Object),
        s("parent_seq", 24, 8, Hex),
        s("size", 32, 8, Dec),
        s("mtime", 40, 8, Signed),
        s("atime", 48, 8, Signed),
        s("ctime", 56, 8, Signed),
        s("blocks", 64, 8, Dec),
        s("grant", 72, 8, Dec),
        u("blksize", 80, 4, Dec),
        s("mode", 84, 4, Octal),
        u("uid", 88, 4, Dec),
        u("gid", 92, 4, Dec),
        s("flags", 96, 4, ObjectFlags),
        s("nlink", 100, 4, Hex),
        s("parent_oid", 104, 4, Hex),
        s("misc", 108, 4, Hex),
        u("ioepoch", 112, 8, Dec),
        u("stripe_idx", 120, 4, Dec),
        u("parent_ver", 124, 4, Dec),
        s("handle", 128, 8, Hex),
        s("layout", 136, 28, Bytes),
        u("layout_version", 164, 4, Dec),
        u("uid_h", 168, 4, Dec),
        u("gid_h", 172, 4, Dec),
        s("data_version", 176, 8, Hex),
        u("projid", 184, 4, Dec),
    ],
};

/// `obd_ioobj`.
pub(crate) static IOOBJ: Layout = Layout {
    name: "obd_ioobj",
    len: 24,
    evidence: Evidence::Checked,
    tail: Tail::Nothing,
    specs: &[
        s("object", 0, 16, Object),
        s("max_brw", 16, 4, Hex),
        s("bufcount", 20, 4, Dec),
    ],
};

/// `niobuf_remote`.
pub(crate) static NIOBUF: Layout = Layout {
    name: "niobuf_remote",
    len: 16,
    evidence: Evidence::Checked,
    tail: Tail::Nothing,
    specs: &[
        s("offset", 0, 8, Dec),
        s("length", 8, 4, Dec),
        s("flags", 12, 4, Flags(names::NIOBUF)),
    ],
};

/// `ladvise_header`.
pub(crate) static LADVISE_HEADER: Layout = Layout {
    name: "ladvise_header",
    len: 32,
    evidence: Evidence::Read,
    tail: Tail::Nothing,
    specs: &[u("ladvise_header", 0, 32, Bytes)],
};

/// `ladvise`.
pub(crate) static LADVISE: Layout = Layout {
    name: "ladvise",
    len: 32,
    evidence: Evidence::Read,
    tail: Tail::Nothing,
    specs: &[u("ladvise", 0, 32, Bytes)],
};

/// `ost_lvb`.
pub(crate) static OST_LVB: Layout = Layout {
    name: "ost_lvb",
    len: 56,
    evidence: Evidence::Checked,
    tail: Tail::Nothing,
    specs: &[
        s("size", 0, 8, Dec),
        s("mtime", 8, 8, Signed),
        s("atime", 16, 8, Signed),
        s("ctime", 24, 8, Signed),
        s("blocks", 32, 8, Dec),
        u("mtime_ns", 40, 4, Dec),
        u("atime_ns", 44, 4, Dec),
        u("ctime_ns", 48, 4, Dec),
    ],
};
