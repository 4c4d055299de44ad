//! The description of a machine, with the place of each part for error messages, and its check.

use std::collections::{BTreeMap, BTreeSet};
use std::net::Ipv4Addr;

use lnet_types::Net;

use crate::input::{NODE_NAME, is_file_name, is_node_name};
use crate::machine::{Client, Details, Group, Machine, Module, NetEntry, Origin, Role, Router};
use crate::problem::{InputError, Place, Problem, Reason, shown};
use crate::rates::RateSources;
use crate::rule::Axes;
use crate::topology::{Fabric, Vertex};

/// Most router nodes, modules and nets: their indices have 16 bits, and one value means "none".
const MAX_ROUTERS: usize = u16::MAX as usize - 1;

/// A client, and the place of its description.
#[derive(Clone, Debug)]
pub struct ClientDraft {
    /// The client.
    pub client: Client,
    /// The place of the description.
    pub place: Place,
}

/// A node of a module.
#[derive(Clone, Debug)]
pub struct NodeDraft {
    /// Number of the node.
    pub id: u32,
    /// Vertex of the node.
    pub vertex: Vertex,
    /// The net to which it routes.
    pub net: Net,
}

/// A module, and the place of its description.
#[derive(Clone, Debug)]
pub struct ModuleDraft {
    /// Name of the module's group.
    pub group: String,
    /// What the group's nets carry.
    pub role: Role,
    /// The sub-group of the module, from 1.
    pub sub_group: u16,
    /// The index of the module in the sub-group, from 1.
    pub index: u16,
    /// The blade of the module.
    pub blade: String,
    /// The cabinet of the module.
    pub cabinet: String,
    /// The nodes of the module.
    pub nodes: Vec<NodeDraft>,
    /// The place of the description.
    pub place: Place,
}

/// A machine as described by one or more inputs.
#[derive(Clone, Debug)]
pub struct Draft {
    /// Name of the machine.
    pub name: String,
    /// Where the description comes from.
    pub origin: Origin,
    /// The fabric.
    pub fabric: Fabric,
    /// The clients.
    pub clients: Vec<ClientDraft>,
    /// The modules.
    pub modules: Vec<ModuleDraft>,
    /// Number of planes that a module occupies. By default the planes of its nodes.
    pub footprint: Option<u16>,
    /// Names of routers, and interfaces of nodes.
    pub details: Details,
    /// Where rates come from.
    pub rates: RateSources,
    /// The place that problems of the whole description name.
    pub place: Place,
    /// Doubtful points that readers found.
    pub warnings: Vec<Problem>,
}

impl Draft {
    /// Checks the description and assigns all indices.
    ///
    /// # Errors
    ///
    /// Every contradiction: numbers, blades, places in a group or nets that appear twice,
    /// sub-groups without modules, modules that lack a router on one of their nets, no clients, no
    /// nets, more parts than an index can number.
    pub fn check(mut self) -> Result<Machine, InputError> {
        let mut check = Check::default();
        check.sizes(&self);
        check.numbers(&self);
        let order = check.group_order(&self);
        self.modules
            .sort_by_key(|m| (order.get(&m.group).copied(), m.sub_group, m.index));
        check.modules(&self);
        check.nets(&self);
        check.names(&self);
        check.details(&self);
        check.problems.sort();
        if !check.problems.is_empty() {
            return Err(InputError(check.problems));
        }
        let mut machine = assemble(self, &order);
        check_windows(&mut machine);
        Ok(machine)
    }
}

/// Problems found so far.
#[derive(Default)]
struct Check {
    problems: Vec<Problem>,
}

impl Check {
    fn add(&mut self, place: &Place, reason: Reason) {
        let place = place.clone();
        self.problems.push(Problem { place, reason });
    }

    fn sizes(&mut self, draft: &Draft) {
        if draft.clients.is_empty() {
            self.add(&draft.place, Reason::NoClients);
        }
        let is_data = |module: &ModuleDraft| module.role == Role::Data && !module.nodes.is_empty();
        if !draft.modules.iter().any(is_data) {
            self.add(&draft.place, Reason::NoGroups);
        }
        let routers: usize = draft.modules.iter().map(|module| module.nodes.len()).sum();
        if routers > MAX_ROUTERS || draft.modules.len() > MAX_ROUTERS {
            let (what, max) = ("router nodes", MAX_ROUTERS);
            self.add(&draft.place, Reason::TooMany { what, max });
        }
    }

    /// Checks that every number occurs once and every vertex is in the fabric.
    fn numbers(&mut self, draft: &Draft) {
        let mut seen: Vec<(u32, &Place)> = Vec::new();
        let clients = draft.clients.iter();
        let clients = clients.map(|c| (c.client.id, c.client.vertex, &c.place));
        let nodes = draft.modules.iter().flat_map(|module| {
            // A node of several nets occurs once for each of its nets.
            let again = |at: usize, node: &NodeDraft| {
                let same =
                    |o: &NodeDraft| (o.id, o.vertex) == (node.id, node.vertex) && o.net != node.net;
                module.nodes[..at].iter().any(same)
            };
            let nodes = module
                .nodes
                .iter()
                .enumerate()
                .filter(move |(at, node)| !again(*at, node));
            nodes.map(|(_, node)| (node.id, node.vertex, &module.place))
        });
        for (id, vertex, place) in clients.chain(nodes) {
            if vertex.0 >= draft.fabric.vertices() {
                self.add(place, Reason::Outside(format!("vertex {}", vertex.0)));
            }
            seen.push((id, place));
        }
        // A stable sort: equal numbers stay in the order of the description.
        seen.sort_by_key(|&(id, _)| id);
        for again in seen.chunk_by(|a, b| a.0 == b.0) {
            for &(id, place) in &again[1..] {
                let first = again[0].1.clone();
                self.add(place, Reason::NodeTwice { id, first });
            }
        }
    }

    /// Returns the index of each group: the order of first appearance.
    fn group_order(&mut self, draft: &Draft) -> BTreeMap<String, u16> {
        let mut order = BTreeMap::new();
        for module in &draft.modules {
            // More modules than u16 can number were rejected earlier.
            let next = u16::try_from(order.len()).unwrap_or(u16::MAX);
            order.entry(module.group.clone()).or_insert(next);
        }
        order
    }

    /// Checks that every blade and every index has one module, and that no sub-group is missing.
    /// Expects sorted modules.
    fn modules(&mut self, draft: &Draft) {
        let mut taken: BTreeMap<String, &Place> = BTreeMap::new();
        let mut previous: Option<&ModuleDraft> = None;
        for module in &draft.modules {
            let ModuleDraft {
                group, sub_group, ..
            } = module;
            let place = format!("{group}, sub-group {sub_group}, index {}", module.index);
            for what in [format!("blade {}", module.blade), place] {
                if let Some(first) = taken.get(&what) {
                    let first = (*first).clone();
                    let what = shown(&what);
                    self.add(&module.place, Reason::ModuleTwice { what, first });
                } else {
                    taken.insert(what, &module.place);
                }
            }
            if module.sub_group == 0 || module.index == 0 {
                let reason = Reason::Missing("a sub-group and an index, both from 1".to_owned());
                self.add(&module.place, reason);
            }
            let before = previous
                .filter(|p| p.group == *group)
                .map_or(0, |p| p.sub_group);
            if *sub_group > before.saturating_add(1) {
                let (group, sub_group) = (group.clone(), before + 1);
                self.add(&module.place, Reason::EmptySubGroup { group, sub_group });
            }
            previous = Some(module);
        }
    }

    /// Checks that configurations can hold each name.
    fn names(&mut self, draft: &Draft) {
        let mut check = |place: &Place, key: &str, name: &str, is_good: bool, wanted: &str| {
            if !is_good {
                let (key, found, wanted) = (key.to_owned(), shown(name), wanted.to_owned());
                self.add(place, Reason::Value { key, found, wanted });
            }
        };
        for ClientDraft { client, place } in &draft.clients {
            if let Some(name) = &client.name {
                check(place, "name", name, is_node_name(name), NODE_NAME);
            }
        }
        for module in &draft.modules {
            let (blade, place) = (&module.blade, &module.place);
            let wanted = "a name of letters, digits, '-', '_' and '.'";
            check(place, "blade", blade, is_file_name(blade), wanted);
            let ids: BTreeSet<u32> = module.nodes.iter().map(|node| node.id).collect();
            for name in ids.iter().filter_map(|id| draft.details.names.get(id)) {
                check(place, "name", name, is_node_name(name), NODE_NAME);
            }
        }
    }

    /// Checks that no name and no address belongs to two nodes.
    fn details(&mut self, draft: &Draft) {
        let places: BTreeMap<u32, &Place> = draft
            .clients
            .iter()
            .map(|c| (c.client.id, &c.place))
            .chain(
                draft
                    .modules
                    .iter()
                    .flat_map(|m| m.nodes.iter().map(|node| (node.id, &m.place))),
            )
            .collect();
        let clients = draft.clients.iter();
        let names =
            clients.filter_map(|c| Some((Known::Name(c.client.name.as_deref()?), c.client.id)));
        let routers = draft
            .details
            .names
            .iter()
            .map(|(&id, name)| (Known::Name(name), id));
        let addresses = draft.details.nics.iter().flat_map(|(&id, nics)| {
            let known = nics
                .iter()
                .filter_map(|nic| Some(Known::Address(nic.net, nic.address?)));
            known.map(move |known| (known, id))
        });
        let mut seen: BTreeMap<Known<'_>, u32> = BTreeMap::new();
        for (known, id) in names.chain(routers).chain(addresses) {
            let what = match &known {
                Known::Name(name) => shown(name),
                Known::Address(_, address) => address.to_string(),
            };
            if let Some(first) = seen.insert(known, id) {
                let place = places.get(&id).copied().unwrap_or(&draft.place);
                self.add(place, Reason::OwnerTwice { what, first });
            }
        }
    }

    /// Checks that every net has one group, and that every module of the group has a router on the
    /// net.
    fn nets(&mut self, draft: &Draft) {
        let mut owners: BTreeMap<Net, &str> = BTreeMap::new();
        let mut by_group: BTreeMap<&str, Vec<Net>> = BTreeMap::new();
        for module in &draft.modules {
            for node in &module.nodes {
                let owner = *owners.entry(node.net).or_insert(&module.group);
                if owner != module.group {
                    let (net, first) = (node.net.to_string(), owner.to_owned());
                    self.add(&module.place, Reason::NetTwice { net, first });
                }
                let nets = by_group.entry(&module.group).or_default();
                if !nets.contains(&node.net) {
                    nets.push(node.net);
                }
            }
        }
        for module in &draft.modules {
            let nets = by_group.get(module.group.as_str()).into_iter().flatten();
            for net in nets.filter(|net| module.nodes.iter().all(|node| node.net != **net)) {
                let (module_name, net) = (module.blade.clone(), net.to_string());
                let module_place = &module.place;
                self.add(
                    module_place,
                    Reason::NetUnserved {
                        module: module_name,
                        net,
                    },
                );
            }
        }
    }
}

/// A name or an address of a node.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
enum Known<'a> {
    Name(&'a str),
    Address(Option<Net>, Ipv4Addr),
}

/// Assigns all indices. The draft is checked and its modules are sorted.
fn assemble(draft: Draft, order: &BTreeMap<String, u16>) -> Machine {
    let mut nets: Vec<Net> = draft
        .modules
        .iter()
        .flat_map(|module| module.nodes.iter().map(|node| node.net))
        .collect();
    nets.sort();
    nets.dedup();
    let mut machine = Machine {
        name: draft.name,
        origin: draft.origin,
        fabric: draft.fabric,
        clients: draft
            .clients
            .into_iter()
            .map(|draft| draft.client)
            .collect(),
        modules: Vec::new(),
        routers: Vec::new(),
        groups: groups(&draft.modules, order),
        nets: nets.iter().map(|&net| entry(net)).collect(),
        footprint: draft.footprint.unwrap_or(1),
        details: draft.details,
        rates: draft.rates,
        down: BTreeSet::new(),
        warnings: draft.warnings,
    };
    machine.clients.sort_by_key(|client| client.id);
    for module in draft.modules {
        add_module(&mut machine, &nets, order, module);
    }
    if draft.footprint.is_none() {
        machine.footprint = Axes::of(&machine.fabric).map_or(1, |axes| axes.footprint(&machine));
    }
    machine
}

fn entry(net: Net) -> NetEntry {
    NetEntry {
        net,
        group: 0,
        routers: Vec::new(),
    }
}

fn groups(modules: &[ModuleDraft], order: &BTreeMap<String, u16>) -> Vec<Group> {
    let mut groups: Vec<Group> = vec![
        Group {
            name: String::new(),
            role: Role::Data,
            sub_groups: Vec::new(),
            nets: Vec::new(),
        };
        order.len()
    ];
    for (index, module) in (0_u16..).zip(modules) {
        let group = &mut groups[usize::from(order[&module.group])];
        group.name.clone_from(&module.group);
        group.role = module.role;
        match group.sub_groups.get_mut(usize::from(module.sub_group) - 1) {
            Some(range) => range.end = index + 1,
            None => group.sub_groups.push(index..index + 1),
        }
    }
    groups
}

fn add_module(
    machine: &mut Machine,
    nets: &[Net],
    order: &BTreeMap<String, u16>,
    draft: ModuleDraft,
) {
    // All numbers of parts were checked to fit in 16 bits.
    let first = machine.routers.len() as u16;
    let index = machine.modules.len() as u16;
    let group = order[&draft.group];
    for node in &draft.nodes {
        let net = nets.partition_point(|net| *net < node.net);
        let entry = &mut machine.nets[net];
        entry.group = group;
        entry.routers.push(machine.routers.len() as u16);
        let net = net as u16;
        let group_nets = &mut machine.groups[usize::from(group)].nets;
        if let Err(at) = group_nets.binary_search(&net) {
            group_nets.insert(at, net);
        }
        machine.routers.push(Router {
            id: node.id,
            module: index,
            net,
            vertex: node.vertex,
        });
    }
    machine.modules.push(Module {
        blade: draft.blade,
        cabinet: draft.cabinet,
        group,
        sub_group: draft.sub_group - 1,
        index: draft.index - 1,
        home: draft.nodes.first().map_or(Vertex(0), |node| node.vertex),
        routers: first..machine.routers.len() as u16,
    });
}

/// Warns of windows and sub-groups that differ.
fn check_windows(machine: &mut Machine) {
    let Some(axes) = Axes::of(&machine.fabric) else {
        return;
    };
    let mut doubts = Vec::new();
    for group in machine
        .groups
        .iter()
        .filter(|group| group.role == Role::Data)
    {
        let sizes = group.sub_groups.iter().map(|range| range.len());
        if sizes.clone().min() != sizes.max() {
            doubts.push(Reason::UnequalSubGroups(group.name.clone()));
        }
        let (size, sub_groups) = (axes.window_size(), group.sub_groups.len());
        if usize::from(size) % sub_groups != 0 {
            doubts.push(Reason::UnequalWindows {
                size,
                dimension: axes.window_name().to_owned(),
                sub_groups,
                group: group.name.clone(),
            });
        }
    }
    let place = Place {
        file: machine.name.as_str().into(),
        line: 1,
    };
    machine
        .warnings
        .extend(doubts.into_iter().map(|reason| Problem {
            place: place.clone(),
            reason,
        }));
}
