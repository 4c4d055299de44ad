//! Changes settings of interfaces while they are in use.

use lnet_config::LndTunables;
use lnet_core::NiId;
use lnet_dlc::protocol::{Reply, Tune};
use lnet_types::{Net, Nid};

use super::request::{parsed, refusal};
use crate::change;
use crate::managed::ManagedNode;

const ENOENT: i32 = 2;
const EINVAL: i32 = 22;

/// The most connections of each type to one peer.
const CONNS_PER_PEER_MAX: u8 = 127;

pub(super) fn carry_out(node: &ManagedNode, tune: &Tune) -> Reply {
    let done = which(tune).and_then(|(net, nid)| {
        let tunables = tunables(tune)?;
        let tuned = node.changing().make(|node, _| {
            let nis = node.core().nis();
            let nis = nis.filter(|ni| ni.id != NiId::LOOPBACK);
            let nis = nis.filter(|ni| net.is_none_or(|net| net == ni.nid.net()));
            let nis = nis.filter(|ni| nid.is_none_or(|nid| nid == ni.nid));
            let meant: Vec<NiId> = nis.map(|ni| ni.id).collect();
            for &id in &meant {
                change::retune(node, id, &tunables);
            }
            meant.len()
        });
        match tuned {
            0 => Err(refusal(-ENOENT, "there is no such interface".to_owned())),
            _ => Ok(Reply::Done),
        }
    });
    done.unwrap_or_else(|refused| refused)
}

fn which(tune: &Tune) -> Result<(Option<Net>, Option<Nid>), Reply> {
    let net = tune.net.as_deref().map(parsed).transpose()?;
    let nid = tune.nid.as_deref().map(parsed).transpose()?;
    Ok((net, nid))
}

fn tunables(tune: &Tune) -> Result<LndTunables, Reply> {
    if tune
        .conns_per_peer
        .is_some_and(|conns| conns > CONNS_PER_PEER_MAX)
    {
        let range = format!("conns-per-peer is 0 to {CONNS_PER_PEER_MAX}");
        return Err(refusal(-EINVAL, range));
    }
    Ok(LndTunables {
        conns_per_peer: tune.conns_per_peer,
        timeout: tune.lnd_timeout,
        ..LndTunables::default()
    })
}
