//! The planner's model of a machine: clients, router modules, and the group that serves each net.
//!
//! ```text
//!   Group ──▶ sub-groups ──▶ Module (a blade) ──▶ Router (a node of it) ──▶ NetEntry ──▶ Group
//!     A          1..4          3 of them            one a net of the group     o2ib201
//! ```
//!
//! Parts refer to each other by indices into the vectors of [`Machine`], so that plans are tables
//! of small numbers. The destination net determines the group, because the cabling does: every
//! client uses every group.

use std::collections::{BTreeMap, BTreeSet};
use std::net::Ipv4Addr;
use std::ops::Range;

use lnet_types::Net;

use crate::problem::Problem;
use crate::rates::RateSources;
use crate::rule::{Axes, Window};
use crate::topology::{Fabric, Vertex};

/// Where the description of a machine comes from. Every result names the origin.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Origin {
    /// Positions of a real machine.
    Published,
    /// The size of a real machine, with assumptions about everything else.
    Assumed,
    /// An invented machine.
    #[default]
    Synthetic,
}

/// A node that needs routes.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Client {
    /// Number of the client: the address part of its NID.
    pub id: u32,
    /// Name of the client, if the machine names nodes.
    pub name: Option<Box<str>>,
    /// The vertex to which the client is attached.
    pub vertex: Vertex,
}

/// A router node.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Router {
    /// Number of the router: the address part of its NID.
    pub id: u32,
    /// Index of the router's module.
    pub module: u16,
    /// Index of the net to which the router forwards.
    pub net: u16,
    /// The vertex to which the router is attached.
    pub vertex: Vertex,
}

/// A blade of router nodes.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Module {
    /// Name of the blade.
    pub blade: String,
    /// Name of the cabinet; the name of the blade if the description names no cabinet.
    pub cabinet: String,
    /// Index of the module's group.
    pub group: u16,
    /// Index of the sub-group in the group, from 0.
    pub sub_group: u16,
    /// Index of the module in the sub-group, from 0.
    pub index: u16,
    /// The vertex to which assignment rules measure distances: that of the first node.
    pub home: Vertex,
    /// The nodes of the module, as indices of routers.
    pub routers: Range<u16>,
}

/// A network interface of a node.
#[derive(Clone, Debug, PartialEq)]
pub struct Nic {
    /// The net behind the routers on which the interface is; `None` on the clients' side.
    pub net: Option<Net>,
    /// Name of the interface, if the machine names interfaces.
    pub interface: Option<String>,
    /// Its address. Without an address, the number of the node gives it.
    pub address: Option<Ipv4Addr>,
    /// GB/s in one direction, if known.
    pub rate: Option<f64>,
}

/// What a description says of single nodes besides their places, by their numbers.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Details {
    /// Names of routers. A client has its name in [`Client::name`].
    pub names: BTreeMap<u32, Box<str>>,
    /// Interfaces of clients and routers.
    pub nics: BTreeMap<u32, Vec<Nic>>,
}

impl Details {
    /// The interfaces of a node; none if they are not described.
    #[must_use]
    pub fn nics_of(&self, id: u32) -> &[Nic] {
        self.nics.get(&id).map_or(&[], Vec::as_slice)
    }

    /// GB/s that the interfaces of a router let pass in one direction: those of the slower side.
    /// `None` if a rate on one of the sides is not known.
    #[must_use]
    pub fn forwarding_rate(&self, id: u32) -> Option<f64> {
        let side = |is_behind: bool| -> Option<f64> {
            let nics = self
                .nics_of(id)
                .iter()
                .filter(|nic| nic.net.is_some() == is_behind);
            let rates: Option<Vec<f64>> = nics.map(|nic| nic.rate).collect();
            rates
                .filter(|rates| !rates.is_empty())
                .map(|rates| rates.iter().sum())
        };
        Some(side(false)?.min(side(true)?))
    }
}

/// What a group's nets carry.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Role {
    /// File data.
    #[default]
    Data,
    /// Metadata. Clients always use the nearest module, under every policy.
    Metadata,
}

/// Modules that serve the same nets.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Group {
    /// Name of the group: `A`.
    pub name: String,
    /// What the group's nets carry.
    pub role: Role,
    /// Indices of modules: a range for each sub-group.
    pub sub_groups: Vec<Range<u16>>,
    /// Indices of the group's nets, in ascending order.
    pub nets: Vec<u16>,
}

impl Group {
    /// Indices of all modules of the group.
    #[must_use]
    pub fn modules(&self) -> Range<u16> {
        let first = self.sub_groups.first().map_or(0, |range| range.start);
        let last = self.sub_groups.last().map_or(0, |range| range.end);
        first..last
    }
}

/// A net behind the routers.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct NetEntry {
    /// The net.
    pub net: Net,
    /// Index of the group that serves it.
    pub group: u16,
    /// The routers of the net, in the order of their modules: slot 1 first.
    pub routers: Vec<u16>,
}

/// A machine that can be planned.
#[derive(Clone, Debug, PartialEq)]
pub struct Machine {
    /// Its name.
    pub name: String,
    /// Where its description comes from.
    pub origin: Origin,
    /// Its fabric.
    pub fabric: Fabric,
    /// The clients, in ascending order of numbers.
    pub clients: Vec<Client>,
    /// The modules: group by group, sub-group by sub-group, in order of index.
    pub modules: Vec<Module>,
    /// The nodes of the modules, module by module.
    pub routers: Vec<Router>,
    /// The groups, in the order of the description.
    pub groups: Vec<Group>,
    /// The nets, in ascending order.
    pub nets: Vec<NetEntry>,
    /// Number of planes of the windowed dimension that a module occupies.
    pub footprint: u16,
    /// Names of routers, and interfaces of nodes.
    pub details: Details,
    /// Where the rates of links and interfaces come from.
    pub rates: RateSources,
    /// Indices of the routers that the description marks as down.
    pub down: BTreeSet<u16>,
    /// Doubtful points of the description that do not prevent a plan.
    pub warnings: Vec<Problem>,
}

impl Machine {
    /// Indices of the nets that carry file data.
    pub fn data_nets(&self) -> impl Iterator<Item = usize> + '_ {
        (0..self.nets.len()).filter(|&net| self.role(net) == Role::Data)
    }

    /// What a net carries.
    #[must_use]
    pub fn role(&self, net: usize) -> Role {
        self.groups[usize::from(self.nets[net].group)].role
    }

    /// Returns the client with this number.
    #[must_use]
    pub fn client(&self, id: u32) -> Option<&Client> {
        let index = self.clients.binary_search_by_key(&id, |client| client.id);
        index.ok().map(|index| &self.clients[index])
    }

    /// Returns the sub-group whose window holds a vertex, or the nearest sub-group; `None` if the
    /// fabric has no windows.
    #[must_use]
    pub fn window(&self, group: usize, vertex: Vertex) -> Option<Window> {
        Axes::of(&self.fabric)?.sub_group(self, &self.groups[group], vertex)
    }

    /// Returns the number of hops from a vertex to a module along the dimension that decides which
    /// module is nearest; `None` if the fabric has no windows.
    #[must_use]
    pub fn near_hops(&self, vertex: Vertex, module: u16) -> Option<u16> {
        let home = self.modules[usize::from(module)].home;
        Some(Axes::of(&self.fabric)?.near_hops(vertex, home))
    }

    /// The name of a router by its number, or the number if the machine gives no name.
    #[must_use]
    pub fn router_name(&self, id: u32) -> String {
        let name = self.details.names.get(&id);
        name.map_or_else(|| id.to_string(), |name| name.to_string())
    }

    /// Returns for each router the index of the first router that is the same node. A node that forwards
    /// to several nets is a router of each of them.
    #[must_use]
    pub fn nodes_of_routers(&self) -> Vec<u16> {
        let mut first: BTreeMap<u32, u16> = BTreeMap::new();
        let routers = (0_u16..).zip(&self.routers);
        let nodes = routers.map(|(index, router)| *first.entry(router.id).or_insert(index));
        nodes.collect()
    }

    /// Returns the number of nodes that all routers are.
    #[must_use]
    pub fn router_nodes(&self) -> usize {
        BTreeSet::from_iter(self.nodes_of_routers()).len()
    }

    /// Returns the number of nodes that these routers are.
    #[must_use]
    pub fn count_nodes(&self, routers: impl IntoIterator<Item = u16>) -> usize {
        let node_of = self.nodes_of_routers();
        let nodes = routers
            .into_iter()
            .filter_map(|router| node_of.get(usize::from(router)));
        nodes.collect::<BTreeSet<_>>().len()
    }

    /// The routers of a module.
    #[must_use]
    pub fn routers_of(&self, module: u16) -> &[Router] {
        let range = &self.modules[usize::from(module)].routers;
        &self.routers[usize::from(range.start)..usize::from(range.end)]
    }
}
