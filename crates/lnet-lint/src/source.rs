//! A document as it was read, with its places.

use std::fmt::Write as _;

use lnet_config::machine::{Machine, MachineError};
use lnet_config::modprobe::{ConvertDefaults, Dialect, ModuleOptions};
use lnet_config::{ConfigError, Document, Places, Position, Problem, Step};
use lnet_types::Net;
use thiserror::Error;

use crate::Input;

/// Steps to a key of a document.
pub(crate) type Path = Vec<Step<'static>>;

/// A text that cannot be read.
#[derive(Debug, Error)]
#[non_exhaustive]
pub enum LintError {
    /// A document that is no YAML, or options that are none; the text names the place and shows the line.
    #[error("{rendered}")]
    Document {
        /// The complaint, with the excerpt.
        rendered: String,
    },
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
    pub(crate) unknown: Vec<ConfigError>,
    /// Why the document cannot be put in force.
    pub(crate) refused: Option<ConfigError>,
    /// Whether the document says something that can be looked at.
    pub(crate) readable: bool,
    /// Networks of module options that name no interface.
    pub(crate) unnamed: Vec<Net>,
}

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
            unknown: Vec::new(),
            refused: None,
            readable: true,
            unnamed: Vec::new(),
        };
        if is_options(input.text) {
            source.options()?;
        } else {
            source.yaml()?;
        }
        Ok(source)
    }

    fn unreadable(&self, error: &ConfigError) -> LintError {
        LintError::Document {
            rendered: error.render(self.name),
        }
    }

    fn yaml(&mut self) -> Result<(), LintError> {
        let places = Places::new(self.text).map_err(|error| self.unreadable(&error))?;
        self.places = Some(places);
        match lnet_config::read(self.text) {
            Ok(reading) => {
                self.document = reading.document;
                self.unknown = reading.warnings;
                self.refused = lnet_config::parse(self.text).err();
            }
            Err(error) => {
                self.readable = false;
                self.refused = Some(error);
            }
        }
        Ok(())
    }

    fn options(&mut self) -> Result<(), LintError> {
        let options = ModuleOptions::parse(self.text, Dialect::Kernel);
        let options = options.map_err(|error| self.unreadable(&error))?;
        let nets = options.networks.iter();
        let unnamed = nets.filter(|network| network.interfaces.is_empty());
        self.unnamed = unnamed.map(|network| network.net).collect();
        let interface = self.machine.as_ref().and_then(Machine::first);
        let defaults = ConvertDefaults {
            hop: None,
            interface: Some(interface.unwrap_or("eth0").to_owned()),
        };
        let converted = options.to_config(&defaults);
        let (config, _) = converted.map_err(|error| LintError::Document {
            rendered: format!("{}: {error}", self.name),
        })?;
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

    /// Why the document cannot be put in force, unless a lint of its own says so.
    pub(crate) fn import_error(&self) -> Option<&ConfigError> {
        let told = |problem: &Problem| match problem {
            Problem::GatewayNotLocal(_)
            | Problem::Rule(_)
            | Problem::UnknownKey { .. }
            | Problem::NoConfiguration { .. } => true,
            Problem::InvalidKey { .. } => !self.unknown.is_empty(),
            _ => false,
        };
        let refused = self.refused.as_ref();
        refused.filter(|error| !self.readable || !told(error.problem()))
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
