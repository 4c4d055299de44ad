//! The checksum of a message, which is off by default.

use super::{MAGIC, MESSAGE_MAX};

/// The offset of the field, in bytes.
const AT: usize = 12;

/// Returns the checksum of a message's bytes, whatever its checksum field holds. The result is never 0, because 0
/// means that a message has none.
// [IB-8]
#[must_use]
pub fn checksum(message: &[u8]) -> u32 {
    let field = AT..AT + 4;
    let sum = message.iter().enumerate().fold(0u32, |sum, (at, &byte)| {
        // Kernels sum signed bytes.
        let byte = if field.contains(&at) {
            0
        } else {
            byte.cast_signed()
        };
        sum.rotate_left(1).wrapping_add_signed(byte.into())
    });
    sum.max(1)
}

/// Writes the checksum into an encoded little-endian message. Does nothing to bytes that are no such message.
pub fn seal(message: &mut [u8]) {
    let is_message = message.starts_with(&MAGIC.to_le_bytes()) && message.len() <= MESSAGE_MAX;
    let sum = checksum(message);
    if let (true, Some(field)) = (is_message, message.get_mut(AT..AT + 4)) {
        field.copy_from_slice(&sum.to_le_bytes());
    }
}
