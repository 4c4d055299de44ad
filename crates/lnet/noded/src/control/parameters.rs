//! Answers `lctl get_param`: LNet's tables and module parameters, in the form in which kernel nodes print them.

use std::fmt::Write as _;
use std::io;
use std::num::NonZero;

use lnet_config::Parameter;
use lnet_core::{Core, NiId, PeerCursor, PeerNiView, RouterPool};
use lnet_dlc::protocol::Reply;

use super::connection::Pieces;
use super::request::failure;
use crate::managed::{Configured, ManagedNode};

const ENOENT: i32 = 2;

/// Peers that are read under one lock, which takes some 100 µs.
const PEERS_PER_PAGE: usize = 64;

/// Returns a parameter that does not change while the node runs.
fn constant(node: &ManagedNode, name: &str) -> Option<String> {
    Some(match name {
        // Connections of every type come to one port.
        "accept_port" | "accept_port_bulk" => node.options().port.to_string(),
        // There is one partition, with every CPU that the process may use.
        "cpu_partition_table" => {
            let count = std::thread::available_parallelism().map_or(1, NonZero::get);
            let cpus: Vec<String> = (0..count).map(|cpu| cpu.to_string()).collect();
            format!("0\t: {}\n", cpus.join(" "))
        }
        // A node that answers is healthy: kernels report here what targets of Lustre have.
        "health_check" => "healthy".to_owned(),
        "version" => env!("CARGO_PKG_VERSION").to_owned(),
        _ => return None,
    })
}

/// Sends the value of a parameter; a table ends with a newline, a single value does not.
pub(super) fn tell(node: &ManagedNode, name: &str, send: Pieces<'_>) -> io::Result<Reply> {
    if name == "peers" {
        return peers(node, send);
    }
    if let Some(value) = constant(node, name) {
        send(Reply::Text(value))?;
        return Ok(Reply::Done);
    }
    let value = node.with(|node, _| table(node.core(), name).or_else(|| parameter(node, name)));
    let Some(value) = value else {
        let descr = format!("{name}: no such parameter");
        return Ok(failure("get", "param", -ENOENT, descr));
    };
    send(Reply::Text(value))?;
    Ok(Reply::Done)
}

fn table(core: &Core, name: &str) -> Option<String> {
    let mut text = String::new();
    // Writing into a string cannot fail.
    let _done = match name {
        "routers" => routers(core, &mut text),
        "routes" => routes(core, &mut text),
        "nis" => nis(core, &mut text),
        "buffers" => buffers(core, &mut text),
        "stats" => stats(core, &mut text),
        _ => return None,
    };
    Some(text)
}

const fn up_or_down(up: bool) -> &'static str {
    if up { "up" } else { "down" }
}

fn routers(core: &Core, out: &mut String) -> std::fmt::Result {
    writeln!(out, "{:<4} {:>7} {:>5} router", "ref", "rtr_ref", "alive")?;
    let mut gateways: Vec<_> = core.routes().map(|route| route.route.gateway).collect();
    gateways.sort_unstable();
    for together in gateways.chunk_by(|one, other| one == other) {
        let Some(&gateway) = together.first() else {
            continue;
        };
        let alive = core
            .routes()
            .any(|route| route.route.gateway == gateway && route.alive);
        let routes = together.len();
        let alive = up_or_down(alive);
        writeln!(out, "{:<4} {routes:>7} {alive:>5} {gateway}", routes + 2)?;
    }
    Ok(())
}

fn routes(core: &Core, out: &mut String) -> std::fmt::Result {
    let routing = if core.is_routing_on() {
        "enabled"
    } else {
        "disabled"
    };
    writeln!(out, "Routing {routing}")?;
    let [net, hops, priority, state] = ["net", "hops", "priority", "state"];
    writeln!(out, "{net:<8} {hops:>4} {priority:>8} {state:>7} router")?;
    for view in core.routes() {
        let route = view.route;
        let hops = route.hops.map_or(-1, i16::from);
        let state = up_or_down(view.alive);
        let (net, priority, gateway) = (route.net.to_string(), route.priority, route.gateway);
        writeln!(out, "{net:<8} {hops:>4} {priority:>8} {state:>7} {gateway}")?;
    }
    Ok(())
}

fn nis(core: &Core, out: &mut String) -> std::fmt::Result {
    let [nid, status, alive, refs, peer, rtr, max, tx, min] = [
        "nid", "status", "alive", "refs", "peer", "rtr", "max", "tx", "min",
    ];
    writeln!(
        out,
        "{nid:<24} {status:>6} {alive:>5} {refs:>4} {peer:>4} {rtr:>4} {max:>5} {tx:>5} {min:>5}"
    )?;
    for view in core.nis() {
        let is_loopback = view.id == NiId::LOOPBACK;
        let limits = view.tunables;
        let status = up_or_down(view.up);
        let (alive, refs) = if is_loopback { (0, 2) } else { (-1, 1) };
        let (peer, rtr) = (limits.peer_credits, limits.peer_buffer_credits);
        let (max, tx, min) = (limits.credits, view.tx_credits, view.min_tx_credits);
        let nid = view.nid.to_string();
        writeln!(
            out,
            "{nid:<24} {status:>6} {alive:>5} {refs:>4} {peer:>4} {rtr:>4} {max:>5} {tx:>5} {min:>5}"
        )?;
    }
    Ok(())
}

fn buffers(core: &Core, out: &mut String) -> std::fmt::Result {
    let [pages, count, credits, min] = ["pages", "count", "credits", "min"];
    writeln!(out, "{pages:>5} {count:>5} {credits:>7} {min:>7}")?;
    for view in core.router_pools() {
        let pages = match view.pool {
            RouterPool::Tiny => 0,
            RouterPool::Small => 1,
            RouterPool::Large => 256,
        };
        let (count, credits, min) = (view.buffers, view.credits, view.min_credits);
        writeln!(out, "{pages:>5} {count:>5} {credits:>7} {min:>7}")?;
    }
    Ok(())
}

/// Prints the counters in the order of the selftest's statistics reply.
fn stats(core: &Core, out: &mut String) -> std::fmt::Result {
    let counters = core.counters();
    let numbers = [
        counters.msgs_alloc,
        counters.msgs_max,
        counters.errors,
        counters.send_count,
        counters.recv_count,
        counters.route_count,
        counters.drop_count,
        counters.send_length,
        counters.recv_length,
        counters.route_length,
        counters.drop_length,
    ];
    let words: Vec<String> = numbers.iter().map(u64::to_string).collect();
    writeln!(out, "{}", words.join(" "))
}

fn peers(node: &ManagedNode, send: Pieces<'_>) -> io::Result<Reply> {
    let [nid, refs, state, last, max, rtr, min, tx, queue] = [
        "nid", "refs", "state", "last", "max", "rtr", "min", "tx", "queue",
    ];
    let mut text = format!(
        "{nid:<24} {refs:>4} {state:>5} {last:>5} {max:>5} {rtr:>5} {min:>5} {tx:>5} {min:>5} {queue}\n"
    );
    let mut from = Some(PeerCursor::START);
    while let Some(cursor) = from {
        let (page, next) = node.with_core(|core, _| {
            let (page, next) = core.peer_page(cursor, PEERS_PER_PAGE);
            let watched = core.is_router();
            let rows = page.iter().flat_map(|peer| {
                let watched = watched || peer.gateway;
                peer.nis.iter().map(move |ni| peer_row(ni, watched))
            });
            (rows.collect::<String>(), next)
        });
        text += &page;
        from = next;
        send(Reply::Text(std::mem::take(&mut text)))?;
    }
    Ok(Reply::Done)
}

/// Returns the row of a peer interface. Kernel nodes, including routers, print -1 for the time when it was last heard
/// of.
fn peer_row(view: &PeerNiView, watched: bool) -> String {
    let nid = view.nid.to_string();
    let refs = if view.max_tx_credits > 0 { 1 } else { 2 };
    let up = up_or_down(view.up && view.advertised_up);
    let state = if watched { up } else { "NA" };
    let (last, max) = (-1, view.max_tx_credits);
    let (rtr, rtr_min) = (view.router_credits, view.min_router_credits);
    let (tx, tx_min, queue) = (view.tx_credits, view.min_tx_credits, view.queued_bytes);
    format!(
        "{nid:<24} {refs:>4} {state:>5} {last:>5} {max:>5} {rtr:>5} {rtr_min:>5} {tx:>5} {tx_min:>5} {queue}\n"
    )
}

/// Returns a module parameter by its name in kernel nodes.
fn parameter(node: &Configured<'_>, name: &str) -> Option<String> {
    let core = node.core();
    let globals = core.globals();
    let number = match name {
        "lnet_lnd_timeout" => globals.lnd_timeout().as_secs().try_into().ok(),
        "local_nid_dist_zero" => globals.number(name),
        "forwarding" => {
            let state = if core.is_routing_on() {
                "enabled"
            } else {
                "disabled"
            };
            return Some(state.to_owned());
        }
        _ => {
            let parameter = Parameter::of_option(name)?;
            let kept = || node.kept.globals.number(parameter.name);
            let value = globals.number(parameter.name).or_else(kept);
            value.map(|value| parameter.option_value(value))
        }
    };
    number.map(|number| number.to_string())
}
