//! How strictly a document is read, and what was passed over.

use std::collections::{BTreeMap, BTreeSet};

use super::fields::mapping_of;
use crate::error::{Fault, Faults, Problem, shown};
use crate::stats::{Block, Slot};
use crate::yaml::{Entry, Node, Value};

/// What a document is read for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Purpose {
    /// To be put in force: an unknown key is an error, and what was observed is passed over.
    Import,
    /// To be looked at: an unknown key is a warning, and what was observed is read.
    Show,
    /// To be judged: as to be looked at, and what an import would refuse is noted and passed over.
    Survey,
}

/// The state of reading one document.
#[derive(Debug)]
pub(crate) struct Reader {
    purpose: Purpose,
    /// Keys that are not understood.
    pub(crate) warnings: Faults,
    /// What an import would refuse.
    pub(crate) refused: Faults,
    /// By where a list begins, those of its items that were taken, where some were not.
    pub(crate) kept: BTreeMap<usize, Vec<usize>>,
    /// Sections of which something is missing.
    pub(crate) incomplete: BTreeSet<&'static str>,
    /// Items of lists that were not taken.
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
            refused: Faults {
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

    /// Whether is said of a document what an import would refuse, beside what it shows.
    pub(super) fn judges(&self) -> bool {
        self.purpose != Purpose::Show
    }

    /// Reads a part of the document. In a survey a fault in it is noted and `None` given, and the caller goes on
    /// without the part; else it is passed on.
    pub(crate) fn attempt<T>(
        &mut self,
        read: impl FnOnce(&mut Self) -> Result<T, Fault>,
    ) -> Result<Option<T>, Fault> {
        match read(self) {
            Ok(part) => Ok(Some(part)),
            Err(fault) => self.complain(fault).map(|()| None),
        }
    }

    /// Notes a fault in a survey; else passes it on.
    pub(crate) fn complain(&mut self, fault: Fault) -> Result<(), Fault> {
        if self.purpose != Purpose::Survey {
            return Err(fault);
        }
        self.refused.note(fault);
        Ok(())
    }

    /// Reads the items of a list. In a survey those are left out that have a fault, and those of which `read` gives
    /// `None`, because it noted one.
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

    /// Reads a section, and keeps in mind whether something of it is missing, if it has a name.
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

    /// Takes note of a key that does not belong where it stands; `known` do.
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
