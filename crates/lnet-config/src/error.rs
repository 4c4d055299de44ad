//! Errors that say where, what, and what would be right.

use std::fmt;

use annotate_snippets::{AnnotationKind, Level, Renderer, Snippet};
use lnet_policy::PolicyError;
use lnet_types::{Net, Nid};
use thiserror::Error;

use crate::MAX_BYTES;

/// Bytes `start..end` of the document.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Place {
    pub(crate) start: usize,
    pub(crate) end: usize,
}

impl Place {
    pub(crate) const START: Self = Self { start: 0, end: 0 };
}

/// A problem and its place, before the document's text is at hand to show it.
#[derive(Debug)]
pub(crate) struct Fault {
    place: Place,
    problem: Problem,
}

impl Fault {
    pub(crate) const fn new(place: Place, problem: Problem) -> Self {
        Self { place, problem }
    }

    pub(crate) const fn place(&self) -> Place {
        self.place
    }

    pub(crate) const fn problem(&self) -> &Problem {
        &self.problem
    }
}

/// Complaints about one document: the first ones, and how many more there were. Each that is kept costs a look at
/// the whole document.
#[derive(Debug, Default)]
pub(crate) struct Faults {
    pub(crate) first: Vec<Fault>,
    pub(crate) more: usize,
}

impl Faults {
    /// How many are kept.
    const MAX: usize = 100;

    pub(crate) fn note(&mut self, fault: Fault) {
        if self.first.len() < Self::MAX {
            self.first.push(fault);
        } else {
            self.more += 1;
        }
    }

    /// Those that are kept, with the document's text at hand.
    pub(crate) fn errors(self, source: &str) -> Vec<ConfigError> {
        let faults = self.first.into_iter();
        faults
            .map(|fault| ConfigError::new(source, fault))
            .collect()
    }
}

/// `text` from a document as it may stand in a message: of limited length and in one line.
pub(crate) fn shown(text: &str) -> String {
    const MAX_CHARS: usize = 120;
    let mut chars = text.chars().map(printable);
    let mut shown: String = chars.by_ref().take(MAX_CHARS).collect();
    if chars.next().is_some() {
        shown.push('…');
    }
    shown
}

/// What is wrong with a document. Keys and values are as the document has them, but shortened where
/// they are very long.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
pub enum Problem {
    /// The document is larger than [`MAX_BYTES`].
    #[error("the document has {bytes} bytes")]
    TooLarge {
        /// Its size.
        bytes: usize,
    },
    /// The document has too many keys and values.
    #[error("the document has more than {max} keys and values")]
    TooManyNodes {
        /// The limit.
        max: usize,
    },
    /// The text is not YAML, or nested too deeply.
    #[error("this is not valid YAML: {0}")]
    NotYaml(String),
    /// A YAML alias, `*name`.
    #[error("YAML aliases are not supported")]
    Alias,
    /// A second document behind `---`.
    #[error("a second YAML document begins here")]
    SecondDocument,
    /// A key that is a list or a mapping, or missing.
    #[error("a key must be plain text")]
    KeyNotText,
    /// A key stands twice in one mapping, or a parameter is given by two of its names.
    #[error("'{key}' is given twice")]
    KeyTwice {
        /// The key.
        key: String,
    },
    /// A key that does not belong here.
    #[error("invalid key '{key}'")]
    InvalidKey {
        /// The key.
        key: String,
        /// The keys that do.
        known: &'static [&'static str],
    },
    /// A key that nothing is known of; only a warning.
    #[error("unknown key '{key}' is passed over")]
    UnknownKey {
        /// The key.
        key: String,
    },
    /// An entry of `ip2nets` that begins with another key than the network's.
    #[error("Malformed input. Expect 'net-spec' found '{found}'")]
    NetSpecNotFirst {
        /// The key.
        found: String,
    },
    /// A selection rule that cannot be in force.
    #[error("{0}")]
    Rule(PolicyError),
    /// Module options that break off or go on where they should not.
    #[error("expected {expected}, found '{found}'")]
    Expected {
        /// What belongs here.
        expected: &'static str,
        /// What is here; empty at the end.
        found: String,
    },
    /// `networks` and `ip2nets` in one configuration of the module.
    #[error("networks and ip2nets exclude each other")]
    NetworksAndIp2Nets,
    /// A request to a node, or what a node prints of itself, where a configuration is read.
    #[error("'{key}' is no part of a configuration")]
    NoConfiguration {
        /// The section's key.
        key: String,
    },
    /// A key that must be there is not.
    #[error("'{key}' is missing")]
    MissingKey {
        /// The key.
        key: &'static str,
    },
    /// A key without a value.
    #[error("no value specified for key '{key}'")]
    NoValue {
        /// The key.
        key: String,
    },
    /// A scalar, list or mapping where another of them belongs.
    #[error("'{key}' must be {shape}")]
    WrongShape {
        /// The key.
        key: String,
        /// What belongs there.
        shape: &'static str,
    },
    /// A value that its key cannot take.
    #[error("invalid value '{value}' for key '{key}'")]
    InvalidValue {
        /// The key.
        key: String,
        /// The value as written.
        value: String,
        /// What would be right.
        expected: String,
    },
    /// Two parameters that exclude each other.
    #[error("'retry_count' is {retry_count}, which '{key}' forbids")]
    RetryCount {
        /// The value of `retry_count`.
        retry_count: u32,
        /// The other parameter.
        key: &'static str,
    },
    /// A network stands twice under `net`.
    #[error("network {0} is configured twice")]
    NetTwice(Net),
    /// A network, or an item under it, names neither an interface nor a NID.
    #[error("network {0} has neither an interface nor a NID")]
    NoInterface(Net),
    /// An interface stands twice under one network, without NIDs to tell them apart.
    #[error("interface {name} is configured twice on network {net}")]
    InterfaceTwice {
        /// The interface.
        name: String,
        /// The network.
        net: Net,
    },
    /// One NID for several interfaces.
    #[error("{0} cannot be the NID of several interfaces")]
    NidForSeveral(Nid),
    /// An interface's NID is on another network than the one it stands under.
    #[error("{nid} is not on network {net}")]
    NidElsewhere {
        /// The NID.
        nid: Nid,
        /// The network it stands under.
        net: Net,
    },
    /// A NID stands twice where it may stand once.
    #[error("{0} is given twice")]
    NidTwice(Nid),
    /// A NID that names no peer.
    #[error("{0} cannot be a peer")]
    NotAPeer(Nid),
    /// A route to a network that no route can have.
    #[error("{0} cannot be routed to")]
    NotRoutable(Net),
    /// A route to a local network.
    #[error("network {0} is local, so there is no route to it")]
    RouteToLocal(Net),
    /// A gateway on the network that it should lead to.
    #[error("gateway {gateway} is on the remote network {net} itself")]
    GatewayOnRemote {
        /// The gateway.
        gateway: Nid,
        /// The remote network.
        net: Net,
    },
    /// A gateway that cannot be reached without a gateway.
    #[error("gateway {0} is not on a local network")]
    GatewayNotLocal(Nid),
    /// A gateway that is this node.
    #[error("gateway {0} is this node itself")]
    GatewayIsSelf(Nid),
    /// Two routes to one network by one gateway.
    #[error("the route to {net} by {gateway} is given twice")]
    RouteTwice {
        /// The remote network.
        net: Net,
        /// The gateway.
        gateway: Nid,
    },
}

impl Problem {
    /// What would be right, in a few words; printed below the place.
    #[must_use]
    pub fn help(&self) -> String {
        match self {
            Self::TooLarge { .. } => format!("at most {MAX_BYTES} bytes are read"),
            Self::TooManyNodes { .. } => "split the document".to_owned(),
            Self::NotYaml(_) => "the parser stopped here".to_owned(),
            Self::Alias => "write the value out".to_owned(),
            Self::SecondDocument => "one file holds one document".to_owned(),
            Self::KeyNotText => "write KEY: VALUE".to_owned(),
            Self::KeyTwice { .. } | Self::NidTwice(_) | Self::RouteTwice { .. } => {
                "remove one of them".to_owned()
            }
            Self::InvalidKey { known, .. } => format!("keys here are: {}", known.join(", ")),
            Self::UnknownKey { .. } => "what it says is not looked at".to_owned(),
            Self::NetSpecNotFirst { .. } => "begin the entry with 'net-spec:'".to_owned(),
            Self::Rule(error) => rule_help(error),
            Self::Expected { .. } => "here".to_owned(),
            Self::NetworksAndIp2Nets => "remove one of them".to_owned(),
            Self::NoConfiguration { .. } => "remove the section".to_owned(),
            Self::MissingKey { key } => format!("add '{key}:' to this entry"),
            Self::NoValue { .. } => "write a value behind the colon".to_owned(),
            Self::WrongShape { shape, .. } => format!("write {shape}"),
            Self::InvalidValue { expected, .. } => expected.clone(),
            Self::RetryCount {
                key: "health_sensitivity",
                ..
            } => "with a health sensitivity of 0 it must be 0".to_owned(),
            Self::RetryCount { .. } => "it is at most the transaction timeout".to_owned(),
            Self::NetTwice(_) => "list its interfaces under one 'local NI(s)'".to_owned(),
            Self::NoInterface(_) => {
                "name one, as in 'interfaces: {0: eth0}' or 'nid: 10.0.0.1@tcp'".to_owned()
            }
            Self::InterfaceTwice { .. } => "remove one, or give each its 'nid'".to_owned(),
            Self::NidForSeveral(_) => "name one interface for each NID".to_owned(),
            Self::NidElsewhere { net, .. } => format!("write a NID that ends in @{net}"),
            Self::NotAPeer(_) => "write the NID of another node".to_owned(),
            Self::NotRoutable(_) => "write a remote network, such as o2ib1".to_owned(),
            Self::RouteToLocal(_) => "remove the route or the local network".to_owned(),
            Self::GatewayOnRemote { .. } | Self::GatewayNotLocal(_) => {
                "a gateway is named by its NID on a network under 'net'".to_owned()
            }
            Self::GatewayIsSelf(_) => "name the NID of another node".to_owned(),
        }
    }
}

/// What would make a rule right.
fn rule_help(error: &PolicyError) -> String {
    match error {
        PolicyError::Unparsable { source, .. } => source.to_string(),
        PolicyError::SeveralNetRanges(_) => "write one range of network numbers a rule".to_owned(),
        PolicyError::PriorityOnList(_) => "remove the priority".to_owned(),
        PolicyError::BadPriority(_) => "a priority is 0 to 4294967294".to_owned(),
        PolicyError::Exists { index } => format!("it is the rule with idx {index}; remove one"),
        PolicyError::NoDescriptor | PolicyError::RteAlone => {
            "a rule has src, dst, src and dst, or dst and rte".to_owned()
        }
        PolicyError::ThreeDescriptors | PolicyError::SrcWithRte => {
            "make a rule of src and dst, and one of dst and rte".to_owned()
        }
        _ => "change or remove the rule".to_owned(),
    }
}

/// What is wrong with a document, and where.
///
/// `Display` is one line without the file's name; [`ConfigError::render`] shows the source line.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
pub struct ConfigError {
    problem: Problem,
    line: usize,
    column: usize,
    place: Place,
    excerpt: Box<Excerpt>,
}

impl ConfigError {
    pub(crate) fn new(source: &str, fault: Fault) -> Self {
        let Fault { place, problem } = fault;
        let before = source.get(..place.start).unwrap_or(source);
        let line_start = before.rfind('\n').map_or(0, |newline| newline + 1);
        Self {
            problem,
            line: before.matches('\n').count() + 1,
            column: before[line_start..].chars().count() + 1,
            place,
            excerpt: Box::new(Excerpt::new(
                &source[line_start..],
                before.len() - line_start,
                place,
            )),
        }
    }

    /// What is wrong.
    #[must_use]
    pub const fn problem(&self) -> &Problem {
        &self.problem
    }

    pub(crate) const fn place(&self) -> Place {
        self.place
    }

    /// The line of the document, counted from 1.
    #[must_use]
    pub const fn line(&self) -> usize {
        self.line
    }

    /// The column in characters, counted from 1.
    #[must_use]
    pub const fn column(&self) -> usize {
        self.column
    }

    /// The source line around the place, of at most 200 characters, and the columns of it, in characters from 0, that
    /// the complaint is about. What would command a terminal is replaced.
    #[must_use]
    pub fn excerpt(&self) -> (&str, std::ops::Range<usize>) {
        let Excerpt { text, start, end } = &*self.excerpt;
        let columns = |bytes: usize| text.get(..bytes).map_or(0, |part| part.chars().count());
        (text, columns(*start)..columns(*end))
    }

    /// The error with the source line and a mark under the place, for a terminal; without colours.
    /// `source_name` is the file that the document came from.
    #[must_use]
    pub fn render(&self, source_name: &str) -> String {
        self.render_as(&Level::ERROR, source_name)
    }

    /// The same for a complaint that is only a warning.
    #[must_use]
    pub fn render_warning(&self, source_name: &str) -> String {
        self.render_as(&Level::WARNING, source_name)
    }

    fn render_as(&self, level: &Level<'_>, source_name: &str) -> String {
        let title = self.problem.to_string();
        let help = self.problem.help();
        let place = format!("{source_name}:{}:{}", self.line, self.column);
        let Excerpt { text, start, end } = &*self.excerpt;
        let mark = AnnotationKind::Primary.span(*start..*end).label(&help);
        let snippet = Snippet::source(text).line_start(self.line).annotation(mark);
        let report = level.clone().primary_title(&title).element(snippet);
        let rendered = Renderer::plain().render(&[report]);
        // The renderer counts columns in the excerpt, which begins later than a very long line does.
        match rendered.split_once('\n') {
            Some((first, rest)) => format!("{first}\n --> {place}\n{rest}"),
            None => format!("{rendered}\n --> {place}"),
        }
    }
}

impl fmt::Display for ConfigError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self {
            problem,
            line,
            column,
            ..
        } = self;
        write!(
            f,
            "line {line}, column {column}: {problem}; {}",
            problem.help()
        )
    }
}

/// The part of the source line around a place, and the marked bytes `start..end` in it.
#[derive(Clone, Debug, PartialEq, Eq)]
struct Excerpt {
    text: String,
    start: usize,
    end: usize,
}

impl Excerpt {
    /// Characters that are shown before a place, and from it on, in a line of any length.
    const REACH: usize = 100;

    /// `lines` begins with the line of `place`, which is `offset` bytes into it.
    fn new(lines: &str, offset: usize, place: Place) -> Self {
        let line = lines.lines().next().unwrap_or_default();
        let (before, from) = line.split_at(offset.min(line.len()));
        let skipped = before.chars().count().saturating_sub(Self::REACH);
        let before: String = before.chars().skip(skipped).map(printable).collect();
        // The mark covers the place as far as it is on this line and shown.
        let marked = from.get(..place.end - place.start).unwrap_or(from);
        let marked: String = marked.chars().take(Self::REACH).map(printable).collect();
        let from: String = from.chars().take(Self::REACH).map(printable).collect();
        Self {
            start: before.len(),
            end: before.len() + marked.trim_end().len(),
            text: before + &from,
        }
    }
}

/// A character of a document as it may be shown: one that commands a terminal is replaced.
fn printable(character: char) -> char {
    match character {
        '\t' => character,
        _ if character.is_control() => char::REPLACEMENT_CHARACTER,
        _ => character,
    }
}
