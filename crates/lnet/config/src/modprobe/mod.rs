//! The options of the `lnet` kernel module, as `modprobe.d` has them. The rules are in
//! `docs/selection/configuration.md`.
//!
//! ```text
//! options lnet networks="tcp0(eth0,eth1)[0,1],o2ib(ib0)"
//! options lnet ip2nets="tcp0(eth0) 10.0.0.*; o2ib0 192.168.[1-2].*"
//! options lnet routes="o2ib1 1 10.0.0.[1-2]@tcp:7; tcp[1-3] 10.0.0.9@tcp"
//!
//! networks   = net-item { "," net-item }
//! net-item   = net [ "(" if-item { "," if-item } ")" ] [ cpts ]
//! if-item    = name [ cpts ]                      cpts = "[" n { "," n } "]"
//! ip2nets    = entry { sep entry }                sep  = ";" | newline
//! entry      = networks blank ip-pattern { blank ip-pattern }
//! routes     = rentry { sep rentry }
//! rentry     = net { blank net } [ blank hops ] blank gateway { blank gateway }
//! gateway    = NID [ ":" priority ]               "#" begins a comment, which ends at sep
//! ```
//!
//! A gateway without `@` and network is on `tcp`. A network that `networks` names twice has the
//! interfaces of both entries. Networks and NIDs of routes may be expressions. [`ModuleOptions`]
//! holds the contents of an options file; [`ModuleOptions::to_config`] and
//! [`ModuleOptions::from_config`] convert. A `\` at the end of a line continues it, and separates
//! words.
//!
//! The module opens no file, and does not know the interfaces or addresses of a machine.

mod convert;
mod file;
mod grammar;
mod lnd;
mod mistakes;
mod print;
mod proof;
mod scan;
mod warn;

use lnet_types::Net;
use lnet_types::expr::{NetExpr, NidExpr};

pub use convert::{ConvertDefaults, ConvertError, LeftOut, Skipped};
pub use mistakes::Mistake;
pub use print::OptionTooLong;
pub use proof::{Proof, Unproved};

use crate::error::{ConfigError, Fault, Faults};
use crate::ip2nets::IpPattern;
use crate::model::Buffers;
use crate::parameters::Globals;

/// Options of the `lnet` module.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ModuleOptions {
    /// `networks`: the local networks.
    pub networks: Vec<NetworkOption>,
    /// `ip2nets`: local networks by addresses.
    pub ip2nets: Vec<Ip2NetsOption>,
    /// `routes`.
    pub routes: Vec<RouteOption>,
    /// `forwarding`: whether the node is a router.
    pub forwarding: Option<bool>,
    /// `tiny_router_buffers`, `small_router_buffers` and `large_router_buffers`.
    pub buffers: Buffers,
    /// Options that are node-wide parameters, such as `lnet_retry_count`.
    pub globals: Globals,
    /// Options without a form in YAML, and those of other modules. Some options of the modules of
    /// LNDs are settings of every interface.
    pub others: Vec<OtherOption>,
    /// The names of `networks`, `ip2nets` or `routes` that are given more than once. The module takes the last value.
    pub twice: Vec<String>,
}

/// A network of `networks` or `ip2nets`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct NetworkOption {
    /// The network.
    pub net: Net,
    /// Its interfaces; empty to let the LND choose.
    pub interfaces: Vec<InterfaceOption>,
    /// The CPU partitions of all interfaces without their own; empty for all.
    pub cpts: Vec<u32>,
}

/// An interface of a network.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct InterfaceOption {
    /// Its name.
    pub name: String,
    /// The CPU partitions that serve it; empty for those of the network.
    pub cpts: Vec<u32>,
}

/// An entry of `ip2nets`: machines with a matching address have these networks.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Ip2NetsOption {
    /// The networks, at least one.
    pub networks: Vec<NetworkOption>,
    /// The patterns of addresses, at least one.
    pub patterns: Vec<IpPattern>,
}

/// An entry of `routes`: each gateway leads to each network.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RouteOption {
    /// The remote networks, at least one.
    pub nets: Vec<NetExpr>,
    /// Hops, 1 to 255; `None` if the entry has none.
    pub hop: Option<u8>,
    /// The gateways, at least one.
    pub gateways: Vec<GatewayOption>,
}

/// Gateways of a route.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct GatewayOption {
    /// Their NIDs.
    pub nids: NidExpr,
    /// A lower number is used first; `None`, if the entry has none, counts as 0. Kernels give all
    /// gateways of an entry its last priority.
    pub priority: Option<u32>,
}

/// An option that only its module interprets.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct OtherOption {
    /// The module.
    pub module: String,
    /// The option.
    pub name: String,
    /// Its value, without quotes.
    pub value: String,
}

/// The rules for the grammar.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Dialect {
    /// The rules of the module.
    Kernel,
    /// The rules of the converter of kernel distributions: `networks` and
    /// `ip2nets` may be combined; an entry of `routes` has one gateway and may have the form `NET:
    /// { gateway: NID, hop: N, priority: N }`.
    Converter,
}

/// The kind of a text that is not a whole file of options.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum OptionKind {
    /// The value of `networks`.
    Networks,
    /// The value of `ip2nets`.
    Ip2Nets,
    /// The value of `routes`.
    Routes,
}

impl ModuleOptions {
    /// Reads a file of `modprobe.d`. Lines other than `options` are ignored.
    ///
    /// # Errors
    ///
    /// The first problem, with its place.
    pub fn parse(source: &str, dialect: Dialect) -> Result<Self, ConfigError> {
        let mut options = Self::default();
        options.add_file(source, dialect)?;
        Ok(options)
    }

    /// Reads a file of `modprobe.d` for a checker: everything that can be read, the first hundred
    /// problems, and the number of further ones.
    #[must_use]
    pub fn survey(source: &str, dialect: Dialect) -> (Self, Vec<ConfigError>, usize) {
        let mut options = Self::default();
        let mut faults = Faults::default();
        let read = scan::check_size(source).and_then(|()| {
            file::read(&mut options, source, dialect, |fault| {
                faults.note(fault);
                Ok(())
            })
        });
        if let Err(fault) = read {
            faults.note(fault);
        }
        let more = faults.more;
        (options, faults.errors(source), more)
    }

    /// Adds the options of another file after the present ones.
    ///
    /// # Errors
    ///
    /// As [`Self::parse`]; some options may then have been added.
    pub fn add_file(&mut self, source: &str, dialect: Dialect) -> Result<(), ConfigError> {
        self.checked(source, |options| file::read(options, source, dialect, Err))
    }

    /// Adds the value of one option, which may have several lines and comments.
    ///
    /// # Errors
    ///
    /// As [`Self::parse`].
    pub fn add_value(
        &mut self,
        kind: OptionKind,
        source: &str,
        dialect: Dialect,
    ) -> Result<(), ConfigError> {
        self.checked(source, |options| {
            let cursor = scan::Cursor::new(source);
            grammar::value(options, kind, cursor, dialect)
        })
    }

    /// Adds the input of a converter: a file of options, `NAME=VALUE`, or otherwise the value of
    /// `ip2nets`.
    ///
    /// # Errors
    ///
    /// As [`Self::parse`].
    pub fn add_text(&mut self, source: &str, dialect: Dialect) -> Result<(), ConfigError> {
        let is_file = source.lines().any(|line| {
            let first = line.split_whitespace().next();
            matches!(first, Some("options" | "install" | "alias" | "softdep"))
        });
        if is_file {
            return self.add_file(source, dialect);
        }
        let unquoted = source.trim_start_matches(|c: char| c.is_whitespace() || is_quote(c));
        let name = unquoted.split(['=', ' ', '\n']).next();
        if matches!(name, Some("networks" | "ip2nets" | "routes")) && source.contains('=') {
            return self.checked(source, |options| {
                file::assignments(options, source, dialect)
            });
        }
        if !source.trim_start().starts_with(is_quote) {
            return self.add_value(OptionKind::Ip2Nets, source, dialect);
        }
        self.checked(source, |options| {
            let mut cursor = scan::Cursor::new(source);
            cursor.blanks();
            let value = file::quoted(&mut cursor)?.unwrap_or(cursor);
            grammar::value(options, OptionKind::Ip2Nets, value, dialect)
        })
    }

    /// Returns the port by which a node and its peers reach each other, or with `accept_port_bulk` the one for bulk
    /// data, if the options name it.
    #[must_use]
    pub fn port(&self, name: &str) -> Option<u16> {
        // The module takes the last value.
        let mut others = self.others.iter().rev();
        let option = others.find(|one| (&*one.module, &*one.name) == ("lnet", name));
        let number = option.and_then(|one| mistakes::c_number(&one.value));
        number.and_then(|number| u16::try_from(number).ok())
    }

    /// Returns true if a document could express none of the options.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        let Self { others, .. } = self;
        *self
            == Self {
                others: others.clone(),
                ..Self::default()
            }
    }

    fn checked(
        &mut self,
        source: &str,
        read: impl FnOnce(&mut Self) -> Result<(), Fault>,
    ) -> Result<(), ConfigError> {
        scan::check_size(source)
            .and_then(|()| read(self))
            .map_err(|fault| ConfigError::new(source, fault))
    }
}

/// Returns whether a text is a file of `modprobe.d` and no document: no document has a line that begins with one of its
/// commands.
#[must_use]
pub fn is_options(text: &str) -> bool {
    const COMMANDS: [&str; 5] = ["alias", "blacklist", "install", "options", "softdep"];
    let mut words = text
        .lines()
        .filter_map(|line| line.split_whitespace().next());
    words.any(|word| COMMANDS.contains(&word))
}

fn is_quote(character: char) -> bool {
    matches!(character, '"' | '\'')
}
