//! The values of `networks`, `ip2nets` and `routes`.

use lnet_types::Net;
use lnet_types::expr::{NetExpr, NumberExpr};

use super::scan::{Cursor, Word};
use super::{
    Dialect, GatewayOption, InterfaceOption, Ip2NetsOption, ModuleOptions, NetworkOption,
    OptionKind, RouteOption,
};
use crate::error::{Fault, Problem, shown};
use crate::ip2nets::IpPattern;

/// CPU partitions that one interface can name.
const MAX_CPTS: usize = 4096;

/// Reads the value of an option and adds it.
// [CONF-50]
pub(super) fn value(
    options: &mut ModuleOptions,
    kind: OptionKind,
    mut cursor: Cursor<'_>,
    dialect: Dialect,
) -> Result<(), Fault> {
    while next_entry(&mut cursor) {
        match kind {
            OptionKind::Networks => {
                networks(&mut cursor, &mut options.networks, RepeatedNetwork::Adds)?
            }
            OptionKind::Ip2Nets => options.ip2nets.extend(ip2nets(&mut cursor)?),
            OptionKind::Routes => options.routes.push(route(&mut cursor, dialect)?),
        }
        let more_networks = kind == OptionKind::Networks && cursor.peek() == Some(';');
        if more_networks || !end_of_entry(&mut cursor) {
            return Err(cursor.expected("the end, or a separator and another entry"));
        }
    }
    Ok(())
}

/// Skips blanks, separators and comments, which end at a separator; false at the end.
fn next_entry(cursor: &mut Cursor<'_>) -> bool {
    loop {
        cursor.blanks();
        if cursor.peek() == Some('#') {
            cursor.word(|character| character != '\n' && character != ';');
        }
        if !cursor.take(';') && !cursor.take('\n') {
            return !cursor.at_end();
        }
    }
}

/// Whether an entry ends here.
fn end_of_entry(cursor: &mut Cursor<'_>) -> bool {
    cursor.blanks();
    matches!(cursor.peek(), None | Some(';' | '\n' | '#'))
}

/// The meaning of a network that the list has already.
#[derive(Clone, Copy, PartialEq, Eq)]
enum RepeatedNetwork {
    /// It adds interfaces.
    Adds,
    /// It is an error, as in one entry of `ip2nets`.
    Rejected,
}

/// A list of networks.
fn networks(
    cursor: &mut Cursor<'_>,
    nets: &mut Vec<NetworkOption>,
    again: RepeatedNetwork,
) -> Result<(), Fault> {
    loop {
        cursor.blanks();
        let name = cursor.word(|character| !is_delimiter(character));
        let network = network(name, cursor)?;
        match nets.iter_mut().find(|other| other.net == network.net) {
            Some(known) if again == RepeatedNetwork::Adds && known.can_have(&network) => {
                known.add(network)
            }
            Some(_) => {
                let key = network.net.to_string();
                return Err(Fault::new(name.place, Problem::KeyTwice { key }));
            }
            // Every node has loopback.
            None if network.net == Net::LO => {}
            None => nets.push(network),
        }
        if !cursor.take(',') {
            return Ok(());
        }
    }
}

impl NetworkOption {
    /// Returns true if the interfaces of the other entry differ from these.
    fn can_have(&self, more: &Self) -> bool {
        let has = |one: &InterfaceOption| self.interfaces.iter().any(|own| own.name == one.name);
        let named = !self.interfaces.is_empty() && !more.interfaces.is_empty();
        named && !more.interfaces.iter().any(has)
    }

    /// Adds the interfaces of another entry, each with its CPTs there.
    fn add(&mut self, mut more: Self) {
        if self.cpts != more.cpts {
            for network in [&mut *self, &mut more] {
                let cpts = std::mem::take(&mut network.cpts);
                let without = network.interfaces.iter_mut();
                for interface in without.filter(|interface| interface.cpts.is_empty()) {
                    interface.cpts.clone_from(&cpts);
                }
            }
        }
        self.interfaces.append(&mut more.interfaces);
    }
}

fn is_delimiter(character: char) -> bool {
    character.is_whitespace() || "()[],;#".contains(character)
}

/// Parses the text after the name of a network.
fn network(name: Word<'_>, cursor: &mut Cursor<'_>) -> Result<NetworkOption, Fault> {
    if name.text.is_empty() {
        return Err(cursor.expected("a network, such as tcp or o2ib1"));
    }
    let net = name
        .text
        .parse::<Net>()
        .map_err(|error| name.invalid("networks", error))?;
    if net == Net::ANY {
        return Err(name.invalid("networks", "write one network, such as tcp or o2ib1"));
    }
    let mut interfaces = Vec::new();
    if cursor.take('(') {
        loop {
            cursor.blanks();
            interfaces.push(interface(cursor)?);
            cursor.blanks();
            if cursor.take(')') {
                break;
            }
            if !cursor.take(',') {
                return Err(cursor.expected("',' or ')' behind the interface"));
            }
        }
    }
    let cpts = cpts(cursor)?;
    Ok(NetworkOption {
        net,
        interfaces,
        cpts,
    })
}

fn interface(cursor: &mut Cursor<'_>) -> Result<InterfaceOption, Fault> {
    // Quotes and backslashes belong to the syntax of the file and could not be written back.
    let is_name = |c: char| !is_delimiter(c) && !c.is_control() && !"\"'\\".contains(c);
    let name = cursor.word(is_name).text;
    if name.is_empty() {
        return Err(cursor.expected("the name of an interface"));
    }
    Ok(InterfaceOption {
        name: name.to_owned(),
        cpts: cpts(cursor)?,
    })
}

/// `[0,2]`, if it comes next.
fn cpts(cursor: &mut Cursor<'_>) -> Result<Vec<u32>, Fault> {
    if cursor.peek() != Some('[') {
        return Ok(Vec::new());
    }
    let Some(length) = cursor.rest().find(']') else {
        return Err(cursor.expected("']' behind the CPU partitions"));
    };
    let list = cursor.advance(length + 1);
    let numbers: NumberExpr = list
        .text
        .parse()
        .map_err(|error| list.invalid("CPT", error))?;
    numbers
        .expand(MAX_CPTS)
        .map_err(|error| list.invalid("CPT", error))
}

/// Networks and patterns of addresses; `None` for loopback alone, which every node has.
fn ip2nets(cursor: &mut Cursor<'_>) -> Result<Option<Ip2NetsOption>, Fault> {
    let mut entry = Ip2NetsOption {
        networks: Vec::new(),
        patterns: Vec::new(),
    };
    networks(cursor, &mut entry.networks, RepeatedNetwork::Rejected)?;
    while !end_of_entry(cursor) {
        let pattern = cursor.word(|character| !character.is_whitespace() && character != ';');
        let parsed = pattern
            .text
            .parse()
            .map_err(|error| pattern.invalid("ip2nets", error))?;
        if !IpPattern::is_quad(&parsed) {
            return Err(
                pattern.invalid("ip2nets", "write four numbers with dots, such as 10.0.0.*")
            );
        }
        entry.patterns.push(parsed);
    }
    if entry.patterns.is_empty() {
        return Err(cursor.expected("a pattern of addresses behind the networks, such as 10.0.0.*"));
    }
    Ok(Some(entry).filter(|entry| !entry.networks.is_empty()))
}

/// Networks, hops, gateways.
fn route(cursor: &mut Cursor<'_>, dialect: Dialect) -> Result<RouteOption, Fault> {
    let mut route = RouteOption {
        nets: Vec::new(),
        hop: None,
        gateways: Vec::new(),
    };
    while !end_of_entry(cursor) {
        let start = *cursor;
        let word = cursor.word(|character| !character.is_whitespace() && character != ';');
        let is_number = word.text.bytes().all(|byte| byte.is_ascii_digit());
        // The address of a gateway without a network has dots.
        if word.text.contains(['@', '.']) {
            if dialect == Dialect::Converter && !route.gateways.is_empty() {
                return Err(start.expected("the end of the entry: one has one gateway"));
            }
            route.gateways.push(gateway(word)?);
        } else if is_number
            && !route.nets.is_empty()
            && route.gateways.is_empty()
            && route.hop.is_none()
        {
            route.hop = Some(hop(word)?);
        } else if route.hop.is_some() || !route.gateways.is_empty() {
            return Err(start.expected("a gateway, or ';' and another entry"));
        } else if let Some(name) = word
            .text
            .strip_suffix(':')
            .filter(|_| dialect == Dialect::Converter)
        {
            route.nets.push(net(Word { text: name, ..word })?);
            return structured(cursor, route);
        } else {
            route.nets.push(net(word)?);
        }
    }
    if route.nets.is_empty() {
        return Err(cursor.expected("a remote network before the gateway"));
    }
    if route.gateways.is_empty() {
        return Err(cursor.expected("a gateway, such as 10.0.0.1@tcp"));
    }
    Ok(route)
}

fn net(word: Word<'_>) -> Result<NetExpr, Fault> {
    word.text
        .parse()
        .map_err(|error| word.invalid("routes", error))
}

fn hop(word: Word<'_>) -> Result<u8, Fault> {
    match word.text.parse() {
        Ok(hop) if hop > 0 => Ok(hop),
        _ => Err(word.invalid("hop", "invalid hop count must be between 1 and 255")),
    }
}

fn priority(word: Word<'_>) -> Result<u32, Fault> {
    let is_decimal = word.text.bytes().all(|byte| byte.is_ascii_digit());
    let number = word.text.parse().ok().filter(|_| is_decimal);
    number.ok_or_else(|| word.invalid("priority", "priority is an integer from 0 to 4294967295"))
}

/// `NID` or `NID:priority`. Colons before the `@` belong to an IPv6 address; an IPv4 address
/// without `@` is on `tcp`.
fn gateway(word: Word<'_>) -> Result<GatewayOption, Fault> {
    let at = word.text.find('@').unwrap_or(0);
    let colon = word
        .text
        .get(at..)
        .and_then(|net| net.find(':'))
        .map(|colon| at + colon);
    let (nids, priority) = match colon {
        Some(colon) => {
            let (mut nids, mut value) = (word, word);
            nids.text = word.text.get(..colon).unwrap_or_default();
            nids.place.end = word.place.start + colon;
            value.text = word.text.get(colon + 1..).unwrap_or_default();
            value.place.start = word.place.start + colon + 1;
            (nids, Some(self::priority(value)?))
        }
        None => (word, None),
    };
    let on_tcp = if nids.text.contains('@') { "" } else { "@tcp" };
    let parsed = format!("{}{on_tcp}", nids.text)
        .parse()
        .map_err(|error| nids.invalid("routes", error))?;
    Ok(GatewayOption {
        nids: parsed,
        priority,
    })
}

/// `{ gateway: NID, hop: N, priority: N }` after the network.
fn structured(cursor: &mut Cursor<'_>, mut route: RouteOption) -> Result<RouteOption, Fault> {
    let mut priority = None;
    cursor.blanks();
    if !cursor.take('{') {
        return Err(cursor.expected("'{' behind the network"));
    }
    loop {
        cursor.blanks();
        let key = cursor.word(|character| character.is_ascii_alphabetic());
        cursor.blanks();
        if !cursor.take(':') {
            return Err(cursor.expected("KEY: VALUE"));
        }
        cursor.blanks();
        let value = structured_value(cursor);
        match key.text {
            "gateway" => route.gateways = vec![gateway(value)?],
            "hop" => route.hop = Some(hop(value)?),
            "priority" => priority = Some(self::priority(value)?),
            other => {
                let known = &["gateway", "hop", "priority"];
                let key_shown = shown(other);
                return Err(Fault::new(
                    key.place,
                    Problem::InvalidKey {
                        key: key_shown,
                        known,
                    },
                ));
            }
        }
        cursor.blanks();
        if cursor.take('}') {
            break;
        }
        if !cursor.take(',') {
            return Err(cursor.expected("',' or '}'"));
        }
    }
    let Some(gateway) = route.gateways.first_mut() else {
        return Err(cursor.expected("a gateway in the entry before"));
    };
    gateway.priority = gateway.priority.or(priority);
    Ok(route)
}

/// Text up to a comma outside brackets, a blank or a brace.
fn structured_value<'a>(cursor: &mut Cursor<'a>) -> Word<'a> {
    let mut depth = 0_u32;
    let length = cursor.rest().find(|character: char| {
        match character {
            '[' => depth += 1,
            ']' => depth = depth.saturating_sub(1),
            _ => {}
        }
        character.is_whitespace() || character == '}' || (character == ',' && depth == 0)
    });
    cursor.advance(length.unwrap_or(cursor.rest().len()))
}
