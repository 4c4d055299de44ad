//! Problems of inputs with their places: every problem of all files at once.

use std::fmt;
use std::sync::Arc;

use thiserror::Error;

/// A line of a file.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Place {
    /// Name of the file, as the caller gave it.
    pub file: Arc<str>,
    /// The line, from 1.
    pub line: u32,
}

impl fmt::Display for Place {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}:{}", self.file, self.line)
    }
}

/// A problem at a place.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Error)]
#[error("{place}: {reason}")]
pub struct Problem {
    /// Where the problem is.
    pub place: Place,
    /// What the problem is.
    pub reason: Reason,
}

/// What can be wrong with an input. Texts from the file are cut after 60 characters.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Error)]
#[non_exhaustive]
pub enum Reason {
    /// A file has more bytes than [`crate::MAX_INPUT_BYTES`].
    #[error("{0} bytes; a file may have {max}", max = crate::MAX_INPUT_BYTES)]
    TooLarge(usize),
    /// The text is not YAML, or has nesting or a size that no description of a machine needs.
    #[error("not a YAML document of the accepted form: {0}")]
    Yaml(String),
    /// A line has too few or too many columns.
    #[error("{found} columns instead of {expected}: {layout}")]
    Columns {
        /// Number of columns of the line.
        found: usize,
        /// Number of columns of the layout.
        expected: usize,
        /// The layout in words.
        layout: &'static str,
    },
    /// A value is not of the type or in the range of its key.
    #[error("{key}: '{found}' is not {wanted}")]
    Value {
        /// The key or column.
        key: String,
        /// The value.
        found: String,
        /// What a valid value is.
        wanted: String,
    },
    /// A required key is missing.
    #[error("{0} is missing")]
    Missing(String),
    /// A key is not known in this mapping.
    #[error("unknown key '{key}'; known are {known}")]
    UnknownKey {
        /// The key.
        key: String,
        /// The keys that the mapping may have.
        known: String,
    },
    /// Sizes or capacities are invalid for a fabric.
    #[error("{0}")]
    Fabric(String),
    /// Coordinates are outside the fabric.
    #[error("{0} is not a place of the fabric")]
    Outside(String),
    /// A name contradicts the coordinates or the NID beside it.
    #[error("{name} is at {expected}, not {found}")]
    Disagrees {
        /// Name of the node or blade.
        name: String,
        /// The place that the name means.
        expected: String,
        /// The place in the line.
        found: String,
    },
    /// Two nodes have the same number.
    #[error("node {id} is already defined at {first}")]
    NodeTwice {
        /// The number.
        id: u32,
        /// The place of the first definition.
        first: Place,
    },
    /// A name or an address belongs to two nodes.
    #[error("{what} belongs to node {first} already")]
    OwnerTwice {
        /// The name or address.
        what: String,
        /// The number of the first node.
        first: u32,
    },
    /// A router node is not among the service nodes of the map.
    #[error("node {0} is not a service node of the map")]
    UnknownNode(u32),
    /// Two modules are on one blade, or have the same index in their group.
    #[error("{what} is already taken by the module at {first}")]
    ModuleTwice {
        /// The blade, or group, sub-group and index.
        what: String,
        /// The place of the first module.
        first: Place,
    },
    /// A group has no modules.
    #[error("group {0} has no modules")]
    EmptyGroup(String),
    /// A sub-group has no modules although a later one has some.
    #[error("sub-group {sub_group} of group {group} has no modules")]
    EmptySubGroup {
        /// The group.
        group: String,
        /// Its sub-group, from 1.
        sub_group: u16,
    },
    /// Two groups claim the same net.
    #[error("net {net} belongs to group {first} already")]
    NetTwice {
        /// The net.
        net: String,
        /// The group that has it.
        first: String,
    },
    /// A module has no router on one of its group's nets.
    #[error("module {module} has no router on {net}, which its group serves")]
    NetUnserved {
        /// The blade.
        module: String,
        /// The net.
        net: String,
    },
    /// A module has another number of nodes than its group has nets.
    #[error("{nodes} nodes for {nets} nets: node k of a module serves net k of its group")]
    NodesForNets {
        /// Nodes of the module.
        nodes: usize,
        /// Nets of the group.
        nets: usize,
    },
    /// There is more of something than a plan can hold.
    #[error("more than {max} {what}")]
    TooMany {
        /// What there is too much of.
        what: &'static str,
        /// The limit.
        max: usize,
    },
    /// There is no compute node.
    #[error("no clients")]
    NoClients,
    /// There is no net to which routes could be planned.
    #[error("no groups with nets")]
    NoGroups,
    /// A part that is marked as down does not exist.
    #[error("down: {0}")]
    NoPart(String),
    /// Warning: the windows of the sub-groups are not equally wide.
    #[error(
        "{size} positions of dimension {dimension} do not divide into {sub_groups} sub-groups of group {group}: windows differ by one"
    )]
    UnequalWindows {
        /// Number of positions.
        size: u16,
        /// The windowed dimension.
        dimension: String,
        /// Number of sub-groups.
        sub_groups: usize,
        /// The group.
        group: String,
    },
    /// Warning: sub-groups of one group have different numbers of modules.
    #[error("sub-groups of group {0} have different numbers of modules")]
    UnequalSubGroups(String),
    /// Warning: the places of modules are invented, because the real ones are not published.
    #[error("the places of the metadata modules {0} are synthetic")]
    SyntheticMetadata(String),
    /// Warning: an unknown property of the machine was assumed.
    #[error("assumed: {0}")]
    Assumed(String),
    /// Warning: a client is down now, but the plan includes it.
    #[error("{0} is not up; it is planned for, because it may come back")]
    Down(String),
}

/// Everything that is wrong with the inputs, in the order of files and lines.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
#[error("{}", lines(.0))]
pub struct InputError(pub Vec<Problem>);

fn lines(problems: &[Problem]) -> String {
    let lines: Vec<String> = problems.iter().map(ToString::to_string).collect();
    lines.join("\n")
}

/// Collects problems while a file is read.
#[derive(Debug)]
pub(crate) struct Problems {
    pub(crate) file: Arc<str>,
    pub(crate) found: Vec<Problem>,
}

/// Most problems kept of one file: enough to repair it, with bounded memory.
const MAX_PROBLEMS: usize = 1_000;

impl Problems {
    pub(crate) fn new(file: &str) -> Self {
        Self {
            file: file.into(),
            found: Vec::new(),
        }
    }

    pub(crate) fn place(&self, line: u32) -> Place {
        Place {
            file: Arc::clone(&self.file),
            line,
        }
    }

    pub(crate) fn add(&mut self, line: u32, reason: Reason) {
        if self.found.len() < MAX_PROBLEMS {
            let place = self.place(line);
            self.found.push(Problem { place, reason });
        }
    }

    pub(crate) fn value(&mut self, line: u32, key: &str, found: &str, wanted: &str) {
        let reason = Reason::Value {
            key: key.to_owned(),
            found: shown(found),
            wanted: wanted.to_owned(),
        };
        self.add(line, reason);
    }

    /// Returns `value` if there is no problem.
    pub(crate) fn into_result<T>(mut self, value: T) -> Result<T, InputError> {
        self.found.sort_by_key(|problem| problem.place.line);
        if self.found.is_empty() {
            Ok(value)
        } else {
            Err(InputError(self.found))
        }
    }
}

/// Cuts text from a file to the length that fits in a message, without characters that control a terminal.
pub(crate) fn shown(text: &str) -> String {
    let plain = |letter: char| match letter.is_control() {
        true => char::REPLACEMENT_CHARACTER,
        false => letter,
    };
    text.chars().take(60).map(plain).collect()
}
