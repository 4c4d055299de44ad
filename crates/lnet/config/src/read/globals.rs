//! The `global` and `numa` sections, and node-wide parameters outside them.

use super::reader::Reader;
use crate::document::Document;
use crate::error::{Fault, Problem};
use crate::model::Globals;
use crate::yaml::{Entry, Node, Value};

const KEYS: [&str; 19] = [
    "numa_range",
    "max_interfaces",
    "discovery",
    "drop_asym_route",
    "retry_count",
    "transaction_timeout",
    "health_sensitivity",
    "recovery_interval",
    "router_sensitivity",
    "lnd_timeout",
    "response_tracking",
    "recovery_limit",
    "max_recovery_ping_interval",
    "alive_router_check_interval",
    "router_ping_timeout",
    "check_routers_before_use",
    "avoid_asym_router_failure",
    "profile",
    "match_addresses",
];

/// The largest value without another limit; kernels hold the values as signed 32-bit numbers.
const MAX: u32 = i32::MAX as u32;

pub(super) fn section(
    document: &mut Document,
    section: &Entry<'_>,
    reader: &mut Reader,
) -> Result<(), Fault> {
    for entry in section.mapping()? {
        if reader.attempt(|_| parameter(document, entry))? == Some(false) {
            reader.unknown(entry, &KEYS)?;
        }
    }
    Ok(())
}

/// `range` is the parameter `numa_range`.
pub(super) fn numa(
    globals: &mut Globals,
    section: &Entry<'_>,
    reader: &mut Reader,
) -> Result<(), Fault> {
    for entry in section.mapping()? {
        if entry.key != "range" {
            reader.unknown(entry, &["range"])?;
            continue;
        }
        reader.attempt(|_| set(&mut globals.numa_range, entry, entry.unsigned(0..=MAX)?))?;
    }
    Ok(())
}

/// Reads one parameter; false if the key is not the name of a parameter.
pub(super) fn parameter(document: &mut Document, entry: &Entry<'_>) -> Result<bool, Fault> {
    let Document {
        globals, derived, ..
    } = document;
    match entry.key.as_ref() {
        // Every number except 0 means 1, as in kernels. [CONF-42]
        "discovery" => set(&mut globals.discovery, entry, entry.unsigned(0..=MAX)? != 0)?,
        "profile" => set(&mut globals.profile, entry, entry.parse()?)?,
        // Deprecated or derived; an import ignores it.
        "recovery_interval" => set(
            &mut derived.recovery_interval,
            entry,
            entry.unsigned(0..=MAX)?,
        )?,
        "lnd_timeout" => set(&mut derived.lnd_timeout, entry, entry.unsigned(0..=MAX)?)?,
        _ => return Ok(switch(globals, entry)? || number(globals, entry)?),
    }
    Ok(true)
}

fn switch(globals: &mut Globals, entry: &Entry<'_>) -> Result<bool, Fault> {
    let field = match entry.key.as_ref() {
        "drop_asym_route" => &mut globals.drop_asym_route,
        "check_routers_before_use" => &mut globals.check_routers_before_use,
        "avoid_asym_router_failure" => &mut globals.avoid_asym_router_failure,
        "match_addresses" => &mut globals.match_addresses,
        _ => return Ok(false),
    };
    set(field, entry, entry.unsigned(0..=1)? == 1)?;
    Ok(true)
}

fn number(globals: &mut Globals, entry: &Entry<'_>) -> Result<bool, Fault> {
    let (field, range) = match entry.key.as_ref() {
        "numa_range" => (&mut globals.numa_range, 0..=MAX),
        "max_interfaces" | "max_intf" => (&mut globals.max_interfaces, 0..=MAX),
        "retry_count" => (&mut globals.retry_count, 0..=MAX),
        "transaction_timeout" => (&mut globals.transaction_timeout, 1..=MAX),
        "health_sensitivity" => (&mut globals.health_sensitivity, 0..=1000),
        "router_sensitivity" => (&mut globals.router_sensitivity, 0..=100),
        "response_tracking" => (&mut globals.response_tracking, 0..=3),
        "recovery_limit" => (&mut globals.recovery_limit, 0..=MAX),
        "max_recovery_ping_interval" => (&mut globals.max_recovery_ping_interval, 1..=MAX),
        "alive_router_check_interval" => (&mut globals.alive_router_check_interval, 0..=MAX),
        "router_ping_timeout" => (&mut globals.router_ping_timeout, 1..=MAX),
        _ => return Ok(false),
    };
    set(field, entry, entry.unsigned(range)?)?;
    Ok(true)
}

fn set<T>(field: &mut Option<T>, entry: &Entry<'_>, value: T) -> Result<(), Fault> {
    match field.replace(value) {
        Some(_) => Err(entry.given_twice()),
        None => Ok(()),
    }
}

/// Checks parameters that exclude each other, if the document gives both.
pub(super) fn check(globals: &Globals, root: &Node<'_>) -> Result<(), Fault> {
    let Some(retry_count) = globals.retry_count.filter(|&count| count > 0) else {
        return Ok(());
    };
    let key = if globals.health_sensitivity == Some(0) {
        "health_sensitivity"
    } else if globals
        .transaction_timeout
        .is_some_and(|timeout| retry_count > timeout)
    {
        "transaction_timeout"
    } else {
        return Ok(());
    };
    let problem = Problem::RetryCount { retry_count, key };
    let place = find(root, "retry_count").map_or(root.place, |entry| entry.node.place);
    Err(Fault::new(place, problem))
}

/// The entry of a parameter, at the top or in a section.
fn find<'n, 'a>(root: &'n Node<'a>, key: &str) -> Option<&'n Entry<'a>> {
    let Value::Mapping(entries) = &root.value else {
        return None;
    };
    let in_sections = entries
        .iter()
        .filter_map(|entry| entry.mapping().ok())
        .flatten();
    entries
        .iter()
        .chain(in_sections)
        .find(|entry| entry.key == key)
}
