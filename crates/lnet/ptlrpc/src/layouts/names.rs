//! Names of numbers and of flags.

/// Types of bodies.
pub(crate) const TYPES: &[(u32, &str)] = &[(4711, "request"), (4712, "error"), (4713, "reply")];

/// Operations of `MDS_REINT`.
pub(crate) const REINT: &[(u32, &str)] = &[
    (1, "SETATTR"),
    (2, "CREATE"),
    (3, "LINK"),
    (4, "UNLINK"),
    (5, "RENAME"),
    (6, "OPEN"),
    (7, "SETXATTR"),
    (8, "RMENTRY"),
    (9, "MIGRATE"),
    (10, "RESYNC"),
];

/// Types of locks.
pub(crate) const LOCK_TYPES: &[(u32, &str)] =
    &[(10, "plain"), (11, "extent"), (12, "flock"), (13, "ibits")];

/// Flags of a body.
pub(crate) const BODY: &[(u64, &str)] = &[
    (0x2, "resent"),
    (0x4, "replay"),
    (0x40, "req_replay_done"),
    (0x80, "lock_replay_done"),
    (0x100, "banned"),
    (0x200, "has_ids"),
    (0x400, "has_projid"),
];

/// Flags of a connect.
pub(crate) const CONNECT_OPS: &[(u64, &str)] = &[
    (0x1, "recovering"),
    (0x2, "reconnect"),
    (0x4, "replayable"),
    (0x20, "initial"),
    (0x80, "next_ver"),
    (0x100, "transno"),
];

/// Flags of connect data.
pub(crate) const CONNECT: &[(u64, &str)] = &[
    (0x1, "read_only"),
    (0x2, "index"),
    (0x4, "mds"),
    (0x8, "grant"),
    (0x10, "srvlock"),
    (0x20, "version"),
    (0x40, "mgs_nidlist"),
    (0x80, "acl"),
    (0x100, "xattr"),
    (0x800, "transno"),
    (0x2000, "barrier"),
    (0x4000, "attrfid"),
    (0x8000, "nodevoh"),
    (0x40000, "brw_size"),
    (0x400000, "cancelset"),
    (0x1000000, "at"),
    (0x2000000, "lru_resize"),
    (0x4000000, "mds_mds"),
    (0x20000000, "cksum"),
    (0x40000000, "fid"),
    (0x80000000, "vbr"),
    (1 << 32, "lov_v3"),
    (1 << 33, "grant_shrink"),
    (1 << 34, "skip_orphan"),
    (1 << 35, "max_easize"),
    (1 << 36, "full20"),
    (1 << 37, "layout_lock"),
    (1 << 38, "64bit_hash"),
    (1 << 39, "maxbytes"),
    (1 << 40, "imp_recov"),
    (1 << 41, "jobstats"),
    (1 << 42, "umask"),
    (1 << 43, "einprogress"),
    (1 << 44, "grant_param"),
    (1 << 45, "hpreq_check1"),
    (1 << 46, "lvb_type"),
    (1 << 48, "lightweight"),
    (1 << 49, "short_io"),
    (1 << 50, "pingless"),
    (1 << 51, "flock_dead"),
    (1 << 52, "disp_stripe"),
    (1 << 53, "open_by_fid"),
    (1 << 54, "lfsck"),
    (1 << 56, "unlink_close"),
    (1 << 57, "multi_mod_rpcs"),
    (1 << 58, "dir_stripe"),
    (1 << 59, "subtree"),
    (1 << 61, "bulk_mbits"),
    (1 << 62, "obdopack"),
    (1 << 63, "flags2"),
];

/// Further flags of connect data.
pub(crate) const CONNECT2: &[(u64, &str)] = &[
    (1 << 0, "file_secctx"),
    (1 << 1, "lockahead"),
    (1 << 2, "dir_migrate"),
    (1 << 3, "sum_statfs"),
    (1 << 4, "overstriping"),
    (1 << 5, "flr"),
    (1 << 6, "wbc"),
    (1 << 7, "lock_convert"),
    (1 << 8, "archive_id_array"),
    (1 << 9, "inc_xid"),
    (1 << 10, "selinux_policy"),
    (1 << 11, "lsom"),
    (1 << 12, "pcc"),
    (1 << 13, "crush"),
    (1 << 14, "async_discard"),
    (1 << 15, "encrypt"),
    (1 << 16, "fidmap"),
    (1 << 17, "getattr_pfid"),
    (1 << 18, "lseek"),
    (1 << 19, "dom_lvb"),
    (1 << 20, "rep_mbits"),
    (1 << 21, "mode_convert"),
    (1 << 22, "batch_rpc"),
    (1 << 23, "pccro"),
    (1 << 24, "mne_type"),
    (1 << 25, "lock_contention"),
    (1 << 26, "atomic_open_lock"),
    (1 << 27, "encrypt_name"),
    (1 << 29, "dmv_imp_inherit"),
    (1 << 30, "encrypt_fid2path"),
    (1 << 31, "replay_create"),
    (1 << 32, "large_nid"),
    (1 << 33, "compress"),
    (1 << 34, "unaligned_dio"),
    (1 << 35, "conn_policy"),
    (1 << 36, "sparse"),
    (1 << 37, "mirror_id_fix"),
    (1 << 38, "update_layout"),
    (1 << 39, "readdir_open"),
    (1 << 40, "flr_ec"),
    (1 << 41, "flr_immed_mirror"),
    (1 << 42, "no_append"),
    (1 << 43, "flr_ec_wr"),
    (1 << 44, "perfstats"),
];

/// States of a target.
pub(crate) const STATFS: &[(u64, &str)] = &[
    (0x1, "degraded"),
    (0x2, "read_only"),
    (0x4, "no_create"),
    (0x20, "no_space"),
    (0x40, "no_inodes"),
    (0x200, "non_rotational"),
];

/// Fields of an object that are set.
pub(crate) const OBDO_VALID: &[(u64, &str)] = &[
    (0x1, "id"),
    (0x2, "atime"),
    (0x4, "mtime"),
    (0x8, "ctime"),
    (0x10, "size"),
    (0x20, "blocks"),
    (0x80, "mode"),
    (0x100, "type"),
    (0x200, "uid"),
    (0x400, "gid"),
    (0x800, "flags"),
    (0x2000, "nlink"),
    (0x4000, "parent"),
    (0x20000, "easize"),
    (0x80000, "handle"),
    (0x100000, "cksum"),
    (0x1000000, "group"),
    (0x2000000, "fid"),
    (0x8000000, "grant"),
    (1 << 56, "projid"),
];

/// The bits of an object's flags that are the number of a checksum, and the checksums.
pub(crate) const OBDO_CHECKSUMS: (u64, &[(u64, &str)]) = (
    0xF000,
    &[
        (0x1000, "crc32"),
        (0x2000, "adler"),
        (0x4000, "crc32c"),
        (0x5000, "t10ip512"),
        (0x6000, "t10ip4k"),
        (0x7000, "t10crc512"),
        (0x8000, "t10crc4k"),
    ],
);

/// Flags of an object, beside [`OBDO_CHECKSUMS`].
pub(crate) const OBDO_FLAGS: &[(u64, &str)] = &[
    (0x80, "over_project"),
    (0x100, "over_user"),
    (0x200, "over_group"),
    (0x800, "srvlock"),
    (0x20000, "shrink_grant"),
    (0x80000, "recoverable_resend"),
    (0x200000, "flush"),
    (0x400000, "short_io"),
];

/// Flags of an extent.
pub(crate) const NIOBUF: &[(u64, &str)] = &[
    (0x1, "read"),
    (0x2, "write"),
    (0x8, "sync"),
    (0x20, "from_grant"),
    (0x200, "srvlock"),
    (0x400, "async"),
    (0x800, "memalloc"),
    (0x1000, "over_user"),
    (0x2000, "over_group"),
    (0x4000, "soft_sync"),
    (0x8000, "over_project"),
    (0x20000, "rdma_only"),
    (0x40000, "sys_resource"),
    (0x80000, "compressed"),
];

/// Modes of locks.
pub(crate) const MODES: &[(u64, &str)] = &[
    (1, "EX"),
    (2, "PW"),
    (4, "PR"),
    (8, "CW"),
    (16, "CR"),
    (32, "NL"),
    (64, "GROUP"),
    (128, "COS"),
    (256, "TXN"),
];

/// Flags of locks.
pub(crate) const LOCK_FLAGS: &[(u64, &str)] = &[
    (0x1, "changed"),
    (0x2, "blocked_granted"),
    (0x8, "blocked_wait"),
    (0x20, "ast_sent"),
    (0x100, "replay"),
    (0x200, "intent_only"),
    (0x1000, "has_intent"),
    (0x8000, "flock_deadlock"),
    (0x10000, "discard_data"),
    (0x40000, "no_wait"),
    (0x80000, "test"),
    (0x800000, "cancel_on_block"),
];

/// What a server did for an intent.
pub(crate) const DISPOSITION: &[(u64, &str)] = &[
    (0x1, "executed"),
    (0x2, "looked_up"),
    (0x4, "negative"),
    (0x8, "positive"),
    (0x10, "created"),
    (0x20, "opened"),
    (0x2000000, "open_lock"),
    (0x10000000, "denied"),
];

/// What is asked for together with a lock.
pub(crate) const INTENT: &[(u64, &str)] = &[
    (0x1, "open"),
    (0x2, "create"),
    (0x4, "readdir"),
    (0x8, "getattr"),
    (0x10, "lookup"),
    (0x80, "getxattr"),
    (0x400, "layout"),
    (0x800, "quota_acquire"),
    (0x1000, "quota_connect"),
    (0x4000, "glimpse"),
    (0x8000, "brw"),
];
