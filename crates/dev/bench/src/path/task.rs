//! A task of a client, as a line of text.

use std::fmt;
use std::str::FromStr;

use anyhow::Context;
use clap::ValueEnum;

/// The bytes of a piece of a large file. A message of the plain program carries at most one piece.
pub(super) const PIECE: usize = 1 << 20;
/// The bytes of a random read.
pub(super) const BLOCK: usize = 4096;
/// The bytes of a file that is read at random.
const RANDOM: u64 = 4 << 20;

/// The side of a comparison.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(super) enum Side {
    /// The whole path, as the tools use it
    Path,
    /// The mount at the end of the path
    Mount,
    /// The directory without a path
    Local,
    /// Plain programs with as many hops
    Plain,
    /// Plain programs behind a copy in memory, with one hop less
    PlainRouted,
}

/// The operation of a task.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(super) enum Operation {
    /// Writes a file, from its beginning
    Write,
    /// Reads it
    Read,
    /// Reads blocks of it
    Random,
    /// Looks a name up
    Look,
    /// Makes a name and removes it
    Names,
}

/// A task, sent to a client as a line.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Task {
    pub(super) side: Side,
    pub(super) operation: Operation,
    /// The number of pieces, blocks, look-ups, or pairs.
    pub(super) count: u64,
    /// The number of operations in progress at the same time.
    pub(super) depth: usize,
    /// The number of the file.
    pub(super) file: u32,
}

impl Task {
    /// Returns the offset of a random read. Every side reads the same offsets in the same order.
    pub(super) fn block(&self, index: u64) -> u64 {
        let blocks = RANDOM / BLOCK as u64;
        // The factor is odd and without a pattern: 2^64 divided by the golden ratio.
        (index.wrapping_mul(0x9E37_79B9_7F4A_7C15) >> 32) % blocks * BLOCK as u64
    }
}

impl fmt::Display for Task {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self {
            count, depth, file, ..
        } = self;
        let side = self.side.to_possible_value();
        let operation = self.operation.to_possible_value();
        let word = |value: &Option<clap::builder::PossibleValue>| {
            value
                .as_ref()
                .map_or_else(String::new, |value| value.get_name().to_owned())
        };
        write!(
            f,
            "{} {} {count} {depth} {file}",
            word(&side),
            word(&operation)
        )
    }
}

impl FromStr for Task {
    type Err = anyhow::Error;

    fn from_str(line: &str) -> anyhow::Result<Self> {
        let mut words = line.split(' ');
        let mut next = || words.next().context("a task of five words");
        Ok(Self {
            side: Side::from_str(next()?, false).map_err(anyhow::Error::msg)?,
            operation: Operation::from_str(next()?, false).map_err(anyhow::Error::msg)?,
            count: next()?.parse()?,
            depth: next()?.parse()?,
            file: next()?.parse()?,
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_task_is_read_as_it_was_written() {
        let task = Task {
            side: Side::PlainRouted,
            operation: Operation::Random,
            count: 7,
            depth: 16,
            file: 3,
        };
        assert_eq!(task.to_string().parse::<Task>().unwrap(), task);
        assert!("path write 1 1".parse::<Task>().is_err());
    }

    #[test]
    fn random_reads_stay_inside_of_the_file_and_go_everywhere() {
        let task: Task = "path random 1 1 0".parse().unwrap();
        let blocks: std::collections::BTreeSet<u64> = (0..10_000).map(|n| task.block(n)).collect();
        assert!(
            blocks
                .iter()
                .all(|at| at + BLOCK as u64 <= RANDOM && at % BLOCK as u64 == 0)
        );
        assert!(blocks.len() > 900, "{} places", blocks.len());
    }
}
