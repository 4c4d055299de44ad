//! How strictly a document is read, and what was passed over.

use super::fields::mapping_of;
use crate::error::{Fault, Problem, shown};
use crate::stats::{Block, Slot};
use crate::yaml::{Entry, Node, Value};

/// Complaints that are kept; the rest is only counted, because each costs a look at the document.
const MAX_WARNINGS: usize = 100;

/// What a document is read for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Purpose {
    /// To be put in force: an unknown key is an error, and what was observed is passed over.
    Import,
    /// To be looked at: an unknown key is a warning, and what was observed is read.
    Show,
}

/// The state of reading one document.
#[derive(Debug)]
pub(crate) struct Reader {
    purpose: Purpose,
    /// The first complaints.
    pub(crate) warnings: Vec<Fault>,
    /// How many more there were.
    pub(crate) unreported: usize,
}

impl Reader {
    pub(crate) const fn new(purpose: Purpose) -> Self {
        Self {
            purpose,
            warnings: Vec::new(),
            unreported: 0,
        }
    }

    /// Whether observed state is read.
    pub(super) fn shows(&self) -> bool {
        self.purpose == Purpose::Show
    }

    /// Takes note of a key that does not belong where it stands; `known` do.
    pub(super) fn unknown(
        &mut self,
        entry: &Entry<'_>,
        known: &'static [&'static str],
    ) -> Result<(), Fault> {
        if !self.shows() {
            return Err(entry.invalid_key(known));
        }
        self.warn(Fault::new(
            entry.key_place,
            Problem::UnknownKey {
                key: shown(&entry.key),
            },
        ));
        Ok(())
    }

    fn warn(&mut self, fault: Fault) {
        if self.warnings.len() < MAX_WARNINGS {
            self.warnings.push(fault);
        } else {
            self.unreported += 1;
        }
    }

    /// A mapping of numbers.
    pub(super) fn block<B: Block>(&mut self, section: &Entry<'_>) -> Result<B, Fault> {
        let mut block = B::default();
        for entry in section.mapping()? {
            if !number(&mut block, entry)? {
                self.unknown(entry, &[])?;
            }
        }
        Ok(block)
    }

    /// The items of a list under `section`, which are mappings: the entries of each.
    pub(super) fn items<'n, 'a>(
        &self,
        section: &'n Entry<'a>,
    ) -> Result<Vec<&'n [Entry<'a>]>, Fault> {
        let items = section.sequence()?.iter();
        items.map(|item| mapping_of(item, &section.key)).collect()
    }
}

/// Takes one number of a block; false when the block has no such key.
pub(super) fn number<B: Block>(block: &mut B, entry: &Entry<'_>) -> Result<bool, Fault> {
    let slots = block.slots().into_iter();
    let Some((_, slot)) = slots.into_iter().find(|(key, _)| *key == entry.key) else {
        return Ok(false);
    };
    match slot {
        Slot::Count(field) => *field = entry.count()?,
        Slot::Signed(field) => *field = entry.signed()?,
        Slot::Optional(field) => *field = Some(entry.count()?),
    }
    Ok(true)
}

/// Whether a block has such a key.
pub(super) fn has_key<B: Block>(key: &str) -> bool {
    let mut block = B::default();
    block.slots().iter().any(|(known, _)| *known == key)
}

/// The only entry of a mapping with one.
pub(super) fn only<'n, 'a>(node: &'n Node<'a>) -> Option<&'n Entry<'a>> {
    match &node.value {
        Value::Mapping(entries) => match entries.as_slice() {
            [entry] => Some(entry),
            _ => None,
        },
        _ => None,
    }
}
