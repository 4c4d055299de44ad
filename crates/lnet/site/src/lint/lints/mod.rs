//! The lints, one function for each.
//!
//! A lint is a function of one node or of all nodes. No lint chooses a path. The content of a rejected part of a
//! document is not known, so no lint draws a conclusion from what is absent there.

mod document;
mod errnos;
mod globals;
mod interfaces;
mod kernel;
mod kinds;
mod log;
mod loops;
mod messages;
mod named;
mod nets;
mod observed;
mod parameters;
mod peers;
mod places;
mod presence;
mod routes;
mod rules;
mod site;

use crate::lint::finding::Finding;
use crate::lint::node::Node;

pub(super) use log::is_log;
pub use places::is_virtual;

/// A lint of one node.
type Search = fn(&Node<'_>) -> Vec<Finding>;
/// A lint across nodes.
type SiteSearch = fn(&[Node<'_>]) -> Vec<Finding>;

const SEARCHES: [Search; 50] = [
    document::unreadable,
    document::import_refused,
    document::unknown_key,
    document::first_interface,
    document::option_mistaken,
    interfaces::interface_missing,
    interfaces::interface_down,
    interfaces::rdma_device_missing,
    interfaces::shared_device,
    interfaces::ni_down,
    places::loopback_interface,
    places::virtual_interface,
    places::nid_not_of_interface,
    interfaces::one_subnet,
    interfaces::host_prefixes,
    interfaces::subnets_apart,
    interfaces::ip2nets_host_match,
    interfaces::ip2nets_passed_over,
    nets::cpt_excludes_device,
    nets::mixed_tunables,
    nets::mixed_fabrics,
    nets::credits_too_few,
    nets::watermark_replaced,
    nets::memlock,
    routes::route_passed_over,
    routes::hop_undefined,
    routes::gateway_not_local,
    routes::route_down,
    routes::gateway_health,
    routes::discovery_off,
    peers::net_not_reached,
    peers::primary_not_reached,
    peers::primary_not_local,
    peers::peer_nets_missing,
    peers::rail_mismatch,
    observed::health_zero,
    observed::failures_counted,
    observed::credits_exhausted,
    observed::failures_rise,
    observed::messages_failed,
    kernel::kernel_message,
    rules::rule_dead,
    rules::rule_without_effect,
    rules::pair_does_not_attract,
    rules::priorities_conflict,
    rules::rule_import,
    globals::health_off,
    globals::sensitivity_drains,
    globals::timeouts_misaligned,
    globals::recovery_limit_short,
];

const SITE_SEARCHES: [SiteSearch; 19] = [
    site::mtu_differs,
    site::queue_depth_differs,
    site::map_on_demand_differs,
    places::wrong_interface,
    places::outside_subnet,
    places::prefix_differs,
    site::nid_claimed_twice,
    presence::net_alone,
    presence::route_net_missing,
    presence::peer_missing,
    presence::port_differs,
    kinds::routes_differ,
    site::gateway_missing,
    site::gateway_not_routing,
    site::gateway_lacks_net,
    site::one_sided_route,
    site::asymmetric_route,
    loops::router_loop,
    parameters::parameters_differ,
];

/// Returns all findings, in the order of the lints.
pub(crate) fn all(nodes: &[Node<'_>]) -> Vec<Finding> {
    let single = SEARCHES
        .iter()
        .flat_map(|search| nodes.iter().flat_map(search));
    let of_site = SITE_SEARCHES.iter().flat_map(|search| search(nodes));
    single.chain(of_site).collect()
}
