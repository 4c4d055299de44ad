//! A share of a large sweep (`--shard`) and the file with its result. Shares let many machines work on one
//! sweep.
//!
//! The result of a share depends only on the arguments and the number of the share. The file of a share maps
//! the number to the result; a joined file holds the results of several shares. Joining files therefore
//! forms the union of their maps, and neither order nor grouping matters.

use std::collections::BTreeMap;
use std::env;
use std::io;
use std::ops::Range;
use std::str::FromStr;

use anyhow::{anyhow, bail};
use serde::{Deserialize, Serialize};
use serde_json::Value;

use crate::common::print_bytes;

/// The limit of shares of a sweep: more than a batch system starts.
const MAX_SHARDS: u32 = 1_000_000;

/// One share of a sweep.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Shard {
    /// The number of the share, from 0.
    index: u32,
    count: u32,
}

/// The argument `--shard`, shared by the commands that take it.
#[derive(clap::Args, Clone, Copy)]
pub(crate) struct ShardArgs {
    /// Compute only this share, number I (from 0) of N, and print its result for 'finerail merge'. 'auto' takes both
    /// numbers from a Slurm job array; 'auto/N' takes I from it or from a Kubernetes Indexed Job
    #[arg(long, value_name = "I/N")]
    pub(crate) shard: Option<Shard>,
}

impl FromStr for Shard {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        Self::parse(text, |name| env::var(name).ok())
    }
}

impl Shard {
    fn parse(text: &str, variable: impl Fn(&str) -> Option<String>) -> Result<Self, String> {
        let wrong = || format!("'{text}': write I/N with I from 0 to N-1, auto or auto/N");
        let number = |name: &str| match variable(name) {
            None => Ok(None),
            Some(value) => match value.parse::<u32>() {
                Ok(number) => Ok(Some(number)),
                Err(_) => Err(format!("{name} is '{value}', which is not a number")),
            },
        };
        let (index, count) = text
            .split_once('/')
            .map_or((text, None), |(i, n)| (i, Some(n)));
        let count = match count {
            Some(count) => Some(count.parse().map_err(|_| wrong())?),
            None => number("SLURM_ARRAY_TASK_COUNT")?,
        };
        let index = match index {
            "auto" => match number("SLURM_ARRAY_TASK_ID")? {
                Some(task) => task.checked_sub(number("SLURM_ARRAY_TASK_MIN")?.unwrap_or(0)),
                None => number("JOB_COMPLETION_INDEX")?,
            },
            index => Some(index.parse().map_err(|_| wrong())?),
        };
        match (index, count) {
            (Some(index), Some(count)) if index < count && count <= MAX_SHARDS => {
                Ok(Self { index, count })
            }
            (Some(index), Some(count)) => Err(format!(
                "share {index} of {count}: I must be below N, N at most {MAX_SHARDS}"
            )),
            _ => Err(format!(
                "'{text}': neither SLURM_ARRAY_TASK_ID and SLURM_ARRAY_TASK_COUNT nor \
                 JOB_COMPLETION_INDEX are set; write I/N, or auto/N where only the count is missing"
            )),
        }
    }

    /// Returns the part of these numbers that belongs to this share. Each number belongs to exactly one share.
    pub(crate) fn of(self, numbers: Range<u64>) -> Range<u64> {
        let length = u128::from(numbers.end.saturating_sub(numbers.start));
        let at = |index: u32| {
            // The quotient is at most the length, which fits into 64 bits.
            numbers.start + (length * u128::from(index) / u128::from(self.count)) as u64
        };
        at(self.index)..at(self.index + 1)
    }

    /// Returns whether the item with this number belongs to this share. Consecutive items go to the shares in
    /// turn.
    pub(crate) fn takes(self, item: usize) -> bool {
        item % self.count as usize == self.index as usize
    }

    /// Returns the number of the share, from 0.
    pub(crate) fn index(self) -> u32 {
        self.index
    }

    /// Prints the file of the share. `asked` holds everything else that the result depends on.
    pub(crate) fn print(self, command: &str, asked: Value, result: Value) -> anyhow::Result<()> {
        let file = ShardFile {
            finerail_shards: VERSION,
            command: command.to_owned(),
            asked,
            shards: self.count,
            results: BTreeMap::from([(self.index, result)]),
        };
        Ok(print_bytes(file.text()?.as_bytes(), &mut io::stdout())?)
    }
}

const VERSION: u32 = 1;

/// The results of some or all shares of one sweep.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct ShardFile {
    /// The version of this file format.
    finerail_shards: u32,
    /// The command that the shares belong to.
    pub(crate) command: String,
    /// Everything that the results depend on, except the number of the share.
    pub(crate) asked: Value,
    /// The number of shares of the whole sweep.
    shards: u32,
    /// The results by the number of the share, from 0.
    pub(crate) results: BTreeMap<u32, Value>,
}

impl ShardFile {
    /// Reads the file of a share, or a joined file.
    ///
    /// # Errors
    ///
    /// The text is not such a file, has another version, or has a share beyond the last.
    pub(crate) fn parse(name: &str, text: &str) -> anyhow::Result<Self> {
        let file: Self = serde_json::from_str(text).map_err(|error| {
            anyhow!("{name}: not the output of a command with --shard: {error}")
        })?;
        if file.finerail_shards != VERSION {
            let version = file.finerail_shards;
            bail!("{name}: of version {version}; this program reads version {VERSION}");
        }
        if file.shards > MAX_SHARDS || file.results.keys().any(|&index| index >= file.shards) {
            bail!("{name}: the number of a share is not below {}", file.shards);
        }
        Ok(file)
    }

    /// Adds the results of another file.
    ///
    /// # Errors
    ///
    /// The files belong to different sweeps, or hold two different results of one share.
    pub(crate) fn join(&mut self, name: &str, other: Self) -> anyhow::Result<()> {
        let sweep = |file: &Self| (file.command.clone(), file.asked.clone(), file.shards);
        if sweep(self) != sweep(&other) {
            bail!(
                "{name}: of another sweep: {} {}",
                other.command,
                other.asked
            );
        }
        for (index, result) in other.results {
            match self.results.get(&index) {
                Some(known) if *known != result => bail!("{name}: share {index} has two results"),
                _ => self.results.insert(index, result),
            };
        }
        Ok(())
    }

    /// Returns the numbers of the shares that have no result.
    pub(crate) fn missing(&self) -> Vec<u32> {
        (0..self.shards)
            .filter(|index| !self.results.contains_key(index))
            .collect()
    }

    /// Returns the text of the file.
    pub(crate) fn text(&self) -> anyhow::Result<String> {
        Ok(serde_json::to_string(self)? + "\n")
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;
    use serde_json::json;

    use super::*;

    fn shard(text: &str, variables: &[(&str, &str)]) -> Result<(u32, u32), String> {
        let value = |name: &str| {
            let found = variables.iter().find(|(known, _)| *known == name);
            found.map(|(_, value)| (*value).to_owned())
        };
        Shard::parse(text, value).map(|shard| (shard.index, shard.count))
    }

    #[test]
    fn a_share_is_named_or_taken_from_slurm_or_kubernetes() {
        let slurm = [
            ("SLURM_ARRAY_TASK_ID", "5"),
            ("SLURM_ARRAY_TASK_COUNT", "8"),
        ];
        let from_one = [&slurm[..], &[("SLURM_ARRAY_TASK_MIN", "1")]].concat();
        let kubernetes = [("JOB_COMPLETION_INDEX", "3")];
        assert_eq!(shard("2/7", &slurm), Ok((2, 7)));
        assert_eq!(shard("auto", &slurm), Ok((5, 8)));
        assert_eq!(shard("auto", &from_one), Ok((4, 8)));
        assert_eq!(shard("auto/4", &kubernetes), Ok((3, 4)));
        for wrong in ["", "7/7", "-1/2", "1", "1/", "/2", "1/0", "0/9999999"] {
            assert!(shard(wrong, &[]).is_err(), "{wrong}");
        }
        assert!(shard("auto", &kubernetes).unwrap_err().contains("auto/N"));
        assert!(
            shard("auto", &[("SLURM_ARRAY_TASK_ID", "x")])
                .unwrap_err()
                .contains("not a number")
        );
    }

    proptest! {
        #[test]
        fn all_shares_together_have_each_number_once(start in 0_u64..1_000, length in 0_u64..100, count in 1_u32..120) {
            let shares = (0..count).map(|index| Shard { index, count });
            let numbers: Vec<u64> = shares.clone().flat_map(|shard| shard.of(start..start + length)).collect();
            prop_assert_eq!(numbers, (start..start + length).collect::<Vec<_>>());
            for item in 0..50 {
                prop_assert_eq!(shares.clone().filter(|shard| shard.takes(item)).count(), 1);
            }
        }

        #[test]
        fn joining_is_associative_and_commutative_and_names_what_is_missing(
            parts in proptest::collection::vec(proptest::collection::btree_set(0_u32..9, 0..5), 1..5),
        ) {
            let file = |part: &std::collections::BTreeSet<u32>| ShardFile {
                finerail_shards: VERSION,
                command: "sim".to_owned(),
                asked: json!({"seed": 1}),
                shards: 9,
                results: part.iter().map(|&index| (index, json!(index * 7))).collect(),
            };
            let files: Vec<ShardFile> = parts.iter().map(file).collect();
            let join = |files: &[ShardFile]| {
                let mut all = files[0].clone();
                for other in &files[1..] {
                    all.join("f", other.clone()).unwrap();
                }
                all
            };
            let left = join(&files);
            let reversed: Vec<ShardFile> = files.iter().rev().cloned().collect();
            prop_assert_eq!(&join(&reversed), &left);
            let (first, rest) = files.split_at(1);
            if !rest.is_empty() {
                let right = join(&[first[0].clone(), join(rest)]);
                prop_assert_eq!(&right, &left);
            }
            let have: std::collections::BTreeSet<u32> = parts.iter().flatten().copied().collect();
            let missing: Vec<u32> = (0..9).filter(|index| !have.contains(index)).collect();
            prop_assert_eq!(left.missing(), missing);
        }
    }

    #[test]
    fn files_of_other_sweeps_and_two_results_of_one_share_are_refused() {
        let file = |command: &str, result: u32| {
            let text = format!(
                r#"{{"finerail_shards":1,"command":"{command}","asked":{{}},"shards":2,"results":{{"0":{result}}}}}"#
            );
            ShardFile::parse("f", &text).unwrap()
        };
        let mut sim = file("sim", 1);
        assert!(sim.join("f", file("place", 1)).is_err());
        assert!(
            sim.join("f", file("sim", 2))
                .unwrap_err()
                .to_string()
                .contains("share 0 has two")
        );
        sim.join("f", file("sim", 1)).unwrap();
        for wrong in [
            "",
            "{}",
            r#"{"finerail_shards":2,"command":"","asked":{},"shards":1,"results":{}}"#,
        ] {
            assert!(ShardFile::parse("f", wrong).is_err(), "{wrong}");
        }
        let beyond =
            r#"{"finerail_shards":1,"command":"sim","asked":{},"shards":1,"results":{"1":0}}"#;
        assert!(ShardFile::parse("f", beyond).is_err());
    }
}
