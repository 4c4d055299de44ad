//! The `route` section.

use lnet_types::Net;
use lnet_types::expr::NidList;

use super::PlacedRoute;
use super::fields::mapping_of;
use crate::error::{Fault, Place, Problem};
use crate::model::RouteConfig;
use crate::yaml::{Entry, Node};

/// NIDs that one command may name (selection, section 0.2).
const MAX_GATEWAYS: usize = 128;

const KEYS: [&str; 4] = ["net", "gateway", "hop", "priority"];

/// What exports print of a route and imports do not take.
const OUTPUT: [&str; 3] = ["health_sensitivity", "state", "type"];

pub(super) fn routes(section: &Entry<'_>) -> Result<Vec<PlacedRoute>, Fault> {
    let mut routes = Vec::new();
    for item in section.sequence()? {
        routes.extend(entry_routes(item)?);
    }
    Ok(routes)
}

/// The routes of one entry, one for each gateway.
fn entry_routes(item: &Node<'_>) -> Result<Vec<PlacedRoute>, Fault> {
    let (mut net, mut gateway, mut hop, mut priority) = (None, None, None, 0);
    for entry in mapping_of(item, "route")? {
        match entry.key.as_ref() {
            "net" => net = Some(entry),
            "gateway" => gateway = Some(entry),
            "hop" => hop = self::hop(entry)?,
            "priority" => priority = entry.unsigned(0..=u32::MAX)?,
            key if OUTPUT.contains(&key) => {}
            _ => return Err(entry.invalid_key(&KEYS)),
        }
    }
    let net_entry = required(net, "net", item.place)?;
    let gateway_entry = required(gateway, "gateway", item.place)?;
    let net: Net = net_entry.parse()?;
    let gateways = gateway_entry
        .parse::<NidList>()?
        .expand(MAX_GATEWAYS)
        .map_err(|error| gateway_entry.invalid_value(error))?;
    let routes = gateways.into_iter().map(|gateway| PlacedRoute {
        route: RouteConfig {
            net,
            gateway,
            hop,
            priority,
        },
        net_place: net_entry.node.place,
        gateway_place: gateway_entry.node.place,
    });
    Ok(routes.collect())
}

fn required<'n, 'a>(
    entry: Option<&'n Entry<'a>>,
    key: &'static str,
    place: Place,
) -> Result<&'n Entry<'a>, Fault> {
    entry.ok_or(Fault::new(place, Problem::MissingKey { key }))
}

/// 1 to 255; -1 is undefined.
fn hop(entry: &Entry<'_>) -> Result<Option<u8>, Fault> {
    let hop = entry.unsigned_or_default(1..=255)?;
    Ok(hop.and_then(|hop| u8::try_from(hop).ok()))
}
