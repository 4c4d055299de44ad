//! A configuration as `lnetctl export --backup` of 2.16 lays it out (selection, sections 11.1 and
//! 11.9): `net`, `route` and `peer` six columns a level, the rest four. What is not set is left out.

use std::fmt::{self, Display, Write};

use crate::model::{
    Buffers, Config, Globals, LndTunables, NetConfig, NiConfig, PeerConfig, RouteConfig, Tunables,
};

impl Config {
    /// The document. Parsing it gives an equal configuration; the same configuration gives the same
    /// bytes. An empty one gives no text.
    #[must_use]
    pub fn to_yaml(&self) -> String {
        let mut text = String::new();
        // Writing to a String cannot fail.
        let _ = write_config(&mut text, self);
        text
    }
}

fn write_config(out: &mut String, config: &Config) -> fmt::Result {
    write_list(out, "net", &config.nets, write_net)?;
    write_list(out, "route", &config.routes, write_route)?;
    write_list(out, "peer", &config.peers, write_peer)?;
    write_section(out, "routing", &[("enable", config.routing.map(u32::from))])?;
    let Buffers { tiny, small, large } = config.buffers;
    write_section(
        out,
        "buffers",
        &[("tiny", tiny), ("small", small), ("large", large)],
    )?;
    write_globals(out, &config.globals)
}

fn write_list<T>(
    out: &mut String,
    key: &str,
    items: &[T],
    write_item: fn(&mut String, &T) -> fmt::Result,
) -> fmt::Result {
    if items.is_empty() {
        return Ok(());
    }
    writeln!(out, "{key}:")?;
    items.iter().try_for_each(|item| write_item(out, item))
}

fn write_net(out: &mut String, net: &NetConfig) -> fmt::Result {
    writeln!(out, "-     net type: {}", net.net)?;
    writeln!(out, "      local NI(s):")?;
    net.nis.iter().try_for_each(|ni| write_ni(out, ni))
}

fn write_ni(out: &mut String, ni: &NiConfig) -> fmt::Result {
    let mut lead = "-     ";
    if let Some(nid) = ni.nid {
        writeln!(out, "      {lead}nid: {nid}")?;
        lead = "      ";
    }
    if !ni.interfaces.is_empty() {
        writeln!(out, "      {lead}interfaces:")?;
    }
    for (index, name) in ni.interfaces.iter().enumerate() {
        writeln!(out, "                  {index}: {}", Scalar(name))?;
    }
    write_tunables(out, &ni.tunables)?;
    write_lnd_tunables(out, &ni.lnd_tunables)?;
    if ni.cpts.is_empty() {
        return Ok(());
    }
    let cpts: Vec<_> = ni.cpts.iter().map(u32::to_string).collect();
    writeln!(out, "            CPT: \"[{}]\"", cpts.join(","))
}

fn write_tunables(out: &mut String, tunables: &Tunables) -> fmt::Result {
    let fields = [
        ("peer_timeout", tunables.peer_timeout),
        ("peer_credits", tunables.peer_credits),
        ("peer_buffer_credits", tunables.peer_buffer_credits),
        ("credits", tunables.credits),
    ];
    write_ni_map(out, "tunables", set_fields(&fields))
}

fn write_lnd_tunables(out: &mut String, tunables: &LndTunables) -> fmt::Result {
    let fields = [
        ("conns_per_peer", tunables.conns_per_peer.map(u32::from)),
        ("timeout", tunables.timeout),
        ("tos", tunables.tos.map(u32::from)),
    ];
    let other = tunables.other.iter();
    let other = other.map(|(key, value)| (Scalar(key).to_string(), Scalar(value).to_string()));
    write_ni_map(out, "lnd tunables", set_fields(&fields).chain(other))
}

fn set_fields(fields: &[(&str, Option<u32>)]) -> impl Iterator<Item = (String, String)> {
    fields
        .iter()
        .filter_map(|(key, value)| value.map(|value| ((*key).to_owned(), value.to_string())))
}

/// A map under an interface, left out when empty.
fn write_ni_map(
    out: &mut String,
    key: &str,
    fields: impl Iterator<Item = (String, String)>,
) -> fmt::Result {
    let mut fields = fields.peekable();
    if fields.peek().is_some() {
        writeln!(out, "            {key}:")?;
    }
    fields
        .into_iter()
        .try_for_each(|(key, value)| writeln!(out, "                  {key}: {value}"))
}

fn write_route(out: &mut String, route: &RouteConfig) -> fmt::Result {
    writeln!(out, "-     net: {}", route.net)?;
    writeln!(out, "      gateway: {}", route.gateway)?;
    match route.hop {
        Some(hop) => writeln!(out, "      hop: {hop}")?,
        None => writeln!(out, "      hop: -1")?,
    }
    writeln!(out, "      priority: {}", route.priority)
}

fn write_peer(out: &mut String, peer: &PeerConfig) -> fmt::Result {
    let Some(primary) = peer.nids.first() else {
        return Ok(());
    };
    writeln!(out, "-     primary nid: {primary}")?;
    writeln!(out, "      Multi-Rail: {}", peer.multi_rail)?;
    writeln!(out, "      peer ni:")?;
    peer.nids
        .iter()
        .try_for_each(|nid| writeln!(out, "      -     nid: {nid}"))
}

fn write_globals(out: &mut String, globals: &Globals) -> fmt::Result {
    write_section(
        out,
        "global",
        &[
            ("numa_range", globals.numa_range),
            ("max_interfaces", globals.max_interfaces),
            ("discovery", globals.discovery.map(u32::from)),
            ("drop_asym_route", globals.drop_asym_route.map(u32::from)),
            ("retry_count", globals.retry_count),
            ("transaction_timeout", globals.transaction_timeout),
            ("health_sensitivity", globals.health_sensitivity),
            ("router_sensitivity", globals.router_sensitivity),
            ("response_tracking", globals.response_tracking),
            ("recovery_limit", globals.recovery_limit),
            (
                "max_recovery_ping_interval",
                globals.max_recovery_ping_interval,
            ),
        ],
    )
}

/// A section of numbers, left out when none is set.
fn write_section(out: &mut String, key: &str, fields: &[(&str, Option<u32>)]) -> fmt::Result {
    let mut fields = set_fields(fields).peekable();
    if fields.peek().is_some() {
        writeln!(out, "{key}:")?;
    }
    fields
        .into_iter()
        .try_for_each(|(key, value)| writeln!(out, "    {key}: {value}"))
}

/// Text that YAML reads back as it is: bare where that is safe, else in double quotes.
struct Scalar<'a>(&'a str);

impl Scalar<'_> {
    fn is_plain(&self) -> bool {
        let starts_plain = self
            .0
            .starts_with(|first: char| first.is_ascii_alphanumeric());
        let is_plain = |byte: u8| byte.is_ascii_alphanumeric() || b"_.-@/".contains(&byte);
        starts_plain && self.0.bytes().all(is_plain)
    }
}

impl Display for Scalar<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if self.is_plain() {
            return f.write_str(self.0);
        }
        f.write_char('"')?;
        for character in self.0.chars() {
            match character {
                '"' | '\\' => write!(f, "\\{character}")?,
                ' '..='~' => f.write_char(character)?,
                other => write!(f, "\\U{:08X}", u32::from(other))?,
            }
        }
        f.write_char('"')
    }
}
