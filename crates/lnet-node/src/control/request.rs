//! Requests as documents: what each does to the node.

use std::io;

use lnet_control::{Failure, HealthTarget, Reply, Request};
use lnet_core::Health;
use lnet_types::{Net, Nid};

use super::connection::Pieces;
use crate::node::Node;

const ENOENT: i32 = 2;
const EINVAL: i32 = 22;
const EOPNOTSUPP: i32 = 95;

/// Carries out a request. All but the last piece of its answer go to `send`.
pub(super) fn carry_out(node: &Node, body: &[u8], send: Pieces<'_>) -> io::Result<Reply> {
    let request = match Request::from_body(body) {
        Ok(request) => request,
        Err(error) => return Ok(refusal(-EINVAL, format!("malformed request: {error}"))),
    };
    let _ = send;
    Ok(match request {
        Request::SetHealth { target, health } => set_health(node, &target, health),
        other => refusal(-EOPNOTSUPP, format!("not supported: {other:?}")),
    })
}

fn set_health(node: &Node, target: &HealthTarget, health: u16) -> Reply {
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
        Ok(false) => refusal(-ENOENT, format!("nothing here is {}", shown(target))),
        Err(refused) => refused,
    }
}

/// Whether any interface was meant.
fn set_ni_health(node: &Node, health: Health, is_meant: impl Fn(Nid) -> bool) -> bool {
    node.with_core(|core, now| {
        let nis = core.nis().filter(|ni| !ni.nid.is_loopback());
        let meant: Vec<_> = nis.filter(|ni| is_meant(ni.nid)).map(|ni| ni.id).collect();
        let set = meant.iter().map(|&ni| core.set_ni_health(ni, health, now));
        set.filter(Result::is_ok).count() > 0
    })
}

fn set_peer_health(node: &Node, health: Health, nid: Nid) -> bool {
    node.with_core(|core, now| core.set_peer_ni_health(nid, health, now).is_ok())
}

fn parsed<T: std::str::FromStr<Err: std::fmt::Display>>(text: &str) -> Result<T, Reply> {
    let parsed = text.parse();
    parsed.map_err(|error: T::Err| refusal(-EINVAL, format!("'{text}': {error}")))
}

fn shown(target: &HealthTarget) -> &str {
    match target {
        HealthTarget::Ni(name) | HealthTarget::Net(name) | HealthTarget::PeerNi(name) => name,
        HealthTarget::AllNis => "an interface",
        HealthTarget::AllPeerNis => "a peer interface",
    }
}

/// The status of the frame that carries this answer.
pub(super) fn status(reply: &Reply) -> i32 {
    match reply {
        Reply::Failed(failures) => failures.first().map_or(-EINVAL, |first| first.errno),
        Reply::Done | Reply::Text(_) => 0,
    }
}

/// A request that failed as a whole.
pub(super) fn refusal(errno: i32, descr: String) -> Reply {
    Reply::Failed(vec![Failure {
        verb: "manage".to_owned(),
        entity: "request".to_owned(),
        errno,
        descr,
        seq_no: None,
    }])
}
