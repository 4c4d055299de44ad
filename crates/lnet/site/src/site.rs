//! A site as its files describe it: nodes, classes of nodes with the same configuration, and roles.

use std::collections::{BTreeMap, BTreeSet};

use lnet_config::machine::{Lack, Machine};
use lnet_config::{Document, NetShow, NiShow, Status};
use lnet_types::{Net, Nid};

use crate::check::short;
use crate::document::{self, StandIns};
use crate::error::SiteError;
use crate::fold::fold;
use crate::gather::{Gathered, NodeText};
use crate::lint::LintError;

/// A node, or all nodes that one file name stands for.
#[derive(Clone, Debug)]
pub struct Member {
    /// The text of its files.
    pub text: NodeText,
    /// The document in the text. Every NI has a NID, and the document holds no nets other than the configured ones.
    pub document: Document,
    /// True if the text is no configuration, so that nothing is known of the node.
    pub is_unread: bool,
    /// The interfaces of the machine, if they are known.
    pub machine: Option<Machine>,
    /// The port, if options of the module are among the node's files; a document names none.
    pub port: Option<u16>,
    /// Made-up NIDs in place of unknown NIDs, each with the name of its interface.
    pub invented: Vec<(Nid, String)>,
    /// The index of its class in [`Site::classes`].
    pub class: usize,
    /// The index of its role in [`Site::roles`].
    pub role: usize,
}

/// A class: nodes that differ only in their NIDs and counters.
#[derive(Clone, Debug)]
pub struct Class {
    /// The indices of its members in [`Site::members`]. The first member stands for all.
    pub members: Vec<usize>,
    /// The number of nodes.
    pub nodes: usize,
    /// The index of the role in [`Site::roles`].
    pub role: usize,
    /// The settings of the nodes, each as `path: value`.
    pub settings: BTreeSet<String>,
}

/// The role of nodes: whether they forward, and their nets. Only nodes of the same role are compared.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Role {
    /// True if the nodes forward messages of others.
    pub is_router: bool,
    /// The nets of the nodes.
    pub nets: BTreeSet<Net>,
}

/// A site: all nodes, with their classes and roles.
#[derive(Clone, Debug)]
pub struct Site {
    /// Every member of the site.
    pub members: Vec<Member>,
    /// The classes. Within a role the largest class comes first.
    pub classes: Vec<Class>,
    /// The roles, sorted.
    pub roles: Vec<Role>,
    /// The paths of files that were not understood, each with the reason.
    pub passed_over: Vec<(String, &'static str)>,
    /// The names of nodes with an unreadable file; each name may be a host list.
    pub unreadable: BTreeSet<String>,
}

impl Site {
    /// Builds a site from the gathered files.
    ///
    /// # Errors
    ///
    /// Returns an error if there is no node, or if a list of interfaces cannot be read.
    pub fn new(gathered: Gathered) -> Result<Self, SiteError> {
        let mut free = StandIns::default();
        let mut members = Vec::new();
        for text in gathered.nodes {
            members.push(Member::new(text, &mut free)?);
        }
        if members.is_empty() {
            return Err(SiteError::Empty);
        }
        let mut site = Self {
            members,
            classes: Vec::new(),
            roles: Vec::new(),
            passed_over: gathered.passed_over,
            unreadable: gathered.unreadable,
        };
        site.sort_out();
        Ok(site)
    }

    /// Returns the number of nodes.
    #[must_use]
    pub fn nodes(&self) -> usize {
        self.members.iter().map(|member| member.text.count).sum()
    }

    /// Returns the names of the nodes whose texts are no configurations, as a host list.
    #[must_use]
    pub fn unread(&self) -> String {
        let unread = self.members.iter().filter(|member| member.is_unread);
        fold(unread.map(|member| member.text.name.as_str()))
    }

    /// Returns the names of the nodes without a readable configuration.
    pub(crate) fn unknown(&self) -> BTreeSet<String> {
        let named = |is_unread: bool| {
            let members = self.members.iter();
            let found = members.filter(move |member| member.is_unread == is_unread);
            hosts(found.map(|member| &member.text.name))
        };
        if self.unreadable.is_empty() {
            return named(true);
        }
        let unreadable = &hosts(self.unreadable.iter()) - &named(false);
        &unreadable | &named(true)
    }

    /// Returns the names of some members as a host list.
    #[must_use]
    pub fn names(&self, members: &[usize]) -> String {
        let names = members.iter().filter_map(|&at| self.members.get(at));
        fold(names.map(|member| member.text.name.as_str()))
    }

    /// Returns the name of a member, shortened if it is long.
    #[must_use]
    pub fn member_name(&self, at: usize) -> String {
        let name = self
            .members
            .get(at)
            .map_or("nobody", |one| one.text.name.as_str());
        short(name)
    }

    /// Returns the names of a class, shortened if they are long.
    #[must_use]
    pub fn class_name(&self, at: usize) -> String {
        let members = self.classes.get(at).map(|class| self.names(&class.members));
        short(&members.unwrap_or_default())
    }

    /// Returns a smaller site with the same behaviour: every gateway, and one member for all other nodes of a
    /// class. Nodes that have one of the NIDs in `apart` stay members of their own.
    #[must_use]
    pub fn reduced(&self, apart: &BTreeSet<Nid>) -> Self {
        let routes = self.members.iter().flat_map(|one| &one.document.routes);
        let named: BTreeSet<Nid> = routes.map(|route| route.gateway).collect();
        let stays = |one: &Member| {
            one.is_router()
                || one
                    .nids()
                    .any(|nid| named.contains(&nid) || apart.contains(&nid))
        };
        let mut members = Vec::new();
        for class in &self.classes {
            let ends: Vec<usize> = class
                .members
                .iter()
                .copied()
                .filter(|at| self.members.get(*at).is_some_and(|one| !stays(one)))
                .collect();
            let kept = class.members.iter().filter_map(|&at| self.members.get(at));
            members.extend(kept.filter(|one| stays(one)).cloned());
            if let Some(mut first) = ends.first().and_then(|&at| self.members.get(at)).cloned() {
                let nodes = ends.iter().filter_map(|&at| self.members.get(at));
                first.text.count = nodes.map(|one| one.text.count).sum();
                first.text.name = self.names(&ends);
                members.push(first);
            }
        }
        let mut site = Self {
            members,
            classes: Vec::new(),
            roles: Vec::new(),
            passed_over: Vec::new(),
            unreadable: BTreeSet::new(),
        };
        site.sort_out();
        site
    }

    /// Returns the members that forward messages or that others name as gateways.
    #[must_use]
    pub fn gateways(&self) -> BTreeSet<usize> {
        let routes = self.members.iter().flat_map(|one| &one.document.routes);
        let named: BTreeSet<Nid> = routes.map(|route| route.gateway).collect();
        let members = self.members.iter().enumerate();
        let found = members
            .filter(|(_, one)| one.is_router() || one.nids().any(|nid| named.contains(&nid)));
        found.map(|(at, _)| at).collect()
    }

    /// Computes roles and classes again after the documents of members have changed.
    pub(crate) fn sort_out(&mut self) {
        let roles: BTreeSet<Role> = self
            .members
            .iter()
            .map(|one| Role::of(&one.document))
            .collect();
        self.roles = roles.into_iter().collect();
        let mut by_settings: BTreeMap<(usize, BTreeSet<String>), Vec<usize>> = BTreeMap::new();
        for (at, member) in self.members.iter_mut().enumerate() {
            let role = Role::of(&member.document);
            member.role = self.roles.binary_search(&role).unwrap_or(0);
            let mut settings = settings(&member.document);
            let other_port = member.port.filter(|port| *port != document::PORT);
            settings.extend(other_port.map(|port| format!("accept_port: {port}")));
            let missing = member.lacks().filter(|(.., lack)| *lack == Lack::Interface);
            let missing =
                missing.map(|(nid, name, _)| format!("{} on a missing {name}", nid.net()));
            settings.extend(missing.collect::<Vec<_>>());
            let key = (member.role, settings);
            by_settings.entry(key).or_default().push(at);
        }
        let members = &self.members;
        let count = |at: &usize| members.get(*at).map_or(0, |one| one.text.count);
        let classes = by_settings
            .into_iter()
            .map(|((role, settings), members)| Class {
                nodes: members.iter().map(count).sum(),
                members,
                role,
                settings,
            });
        let mut classes: Vec<Class> = classes.collect();
        classes.sort_by_key(|class| (class.role, std::cmp::Reverse(class.nodes)));
        self.classes = classes;
        for (at, class) in self.classes.iter().enumerate() {
            for member in &class.members {
                if let Some(member) = self.members.get_mut(*member) {
                    member.class = at;
                }
            }
        }
    }
}

impl Member {
    fn new(text: NodeText, free: &mut StandIns) -> Result<Self, SiteError> {
        let machine = text.interfaces.as_deref().map(Machine::parse).transpose();
        let machine = machine.map_err(|source| LintError::Interfaces {
            name: text.name.clone(),
            source,
        })?;
        let read = document::read(&text, machine.as_ref());
        let is_unread = read.is_none();
        let mut document = read.unwrap_or_default();
        let port = text.port;
        let invented = document::resolve(&mut document, machine.as_ref(), free);
        if let Some(machine) = &machine {
            document::mark_dead(&mut document, machine);
        }
        Ok(Self {
            text,
            document,
            is_unread,
            machine,
            port,
            invented,
            class: 0,
            role: 0,
        })
    }

    /// Returns the NIDs of the member.
    pub fn nids(&self) -> impl Iterator<Item = Nid> {
        let nis = self.document.nets.iter().flat_map(|net| &net.nis);
        nis.filter_map(|ni| ni.config.nid)
    }

    /// Returns true if the member forwards messages of others.
    #[must_use]
    pub fn is_router(&self) -> bool {
        self.document.routing == Some(true)
    }

    /// Returns true if the member discovers the NIDs of its peers.
    pub(crate) fn discovers(&self) -> bool {
        self.document.globals.discovery != Some(false)
    }

    /// Returns true if the member pings its gateways regularly.
    pub(crate) fn asks_gateways(&self) -> bool {
        self.document.globals.alive_router_check_interval != Some(0)
    }

    /// Returns what the machine lacks under NIs, each with the NID and the name of its interface.
    fn lacks(&self) -> impl Iterator<Item = (Nid, &str, Lack)> {
        let machine = self.machine.iter();
        machine.flat_map(|machine| {
            let nis = self.document.nets.iter().flat_map(|net| &net.nis);
            nis.filter_map(|ni| {
                let (nid, name) = (ni.config.nid?, ni.config.interfaces.first()?);
                let lack = machine.lack(nid.net(), Some(nid), name)?;
                Some((nid, name.as_str(), lack))
            })
        })
    }

    /// Returns what an administrator can do about an NI that the machine keeps from working; `None` if it does not, or is
    /// not known.
    pub(crate) fn advice_for(&self, nid: Nid) -> Option<String> {
        let (_, name, lack) = self.lacks().find(|(own, ..)| *own == nid)?;
        Some(self.machine.as_ref()?.advice_for(lack, name))
    }

    /// Marks an NI as one that works.
    pub(crate) fn mark_up(&mut self, nid: Nid) {
        let nis = self.document.nets.iter_mut().flat_map(|net| &mut net.nis);
        for ni in nis.filter(|ni| ni.config.nid == Some(nid)) {
            ni.status = None;
            if let Some(health) = &mut ni.health {
                health.fatal_error = 0;
            }
        }
    }

    /// Returns the NIDs that did not work when the document was written. A router also prints an NI as down if
    /// nothing was sent to it for some time, so for routers only fatal errors count.
    pub(crate) fn failed_nids(&self) -> impl Iterator<Item = Nid> {
        let nis = self.document.nets.iter().flat_map(|net| &net.nis);
        let is_router = self.is_router();
        let failed = nis.filter(move |ni| {
            let is_fatal = ni
                .health
                .as_ref()
                .is_some_and(|health| health.fatal_error != 0);
            is_fatal || (!is_router && ni.status == Some(Status::Down))
        });
        failed.filter_map(|ni| ni.config.nid)
    }
}

impl Role {
    fn of(document: &Document) -> Self {
        Self {
            is_router: document.routing == Some(true),
            nets: document.nets.iter().map(|net| net.net).collect(),
        }
    }

    /// Returns the name of the role.
    #[must_use]
    pub fn name(&self) -> String {
        let nets: Vec<String> = self.nets.iter().map(ToString::to_string).collect();
        let what = if self.is_router { "routers" } else { "nodes" };
        match nets.len() {
            0 => format!("{what} without networks"),
            _ => format!("{what} of {}", nets.join(", ")),
        }
    }
}

/// Returns each host of some host lists.
fn hosts<'n>(names: impl Iterator<Item = &'n String>) -> BTreeSet<String> {
    let hosts = names.flat_map(|name| match fgr::hosts(name) {
        Ok(hosts) if !hosts.is_empty() => hosts,
        _ => vec![name.clone()],
    });
    hosts.collect()
}

/// Returns the settings of a node without its NIDs and counters.
fn settings(document: &Document) -> BTreeSet<String> {
    let mut bare = Document {
        nets: document.nets.iter().map(bare_net).collect(),
        routes: document.routes.clone(),
        routing: document.routing,
        buffers: document.buffers,
        globals: document.globals,
        udsp: document.udsp.clone(),
        ..Document::default()
    };
    // A node with discovery finds its peers' NIDs itself, so a list of peers makes no difference.
    if document.globals.discovery == Some(false) {
        bare.peers.clone_from(&document.peers);
    }
    for route in &mut bare.routes {
        // A document without a state of the route equals a document with the state `up`.
        route.state = route.state.filter(|status| *status == Status::Down);
        route.kind = None;
        route.health_sensitivity = None;
    }
    flat(&bare.to_yaml())
}

fn bare_net(net: &NetShow) -> NetShow {
    let nis = net.nis.iter().zip(1..).map(|(ni, number)| {
        let mut config = ni.config.clone();
        config.nid = None;
        if config.interfaces.is_empty() {
            config.interfaces = vec![format!("interface {number}")];
        }
        NiShow {
            config,
            status: ni.status.filter(|status| *status == Status::Down),
            ..NiShow::default()
        }
    });
    NetShow {
        net: net.net,
        nis: nis.collect(),
    }
}

/// A key or a list entry that encloses the following lines.
struct Above {
    column: usize,
    name: String,
    is_entry: bool,
    entries: usize,
}

/// Returns the lines of a document in block style, each preceded by the keys and entries that enclose it. An entry
/// is named by its first value, or by its number.
fn flat(yaml: &str) -> BTreeSet<String> {
    let mut above: Vec<Above> = Vec::new();
    let mut lines = BTreeSet::new();
    for line in yaml.lines() {
        let indent = line.len() - line.trim_start_matches(' ').len();
        let text = line.trim_start_matches([' ', '-']);
        let column = line.len() - text.len();
        let is_entry = line.trim_start().starts_with("- ");
        let Some((key, value)) = text.split_once(':') else {
            continue;
        };
        let value = value.trim();
        if is_entry {
            above.retain(|one| one.column < indent || (one.column == indent && !one.is_entry));
            let number = above.last_mut().map_or(0, |list| {
                list.entries += 1;
                list.entries
            });
            let name = match value {
                "" => number.to_string(),
                value => value.to_owned(),
            };
            above.push(Above {
                column: indent,
                name,
                is_entry,
                entries: 0,
            });
        } else {
            above.retain(|one| one.column < column);
        }
        let path: String = above.iter().map(|one| format!("{}/", one.name)).collect();
        if value.is_empty() {
            above.push(Above {
                column,
                name: key.to_owned(),
                is_entry: false,
                entries: 0,
            });
        } else {
            lines.insert(format!("{path}{key}: {value}"));
        }
    }
    lines
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::gather::SiteFile;

    fn site(files: &[(&str, &str)]) -> Site {
        let files: Vec<SiteFile> = files
            .iter()
            .map(|(path, text)| SiteFile {
                path: (*path).to_owned(),
                text: (*text).to_owned(),
            })
            .collect();
        crate::read(&files).unwrap()
    }

    fn node(last: u8, more: &str) -> String {
        format!(
            "net:\n- net type: tcp\n  local NI(s):\n  - nid: 10.0.0.{last}@tcp\n    interfaces: {{0: eth0}}\n{more}"
        )
    }

    #[test]
    fn nodes_that_differ_in_their_nids_only_are_one_class() {
        let (a, b, c) = (
            node(1, ""),
            node(2, ""),
            node(3, "global: {retry_count: 5}\n"),
        );
        let site = site(&[
            ("n1.yaml", &a),
            ("n2.yaml", &b),
            ("n3.yaml", &c),
            ("n[4-9].yaml", &a),
        ]);
        assert_eq!(
            (site.nodes(), site.roles.len(), site.classes.len()),
            (9, 1, 2)
        );
        let [many, one] = &site.classes[..] else {
            panic!("{:?}", site.classes)
        };
        assert_eq!(
            (many.nodes, site.names(&many.members)),
            (8, "n[1-2],n[4-9]".to_owned())
        );
        let told: Vec<&String> = one.settings.difference(&many.settings).collect();
        assert_eq!(told, ["global/retry_count: 5"]);
    }

    #[test]
    fn settings_are_called_by_their_place() {
        let text = "net:\n-     net type: tcp\n      local NI(s):\n      -     interfaces:\n                  0: a\n\
                    \x20           tunables:\n                  credits: 8\n      -     interfaces:\n                  0: b\n\
                    routing: 1\n";
        let lines: Vec<String> = flat(text).into_iter().collect();
        assert_eq!(
            lines,
            [
                "net/tcp/local NI(s)/1/interfaces/0: a",
                "net/tcp/local NI(s)/1/tunables/credits: 8",
                "net/tcp/local NI(s)/2/interfaces/0: b",
                "net/tcp/net type: tcp",
                "routing: 1"
            ]
        );
    }

    #[test]
    fn nids_come_from_addresses_or_are_stood_in_for() {
        let text = "net:\n- net type: tcp\n  local NI(s):\n  - interfaces: {0: eth0, 1: eth1}\n";
        let addresses = r#"[{"ifname":"eth0","addr_info":[{"local":"10.0.0.7","prefixlen":24}]}]"#;
        let site = site(&[("n.yaml", text), ("n.json", addresses)]);
        let nids: Vec<String> = site.members[0].nids().map(|nid| nid.to_string()).collect();
        assert_eq!(nids, ["10.0.0.7@tcp", "0.0.0.1@tcp"]);
        assert_eq!(site.members[0].invented[0].1, "eth1");
    }
}
