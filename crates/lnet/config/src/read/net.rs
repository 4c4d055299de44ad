//! The `net` section.

use std::collections::BTreeSet;
use std::fmt::Display;

use lnet_types::expr::NumberExpr;
use lnet_types::{LndType, Net, Nid};

use super::fields::{mapping_of, text_of};
use super::reader::Reader;
use super::shown;
use crate::document::{NetShow, NiShow};
use crate::error::{self, Fault, Problem};
use crate::model::{LndTunables, NiConfig, Tunables};
use crate::yaml::{Entry, Node, Value};

/// The most CPU partitions that one interface can name.
const MAX_CPTS: usize = 4096;

/// The largest value of a tunable; kernels hold tunables as signed 32-bit numbers.
const MAX_TUNABLE: u32 = i32::MAX as u32;

const NET_KEYS: [&str; 4] = ["net type", "local NI(s)", "tunables", "lnd tunables"];

const NI_KEYS: [&str; 5] = ["nid", "interfaces", "tunables", "lnd tunables", "CPT"];

// [CONF-20]
pub(super) fn nets(section: &Entry<'_>, reader: &mut Reader) -> Result<Vec<NetShow>, Fault> {
    let mut seen = Seen::default();
    reader.each(section, |item, reader| {
        net(item, &mut seen, reader).map(Some)
    })
}

/// Names and NIDs that must not occur again.
#[derive(Default)]
struct Seen {
    nets: BTreeSet<Net>,
    nids: BTreeSet<Nid>,
}

/// The keys of one network, before its settings are merged into those of its interfaces.
#[derive(Default)]
struct NetFields<'n, 'a> {
    net_type: Option<&'n Entry<'a>>,
    nis: Option<&'n Entry<'a>>,
    tunables: Tunables,
    lnd_tunables: Option<&'n Entry<'a>>,
}

fn net(item: &Node<'_>, seen: &mut Seen, reader: &mut Reader) -> Result<NetShow, Fault> {
    let mut fields = NetFields::default();
    for entry in mapping_of(item, "net")? {
        match entry.key.as_ref() {
            "net type" => fields.net_type = Some(entry),
            "local NI(s)" => fields.nis = Some(entry),
            "tunables" => {
                let read = reader.attempt(|reader| tunables(entry, reader))?;
                fields.tunables = read.unwrap_or_default();
            }
            "lnd tunables" => fields.lnd_tunables = Some(entry),
            _ => reader.unknown(entry, &NET_KEYS)?,
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
        reader.complain(Fault::new(net_type.node.place, Problem::NetTwice(net)))?;
    }
    let list = match fields.nis {
        Some(list) if !list.sequence()?.is_empty() => list,
        _ => return Err(Fault::new(net_type.node.place, Problem::NoInterface(net))),
    };
    let nis = nis(list, &fields, net, seen, reader)?;
    Ok(NetShow { net, nis })
}

fn nis(
    list: &Entry<'_>,
    fields: &NetFields<'_, '_>,
    net: Net,
    seen: &mut Seen,
    reader: &mut Reader,
) -> Result<Vec<NiShow>, Fault> {
    let net_lnd_tunables = match fields.lnd_tunables {
        Some(entry) => reader.attempt(|reader| lnd_tunables(entry, net.lnd, reader))?,
        None => None,
    };
    let net_lnd_tunables = net_lnd_tunables.unwrap_or_default();
    let mut unnamed = BTreeSet::new();
    reader.each(list, |item, reader| {
        let Some(mut ni) = ni(item, net, seen, reader)? else {
            return Ok(None);
        };
        // A node may have two NIs on one interface, and its backup shows only the interface.
        if reader.judges() {
            reader.attempt(|_| check_unnamed(&ni.config, item, net, &mut unnamed))?;
        }
        ni.config.tunables.fill_from(&fields.tunables);
        ni.config.lnd_tunables.fill_from(&net_lnd_tunables);
        Ok(Some(ni))
    })
}

/// Rejects a second entry of an interface in one network, unless NIDs distinguish its NIs.
fn check_unnamed(
    ni: &NiConfig,
    item: &Node<'_>,
    net: Net,
    unnamed: &mut BTreeSet<String>,
) -> Result<(), Fault> {
    if ni.nid.is_some() {
        return Ok(());
    }
    let mut names = ni.interfaces.iter();
    let Some(name) = names.find(|name| !unnamed.insert((*name).clone())) else {
        return Ok(());
    };
    let name = error::shown(name);
    Err(Fault::new(
        item.place,
        Problem::InterfaceTwice { name, net },
    ))
}

/// Reads an NI; `None` if its name was rejected.
fn ni(
    item: &Node<'_>,
    net: Net,
    seen: &mut Seen,
    reader: &mut Reader,
) -> Result<Option<NiShow>, Fault> {
    let mut ni = NiShow::default();
    let mut is_named = true;
    for entry in mapping_of(item, "local NI(s)")? {
        let named = reader.attempt(|reader| ni_value(&mut ni, entry, net, (seen, reader)))?;
        is_named &= named.is_some() || !matches!(entry.key.as_ref(), "nid" | "interfaces");
    }
    match (ni.config.nid, ni.config.interfaces.len()) {
        _ if !is_named => Ok(None),
        (None, 0) => Err(Fault::new(item.place, Problem::NoInterface(net))),
        (Some(nid), 2..) => Err(Fault::new(item.place, Problem::NidForSeveral(nid))),
        _ => Ok(Some(ni)),
    }
}

fn ni_value(
    ni: &mut NiShow,
    entry: &Entry<'_>,
    net: Net,
    (seen, reader): (&mut Seen, &mut Reader),
) -> Result<(), Fault> {
    if shown::ni(ni, entry, reader)? {
        return Ok(());
    }
    let config = &mut ni.config;
    match entry.key.as_ref() {
        "nid" => config.nid = Some(nid(entry, net, seen, reader)?),
        "interfaces" => config.interfaces = interfaces(entry)?,
        "tunables" => config.tunables = tunables(entry, reader)?,
        "lnd tunables" => config.lnd_tunables = lnd_tunables(entry, net.lnd, reader)?,
        "CPT" => config.cpts = cpts(entry)?,
        _ => reader.unknown(entry, &NI_KEYS)?,
    }
    Ok(())
}

fn nid(entry: &Entry<'_>, net: Net, seen: &mut Seen, reader: &mut Reader) -> Result<Nid, Fault> {
    let nid: Nid = entry.parse()?;
    if nid.is_any() || nid.net() != net {
        return Err(Fault::new(
            entry.node.place,
            Problem::NidElsewhere { nid, net },
        ));
    }
    if !seen.nids.insert(nid) {
        reader.complain(Fault::new(entry.node.place, Problem::NidTwice(nid)))?;
    }
    Ok(nid)
}

/// `0: eth0`, `1: eth1`.
pub(super) fn interfaces(section: &Entry<'_>) -> Result<Vec<String>, Fault> {
    section.enumerated(interface)
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

pub(super) fn tunables(section: &Entry<'_>, reader: &mut Reader) -> Result<Tunables, Fault> {
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
            _ => {
                reader.unknown(entry, &KEYS)?;
                continue;
            }
        };
        let value = reader.attempt(|_| entry.unsigned_or_default(0..=MAX_TUNABLE))?;
        *field = value.flatten();
    }
    Ok(tunables)
}

pub(super) fn lnd_tunables(
    section: &Entry<'_>,
    lnd: LndType,
    reader: &mut Reader,
) -> Result<LndTunables, Fault> {
    let mut tunables = LndTunables::default();
    for entry in section.mapping()? {
        reader.attempt(|reader| lnd_tunable(&mut tunables, entry, lnd, reader))?;
    }
    Ok(tunables)
}

// [CONF-23]
fn lnd_tunable(
    tunables: &mut LndTunables,
    entry: &Entry<'_>,
    lnd: LndType,
    reader: &mut Reader,
) -> Result<(), Fault> {
    match entry.key.as_ref() {
        "conns_per_peer" => tunables.conns_per_peer = small_or_default(entry, 127)?,
        "timeout" => tunables.timeout = entry.unsigned_or_default(0..=MAX_TUNABLE)?,
        "tos" => tunables.tos = small_or_default(entry, 255)?,
        _ if lnd == LndType::TCP => {
            reader.unknown(entry, &["conns_per_peer", "timeout", "tos"])?;
        }
        key => {
            let text = entry.text()?.to_owned();
            tunables.other.insert(key.to_owned(), text);
        }
    }
    Ok(())
}

fn small_or_default(entry: &Entry<'_>, max: u8) -> Result<Option<u8>, Fault> {
    let value = entry.unsigned_or_default(0..=u32::from(max))?;
    Ok(value.and_then(|value| u8::try_from(value).ok()))
}

/// `"[0,2-3]"`, or the same as a YAML list.
// [CONF-24]
pub(super) fn cpts(entry: &Entry<'_>) -> Result<Vec<u32>, Fault> {
    let text = match &entry.node.value {
        Value::Sequence(items) => {
            let items: Result<Vec<_>, _> =
                items.iter().map(|item| text_of(item, &entry.key)).collect();
            format!("[{}]", items?.join(","))
        }
        _ => entry.text()?.to_owned(),
    };
    let rejected = |expected: &dyn Display| entry.invalid_text(&text, expected);
    let numbers: NumberExpr = text.parse().map_err(|error| rejected(&error))?;
    numbers.expand(MAX_CPTS).map_err(|error| rejected(&error))
}

// [CONF-21]
impl Tunables {
    /// Takes the values that are not set here.
    fn fill_from(&mut self, net: &Self) {
        self.peer_timeout = self.peer_timeout.or(net.peer_timeout);
        self.peer_credits = self.peer_credits.or(net.peer_credits);
        self.peer_buffer_credits = self.peer_buffer_credits.or(net.peer_buffer_credits);
        self.credits = self.credits.or(net.credits);
    }
}

impl LndTunables {
    /// Takes the values that are not set here.
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
