//! Settings that only this method knows, to be given to [`bmi::Bmi::set`].
//!
//! C programs pass their numbers to `BMI_set_info`, with a null parameter.

use bmi::Setting;

/// 0x7A11: a signal that a thread handles ends its waits; see
/// [`Options::interruptible`](crate::Options::interruptible).
pub const INTERRUPTIBLE: Setting = Setting::Other(0x7A11);

/// 0x7A10: a wait goes on after a signal, as it does unless told otherwise.
pub const UNINTERRUPTIBLE: Setting = Setting::Other(0x7A10);

/// 0x7A21: posts do not wait for their outcome; see [`Options::pipelined`](crate::Options::pipelined).
pub const PIPELINED: Setting = Setting::Other(0x7A21);

/// 0x7A20: a post is an attempt whose outcome it returns, as it is unless told otherwise.
pub const UNPIPELINED: Setting = Setting::Other(0x7A20);

/// What a setting says of interruptions, if anything.
pub(crate) fn interruptible(setting: &Setting) -> Option<bool> {
    match *setting {
        INTERRUPTIBLE => Some(true),
        UNINTERRUPTIBLE => Some(false),
        _ => None,
    }
}

/// What a setting says of posts that do not wait, if anything.
pub(crate) fn pipelined(setting: &Setting) -> Option<bool> {
    match *setting {
        PIPELINED => Some(true),
        UNPIPELINED => Some(false),
        _ => None,
    }
}
