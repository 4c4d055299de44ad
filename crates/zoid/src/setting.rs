//! Settings that only this method knows, to be given to [`bmi::Bmi::set`].
//!
//! C programs pass their numbers to `BMI_set_info`, with a null parameter.

use bmi::Setting;

/// 0x7A11: a signal that a thread handles ends its waits; see
/// [`Options::interruptible`](crate::Options::interruptible).
pub const INTERRUPTIBLE: Setting = Setting::Other(0x7A11);

/// 0x7A10: a wait goes on after a signal, as it does unless told otherwise.
pub const UNINTERRUPTIBLE: Setting = Setting::Other(0x7A10);

/// What a setting says of interruptions, if anything.
pub(crate) fn interruptible(setting: &Setting) -> Option<bool> {
    match *setting {
        INTERRUPTIBLE => Some(true),
        UNINTERRUPTIBLE => Some(false),
        _ => None,
    }
}
