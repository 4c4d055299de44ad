//! The texts of a class that nodes load.

use std::fmt::Write;

use lnet_config::modprobe::ModuleOptions;
use lnet_config::{Config, Globals};
use thiserror::Error;

use crate::config::{Class, NodeRole, Timing};

/// Module parameters for [`Timing`]; neither YAML nor `lnetctl set` has the first two.
const CHECK_INTERVAL: &str = "alive_router_check_interval";
const PING_TIMEOUT: &str = "router_ping_timeout";
const TRANSACTION_TIMEOUT: &str = "lnet_transaction_timeout";

impl Timing {
    /// The options of the `lnet` module that set these values.
    #[must_use]
    pub fn module_options(&self) -> String {
        format!("options lnet {}\n", self.parameters().join(" "))
    }

    fn parameters(self) -> [String; 3] {
        let Self {
            check_interval,
            ping_timeout,
            transaction_timeout,
        } = self;
        [
            format!("{CHECK_INTERVAL}={check_interval}"),
            format!("{PING_TIMEOUT}={ping_timeout}"),
            format!("{TRANSACTION_TIMEOUT}={transaction_timeout}"),
        ]
    }
}

/// Why a class has no `modprobe.d` form.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
#[non_exhaustive]
pub enum ModprobeRefusal {
    /// A parameter is longer than a kernel accepts.
    #[error("{parameter} has {length} characters; a kernel accepts at most {max}", max = Self::MAX_PARAMETER)]
    TooLong {
        /// The parameter.
        parameter: &'static str,
        /// Its length.
        length: usize,
    },
    /// The class has selection rules, which only `lnetctl udsp` sets.
    #[error("selection rules cannot be module parameters")]
    Rules,
    /// The nets of one LND have different tunables, or tunables that its module does not have.
    #[error("{0}")]
    Tunables(String),
}

impl ModprobeRefusal {
    /// Most characters of a module parameter in a kernel.
    pub const MAX_PARAMETER: usize = 1_024;
}

impl Class {
    /// Returns the document for `lnetctl import`. Parameters come first: importers apply a file
    /// from top to bottom, and discovery must be off before the first interface comes up.
    #[must_use]
    pub fn yaml(&self) -> String {
        yaml(&self.config)
    }

    /// Returns the `modprobe.d` form, with one entry per gateway, because a priority applies to a
    /// whole entry.
    ///
    /// # Errors
    ///
    /// [`ModprobeRefusal`]: a parameter that no kernel accepts, or rules, which no parameter can
    /// hold.
    pub fn modprobe(&self, timing: Timing) -> Result<String, ModprobeRefusal> {
        if !self.rules.is_empty() {
            return Err(ModprobeRefusal::Rules);
        }
        let mut text = String::new();
        let networks = fits("networks", networks(&self.config))?;
        let forwarding = match self.role {
            NodeRole::Router => " forwarding=enabled",
            NodeRole::Client | NodeRole::Server => "",
        };
        // Writing to a String cannot fail, here and below.
        let _ = writeln!(text, "options lnet networks=\"{networks}\"{forwarding}");
        if !self.config.routes.is_empty() {
            let routes = fits("routes", routes(&self.config))?;
            let _ = writeln!(text, "options lnet routes=\"{routes}\"");
        }
        text += &of_lnds(&self.config)?;
        let mut others = parameters(&self.config);
        others.extend(timing.parameters());
        let _ = writeln!(text, "options lnet {}", others.join(" "));
        Ok(text)
    }

    /// The commands that add the selection rules after the import; empty without rules.
    #[must_use]
    pub fn udsp_commands(&self) -> String {
        let rules = self.rules.iter();
        rules
            .map(|rule| format!("lnetctl udsp add {rule}\n"))
            .collect()
    }
}

/// Formats a configuration as a document, parameters first.
pub(super) fn yaml(config: &Config) -> String {
    let globals = Config {
        globals: config.globals,
        ..Config::default()
    };
    let rest = Config {
        globals: Globals::default(),
        ..config.clone()
    };
    globals.to_yaml() + &rest.to_yaml()
}

fn fits(parameter: &'static str, value: String) -> Result<String, ModprobeRefusal> {
    let length = value.len();
    if length > ModprobeRefusal::MAX_PARAMETER {
        return Err(ModprobeRefusal::TooLong { parameter, length });
    }
    Ok(value)
}

fn networks(config: &Config) -> String {
    let nets = config.nets.iter().map(|net| {
        let interfaces = net.nis.iter().flat_map(|ni| &ni.interfaces);
        let interfaces: Vec<&str> = interfaces.map(String::as_str).collect();
        format!("{}({})", net.net, interfaces.join(","))
    });
    nets.collect::<Vec<_>>().join(",")
}

/// The lines for the modules of LNDs whose interfaces have tunables.
fn of_lnds(config: &Config) -> Result<String, ModprobeRefusal> {
    let nets = Config {
        nets: config.nets.clone(),
        ..Config::default()
    };
    let (options, notes) = ModuleOptions::from_config(&nets);
    if let Some(note) = notes.into_iter().next() {
        return Err(ModprobeRefusal::Tunables(note.to_string()));
    }
    let lines = options.others.iter();
    Ok(lines
        .map(|option| {
            format!(
                "options {} {}={}\n",
                option.module, option.name, option.value
            )
        })
        .collect())
}

fn routes(config: &Config) -> String {
    let routes = config.routes.iter().map(|route| {
        let hop = route.hop.map_or(String::new(), |hop| format!(" {hop}"));
        let priority = match route.priority {
            0 => String::new(),
            priority => format!(":{priority}"),
        };
        format!("{}{hop} {}{priority}", route.net, route.gateway)
    });
    routes.collect::<Vec<_>>().join("; ")
}

fn parameters(config: &Config) -> Vec<String> {
    let Globals {
        discovery,
        drop_asym_route,
        ..
    } = config.globals;
    let numbers = [
        (
            "lnet_peer_discovery_disabled",
            discovery.map(|on| u32::from(!on)),
        ),
        ("lnet_drop_asym_route", drop_asym_route.map(u32::from)),
        ("tiny_router_buffers", config.buffers.tiny),
        ("small_router_buffers", config.buffers.small),
        ("large_router_buffers", config.buffers.large),
    ];
    let set = numbers
        .into_iter()
        .filter_map(|(name, value)| Some((name, value?)));
    set.map(|(name, value)| format!("{name}={value}")).collect()
}
