//! Random numbers whose sequences never change. A change of any line here changes the meaning of every seed that was
//! ever reported; the test below checks the first numbers.

use lnet_types::SplitMix64;

/// A stream of random numbers.
#[derive(Clone, Debug)]
pub struct Random(SplitMix64);

impl Random {
    /// Returns the stream of a seed.
    #[must_use]
    pub const fn new(seed: u64) -> Self {
        Self(SplitMix64::new(seed))
    }

    /// Returns a separate stream for one purpose. Drawing more numbers for one purpose does not change the numbers
    /// of the others.
    #[must_use]
    pub fn stream(seed: u64, purpose: u64) -> Self {
        let mut random = Self::new(seed ^ purpose.wrapping_mul(0xD6E8_FEB8_6659_FD93));
        Self::new(random.number())
    }

    /// Returns a number of 64 bits.
    pub fn number(&mut self) -> u64 {
        self.0.number()
    }

    /// Returns a number below `limit`, or 0 if `limit` is 0.
    pub fn below(&mut self, limit: u64) -> u64 {
        self.0.below(limit)
    }

    /// Returns a number from `low` to `high`, both included.
    pub fn within(&mut self, low: u64, high: u64) -> u64 {
        low + self.below(high.saturating_sub(low).saturating_add(1))
    }

    /// Returns true once in `times` calls on average; never if `times` is 0.
    pub fn one_in(&mut self, times: u64) -> bool {
        times > 0 && self.below(times) == 0
    }

    /// Returns one of the elements; `None` if there are none.
    pub fn of<'a, T>(&mut self, all: &'a [T]) -> Option<&'a T> {
        all.get(self.below(all.len() as u64) as usize)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_seed_means_the_same_for_ever() {
        let mut random = Random::new(1);
        let numbers = [random.number(), random.number(), random.number()];
        let known = [
            0x910A_2DEC_8902_5CC1,
            0xBEEB_8DA1_658E_EC67,
            0xF893_A2EE_FB32_555E,
        ];
        assert_eq!(numbers, known);
        assert_eq!(Random::stream(1, 2).number(), 0x8D10_F305_32EE_B7D4);
    }

    #[test]
    fn numbers_stay_within_their_limits() {
        let mut random = Random::new(7);
        for _ in 0..1000 {
            assert!(random.below(3) < 3);
            assert!((4..=6).contains(&random.within(4, 6)));
        }
        assert_eq!(random.below(0), 0);
        assert!(!random.one_in(0));
        assert!(random.one_in(1));
        assert_eq!(random.of::<u8>(&[]), None);
    }
}
