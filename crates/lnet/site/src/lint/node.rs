//! A node as its document describes it: interfaces, routes and rules, each with the path to its place in the
//! document.

use std::collections::BTreeSet;
use std::net::IpAddr;

use lnet_config::machine::{Machine, is_by_ip};
use lnet_config::{Document, Ip2Nets, NiConfig, NiShow, PeerShow, Places, RouteShow, Step};
use lnet_policy::{PolicyError, Profile, Rule, RuleList};
use lnet_types::expr::NidList;
use lnet_types::{Net, Nid};

use crate::lint::catalogue::{Lint, Severity};
use crate::lint::finding::Finding;
use crate::lint::source::{Path, Source, key_text};

/// The limit on the NIs that are compared with each other. Kernel nodes accept 200 interfaces.
pub(crate) const COMPARED_MAX: usize = 256;

/// The limit on the gateways that one entry of a document may name.
// [CONF-7]
const MAX_GATEWAYS: usize = 128;

/// A local NI.
#[derive(Debug)]
pub(crate) struct Ni<'s> {
    pub(crate) net: Net,
    /// The NID from the document or from the address of the interface; `None` if neither is known.
    pub(crate) nid: Option<Nid>,
    pub(crate) interface: Option<String>,
    pub(crate) path: Path,
    /// The NI in the document; `None` for an NI that follows from `ip2nets`.
    pub(crate) show: Option<&'s NiShow>,
}

/// A route.
#[derive(Debug)]
pub(crate) struct Route<'s> {
    pub(crate) show: &'s RouteShow,
    pub(crate) path: Path,
}

/// A valid rule.
#[derive(Debug)]
pub(crate) struct PlacedRule {
    /// The index of its entry in the document.
    pub(crate) entry: usize,
    /// Its index in the node's list of rules.
    pub(crate) index: usize,
    pub(crate) rule: Rule,
}

/// The configuration of a node.
#[derive(Debug)]
pub(crate) struct Node<'s> {
    pub(crate) source: &'s Source<'s>,
    /// The number of nodes that have this document.
    pub(crate) count: usize,
    /// The local NIs, without loopback.
    pub(crate) nis: Vec<Ni<'s>>,
    pub(crate) routes: Vec<Route<'s>>,
    pub(crate) list: RuleList,
    pub(crate) rules: Vec<PlacedRule>,
    /// The local nets.
    local: BTreeSet<Net>,
    /// The nets that messages can be sent to: local nets and nets behind routes.
    reached: BTreeSet<Net>,
    /// Rules that are not valid, each with the index of its entry.
    pub(crate) dead: Vec<(usize, PolicyError)>,
}

impl<'s> Node<'s> {
    /// Collects the parts of a document.
    pub(crate) fn new(source: &'s Source<'s>, count: usize) -> Self {
        let document = &source.document;
        let (list, dead) = document.rules(Profile::Design);
        let rules = document
            .udsp
            .iter()
            .enumerate()
            .take(RuleList::MAX_LEN)
            .filter_map(|(entry, text)| {
                let rule = text.rule(Profile::Design).ok()?;
                let mut rules = list.rules().iter();
                let index = rules.position(|other| other.selector() == rule.selector())?;
                Some(PlacedRule { entry, index, rule })
            });
        let nis = nis(source);
        let by_address = document.ip2nets.iter().map(|rule| rule.net);
        let local: BTreeSet<Net> = nis.iter().map(|ni| ni.net).chain(by_address).collect();
        let routed = document.routes.iter().map(|route| route.net);
        Self {
            nis,
            reached: local.iter().copied().chain(routed).collect(),
            local,
            routes: routes(source),
            rules: rules.collect(),
            dead: dead
                .into_iter()
                .map(|rule| (rule.index, rule.error))
                .collect(),
            list,
            source,
            count,
        }
    }

    pub(crate) fn document(&self) -> &'s Document {
        &self.source.document
    }

    /// Returns an earlier reading of the same node, if there is one.
    pub(crate) fn earlier(&self) -> Option<&'s Document> {
        self.source.earlier.as_ref()
    }

    pub(crate) fn machine(&self) -> Option<&'s Machine> {
        self.source.machine.as_ref()
    }

    pub(crate) fn peers(&self) -> impl Iterator<Item = (usize, &'s PeerShow)> {
        self.document().peers.iter().enumerate()
    }

    /// Returns true if the document does not name the local nets, or names some in a form that was rejected. The
    /// absence of a net then proves nothing.
    pub(crate) fn is_partial(&self) -> bool {
        let says_nothing = self.nis.is_empty() && self.document().ip2nets.is_empty();
        says_nothing || self.lacks(&["net", "ip2nets"])
    }

    /// Returns true if a part of one of these sections was rejected. What is absent from the section then proves
    /// nothing.
    pub(crate) fn lacks(&self, sections: &[&str]) -> bool {
        sections.iter().any(|section| self.source.lacks(section))
    }

    /// Returns true if the value at a path, or a value below it, was rejected.
    pub(crate) fn is_rejected(&self, path: &[Step<'_>]) -> bool {
        self.source.is_rejected(path)
    }

    /// Returns the local nets in the order of the document, each net once.
    pub(crate) fn nets(&self) -> Vec<Net> {
        let mut seen = BTreeSet::new();
        let from_rules = self.document().ip2nets.iter().map(|rule| rule.net);
        let nets = self.nis.iter().map(|ni| ni.net).chain(from_rules);
        nets.filter(|&net| seen.insert(net)).collect()
    }

    pub(crate) fn has_net(&self, net: Net) -> bool {
        self.local.contains(&net)
    }

    /// Returns true if messages to a net can leave this node.
    pub(crate) fn reaches(&self, net: Net) -> bool {
        self.reached.contains(&net)
    }

    /// Returns the local nets.
    pub(crate) fn local(&self) -> &BTreeSet<Net> {
        &self.local
    }

    /// Returns the nets that messages can be sent to.
    pub(crate) fn reached(&self) -> &BTreeSet<Net> {
        &self.reached
    }

    /// Returns the local NIDs that are known.
    pub(crate) fn nids(&self) -> impl Iterator<Item = Nid> {
        self.nis.iter().filter_map(|ni| ni.nid)
    }

    /// Returns true if the NIDs of all local NIs are known.
    pub(crate) fn knows_nids(&self) -> bool {
        let resolved: BTreeSet<Net> = self.nis.iter().map(|ni| ni.net).collect();
        let unresolved = |rule: &Ip2Nets| !resolved.contains(&rule.net);
        !self.lacks(&["net", "ip2nets"])
            && self.nis.iter().all(|ni| ni.nid.is_some())
            && !self.document().ip2nets.iter().any(unresolved)
    }

    /// Returns true if this node forwards. A node forwards only if its document says so.
    pub(crate) fn is_router(&self) -> bool {
        self.document().routing == Some(true)
    }

    /// Returns the NI that a finding with this key is about, if it is one.
    pub(crate) fn ni_of(&self, key: &str) -> Option<&Ni<'s>> {
        self.nis.iter().find(|ni| {
            let rest = key.strip_prefix(&self.key(&ni.path));
            rest.is_some_and(|rest| rest.is_empty() || rest.starts_with('.'))
        })
    }

    /// Returns a path as the key of a finding.
    fn key(&self, path: &[Step<'_>]) -> String {
        let places = self.source.places.as_ref();
        let steps = places.map(|places| places.steps(path));
        key_text(steps.as_deref().unwrap_or(path))
    }

    /// Makes a finding at a path of the document.
    pub(crate) fn finding(
        &self,
        lint: &'static Lint,
        path: &[Step<'_>],
        reason: String,
        fix: String,
    ) -> Finding {
        let position = self.source.position(path);
        Finding {
            code: lint.code,
            severity: lint.severity,
            file: self.source.name.to_owned(),
            line: position.line,
            column: position.column,
            key: self.key(path),
            shown: None,
            reason,
            fix,
        }
    }

    /// Returns the path to a parameter. The parameter may be in the section `global` or outside it.
    pub(crate) fn parameter(&self, key: &'static str) -> Path {
        let places = self.source.places.as_ref();
        let outside = places.is_some_and(|places| places.depth(&[Step::Key(key)]) == 1);
        if outside {
            return vec![Step::Key(key)];
        }
        vec![Step::Key("global"), Step::Key(key)]
    }

    /// Returns the name of an NI in texts.
    pub(crate) fn label(ni: &Ni<'_>) -> String {
        match (&ni.nid, &ni.interface) {
            (Some(nid), Some(interface)) => format!("{nid} ({interface})"),
            (Some(nid), None) => nid.to_string(),
            (None, Some(interface)) => format!("{interface} on {}", ni.net),
            (None, None) => ni.net.to_string(),
        }
    }
}

impl Finding {
    /// Returns the finding with another severity.
    pub(crate) fn with_severity(self, severity: Severity) -> Self {
        Self { severity, ..self }
    }
}

/// Joins names with commas.
pub(crate) fn listed<T: ToString>(items: impl IntoIterator<Item = T>) -> String {
    let items: Vec<String> = items.into_iter().map(|item| item.to_string()).collect();
    items.join(", ")
}

fn nis<'s>(source: &'s Source<'s>) -> Vec<Ni<'s>> {
    let machine = source.machine.as_ref();
    let mut nis = Vec::new();
    for (at, net) in source.document.nets.iter().enumerate() {
        if net.net == Net::LO {
            continue;
        }
        for (item, show) in net.nis.iter().enumerate() {
            let keys = [Step::Key("net"), Step::Item(at), Step::Key("local NI(s)")];
            let path = [keys.as_slice(), &[Step::Item(item)]].concat();
            add_nis(&mut nis, net.net, &show.config, (path, Some(show)), machine);
        }
    }
    let Some(machine) = machine.filter(|_| !source.lacks("ip2nets")) else {
        return nis;
    };
    let local: Vec<(&str, IpAddr)> = machine.named_addresses().collect();
    // If no rule of `ip2nets` applies, there are no nets; another lint reports the mistake.
    let nets = match source.is_options {
        true => Ip2Nets::nets_of_module,
        false => Ip2Nets::nets,
    };
    let by_address = nets(&source.document.ip2nets, &local).unwrap_or_default();
    for net in &by_address {
        let mut rules = source.document.ip2nets.iter();
        let at = rules.position(|rule| rule.net == net.net).unwrap_or(0);
        for config in &net.nis {
            let path = vec![Step::Key("ip2nets"), Step::Item(at)];
            add_nis(&mut nis, net.net, config, (path, None), Some(machine));
        }
    }
    nis
}

/// Adds an NI for each interface that a configuration names.
fn add_nis<'s>(
    nis: &mut Vec<Ni<'s>>,
    net: Net,
    config: &NiConfig,
    (path, show): (Path, Option<&'s NiShow>),
    machine: Option<&Machine>,
) {
    let ni = |nid, interface| Ni {
        net,
        nid,
        interface,
        path: path.clone(),
        show,
    };
    if config.interfaces.is_empty() {
        nis.push(ni(config.nid, None));
    }
    for name in &config.interfaces {
        let by_ip = machine.filter(|_| is_by_ip(net));
        let address = by_ip.and_then(|one| one.address(name));
        let nid = config
            .nid
            .or(address.map(|address| Nid::from_ip(net, address.ip)));
        nis.push(ni(nid, Some(name.clone())));
    }
}

/// Returns the routes of the document with the entries that they come from. One entry may name several gateways.
fn routes<'s>(source: &'s Source<'s>) -> Vec<Route<'s>> {
    let mut shows = source.document.routes.iter();
    let path = |item| vec![Step::Key("route"), Step::Item(item)];
    let mut routes = Vec::new();
    for item in 0.. {
        let count = match &source.places {
            Some(places) => gateways(places, item),
            None => 1,
        };
        let of_entry = shows.by_ref().take(count.max(1));
        let before = routes.len();
        routes.extend(of_entry.map(|show| Route {
            show,
            path: path(item),
        }));
        if routes.len() == before {
            break;
        }
    }
    routes
}

/// Returns the number of gateways that an entry of `route` names.
fn gateways(places: &Places<'_>, item: usize) -> usize {
    let path = [Step::Key("route"), Step::Item(item), Step::Key("gateway")];
    let list = places
        .text(&path)
        .and_then(|text| text.parse::<NidList>().ok());
    let nids = list.and_then(|list| list.expand(MAX_GATEWAYS).ok());
    nids.map_or(1, |nids| nids.len())
}
