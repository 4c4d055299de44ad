//! The `global` and `numa` sections, and node-wide parameters outside them.

use super::reader::Reader;
use crate::document::Document;
use crate::error::{Fault, Problem};
use crate::parameters::{Globals, PARAMETERS, Parameter};
use crate::yaml::{Entry, Node, Value};

/// The names of parameters, and of values that have no effect.
const KEYS: [&str; PARAMETERS.len() + 3] = {
    let mut keys = ["profile"; PARAMETERS.len() + 3];
    let mut next = 0;
    while next < PARAMETERS.len() {
        keys[next] = PARAMETERS[next].name;
        next += 1;
    }
    keys[next] = "recovery_interval";
    keys[next + 1] = "lnd_timeout";
    keys
};

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
        reader.attempt(|_| numeric("numa_range", globals, entry))?;
    }
    Ok(())
}

/// Reads one parameter; false if the key is not the name of a parameter.
pub(super) fn parameter(document: &mut Document, entry: &Entry<'_>) -> Result<bool, Fault> {
    let Document {
        globals, derived, ..
    } = document;
    match entry.key.as_ref() {
        "profile" => set(&mut globals.profile, entry, entry.parse()?)?,
        // Deprecated or derived; an import ignores it.
        "recovery_interval" => set(&mut derived.recovery_interval, entry, number(entry)?)?,
        "lnd_timeout" => set(&mut derived.lnd_timeout, entry, number(entry)?)?,
        "max_intf" => return numeric("max_interfaces", globals, entry),
        key => return numeric(key, globals, entry),
    }
    Ok(true)
}

fn number(entry: &Entry<'_>) -> Result<u32, Fault> {
    entry.unsigned(0..=i32::MAX as u32)
}

fn numeric(name: &str, globals: &mut Globals, entry: &Entry<'_>) -> Result<bool, Fault> {
    let Some(parameter) = Parameter::named(name) else {
        return Ok(false);
    };
    let value = entry.unsigned(parameter.values.clone())?;
    if parameter.get(globals).is_some() {
        return Err(entry.given_twice());
    }
    parameter.set(globals, value);
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
