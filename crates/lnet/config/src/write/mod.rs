//! Documents in the layout of `lnetctl` of 2.16.1: [CONF-8].
//!
//! Absent fields are not printed, so the fields of a document determine the verbosity of its
//! output. [`Document::limited`] removes the fields that a verbosity does not print.

mod differences;
mod emitter;
mod net;
mod peer;
mod reply;
mod verbosity;

pub use differences::{DIFFERENCES, Difference};
pub use verbosity::Verbosity;

use crate::document::{CptPools, Document, PeerShow, RouteShow, RouteType, Status, UdspInfo};
use crate::ip2nets::Ip2Nets;
use crate::model::{Buffers, Config};
use crate::parameters::{PARAMETERS, Parameter};
use crate::udsp::{UdspAction, UdspEntry};
use emitter::{Emitter, Layout, Scalar};

/// How to print a setting that is left to the LND, if other settings are set.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Unset {
    /// Not at all: a configuration has only its own settings.
    Omitted,
    /// As -1: a node shows all settings.
    MinusOne,
}

impl Config {
    /// Writes the configuration. Parsing the text returns an equal configuration; equal
    /// configurations have equal text. Unset fields are left out, and an empty configuration has an
    /// empty text.
    #[must_use]
    pub fn to_yaml(&self) -> String {
        let mut text = String::new();
        write_document(&mut text, &Document::from(self), Unset::Omitted);
        text
    }
}

impl Document {
    /// Writes the document as `lnetctl` prints it; an empty document has an empty text. Reading the
    /// text returns an equal document.
    #[must_use]
    pub fn to_yaml(&self) -> String {
        let mut text = String::new();
        write_document(&mut text, self, Unset::MinusOne);
        text
    }
}

impl PeerShow {
    /// The lines of this peer for a list whose heading `peer:` is already printed, if the whole
    /// list is too long to be held.
    #[must_use]
    pub fn to_yaml_item(&self) -> String {
        let mut text = String::new();
        Emitter::new(&mut text, Layout::SIX).list("peer", [self], peer::peer);
        text.split_off("peer:\n".len().min(text.len()))
    }
}

fn write_document(text: &mut String, document: &Document, unset: Unset) {
    let out = &mut Emitter::new(text, Layout::SIX);
    out.list("net", &document.nets, |out, net| net::net(out, net, unset));
    out.list("ip2nets", &document.ip2nets, |out, rule| {
        ip2nets(out, rule, unset)
    });
    out.list("route", &document.routes, route);
    out.list("peer", &document.peers, peer::peer);
    let out = &mut Emitter::new(text, Layout::FOUR);
    routing(out, document);
    buffers(out, document.buffers);
    globals(out, document);
    out.list("udsp", &document.udsp, |out, rule| udsp(out, rule, unset));
    out.block("statistics", document.statistics);
    reply::replies(text, &document.replies);
}

fn ip2nets(out: &mut Emitter<'_>, rule: &Ip2Nets, unset: Unset) {
    out.pair("net-spec", rule.net);
    out.enumerated(
        "interfaces",
        "",
        rule.interfaces.iter().map(|name| Scalar(name)),
    );
    let patterns: Vec<_> = rule.patterns.iter().map(ToString::to_string).collect();
    out.enumerated("ip-range", "", patterns.iter().map(|text| Scalar(text)));
    net::tunables(out, &rule.tunables, unset);
    net::lnd_tunables(out, &rule.lnd_tunables, rule.net.lnd, unset);
    net::cpts(out, &rule.cpts);
}

fn route(out: &mut Emitter<'_>, route: &RouteShow) {
    out.pair("net", route.net);
    out.pair("gateway", route.gateway);
    if let Some(priority) = route.priority {
        out.pair("hop", route.hop.map_or(-1, i32::from));
        out.pair("priority", priority);
    } else {
        out.pair_if("hop", route.hop);
    }
    out.pair_if("health_sensitivity", route.health_sensitivity);
    status(out, "state", route.state);
    let kind = route.kind.map(|kind| match kind {
        RouteType::SingleHop => "single-hop",
        RouteType::MultiHop => "multi-hop",
    });
    out.pair_if("type", kind);
}

fn status(out: &mut Emitter<'_>, key: &str, status: Option<Status>) {
    let status = status.map(|status| match status {
        Status::Up => "up",
        Status::Down => "down",
        Status::NotWatched => "NA",
    });
    out.pair_if(key, status);
}

fn udsp_info(out: &mut Emitter<'_>, info: Option<&UdspInfo>) {
    let Some(info) = info else { return };
    let priority = |priority: Option<u32>| priority.map_or(-1, i64::from);
    out.map("udsp info", |out| {
        out.pair("net priority", priority(info.net_priority));
        out.pair("nid priority", priority(info.nid_priority));
        out.enumerated("Preferred gateway NIDs", "NID-", info.gateways.iter());
        out.enumerated("Preferred source NIDs", "NID-", info.sources.iter());
    });
}

/// The list that a router shows, or the mapping that configures one.
fn routing(out: &mut Emitter<'_>, document: &Document) {
    let enable = document.routing.map(u8::from);
    if document.pools.is_empty() {
        if let Some(enable) = enable {
            out.map("routing", |out| out.pair("enable", enable));
        }
        return;
    }
    let items = document.pools.iter().map(Some).chain(enable.map(|_| None));
    out.list("routing", items, |out, item| match item {
        Some(pools) => cpt_pools(out, pools),
        None => out.pair_if("enable", enable),
    });
}

fn cpt_pools(out: &mut Emitter<'_>, pools: &CptPools) {
    out.map(&format!("cpt[{}]", pools.cpt), |out| {
        out.block("tiny", Some(pools.tiny));
        out.block("small", Some(pools.small));
        out.block("large", Some(pools.large));
    });
}

fn buffers(out: &mut Emitter<'_>, buffers: Buffers) {
    let Buffers { tiny, small, large } = buffers;
    section(
        out,
        "buffers",
        &[("tiny", tiny), ("small", small), ("large", large)],
    );
}

fn globals(out: &mut Emitter<'_>, document: &Document) {
    let (globals, derived) = (&document.globals, &document.derived);
    let of = |parameter: &Parameter| (parameter.name, parameter.get(globals));
    let mut numbers: Vec<_> = PARAMETERS.iter().map(of).collect();
    // `lnetctl` prints these two between the others.
    let derived = [
        (
            "health_sensitivity",
            "recovery_interval",
            derived.recovery_interval,
        ),
        ("router_sensitivity", "lnd_timeout", derived.lnd_timeout),
    ];
    for (before, name, value) in derived {
        let at = numbers.iter().position(|(name, _)| *name == before);
        numbers.insert(at.map_or(0, |at| at + 1), (name, value));
    }
    let is_set = |(_, value): &(&str, Option<u32>)| value.is_some();
    if numbers.iter().any(is_set) || globals.profile.is_some() {
        out.map("global", |out| {
            for (key, value) in numbers {
                out.pair_if(key, value);
            }
            out.pair_if("profile", globals.profile);
        });
    }
}

/// A section of numbers; left out if none is set.
fn section(out: &mut Emitter<'_>, key: &str, fields: &[(&str, Option<u32>)]) {
    if fields.iter().any(|(_, value)| value.is_some()) {
        out.map(key, |out| {
            for (key, value) in fields {
                out.pair_if(key, *value);
            }
        });
    }
}

fn udsp(out: &mut Emitter<'_>, rule: &UdspEntry, unset: Unset) {
    out.pair_if("idx", rule.idx);
    let descriptors = [("src", &rule.src), ("dst", &rule.dst), ("rte", &rule.rte)];
    for (key, text) in descriptors {
        match text {
            Some(text) => out.pair(key, Scalar(text)),
            // Kernels up to 2.16 print absent descriptors; those of 2.17 do not.
            None if unset == Unset::MinusOne => out.pair(key, "NA"),
            None => {}
        }
    }
    match rule.action {
        Some(UdspAction::Priority(priority)) => {
            out.map("action", |out| out.pair("priority", priority));
        }
        Some(UdspAction::Preferred) => out.pair("action", "preferred"),
        None => {}
    }
    if rule.disabled {
        out.pair("disabled", 1);
    }
}
