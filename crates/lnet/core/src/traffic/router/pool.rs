//! The router's buffer pools.
//!
//! A pool hands out numbers. The driver owns the memory, and allocates the memory of a buffer when it first sees the
//! number. The lowest free number is used first, so that a router that never has more than a few messages at once
//! never allocates more than a few buffers.

use crate::ground::config::RouterBuffers;
use crate::ground::credits::Credits;
use crate::ground::io::{RouterBuffer, RouterPool, RxId};

/// The three pools.
#[derive(Debug)]
pub(crate) struct Pools([Pool; 3]);

/// One pool.
#[derive(Debug)]
pub(crate) struct Pool {
    /// The number of buffers; buffer numbers below it are handed out.
    total: u32,
    /// One bit per number, set while the buffer is in use; grows with use.
    used: Vec<u64>,
    /// No word before this one has a free bit.
    first_free_word: usize,
    /// Credits of the pool. Each message that has a buffer holds one.
    credits: Credits<RxId>,
}

impl RouterPool {
    /// All pools, smallest buffers first.
    pub const ALL: [Self; 3] = [Self::Tiny, Self::Small, Self::Large];

    /// Returns the pool for a payload of this many bytes, at most 1 MiB.
    pub(in crate::traffic) fn for_length(length: u32) -> Self {
        match length as usize {
            0 => Self::Tiny,
            length if length <= Self::Small.buffer_len() => Self::Small,
            _ => Self::Large,
        }
    }
}

impl Pools {
    pub(crate) fn new(buffers: RouterBuffers) -> Self {
        let mut pools = Self([Pool::new(), Pool::new(), Pool::new()]);
        pools.resize(buffers);
        pools
    }

    /// Sets the numbers of buffers. Buffers beyond them are removed when they come back.
    pub(in crate::traffic) fn resize(&mut self, buffers: RouterBuffers) {
        self.get_mut(RouterPool::Tiny).total = buffers.tiny;
        self.get_mut(RouterPool::Small).total = buffers.small;
        self.get_mut(RouterPool::Large).total = buffers.large;
    }

    pub(crate) fn get(&self, pool: RouterPool) -> &Pool {
        &self.0[pool as usize]
    }

    /// Returns whether no message holds a buffer or waits for one.
    pub(crate) fn are_free(&self) -> bool {
        self.0.iter().all(|pool| pool.credits.are_idle())
    }

    fn get_mut(&mut self, pool: RouterPool) -> &mut Pool {
        &mut self.0[pool as usize]
    }

    /// Gives a message the lowest free buffer. The message waits instead if others wait or no buffer is free.
    pub(in crate::traffic) fn take_or_wait(
        &mut self,
        pool: RouterPool,
        message: RxId,
    ) -> Option<RouterBuffer> {
        let entry = self.get_mut(pool);
        if !entry.credits.take_or_wait(message, entry.total) {
            return None;
        }
        let index = entry.take_lowest();
        Some(RouterBuffer { pool, index })
    }

    /// Gives a free buffer to the message that has waited longest.
    pub(in crate::traffic) fn serve(&mut self, pool: RouterPool) -> Option<(RxId, RouterBuffer)> {
        let entry = self.get_mut(pool);
        let message = entry.credits.take_next(entry.total)?;
        let index = entry.take_lowest();
        Some((message, RouterBuffer { pool, index }))
    }

    /// Removes a message from the queue.
    pub(in crate::traffic) fn leave(&mut self, pool: RouterPool, message: RxId) {
        self.get_mut(pool).credits.leave(message);
    }

    /// Takes a buffer back. Returns false if it was not in use.
    #[must_use]
    pub(in crate::traffic) fn release(&mut self, buffer: RouterBuffer) -> bool {
        self.get_mut(buffer.pool).release(buffer.index)
    }
}

impl Pool {
    fn new() -> Self {
        Self {
            total: 0,
            used: Vec::new(),
            first_free_word: 0,
            credits: Credits::default(),
        }
    }

    /// Returns the number of buffers.
    pub(crate) fn total(&self) -> u32 {
        self.total
    }

    /// Returns the buffers left; negative by the number of messages that wait.
    pub(crate) fn credits_left(&self) -> i64 {
        self.credits.left(self.total)
    }

    /// Returns the fewest buffers that were ever left.
    pub(crate) fn fewest_credits_left(&self) -> i64 {
        self.credits.fewest_left(self.total)
    }

    /// Takes the lowest free number for a message that holds a credit. There is one below the total, because fewer are
    /// in use.
    fn take_lowest(&mut self) -> u32 {
        while self
            .used
            .get(self.first_free_word)
            .is_some_and(|&word| word == u64::MAX)
        {
            self.first_free_word += 1;
        }
        let word = self.used.get(self.first_free_word).copied().unwrap_or(0);
        let bit = word.trailing_ones();
        if self.first_free_word == self.used.len() {
            self.used.push(0);
        }
        self.used[self.first_free_word] |= 1 << bit;
        // Numbers have 32 bits, and these are below the total.
        (self.first_free_word * 64) as u32 + bit
    }

    fn release(&mut self, index: u32) -> bool {
        let word = index as usize / 64;
        let bit = 1 << (index % 64);
        let Some(bits) = self.used.get_mut(word).filter(|bits| **bits & bit != 0) else {
            return false;
        };
        *bits &= !bit;
        self.first_free_word = self.first_free_word.min(word);
        self.credits.release()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const POOL: RouterPool = RouterPool::Small;

    fn pools(small: u32) -> Pools {
        Pools::new(RouterBuffers {
            small,
            ..RouterBuffers::default()
        })
    }

    fn resize(pools: &mut Pools, small: u32) {
        pools.resize(RouterBuffers {
            small,
            ..RouterBuffers::default()
        });
    }

    fn take(pools: &mut Pools, message: u64) -> Option<u32> {
        let buffer = pools.take_or_wait(POOL, RxId(message))?;
        Some(buffer.index)
    }

    fn release(pools: &mut Pools, index: u32) -> bool {
        pools.release(RouterBuffer { pool: POOL, index })
    }

    #[test]
    fn the_lowest_free_number_goes_first() {
        let mut pools = pools(200);
        let taken: Vec<_> = (0..130).map_while(|id| take(&mut pools, id)).collect();
        assert_eq!(taken, (0..130).collect::<Vec<_>>());
        assert!(release(&mut pools, 70) && release(&mut pools, 3));
        let again = [130, 131, 132].map(|id| take(&mut pools, id));
        assert_eq!(again, [Some(3), Some(70), Some(130)]);
    }

    #[test]
    fn a_pool_that_shrinks_takes_back_what_is_out_and_grows_again() {
        let mut pools = pools(3);
        for id in 0..3 {
            take(&mut pools, id).unwrap();
        }
        resize(&mut pools, 1);
        assert_eq!(take(&mut pools, 3), None);
        assert!(release(&mut pools, 2) && release(&mut pools, 1));
        assert_eq!(pools.serve(POOL), None);
        assert!(release(&mut pools, 0));
        let buffer = RouterBuffer {
            pool: POOL,
            index: 0,
        };
        assert_eq!(pools.serve(POOL), Some((RxId(3), buffer)));
        resize(&mut pools, 2);
        assert_eq!(take(&mut pools, 4), Some(1));
        assert_eq!(take(&mut pools, 5), None);
        assert_eq!(pools.get(POOL).credits_left(), -1);
    }

    #[test]
    fn releasing_twice_frees_once() {
        let mut pools = pools(1);
        take(&mut pools, 1).unwrap();
        assert!(release(&mut pools, 0));
        assert!(!release(&mut pools, 0));
        assert!(pools.are_free());
    }

    #[test]
    fn a_message_that_has_left_gets_no_buffer() {
        let mut pools = pools(1);
        take(&mut pools, 1).unwrap();
        assert_eq!([2, 3].map(|id| take(&mut pools, id)), [None, None]);
        pools.leave(POOL, RxId(2));
        assert!(release(&mut pools, 0));
        let served = pools.serve(POOL).map(|(message, _)| message);
        assert_eq!(served, Some(RxId(3)));
    }
}
