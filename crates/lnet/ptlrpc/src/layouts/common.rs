//! Structures that several services share: the body, connect data, statfs.

use super::{Evidence, Format::*, Layout, Tail, names, s, u};

/// `ptlrpc_body`.
pub(crate) static BODY: Layout = Layout {
    name: "ptlrpc_body",
    len: 184,
    evidence: Evidence::Checked,
    tail: Tail::Nothing,
    specs: &[
        s("handle", 0, 8, Hex),
        s("type", 8, 4, Names(names::TYPES)),
        s("version", 12, 4, Hex),
        s("opc", 16, 4, Names(crate::opcode::OPCODES)),
        s("status", 20, 4, Signed),
        s("last_xid", 24, 8, Hex),
        s("tag", 32, 2, Dec),
        u("projid", 36, 4, Dec),
        s("last_committed", 40, 8, Dec),
        s("transno", 48, 8, Dec),
        s("flags", 56, 4, Flags(names::BODY)),
        s("op_flags", 60, 4, Flags(names::CONNECT_OPS)),
        s("conn_cnt", 64, 4, Dec),
        s("timeout", 68, 4, Dec),
        s("service_time", 72, 4, Dec),
        s("limit", 76, 4, Dec),
        s("slv", 80, 8, Dec),
        s("pre_version[0]", 88, 8, Dec),
        s("pre_version[1]", 96, 8, Dec),
        s("pre_version[2]", 104, 8, Dec),
        s("pre_version[3]", 112, 8, Dec),
        s("mbits", 120, 8, Hex),
        u("uid", 144, 4, Dec),
        u("gid", 148, 4, Dec),
        u("jobid", 152, 32, Text),
    ],
};

/// `connect_data`.
pub(crate) static CONNECT_DATA: Layout = Layout {
    name: "connect_data",
    len: 192,
    evidence: Evidence::Checked,
    tail: Tail::Nothing,
    specs: &[
        s("flags", 0, 8, Flags(names::CONNECT)),
        s("version", 8, 4, Release),
        s("grant", 12, 4, Dec),
        u("index", 16, 4, Dec),
        s("brw_size", 20, 4, Dec),
        s("ibits", 24, 8, Hex),
        s("grant_blkbits", 32, 1, Dec),
        s("inobits", 33, 1, Dec),
        s("tax_kb", 34, 2, Dec),
        s("max_blks", 36, 4, Dec),
        u("transno", 40, 8, Dec),
        u("group", 48, 4, Dec),
        s("cksum_types", 52, 4, Hex),
        s("max_easize", 56, 4, Dec),
        s("instance", 60, 4, Dec),
        s("maxbytes", 64, 8, Dec),
        s("maxmodrpcs", 72, 2, Dec),
        u("conn_policy", 74, 1, Dec),
        s("flags2", 80, 8, Flags(names::CONNECT2)),
        u("compr_type", 88, 8, Dec),
    ],
};

/// `statfs`.
pub(crate) static STATFS: Layout = Layout {
    name: "statfs",
    len: 144,
    evidence: Evidence::Checked,
    tail: Tail::Nothing,
    specs: &[
        s("type", 0, 8, Hex),
        s("blocks", 8, 8, Dec),
        s("bfree", 16, 8, Dec),
        s("bavail", 24, 8, Dec),
        s("files", 32, 8, Dec),
        s("ffree", 40, 8, Dec),
        u("fsid", 48, 40, Bytes),
        s("bsize", 88, 4, Dec),
        s("namelen", 92, 4, Dec),
        s("maxbytes", 96, 8, Dec),
        u("state", 104, 4, Flags(names::STATFS)),
        u("fprecreated", 108, 4, Dec),
        u("granted", 112, 4, Dec),
    ],
};

/// `lu_seq_range`.
pub(crate) static RANGE: Layout = Layout {
    name: "lu_seq_range",
    len: 24,
    evidence: Evidence::Read,
    tail: Tail::Nothing,
    specs: &[
        s("start", 0, 8, Hex),
        s("end", 8, 8, Hex),
        u("index", 16, 4, Dec),
        u("type", 20, 4, Dec),
    ],
};

/// `quotactl`.
pub(crate) static QUOTACTL: Layout = Layout {
    name: "quotactl",
    len: 112,
    evidence: Evidence::Read,
    tail: Tail::Text,
    specs: &[u("quotactl", 0, 112, Bytes)],
};

/// `quota_body`.
pub(crate) static QUOTA_BODY: Layout = Layout {
    name: "quota_body",
    len: 112,
    evidence: Evidence::Read,
    tail: Tail::Nothing,
    specs: &[u("quota_body", 0, 112, Bytes)],
};

/// `idx_info`.
pub(crate) static IDX_INFO: Layout = Layout {
    name: "idx_info",
    len: 80,
    evidence: Evidence::Read,
    tail: Tail::Nothing,
    specs: &[u("idx_info", 0, 80, Bytes)],
};

/// `client_handle`.
pub(crate) static HANDLE: Layout = Layout {
    name: "client_handle",
    len: 8,
    evidence: Evidence::Read,
    tail: Tail::Nothing,
    specs: &[s("client_handle", 0, 8, Hex)],
};

/// `config_read`.
pub(crate) static CONFIG_READ: Layout = Layout {
    name: "config_read",
    len: 80,
    evidence: Evidence::Checked,
    tail: Tail::Nothing,
    specs: &[
        s("name", 0, 64, Text),
        s("offset", 64, 8, Dec),
        s("type", 72, 2, Dec),
        s("nid_size", 74, 1, Dec),
        s("bits", 75, 1, Dec),
        s("units", 76, 4, Dec),
    ],
};

/// `config_result`.
pub(crate) static CONFIG_RESULT: Layout = Layout {
    name: "config_result",
    len: 16,
    evidence: Evidence::Checked,
    tail: Tail::Nothing,
    specs: &[s("offset", 0, 8, Dec), s("size", 8, 8, Dec)],
};

/// `llogd_body`.
pub(crate) static LLOGD: Layout = Layout {
    name: "llogd_body",
    len: 48,
    evidence: Evidence::Checked,
    tail: Tail::Nothing,
    specs: &[
        s("logid", 0, 20, Bytes),
        u("ctxt", 20, 4, Dec),
        s("llh_flags", 24, 4, Hex),
        s("index", 28, 4, Dec),
        s("saved_index", 32, 4, Dec),
        s("len", 36, 4, Dec),
        s("cur_offset", 40, 8, Dec),
    ],
};

/// `log_header`.
pub(crate) static LOG_HEADER: Layout = Layout {
    name: "log_header",
    len: 8192,
    evidence: Evidence::Checked,
    tail: Tail::Nothing,
    specs: &[
        s("len", 0, 4, Dec),
        u("index", 4, 4, Dec),
        s("type", 8, 4, Hex),
        u("id", 12, 4, Dec),
        s("time", 16, 8, Dec),
        s("count", 24, 4, Dec),
        s("bitmap_offset", 28, 4, Dec),
        s("size", 32, 4, Dec),
        s("flags", 36, 4, Hex),
        u("cat_idx", 40, 4, Dec),
        s("uuid", 44, 40, Text),
        s("bitmap", 88, 8096, Bytes),
        s("tail_len", 8184, 4, Dec),
        s("last_index", 8188, 4, Dec),
    ],
};
