//! The generator of numbers from a seed that the workspace shares.

/// A generator of numbers whose sequences never change: SplitMix64 (Steele, Lea, Flood 2014), in integers only.
///
/// The state grows by the same number each time, and a number is the state mixed by two xor-shift-multiply steps.
/// Not for secrets: one number reveals all others. A change of any line here changes the meaning of every seed that
/// was ever reported.
#[derive(Clone, Debug)]
pub struct SplitMix64(u64);

impl SplitMix64 {
    /// Returns the generator of a seed.
    #[must_use]
    pub const fn new(seed: u64) -> Self {
        Self(seed)
    }

    /// Returns the seed from which the sequence continues.
    #[must_use]
    pub const fn seed(&self) -> u64 {
        self.0
    }

    /// Returns a number of 64 bits.
    pub const fn number(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9E37_79B9_7F4A_7C15);
        let mut mixed = self.0;
        mixed = (mixed ^ (mixed >> 30)).wrapping_mul(0xBF58_476D_1CE4_E5B9);
        mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94D0_49BB_1331_11EB);
        mixed ^ (mixed >> 31)
    }

    /// Returns a number below `limit`, or 0 if `limit` is 0: the upper half of the 128-bit product of a number and
    /// the limit. The bias is below 2^-64 times the limit.
    pub fn below(&mut self, limit: u64) -> u64 {
        ((u128::from(self.number()) * u128::from(limit)) >> 64) as u64
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_seed_means_the_same_for_ever() {
        let mut random = SplitMix64::new(1);
        let numbers = [random.number(), random.number(), random.number()];
        let known = [
            0x910A_2DEC_8902_5CC1,
            0xBEEB_8DA1_658E_EC67,
            0xF893_A2EE_FB32_555E,
        ];
        assert_eq!(numbers, known);
        let mut again = SplitMix64::new(random.seed());
        assert_eq!(again.number(), random.number());
    }

    #[test]
    fn numbers_stay_below_their_limit() {
        let mut random = SplitMix64::new(7);
        for _ in 0..1000 {
            assert!(random.below(3) < 3);
        }
        assert_eq!(random.below(0), 0);
    }
}
