//! What is wrong with an input, and where: every problem of all files at once.

use std::fmt;
use std::sync::Arc;

use thiserror::Error;

/// A line of a file.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Place {
    /// The file's name as the caller gave it.
    pub file: Arc<str>,
    /// The line, from 1.
    pub line: u32,
}

impl fmt::Display for Place {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}:{}", self.file, self.line)
    }
}

/// Something wrong at a place.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Error)]
#[error("{place}: {reason}")]
pub struct Problem {
    /// Where it is.
    pub place: Place,
    /// What it is.
    pub reason: Reason,
}

/// What can be wrong with an input. Texts from the file are cut to 60 characters.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Error)]
#[non_exhaustive]
pub enum Reason {
    /// More bytes than [`crate::MAX_INPUT_BYTES`].
    #[error("{0} bytes; a file may have {max}", max = crate::MAX_INPUT_BYTES)]
    TooLarge(usize),
    /// Not YAML, or YAML with anchors, nesting or sizes that a machine file does not need.
    #[error("not a YAML document that a machine file may be: {0}")]
    Yaml(String),
    /// A line with too few or too many columns.
    #[error("{found} columns instead of {expected}: {layout}")]
    Columns {
        /// Columns of the line.
        found: usize,
        /// Columns of the layout.
        expected: usize,
        /// The layout in words.
        layout: &'static str,
    },
    /// A value that is not of the kind or in the range that its key wants.
    #[error("{key}: '{found}' is not {wanted}")]
    Value {
        /// The key or column.
        key: String,
        /// What stands there.
        found: String,
        /// What would be right.
        wanted: String,
    },
    /// A key that the mapping needs.
    #[error("{0} is missing")]
    Missing(String),
    /// A key that is not known here.
    #[error("unknown key '{key}'; known are {known}")]
    UnknownKey {
        /// The key.
        key: String,
        /// The keys that the mapping may have.
        known: String,
    },
    /// Sizes or capacities that are no fabric.
    #[error("{0}")]
    Fabric(String),
    /// Coordinates outside the fabric.
    #[error("{0} is not a place of the fabric")]
    Outside(String),
    /// A name that disagrees with the coordinates or the NID beside it.
    #[error("{name} is at {expected}, not {found}")]
    Disagrees {
        /// The node's or blade's name.
        name: String,
        /// What the name says.
        expected: String,
        /// What the line says.
        found: String,
    },
    /// Two nodes with one number.
    #[error("node {id} is already defined at {first}")]
    NodeTwice {
        /// The number.
        id: u32,
        /// Where it was first.
        first: Place,
    },
    /// A router node that is not among the service nodes of the map.
    #[error("node {0} is not a service node of the map")]
    UnknownNode(u32),
    /// Two modules on one blade, or with one place in their group.
    #[error("{what} is already taken by the module at {first}")]
    ModuleTwice {
        /// The blade, or group, sub-group and index.
        what: String,
        /// Where the first one is.
        first: Place,
    },
    /// A group without modules.
    #[error("group {0} has no modules")]
    EmptyGroup(String),
    /// A sub-group without modules although a later one has some.
    #[error("sub-group {sub_group} of group {group} has no modules")]
    EmptySubGroup {
        /// The group.
        group: String,
        /// Its sub-group, from 1.
        sub_group: u16,
    },
    /// A net that two groups claim.
    #[error("net {net} belongs to group {first} already")]
    NetTwice {
        /// The net.
        net: String,
        /// The group that has it.
        first: String,
    },
    /// A module without a router on one of its group's nets.
    #[error("module {module} has no router on {net}, which its group serves")]
    NetUnserved {
        /// The blade.
        module: String,
        /// The net.
        net: String,
    },
    /// A module with another number of nodes than its group has nets.
    #[error("{nodes} nodes for {nets} nets: node k of a module serves net k of its group")]
    NodesForNets {
        /// Nodes of the module.
        nodes: usize,
        /// Nets of the group.
        nets: usize,
    },
    /// More of something than a plan can hold.
    #[error("more than {max} {what}")]
    TooMany {
        /// What there is too much of.
        what: &'static str,
        /// The limit.
        max: usize,
    },
    /// No compute node at all.
    #[error("no clients")]
    NoClients,
    /// No net to plan routes to.
    #[error("no groups with nets")]
    NoGroups,
    /// A part that is said to be down and does not exist.
    #[error("down: {0}")]
    NoPart(String),
    /// A warning: the windows of the sub-groups are not equally wide.
    #[error(
        "{size} positions of dimension {dimension} do not divide into {sub_groups} sub-groups of group {group}: windows differ by one"
    )]
    UnequalWindows {
        /// Positions.
        size: u16,
        /// The windowed dimension.
        dimension: String,
        /// Sub-groups.
        sub_groups: usize,
        /// The group.
        group: String,
    },
    /// A warning: sub-groups of one group with different numbers of modules.
    #[error("sub-groups of group {0} have different numbers of modules")]
    UnequalSubGroups(String),
    /// A warning: modules whose places are made up, because the real ones are not published.
    #[error("the places of the metadata modules {0} are synthetic")]
    SyntheticMetadata(String),
    /// Something about a machine that is not known and was assumed.
    #[error("assumed: {0}")]
    Assumed(String),
    /// A warning: a client that is down now; it is planned for all the same.
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

/// Problems kept of one file: enough to repair it, and a bound on memory.
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

    /// `value` when nothing is wrong.
    pub(crate) fn into_result<T>(mut self, value: T) -> Result<T, InputError> {
        self.found.sort_by_key(|problem| problem.place.line);
        if self.found.is_empty() {
            Ok(value)
        } else {
            Err(InputError(self.found))
        }
    }
}

/// Text from a file, as much as fits into a message.
pub(crate) fn shown(text: &str) -> String {
    text.chars().take(60).collect()
}
