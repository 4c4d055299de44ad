//! Options of the modules of LNDs, which apply to all interfaces of the LND.
//!
//! ```text
//! options ksocklnd credits=512 peer_credits=16    ◀──▶    tunables of every tcp interface
//! options ko2iblnd peer_timeout=60                ◀──▶    those of every o2ib interface
//! ```

use std::collections::BTreeMap;

use lnet_types::LndType;

use super::convert::LeftOut;
use super::{ModuleOptions, OtherOption};
use crate::model::{Config, LndTunables, Tunables};

/// The modules whose options are known, by LND, and their options for the timeout of a transmission.
const MODULES: [(LndType, &str, &str); 2] = [
    (LndType::TCP, "ksocklnd", "sock_timeout"),
    (LndType::O2IB, "ko2iblnd", "timeout"),
];

/// Options of `ko2iblnd` that are settings of its interfaces, and their keys in documents.
const OF_O2IB: [(&str, &str); 7] = [
    ("peer_credits_hiw", "peercredits_hiw"),
    ("map_on_demand", "map_on_demand"),
    ("concurrent_sends", "concurrent_sends"),
    ("fmr_pool_size", "fmr_pool_size"),
    ("fmr_flush_trigger", "fmr_flush_trigger"),
    ("fmr_cache", "fmr_cache"),
    ("ntx", "ntx"),
];

/// Kernels hold these as signed 32-bit numbers.
const MAX: u32 = i32::MAX as u32;

/// Settings of an interface, or of an entry of `ip2nets`.
type Settings<'c> = (&'c mut Tunables, &'c mut LndTunables);

/// Options that a document does not have, with the value that kernels take without them.
const DEFAULTS: [(&str, &str, &str); 2] =
    [("lnet", "accept", "secure"), ("lnet", "accept_port", "988")];

/// Applies the options of the modules to the interfaces of their LNDs. Adds a note for each option
/// that cannot be applied.
pub(super) fn add(options: &ModuleOptions, config: &mut Config, notes: &mut Vec<LeftOut>) {
    let names_no_network = options.networks.is_empty() && options.ip2nets.is_empty();
    let key = |option: &OtherOption| (option.module.clone(), option.name.clone());
    let last: BTreeMap<_, usize> = options.others.iter().map(key).zip(0..).collect();
    for (at, option) in options.others.iter().enumerate() {
        let OtherOption {
            module,
            name,
            value,
        } = option;
        if last.get(&key(option)) != Some(&at) {
            notes.push(LeftOut::idle(option.told("a later value counts")));
            continue;
        }
        let lnd = MODULES.iter().find(|(_, known, _)| known == module);
        let Some(&(lnd, ..)) = lnd else {
            notes.push(of_module(option));
            continue;
        };
        let mut interfaces = of_lnd(config, lnd).peekable();
        if interfaces.peek().is_none() && names_no_network {
            let why = "the options name no network that could have it";
            notes.push(LeftOut::kept(option, why));
            continue;
        }
        if interfaces.peek().is_none() {
            notes.push(LeftOut::idle(format!(
                "{module} {name}: there is no such network"
            )));
            continue;
        }
        let set = interfaces.map(|settings| set(lnd, settings, name, value));
        match set.fold(Set::Done, Set::max) {
            Set::Done => {}
            Set::Invalid => {
                let text = option.told("no decimal number in the range of this option");
                notes.push(LeftOut::lost(text).with_advice("correct it".to_owned()));
            }
            Set::Unknown => {
                notes.push(LeftOut::kept(option, "an option that only the module has"));
            }
        }
    }
}

impl OtherOption {
    /// The option with its value, and what there is to say of it.
    pub(super) fn told(&self, why: &str) -> String {
        let Self {
            module,
            name,
            value,
        } = self;
        format!("{module} {name}={value}: {why}")
    }
}

/// What became of an option of an interface.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
enum Set {
    /// The interface has it.
    Done,
    /// The value is no number, or out of range.
    Invalid,
    /// Interfaces have no such setting.
    Unknown,
}

/// Returns what a document lacks without an option that no network has.
fn of_module(option: &OtherOption) -> LeftOut {
    let OtherOption {
        module,
        name,
        value,
    } = option;
    let is_default = DEFAULTS.contains(&(module, name, value));
    // LNet takes its CPTs from libcfs. The modules of LNDs are called ksocklnd, ko2iblnd, kgnilnd and so on.
    let is_of_lnet = matches!(module.as_str(), "lnet" | "libcfs") || module.ends_with("lnd");
    if is_default {
        return LeftOut::idle(option.told("the module's default"));
    }
    if !is_of_lnet {
        return LeftOut::idle(format!(
            "{module} {name}: no option of LNet, it stays in modprobe.d"
        ));
    }
    LeftOut::kept(option, "an option of the module only")
}

/// The settings of all interfaces of an LND.
fn of_lnd(config: &mut Config, lnd: LndType) -> impl Iterator<Item = Settings<'_>> {
    let Config { nets, ip2nets, .. } = config;
    let nis = nets
        .iter_mut()
        .filter(move |net| net.net.lnd == lnd)
        .flat_map(|net| &mut net.nis)
        .map(|ni| (&mut ni.tunables, &mut ni.lnd_tunables));
    let rules = ip2nets
        .iter_mut()
        .filter(move |rule| rule.net.lnd == lnd)
        .map(|rule| (&mut rule.tunables, &mut rule.lnd_tunables));
    nis.chain(rules)
}

/// Applies an option. -1 leaves the setting unset.
fn set(of: LndType, (tunables, lnd): Settings<'_>, name: &str, value: &str) -> Set {
    let Some(max) = max_of(of, name) else {
        return Set::Unknown;
    };
    let field = match name {
        "credits" => &mut tunables.credits,
        "peer_credits" => &mut tunables.peer_credits,
        "peer_buffer_credits" => &mut tunables.peer_buffer_credits,
        "peer_timeout" => &mut tunables.peer_timeout,
        "conns_per_peer" => return set_to(&mut lnd.conns_per_peer, value, max),
        "tos" => return set_to(&mut lnd.tos, value, max),
        _ if is_timeout(of, name) => &mut lnd.timeout,
        _ => {
            let mut number = None;
            let done = set_to(&mut number, value, max);
            let key = OF_O2IB.iter().find(|(option, _)| *option == name);
            if let (Some((_, key)), Some::<u32>(number)) = (key, number) {
                lnd.other.insert((*key).to_owned(), number.to_string());
            }
            return done;
        }
    };
    set_to(field, value, max)
}

/// Returns the greatest value of an option that is a setting of interfaces; `None` for other options.
fn max_of(of: LndType, name: &str) -> Option<u32> {
    match name {
        "credits" | "peer_credits" | "peer_buffer_credits" | "peer_timeout" => Some(MAX),
        "conns_per_peer" => Some(127),
        "tos" => Some(u32::from(u8::MAX)),
        _ if is_timeout(of, name) => Some(MAX),
        _ => {
            let is_own = OF_O2IB.iter().any(|(option, _)| *option == name);
            (of == LndType::O2IB && is_own).then_some(MAX)
        }
    }
}

/// Returns whether this is the option of an LND's module for the timeout of a transmission.
fn is_timeout(of: LndType, name: &str) -> bool {
    MODULES
        .iter()
        .any(|(lnd, _, option)| *lnd == of && *option == name)
}

/// Returns the timeouts among the options, as `module option=value`. Kernel nodes take a timeout from their module only.
pub(super) fn timeouts(options: &ModuleOptions) -> impl Iterator<Item = String> {
    let known = |option: &&OtherOption| {
        let mut modules = MODULES.iter();
        modules.any(|(_, module, name)| (*module, *name) == (&*option.module, &*option.name))
    };
    let given = options.others.iter().filter(known);
    given.map(|option| format!("{} {}={}", option.module, option.name, option.value))
}

fn set_to<T: TryFrom<u32>>(field: &mut Option<T>, value: &str, max: u32) -> Set {
    if value == "-1" {
        *field = None;
        return Set::Done;
    }
    let number = number(value, max).and_then(|number| T::try_from(number).ok());
    if number.is_none() {
        return Set::Invalid;
    }
    *field = number;
    Set::Done
}

fn number(value: &str, max: u32) -> Option<u32> {
    let is_decimal = value.bytes().all(|byte| byte.is_ascii_digit());
    let number = value.parse().ok().filter(|number| *number <= max);
    number.filter(|_| is_decimal)
}

/// Returns the settings that options of its module give every interface of an LND, by the names of the options: of an
/// option that is given twice, the last value.
pub(super) fn given(options: &ModuleOptions, lnd: LndType) -> BTreeMap<String, String> {
    let mut given = BTreeMap::new();
    let module = MODULES.iter().find(|(known, ..)| *known == lnd);
    let of_module =
        |option: &&OtherOption| module.is_some_and(|(_, name, _)| option.module == *name);
    for option in options.others.iter().filter(of_module) {
        let max = max_of(lnd, &option.name);
        let number = max.and_then(|max| number(&option.value, max));
        match number {
            Some(number) => given.insert(option.name.clone(), number.to_string()),
            None => given.remove(&option.name),
        };
    }
    given
}

/// Returns the settings of an interface, by the names of the options of its LND's module.
pub(super) fn had(
    lnd: LndType,
    tunables: &Tunables,
    own: &LndTunables,
) -> BTreeMap<String, String> {
    let module = MODULES.iter().find(|(known, ..)| *known == lnd);
    let options = module.map(|(_, module, timeout)| of_all((module, timeout), tunables, own));
    let options = options.into_iter().flatten();
    options.map(|option| (option.name, option.value)).collect()
}

/// The options that express the settings shared by all interfaces of an LND. Adds a note if
/// interfaces differ, because options cannot express this.
pub(super) fn options(config: &Config, notes: &mut Vec<LeftOut>) -> Vec<OtherOption> {
    let mut config = config.clone();
    let mut options = Vec::new();
    let others = config.nets.iter().map(|net| net.net.lnd);
    let others = others.chain(config.ip2nets.iter().map(|rule| rule.net.lnd));
    let mut lnds: Vec<LndType> = Vec::new();
    for lnd in others {
        if !lnds.contains(&lnd) {
            lnds.push(lnd);
        }
    }
    for lnd in lnds {
        let mut all = of_lnd(&mut config, lnd);
        let Some((tunables, own)) = all.next() else {
            continue;
        };
        let are_same = all.all(|(other, others)| (&*other, &*others) == (&*tunables, &*own));
        let module = MODULES.iter().find(|(known, ..)| *known == lnd);
        let has_option = |key: &String| OF_O2IB.iter().any(|(_, known)| known == key);
        let is_plain = own.other.keys().all(has_option);
        let are_any = *tunables != Tunables::default() || *own != LndTunables::default();
        match module {
            Some((_, module, timeout)) if are_same => {
                options.extend(of_all((module, timeout), tunables, own));
                if !is_plain {
                    notes.push(LeftOut::lost(format!("{lnd}: other settings of its LND")));
                }
            }
            None if are_same && !are_any => {}
            _ => notes.push(LeftOut::lost(format!(
                "{lnd}: tunables of single interfaces cannot be options of the module"
            ))),
        }
    }
    options
}

fn of_all(
    (module, timeout): (&str, &str),
    tunables: &Tunables,
    lnd: &LndTunables,
) -> Vec<OtherOption> {
    let values = [
        ("credits", tunables.credits),
        ("peer_credits", tunables.peer_credits),
        ("peer_buffer_credits", tunables.peer_buffer_credits),
        ("peer_timeout", tunables.peer_timeout),
        ("conns_per_peer", lnd.conns_per_peer.map(u32::from)),
        ("tos", lnd.tos.map(u32::from)),
        (timeout, lnd.timeout),
    ];
    let given = values
        .into_iter()
        .filter_map(|(name, value)| Some((name, value?)));
    let given = given.map(|(name, value)| (name, value.to_string()));
    let others = OF_O2IB
        .iter()
        .filter_map(|(name, key)| Some((*name, lnd.other.get(*key)?.clone())));
    given
        .chain(others)
        .map(|(name, value)| OtherOption {
            module: module.to_owned(),
            name: name.to_owned(),
            value,
        })
        .collect()
}
