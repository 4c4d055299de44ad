//! The state of reading one document: its purpose, its faults, and the items that were left out.

use std::collections::{BTreeMap, BTreeSet};

use super::fields::mapping_of;
use crate::error::{Fault, Faults, Problem, shown};
use crate::stats::{Block, Slot};
use crate::yaml::{Entry, Node, Value};

/// The purpose of reading a document.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Purpose {
    /// To take effect: an unknown key is an error, and observed state is ignored.
    Import,
    /// For display: an unknown key is a warning, and observed state is read.
    Show,
    /// For a checker: as for display, but values that an import would reject are noted and left
    /// out.
    Survey,
}

/// The state of reading one document.
#[derive(Debug)]
pub(crate) struct Reader {
    purpose: Purpose,
    /// Unknown keys.
    pub(crate) warnings: Faults,
    /// Values that an import would reject.
    pub(crate) rejected: Faults,
    /// For lists of which only some items were taken: the start of the list, and the indices of the
    /// taken items.
    pub(crate) kept: BTreeMap<usize, Vec<usize>>,
    /// Sections of which something was left out.
    pub(crate) incomplete: BTreeSet<&'static str>,
    /// The number of list items that were left out.
    lost: usize,
}

impl Reader {
    pub(crate) const fn new(purpose: Purpose) -> Self {
        Self {
            purpose,
            warnings: Faults {
                first: Vec::new(),
                more: 0,
            },
            rejected: Faults {
                first: Vec::new(),
                more: 0,
            },
            kept: BTreeMap::new(),
            incomplete: BTreeSet::new(),
            lost: 0,
        }
    }

    /// Whether observed state is read.
    pub(super) fn shows(&self) -> bool {
        self.purpose != Purpose::Import
    }

    /// Returns true if values that an import would reject are noted.
    pub(super) fn judges(&self) -> bool {
        self.purpose != Purpose::Show
    }

    /// Reads a part of the document. In a survey, a fault in the part is noted and the result is
    /// `None`; the caller continues without the part. Otherwise the fault is returned.
    pub(crate) fn attempt<T>(
        &mut self,
        read: impl FnOnce(&mut Self) -> Result<T, Fault>,
    ) -> Result<Option<T>, Fault> {
        match read(self) {
            Ok(part) => Ok(Some(part)),
            Err(fault) => self.complain(fault).map(|()| None),
        }
    }

    /// Notes a fault in a survey; otherwise returns it.
    pub(crate) fn complain(&mut self, fault: Fault) -> Result<(), Fault> {
        if self.purpose != Purpose::Survey {
            return Err(fault);
        }
        self.rejected.note(fault);
        Ok(())
    }

    /// Reads the items of a list. A survey leaves out items with a fault, and items for which
    /// `read` returns `None` after it noted one.
    pub(super) fn each<'n, 'a, T>(
        &mut self,
        section: &'n Entry<'a>,
        mut read: impl FnMut(&'n Node<'a>, &mut Self) -> Result<Option<T>, Fault>,
    ) -> Result<Vec<T>, Fault> {
        let items = section.sequence()?;
        let mut taken = Vec::new();
        let mut kept = Vec::new();
        for (index, item) in items.iter().enumerate() {
            if let Some(value) = self.attempt(|reader| read(item, reader))?.flatten() {
                taken.push(value);
                kept.push(index);
            }
        }
        if kept.len() < items.len() {
            self.lost += items.len() - kept.len();
            self.kept.insert(section.node.place.start, kept);
        }
        Ok(taken)
    }

    /// Reads a section. If the section has a name, records whether something of it was left out.
    pub(super) fn section(
        &mut self,
        key: Option<&'static str>,
        read: impl FnOnce(&mut Self) -> Result<(), Fault>,
    ) -> Result<(), Fault> {
        let before = self.lost;
        let is_read = self.attempt(read)?.is_some();
        if !is_read || self.lost > before {
            self.incomplete.extend(key);
        }
        Ok(())
    }

    /// Notes or returns the fault that a key is not allowed in its place; `known` lists the allowed
    /// keys.
    pub(super) fn unknown(
        &mut self,
        entry: &Entry<'_>,
        known: &'static [&'static str],
    ) -> Result<(), Fault> {
        if !self.shows() {
            return Err(entry.invalid_key(known));
        }
        let key = shown(&entry.key);
        let problem = Problem::UnknownKey { key };
        self.warnings.note(Fault::new(entry.key_place, problem));
        Ok(())
    }

    /// A mapping of numbers.
    pub(super) fn block<B: Block>(&mut self, section: &Entry<'_>) -> Result<B, Fault> {
        let mut block = B::default();
        for entry in section.mapping()? {
            if self.attempt(|_| number(&mut block, entry))? == Some(false) {
                self.unknown(entry, &[])?;
            }
        }
        Ok(block)
    }

    /// The items of a list under `section`, which must be mappings: the entries of each.
    pub(super) fn items<'n, 'a>(
        &self,
        section: &'n Entry<'a>,
    ) -> Result<Vec<&'n [Entry<'a>]>, Fault> {
        let items = section.sequence()?.iter();
        items.map(|item| mapping_of(item, &section.key)).collect()
    }
}

/// Reads one number of a block; false if the block has no such key.
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

/// Returns true if a block has this key.
pub(super) fn has_key<B: Block>(key: &str) -> bool {
    let mut block = B::default();
    block.slots().iter().any(|(known, _)| *known == key)
}

/// The entry of a mapping with exactly one.
pub(super) fn only<'n, 'a>(node: &'n Node<'a>) -> Option<&'n Entry<'a>> {
    match &node.value {
        Value::Mapping(entries) => match entries.as_slice() {
            [entry] => Some(entry),
            _ => None,
        },
        _ => None,
    }
}
