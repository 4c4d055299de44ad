//! Which gateway is asked first, and which ones after it.

use crate::table::Identity;

/// How operations are shared out among the gateways. Each of them is a first choice; the others follow as
/// failover in the order of the list, from that one on.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Mode {
    /// The first gateway; the others stand by.
    Serial,
    /// The identity of a file picks the gateway; operations on names go to that of the directory.
    Cluster,
    /// As [`Mode::Cluster`], except that identity and block together pick the gateway of reads and writes.
    Stripe,
    /// The gateway with the fewest operations under way; nothing can be changed (`EROFS`).
    LoadBalance,
}

/// All gateways from the first choice on.
pub(crate) fn from_first(first: usize, gateways: usize) -> Vec<usize> {
    (0..gateways)
        .map(|step| (first + step) % gateways)
        .collect()
}

/// The gateway of an object: the same for every client.
pub(crate) fn home(identity: Identity, gateways: usize) -> usize {
    (scatter(identity.file) % gateways as u64) as usize
}

/// The gateway of a block of a file.
pub(crate) fn of_block(home: usize, offset: u64, block: u64, gateways: usize) -> usize {
    ((home as u64 + (offset / block) % gateways as u64) % gateways as u64) as usize
}

/// The gateways by the number of operations under way, beginning with the `turn`-th of those that have as many.
pub(crate) fn by_load(under_way: &[usize], turn: usize) -> Vec<usize> {
    let mut order = from_first(turn % under_way.len(), under_way.len());
    order.sort_by_key(|&gateway| under_way[gateway]);
    order
}

/// Neighbouring numbers come out far apart (the finalizer of SplitMix64).
fn scatter(number: u64) -> u64 {
    let mut z = number.wrapping_add(0x9E37_79B9_7F4A_7C15);
    z = (z ^ (z >> 30)).wrapping_mul(0xBF58_476D_1CE4_E5B9);
    z = (z ^ (z >> 27)).wrapping_mul(0x94D0_49BB_1331_11EB);
    z ^ (z >> 31)
}
