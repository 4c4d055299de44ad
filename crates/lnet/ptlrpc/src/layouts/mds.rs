//! Structures of metadata servers.

use super::{Evidence, Format::*, Layout, Tail, names, s, u};

/// `mdt_body`.
pub(crate) static MDT_BODY: Layout = Layout {
    name: "mdt_body",
    len: 216,
    evidence: Evidence::Checked,
    tail: Tail::Nothing,
    specs: &[
        s("fid1", 0, 16, Fid),
        s("fid2", 16, 16, Fid),
        s("handle", 32, 8, Hex),
        s("valid", 40, 8, Hex),
        s("size", 48, 8, Dec),
        s("mtime", 56, 8, Signed),
        s("atime", 64, 8, Signed),
        s("ctime", 72, 8, Signed),
        s("blocks", 80, 8, Dec),
        u("version", 88, 8, Dec),
        u("t_state", 96, 8, Hex),
        u("fsuid", 104, 4, Dec),
        u("fsgid", 108, 4, Dec),
        s("capability", 112, 4, Hex),
        s("mode", 116, 4, Octal),
        u("uid", 120, 4, Dec),
        u("gid", 124, 4, Dec),
        s("flags", 128, 4, Hex),
        u("rdev", 132, 4, Dec),
        s("nlink", 136, 4, Dec),
        u("layout_gen", 140, 4, Dec),
        s("suppgid", 144, 4, Dec),
        s("eadatasize", 148, 4, Dec),
        s("aclsize", 152, 4, Dec),
        s("max_mdsize", 156, 4, Dec),
        u("uid_h", 164, 4, Dec),
        u("gid_h", 168, 4, Dec),
        u("projid", 172, 4, Dec),
        u("dom_size", 176, 8, Dec),
        u("dom_blocks", 184, 8, Dec),
        s("btime", 192, 8, Signed),
        u("absent_xattrs", 200, 8, Hex),
    ],
};

/// `rec_setattr`.
pub(crate) static REC_SETATTR: Layout = Layout {
    name: "rec_setattr",
    len: 136,
    evidence: Evidence::Checked,
    tail: Tail::Nothing,
    specs: &[
        s("sub_op", 0, 4, Names(names::REINT)),
        s("cap", 4, 4, Hex),
        u("fsuid", 8, 4, Dec),
        u("fsgid", 16, 4, Dec),
        u("suppgid1", 24, 4, Dec),
        u("suppgid2", 32, 4, Dec),
        s("fid", 40, 16, Fid),
        s("valid", 56, 8, Hex),
        u("uid", 64, 4, Dec),
        u("gid", 68, 4, Dec),
        s("size", 72, 8, Dec),
        s("blocks", 80, 8, Dec),
        s("mtime", 88, 8, Signed),
        s("atime", 96, 8, Signed),
        s("ctime", 104, 8, Signed),
        u("attr_flags", 112, 4, Hex),
        s("mode", 116, 4, Octal),
        s("bias", 120, 4, Hex),
        u("projid", 124, 4, Dec),
    ],
};

/// `rec_create`.
pub(crate) static REC_CREATE: Layout = Layout {
    name: "rec_create",
    len: 136,
    evidence: Evidence::Checked,
    tail: Tail::Nothing,
    specs: &[
        s("sub_op", 0, 4, Names(names::REINT)),
        s("cap", 4, 4, Hex),
        u("fsuid", 8, 4, Dec),
        u("fsgid", 16, 4, Dec),
        u("suppgid1", 24, 4, Dec),
        s("suppgid2", 32, 4, Dec),
        s("fid1", 40, 16, Fid),
        s("fid2", 56, 16, Fid),
        u("old_handle", 72, 8, Hex),
        s("time", 80, 8, Signed),
        u("rdev", 88, 8, Dec),
        s("mode", 112, 4, Octal),
        s("bias", 116, 4, Hex),
        u("flags_lo", 120, 4, Octal),
        s("flags_hi", 124, 4, Octal),
        s("umask", 128, 4, Octal),
    ],
};

/// `rec_open`.
pub(crate) static REC_OPEN: Layout = Layout {
    name: "rec_open",
    len: 136,
    evidence: Evidence::Checked,
    tail: Tail::Nothing,
    specs: &[
        s("sub_op", 0, 4, Names(names::REINT)),
        s("cap", 4, 4, Hex),
        u("fsuid", 8, 4, Dec),
        u("fsgid", 16, 4, Dec),
        u("suppgid1", 24, 4, Dec),
        s("suppgid2", 32, 4, Dec),
        s("fid1", 40, 16, Fid),
        s("fid2", 56, 16, Fid),
        u("old_handle", 72, 8, Hex),
        s("time", 80, 8, Signed),
        u("rdev", 88, 8, Dec),
        s("mode", 112, 4, Octal),
        u("bias", 116, 4, Hex),
        s("flags_lo", 120, 4, Octal),
        s("flags_hi", 124, 4, Octal),
        s("umask", 128, 4, Octal),
    ],
};

/// `rec_link`.
pub(crate) static REC_LINK: Layout = Layout {
    name: "rec_link",
    len: 136,
    evidence: Evidence::Checked,
    tail: Tail::Nothing,
    specs: &[
        u("sub_op", 0, 4, Names(names::REINT)),
        u("cap", 4, 4, Hex),
        u("fsuid", 8, 4, Dec),
        u("fsgid", 16, 4, Dec),
        u("suppgid1", 24, 4, Dec),
        u("suppgid2", 32, 4, Dec),
        u("fid1", 40, 16, Fid),
        u("fid2", 56, 16, Fid),
        u("time", 72, 8, Signed),
        u("bias", 112, 4, Hex),
    ],
};

/// `rec_unlink`.
pub(crate) static REC_UNLINK: Layout = Layout {
    name: "rec_unlink",
    len: 136,
    evidence: Evidence::Checked,
    tail: Tail::Nothing,
    specs: &[
        s("sub_op", 0, 4, Names(names::REINT)),
        s("cap", 4, 4, Hex),
        u("fsuid", 8, 4, Dec),
        u("fsgid", 16, 4, Dec),
        u("suppgid1", 24, 4, Dec),
        s("suppgid2", 32, 4, Dec),
        s("fid1", 40, 16, Fid),
        s("fid2", 56, 16, Fid),
        s("time", 72, 8, Signed),
        u("bias", 112, 4, Hex),
        s("mode", 116, 4, Octal),
    ],
};

/// `rec_rename`.
pub(crate) static REC_RENAME: Layout = Layout {
    name: "rec_rename",
    len: 136,
    evidence: Evidence::Checked,
    tail: Tail::Nothing,
    specs: &[
        s("sub_op", 0, 4, Names(names::REINT)),
        s("cap", 4, 4, Hex),
        u("fsuid", 8, 4, Dec),
        u("fsgid", 16, 4, Dec),
        u("suppgid1", 24, 4, Dec),
        u("suppgid2", 32, 4, Dec),
        s("fid1", 40, 16, Fid),
        s("fid2", 56, 16, Fid),
        s("time", 72, 8, Signed),
        u("bias", 112, 4, Hex),
        s("mode", 116, 4, Octal),
    ],
};

/// `rec_migrate`.
pub(crate) static REC_MIGRATE: Layout = Layout {
    name: "rec_migrate",
    len: 136,
    evidence: Evidence::Checked,
    tail: Tail::Nothing,
    specs: &[
        u("sub_op", 0, 4, Names(names::REINT)),
        u("cap", 4, 4, Hex),
        u("fsuid", 8, 4, Dec),
        u("fsgid", 16, 4, Dec),
        u("suppgid1", 24, 4, Dec),
        u("suppgid2", 32, 4, Dec),
        u("fid1", 40, 16, Fid),
        u("fid2", 56, 16, Fid),
        u("time", 72, 8, Signed),
        u("bias", 112, 4, Hex),
        u("mode", 116, 4, Octal),
    ],
};

/// `rec_setxattr`.
pub(crate) static REC_SETXATTR: Layout = Layout {
    name: "rec_setxattr",
    len: 136,
    evidence: Evidence::Checked,
    tail: Tail::Nothing,
    specs: &[
        u("sub_op", 0, 4, Names(names::REINT)),
        u("cap", 4, 4, Hex),
        u("fsuid", 8, 4, Dec),
        u("fsgid", 16, 4, Dec),
        u("suppgid1", 24, 4, Dec),
        u("suppgid2", 32, 4, Dec),
        u("fid", 40, 16, Fid),
        u("valid", 72, 8, Hex),
        u("time", 80, 8, Signed),
        u("size", 112, 4, Dec),
        u("flags", 116, 4, Hex),
    ],
};

/// `rec_resync`.
pub(crate) static REC_RESYNC: Layout = Layout {
    name: "rec_resync",
    len: 136,
    evidence: Evidence::Checked,
    tail: Tail::Nothing,
    specs: &[
        u("sub_op", 0, 4, Names(names::REINT)),
        u("cap", 4, 4, Hex),
        u("fsuid", 8, 4, Dec),
        u("fsgid", 16, 4, Dec),
        u("suppgid1", 24, 4, Dec),
        u("suppgid2", 32, 4, Dec),
        u("fid", 40, 16, Fid),
        u("lease", 72, 8, Hex),
        u("bias", 112, 4, Hex),
        u("mirror_id", 128, 4, Dec),
    ],
};

/// `rec_reint`.
pub(crate) static REC_OTHER: Layout = Layout {
    name: "rec_reint",
    len: 136,
    evidence: Evidence::Read,
    tail: Tail::Nothing,
    specs: &[
        u("sub_op", 0, 4, Names(names::REINT)),
        u("cap", 4, 4, Hex),
        u("fsuid", 8, 4, Dec),
        u("fsgid", 16, 4, Dec),
        u("suppgid1", 24, 4, Dec),
        u("suppgid2", 32, 4, Dec),
    ],
};

/// `ioepoch`.
pub(crate) static IOEPOCH: Layout = Layout {
    name: "ioepoch",
    len: 24,
    evidence: Evidence::Read,
    tail: Tail::Nothing,
    specs: &[
        s("handle", 0, 8, Hex),
        u("ioepoch", 8, 8, Dec),
        u("flags", 16, 4, Hex),
    ],
};

/// `layout_intent`.
pub(crate) static LAYOUT_INTENT: Layout = Layout {
    name: "layout_intent",
    len: 24,
    evidence: Evidence::Read,
    tail: Tail::Nothing,
    specs: &[
        u("op", 0, 4, Dec),
        u("flags", 4, 4, Hex),
        u("start", 8, 8, Dec),
        u("end", 16, 8, Dec),
    ],
};
