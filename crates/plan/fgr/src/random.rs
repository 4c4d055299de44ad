//! Draws that are the same for equal seeds, on every machine and in every release.

use lnet_types::SplitMix64;

/// Moves `count` random items to the front, each equally likely: the first steps of a Fisher-Yates
/// shuffle. Another draw continues from the resulting order.
pub(crate) fn draw<T>(random: &mut SplitMix64, items: &mut [T], count: usize) {
    for chosen in 0..count.min(items.len()) {
        let rest = (items.len() - chosen) as u64;
        items.swap(chosen, chosen + random.below(rest) as usize);
    }
}
