//! Findings about the nets and NIDs of the two nodes.

use std::collections::BTreeSet;

use lnet_config::machine::share_subnet;
use lnet_types::{LndType, Net, Nid};

use super::{Context, finding, listed};
use crate::finding::{Code, Finding, Severity};
use crate::watch::health_of;

/// The length of the subnet prefix if the machine's own is not known: most clusters use it for their rails.
const USUAL_PREFIX: u8 = 24;
/// The state bits DISCOVERED and NIDS_UPTODATE of a peer.
// [PEER-20]
const DISCOVERED: u64 = 1 << 4 | 1 << 8;

/// Reports a destination whose net is neither local nor behind a route.
pub(super) fn net_not_reached(context: &Context<'_>) -> Vec<Finding> {
    let to = context.question.to;
    let net = to.net();
    if net == Net::LO || context.is_own(to) || context.has_net(net) || context.has_route(net) {
        return Vec::new();
    }
    let timeout = context.state().config.globals.lnd_timeout().as_secs();
    let other = context.peer().and_then(|peer| {
        let mut others = peer.nids.iter();
        others.find(|nid| context.has_net(nid.net()) || context.has_route(nid.net()))
    });
    let text = match other {
        Some(other) => format!(
            "{to} names the peer by a net that this node does not have; it is reached by {other} \
             only once discovery has joined the two, which waits up to {timeout} s a try"
        ),
        None => format!(
            "the peer is identified by a NID on {net}; no local net is {net} and no route leads \
             there, and discovery of it waits up to {timeout} s a try"
        ),
    };
    let own = listed(nets(context.state().nis.iter().map(|ni| ni.nid)));
    let advice =
        format!("add an NI on {net} or a route to it, or name the peer by a NID on one of: {own}");
    vec![finding(
        Code::NetNotReached,
        Severity::Error,
        to,
        text,
        advice,
    )]
}

/// Reports that there is no path, with the candidates that were excluded.
pub(super) fn no_path(context: &Context<'_>) -> Vec<Finding> {
    let Some(error) = &context.told.answer.error else {
        return Vec::new();
    };
    let dead = context.told.levels.iter().flat_map(|level| &level.excluded);
    let why = listed(dead.map(|(what, why)| format!("{what}: {why}")));
    let text = if why.is_empty() {
        error.clone()
    } else {
        format!("{error} ({why})")
    };
    let advice = "restore what is down, or add a route or an interface";
    vec![finding(
        Code::NoPath,
        Severity::Error,
        context.question.to,
        text,
        advice,
    )]
}

/// Reports that the peer's primary NID cannot be reached. Upper layers know the peer by this NID.
pub(super) fn primary_not_reached(context: &Context<'_>) -> Vec<Finding> {
    let Some(&primary) = context.peer().and_then(|peer| peer.nids.first()) else {
        return Vec::new();
    };
    let net = primary.net();
    let is_asked_about = primary == context.question.to;
    if is_asked_about || context.has_net(net) || context.has_route(net) {
        return Vec::new();
    }
    let text = format!(
        "the primary NID {primary} is on {net}, which this node neither has nor routes to; \
         a program that names the peer by it waits for discovery"
    );
    let advice = format!("configure the peer with {} first", context.question.to);
    vec![finding(
        Code::PrimaryNotReached,
        Severity::Warning,
        primary,
        text,
        advice,
    )]
}

/// Reports the nets of the peer that this node cannot use.
pub(super) fn peer_nets_missing(context: &Context<'_>) -> Vec<Finding> {
    let Some(peer) = context.peer() else {
        return Vec::new();
    };
    let missing = nets(peer.nids.iter().copied());
    let missing: Vec<Net> = missing
        .into_iter()
        .filter(|&net| !context.has_net(net) && !context.has_route(net))
        .collect();
    if missing.is_empty() {
        return Vec::new();
    }
    let subject = context.question.to;
    let text = format!(
        "the peer has NIDs on {}, where this node has no interface and no route: these rails stay unused",
        listed(&missing)
    );
    let example = missing
        .first()
        .map_or_else(String::new, ToString::to_string);
    let advice = format!("lnetctl net add --net {example} --if INTERFACE, or a route to {example}");
    vec![finding(
        Code::PeerNetsMissing,
        Severity::Note,
        subject,
        text,
        advice,
    )]
}

/// Reports a local NI that was chosen although it does not suit the peer NIs: selection chooses the local NI before
/// it looks at the peer NIs that this NI reaches.
pub(super) fn rail_mismatch(context: &Context<'_>) -> Vec<Finding> {
    let Some((source, destination)) = direct_pick(context) else {
        return Vec::new();
    };
    let Some(peer) = context.peer() else {
        return Vec::new();
    };
    let (Some(ip), Some(_)) = (source.ip(), destination.ip()) else {
        return Vec::new();
    };
    let machine = context.node.facts.machine.as_ref();
    let known = machine.and_then(|machine| machine.prefix_of(ip));
    let prefix = known.unwrap_or(USUAL_PREFIX);
    let here = |nid: &&Nid| {
        let same_net = nid.net() == source.net();
        same_net
            && nid
                .ip()
                .is_some_and(|other| share_subnet(ip, other, prefix))
    };
    let rails = nets_on_subnets(context, source.net(), prefix);
    let counterparts: Vec<Nid> = peer.nids.iter().filter(here).copied().collect();
    let well = |nid: &Nid| health_of(context.state(), *nid).is_none_or(|h| h.is_full());
    if rails < 2 || counterparts.is_empty() || counterparts.iter().any(well) {
        return Vec::new();
    }
    let healths = counterparts.iter().map(|&nid| {
        let health = health_of(context.state(), nid).map_or(0, |health| health.value());
        format!("{nid} has health {health}")
    });
    let guess = if known.is_some() {
        String::new()
    } else {
        format!(", taking /{prefix} for the subnets")
    };
    let text = format!(
        "local NI {} was chosen {}; the only peer NIs in its subnet are unhealthy: {}{guess}. \
         The health of peer NIs is compared after the local NI is selected",
        context.node.label(source),
        why_chosen(context),
        listed(healths)
    );
    let advice = "give each subnet its own net number (tcp1, tcp2), so that the health at both ends \
                  selects the net; or add a pair rule for each rail";
    vec![finding(
        Code::RailMismatch,
        Severity::Warning,
        source,
        text,
        advice,
    )]
}

fn why_chosen(context: &Context<'_>) -> String {
    let mut tables = context.told.levels.iter();
    let table = tables.find(|table| table.level == "local NI");
    match table.and_then(|table| table.decided_by) {
        Some("sequence" | "list order") => "by round robin".to_owned(),
        Some(by) => format!("by {by}"),
        None => "without a rival".to_owned(),
    }
}

fn direct_pick(context: &Context<'_>) -> Option<(Nid, Nid)> {
    let path = context.told.answer.path.as_ref()?;
    let direct = path.gateway.is_none();
    let pair = (path.source.parse().ok()?, path.destination.parse().ok()?);
    direct.then_some(pair)
}

/// Reports a local NI in one subnet that sends to a peer NI in another subnet. LNet does not separate the rails of
/// one net.
pub(super) fn subnets_apart(context: &Context<'_>) -> Vec<Finding> {
    let Some((source, destination)) = direct_pick(context) else {
        return Vec::new();
    };
    let (Some(ip), Some(other)) = (source.ip(), destination.ip()) else {
        return Vec::new();
    };
    let machine = context.node.facts.machine.as_ref();
    let known = machine.and_then(|machine| machine.prefix_of(ip));
    let prefix = known.unwrap_or(USUAL_PREFIX);
    let nis = context.state().nis.iter();
    let mut nearer = nis.filter(|ni| {
        let same_net = ni.nid.net() == source.net();
        same_net
            && ni
                .nid
                .ip()
                .is_some_and(|ip| share_subnet(ip, other, prefix))
    });
    let Some(nearer) = nearer.next().filter(|_| !share_subnet(ip, other, prefix)) else {
        return Vec::new();
    };
    let guess = if known.is_some() {
        String::new()
    } else {
        format!(", taking /{prefix} for the subnets")
    };
    let text = format!(
        "{} sends to {destination}, which is in the subnet of {}{guess}: LNet pairs any NI of a net with any NID of \
         it, and if no IP route joins the subnets, every such attempt fails",
        context.node.label(source),
        context.node.label(nearer.nid)
    );
    let advice = "give each subnet its own net number (tcp1, tcp2), or route between the subnets; `ip route get \
                  DESTINATION from SOURCE` shows whether a route exists";
    vec![finding(
        Code::SubnetsApart,
        Severity::Warning,
        source,
        text,
        advice,
    )]
}

/// Reports messages that wait, or waited, for credits of the next hop.
pub(super) fn credits_exhausted(context: &Context<'_>) -> Vec<Finding> {
    let peer = context
        .peer()
        .into_iter()
        .flat_map(|peer| peer.nids.iter().copied());
    let gateways = context.state().gateways.iter().map(|gateway| gateway.nid);
    let concerned: BTreeSet<Nid> = peer.chain(gateways).chain([context.question.to]).collect();
    let shown = &context.node.facts.credits;
    let told = concerned.into_iter().filter_map(|nid| {
        let credits = shown.get(&nid)?;
        let (max, left, least) = (credits.max_tx, credits.available_tx, credits.min_tx);
        let (severity, text) = if left < 0 {
            let text = format!(
                "{} messages to {nid} with {} bytes wait for a credit (available_tx_credits {left} of {max}, the \
                 least was {least})",
                left.unsigned_abs(),
                credits.tx_queued
            );
            (Severity::Warning, text)
        } else if max > 0 && least < max.saturating_mul(-LONG_QUEUE) {
            let text = format!(
                "{} messages to {nid} once waited for a credit at the same time (min_tx_credits {least} of {max}); \
                 none waits now",
                least.unsigned_abs()
            );
            (Severity::Note, text)
        } else {
            return None;
        };
        let advice = "check that node and the network on the path: it accepts messages more slowly than they are sent; if \
                      both are idle, raise peer_credits and credits on both sides";
        Some(finding(Code::CreditsExhausted, severity, nid, text, advice))
    });
    told.collect()
}

/// The limit on a past queue in multiples of the credits. A longer queue is reported, because it was no short burst.
const LONG_QUEUE: i64 = 4;

/// Returns the number of subnets that the local NIs of a net are in.
fn nets_on_subnets(context: &Context<'_>, net: Net, prefix: u8) -> usize {
    let nis = context.state().nis.iter().filter(|ni| ni.nid.net() == net);
    let ips: Vec<_> = nis.filter_map(|ni| ni.nid.ip()).collect();
    let is_first = |at: usize| {
        !ips[..at]
            .iter()
            .any(|&ip| share_subnet(ip, ips[at], prefix))
    };
    (0..ips.len()).filter(|&at| is_first(at)).count()
}

/// Reports that nets of several LNDs lead to the peer and that messages may take the wrong net.
pub(super) fn mixed_fabrics(context: &Context<'_>) -> Vec<Finding> {
    let Some(peer) = context.peer().filter(|peer| peer.multi_rail) else {
        return Vec::new();
    };
    let common: BTreeSet<Net> = peer.nids.iter().map(|nid| nid.net()).collect();
    let common = common.into_iter().filter(|&net| context.has_net(net));
    let common: Vec<Net> = common.collect();
    let kinds: BTreeSet<LndType> = common.iter().map(|net| net.lnd).collect();
    let ranked =
        context.policies.values.iter().any(|value| {
            value.object.starts_with("local net") || value.object.starts_with("peer net")
        });
    if kinds.len() < 2 || ranked || context.question.from.is_some() {
        return Vec::new();
    }
    let own = context
        .state()
        .nis
        .iter()
        .map(|ni| context.node.label(ni.nid));
    let slow: Vec<Net> = common
        .iter()
        .copied()
        .filter(|net| net.lnd == LndType::TCP)
        .collect();
    let text = format!(
        "this node advertises {}; messages to {} may take any of {}, also {}",
        listed(own),
        context.question.to,
        listed(&common),
        listed(&slow)
    );
    let fast = common.iter().find(|net| net.lnd != LndType::TCP);
    let fast = fast.map_or_else(String::new, ToString::to_string);
    let advice = format!(
        "configure LNet on the wanted interface only, or prefer its net: lnetctl udsp add --src {fast} --priority 0"
    );
    let subject = context.question.to;
    vec![finding(
        Code::MixedFabrics,
        Severity::Warning,
        subject,
        text,
        advice,
    )]
}

/// Reports a peer that is not discovered yet: the node discovers it before it sends the first message.
pub(super) fn discovery_first(context: &Context<'_>) -> Vec<Finding> {
    let to = context.question.to;
    if !context.node.facts.discovery || context.is_own(to) || context.node.facts.assumed.is_empty()
    {
        return Vec::new();
    }
    let primary = context.peer().and_then(|peer| peer.nids.first());
    let states = &context.node.facts.peer_states;
    let state = primary.and_then(|primary| states.get(primary));
    let is_known = match state {
        Some(bits) => bits & DISCOVERED == DISCOVERED,
        None => context.peer().is_some_and(|peer| peer.nids.len() > 1),
    };
    if is_known {
        return Vec::new();
    }
    let text = format!(
        "discovery is on and {to} is not discovered: the first message waits for it, and the peer \
         may turn out to be Multi-Rail with more NIDs"
    );
    let advice = format!("run `lnetctl discover {to}` and explain again");
    vec![finding(
        Code::DiscoveryFirst,
        Severity::Note,
        to,
        text,
        advice,
    )]
}

/// Returns the nets of the NIDs, each net once.
fn nets(nids: impl Iterator<Item = Nid>) -> BTreeSet<Net> {
    nids.map(|nid| nid.net()).collect()
}
