//! Errors with their place and a correct form.

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

/// A problem and its place. [`ConfigError`] adds the text of the document.
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

/// The first complaints about one document, and the number of the others. The number is limited
/// because each complaint costs a scan of the document.
#[derive(Debug, Default)]
pub(crate) struct Faults {
    pub(crate) first: Vec<Fault>,
    pub(crate) more: usize,
}

impl Faults {
    /// The most complaints that are kept.
    const MAX: usize = 100;

    pub(crate) fn note(&mut self, fault: Fault) {
        if self.first.len() < Self::MAX {
            self.first.push(fault);
        } else {
            self.more += 1;
        }
    }

    /// The kept complaints with the text of the document.
    pub(crate) fn errors(self, source: &str) -> Vec<ConfigError> {
        let faults = self.first.into_iter();
        faults
            .map(|fault| ConfigError::new(source, fault))
            .collect()
    }
}

/// `text` of a document in a form for messages: of limited length and on one line.
pub(crate) fn shown(text: &str) -> String {
    const MAX_CHARS: usize = 120;
    let mut chars = text.chars().map(printable);
    let mut shown: String = chars.by_ref().take(MAX_CHARS).collect();
    if chars.next().is_some() {
        shown.push('…');
    }
    shown
}

/// What is wrong with a document. Keys and values are those of the document; very long ones are
/// shortened.
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
    #[error("the text is not valid YAML: {0}")]
    NotYaml(String),
    /// A YAML alias, `*name`.
    #[error("YAML aliases are not supported")]
    Alias,
    /// A second document behind `---`.
    #[error("a second YAML document begins here")]
    SecondDocument,
    /// A key that is a list, a mapping or absent.
    #[error("a key must be plain text")]
    KeyNotText,
    /// A key occurs twice in one mapping, or a parameter is given by two of its names.
    #[error("'{key}' is given twice")]
    KeyTwice {
        /// The key.
        key: String,
    },
    /// A key that is not allowed in this place.
    #[error("invalid key '{key}'")]
    InvalidKey {
        /// The key.
        key: String,
        /// The allowed keys.
        known: &'static [&'static str],
    },
    /// An unknown key; only a warning.
    #[error("unknown key '{key}' is ignored")]
    UnknownKey {
        /// The key.
        key: String,
    },
    /// An entry of `ip2nets` whose first key is not that of the network.
    #[error("Malformed input. Expect 'net-spec' found '{found}'")]
    NetSpecNotFirst {
        /// The key.
        found: String,
    },
    /// A selection rule that cannot take effect.
    #[error("{0}")]
    Rule(PolicyError),
    /// Module options that end too early, or that have text after their end.
    #[error("expected {expected}, found {}", quoted(.found))]
    Expected {
        /// The expected text.
        expected: &'static str,
        /// The text that was found; empty at the end.
        found: String,
    },
    /// `networks` and `ip2nets` in one configuration of the module.
    #[error("networks and ip2nets exclude each other")]
    NetworksAndIp2Nets,
    /// A request to a node or an output of a node in place of a configuration.
    #[error("'{key}' is not a section of a configuration")]
    NoConfiguration {
        /// The section's key.
        key: String,
    },
    /// A required key is missing.
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
    /// A scalar, list or mapping in place of another of the three.
    #[error("'{key}' must be {shape}")]
    WrongShape {
        /// The key.
        key: String,
        /// The expected shape.
        shape: &'static str,
    },
    /// A value that is not valid for its key.
    #[error("invalid value '{value}' for key '{key}'")]
    InvalidValue {
        /// The key.
        key: String,
        /// The value as written.
        value: String,
        /// A description of valid values.
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
    /// A network occurs twice under `net`.
    #[error("network {0} is configured twice")]
    NetTwice(Net),
    /// A network, or an item under it, names neither an interface nor a NID.
    #[error("network {0} has neither an interface nor a NID")]
    NoInterface(Net),
    /// An interface occurs twice under one network, without NIDs to distinguish its NIs.
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
    /// An interface's NID is on a network other than that of its entry.
    #[error("{nid} is not on network {net}")]
    NidElsewhere {
        /// The NID.
        nid: Nid,
        /// The network of the entry.
        net: Net,
    },
    /// A NID that occurs twice.
    #[error("{0} is given twice")]
    NidTwice(Nid),
    /// A NID that cannot be a peer's.
    #[error("{0} cannot be a peer")]
    NotAPeer(Nid),
    /// A network that cannot be the target of a route.
    #[error("{0} cannot be routed to")]
    NotRoutable(Net),
    /// A route to a local network.
    #[error("network {0} is local, so there is no route to it")]
    RouteToLocal(Net),
    /// A gateway on the remote network of its own route.
    #[error("gateway {gateway} is on the remote network {net} itself")]
    GatewayOnRemote {
        /// The gateway.
        gateway: Nid,
        /// The remote network.
        net: Net,
    },
    /// A gateway on a network that is not local.
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

/// Returns a text that was found, in quotes.
fn quoted(found: &str) -> String {
    match found {
        "" => "the end of the text".to_owned(),
        found => format!("'{found}'"),
    }
}

impl Problem {
    /// A correct form, in a few words; printed below the place.
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
            Self::UnknownKey { .. } => "its value is ignored".to_owned(),
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

/// How to correct a rule.
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

/// An error of a document: what is wrong, and where.
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

    /// At most 200 characters of the source line around the place, and the columns in it, counted
    /// in characters from 0, that the error concerns. Control characters are replaced.
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

    /// As [`Self::render`], for a problem that is only a warning.
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
        // The renderer counts columns in the excerpt, which starts later than a very long line.
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
    /// The characters shown before a place, and from the place on, in a line of any length.
    const REACH: usize = 100;

    /// Makes the excerpt. `lines` begins with the line of `place`; `offset` is the place's offset
    /// in that line.
    fn new(lines: &str, offset: usize, place: Place) -> Self {
        let line = lines.lines().next().unwrap_or_default();
        let (before, from) = line.split_at(offset.min(line.len()));
        let skipped = before.chars().count().saturating_sub(Self::REACH);
        let before: String = before.chars().skip(skipped).map(printable).collect();
        // The mark covers the part of the place that is on this line and shown.
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

/// A character of a document in displayable form: control characters are replaced.
fn printable(character: char) -> char {
    match character {
        '\t' => character,
        _ if character.is_control() => char::REPLACEMENT_CHARACTER,
        _ => character,
    }
}
