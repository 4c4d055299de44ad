//! Names what failed or changed at nodes, before the effects on paths: a gateway that no longer forwards, NIDs, routes.

use std::collections::{BTreeMap, BTreeSet};

use lnet_types::{Net, Nid};

use crate::fold::fold;
use crate::site::{Member, Site};

/// Returns what a failure of NIDs takes from gateways: each gateway that no longer forwards, and between which nets.
pub(crate) fn of_failure(site: &Site, failed: &BTreeSet<Nid>) -> Vec<String> {
    let mut by_text: BTreeMap<String, Vec<&str>> = BTreeMap::new();
    for at in site.gateways() {
        let Some(member) = site.members.get(at).filter(|one| one.is_router()) else {
            continue;
        };
        let nets = |up: bool| -> BTreeSet<Net> {
            let nids = member.nids().filter(|nid| !up || !failed.contains(nid));
            nids.map(Nid::net).collect()
        };
        let (all, left) = (nets(false), nets(true));
        if all == left {
            continue;
        }
        let text = match left.len() < 2 {
            true => format!("no longer forwards between {}", joined(&all)),
            false => format!("no longer forwards to {}", joined(&(&all - &left))),
        };
        by_text.entry(text).or_default().push(&member.text.name);
    }
    told(by_text)
}

/// Returns how the documents of nodes differ in what decides paths. Nodes correspond by their names.
pub(crate) fn of_change(old: &Site, new: &Site) -> Vec<String> {
    let (of_old, of_new) = (by_name(old), by_name(new));
    let mut by_text: BTreeMap<String, Vec<&str>> = BTreeMap::new();
    for (name, old) in &of_old {
        let Some(new) = of_new
            .get(name)
            .filter(|new| !new.is_unread && !old.is_unread)
        else {
            continue;
        };
        for text in changes(old, new) {
            by_text.entry(text).or_default().push(name);
        }
    }
    let mut causes = told(by_text);
    // A gateway that no longer forwards takes the paths of all others, so it comes first.
    causes.sort_by_key(|cause| !cause.contains("forwards"));
    causes
}

fn by_name(site: &Site) -> BTreeMap<String, &Member> {
    let members = site.members.iter().flat_map(|member| {
        let names = fgr::hosts(&member.text.name).unwrap_or_default();
        names.into_iter().map(move |name| (name, member))
    });
    members.collect()
}

/// Returns the differences between two documents of one node, in words.
fn changes(old: &Member, new: &Member) -> Vec<String> {
    let mut changes = Vec::new();
    match (old.is_router(), new.is_router()) {
        (true, false) => changes.push("no longer forwards (routing is off)".to_owned()),
        (false, true) => changes.push("now forwards (routing is on)".to_owned()),
        _ => {}
    }
    // The NIDs of nodes in one class differ; their nets say what changed for all.
    let nets = |member: &Member| -> BTreeSet<String> {
        member
            .nids()
            .map(|nid| format!("an NI on {}", nid.net()))
            .collect()
    };
    let down = |member: &Member| -> BTreeSet<String> {
        let failed = member.failed_nids();
        failed
            .map(|nid| format!("the NI on {}", nid.net()))
            .collect()
    };
    for (was, is, what) in [(old, new, "down"), (new, old, "up again")] {
        let changed = &down(is) - &down(was);
        changes.extend(changed.iter().map(|ni| format!("{ni} is {what}")));
    }
    let routes = |member: &Member| -> BTreeSet<String> {
        let routes = member.document.routes.iter();
        routes
            .map(|route| format!("the route to {} by {}", route.net, route.gateway))
            .collect()
    };
    for (was, is) in [(nets(old), nets(new)), (routes(old), routes(new))] {
        let (lost, won) = (&was - &is, &is - &was);
        if !lost.is_empty() {
            changes.push(format!("lost {}", joined(&lost)));
        }
        if !won.is_empty() {
            changes.push(format!("got {}", joined(&won)));
        }
    }
    let asymmetric = |member: &Member| member.document.globals.drop_asym_route == Some(true);
    match (asymmetric(old), asymmetric(new)) {
        (false, true) => changes.push("now drops messages of asymmetric routes".to_owned()),
        (true, false) => changes.push("no longer drops messages of asymmetric routes".to_owned()),
        _ => {}
    }
    changes
}

fn told(by_text: BTreeMap<String, Vec<&str>>) -> Vec<String> {
    let causes = by_text.into_iter();
    causes
        .map(|(text, names)| format!("{}: {text}", fold(names)))
        .collect()
}

fn joined<T: ToString>(items: &BTreeSet<T>) -> String {
    let items: Vec<String> = items.iter().map(ToString::to_string).collect();
    items.join(", ")
}
