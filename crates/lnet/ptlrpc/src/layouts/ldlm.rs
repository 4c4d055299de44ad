//! Structures of locks.

use super::{Evidence, Format::*, Layout, Tail, names, s, u};

/// `dlm_req`.
pub(crate) static DLM_REQ: Layout = Layout {
    name: "dlm_req",
    len: 88,
    evidence: Evidence::Checked,
    tail: Tail::Handles,
    specs: &[
        s("flags", 0, 4, Flags(names::LOCK_FLAGS)),
        s("count", 4, 4, Dec),
        s("lock_type", 8, 4, Names(names::LOCK_TYPES)),
        s("resource[0]", 16, 8, Hex),
        s("resource[1]", 24, 8, Hex),
        u("resource[2]", 32, 8, Hex),
        s("resource[3]", 40, 8, Hex),
        s("requested_mode", 48, 4, Flags(names::MODES)),
        s("granted_mode", 52, 4, Flags(names::MODES)),
        s("policy[0]", 56, 8, Hex),
        s("policy[1]", 64, 8, Hex),
        s("policy[2]", 72, 8, Hex),
        s("policy[3]", 80, 8, Hex),
    ],
};

/// `dlm_rep`.
pub(crate) static DLM_REP: Layout = Layout {
    name: "dlm_rep",
    len: 112,
    evidence: Evidence::Checked,
    tail: Tail::Nothing,
    specs: &[
        s("flags", 0, 4, Flags(names::LOCK_FLAGS)),
        s("lock_type", 8, 4, Names(names::LOCK_TYPES)),
        s("resource[0]", 16, 8, Hex),
        s("resource[1]", 24, 8, Hex),
        u("resource[2]", 32, 8, Hex),
        s("resource[3]", 40, 8, Hex),
        s("requested_mode", 48, 4, Flags(names::MODES)),
        s("granted_mode", 52, 4, Flags(names::MODES)),
        s("policy[0]", 56, 8, Hex),
        s("policy[1]", 64, 8, Hex),
        s("policy[2]", 72, 8, Hex),
        s("policy[3]", 80, 8, Hex),
        s("handle", 88, 8, Hex),
        s("disposition", 96, 8, Flags(names::DISPOSITION)),
        u("intent_status", 104, 8, Signed),
    ],
};

/// `intent`.
pub(crate) static INTENT: Layout = Layout {
    name: "intent",
    len: 8,
    evidence: Evidence::Checked,
    tail: Tail::Nothing,
    specs: &[s("intent", 0, 8, Flags(names::INTENT))],
};

/// `gl_desc`.
pub(crate) static GL_DESC: Layout = Layout {
    name: "gl_desc",
    len: 64,
    evidence: Evidence::Read,
    tail: Tail::Nothing,
    specs: &[u("gl_desc", 0, 64, Bytes)],
};
