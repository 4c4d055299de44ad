//! Peers.

use super::emitter::Emitter;
use super::{status, udsp_info};
use crate::document::{PeerNiShow, PeerShow};

pub(super) fn peer(out: &mut Emitter<'_>, peer: &PeerShow) {
    out.pair("primary nid", peer.primary);
    out.pair("Multi-Rail", peer.multi_rail);
    out.pair_if("peer state", peer.state);
    out.list("peer ni", &peer.nis, peer_ni);
}

fn peer_ni(out: &mut Emitter<'_>, ni: &PeerNiShow) {
    out.pair("nid", ni.nid);
    udsp_info(out, ni.udsp.as_ref());
    status(out, "state", ni.state);
    if let Some(credits) = ni.credits {
        out.numbers(credits);
    }
    out.block("statistics", ni.statistics);
    out.block("sent_stats", ni.sent);
    out.block("received_stats", ni.received);
    out.block("dropped_stats", ni.dropped);
    out.block("health stats", ni.health);
}
