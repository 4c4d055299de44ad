//! The `routing` and `buffers` sections.

use super::fields::mapping_of;
use crate::error::Fault;
use crate::model::Buffers;
use crate::yaml::{Entry, Value};

/// Largest pool; kernels hold the number as a signed 32-bit one.
const MAX_BUFFERS: u32 = i32::MAX as u32;

/// `enable: 1`, or the list that `routing show` prints, where `enable` follows the pools of each CPU
/// partition.
pub(super) fn routing(section: &Entry<'_>) -> Result<Option<bool>, Fault> {
    let mut enabled = None;
    if let Value::Sequence(items) = &section.node.value {
        for item in items {
            for entry in mapping_of(item, "routing")? {
                if !is_pools(&entry.key) {
                    set_enabled(&mut enabled, entry)?;
                }
            }
        }
        return Ok(enabled);
    }
    for entry in section.mapping()? {
        set_enabled(&mut enabled, entry)?;
    }
    Ok(enabled)
}

/// `cpt[0]`.
fn is_pools(key: &str) -> bool {
    let number = key
        .strip_prefix("cpt[")
        .and_then(|rest| rest.strip_suffix(']'));
    number.is_some_and(|number| number.parse::<u32>().is_ok())
}

fn set_enabled(enabled: &mut Option<bool>, entry: &Entry<'_>) -> Result<(), Fault> {
    if entry.key != "enable" {
        return Err(entry.invalid_key(&["enable"]));
    }
    match enabled.replace(entry.unsigned(0..=1)? == 1) {
        Some(_) => Err(entry.given_twice()),
        None => Ok(()),
    }
}

pub(super) fn buffers(section: &Entry<'_>) -> Result<Buffers, Fault> {
    let mut buffers = Buffers::default();
    for entry in section.mapping()? {
        let field = match entry.key.as_ref() {
            "tiny" => &mut buffers.tiny,
            "small" => &mut buffers.small,
            "large" => &mut buffers.large,
            _ => return Err(entry.invalid_key(&["tiny", "small", "large"])),
        };
        *field = Some(entry.unsigned(0..=MAX_BUFFERS)?);
    }
    Ok(buffers)
}
