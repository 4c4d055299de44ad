//! The order of the gateways for an operation.

use crate::spread::table::Identity;

/// How operations are distributed among the gateways. The mode selects the first gateway of an operation. The others
/// follow for failover in the order of the list, from this gateway on.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Mode {
    /// The first gateway. The others stand by.
    Serial,
    /// The identity of a file selects the gateway. Operations on names go to the gateway of the directory.
    Cluster,
    /// Like [`Mode::Cluster`], but for reads and writes the identity and the block together select the gateway.
    Stripe,
    /// The gateway with the fewest operations in flight. All changes are rejected with `EROFS`.
    LoadBalance,
}

/// Returns all gateways in order, from `first` on.
pub(crate) fn from_first(first: usize, gateways: usize) -> Vec<usize> {
    (0..gateways)
        .map(|step| (first + step) % gateways)
        .collect()
}

/// Returns the gateway of an object, which is the same for every client.
pub(crate) fn home(identity: Identity, gateways: usize) -> usize {
    (scatter(identity.file) % gateways as u64) as usize
}

/// Returns the gateway of a block of a file.
pub(crate) fn of_block(home: usize, offset: u64, block: u64, gateways: usize) -> usize {
    ((home as u64 + (offset / block) % gateways as u64) % gateways as u64) as usize
}

/// Returns the gateways by their number of operations in flight. Equal gateways follow in turn, from `turn` on.
pub(crate) fn by_load(under_way: &[usize], turn: usize) -> Vec<usize> {
    let mut order = from_first(turn % under_way.len(), under_way.len());
    order.sort_by_key(|&gateway| under_way[gateway]);
    order
}

/// Hashes a number, so that neighbouring numbers give unrelated results (the finalizer of SplitMix64).
fn scatter(number: u64) -> u64 {
    let mut z = number.wrapping_add(0x9E37_79B9_7F4A_7C15);
    z = (z ^ (z >> 30)).wrapping_mul(0xBF58_476D_1CE4_E5B9);
    z = (z ^ (z >> 27)).wrapping_mul(0x94D0_49BB_1331_11EB);
    z ^ (z >> 31)
}
