//! Opcodes, their names, and the portals that RPCs use.

/// The known opcodes with their names, in rising order.
pub const OPCODES: &[(u32, &str)] = &[
    (0, "OST_REPLY"),
    (1, "OST_GETATTR"),
    (2, "OST_SETATTR"),
    (3, "OST_READ"),
    (4, "OST_WRITE"),
    (5, "OST_CREATE"),
    (6, "OST_DESTROY"),
    (7, "OST_GET_INFO"),
    (8, "OST_CONNECT"),
    (9, "OST_DISCONNECT"),
    (10, "OST_PUNCH"),
    (11, "OST_OPEN"),
    (12, "OST_CLOSE"),
    (13, "OST_STATFS"),
    (16, "OST_SYNC"),
    (17, "OST_SET_INFO"),
    (18, "OST_QUOTACHECK"),
    (19, "OST_QUOTACTL"),
    (20, "OST_QUOTA_ADJUST_QUNIT"),
    (21, "OST_LADVISE"),
    (22, "OST_FALLOCATE"),
    (23, "OST_SEEK"),
    (33, "MDS_GETATTR"),
    (34, "MDS_GETATTR_NAME"),
    (35, "MDS_CLOSE"),
    (36, "MDS_REINT"),
    (37, "MDS_READPAGE"),
    (38, "MDS_CONNECT"),
    (39, "MDS_DISCONNECT"),
    (40, "MDS_GET_ROOT"),
    (41, "MDS_STATFS"),
    (42, "MDS_PIN"),
    (43, "MDS_UNPIN"),
    (44, "MDS_SYNC"),
    (45, "MDS_DONE_WRITING"),
    (46, "MDS_SET_INFO"),
    (47, "MDS_QUOTACHECK"),
    (48, "MDS_QUOTACTL"),
    (49, "MDS_GETXATTR"),
    (50, "MDS_SETXATTR"),
    (51, "MDS_WRITEPAGE"),
    (52, "MDS_IS_SUBDIR"),
    (53, "MDS_GET_INFO"),
    (54, "MDS_HSM_STATE_GET"),
    (55, "MDS_HSM_STATE_SET"),
    (56, "MDS_HSM_ACTION"),
    (57, "MDS_HSM_PROGRESS"),
    (58, "MDS_HSM_REQUEST"),
    (59, "MDS_HSM_CT_REGISTER"),
    (60, "MDS_HSM_CT_UNREGISTER"),
    (61, "MDS_SWAP_LAYOUTS"),
    (62, "MDS_RMFID"),
    (63, "MDS_BATCH"),
    (64, "MDS_HSM_DATA_VERSION"),
    (101, "LDLM_ENQUEUE"),
    (102, "LDLM_CONVERT"),
    (103, "LDLM_CANCEL"),
    (104, "LDLM_BL_CALLBACK"),
    (105, "LDLM_CP_CALLBACK"),
    (106, "LDLM_GL_CALLBACK"),
    (107, "LDLM_SET_INFO"),
    (250, "MGS_CONNECT"),
    (251, "MGS_DISCONNECT"),
    (252, "MGS_EXCEPTION"),
    (253, "MGS_TARGET_REG"),
    (254, "MGS_TARGET_DEL"),
    (255, "MGS_SET_INFO"),
    (256, "MGS_CONFIG_READ"),
    (400, "OBD_PING"),
    (401, "OBD_LOG_CANCEL"),
    (402, "OBD_QC_CALLBACK"),
    (403, "OBD_IDX_READ"),
    (501, "LLOG_CREATE"),
    (502, "LLOG_NEXT_BLOCK"),
    (503, "LLOG_READ_HEADER"),
    (504, "LLOG_WRITE_REC"),
    (505, "LLOG_CLOSE"),
    (506, "LLOG_CONNECT"),
    (507, "LLOG_CATINFO"),
    (508, "LLOG_PREV_BLOCK"),
    (509, "LLOG_DESTROY"),
    (601, "QUOTA_DQACQ"),
    (602, "QUOTA_DQREL"),
    (700, "SEQ_QUERY"),
    (801, "SEC_CTX_INIT"),
    (802, "SEC_CTX_INIT_CONT"),
    (803, "SEC_CTX_FINI"),
    (900, "FLD_QUERY"),
    (901, "FLD_READ"),
    (1000, "OUT_UPDATE"),
    (1101, "LFSCK_NOTIFY"),
    (1102, "LFSCK_QUERY"),
];

/// Returns the name of an opcode.
#[must_use]
pub fn opcode_name(opc: u32) -> Option<&'static str> {
    let found = OPCODES.binary_search_by_key(&opc, |(known, _)| *known);
    found
        .ok()
        .and_then(|index| OPCODES.get(index))
        .map(|(_, name)| *name)
}

/// Returns the opcode with a name, in any case.
#[must_use]
pub fn opcode_of(name: &str) -> Option<u32> {
    let mut known = OPCODES.iter();
    known
        .find(|(_, known)| known.eq_ignore_ascii_case(name))
        .map(|(opc, _)| *opc)
}

/// Opcodes that code names.
pub mod opc {
    /// `OST_READ`.
    pub const OST_READ: u32 = 3;
    /// `OST_WRITE`.
    pub const OST_WRITE: u32 = 4;
    /// `OST_CREATE`.
    pub const OST_CREATE: u32 = 5;
    /// `OST_DESTROY`.
    pub const OST_DESTROY: u32 = 6;
    /// `OST_CONNECT`.
    pub const OST_CONNECT: u32 = 8;
    /// `OST_DISCONNECT`.
    pub const OST_DISCONNECT: u32 = 9;
    /// `OST_PUNCH`.
    pub const OST_PUNCH: u32 = 10;
    /// `OST_STATFS`.
    pub const OST_STATFS: u32 = 13;
    /// `MDS_GETATTR`.
    pub const MDS_GETATTR: u32 = 33;
    /// `MDS_GETATTR_NAME`.
    pub const MDS_GETATTR_NAME: u32 = 34;
    /// `MDS_CLOSE`.
    pub const MDS_CLOSE: u32 = 35;
    /// `MDS_REINT`.
    pub const MDS_REINT: u32 = 36;
    /// `MDS_READPAGE`.
    pub const MDS_READPAGE: u32 = 37;
    /// `MDS_CONNECT`.
    pub const MDS_CONNECT: u32 = 38;
    /// `MDS_DISCONNECT`.
    pub const MDS_DISCONNECT: u32 = 39;
    /// `MDS_GET_ROOT`.
    pub const MDS_GET_ROOT: u32 = 40;
    /// `MDS_STATFS`.
    pub const MDS_STATFS: u32 = 41;
    /// `MDS_GETXATTR`.
    pub const MDS_GETXATTR: u32 = 49;
    /// `LDLM_ENQUEUE`.
    pub const LDLM_ENQUEUE: u32 = 101;
    /// `LDLM_CANCEL`.
    pub const LDLM_CANCEL: u32 = 103;
    /// `LDLM_BL_CALLBACK`.
    pub const LDLM_BL_CALLBACK: u32 = 104;
    /// `LDLM_CP_CALLBACK`.
    pub const LDLM_CP_CALLBACK: u32 = 105;
    /// `LDLM_GL_CALLBACK`.
    pub const LDLM_GL_CALLBACK: u32 = 106;
    /// `MGS_CONNECT`.
    pub const MGS_CONNECT: u32 = 250;
    /// `MGS_DISCONNECT`.
    pub const MGS_DISCONNECT: u32 = 251;
    /// `MGS_CONFIG_READ`.
    pub const MGS_CONFIG_READ: u32 = 256;
    /// `OBD_PING`.
    pub const OBD_PING: u32 = 400;
    /// `LLOG_CREATE`.
    pub const LLOG_CREATE: u32 = 501;
    /// `LLOG_NEXT_BLOCK`.
    pub const LLOG_NEXT_BLOCK: u32 = 502;
    /// `LLOG_READ_HEADER`.
    pub const LLOG_READ_HEADER: u32 = 503;
    /// `LLOG_PREV_BLOCK`.
    pub const LLOG_PREV_BLOCK: u32 = 508;
}

/// What a portal carries.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum PortalUse {
    /// Requests of clients, or callbacks of servers.
    Request,
    /// Replies.
    Reply,
    /// Bulk.
    Bulk,
    /// Nothing of Lustre.
    Other,
}

/// Returns what a portal carries. The opcode, and not the portal, says what a message is.
// [PTLRPC-5]
#[must_use]
pub const fn portal_use(portal: u32) -> PortalUse {
    match portal {
        4 | 10 | 16 | 18 | 25 | 27 => PortalUse::Reply,
        8 | 14 | 33 => PortalUse::Bulk,
        6 | 7 | 12 | 13 | 15 | 17 | 22..=24 | 26 | 28..=32 => PortalUse::Request,
        _ => PortalUse::Other,
    }
}

/// Returns the kind of server behind a request portal.
#[must_use]
pub const fn service_of(portal: u32) -> &'static str {
    match portal {
        6 | 7 | 28 => "OST",
        12 | 13 | 22 | 23 | 24 | 29 | 30 | 31 | 32 => "MDT",
        15 => "client",
        17 => "locks",
        26 => "MGS",
        _ => "?",
    }
}

/// The portals of the MGS: requests, replies, bulk.
pub mod portal {
    /// Requests to an MGS.
    pub const MGS_REQUEST: u32 = 26;
    /// Replies of an MGS.
    pub const MGC_REPLY: u32 = 25;
    /// Bulk of an MGS.
    pub const MGS_BULK: u32 = 33;
    /// Requests to an MDT.
    pub const MDS_REQUEST: u32 = 12;
    /// Replies of an MDT.
    pub const MDC_REPLY: u32 = 10;
    /// Requests to an OST.
    pub const OST_REQUEST: u32 = 28;
    /// Replies of an OST.
    pub const OSC_REPLY: u32 = 4;
}
