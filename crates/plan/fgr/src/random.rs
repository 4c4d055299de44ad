//! Random numbers that are the same for equal seeds, on every machine and in every release.

/// The SplitMix64 generator.
pub(crate) struct SplitMix(pub(crate) u64);

impl SplitMix {
    /// Moves `count` random items to the front, each equally likely: the first steps of a
    /// Fisher-Yates shuffle. Another draw continues from the resulting order.
    pub(crate) fn draw<T>(&mut self, items: &mut [T], count: usize) {
        for chosen in 0..count.min(items.len()) {
            let rest = (items.len() - chosen) as u64;
            items.swap(chosen, chosen + self.below(rest) as usize);
        }
    }

    /// Returns a number below `limit`, which must be at least 1. The bias of the multiplication is
    /// below 2^-40 for any number of clients.
    pub(crate) fn below(&mut self, limit: u64) -> u64 {
        self.0 = self.0.wrapping_add(0x9E37_79B9_7F4A_7C15);
        let mut mixed = self.0;
        mixed = (mixed ^ (mixed >> 30)).wrapping_mul(0xBF58_476D_1CE4_E5B9);
        mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94D0_49BB_1331_11EB);
        mixed ^= mixed >> 31;
        // The upper half of a product of two 64-bit numbers is below the second of them.
        ((u128::from(mixed) * u128::from(limit)) >> 64) as u64
    }
}
