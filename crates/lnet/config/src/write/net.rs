//! Local networks.

use lnet_types::LndType;

use super::emitter::{Emitter, Scalar};
use super::{Unset, status, udsp_info};
use crate::document::{NetShow, NiShow};
use crate::model::{LndTunables, Tunables};

pub(super) fn net(out: &mut Emitter<'_>, net: &NetShow, unset: Unset) {
    out.pair("net type", net.net);
    out.list("local NI(s)", &net.nis, |out, ni| {
        self::ni(out, ni, net.net.lnd, unset);
    });
}

fn ni(out: &mut Emitter<'_>, ni: &NiShow, lnd: LndType, unset: Unset) {
    let config = &ni.config;
    out.pair_if("nid", config.nid);
    status(out, "status", ni.status);
    let names = config.interfaces.iter();
    out.enumerated("interfaces", "", names.map(|name| Scalar(name)));
    out.block("statistics", ni.statistics);
    udsp_info(out, ni.udsp.as_ref());
    out.block("sent_stats", ni.sent);
    out.block("received_stats", ni.received);
    out.block("dropped_stats", ni.dropped);
    out.block("health stats", ni.health);
    tunables(out, &config.tunables, unset);
    lnd_tunables(out, &config.lnd_tunables, lnd, unset);
    out.pair_if("dev cpt", ni.dev_cpt);
    cpts(out, &config.cpts);
}

pub(super) fn tunables(out: &mut Emitter<'_>, tunables: &Tunables, unset: Unset) {
    let fields = [
        ("peer_timeout", tunables.peer_timeout),
        ("peer_credits", tunables.peer_credits),
        ("peer_buffer_credits", tunables.peer_buffer_credits),
        ("credits", tunables.credits),
    ];
    if *tunables != Tunables::default() {
        out.map("tunables", |out| settings(out, &fields, unset));
    }
}

/// Only `tcp` networks have all three typed settings.
pub(super) fn lnd_tunables(
    out: &mut Emitter<'_>,
    tunables: &LndTunables,
    lnd: LndType,
    unset: Unset,
) {
    let conns_per_peer = [("conns_per_peer", tunables.conns_per_peer.map(u32::from))];
    let tos = [("tos", tunables.tos.map(u32::from))];
    let unset = if lnd == LndType::TCP {
        unset
    } else {
        Unset::Omitted
    };
    if *tunables != LndTunables::default() {
        out.map("lnd tunables", |out| {
            settings(out, &conns_per_peer, unset);
            // A backup for release 2.17.0 and later has no timeout.
            out.pair_if("timeout", tunables.timeout);
            settings(out, &tos, unset);
            for (key, value) in &tunables.other {
                out.pair(&Scalar(key).to_string(), Scalar(value));
            }
        });
    }
}

fn settings(out: &mut Emitter<'_>, fields: &[(&str, Option<u32>)], unset: Unset) {
    for (key, value) in fields {
        match value {
            Some(value) => out.pair(key, value),
            None if unset == Unset::MinusOne => out.pair(key, -1),
            None => {}
        }
    }
}

pub(super) fn cpts(out: &mut Emitter<'_>, cpts: &[u32]) {
    if !cpts.is_empty() {
        let cpts: Vec<_> = cpts.iter().map(u32::to_string).collect();
        out.pair("CPT", format_args!("\"[{}]\"", cpts.join(",")));
    }
}
