//! Well-known portals and match bits.

/// Number of portals; a message to this portal or above is dropped.
pub const PORTALS: u32 = 64;

/// LNet's own portal: ping and push.
pub const LNET_PORTAL: u32 = 0;

/// Match bits of a ping GET and of a push PUT on [`LNET_PORTAL`].
pub const PING_MATCH_BITS: u64 = 1 << 63;

/// Selftest requests to test services (brw and ping); match bits are the service's id.
pub const SELFTEST_TEST_PORTAL: u32 = 50;

/// Selftest requests to framework services (sessions, batches, statistics).
pub const SELFTEST_FRAMEWORK_PORTAL: u32 = 51;

/// Selftest replies and bulk; the requester chooses the match bits.
pub const SELFTEST_REPLY_PORTAL: u32 = 52;
