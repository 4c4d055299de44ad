//! Carries out requests that are documents.

use std::io;
use std::time::Duration;

use lnet_config::{Document, Verbosity};
use lnet_core::{Core, Health, PeerCursor, PeerState};
use lnet_dlc::protocol::{Failure, HealthTarget, MARK_MAX, Reply, Request, Section, Show};
use lnet_policy::Profile;
use lnet_types::{Net, Nid};

use super::connection::Pieces;
use super::show::RouteFilter;
use super::{
    fault, import, lst, numbers, parameters, ping, recording, rpcs, rules, show, tune, watch,
};
use crate::managed::ManagedNode;
use crate::setup::with_nids_where_names_mislead;

const ENOENT: i32 = 2;
const ESRCH: i32 = 3;
const EIO: i32 = 5;
const EINVAL: i32 = 22;

/// Peers that are read under one lock, which takes some 100 µs.
const PEERS_PER_PAGE: usize = 64;

/// The most bytes of a document in one frame. The frame's limit applies to the text with JSON's escapes.
const BYTES_PER_PIECE: usize = 1 << 20;

/// Carries out a request. Passes all pieces of the answer except the last to `send`.
pub(super) fn carry_out(node: &ManagedNode, body: &[u8], send: Pieces<'_>) -> io::Result<Reply> {
    let request = match Request::from_body(body) {
        Ok(request) => request,
        Err(error) => return Ok(refusal(-EINVAL, format!("malformed request: {error}"))),
    };
    Ok(match request {
        Request::Show(wanted) => return show(node, &wanted, send),
        Request::Export { backup } => return export(node, backup, send),
        Request::Ping {
            nids,
            source,
            timeout,
            discover,
        } => {
            let how = ping::How {
                source: source.as_deref(),
                timeout: Duration::from_secs(timeout.into()),
                discover,
            };
            return ping::ask(node, &nids, &how, send);
        }
        Request::ResetStatistics => {
            node.with_core(|core, _| core.reset_stats());
            Reply::Done
        }
        Request::Fault(fault) => fault::carry_out(node, &fault),
        Request::SetPeerState { nid, set, clear } => set_peer_state(node, &nid, set, clear),
        Request::SetHealth { target, health } => set_health(node, &target, health),
        Request::Rule(change) => rules::change(node, &change),
        Request::Tune(tune) => tune::carry_out(node, &tune),
        Request::Import {
            yaml,
            mode,
            partial,
            dry_run,
        } => {
            let how = import::How {
                mode,
                partial,
                dry_run,
            };
            import::import(node, &yaml, how)
        }
        Request::Configure { large, all } => {
            if large {
                node.with(|node, _| node.kept.large = true);
            }
            if all {
                import::configure(node)
            } else {
                Reply::Done
            }
        }
        Request::Unconfigure => import::unconfigure(node),
        Request::SelectionState => return selection_state(node, send),
        Request::Numbers => return numbers::tell(node, send),
        Request::Watch { kinds } => return watch::tell(node, &kinds, send),
        Request::RpcNumbers => rpcs::numbers(node)?,
        Request::WatchRpcs(filter) => return rpcs::tell(node, filter, send),
        Request::Lst { key, words } => return lst::carry_out(node, &key, &words, send),
        Request::Connections => return numbers::connections(node, send),
        Request::Parameter { name } => return parameters::tell(node, &name, send),
        Request::Mark { text } => mark(&text),
        Request::RecordStatus => recording::status(node),
        Request::RecordStop => recording::stop(node),
    })
}

/// Writes a line of a client into the log, as `lctl mark` does. Unprintable characters are escaped.
fn mark(text: &str) -> Reply {
    let text: String = text.chars().take(MARK_MAX).collect();
    tracing::warn!("mark: {}", text.escape_default());
    Reply::Done
}

/// Returns the status of the frame that carries this answer.
pub(super) fn status(reply: &Reply) -> i32 {
    match reply {
        Reply::Failed(failures) => failures.first().map_or(-EINVAL, |first| first.errno),
        Reply::Done | Reply::Text(_) => 0,
    }
}

/// Returns the answer to a request that failed as a whole.
pub(super) fn refusal(errno: i32, descr: String) -> Reply {
    failure("manage", "request", errno, descr)
}

pub(super) fn failure(verb: &str, entity: &str, errno: i32, descr: impl Into<String>) -> Reply {
    Reply::Failed(vec![Failure {
        verb: verb.to_owned(),
        entity: entity.to_owned(),
        errno,
        descr: descr.into(),
        seq_no: None,
    }])
}

fn show(node: &ManagedNode, wanted: &Show, send: Pieces<'_>) -> io::Result<Reply> {
    match filters(wanted) {
        Ok(filters) => shown(node, wanted, &filters, send),
        Err(refused) => Ok(refused),
    }
}

/// The limits of what a request shows.
struct Filters {
    net: Option<Net>,
    nid: Option<Nid>,
    routes: RouteFilter,
}

fn filters(wanted: &Show) -> Result<Filters, Reply> {
    let net = wanted.net.as_deref().map(parsed).transpose()?;
    let routes = RouteFilter {
        net,
        gateway: wanted.gateway.as_deref().map(parsed).transpose()?,
        hop: wanted.hop,
        priority: wanted.priority,
    };
    Ok(Filters {
        net,
        nid: wanted.nid.as_deref().map(parsed).transpose()?,
        routes,
    })
}

fn shown(
    node: &ManagedNode,
    wanted: &Show,
    filters: &Filters,
    send: Pieces<'_>,
) -> io::Result<Reply> {
    let verbosity = Verbosity::new(wanted.verbosity.into());
    let of_core = |look: &dyn Fn(&Core) -> Document| {
        text(node.with_core(|core, _| look(core)).limited(verbosity))
    };
    Ok(match wanted.section {
        Section::Net => {
            let nets = node.with(|node, _| show::labelled(node, show::nets(node, filters.net)));
            if nets.nets.is_empty() {
                return Ok(failure("show", "net", -ESRCH, "Network is down"));
            }
            text(nets.limited(verbosity))
        }
        Section::Peer => match filters.nid {
            None => return peers(node, |peers| peers.limited(verbosity), send),
            Some(nid) => one_peer(node, nid, verbosity),
        },
        Section::Route => of_core(&|core| show::routes(core, filters.routes)),
        Section::PeerList => return peers(node, show::peer_list, send),
        Section::Routing => routing(node),
        Section::Global => text(node.with(|node, _| show::globals(node))),
        Section::Udsp => rules_shown(node, wanted.idx),
        Section::Statistics => of_core(&show::statistics),
        Section::LocalRecovery => of_core(&show::local_recovery),
        Section::PeerRecovery => text(Document {
            replies: vec![lnet_config::Reply::PeerRecovery(peer_recovery(node))],
            ..Document::default()
        }),
    })
}

/// Returns the router buffers. A node that is no router shows nothing; since 2.17, that it is none.
fn routing(node: &ManagedNode) -> Reply {
    let (shown, profile) = node.with_core(|core, _| (show::routing(core), core.globals().profile));
    match (shown.routing, profile) {
        (None, Profile::Lustre217) => Reply::Text("routing:\n    - enable: 0\n".to_owned()),
        _ => text(shown),
    }
}

/// Returns the selection rules. Up to 2.16, an absent descriptor is shown as `NA`; since 2.17, it is not shown.
fn rules_shown(node: &ManagedNode, idx: Option<u32>) -> Reply {
    let (shown, profile) =
        node.with_core(|core, _| (show::rules(core, idx), core.globals().profile));
    let yaml = shown.to_yaml();
    if profile != Profile::Lustre217 {
        return Reply::Text(yaml);
    }
    let present = yaml.lines().filter(|line| !line.ends_with(": NA"));
    Reply::Text(present.map(|line| format!("{line}\n")).collect())
}

/// Returns one peer. If no peer has the NID, fails without a text, as `lnetctl` does.
fn one_peer(node: &ManagedNode, nid: Nid, verbosity: Verbosity) -> Reply {
    node.bring_peers_up_to_date();
    let peer = node.with_core(|core, _| show::peer_of(core, nid));
    if peer.peers.is_empty() {
        return failure("show", "peer", -ENOENT, "");
    }
    text(peer.limited(verbosity))
}

/// Returns the interfaces in recovery of all peers, read one page under each lock.
fn peer_recovery(node: &ManagedNode) -> Vec<Nid> {
    let mut ill = Vec::new();
    let mut at = Some(PeerCursor::START);
    while let Some(from) = at {
        let (page, next) = node.with_core(|core, _| core.peer_page(from, PEERS_PER_PAGE));
        at = next;
        ill.extend(show::peer_recovery(&page));
    }
    ill
}

/// Sends all peers, read one page under each lock; together they form one `peer` section.
fn peers(
    node: &ManagedNode,
    limit: impl Fn(Document) -> Document,
    send: Pieces<'_>,
) -> io::Result<Reply> {
    node.bring_peers_up_to_date();
    let mut is_first = true;
    let mut at = Some(PeerCursor::START);
    while let Some(from) = at {
        let (page, next) = node.with_core(|core, _| show::peer_page(core, from, PEERS_PER_PAGE));
        at = next;
        let text = limit(page).to_yaml();
        let piece = match text.split_once('\n') {
            Some((_, entries)) if !is_first => entries.to_owned(),
            _ => text,
        };
        if !piece.is_empty() {
            is_first = false;
            send(Reply::Text(piece))?;
        }
    }
    Ok(Reply::Done)
}

/// Sends the sections in the order of `lnetctl export`.
fn export(node: &ManagedNode, backup: bool, send: Pieces<'_>) -> io::Result<Reply> {
    let wide = node.with(|node, _| show::globals(node));
    let limit = |document: Document| {
        if backup {
            let backup = with_nids_where_names_mislead(document).backup();
            match wide.globals.profile {
                Some(Profile::Lustre217) => {
                    backup.without_derived_timeouts(wide.derived.lnd_timeout)
                }
                _ => backup,
            }
        } else {
            document.exported()
        }
    };
    let before_peers = node.with(|node, _| {
        let nets = show::nets(node, None);
        Document {
            routes: show::routes(node.core(), RouteFilter::default()).routes,
            ..if backup {
                nets
            } else {
                show::labelled(node, nets)
            }
        }
    });
    send(Reply::Text(limit(before_peers).to_yaml()))?;
    peers(node, limit, send)?;
    let after_peers = node.with(|node, _| Document {
        udsp: show::rules(node.core(), None).udsp,
        globals: show::globals(node).globals,
        derived: show::globals(node).derived,
        ..show::routing(node.core())
    });
    Ok(text(limit(after_peers)))
}

/// Sends the selection state. First does the work that is due, because a message that waits for a resend is not part
/// of the state. The lock is held for a copy, not while text is written: 100,000 peers are some 40 MB of text.
fn selection_state(node: &ManagedNode, send: Pieces<'_>) -> io::Result<Reply> {
    node.bring_peers_up_to_date();
    let (state, now) = node.with_core(|core, now| {
        core.tick(now);
        (core.selection_state(), now)
    });
    let text = match lnet_core::state_json::to_json(state, now) {
        Ok(text) => text,
        Err(error) => return Ok(refusal(-EIO, error.to_string())),
    };
    let mut rest = text.as_str();
    while !rest.is_empty() {
        let (piece, after) = rest.split_at(rest.floor_char_boundary(BYTES_PER_PIECE));
        rest = after;
        send(Reply::Text(piece.to_owned()))?;
    }
    Ok(Reply::Done)
}

fn text(document: Document) -> Reply {
    Reply::Text(document.to_yaml())
}

fn set_peer_state(node: &ManagedNode, nid: &str, set: u32, clear: u32) -> Reply {
    let parsed: Nid = match parsed(nid) {
        Ok(nid) => nid,
        Err(refused) => return refused,
    };
    let is_set = node.with_core(|core, _| {
        let peer = core.peer_with(parsed)?;
        let state = show::peer_state(core, &peer) & !PeerState::from_bits_truncate(clear);
        let state = state | PeerState::from_bits_truncate(set);
        core.set_peer_state(parsed, state).ok()
    });
    match is_set {
        Some(()) => Reply::Done,
        None => refusal(-ENOENT, format!("no peer has the NID {nid}")),
    }
}

fn set_health(node: &ManagedNode, target: &HealthTarget, health: u16) -> Reply {
    let Some(health) = Health::new(health) else {
        return refusal(-EINVAL, format!("health {health} is above 1000"));
    };
    let set = match target {
        HealthTarget::Ni(nid) => parsed(nid).map(|nid| set_ni_health(node, health, |ni| ni == nid)),
        HealthTarget::Net(net) => {
            parsed(net).map(|net: Net| set_ni_health(node, health, |ni| ni.net() == net))
        }
        HealthTarget::AllNis => Ok(set_ni_health(node, health, |_| true)),
        HealthTarget::PeerNi(nid) => parsed(nid).map(|nid| set_peer_health(node, health, nid)),
        HealthTarget::AllPeerNis => {
            node.with_core(|core, now| core.set_all_peer_health(health, now));
            Ok(true)
        }
    };
    match set {
        Ok(true) => Reply::Done,
        Ok(false) => refusal(-ENOENT, format!("{} does not exist", named(target))),
        Err(refused) => refused,
    }
}

/// Sets the health of the interfaces that are meant. Returns whether there was one.
fn set_ni_health(node: &ManagedNode, health: Health, is_meant: impl Fn(Nid) -> bool) -> bool {
    node.with_core(|core, now| {
        let nis = core.nis().filter(|ni| !ni.nid.is_loopback());
        let meant: Vec<_> = nis.filter(|ni| is_meant(ni.nid)).map(|ni| ni.id).collect();
        let set = meant.iter().map(|&ni| core.set_ni_health(ni, health, now));
        set.filter(Result::is_ok).count() > 0
    })
}

fn set_peer_health(node: &ManagedNode, health: Health, nid: Nid) -> bool {
    node.with_core(|core, now| core.set_peer_ni_health(nid, health, now).is_ok())
}

pub(super) fn parsed<T: std::str::FromStr<Err: std::fmt::Display>>(text: &str) -> Result<T, Reply> {
    let parsed = text.parse();
    parsed.map_err(|error: T::Err| refusal(-EINVAL, fault_text(text, &error.to_string())))
}

/// Formats an error after its subject, unless the error begins with the subject.
fn fault_text(text: &str, error: &str) -> String {
    match error.starts_with(&format!("'{text}'")) {
        true => error.to_owned(),
        false => format!("'{text}': {error}"),
    }
}

fn named(target: &HealthTarget) -> &str {
    match target {
        HealthTarget::Ni(name) | HealthTarget::Net(name) | HealthTarget::PeerNi(name) => name,
        HealthTarget::AllNis => "an interface",
        HealthTarget::AllPeerNis => "a peer interface",
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn told(text: &str) -> String {
        match parsed::<Nid>(text) {
            Err(Reply::Failed(failures)) => failures[0].descr.clone(),
            other => format!("{other:?}"),
        }
    }

    #[test]
    fn a_text_that_is_no_nid_is_said_once() {
        assert_eq!(told("nonsense").matches("'nonsense'").count(), 1);
        assert_eq!(told("1.2.3@lo7").matches("'1.2.3@lo7'").count(), 1);
    }
}
