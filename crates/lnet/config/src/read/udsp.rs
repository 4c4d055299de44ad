//! The `udsp` section: [UDSP-36].
//!
//! The reader avoids four defects of kernels, Q-21 to Q-24 in `docs/selection/releases.md`: a priority
//! of 0 counts; an entry without `idx` is appended; an entry without priority has none, also after an
//! entry that has one.

use lnet_policy::{PolicyError, Profile, RuleList};

use super::fields::mapping_of;
use super::reader::Reader;
use crate::error::{Fault, Problem};
use crate::udsp::{UdspAction, UdspEntry};
use crate::yaml::{Entry, Node, Value};

const KEYS: [&str; 8] = [
    "idx", "src", "dst", "rte", "action", "priority", "seq_no", "disabled",
];

/// The entries, and the list of those that will take effect.
pub(super) fn rules(
    section: &Entry<'_>,
    reader: &mut Reader,
) -> Result<(Vec<UdspEntry>, RuleList), Fault> {
    let mut list = RuleList::new();
    let entries = reader.each(section, |item, reader| {
        let entry = rule(item, reader)?;
        if let Some(entry) = entry.as_ref().filter(|_| !reader.shows()) {
            let added = entry
                .rule(Profile::Design)
                .and_then(|rule| list.add(rule, entry.position()));
            added.map_err(|error| Fault::new(place_of(item, &error), Problem::Rule(error)))?;
        }
        Ok(entry)
    })?;
    Ok((entries, list))
}

/// The place of the value that an error concerns, or of the whole entry.
fn place_of(item: &Node<'_>, error: &PolicyError) -> crate::error::Place {
    let key = match error {
        PolicyError::Unparsable { argument, .. }
        | PolicyError::SeveralNetRanges(argument)
        | PolicyError::UnknownNet { argument, .. } => argument.to_string(),
        _ => return item.place,
    };
    let Value::Mapping(entries) = &item.value else {
        return item.place;
    };
    let entry = entries.iter().find(|entry| entry.key == key);
    entry.map_or(item.place, |entry| entry.node.place)
}

/// Reads an entry; `None` if one of its values was rejected, because the entry would change its
/// meaning.
fn rule(item: &Node<'_>, reader: &mut Reader) -> Result<Option<UdspEntry>, Fault> {
    let mut rule = UdspEntry::default();
    let mut is_whole = true;
    for entry in mapping_of(item, "udsp")? {
        let taken = reader.attempt(|reader| value(&mut rule, entry, reader))?;
        is_whole &= taken.is_some();
    }
    Ok(is_whole.then_some(rule))
}

fn value(rule: &mut UdspEntry, entry: &Entry<'_>, reader: &mut Reader) -> Result<(), Fault> {
    match entry.key.as_ref() {
        "idx" => rule.idx = Some(entry.unsigned(0..=u32::MAX)?),
        "src" => rule.src = descriptor(entry)?,
        "dst" => rule.dst = descriptor(entry)?,
        "rte" => rule.rte = descriptor(entry)?,
        "action" => action(rule, entry, reader)?,
        "priority" => priority(rule, entry)?,
        "disabled" => rule.disabled = entry.unsigned(0..=1)? == 1,
        "seq_no" => {}
        _ => reader.unknown(entry, &KEYS)?,
    }
    Ok(())
}

/// Kernels of 2.15 and 2.16 print `NA` for an absent descriptor.
fn descriptor(entry: &Entry<'_>) -> Result<Option<String>, Fault> {
    let text = entry.text()?;
    Ok((text != "NA").then(|| text.to_owned()))
}

/// `action: {priority: 1}`, the same as a list of one, or `action: preferred`.
fn action(rule: &mut UdspEntry, entry: &Entry<'_>, reader: &mut Reader) -> Result<(), Fault> {
    let node = match &entry.node.value {
        Value::Scalar(text) if text.starts_with("pref") => {
            rule.action = Some(UdspAction::Preferred);
            return Ok(());
        }
        Value::Scalar(_) => {
            return Err(entry.invalid_value("an action is 'priority: N' or 'preferred'"));
        }
        Value::Sequence(items) if items.len() == 1 => &items[0],
        _ => &entry.node,
    };
    for field in mapping_of(node, "action")? {
        if field.key == "priority" {
            priority(rule, field)?;
        } else {
            reader.unknown(field, &["priority"])?;
        }
    }
    Ok(())
}

fn priority(rule: &mut UdspEntry, entry: &Entry<'_>) -> Result<(), Fault> {
    let value = entry.unsigned(0..=u32::MAX)?;
    match rule.action.replace(UdspAction::Priority(value)) {
        Some(_) => Err(entry.given_twice()),
        None => Ok(()),
    }
}
