//! A document after it was read, with the places of its keys.

use std::fmt::Write as _;

use lnet_config::machine::{Machine, MachineError};
use lnet_config::modprobe::{
    ConvertDefaults, Dialect, Mistake, ModuleOptions, Skipped, is_options,
};
use lnet_config::{ConfigError, Document, Places, Position, RouteConfig, Step};
use lnet_types::Net;
use thiserror::Error;

use crate::lint::Input;
use crate::lint::lints::is_log;

/// The steps to a key of a document.
pub(crate) type Path = Vec<Step<'static>>;

/// The error for a text that cannot be read.
#[derive(Debug, Error)]
#[non_exhaustive]
pub enum LintError {
    /// The text is no list of a machine's interfaces.
    #[error("the interfaces of {name}")]
    Interfaces {
        /// The name of the document that the interfaces belong to.
        name: String,
        /// The reason.
        source: MachineError,
    },
}

/// A document, and the mistakes that the reader found in it.
#[derive(Debug)]
pub(crate) struct Source<'a> {
    pub(crate) name: &'a str,
    text: &'a str,
    /// The places of the keys; `None` for options of the module.
    pub(crate) places: Option<Places<'a>>,
    pub(crate) document: Document,
    /// An earlier reading of the same node.
    pub(crate) earlier: Option<Document>,
    pub(crate) machine: Option<Machine>,
    /// Keys that are not known.
    pub(crate) unknown: Complaints,
    /// The reasons why the document cannot be imported.
    pub(crate) refused: Complaints,
    /// The reason why no part of the document can be read.
    pub(crate) unreadable: Option<Unreadable>,
    /// Sections of which a part was rejected.
    incomplete: Vec<&'static str>,
    /// Nets in module options that name no interface.
    pub(crate) unnamed: Vec<Net>,
    /// Routes in module options that the module does not use, each with the reason.
    pub(crate) skipped: Vec<(RouteConfig, Skipped)>,
    /// Options that the module does not take.
    pub(crate) mistakes: Vec<Mistake>,
    /// True if the text is a log, or what a program printed, and no configuration.
    is_log: bool,
    /// True if the text has options of the module.
    pub(crate) is_options: bool,
    /// The port in module options, in this text or beside it, by which the node and its peers reach each other.
    pub(crate) port: Option<u16>,
    /// The port of bulk connections since 2.17, by the option accept_port_bulk.
    pub(crate) bulk_port: Option<u16>,
}

/// Errors of the reader: the first ones, and the number of the others.
#[derive(Debug, Default)]
pub(crate) struct Complaints {
    pub(crate) first: Vec<ConfigError>,
    pub(crate) more: usize,
}

/// The reason why a text is no document.
#[derive(Debug)]
pub(crate) enum Unreadable {
    /// The text is no YAML, or no options of the module.
    Text(ConfigError),
    /// The options make no configuration.
    Options(String),
}

/// Sections whose missing entries lints draw conclusions from.
const SECTIONS: [&str; 6] = ["net", "ip2nets", "route", "peer", "routing", "udsp"];

impl<'a> Source<'a> {
    /// Reads a document and the list of interfaces that belongs to it.
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
            earlier: None,
            machine,
            unknown: Complaints::default(),
            refused: Complaints::default(),
            unreadable: None,
            incomplete: Vec::new(),
            unnamed: Vec::new(),
            skipped: Vec::new(),
            mistakes: Vec::new(),
            is_log: is_log(input.text),
            is_options: is_options(input.text),
            port: input.port,
            bulk_port: None,
        };
        let read = if source.is_options {
            source.options()
        } else if source.is_log {
            source.incomplete = SECTIONS.to_vec();
            Ok(())
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
        self.mistakes = options.mistakes();
        self.port = options.port("accept_port").or(self.port);
        self.bulk_port = options.port("accept_port_bulk");
        let routes = options.routes(&defaults).unwrap_or_default().into_iter();
        self.skipped = routes
            .filter_map(|(route, why)| Some((route, why?)))
            .collect();
        let converted = options.to_config(&defaults);
        let (config, _) = converted.map_err(|error| Unreadable::Options(error.to_string()))?;
        self.document = Document::from(&config);
        Ok(())
    }

    /// Returns the place that a path leads to. In module options this is the place of the option that sets the
    /// value.
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

    /// Returns the text of a log; nothing if the text is no log.
    pub(crate) fn log(&self) -> &'a str {
        if self.is_log { self.text } else { "" }
    }

    /// Returns true if a part of the section was rejected. What is absent from the section then proves nothing.
    pub(crate) fn lacks(&self, section: &str) -> bool {
        self.incomplete.contains(&section)
    }

    /// Returns true if the value at a path, or a value below it, was rejected.
    pub(crate) fn is_rejected(&self, path: &[Step<'_>]) -> bool {
        let places = self.places.as_ref();
        places.is_some_and(|places| places.is_rejected(path))
    }

    /// Returns the key that an error of the reader is about.
    pub(crate) fn key(&self, error: &ConfigError) -> String {
        let path = self.places.as_ref().map(|places| places.path(error));
        path.map_or(String::new(), |path| key_text(&path))
    }
}

/// Returns a path as text, such as `route[3].gateway`.
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
