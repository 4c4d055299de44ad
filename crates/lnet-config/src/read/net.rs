//! The `net` section.

use std::collections::BTreeSet;
use std::fmt::Display;

use lnet_types::expr::NumberExpr;
use lnet_types::{LndType, Net, Nid};

use super::fields::{mapping_of, text_of};
use crate::error::{Fault, Problem, shown};
use crate::model::{LndTunables, NetConfig, NiConfig, Tunables};
use crate::yaml::{Entry, Node, Value};

/// CPU partitions that one interface can name.
const MAX_CPTS: usize = 4096;

/// Largest value of a tunable; kernels hold them as signed 32-bit numbers.
const MAX_TUNABLE: u32 = i32::MAX as u32;

const NET_KEYS: [&str; 4] = ["net type", "local NI(s)", "tunables", "lnd tunables"];

const NI_KEYS: [&str; 5] = ["nid", "interfaces", "tunables", "lnd tunables", "CPT"];

/// What exports print of an interface and imports cannot set.
const NI_OUTPUT: [&str; 8] = [
    "status",
    "statistics",
    "sent_stats",
    "received_stats",
    "dropped_stats",
    "health stats",
    "udsp info",
    "dev cpt",
];

pub(super) fn nets(section: &Entry<'_>) -> Result<Vec<NetConfig>, Fault> {
    let mut seen = Seen::default();
    let mut nets = Vec::new();
    for item in section.sequence()? {
        // Loopback is always there; exports print it.
        nets.extend(net(item, &mut seen)?.filter(|net| net.net != Net::LO));
    }
    Ok(nets)
}

/// What must not be given again.
#[derive(Default)]
struct Seen {
    nets: BTreeSet<Net>,
    nids: BTreeSet<Nid>,
}

/// The values of one network's keys, before the settings for all its interfaces are merged.
#[derive(Default)]
struct NetFields<'n, 'a> {
    net_type: Option<&'n Entry<'a>>,
    nis: &'n [Node<'a>],
    tunables: Tunables,
    lnd_tunables: Option<&'n Entry<'a>>,
}

fn net(item: &Node<'_>, seen: &mut Seen) -> Result<Option<NetConfig>, Fault> {
    let mut fields = NetFields::default();
    for entry in mapping_of(item, "net")? {
        match entry.key.as_ref() {
            "net type" => fields.net_type = Some(entry),
            "local NI(s)" => fields.nis = entry.sequence()?,
            "tunables" => fields.tunables = tunables(entry)?,
            "lnd tunables" => fields.lnd_tunables = Some(entry),
            _ => return Err(entry.invalid_key(&NET_KEYS)),
        }
    }
    let Some(net_type) = fields.net_type else {
        return Err(Fault::new(
            item.place,
            Problem::MissingKey { key: "net type" },
        ));
    };
    let net: Net = net_type.parse()?;
    if net == Net::ANY {
        return Err(net_type.invalid_value("write one network, such as tcp or o2ib1"));
    }
    if !seen.nets.insert(net) {
        return Err(Fault::new(net_type.node.place, Problem::NetTwice(net)));
    }
    if fields.nis.is_empty() {
        return Err(Fault::new(net_type.node.place, Problem::NoInterface(net)));
    }
    let nis = nis(&fields, net, seen)?;
    Ok(Some(NetConfig { net, nis }))
}

fn nis(fields: &NetFields<'_, '_>, net: Net, seen: &mut Seen) -> Result<Vec<NiConfig>, Fault> {
    let net_lnd_tunables = match fields.lnd_tunables {
        Some(entry) => lnd_tunables(entry, net.lnd)?,
        None => LndTunables::default(),
    };
    let mut unnamed = BTreeSet::new();
    let mut nis = Vec::new();
    for item in fields.nis {
        let mut ni = ni(item, net, seen)?;
        if ni.nid.is_none()
            && let Some(name) = ni
                .interfaces
                .iter()
                .find(|name| !unnamed.insert((*name).clone()))
        {
            let problem = Problem::InterfaceTwice {
                name: shown(name),
                net,
            };
            return Err(Fault::new(item.place, problem));
        }
        ni.tunables.fill_from(&fields.tunables);
        ni.lnd_tunables.fill_from(&net_lnd_tunables);
        nis.push(ni);
    }
    Ok(nis)
}

fn ni(item: &Node<'_>, net: Net, seen: &mut Seen) -> Result<NiConfig, Fault> {
    let mut ni = NiConfig::default();
    for entry in mapping_of(item, "local NI(s)")? {
        match entry.key.as_ref() {
            "nid" => ni.nid = Some(nid(entry, net, seen)?),
            "interfaces" => ni.interfaces = interfaces(entry)?,
            "tunables" => ni.tunables = tunables(entry)?,
            "lnd tunables" => ni.lnd_tunables = lnd_tunables(entry, net.lnd)?,
            "CPT" => ni.cpts = cpts(entry)?,
            key if NI_OUTPUT.contains(&key) => {}
            _ => return Err(entry.invalid_key(&NI_KEYS)),
        }
    }
    match (ni.nid, ni.interfaces.len()) {
        (None, 0) => Err(Fault::new(item.place, Problem::NoInterface(net))),
        (Some(nid), 2..) => Err(Fault::new(item.place, Problem::NidForSeveral(nid))),
        _ => Ok(ni),
    }
}

fn nid(entry: &Entry<'_>, net: Net, seen: &mut Seen) -> Result<Nid, Fault> {
    let nid: Nid = entry.parse()?;
    if nid.is_any() || nid.net() != net {
        return Err(Fault::new(
            entry.node.place,
            Problem::NidElsewhere { nid, net },
        ));
    }
    if !seen.nids.insert(nid) {
        return Err(Fault::new(entry.node.place, Problem::NidTwice(nid)));
    }
    Ok(nid)
}

/// `0: eth0`, `1: eth1`: the keys only count.
fn interfaces(section: &Entry<'_>) -> Result<Vec<String>, Fault> {
    let mut names = Vec::new();
    for entry in section.mapping()? {
        if entry.key.parse::<u32>().is_err() {
            let known = &["0", "1", "and so on, one for each interface"];
            return Err(entry.invalid_key(known));
        }
        names.push(interface(entry)?);
    }
    Ok(names)
}

fn interface(entry: &Entry<'_>) -> Result<String, Fault> {
    let name = entry.text()?;
    let is_name = !name.is_empty()
        && name
            .chars()
            .all(|character| !character.is_whitespace() && !character.is_control());
    if !is_name {
        return Err(entry.invalid_value("write the name of a system interface, such as eth0"));
    }
    Ok(name.to_owned())
}

fn tunables(section: &Entry<'_>) -> Result<Tunables, Fault> {
    const KEYS: [&str; 4] = [
        "peer_timeout",
        "peer_credits",
        "peer_buffer_credits",
        "credits",
    ];
    let mut tunables = Tunables::default();
    for entry in section.mapping()? {
        let field = match entry.key.as_ref() {
            "peer_timeout" => &mut tunables.peer_timeout,
            "peer_credits" => &mut tunables.peer_credits,
            "peer_buffer_credits" => &mut tunables.peer_buffer_credits,
            "credits" => &mut tunables.credits,
            _ => return Err(entry.invalid_key(&KEYS)),
        };
        *field = entry.unsigned_or_default(0..=MAX_TUNABLE)?;
    }
    Ok(tunables)
}

fn lnd_tunables(section: &Entry<'_>, lnd: LndType) -> Result<LndTunables, Fault> {
    let mut tunables = LndTunables::default();
    for entry in section.mapping()? {
        match entry.key.as_ref() {
            "conns_per_peer" => tunables.conns_per_peer = small_or_default(entry, 127)?,
            "timeout" => tunables.timeout = entry.unsigned_or_default(0..=MAX_TUNABLE)?,
            "tos" => tunables.tos = small_or_default(entry, 255)?,
            _ if lnd == LndType::TCP => {
                return Err(entry.invalid_key(&["conns_per_peer", "timeout", "tos"]));
            }
            key => {
                tunables
                    .other
                    .insert(key.to_owned(), entry.text()?.to_owned());
            }
        }
    }
    Ok(tunables)
}

fn small_or_default(entry: &Entry<'_>, max: u8) -> Result<Option<u8>, Fault> {
    let value = entry.unsigned_or_default(0..=u32::from(max))?;
    Ok(value.and_then(|value| u8::try_from(value).ok()))
}

/// `"[0,2-3]"`, or the same as a YAML list.
fn cpts(entry: &Entry<'_>) -> Result<Vec<u32>, Fault> {
    let text = match &entry.node.value {
        Value::Sequence(items) => {
            let items: Result<Vec<_>, _> =
                items.iter().map(|item| text_of(item, &entry.key)).collect();
            format!("[{}]", items?.join(","))
        }
        _ => entry.text()?.to_owned(),
    };
    let refused = |expected: &dyn Display| entry.invalid_text(&text, expected);
    let numbers: NumberExpr = text.parse().map_err(|error| refused(&error))?;
    numbers.expand(MAX_CPTS).map_err(|error| refused(&error))
}

impl Tunables {
    /// Takes over what is not set here.
    fn fill_from(&mut self, net: &Self) {
        self.peer_timeout = self.peer_timeout.or(net.peer_timeout);
        self.peer_credits = self.peer_credits.or(net.peer_credits);
        self.peer_buffer_credits = self.peer_buffer_credits.or(net.peer_buffer_credits);
        self.credits = self.credits.or(net.credits);
    }
}

impl LndTunables {
    /// Takes over what is not set here.
    fn fill_from(&mut self, net: &Self) {
        self.conns_per_peer = self.conns_per_peer.or(net.conns_per_peer);
        self.timeout = self.timeout.or(net.timeout);
        self.tos = self.tos.or(net.tos);
        for (key, value) in &net.other {
            self.other
                .entry(key.clone())
                .or_insert_with(|| value.clone());
        }
    }
}
