//! The `routing` and `buffers` sections.

use super::reader::Reader;
use crate::document::{CptPools, Document};
use crate::error::Fault;
use crate::model::Buffers;
use crate::yaml::{Entry, Value};

/// The largest pool; kernels hold the number as a signed 32-bit one.
const MAX_BUFFERS: u32 = i32::MAX as u32;

/// `enable: 1`, or the list that `routing show` prints, in which `enable` follows the pools of each
/// CPU partition.
pub(super) fn routing(
    document: &mut Document,
    section: &Entry<'_>,
    reader: &mut Reader,
) -> Result<(), Fault> {
    if !matches!(section.node.value, Value::Sequence(_)) {
        for entry in section.mapping()? {
            set_enabled(&mut document.routing, entry, reader)?;
        }
        return Ok(());
    }
    for entry in reader.items(section)?.into_iter().flatten() {
        match cpt_of(&entry.key) {
            Some(_) if !reader.shows() => {}
            Some(cpt) => document.pools.push(pools(cpt, entry, reader)?),
            None => set_enabled(&mut document.routing, entry, reader)?,
        }
    }
    Ok(())
}

/// The number in `cpt[0]`.
fn cpt_of(key: &str) -> Option<u32> {
    key.strip_prefix("cpt[")?.strip_suffix(']')?.parse().ok()
}

fn pools(cpt: u32, section: &Entry<'_>, reader: &mut Reader) -> Result<CptPools, Fault> {
    let mut pools = CptPools {
        cpt,
        ..CptPools::default()
    };
    for entry in section.mapping()? {
        match entry.key.as_ref() {
            "tiny" => pools.tiny = reader.block(entry)?,
            "small" => pools.small = reader.block(entry)?,
            "large" => pools.large = reader.block(entry)?,
            _ => reader.unknown(entry, &[])?,
        }
    }
    Ok(pools)
}

fn set_enabled(
    enabled: &mut Option<bool>,
    entry: &Entry<'_>,
    reader: &mut Reader,
) -> Result<(), Fault> {
    if entry.key != "enable" {
        return reader.unknown(entry, &["enable"]);
    }
    match enabled.replace(entry.unsigned(0..=1)? == 1) {
        Some(_) => Err(entry.given_twice()),
        None => Ok(()),
    }
}

pub(super) fn buffers(section: &Entry<'_>, reader: &mut Reader) -> Result<Buffers, Fault> {
    let mut buffers = Buffers::default();
    for entry in section.mapping()? {
        let field = match entry.key.as_ref() {
            "tiny" => &mut buffers.tiny,
            "small" => &mut buffers.small,
            "large" => &mut buffers.large,
            _ => {
                reader.unknown(entry, &["tiny", "small", "large"])?;
                continue;
            }
        };
        *field = reader.attempt(|_| entry.unsigned(0..=MAX_BUFFERS))?;
    }
    Ok(buffers)
}
