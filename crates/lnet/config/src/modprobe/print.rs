//! Options as a file of `modprobe.d`.

use std::fmt::{self, Display};

use thiserror::Error;

use super::{
    GatewayOption, InterfaceOption, Ip2NetsOption, ModuleOptions, NetworkOption, OtherOption,
    RouteOption,
};
use crate::parameters::{PARAMETERS, Parameter};

/// An option that exceeds the limit of kernels.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Error)]
#[error("{name} has {length} characters; a kernel accepts at most {max}", max = Self::MAX)]
pub struct OptionTooLong {
    /// The option.
    pub name: &'static str,
    /// Its length in characters.
    pub length: usize,
}

impl OptionTooLong {
    /// The most characters of the value of one option in kernels.
    pub const MAX: usize = 1024;
}

impl ModuleOptions {
    /// Writes the file: one line for each of `networks`, `ip2nets` and `routes`, one for all
    /// parameters, and one for each other option. Without options the text is empty.
    ///
    /// # Errors
    ///
    /// [`OptionTooLong`].
    pub fn to_modprobe(&self) -> Result<String, OptionTooLong> {
        let mut text = String::new();
        let lists = [
            ("networks", joined(&self.networks, ",")),
            ("ip2nets", joined(&self.ip2nets, "; ")),
            ("routes", joined(&self.routes, "; ")),
        ];
        for (name, value) in lists {
            let length = value.chars().count();
            if length > OptionTooLong::MAX {
                return Err(OptionTooLong { name, length });
            }
            if length > 0 {
                text.push_str(&format!("options lnet {name}=\"{value}\"\n"));
            }
        }
        let parameters = self.parameters();
        if !parameters.is_empty() {
            text.push_str(&format!("options lnet {}\n", parameters.join(" ")));
        }
        for option in &self.others {
            text.push_str(&format!("{option}\n"));
        }
        Ok(text)
    }

    fn parameters(&self) -> Vec<String> {
        let (globals, buffers) = (&self.globals, &self.buffers);
        let forwarding = self
            .forwarding
            .map(|on| if on { "enabled" } else { "disabled" });
        let numbers = [
            ("tiny_router_buffers", buffers.tiny),
            ("small_router_buffers", buffers.small),
            ("large_router_buffers", buffers.large),
        ];
        let of = |parameter: &Parameter| {
            let value = parameter.get(globals)?;
            Some((parameter.option?, Some(parameter.option_value(value))))
        };
        let numbers = numbers.into_iter().chain(PARAMETERS.iter().filter_map(of));
        let set = numbers.filter_map(|(name, value)| Some((name, value?)));
        let set = set.map(|(name, value)| format!("{name}={value}"));
        forwarding
            .map(|value| format!("forwarding={value}"))
            .into_iter()
            .chain(set)
            .collect()
    }
}

fn joined<T: Display>(items: &[T], separator: &str) -> String {
    items
        .iter()
        .map(ToString::to_string)
        .collect::<Vec<_>>()
        .join(separator)
}

/// A value, in quotes if necessary.
struct Quoted<'a>(&'a str);

impl Display for Quoted<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let plain = |character: char| character.is_ascii_graphic() && !"\"'#\\".contains(character);
        if !self.0.is_empty() && self.0.chars().all(plain) {
            return f.write_str(self.0);
        }
        let quote = if self.0.contains('"') { '\'' } else { '"' };
        write!(f, "{quote}{}{quote}", self.0)
    }
}

impl Display for OtherOption {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let value = Quoted(&self.value);
        write!(f, "options {} {}={value}", self.module, self.name)
    }
}

impl Display for NetworkOption {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self {
            net,
            interfaces,
            cpts,
        } = self;
        write!(f, "{net}")?;
        if !interfaces.is_empty() {
            write!(f, "({})", joined(interfaces, ","))?;
        }
        write!(f, "{}", Cpts(cpts))
    }
}

impl Display for InterfaceOption {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}{}", self.name, Cpts(&self.cpts))
    }
}

struct Cpts<'a>(&'a [u32]);

impl Display for Cpts<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if self.0.is_empty() {
            return Ok(());
        }
        write!(f, "[{}]", joined(self.0, ","))
    }
}

impl Display for Ip2NetsOption {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(
            f,
            "{} {}",
            joined(&self.networks, ","),
            joined(&self.patterns, " ")
        )
    }
}

impl Display for RouteOption {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}", joined(&self.nets, " "))?;
        if let Some(hop) = self.hop {
            write!(f, " {hop}")?;
        }
        write!(f, " {}", joined(&self.gateways, " "))
    }
}

impl Display for GatewayOption {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}", self.nids)?;
        match self.priority {
            Some(priority) => write!(f, ":{priority}"),
            None => Ok(()),
        }
    }
}
