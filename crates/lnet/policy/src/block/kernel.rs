//! A rule in the layout of shipping kernels: [BLOCK-6].
//!
//! ```text
//!  0        4         8       12       16       20         24        32
//!  +--------+---------+-------+--------+--------+----------+---------+-----+-----+-----+
//!  | length | version | index | action | bulk   | priority | bulk    | SRC | DST | RTE |
//!  +--------+---------+-------+--------+--------+----------+---------+-----+-----+-----+
//! ```
//!
//! The descriptors are those of v2 blocks. `length` counts the whole rule; bytes after it are
//! ignored, as are the offsets of the bulk data. A pair has no priority, so all pairs have the best
//! rank.

use super::error::{BlockError, BlockProblem};
use super::v2::{ACTION_PREFERRED, IndexedRule, Reader, rule_of};
use crate::priority::Priority;

/// `ioc_udsp` up to the descriptors.
const FIXED_LEN: usize = 32;
/// The only known version.
const VERSION: u32 = 0x0001_000B;

/// Reads one rule in the form of a kernel's `IOC_LIBCFS_ADD_UDSP`.
///
/// # Errors
///
/// −ENOSPC for fewer than 32 bytes, −EINVAL for other malformed input and for rules that an
/// [`IndexedRule`] cannot hold.
pub fn kernel_rule(bytes: &[u8]) -> Result<IndexedRule, BlockError> {
    if bytes.len() < FIXED_LEN {
        let problem = BlockProblem::BufferTooSmall {
            needed: FIXED_LEN,
            available: bytes.len(),
        };
        return Err(BlockError::at(0, problem));
    }
    let mut reader = Reader { bytes, offset: 0 };
    read(&mut reader).map_err(|(offset, problem)| BlockError::at(offset, problem))
}

fn read(reader: &mut Reader<'_>) -> Result<IndexedRule, (usize, BlockProblem)> {
    let (length, version) = (reader.word()?, reader.word()?);
    let available = reader.bytes.len();
    if (length as usize) < FIXED_LEN || length as usize > available {
        let (least, most) = (FIXED_LEN as u64, available as u64);
        let problem = BlockProblem::out_of_range("length", length.into(), least, most);
        return Err((0, problem));
    }
    if version != VERSION {
        let (is, expected) = (u64::from(version), u64::from(VERSION));
        let problem = BlockProblem::out_of_range("version", is, expected, expected);
        return Err((4, problem));
    }
    reader.bytes = reader.bytes.get(..length as usize).unwrap_or_default();
    // A negative index means the end of the list.
    let index = u32::try_from(reader.word()?.cast_signed()).ok();
    let action = reader.word()?;
    let _bulk_size = reader.word()?;
    let priority = Priority::from_wire(reader.word()?);
    let _bulk_pointer = (reader.word()?, reader.word()?);
    let descriptors = reader.descriptors()?;
    let priority = match (action, &descriptors) {
        (ACTION_PREFERRED, [Some(_), Some(_), None]) => Priority::BEST,
        (ACTION_PREFERRED, _) => Priority::NONE,
        _ => priority,
    };
    let rule = rule_of(action, priority, descriptors).map_err(|(offset, problem)| {
        let action_at = 12;
        (offset.min(action_at), problem)
    })?;
    Ok(IndexedRule { index, rule })
}
