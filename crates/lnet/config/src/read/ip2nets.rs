//! The `ip2nets` section.

use lnet_types::Net;

use super::fields::mapping_of;
use super::net::{cpts, interfaces, lnd_tunables, tunables};
use super::reader::Reader;
use crate::error::{Fault, Problem};
use crate::ip2nets::Ip2Nets;
use crate::model::{LndTunables, Tunables};
use crate::yaml::{Entry, Node};

const KEYS: [&str; 6] = [
    "net-spec",
    "interfaces",
    "ip-range",
    "tunables",
    "lnd tunables",
    "CPT",
];

pub(super) fn rules(section: &Entry<'_>, reader: &mut Reader) -> Result<Vec<Ip2Nets>, Fault> {
    reader.each(section, rule)
}

/// Reads one rule; `None` if its condition was rejected.
// [CONF-26]
fn rule(item: &Node<'_>, reader: &mut Reader) -> Result<Option<Ip2Nets>, Fault> {
    let entries = mapping_of(item, "ip2nets")?;
    let Some((first, rest)) = entries.split_first() else {
        return Err(Fault::new(
            item.place,
            Problem::MissingKey { key: "net-spec" },
        ));
    };
    if first.key != "net-spec" {
        let found = crate::error::shown(&first.key);
        return Err(Fault::new(
            first.key_place,
            Problem::NetSpecNotFirst { found },
        ));
    }
    let net: Net = first.parse()?;
    if net == Net::ANY || net == Net::LO {
        return Err(first.invalid_value("write one network, such as tcp or o2ib1"));
    }
    let mut rule = Ip2Nets {
        net,
        interfaces: Vec::new(),
        patterns: Vec::new(),
        tunables: Tunables::default(),
        lnd_tunables: LndTunables::default(),
        cpts: Vec::new(),
    };
    let mut is_whole = true;
    for entry in rest {
        let taken = reader.attempt(|reader| value(&mut rule, entry, reader))?;
        is_whole &= taken.is_some() || !matches!(entry.key.as_ref(), "interfaces" | "ip-range");
    }
    Ok(is_whole.then_some(rule))
}

fn value(rule: &mut Ip2Nets, entry: &Entry<'_>, reader: &mut Reader) -> Result<(), Fault> {
    match entry.key.as_ref() {
        "interfaces" => rule.interfaces = interfaces(entry)?,
        "ip-range" => rule.patterns = entry.enumerated(Entry::parse)?,
        "tunables" => rule.tunables = tunables(entry, reader)?,
        "lnd tunables" => rule.lnd_tunables = lnd_tunables(entry, rule.net.lnd, reader)?,
        "CPT" => rule.cpts = cpts(entry)?,
        _ => reader.unknown(entry, &KEYS)?,
    }
    Ok(())
}
