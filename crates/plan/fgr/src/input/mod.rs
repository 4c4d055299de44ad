//! Readers of machine descriptions.
//!
//! * [`read_machine`]: the machine file in YAML, for any fabric.
//! * [`read_chain`]: the description of a site with chains of routers.
//! * [`read_plan`]: the YAML document of a plan.
//! * [`hosts`]: host lists in Slurm's notation.
//! * [`read_map`]: Titan's map, with `NID name compute|service X Y Z` on each line.
//! * [`read_node_table`]: tables like those of `xtprocadmin`, for a machine with Titan's names.
//! * [`read_modules`]: the table of router modules.
//! * [`synthetic()`]: a machine made by rule, for sizes without known coordinates.
//!
//! Each reader takes a text and the name that error messages use for it; no reader opens a file. A
//! reader continues after an error, so that one pass finds all errors. Tables become a [`Draft`],
//! and [`Draft::check`] finds contradictions between the parts.

mod chain_file;
mod csv_table;
mod draft;
pub(crate) mod fields;
mod hostlist;
mod machine_file;
mod plan_file;
mod plan_lines;
mod synthetic;
mod tables;
pub(crate) mod yaml;

pub use chain_file::read_chain;
pub use draft::{ClientDraft, Draft, ModuleDraft, NodeDraft};
pub use hostlist::{HostListError, hosts};
pub use machine_file::read_machine;
pub use plan_file::read_plan;
pub use synthetic::{Synthetic, synthetic};
pub use tables::{MapNode, read_map, read_modules, read_node_table, synthetic_metadata, titan};

pub(crate) use csv_table::{Layout, Table, read_rows};
pub(crate) use tables::net;

use crate::problem::{Problems, Reason};

/// Most bytes of an input: a hundred times Titan's map.
pub const MAX_INPUT_BYTES: usize = 64 << 20;

/// Returns whether a name stays within its directory when it is used as a file name.
pub(crate) fn is_file_name(text: &str) -> bool {
    let is_plain = |byte: u8| byte.is_ascii_alphanumeric() || b"-_.".contains(&byte);
    !text.is_empty() && !text.starts_with('.') && text.bytes().all(is_plain)
}

/// Most bytes of a node's name: those of a Linux host name.
const MAX_NAME_BYTES: usize = 64;

/// What [`is_node_name`] accepts, for messages.
pub(crate) const NODE_NAME: &str = "a name of a node: at most 64 letters, digits, '-', '_' and '.', first a letter or a \
                                    digit, and no number or other value of YAML";

/// Returns whether configurations can hold a node of this name: in the names of their files, in tables and in YAML.
pub(crate) fn is_node_name(text: &str) -> bool {
    let starts_well = text.starts_with(|c: char| c.is_ascii_alphanumeric());
    let is_short = text.len() <= MAX_NAME_BYTES;
    is_short && starts_well && is_file_name(text) && !is_yaml_value(text)
}

/// Returns whether YAML takes this text for a decimal number, a date, a truth value or nothing. Sites have nodes with
/// hexadecimal numbers as names, which the inventory quotes.
fn is_yaml_value(text: &str) -> bool {
    const WORDS: [&str; 7] = ["null", "true", "false", "yes", "no", "on", "off"];
    let lower = text.to_ascii_lowercase();
    let is_number = lower.starts_with(|c: char| c.is_ascii_digit()) && lower.parse::<f64>().is_ok();
    let has_letter = lower.contains(|c: char| c.is_ascii_alphabetic());
    WORDS.contains(&&*lower) || is_number || !has_letter
}

/// Returns whether the text is small enough to be read. Reports a text that is too large.
pub(crate) fn fits(problems: &mut Problems, text: &str) -> bool {
    let fits = text.len() <= MAX_INPUT_BYTES;
    if !fits {
        problems.add(1, Reason::TooLarge(text.len()));
    }
    fits
}
