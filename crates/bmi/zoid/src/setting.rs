//! Settings that only this method knows, for [`bmi::Bmi::set`].
//!
//! C programs pass their numbers to `BMI_set_info`, with a null parameter.

use bmi::Setting;

/// 0x7A11: a signal that a thread handles ends its waits; see
/// [`Options::interruptible`](crate::Options::interruptible).
pub const INTERRUPTIBLE: Setting = Setting::Other(0x7A11);

/// 0x7A10: a wait continues after a signal (the default).
pub const UNINTERRUPTIBLE: Setting = Setting::Other(0x7A10);

/// 0x7A21: posts do not wait for their outcome; see [`Options::pipelined`](crate::Options::pipelined).
pub const PIPELINED: Setting = Setting::Other(0x7A21);

/// 0x7A20: a post is an attempt whose outcome it returns (the default).
pub const UNPIPELINED: Setting = Setting::Other(0x7A20);

/// Returns whether a setting turns interruptions on or off, if it does either.
pub(crate) fn interruptible(setting: &Setting) -> Option<bool> {
    match *setting {
        INTERRUPTIBLE => Some(true),
        UNINTERRUPTIBLE => Some(false),
        _ => None,
    }
}

/// Returns whether a setting turns pipelining on or off, if it does either.
pub(crate) fn pipelined(setting: &Setting) -> Option<bool> {
    match *setting {
        PIPELINED => Some(true),
        UNPIPELINED => Some(false),
        _ => None,
    }
}
