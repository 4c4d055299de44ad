//! Combines several outputs of one node.

use lnet_config::{Buffers, Document, NetShow, NiShow, PeerNiShow, PeerShow, RouteShow};

/// Adds the values of another output. Values that `whole` holds already stay.
pub(super) fn into(whole: &mut Document, more: Document) {
    for net in more.nets {
        match whole.nets.iter_mut().find(|known| known.net == net.net) {
            Some(known) => add_nis(known, net),
            None => whole.nets.push(net),
        }
    }
    for peer in more.peers {
        match whole
            .peers
            .iter_mut()
            .find(|known| known.primary == peer.primary)
        {
            Some(known) => add_peer(known, peer),
            None => whole.peers.push(peer),
        }
    }
    for route in more.routes {
        let same =
            |known: &&mut RouteShow| (known.net, known.gateway) == (route.net, route.gateway);
        match whole.routes.iter_mut().find(same) {
            Some(known) => add_route(known, route),
            None => whole.routes.push(route),
        }
    }
    if whole.udsp.is_empty() {
        whole.udsp = more.udsp;
    }
    whole.ip2nets.extend(more.ip2nets);
    whole.routing = whole.routing.or(more.routing);
    whole.buffers = buffers(whole.buffers, more.buffers);
    whole.globals = more.globals.with(&whole.globals);
    whole.derived.lnd_timeout = whole.derived.lnd_timeout.or(more.derived.lnd_timeout);
}

/// Adds the NIs of a net. Two NIs are the same if their NIDs are equal or, if one of them has no NID, if their
/// interfaces are equal.
fn add_nis(known: &mut NetShow, more: NetShow) {
    for ni in more.nis {
        let same = |one: &&mut NiShow| match (one.config.nid, ni.config.nid) {
            (Some(a), Some(b)) => a == b,
            _ => !ni.config.interfaces.is_empty() && one.config.interfaces == ni.config.interfaces,
        };
        match known.nis.iter_mut().find(same) {
            Some(one) => add_ni(one, ni),
            None => known.nis.push(ni),
        }
    }
}

fn add_ni(known: &mut NiShow, more: NiShow) {
    known.config.nid = known.config.nid.or(more.config.nid);
    if known.config.interfaces.is_empty() {
        known.config.interfaces = more.config.interfaces;
    }
    let (mine, its) = (&mut known.config.tunables, more.config.tunables);
    mine.peer_timeout = mine.peer_timeout.or(its.peer_timeout);
    mine.peer_credits = mine.peer_credits.or(its.peer_credits);
    mine.peer_buffer_credits = mine.peer_buffer_credits.or(its.peer_buffer_credits);
    mine.credits = mine.credits.or(its.credits);
    let timeout = &mut known.config.lnd_tunables.timeout;
    *timeout = timeout.or(more.config.lnd_tunables.timeout);
    known.status = known.status.or(more.status);
    known.udsp = known.udsp.take().or(more.udsp);
    known.health = known.health.or(more.health);
    known.dev_cpt = known.dev_cpt.or(more.dev_cpt);
}

fn add_peer(known: &mut PeerShow, more: PeerShow) {
    known.multi_rail |= more.multi_rail;
    known.state = known.state.or(more.state);
    for ni in more.nis {
        match known.nis.iter_mut().find(|one| one.nid == ni.nid) {
            Some(one) => add_peer_ni(one, ni),
            None => known.nis.push(ni),
        }
    }
}

fn add_peer_ni(known: &mut PeerNiShow, more: PeerNiShow) {
    known.udsp = known.udsp.take().or(more.udsp);
    known.state = known.state.or(more.state);
    known.credits = known.credits.or(more.credits);
    known.health = known.health.or(more.health);
}

fn add_route(known: &mut RouteShow, more: RouteShow) {
    known.hop = known.hop.or(more.hop);
    known.priority = known.priority.or(more.priority);
    known.health_sensitivity = known.health_sensitivity.or(more.health_sensitivity);
    known.state = known.state.or(more.state);
    known.kind = known.kind.or(more.kind);
}

fn buffers(known: Buffers, more: Buffers) -> Buffers {
    Buffers {
        tiny: known.tiny.or(more.tiny),
        small: known.small.or(more.small),
        large: known.large.or(more.large),
    }
}
