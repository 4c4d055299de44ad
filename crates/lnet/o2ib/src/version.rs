//! Peers that speak another version of the protocol: each is told once.

use std::collections::{BTreeSet, VecDeque};

use lnet_types::Nid;

/// The peers that are remembered. Further ones are counted, and not told.
const PEERS_MAX: usize = 256;

/// A peer that speaks another version of the protocol, so that no connection is possible.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct OtherVersion {
    /// The peer; `None` if its request does not show it.
    pub peer: Option<Nid>,
    /// The peer's version.
    pub version: u16,
}

/// The peers of other versions, and those of them that nobody was told of yet.
#[derive(Debug, Default)]
pub(crate) struct Versions {
    known: BTreeSet<Option<Nid>>,
    news: VecDeque<OtherVersion>,
}

impl Versions {
    pub(crate) fn note(&mut self, other: OtherVersion) {
        if self.known.len() < PEERS_MAX && self.known.insert(other.peer) {
            self.news.push_back(other);
        }
    }

    pub(crate) fn next(&mut self) -> Option<OtherVersion> {
        self.news.pop_front()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_flood_of_peers_is_told_of_up_to_a_limit() {
        let mut versions = Versions::default();
        for number in 0..1000u16 {
            let nid = format!("10.0.{}.{}@o2ib", number / 250, number % 250);
            let peer = Some(nid.parse().unwrap());
            versions.note(OtherVersion { peer, version: 3 });
        }
        let told = std::iter::from_fn(|| versions.next());
        assert_eq!(told.count(), PEERS_MAX);
    }
}
