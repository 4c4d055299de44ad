//! Lints of the local nets.

use std::collections::BTreeSet;

use lnet_config::pinned::{Pinned, size};
use lnet_config::{NiShow, Step};
use lnet_policy::Policy;
use lnet_types::{LndType, Net};

use crate::lint::catalogue::{
    CPT_EXCLUDES_DEVICE, CREDITS_TOO_FEW, MEMLOCK, MIXED_FABRICS, MIXED_TUNABLES,
    WATERMARK_REPLACED,
};
use crate::lint::finding::Finding;
use crate::lint::node::{Ni, Node, listed};

/// Reports an NI whose CPTs do not include the CPT of its device: its messages cross the machine to reach the
/// device.
pub(super) fn cpt_excludes_device(node: &Node<'_>) -> Vec<Finding> {
    let wrong = node.nis.iter().filter_map(|ni| {
        let show = ni.show?;
        let device = u32::try_from(show.dev_cpt?).ok()?;
        let cpts = &show.config.cpts;
        (!cpts.is_empty() && !cpts.contains(&device)).then_some((ni, cpts, device))
    });
    let told = wrong.map(|(ni, cpts, device)| {
        let reason = format!(
            "the CPT set of {} is [{}] and its device is at CPT {device}: every message crosses to another NUMA node",
            Node::label(ni),
            listed(cpts)
        );
        let fix = format!("add {device} to CPT, or leave CPT out");
        let path = [ni.path.as_slice(), &[Step::Key("CPT")]].concat();
        node.finding(&CPT_EXCLUDES_DEVICE, &path, reason, fix)
    });
    told.collect()
}

/// Reports NIs whose tunables differ from those of the first NI of their net: all NIs of a net share the tunables
/// of the first.
pub(super) fn mixed_tunables(node: &Node<'_>) -> Vec<Finding> {
    let of_net = |net: Net| {
        let shown = node.nis.iter().filter(move |ni| ni.net == net);
        shown.filter_map(|ni| Some((ni, ni.show?)))
    };
    let mut found = Vec::new();
    for net in node.nets() {
        let mut nis: Vec<(&Ni<'_>, &NiShow)> = of_net(net).collect();
        // The tunables of a rejected NI are not known.
        nis.retain(|(ni, _)| !node.is_rejected(ni.path.get(..2).unwrap_or(&ni.path)));
        // Several interfaces of one list item share the tunables of the item.
        nis.dedup_by(|(b, _), (a, _)| a.path == b.path);
        let Some(&(first, show)) = nis.first() else {
            continue;
        };
        let tunables = &show.config.tunables;
        let others = nis
            .iter()
            .filter(|(_, other)| other.config.tunables != *tunables);
        found.extend(others.map(|(ni, _)| {
            let reason = format!(
                "{} has other tunables than {}, and all NIs of {net} get those of the first",
                Node::label(ni),
                Node::label(first)
            );
            let fix = format!("set the tunables of {net} once, next to 'local NI(s)'");
            let path = [ni.path.as_slice(), &[Step::Key("tunables")]].concat();
            node.finding(&MIXED_TUNABLES, &path, reason, fix)
        }));
    }
    found
}

/// Reports NIs with fewer credits for all peers than one peer may have.
pub(super) fn credits_too_few(node: &Node<'_>) -> Vec<Finding> {
    let mut seen = BTreeSet::new();
    let first = node.nis.iter().filter(|ni| seen.insert(ni.net));
    let wrong = first.filter_map(|ni| {
        let tunables = &ni.show?.config.tunables;
        let [credits, of_peer] = [tunables.credits, tunables.peer_credits];
        let given = credits.or(of_peer);
        let (credits, of_peer) = (credits.unwrap_or(256), of_peer.unwrap_or(8));
        (given.is_some() && credits < of_peer).then_some((ni, credits, of_peer))
    });
    let told = wrong.map(|(ni, credits, of_peer)| {
        let reason = format!(
            "{} has {credits} credits for all peers and peer_credits {of_peer} for each: one peer can take all, and gets              no more than {credits}",
            ni.net
        );
        let fix = format!("credits: at least {of_peer}, or peer_credits: at most {credits}");
        let steps = [Step::Key("tunables"), Step::Key("credits")];
        let path = [ni.path.as_slice(), &steps].concat();
        node.finding(&CREDITS_TOO_FEW, &path, reason, fix)
    });
    told.collect()
}

/// Reports a high-water mark of an o2ib net that does not fit the depth of its queue: credits are given back at half of the
/// depth at the earliest, and before the queue is used up.
// [IB-24]
pub(super) fn watermark_replaced(node: &Node<'_>) -> Vec<Finding> {
    let mut seen = BTreeSet::new();
    let of_o2ib = |ni: &&Ni<'_>| ni.net.lnd == LndType::O2IB && seen.insert(ni.net);
    let wrong = node.nis.iter().filter(of_o2ib).filter_map(|ni| {
        let config = &ni.show?.config;
        let mark = config.lnd_tunables.other.get("peercredits_hiw")?;
        let mark: u32 = mark.parse().ok().filter(|&mark| mark > 0)?;
        let depth = config.tunables.peer_credits.unwrap_or(8);
        let most = depth.saturating_sub(1).max(1);
        let taken = mark.clamp(depth.div_ceil(2).min(most), most);
        (taken != mark).then_some((ni, mark, depth, taken))
    });
    let told = wrong.map(|(ni, mark, depth, taken)| {
        let reason = format!(
            "{} has peercredits_hiw {mark} with peer_credits {depth}, and the LND takes {taken}",
            ni.net
        );
        let fix = format!("peercredits_hiw: {taken}");
        let steps = [Step::Key("lnd tunables"), Step::Key("peercredits_hiw")];
        let path = [ni.path.as_slice(), &steps].concat();
        node.finding(&WATERMARK_REPLACED, &path, reason, fix)
    });
    told.collect()
}

/// Reports a limit of locked memory that cannot hold what the o2ib nets register with devices. Only a node in user space has
/// such a limit, so that without a stated limit nothing is reported.
pub(super) fn memlock(node: &Node<'_>) -> Vec<Finding> {
    let machine = node.machine();
    let Some((machine, limit)) = machine.and_then(|one| Some((one, one.locked_memory?))) else {
        return Vec::new();
    };
    let (mut config, _) = node.document().config();
    machine.resolve_as_module(&mut config);
    let Some(pinned) = Pinned::of(&config).filter(|pinned| pinned.total() > limit) else {
        return Vec::new();
    };
    let reason = format!(
        "the o2ib nets use up to {pinned}, and RLIMIT_MEMLOCK is {}: transfers fail when it is used up",
        size(limit)
    );
    let fix = "LimitMEMLOCK=infinity in the unit of the node, or `ulimit -l unlimited`".to_owned();
    vec![node.finding(&MEMLOCK, &[Step::Key("net")], reason, fix)]
}

/// Reports nets of several LNDs without a rule that ranks them: messages may take the slow net.
pub(super) fn mixed_fabrics(node: &Node<'_>) -> Vec<Finding> {
    let nets = node.nets();
    let kinds: BTreeSet<LndType> = nets.iter().map(|net| net.lnd).collect();
    // A router has several nets in order to join them.
    let is_unknown = node.lacks(&["routing", "udsp"]);
    if kinds.len() < 2 || node.is_router() || is_unknown {
        return Vec::new();
    }
    let mut policy = Policy::new(&node.list, lnet_policy::Profile::Design, &[], &[]);
    let mut ranked = nets.iter().filter(|&&net| {
        policy.local_net(net).set_by.is_some() || policy.peer_net(net).set_by.is_some()
    });
    if ranked.next().is_some() {
        return Vec::new();
    }
    let reason = format!(
        "this node advertises {}, and no rule says which of them comes first: messages to a peer that has several \
         take any, also the slow one",
        listed(&nets)
    );
    let fast = nets.iter().find(|net| net.lnd != LndType::TCP);
    let fast = fast.or(nets.first()).map_or(String::new(), Net::to_string);
    let fix = format!(
        "configure LNet on the wanted interface only, or prefer its net: lnetctl udsp add --src {fast} --priority 0"
    );
    vec![node.finding(&MIXED_FABRICS, &[Step::Key("net")], reason, fix)]
}
