//! What describes a machine, and how it is read.
//!
//! * [`read_machine`]: the machine file, YAML, for any fabric.
//! * [`read_plan`]: the document of a plan.
//! * [`hosts`]: host lists as Slurm writes them.
//! * [`read_map`]: Titan's map, `NID name compute|service X Y Z` a line.
//! * [`read_node_table`]: tables like those of `xtprocadmin`, on a machine that is named like Titan.
//! * [`read_modules`]: the table of router modules.
//! * [`synthetic()`]: a machine by rule, where no coordinates are known.
//!
//! Each reader takes the text and the name to use in complaints; none opens a file. Each goes on
//! after an error, so that one pass finds all of them. What has been read becomes a [`Draft`], and
//! [`Draft::check`] looks for contradictions between the parts.

mod csv_table;
mod draft;
mod fields;
mod hostlist;
mod machine_file;
mod plan_file;
mod plan_lines;
mod synthetic;
mod tables;
mod yaml;

pub use draft::{ClientDraft, Draft, ModuleDraft, NodeDraft};
pub use hostlist::{HostListError, hosts};
pub use machine_file::read_machine;
pub use plan_file::read_plan;
pub use synthetic::{Synthetic, synthetic};
pub use tables::{MapNode, read_map, read_modules, read_node_table, synthetic_metadata, titan};

pub(crate) use csv_table::{Layout, Table, read_rows};
pub(crate) use tables::net;

use crate::problem::{Problems, Reason};

/// Bytes of the largest input: a hundred times Titan's map.
pub const MAX_INPUT_BYTES: usize = 64 << 20;

/// Whether the text may be read; says so if not.
pub(crate) fn fits(problems: &mut Problems, text: &str) -> bool {
    let fits = text.len() <= MAX_INPUT_BYTES;
    if !fits {
        problems.add(1, Reason::TooLarge(text.len()));
    }
    fits
}
