//! The router's buffer pools (section 8.6).
//!
//! A pool hands out numbers; the caller owns the memory and allocates it when it first sees a number.
//! The lowest free number goes first, so that a router which never has more than a few messages at
//! once never has more than a few buffers of memory.

use std::collections::VecDeque;

use crate::config::RouterBuffers;
use crate::io::{RouterBuffer, RouterPool, RxId};

/// The three pools.
#[derive(Debug)]
pub(crate) struct Pools([Pool; 3]);

/// One pool.
#[derive(Debug)]
pub(crate) struct Pool {
    /// Numbers below this are handed out.
    pub(crate) total: u32,
    /// One bit a number, set while it is out; grows with use.
    used: Vec<u64>,
    /// No word before this one has a free bit.
    first_free_word: usize,
    pub(crate) in_use: u32,
    /// The most that ever were out or waited for.
    pub(crate) most: u32,
    /// Messages that wait for a buffer.
    pub(crate) waiting: VecDeque<RxId>,
}

impl RouterPool {
    /// All pools, smallest buffers first.
    pub const ALL: [Self; 3] = [Self::Tiny, Self::Small, Self::Large];

    /// The pool for a payload of this many bytes, of at most 1 MiB.
    pub(crate) fn for_length(length: u32) -> Self {
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

    pub(crate) fn resize(&mut self, buffers: RouterBuffers) {
        self.get_mut(RouterPool::Tiny).total = buffers.tiny;
        self.get_mut(RouterPool::Small).total = buffers.small;
        self.get_mut(RouterPool::Large).total = buffers.large;
    }

    pub(crate) fn get(&self, pool: RouterPool) -> &Pool {
        &self.0[pool as usize]
    }

    /// No message is in a buffer.
    pub(crate) fn are_free(&self) -> bool {
        self.0.iter().all(|pool| pool.in_use == 0)
    }

    pub(crate) fn get_mut(&mut self, pool: RouterPool) -> &mut Pool {
        &mut self.0[pool as usize]
    }

    /// Takes the lowest free buffer.
    pub(crate) fn take(&mut self, pool: RouterPool) -> Option<RouterBuffer> {
        self.get_mut(pool)
            .take()
            .map(|index| RouterBuffer { pool, index })
    }

    /// False when the buffer was not out.
    pub(crate) fn release(&mut self, buffer: RouterBuffer) -> bool {
        self.get_mut(buffer.pool).release(buffer.index)
    }
}

impl Pool {
    fn new() -> Self {
        Self {
            total: 0,
            used: Vec::new(),
            first_free_word: 0,
            in_use: 0,
            most: 0,
            waiting: VecDeque::new(),
        }
    }

    fn take(&mut self) -> Option<u32> {
        while self
            .used
            .get(self.first_free_word)
            .is_some_and(|&word| word == u64::MAX)
        {
            self.first_free_word += 1;
        }
        let word = self.used.get(self.first_free_word).copied().unwrap_or(0);
        let bit = word.trailing_ones();
        let index = u32::try_from(self.first_free_word * 64).ok()? + bit;
        if index >= self.total {
            return None;
        }
        if self.first_free_word == self.used.len() {
            self.used.push(0);
        }
        self.used[self.first_free_word] |= 1 << bit;
        self.in_use += 1;
        self.note_demand();
        Some(index)
    }

    fn release(&mut self, index: u32) -> bool {
        let word = index as usize / 64;
        let bit = 1 << (index % 64);
        let Some(bits) = self.used.get_mut(word).filter(|bits| **bits & bit != 0) else {
            return false;
        };
        *bits &= !bit;
        self.first_free_word = self.first_free_word.min(word);
        self.in_use -= 1;
        true
    }

    pub(crate) fn note_demand(&mut self) {
        self.most = self
            .most
            .max(self.in_use.saturating_add(self.waiting.len() as u32));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn pool(total: u32) -> Pool {
        Pool {
            total,
            ..Pool::new()
        }
    }

    #[test]
    fn the_lowest_free_number_goes_first() {
        let mut pool = pool(200);
        let taken: Vec<_> = (0..130).map_while(|_| pool.take()).collect();
        assert_eq!(taken, (0..130).collect::<Vec<_>>());
        pool.release(70);
        pool.release(3);
        assert_eq!(pool.take(), Some(3));
        assert_eq!(pool.take(), Some(70));
        assert_eq!(pool.take(), Some(130));
    }

    #[test]
    fn a_pool_that_shrinks_takes_back_what_is_out_and_grows_again() {
        let mut pool = pool(3);
        for _ in 0..3 {
            pool.take().unwrap();
        }
        pool.total = 1;
        pool.release(2);
        pool.release(1);
        assert_eq!(pool.take(), None);
        pool.release(0);
        assert_eq!(pool.take(), Some(0));
        pool.total = 2;
        assert_eq!(pool.take(), Some(1));
        assert_eq!(pool.take(), None);
    }

    #[test]
    fn releasing_twice_frees_once() {
        let mut pool = pool(1);
        pool.take().unwrap();
        assert!(pool.release(0));
        assert!(!pool.release(0));
        assert_eq!(pool.in_use, 0);
    }
}
