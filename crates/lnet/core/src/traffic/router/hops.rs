//! The share of the router's buffers that messages for one next hop may hold.
//!
//! A slow next hop fills buffers at the speed of the nodes that send to it. Without a limit its messages would hold
//! all buffers, and the router could forward nothing else. Messages above the share wait on their connections in the
//! order of arrival, like messages that find no free buffer.

use lnet_types::Nid;
use rustc_hash::FxHashMap;

use crate::ground::credits::Credits;
use crate::ground::io::{RouterPool, RxId};

/// The shares of all next hops that hold buffers.
#[derive(Debug, Default)]
pub(crate) struct Hops {
    by_hop: FxHashMap<(Nid, RouterPool), Credits<RxId>>,
}

impl Hops {
    /// Counts a buffer against a next hop that has fewer than `limit`, or queues the message behind the others.
    /// Returns whether it was counted.
    pub(in crate::traffic) fn take(
        &mut self,
        hop: Nid,
        pool: RouterPool,
        limit: u32,
        message: RxId,
    ) -> bool {
        let share = self.by_hop.entry((hop, pool)).or_default();
        share.take_or_wait(message, limit)
    }

    /// Takes a buffer back. Returns false if it was not counted.
    #[must_use]
    pub(in crate::traffic) fn release(&mut self, hop: Nid, pool: RouterPool) -> bool {
        let share = self.by_hop.get_mut(&(hop, pool));
        share.is_some_and(Credits::release)
    }

    /// Counts a buffer for the message that has waited longest, if the share allows one more.
    pub(in crate::traffic) fn take_next(
        &mut self,
        hop: Nid,
        pool: RouterPool,
        limit: u32,
    ) -> Option<RxId> {
        let share = self.by_hop.get_mut(&(hop, pool))?;
        let next = share.take_next(limit);
        if share.are_idle() {
            self.by_hop.remove(&(hop, pool));
        }
        next
    }

    /// Removes a message from the queue.
    pub(in crate::traffic) fn leave(&mut self, hop: Nid, pool: RouterPool, message: RxId) {
        if let Some(share) = self.by_hop.get_mut(&(hop, pool)) {
            share.leave(message);
        }
    }

    #[cfg(test)]
    pub(crate) fn is_empty(&self) -> bool {
        self.by_hop.is_empty()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const POOL: RouterPool = RouterPool::Small;

    fn release(hops: &mut Hops, limit: u32) -> Option<RxId> {
        assert!(hops.release(Nid::LOOPBACK, POOL));
        hops.take_next(Nid::LOOPBACK, POOL, limit)
    }

    #[test]
    fn what_is_above_the_share_goes_on_in_the_order_of_its_arrival() {
        let mut hops = Hops::default();
        let hop = Nid::LOOPBACK;
        let took: Vec<bool> = (0..4).map(|id| hops.take(hop, POOL, 2, RxId(id))).collect();
        assert_eq!(took, [true, true, false, false]);
        assert_eq!(release(&mut hops, 2), Some(RxId(2)));
        hops.leave(hop, POOL, RxId(3));
        for _ in 0..2 {
            assert_eq!(release(&mut hops, 2), None);
        }
        assert!(hops.is_empty());
    }

    #[test]
    fn each_pool_has_a_share_of_its_own() {
        let mut hops = Hops::default();
        assert!(hops.take(Nid::LOOPBACK, RouterPool::Small, 1, RxId(1)));
        assert!(hops.take(Nid::LOOPBACK, RouterPool::Large, 1, RxId(2)));
    }

    #[test]
    fn a_share_that_shrinks_lets_nobody_in_until_enough_came_back() {
        let mut hops = Hops::default();
        let hop = Nid::LOOPBACK;
        for id in 0..3 {
            hops.take(hop, POOL, 2, RxId(id));
        }
        assert_eq!(release(&mut hops, 1), None);
        assert_eq!(release(&mut hops, 1), Some(RxId(2)));
    }
}
