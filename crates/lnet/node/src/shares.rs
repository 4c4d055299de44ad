//! What each peer holds of a limited resource: no peer takes all of it.
//!
//! A peer is charged under two names: the NID that its request names as the source, and the NID that brought the
//! request, which is the same peer or a router. The source is a claim; the connection of the bringer is not.
//!
//! ```text
//!   limit │■■■■■■■■ of this bringer │□□□□□□ of other bringers │                free                 │
//!         │■■■ of this source │                               │◀── as much as ■■■ ──▶│◀── room ──▶│
//! ```
//!
//! A source may hold as much as its bringer leaves of the room. A bringer may hold as much as is free. So one peer gets
//! at most a third, a router with all the peers behind it at most a half, and a peer that holds nothing finds room
//! beside any of them.

use std::collections::BTreeMap;
use std::collections::btree_map::Entry;

use lnet_types::Nid;

/// The peer that a request is charged to.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Payer {
    /// The source that the request names.
    pub source: Nid,
    /// The NID that the request was received from: a NID of the source's node, or of a router.
    pub bringer: Nid,
}

/// A limited resource, and who holds how much of it.
#[derive(Debug)]
pub struct Shares {
    limit: usize,
    used: usize,
    sources: BTreeMap<Nid, usize>,
    bringers: BTreeMap<Nid, usize>,
}

impl Shares {
    /// Returns the shares of a resource of which there is as much as `limit`, in any unit.
    #[must_use]
    pub fn new(limit: usize) -> Self {
        Self {
            limit,
            used: 0,
            sources: BTreeMap::new(),
            bringers: BTreeMap::new(),
        }
    }

    /// Returns whether this peer may take more.
    #[must_use]
    pub fn has_room(&self, payer: Payer) -> bool {
        let held = |by: &BTreeMap<Nid, usize>, nid| by.get(&nid).copied().unwrap_or_default();
        let free = self.limit.saturating_sub(self.used);
        let room = free.saturating_sub(held(&self.bringers, payer.bringer));
        held(&self.sources, payer.source) < room
    }

    /// Charges an amount to a peer, also beyond what the peer may take.
    pub fn take(&mut self, payer: Payer, amount: usize) {
        if amount > 0 {
            self.used += amount;
            *self.sources.entry(payer.source).or_default() += amount;
            *self.bringers.entry(payer.bringer).or_default() += amount;
        }
    }

    /// Takes back an amount that was charged to this peer.
    pub fn release(&mut self, payer: Payer, amount: usize) {
        self.used = self.used.saturating_sub(amount);
        lower(&mut self.sources, payer.source, amount);
        lower(&mut self.bringers, payer.bringer, amount);
    }

    /// Returns how much all peers hold.
    #[must_use]
    pub fn used(&self) -> usize {
        self.used
    }

    /// Returns how much a source holds.
    #[must_use]
    pub fn of_source(&self, source: Nid) -> usize {
        self.sources.get(&source).copied().unwrap_or_default()
    }

    /// Returns whether nobody holds anything, and nobody is remembered.
    #[must_use]
    pub fn are_free(&self) -> bool {
        self.used == 0 && self.sources.is_empty() && self.bringers.is_empty()
    }
}

fn lower(held: &mut BTreeMap<Nid, usize>, nid: Nid, amount: usize) {
    if let Entry::Occupied(mut of_nid) = held.entry(nid) {
        *of_nid.get_mut() = of_nid.get().saturating_sub(amount);
        if *of_nid.get() == 0 {
            of_nid.remove();
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn nid(number: usize) -> Nid {
        format!("10.0.{}.{}@tcp", number / 250, number % 250 + 1)
            .parse()
            .unwrap()
    }

    fn direct(number: usize) -> Payer {
        Payer {
            source: nid(number),
            bringer: nid(number),
        }
    }

    fn through(gateway: usize, number: usize) -> Payer {
        Payer {
            source: nid(number),
            bringer: nid(gateway),
        }
    }

    /// Takes as much as these peers may have, in turns. Returns what each holds.
    fn fill(shares: &mut Shares, payers: &[Payer]) -> Vec<usize> {
        loop {
            let before = shares.used();
            for &payer in payers {
                if shares.has_room(payer) {
                    shares.take(payer, 1);
                }
            }
            if shares.used() == before {
                let held = payers.iter().map(|payer| shares.of_source(payer.source));
                return held.collect();
            }
        }
    }

    #[test]
    fn one_peer_takes_a_third_and_leaves_room_to_others() {
        let mut shares = Shares::new(300);
        assert_eq!(fill(&mut shares, &[direct(1)]), [100]);
        assert!(shares.has_room(direct(2)));
        let many: Vec<Payer> = (1..20).map(direct).collect();
        fill(&mut shares, &many);
        assert!(shares.has_room(direct(20)));
    }

    #[test]
    fn forged_sources_behind_a_router_take_a_half_and_leave_room_to_other_peers() {
        let mut shares = Shares::new(300);
        let forged: Vec<Payer> = (10..1000).map(|number| through(1, number)).collect();
        fill(&mut shares, &forged);
        assert_eq!(shares.used(), 150);
        assert!(!shares.has_room(through(1, 5)));
        assert!(shares.has_room(through(2, 5)) && shares.has_room(direct(5)));
    }

    #[test]
    fn one_peer_behind_a_router_leaves_room_to_the_others_behind_it() {
        let mut shares = Shares::new(300);
        assert_eq!(fill(&mut shares, &[through(1, 5)]), [100]);
        assert!(shares.has_room(through(1, 6)));
    }

    #[test]
    fn what_is_given_back_is_free_and_its_peer_forgotten() {
        let mut shares = Shares::new(10);
        shares.take(direct(1), 12);
        assert!(!shares.has_room(direct(2)));
        shares.release(direct(1), 12);
        assert!(shares.are_free() && shares.has_room(direct(2)));
    }
}
