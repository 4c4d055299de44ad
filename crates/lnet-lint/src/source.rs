//! A document as it was read, with its places.

use std::fmt::Write as _;

use lnet_config::machine::{Machine, MachineError};
use lnet_config::modprobe::{ConvertDefaults, Dialect, ModuleOptions};
use lnet_config::{ConfigError, Document, Places, Position, Step};
use lnet_types::Net;
use thiserror::Error;

use crate::Input;

/// Steps to a key of a document.
pub(crate) type Path = Vec<Step<'static>>;

/// A text that cannot be read.
#[derive(Debug, Error)]
#[non_exhaustive]
pub enum LintError {
    /// What should be a machine's interfaces is not.
    #[error("the interfaces of {name}")]
    Interfaces {
        /// The document that they belong to.
        name: String,
        /// Why.
        source: MachineError,
    },
}

/// A document, and what is wrong with it by itself.
#[derive(Debug)]
pub(crate) struct Source<'a> {
    pub(crate) name: &'a str,
    text: &'a str,
    /// `None` for options of the module.
    pub(crate) places: Option<Places<'a>>,
    pub(crate) document: Document,
    pub(crate) machine: Option<Machine>,
    /// Keys that nothing is known of.
    pub(crate) unknown: Complaints,
    /// Why the document cannot be put in force.
    pub(crate) refused: Complaints,
    /// Why nothing of the document can be looked at.
    pub(crate) unreadable: Option<Unreadable>,
    /// Sections of which something was refused.
    incomplete: Vec<&'static str>,
    /// Networks of module options that name no interface.
    pub(crate) unnamed: Vec<Net>,
}

/// Complaints of the reader: the first ones, and how many more there were.
#[derive(Debug, Default)]
pub(crate) struct Complaints {
    pub(crate) first: Vec<ConfigError>,
    pub(crate) more: usize,
}

/// Why a text is no document.
#[derive(Debug)]
pub(crate) enum Unreadable {
    /// It is no YAML, or no options of the module.
    Text(ConfigError),
    /// Options that no configuration can be made of.
    Options(String),
}

/// Sections from whose silence something follows.
const SECTIONS: [&str; 6] = ["net", "ip2nets", "route", "peer", "routing", "udsp"];

impl<'a> Source<'a> {
    /// Reads a document and the interfaces that belong to it.
    pub(crate) fn read(input: &Input<'a>) -> Result<Self, LintError> {
        let machine = input.interfaces.map(Machine::parse).transpose();
        let machine = machine.map_err(|source| LintError::Interfaces {
            name: input.name.to_owned(),
            source,
        })?;
        let mut source = Self {
            name: input.name,
            text: input.text,
            places: None,
            document: Document::default(),
            machine,
            unknown: Complaints::default(),
            refused: Complaints::default(),
            unreadable: None,
            incomplete: Vec::new(),
            unnamed: Vec::new(),
        };
        let read = if is_options(input.text) {
            source.options()
        } else {
            source.yaml()
        };
        if let Err(error) = read {
            source.unreadable = Some(error);
            source.incomplete = SECTIONS.to_vec();
        }
        Ok(source)
    }

    fn yaml(&mut self) -> Result<(), Unreadable> {
        let survey = lnet_config::survey(self.text).map_err(Unreadable::Text)?;
        self.incomplete = SECTIONS.to_vec();
        self.incomplete.retain(|section| survey.lacks(section));
        self.document = survey.document;
        self.places = Some(survey.places);
        self.unknown = Complaints {
            first: survey.unknown,
            more: survey.more_unknown,
        };
        self.refused = Complaints {
            first: survey.rejected,
            more: survey.more_rejected,
        };
        Ok(())
    }

    fn options(&mut self) -> Result<(), Unreadable> {
        let (options, first, more) = ModuleOptions::survey(self.text, Dialect::Kernel);
        if !first.is_empty() {
            self.incomplete = SECTIONS.to_vec();
        }
        self.refused = Complaints { first, more };
        let nets = options.networks.iter();
        let unnamed = nets.filter(|network| network.interfaces.is_empty());
        self.unnamed = unnamed.map(|network| network.net).collect();
        let interface = self.machine.as_ref().and_then(Machine::first);
        let defaults = ConvertDefaults {
            hop: None,
            interface: Some(interface.unwrap_or("eth0").to_owned()),
        };
        let converted = options.to_config(&defaults);
        let (config, _) = converted.map_err(|error| Unreadable::Options(error.to_string()))?;
        self.document = Document::from(&config);
        Ok(())
    }

    /// Where a path leads; in module options the line of the option that says it.
    pub(crate) fn position(&self, path: &[Step<'_>]) -> Position {
        if let Some(places) = &self.places {
            return places.find(path);
        }
        let option = match path.first() {
            Some(Step::Key("net")) => "networks=",
            Some(Step::Key("ip2nets")) => "ip2nets=",
            Some(Step::Key("route")) => "routes=",
            Some(Step::Key("routing")) => "forwarding=",
            _ => match path.last() {
                Some(Step::Key(key)) => key,
                _ => "options",
            },
        };
        let lines = self.text.lines().zip(1..);
        let mut found = lines.filter_map(|(text, line)| Some((text, line, text.find(option)?)));
        let start = Position { line: 1, column: 1 };
        found.next().map_or(start, |(text, line, at)| Position {
            line,
            column: text.get(..at).map_or(0, |before| before.chars().count()) + 1,
        })
    }

    /// Whether a part of a section was refused, so that nothing follows from what is not there.
    pub(crate) fn lacks(&self, section: &str) -> bool {
        self.incomplete.contains(&section)
    }

    /// Whether something at a path or below it was refused.
    pub(crate) fn is_rejected(&self, path: &[Step<'_>]) -> bool {
        let places = self.places.as_ref();
        places.is_some_and(|places| places.is_rejected(path))
    }

    /// The key that a complaint of the reader is about.
    pub(crate) fn key(&self, error: &ConfigError) -> String {
        let path = self.places.as_ref().map(|places| places.path(error));
        path.map_or(String::new(), |path| key_text(&path))
    }
}

/// A path as text: `route[3].gateway`.
pub(crate) fn key_text(path: &[Step<'_>]) -> String {
    let mut text = String::new();
    for step in path {
        // Writing to a String cannot fail.
        let _infallible = match step {
            Step::Key(key) if text.is_empty() => write!(text, "{key}"),
            Step::Key(key) => write!(text, ".{key}"),
            Step::Item(index) => write!(text, "[{index}]"),
        };
    }
    text
}

/// A file of `modprobe.d`, which no YAML document of a node looks like.
fn is_options(text: &str) -> bool {
    text.lines()
        .any(|line| line.trim_start().starts_with("options "))
}
