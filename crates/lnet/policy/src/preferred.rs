//! Preferred lists of a peer NI: local NIDs, or gateways.

use std::collections::BTreeMap;
use std::sync::Arc;

use lnet_types::Nid;

use crate::priority::Priority;

/// An entry of a preferred list.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Preferred {
    /// A local NID, or the primary NID of a gateway.
    pub nid: Nid,
    /// Less is better; [`Priority::BEST`] for gateways and for pairs without a rank.
    pub rank: Priority,
    /// The index of the rule that added it.
    pub set_by: usize,
}

/// A preferred list, best entry first, each NID once. Peer NIs with the same matching rules share
/// one list; cloning copies no entry.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PreferredList(Arc<[Preferred]>);

impl PreferredList {
    pub(crate) fn empty() -> Self {
        Self(Arc::new([]))
    }

    /// Merges the preferences of several rules, each given as index, rank and NIDs, in ascending
    /// order of index. If several rules prefer a NID, its best rank counts; among equal ranks the
    /// lowest index.
    pub(crate) fn merge<'a>(rules: impl Iterator<Item = (usize, Priority, &'a [Nid])>) -> Self {
        let mut seen: BTreeMap<Nid, usize> = BTreeMap::new();
        let mut entries: Vec<Preferred> = Vec::new();
        for (set_by, rank, nids) in rules {
            for &nid in nids {
                let entry = Preferred { nid, rank, set_by };
                let place = *seen.entry(nid).or_insert(entries.len());
                match entries.get_mut(place) {
                    Some(old) if rank < old.rank => *old = entry,
                    Some(_) => {}
                    None => entries.push(entry),
                }
            }
        }
        // The sort is stable: NIDs of one rule stay in the order of the interfaces.
        entries.sort_by_key(|entry| (entry.rank, entry.set_by));
        Self(entries.into())
    }

    /// The first `len` entries of the list.
    pub(crate) fn cut(&self, len: usize) -> Self {
        self.0
            .get(..len)
            .map_or_else(|| self.clone(), |kept| Self(kept.into()))
    }

    /// The entries, best first.
    #[must_use]
    pub fn entries(&self) -> &[Preferred] {
        &self.0
    }

    /// The NIDs, best first.
    pub fn nids(&self) -> impl Iterator<Item = Nid> {
        self.0.iter().map(|entry| entry.nid)
    }

    /// Returns true if the list has no entries: nothing is preferred.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// The rank of `nid`; [`Priority::NONE`], the worst of all, if `nid` is not on the list.
    #[must_use]
    pub fn rank_of(&self, nid: Nid) -> Priority {
        self.0
            .iter()
            .find(|entry| entry.nid == nid)
            .map_or(Priority::NONE, |entry| entry.rank)
    }
}
