//! `get_param`, `set_param`, `list_param`: LNet's parameters by their names in kernels.

use std::io::{self, Write};

use files_lnet::Printable;
use lnet_config::Parameter;
use lnet_dlc::protocol::{Request, parameters};

use super::{INVALID, UNSUPPORTED, line};
use crate::ctl::args::SetArgs;
use crate::ctl::change;
use crate::ctl::lctl::args::ParamArgs;
use crate::ctl::talk::{Failed, Talk};

/// The exit code for an unknown parameter: ENOENT.
const UNKNOWN: u8 = 2;

/// Other parameters that can be set, each with its name in `lnetctl set`.
const SETTABLE: [(&str, &str); 4] = [
    ("large_router_buffers", "large_buffers"),
    ("lnet_recovery_interval", "recovery_interval"),
    ("small_router_buffers", "small_buffers"),
    ("tiny_router_buffers", "tiny_buffers"),
];

pub(super) fn list(args: &ParamArgs) -> Result<(), Failed> {
    each(args, |name| {
        let line = format!("{name}\n");
        Ok(io::stdout().write_all(line.as_bytes())?)
    })
}

pub(super) fn get(args: &ParamArgs, talk: &mut Talk) -> Result<(), Failed> {
    each(args, |name| {
        let asked = Request::Parameter {
            name: name.to_owned(),
        };
        let value = talk.dlc()?.request(&asked)?;
        let is_table = value.ends_with('\n');
        let value = value.trim_end_matches('\n');
        let shown = match (args.values, is_table) {
            (true, _) => format!("{value}\n"),
            (false, true) => format!("{name}=\n{value}\n"),
            (false, false) => format!("{name}={value}\n"),
        };
        Ok(io::stdout().write_all(shown.as_bytes())?)
    })
}

pub(super) fn set(settings: &[String], quiet: bool, talk: &mut Talk) -> Result<(), Failed> {
    for setting in settings {
        let Some((name, value)) = setting.split_once('=') else {
            return Err(line(format!("set_param: '{setting}': no '='"), INVALID));
        };
        if name == DEBUG {
            return Err(line(format!("set_param: {NO_DEBUG}"), UNSUPPORTED));
        }
        let args = as_set(name, value)?;
        change::set(&args, talk)?;
        if !quiet {
            writeln!(io::stdout(), "{name}={value}")?;
        }
    }
    Ok(())
}

/// Converts a setting to the arguments of `lnetctl set`.
fn as_set(name: &str, value: &str) -> Result<SetArgs, Failed> {
    let under = |name: &str, value: &str| SetArgs {
        name: name.to_owned(),
        value: value.to_owned(),
        wait: false,
    };
    if let Some(parameter) = Parameter::of_option(name) {
        if !parameter.is_opposite {
            return Ok(under(parameter.name, value));
        }
        if let Some(number) = value.parse().ok().filter(|number| *number <= 1) {
            let number = parameter.option_value(number);
            return Ok(under(parameter.name, &number.to_string()));
        }
    }
    match (name, value) {
        ("forwarding", "enabled") => Ok(under("routing", "1")),
        ("forwarding", "disabled") => Ok(under("routing", "0")),
        ("lnet_peer_discovery_disabled" | "forwarding", _) => Err(line(
            format!("set_param: {name}: '{value}' is not a valid value"),
            INVALID,
        )),
        _ => match SETTABLE.iter().find(|(known, _)| *known == name) {
            Some((_, name)) => Ok(under(name, value)),
            None if parameters().any(|known| known == name) => {
                let text = format!("set_param: {name}: cannot be set");
                Err(line(text, INVALID))
            }
            None => {
                let text = format!("error: set_param '{name}': No such file or directory");
                Err(line(text, UNKNOWN))
            }
        },
    }
}

/// Does something with each parameter that matches the patterns. A pattern without a parameter is reported, and the
/// next one follows; the command has failed then.
fn each(args: &ParamArgs, mut act: impl FnMut(&str) -> Result<(), Failed>) -> Result<(), Failed> {
    let mut missing = Vec::new();
    for pattern in &args.patterns {
        let mut found = parameters()
            .filter(|name| matches(pattern, name))
            .peekable();
        if found.peek().is_none() {
            missing.push(pattern);
        }
        found.try_for_each(&mut act)?;
    }
    let Some(last) = missing.pop() else {
        return Ok(());
    };
    for pattern in missing {
        writeln!(io::stderr(), "{}", not_found(pattern))?;
    }
    Err(line(not_found(last), UNKNOWN))
}

fn not_found(pattern: &str) -> String {
    if pattern == DEBUG {
        return format!("error: get_param: {NO_DEBUG}");
    }
    let pattern = Printable::text(pattern);
    format!("error: param_path '{pattern}': No such file or directory")
}

/// The kernel's mask of debug messages, and why a node here has none.
const DEBUG: &str = "debug";
const NO_DEBUG: &str =
    "debug: the node has no debug mask: what it logs is set at its start, see finerail node --log";

/// Returns whether a name matches a pattern, in which `*` stands for any text.
fn matches(pattern: &str, name: &str) -> bool {
    let Some((start, rest)) = pattern.split_once('*') else {
        return pattern == name;
    };
    let Some(behind) = name.strip_prefix(start) else {
        return false;
    };
    let ends = behind.char_indices().map(|(at, _)| at);
    ends.chain([behind.len()])
        .any(|at| behind.get(at..).is_some_and(|tail| matches(rest, tail)))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_star_stands_for_any_text() {
        for (pattern, name, is_so) in [
            ("routers", "routers", true),
            ("route", "routers", false),
            ("*", "routers", true),
            ("rout*s", "routers", true),
            ("*ou*r*", "routers", true),
            ("*x", "routers", false),
            ("", "routers", false),
        ] {
            assert_eq!(matches(pattern, name), is_so, "{pattern}");
        }
    }
}
