//! Compares the interfaces of nets, and their tunables.
//!
//! ```text
//!   planned interface ──by NID, or by name where one has no NID──▶ running interface ──▶ tunables: net set, or
//!     └─ none: net add                                               │                  net del and net add
//!                                       none planned: net del ◀──────┘
//! ```

use std::collections::BTreeSet;

use lnet_config::{Config, NetConfig, NiConfig};
use lnet_types::{Net, Nid};

use super::Difference;

/// One interface on a net.
#[derive(Clone, Copy)]
struct Ni<'a> {
    net: Net,
    nid: Option<Nid>,
    name: Option<&'a str>,
    config: &'a NiConfig,
}

impl<'a> Ni<'a> {
    /// Returns the interfaces of a net, one by one.
    fn all(net: &'a NetConfig) -> Vec<Self> {
        let each = |config: &'a NiConfig| {
            let ni = |name| Self {
                net: net.net,
                nid: config.nid,
                name,
                config,
            };
            let names = config.interfaces.iter();
            let named: Vec<Self> = names.map(|name| ni(Some(name.as_str()))).collect();
            match named.is_empty() {
                true => vec![ni(None)],
                false => named,
            }
        };
        net.nis.iter().flat_map(each).collect()
    }

    fn is(&self, other: &Ni<'_>) -> bool {
        match (self.nid, other.nid) {
            (Some(nid), Some(other)) => nid == other,
            _ => self.has_name_of(other),
        }
    }

    fn has_name_of(&self, other: &Ni<'_>) -> bool {
        self.name.is_some() && self.name == other.name
    }

    /// The interface in texts.
    fn shown(&self) -> String {
        match (self.nid, self.name) {
            (Some(nid), _) => nid.to_string(),
            (None, name) => format!("{} on {}", name.unwrap_or("an interface"), self.net),
        }
    }

    /// The interface as arguments of `net add` and `net del`.
    fn arguments(&self, by_name: bool) -> String {
        match (self.nid, self.name) {
            (Some(nid), None) => format!("--nid {nid}"),
            (Some(nid), _) if !by_name => format!("--nid {nid}"),
            (_, name) => format!("--net {} --if {}", self.net, name.unwrap_or("?")),
        }
    }
}

pub(super) fn nets(planned: &Config, running: &Config, found: &mut Vec<Difference>) {
    let by_name = are_names_known(planned, running);
    for net in &planned.nets {
        let local = running.nets.iter().find(|local| local.net == net.net);
        let (wanted, is) = (Ni::all(net), local.map(Ni::all).unwrap_or_default());
        interfaces(&wanted, &is, by_name, found);
    }
    let is_planned = |local: &&NetConfig| planned.nets.iter().any(|net| net.net == local.net);
    for local in running.nets.iter().filter(|local| !is_planned(local)) {
        let what = format!("{} is not in the plan", local.net);
        found.push(Difference::left_alone(what));
    }
}

/// Returns whether commands can name interfaces: the names of the plan are those of the node. The addresses of nodes of
/// Finerail may be on any interface.
fn are_names_known(planned: &Config, running: &Config) -> bool {
    let names = |config| -> BTreeSet<&str> { all(config).filter_map(|ni| ni.name).collect() };
    all(planned).all(|ni| ni.nid.is_none()) || !names(planned).is_disjoint(&names(running))
}

fn all(config: &Config) -> impl Iterator<Item = Ni<'_>> {
    config.nets.iter().flat_map(Ni::all)
}

/// Compares the interfaces on one net. Commands first add interfaces, so that the net stays.
fn interfaces(wanted: &[Ni<'_>], is: &[Ni<'_>], by_name: bool, found: &mut Vec<Difference>) {
    let running_of = |planned: &Ni<'_>| is.iter().find(|ni| planned.is(ni));
    let is_planned = |ni: &Ni<'_>| wanted.iter().any(|planned| planned.is(ni));
    let mut extra: Vec<Ni<'_>> = is.iter().copied().filter(|ni| !is_planned(ni)).collect();
    let mut missing: Vec<Ni<'_>> = Vec::new();
    let mut moved = Vec::new();
    for planned in wanted
        .iter()
        .filter(|planned| running_of(planned).is_none())
    {
        match extra.iter().position(|ni| ni.has_name_of(planned)) {
            Some(at) => moved.push(readdressed(planned, &extra.remove(at))),
            None => missing.push(*planned),
        }
    }
    let is_changed = !missing.is_empty() || !moved.is_empty();
    added(&missing, by_name, found);
    found.append(&mut moved);
    let mut timeout = None;
    for planned in wanted {
        let running = running_of(planned);
        let seconds = planned.config.lnd_tunables.timeout;
        let is_set = running.is_some_and(|ni| ni.config.lnd_tunables.timeout == seconds);
        let is_rebuilt = running.is_some_and(|ni| tunables(planned, ni, by_name, found));
        timeout = timeout.or(seconds.filter(|_| !is_set || is_rebuilt || is_changed));
    }
    for ni in extra {
        let is_unique = is.iter().filter(|other| other.has_name_of(&ni)).count() == 1;
        found.push(Difference::new(
            format!("interface {} is not in the plan", ni.shown()),
            vec![del(&ni, by_name && is_unique)],
        ));
    }
    if let (Some(seconds), Some(first)) = (timeout, wanted.first()) {
        let net = first.net;
        found.push(Difference::new(
            format!("the LND timeout of interfaces on {net} is not the planned one, {seconds}"),
            vec![format!(
                "lnetctl net set --net {net} --lnd-timeout {seconds}"
            )],
        ));
    }
}

/// Adds interfaces, those with the same settings by one command if it names them.
fn added(missing: &[Ni<'_>], by_name: bool, found: &mut Vec<Difference>) {
    let mut rest: Vec<Ni<'_>> = missing.to_vec();
    while let Some(first) = rest.first().copied() {
        let is_named = |ni: &Ni<'_>| ni.name.is_some() && (by_name || ni.nid.is_none());
        let (same, others): (Vec<Ni<'_>>, Vec<Ni<'_>>) = rest.into_iter().partition(|ni| {
            let is_same = flags(ni.config) == flags(first.config);
            is_same && is_named(ni) && is_named(&first)
        });
        let (command, shown, others) = match same.is_empty() {
            false => {
                let names: Vec<&str> = same.iter().filter_map(|ni| ni.name).collect();
                let arguments = format!("--net {} --if {}", first.net, names.join(","));
                let shown: Vec<String> = same.iter().map(Ni::shown).collect();
                (arguments, shown.join(", "), others)
            }
            true => (
                first.arguments(by_name),
                first.shown(),
                others[1..].to_vec(),
            ),
        };
        rest = others;
        found.push(Difference::new(
            format!("no interface {shown}"),
            vec![format!("lnetctl net add {command}{}", flags(first.config))],
        ));
        unsettable(&first, &NiConfig::default(), found);
    }
}

/// An interface has another NID than planned.
fn readdressed(planned: &Ni<'_>, is: &Ni<'_>) -> Difference {
    let (shown, planned_shown) = (is.shown(), planned.shown());
    let name = planned.name.unwrap_or("an interface");
    Difference::new(
        format!(
            "{name} is {shown}, planned {planned_shown}: the interface needs this address first"
        ),
        vec![del(is, false), add(planned, false)],
    )
}

fn add(ni: &Ni<'_>, by_name: bool) -> String {
    let (arguments, flags) = (ni.arguments(by_name), flags(ni.config));
    format!("lnetctl net add {arguments}{flags}")
}

fn del(ni: &Ni<'_>, by_name: bool) -> String {
    format!("lnetctl net del {}", ni.arguments(by_name))
}

/// A tunable that `net add` sets, with its flag.
type Tunable = (&'static str, &'static str, fn(&NiConfig) -> Option<u32>);

/// Tunables that only a new interface takes.
const OF_NEW: [Tunable; 5] = [
    ("peer_timeout", "--peer-timeout", |ni| {
        ni.tunables.peer_timeout
    }),
    ("peer_credits", "--peer-credits", |ni| {
        ni.tunables.peer_credits
    }),
    ("peer_buffer_credits", "--peer-buffer-credits", |ni| {
        ni.tunables.peer_buffer_credits
    }),
    ("credits", "--credits", |ni| ni.tunables.credits),
    ("tos", "--tos", |ni| ni.lnd_tunables.tos.map(u32::from)),
];

/// The tunable that an interface takes at any time. A plan with 0 leaves it to the LND.
const CONNS: Tunable = ("conns_per_peer", "--conns-per-peer", |ni| {
    let conns = ni.lnd_tunables.conns_per_peer.filter(|&conns| conns > 0);
    conns.map(u32::from)
});

fn flags(ni: &NiConfig) -> String {
    let given = OF_NEW.iter().chain([&CONNS]);
    let given = given.filter_map(|(_, flag, of)| Some(format!(" {flag} {}", of(ni)?)));
    given.collect()
}

/// Compares the tunables of an interface. Returns whether the commands make the interface anew.
fn tunables(planned: &Ni<'_>, is: &Ni<'_>, by_name: bool, found: &mut Vec<Difference>) -> bool {
    // Without a NID this is the document of another plan, where an absent tunable has its default. An export has them all.
    let is_document = is.nid.is_none();
    let changed = |(name, _, of): &Tunable| {
        let (wanted, is) = (of(planned.config), of(is.config));
        let counts = wanted != is && (wanted.is_some() || is_document);
        let shown = |value: Option<u32>| value.map_or("not set".to_owned(), |set| set.to_string());
        counts.then(|| format!("{name} {}, planned {}", shown(is), shown(wanted)))
    };
    let of_new: Vec<String> = OF_NEW.iter().filter_map(changed).collect();
    let conns = changed(&CONNS);
    unsettable(planned, is.config, found);
    let shown = planned.shown();
    if !of_new.is_empty() {
        let words: Vec<String> = of_new.into_iter().chain(conns).collect();
        found.push(Difference::new(
            format!(
                "{shown}: {}; only a new interface takes this: the commands remove the interface and add it again",
                words.join("; ")
            ),
            vec![del(is, by_name), add(planned, by_name)],
        ));
        return true;
    }
    if let Some(words) = conns {
        let target = is.nid.or(planned.nid);
        let target =
            target.map_or_else(|| format!("--net {}", is.net), |nid| format!("--nid {nid}"));
        let count = (CONNS.2)(planned.config).unwrap_or(0);
        found.push(Difference::new(
            format!("{shown}: {words}"),
            vec![format!("lnetctl net set {target} --conns-per-peer {count}")],
        ));
    }
    false
}

/// Compares tunables that no command sets.
fn unsettable(planned: &Ni<'_>, is: &NiConfig, found: &mut Vec<Difference>) {
    for (name, wanted) in &planned.config.lnd_tunables.other {
        let value = is.lnd_tunables.other.get(name);
        if value != Some(wanted) {
            let value = value.map_or("not set", String::as_str);
            let what = format!(
                "{}: {name} {value}, planned {wanted}; no command sets it: import the planned document after 'lnetctl net \
                 del', or set the option of the LND's module",
                planned.shown()
            );
            found.push(Difference::new(what, Vec::new()));
        }
    }
}
