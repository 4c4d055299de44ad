//! The machine as the planner sees it: clients, router modules, and which group serves which net.
//!
//! ```text
//!   Group ──▶ sub-groups ──▶ Module (a blade) ──▶ Router (a node of it) ──▶ NetEntry ──▶ Group
//!     A          1..4          3 of them            one a net of the group     o2ib201
//! ```
//!
//! Everything is dense indices into the vectors of [`Machine`], so that plans are tables of small
//! numbers. The group is a function of the destination net, fixed by the cabling: every client uses
//! every group (planning, section 2.1).

use std::collections::BTreeSet;
use std::ops::Range;

use lnet_types::Net;
use topology::{Fabric, Vertex};

use crate::problem::Problem;
use crate::rule::{Axes, Window};

/// Where the description of a machine comes from; said with every result.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Origin {
    /// Positions of a real machine.
    Published,
    /// A real machine's size, with assumptions about the rest.
    Assumed,
    /// Made up.
    #[default]
    Synthetic,
}

/// A node that needs routes.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Client {
    /// Its number, the address part of its NID.
    pub id: u32,
    /// Its name, if the machine names nodes.
    pub name: Option<Box<str>>,
    /// Where it is attached.
    pub vertex: Vertex,
}

/// A router node.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Router {
    /// Its number, the address part of its NID.
    pub id: u32,
    /// Index of its module.
    pub module: u16,
    /// Index of the net that it routes to.
    pub net: u16,
    /// Where it is attached.
    pub vertex: Vertex,
}

/// A blade of router nodes.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Module {
    /// The blade's name.
    pub blade: String,
    /// The cabinet's name; that of the blade where the description names none.
    pub cabinet: String,
    /// Index of its group.
    pub group: u16,
    /// Its sub-group in the group, from 0.
    pub sub_group: u16,
    /// Its place in the sub-group, from 0.
    pub index: u16,
    /// The place that the assignment rules measure to: that of its first node.
    pub home: Vertex,
    /// Its nodes, as indices of routers.
    pub routers: Range<u16>,
}

/// What a group's nets carry.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Role {
    /// File data.
    #[default]
    Data,
    /// Metadata: always the nearest module, whatever the policy.
    Metadata,
}

/// Modules that serve the same nets.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Group {
    /// Its name: `A`.
    pub name: String,
    /// What its nets carry.
    pub role: Role,
    /// Indices of modules, a range for each sub-group.
    pub sub_groups: Vec<Range<u16>>,
    /// Indices of its nets, ascending.
    pub nets: Vec<u16>,
}

impl Group {
    /// Indices of all its modules.
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
    /// Its routers in the order of their modules: slot 1 first.
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
    /// Its clients, ascending by number.
    pub clients: Vec<Client>,
    /// Its modules: group by group, sub-group by sub-group, in order of index.
    pub modules: Vec<Module>,
    /// The nodes of its modules, module by module.
    pub routers: Vec<Router>,
    /// Its groups, in the order in which they were described.
    pub groups: Vec<Group>,
    /// Its nets, ascending.
    pub nets: Vec<NetEntry>,
    /// Planes of the windowed dimension that a module occupies (planning, section 2.2).
    pub footprint: u16,
    /// Routers, by index, that the description says are down.
    pub down: BTreeSet<u16>,
    /// What is doubtful in the description although a plan is possible.
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

    /// The client with this number.
    #[must_use]
    pub fn client(&self, id: u32) -> Option<&Client> {
        let index = self.clients.binary_search_by_key(&id, |client| client.id);
        index.ok().map(|index| &self.clients[index])
    }

    /// The sub-group of a group whose window holds a vertex, or the nearest one; `None` on a fabric
    /// without windows.
    #[must_use]
    pub fn window(&self, group: usize, vertex: Vertex) -> Option<Window> {
        Axes::of(&self.fabric)?.sub_group(self, &self.groups[group], vertex)
    }

    /// Hops from a vertex to a module along the dimension in which the nearest module wins; `None`
    /// on a fabric without windows.
    #[must_use]
    pub fn near_hops(&self, vertex: Vertex, module: u16) -> Option<u16> {
        let home = self.modules[usize::from(module)].home;
        Some(Axes::of(&self.fabric)?.near_hops(vertex, home))
    }

    /// The routers of a module.
    #[must_use]
    pub fn routers_of(&self, module: u16) -> &[Router] {
        let range = &self.modules[usize::from(module)].routers;
        &self.routers[usize::from(range.start)..usize::from(range.end)]
    }
}
