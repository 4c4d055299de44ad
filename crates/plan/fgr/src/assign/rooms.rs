//! How many clients each router takes for each net, so that router nodes are loaded equally.
//!
//! ```text
//!   net 1: r1 ▒▒   r2 ▒▒▒▒▒▒       r1 is a router of both nets: it takes fewer clients for each, and
//!   net 2: r1 ▒▒   r3 ▒▒▒▒▒▒       as many together as the others for their one net
//! ```

use std::collections::BTreeMap;

use crate::machine::Machine;

/// Rounds in which shares are matched to loads: enough for loads that differ by less than a client.
const ROUNDS: usize = 200;

/// Returns for each net the clients of each of its usable routers, rounded down. If the nodes serve
/// different numbers of data nets, those that serve more take fewer clients for each net, as far as
/// other routers of the net exist.
pub(super) fn rooms(machine: &Machine, usable: &[Vec<u16>]) -> Vec<Vec<u32>> {
    // Clients are numbered in 32 bits, routers in 16.
    let clients = machine.clients.len() as u32;
    let equal = usable
        .iter()
        .map(|routers| vec![clients / (routers.len() as u32).max(1); routers.len()]);
    let mut rooms: Vec<Vec<u32>> = equal.collect();
    let node_of = machine.nodes_of_routers();
    let node = |router: &u16| node_of[usize::from(*router)];
    let nets: Vec<usize> = machine.data_nets().collect();
    let mut served: BTreeMap<u16, usize> = BTreeMap::new();
    for router in nets.iter().flat_map(|&net| &usable[net]) {
        *served.entry(node(router)).or_default() += 1;
    }
    let mut counts = served.values();
    let first = counts.next();
    if counts.all(|count| Some(count) == first) {
        return rooms;
    }
    let mut shares: Vec<Vec<f64>> = nets
        .iter()
        .map(|&net| vec![1.0; usable[net].len()])
        .collect();
    for _ in 0..ROUNDS {
        let mut loads: BTreeMap<u16, f64> = BTreeMap::new();
        for (shares, &net) in shares.iter_mut().zip(&nets) {
            let scale = f64::from(clients) / shares.iter().sum::<f64>();
            for (share, router) in shares.iter_mut().zip(&usable[net]) {
                *share *= scale;
                *loads.entry(node(router)).or_default() += *share;
            }
        }
        for (shares, &net) in shares.iter_mut().zip(&nets) {
            for (share, router) in shares.iter_mut().zip(&usable[net]) {
                *share /= loads[&node(router)];
            }
        }
    }
    for (shares, &net) in shares.iter().zip(&nets) {
        let scale = f64::from(clients) / shares.iter().sum::<f64>();
        // A share that is a whole number may be a little less after the rounds.
        let whole = shares.iter().map(|share| (share * scale + 1e-6) as u32);
        rooms[net] = whole.collect();
    }
    rooms
}
