//! Rules of one fixed size in sequence.

use super::error::{BlockError, BlockProblem};
use super::record::{Record, words};
use super::{RuleBlockHeader, RuleType};

/// Appends `rules`. Each satisfies the checks of a reader.
pub(super) fn write<R: Record>(rules: &[R], out: &mut Vec<u8>) -> Result<(), BlockError> {
    for (index, rule) in rules.iter().enumerate() {
        rule.validate()
            .map_err(|(_, problem)| BlockError::in_rule(index, problem))?;
        rule.write(out);
    }
    Ok(())
}

/// The number of rules in `len` bytes.
pub(super) fn count(
    header: &RuleBlockHeader,
    len: usize,
    rule_type: RuleType,
) -> Result<usize, BlockError> {
    // The header was checked: the size of a rule is at least that of its type.
    let size = header.rule_size.max(rule_type.rule_size()).max(1);
    let (value, size_bytes) = (len as u32, size as usize);
    if !len.is_multiple_of(size_bytes) {
        let field = "length of the rules";
        let problem = BlockProblem::NotAMultiple {
            field,
            value,
            of: size,
        };
        return Err(BlockError::at(0, problem));
    }
    Ok(len / size_bytes)
}

/// Reads rules of `size` bytes that begin at `start` in the block.
pub(super) fn read<R: Record>(
    bytes: &[u8],
    size: usize,
    start: usize,
) -> Result<Vec<R>, BlockError> {
    let chunks = bytes.chunks_exact(size.max(1)).enumerate();
    chunks
        .map(|(index, chunk)| {
            let rule = R::read(&mut words(chunk));
            rule.validate().map_err(|(offset, problem)| {
                BlockError::at(start + index * size + offset, problem)
            })?;
            Ok(rule)
        })
        .collect()
}
