//! The `route` section.

use lnet_types::Net;
use lnet_types::expr::NidList;

use super::PlacedRoute;
use super::fields::mapping_of;
use super::reader::Reader;
use super::shown::status;
use crate::document::{RouteShow, RouteType, Status};
use crate::error::{Fault, Place, Problem};
use crate::yaml::{Entry, Node};

/// The most NIDs of one command.
// [CONF-7]
const MAX_GATEWAYS: usize = 128;

const KEYS: [&str; 4] = ["net", "gateway", "hop", "priority"];

/// Keys that exports print and imports ignore.
const OUTPUT: [&str; 3] = ["health_sensitivity", "state", "type"];

pub(super) fn routes(section: &Entry<'_>, reader: &mut Reader) -> Result<Vec<PlacedRoute>, Fault> {
    let routes = reader.each(section, entry_routes)?;
    Ok(routes.into_iter().flatten().collect())
}

/// The values of one entry's keys.
#[derive(Default)]
struct Fields<'n, 'a> {
    net: Option<&'n Entry<'a>>,
    gateway: Option<&'n Entry<'a>>,
    hop: Option<u8>,
    priority: Option<u32>,
    health_sensitivity: Option<u32>,
    state: Option<Status>,
    kind: Option<RouteType>,
}

/// The routes of one entry, one for each gateway; `None` if its network or its gateways were
/// rejected.
// [CONF-27]
fn entry_routes(item: &Node<'_>, reader: &mut Reader) -> Result<Option<Vec<PlacedRoute>>, Fault> {
    let fields = fields(item, reader)?;
    let net_entry = required(fields.net, "net", item.place)?;
    let gateway_entry = required(fields.gateway, "gateway", item.place)?;
    let net = reader.attempt(|_| net_entry.parse::<Net>())?;
    let gateways = reader.attempt(|_| {
        let list = gateway_entry.parse::<NidList>()?.expand(MAX_GATEWAYS);
        list.map_err(|error| gateway_entry.invalid_value(error))
    })?;
    let Some((net, gateways)) = net.zip(gateways) else {
        return Ok(None);
    };
    let routes = gateways.into_iter().map(|gateway| PlacedRoute {
        route: RouteShow {
            net,
            gateway,
            hop: fields.hop,
            priority: fields.priority,
            health_sensitivity: fields.health_sensitivity,
            state: fields.state,
            kind: fields.kind,
        },
        net_place: net_entry.node.place,
        gateway_place: gateway_entry.node.place,
    });
    Ok(Some(routes.collect()))
}

fn fields<'n, 'a>(item: &'n Node<'a>, reader: &mut Reader) -> Result<Fields<'n, 'a>, Fault> {
    let mut fields = Fields::default();
    for entry in mapping_of(item, "route")? {
        match entry.key.as_ref() {
            "net" => fields.net = Some(entry),
            "gateway" => fields.gateway = Some(entry),
            "hop" => fields.hop = reader.attempt(|_| hop(entry))?.flatten(),
            "priority" => fields.priority = reader.attempt(|_| entry.unsigned(0..=u32::MAX))?,
            key if OUTPUT.contains(&key) && !reader.shows() => {}
            "health_sensitivity" => {
                fields.health_sensitivity = reader.attempt(|_| entry.unsigned(0..=u32::MAX))?;
            }
            "state" => fields.state = reader.attempt(|_| status(entry))?,
            "type" => fields.kind = reader.attempt(|_| kind(entry))?,
            _ => reader.unknown(entry, &KEYS)?,
        }
    }
    Ok(fields)
}

fn kind(entry: &Entry<'_>) -> Result<RouteType, Fault> {
    match entry.text()? {
        "single-hop" => Ok(RouteType::SingleHop),
        "multi-hop" => Ok(RouteType::MultiHop),
        _ => Err(entry.invalid_value("it is single-hop or multi-hop")),
    }
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
