//! Names of links: both ends in the terms of the fabric, with the names of the nodes or blades there.

use std::collections::BTreeMap;

use crate::machine::Machine;
use crate::serves::blade;
use crate::topology::{Direction, Fabric, GridLink, Link, Vertex};

/// Names the links of a machine.
pub struct LinkNames<'m> {
    machine: &'m Machine,
    places: BTreeMap<Vertex, String>,
}

/// A link in words.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct LinkEnds {
    /// The start of the link.
    pub from: String,
    /// The end of the link.
    pub to: String,
    /// The direction in a torus or mesh, such as `X+`; empty in other fabrics.
    pub axis: String,
    /// The link of a torus or mesh.
    pub grid: Option<GridLink>,
}

impl<'m> LinkNames<'m> {
    /// Prepares the names of a machine's links.
    #[must_use]
    pub fn new(machine: &'m Machine) -> Self {
        let places = match &machine.fabric {
            Fabric::Grid(..) => blades(machine),
            Fabric::FatTree(_) => nodes(machine),
            Fabric::Dragonfly(..) => BTreeMap::new(),
        };
        Self { machine, places }
    }

    /// The name of a link: `c0-0c0s1 (0,1,2) X+ → c1-0c0s1 (1,1,2)`, `group 12 switch 3 → group 40 switch 9`, or
    /// `dgx03 → leaf 0`.
    #[must_use]
    pub fn name(&self, link: Link) -> String {
        let LinkEnds { from, to, axis, .. } = self.ends(link);
        match axis.as_str() {
            "" => format!("{from} → {to}"),
            axis => format!("{from} {axis} → {to}"),
        }
    }

    /// Names both ends of a link.
    #[must_use]
    pub fn ends(&self, link: Link) -> LinkEnds {
        let (from, to) = match &self.machine.fabric {
            Fabric::Grid(grid, _) => {
                let link = grid.describe(link);
                let sign = match link.direction {
                    Direction::Plus => '+',
                    Direction::Minus => '-',
                };
                let axis = grid.dimensions()[link.dimension].name.to_uppercase();
                let to = grid.step(link.from, link.dimension, link.direction);
                return LinkEnds {
                    from: self.switch(link.from),
                    // Behind the border of a mesh is nothing, and no link.
                    to: self.switch(to.unwrap_or(link.from)),
                    axis: format!("{axis}{sign}"),
                    grid: Some(link),
                };
            }
            Fabric::Dragonfly(dragonfly, _) => dragonfly.link_ends(link),
            Fabric::FatTree(tree) => tree.link_ends(link, |vertex| self.node(vertex)),
        };
        LinkEnds {
            from,
            to,
            axis: String::new(),
            grid: None,
        }
    }

    /// A switch of a grid: its position, behind the blade that has it.
    fn switch(&self, vertex: Vertex) -> String {
        let Fabric::Grid(grid, _) = &self.machine.fabric else {
            return String::new();
        };
        let at = grid.coordinates(vertex);
        let at: Vec<String> = at.iter().map(u16::to_string).collect();
        let at = format!("({})", at.join(","));
        let named = self.places.get(&vertex);
        named.map_or_else(|| at.clone(), |name| format!("{name} {at}"))
    }

    /// The node at an endpoint of a fat tree.
    fn node(&self, vertex: Vertex) -> String {
        let named = self.places.get(&vertex).cloned();
        named.unwrap_or_else(|| format!("unused port {}", vertex.0))
    }
}

/// Formats a load or another amount: with one decimal, or with two digits if it is below one.
#[must_use]
pub fn in_digits(load: f64) -> String {
    match load.abs() {
        l if l >= 1.0 || l == 0.0 => format!("{load:.1}"),
        l if l >= 0.1 => format!("{load:.2}"),
        l if l >= 0.01 => format!("{load:.3}"),
        l if l >= 0.001 => format!("{load:.4}"),
        _ => format!("{load:.1e}"),
    }
}

/// The blades of clients whose names tell them, otherwise the first client at a vertex; or the blade of a router.
fn blades(machine: &Machine) -> BTreeMap<Vertex, String> {
    let mut names = BTreeMap::new();
    for client in &machine.clients {
        if let Some(name) = client.name.as_deref() {
            let place = names.entry(client.vertex);
            place.or_insert_with(|| blade(name).unwrap_or(name).to_owned());
        }
    }
    for router in &machine.routers {
        let module = &machine.modules[usize::from(router.module)];
        names
            .entry(router.vertex)
            .or_insert_with(|| module.blade.clone());
    }
    names
}

/// The clients and routers at the endpoints of a fat tree.
fn nodes(machine: &Machine) -> BTreeMap<Vertex, String> {
    let mut names: BTreeMap<Vertex, Vec<String>> = BTreeMap::new();
    for client in &machine.clients {
        let name = client.name.as_deref();
        let name = name.map_or_else(|| format!("node {}", client.id), str::to_owned);
        names.entry(client.vertex).or_default().push(name);
    }
    for router in &machine.routers {
        let name = machine.details.names.get(&router.id);
        let name = name.map_or_else(|| format!("router {}", router.id), ToString::to_string);
        let here = names.entry(router.vertex).or_default();
        // A router of several nets is one node.
        if !here.contains(&name) {
            here.push(name);
        }
    }
    let joined = |(vertex, names): (Vertex, Vec<String>)| (vertex, names.join(", "));
    names.into_iter().map(joined).collect()
}
