//! The lnet.conf that this machine needs for a file system.

use std::collections::BTreeMap;
use std::fmt::Write as _;
use std::fs;
use std::path::Path;
use std::sync::atomic::{AtomicBool, Ordering};

use lnet_config::{Config, NetConfig, NiConfig};
use lnet_node::NodeOptions;
use lnet_ptlrpc::mount::{Facts, Reach};
use lnet_types::{LndType, Net, Nid};

use super::endpoint::Endpoint;
use crate::ip::{Cut, route_unless};
use crate::rdma::{DEVICES, has_address_of};

/// The type of an InfiniBand interface, as the system has it.
const INFINIBAND: &str = "32";

/// The most nets whose interfaces are looked for.
const NETS_MAX: usize = 64;

/// The most addresses of a net whose routes are looked up.
const LOOKED_UP_MAX: usize = 16;

/// Returns the document: the nets of all NIDs with the interfaces that lead there, and the routes that this machine has.
///
/// # Errors
///
/// The user interrupts, or `ip` does not end: a part of a document would look like a whole one.
pub(super) fn document(
    facts: &Facts,
    endpoint: &Endpoint,
    stop: &AtomicBool,
) -> anyhow::Result<String> {
    let mut text = format!("# For the file system {}\n", facts.fs);
    if endpoint.port != NodeOptions::LNET_PORT {
        let port = endpoint.port;
        // Writing to a `String` cannot fail.
        let _ok = writeln!(text, "# With the module option: lnet accept_port={port}");
    }
    let given = endpoint.config().map(|config| config.routes.clone());
    let routes = given.unwrap_or_default();
    let mut config = Config::default();
    let nets = nets(facts);
    if nets.len() > NETS_MAX {
        let more = nets.len() - NETS_MAX;
        let _ok = writeln!(
            text,
            "# {more} more nets, of which no interface was looked for"
        );
    }
    for (net, nids) in nets.into_iter().take(NETS_MAX) {
        if routes.iter().any(|route| route.net == net) {
            continue;
        }
        match interfaces(net, &nids, stop)? {
            Ok(interfaces) => config.nets.push(NetConfig {
                net,
                nis: interfaces
                    .into_iter()
                    .map(|name| NiConfig {
                        interfaces: vec![name],
                        ..NiConfig::default()
                    })
                    .collect(),
            }),
            Err(why) => {
                let _ok = writeln!(text, "# {net}: {why}");
            }
        }
    }
    config.routes = routes;
    if stop.load(Ordering::Relaxed) {
        return Err(Cut::Interrupted.into());
    }
    Ok(text + &config.to_yaml())
}

/// Returns the nets of the file system, with the NIDs on each.
fn nets(facts: &Facts) -> BTreeMap<Net, Vec<Nid>> {
    let mgs = facts.mgs.iter().flat_map(|mgs| &mgs.nids);
    let targets = facts
        .targets
        .iter()
        .flat_map(|target| target.nodes.iter().flatten());
    let mut nets: BTreeMap<Net, Vec<Nid>> = BTreeMap::new();
    for Reach { nid, .. } in mgs.chain(targets) {
        if let Ok(nid) = nid.parse::<Nid>() {
            let nids = nets.entry(nid.net()).or_default();
            if !nids.contains(&nid) && nids.len() < LOOKED_UP_MAX {
                nids.push(nid);
            }
        }
    }
    nets
}

/// Returns the interfaces that lead to these NIDs, or why there are none.
///
/// # Errors
///
/// `ip` was ended.
fn interfaces(
    net: Net,
    nids: &[Nid],
    stop: &AtomicBool,
) -> anyhow::Result<Result<Vec<String>, String>> {
    let mut found = Vec::new();
    let mut why = "NIDs of this net have no address; name its interface".to_owned();
    for address in nids.iter().filter_map(|nid| nid.ip()) {
        match route_unless(stop, address, None) {
            Ok(route) if net.lnd == LndType::O2IB && !is_rdma(&route.dev) => {
                why = format!(
                    "{address} is reached through {}, which has no RDMA device: add a route to a router",
                    route.dev
                );
            }
            Ok(route) if !found.contains(&route.dev) => found.push(route.dev),
            Ok(_) => {}
            Err(error) if error.is::<Cut>() => return Err(error),
            Err(error) => why = format!("{error:#}"),
        }
    }
    Ok(match found.is_empty() {
        true => Err(why),
        false => Ok(found),
    })
}

/// Returns whether an interface is of InfiniBand, or an RDMA device has its address (RoCE).
fn is_rdma(interface: &str) -> bool {
    let kind = fs::read_to_string(format!("/sys/class/net/{interface}/type"));
    kind.is_ok_and(|kind| kind.trim() == INFINIBAND)
        || has_address_of(Path::new(DEVICES), interface)
}
