//! What moves do not change: the torus and its rings, the windows, and the module of each seat.

use crate::machine::{Group, Machine, Role};
use crate::place::ring::{Ring, Side};
use crate::place::{Problem, Site};
use crate::rule::Axes;
use crate::topology::{Fabric, Grid, Vertex};

/// Most positions along a ring: the bits of a cell's mask.
const POSITIONS_MAX: usize = 64;

/// What moves do not change: the torus, its windows, and the module of each seat.
pub(super) struct Shape {
    /// The first dimension, along which reads leave a seat.
    pub(super) columns: Ring,
    /// The last dimension, along which writes reach a seat.
    pub(super) depths: Ring,
    /// For each two columns, a bit for each column that is nearer to the first of them.
    pub(super) nearer: Vec<u64>,
    /// The windows that hold each position along the windowed dimension.
    pub(super) windows_at: Vec<Vec<usize>>,
    /// The sub-groups that use each window.
    pub(super) users: Vec<Vec<usize>>,
    /// The classes of blades, by the planes of their nodes.
    pub(super) classes: Vec<Class>,
    pub(super) sub_groups: Vec<SubGroup>,
    /// The sub-group of each seat.
    pub(super) sub_group_of: Vec<usize>,
    /// Most nets that a module serves from one plane, by level.
    pub(super) nets_at_once: Vec<i32>,
    /// The plane of each node of a module, by level.
    pub(super) planes_of_level: Vec<Vec<u16>>,
    /// Cost along the windowed dimension of a client of each plane, over all groups.
    pub(super) plane_cost: Vec<i64>,
    /// Numbers of clients and data nets at the start, and of routers of data nets.
    pub(super) nets: f64,
    pub(super) routers: f64,
    /// The seat of each module; `None` for metadata modules.
    pub(super) seat_of: Vec<Option<usize>>,
    pub(super) sites: Vec<Spot>,
}

/// Blades with the same number of nodes in each plane that compute while the blade is free.
pub(super) struct Class {
    planes: Vec<(usize, i16)>,
    pub(super) clients: i64,
    /// Cost of these nodes along the windowed dimension, over all groups.
    pub(super) cost: i64,
    /// The windows and sub-groups of which these nodes are clients, with the number of nodes.
    pub(super) windows: Vec<(usize, i16)>,
    pub(super) users: Vec<(usize, i16)>,
}

/// The position of a site on the board.
#[derive(Clone)]
pub(super) struct Spot {
    pub(super) column: usize,
    pub(super) depth: usize,
    /// The plane of each node that a module uses.
    pub(super) level: Vec<u16>,
    pub(super) class: usize,
}

pub(super) struct SubGroup {
    pub(super) seats: std::ops::Range<usize>,
    pub(super) window: usize,
    pub(super) level: usize,
    pub(super) nets: i64,
}

impl Shape {
    /// The ring on which streams of this direction meet.
    pub(super) fn ring(&self, side: Side) -> &Ring {
        match side {
            Side::Write => &self.depths,
            Side::Read => &self.columns,
        }
    }

    /// The rings of a seat of a level: the ring of writes, then the ring of reads. The numbers of
    /// rings of reads follow those of rings of writes.
    pub(super) fn rings(&self, level: usize, column: usize, depth: usize) -> [usize; 2] {
        let write = level * self.columns.size + column;
        [write, self.write_rings() + level * self.depths.size + depth]
    }

    pub(super) fn write_rings(&self) -> usize {
        self.nets_at_once.len() * self.columns.size
    }

    /// Returns whether the board's integer types can hold the clients of every window, even if all
    /// modules leave it.
    fn holds(&self, machine: &Machine, grid: &Grid) -> bool {
        let (columns, depths) = (self.columns.size, self.depths.size);
        // By window: the total, by column, by depth.
        let width = 1 + columns + depths;
        let mut counts = vec![machine.routers.len(); self.users.len() * width];
        for client in &machine.clients {
            let [x, y, z] = [0, 1, 2].map(|d| usize::from(grid.position(client.vertex, d)));
            for &window in &self.windows_at[y] {
                for line in [0, 1 + x, 1 + columns + z] {
                    counts[window * width + line] += 1;
                }
            }
        }
        counts.chunks(width).all(|counts| {
            let hops = counts[0] * columns.max(depths);
            let mut lines = counts[1..].iter();
            i32::try_from(hops).is_ok() && lines.all(|&count| i16::try_from(count).is_ok())
        })
    }

    /// The cells of modules in these columns, with one bit for each column. Of equally near
    /// modules, the first gets the column.
    pub(super) fn cells(&self, columns: &[usize], cells: &mut Vec<u64>) {
        let size = self.columns.size;
        let all = u64::MAX >> (POSITIONS_MAX - size);
        cells.clear();
        for (index, &column) in columns.iter().enumerate() {
            let mut cell = all;
            for (other, &there) in columns.iter().enumerate() {
                if other < index {
                    cell &= self.nearer[column * size + there];
                } else if other > index {
                    cell &= !self.nearer[there * size + column];
                }
            }
            cells.push(cell);
        }
    }
}

/// Returns the shape of a machine, or `None` if the board's rule does not hold.
pub(super) fn shape(problem: &Problem<'_>, machine: &Machine) -> Option<Shape> {
    let axes = Axes::of(&machine.fabric)?;
    let Fabric::Grid(grid, tie) = &machine.fabric else {
        return None;
    };
    let dimensions = grid.dimensions();
    let fits = dimensions.len() == 3
        && (axes.near, axes.window) == (0, 1)
        && dimensions.iter().all(|d| d.wrap)
        && usize::from(dimensions[0].size) <= POSITIONS_MAX;
    if !fits {
        return None;
    }
    let nodes = machine.modules.iter().map(|m| m.routers.len()).max()?;
    let columns = Ring::new(grid, 0, *tie, Side::Read);
    let mut shape = Shape {
        nearer: columns.nearer(),
        columns,
        depths: Ring::new(grid, 2, *tie, Side::Write),
        windows_at: vec![Vec::new(); usize::from(dimensions[1].size)],
        users: Vec::new(),
        classes: Vec::new(),
        sub_groups: Vec::new(),
        sub_group_of: Vec::new(),
        nets_at_once: Vec::new(),
        planes_of_level: Vec::new(),
        plane_cost: vec![0; usize::from(dimensions[1].size)],
        nets: machine.data_nets().count() as f64,
        routers: 0.0,
        seat_of: vec![None; machine.modules.len()],
        sites: Vec::new(),
    };
    let mut windows = Vec::new();
    let mut levels = Vec::new();
    for group in machine.groups.iter().filter(|g| g.role == Role::Data) {
        shape.add(machine, &axes, group, &mut windows, &mut levels)?;
    }
    for site in &problem.sites {
        let spot = shape.spot(grid, site, nodes)?;
        shape.sites.push(spot);
    }
    // A ring belongs to one level only.
    let planes = levels
        .iter()
        .flat_map(|level: &Vec<(u16, i32)>| level.iter().map(|p| p.0));
    let mut planes: Vec<u16> = planes.collect();
    let count = planes.len();
    planes.sort_unstable();
    planes.dedup();
    (planes.len() == count && shape.holds(machine, grid)).then_some(shape)
}

impl Shape {
    /// Adds a site whose nodes are above each other.
    fn spot(&mut self, grid: &Grid, site: &Site, nodes: usize) -> Option<Spot> {
        let position = |vertex: Vertex, d| usize::from(grid.position(vertex, d));
        let &(_, first) = site.nodes.first()?;
        let (column, depth) = (position(first, 0), position(first, 2));
        let mut planes: Vec<(usize, i16)> = Vec::new();
        for &(_, vertex) in &site.nodes {
            if (position(vertex, 0), position(vertex, 2)) != (column, depth) {
                return None;
            }
            if site.computes {
                count(&mut planes, position(vertex, 1), 1);
            }
        }
        let used = site.nodes.iter().take(nodes);
        Some(Spot {
            column,
            depth,
            level: used.map(|node| grid.position(node.1, 1)).collect(),
            class: self.class(planes),
        })
    }

    /// Returns the class of blades with these numbers of nodes in these planes.
    fn class(&mut self, planes: Vec<(usize, i16)>) -> usize {
        let known = self.classes.iter().position(|class| class.planes == planes);
        if let Some(known) = known {
            return known;
        }
        let (mut windows, mut users) = (Vec::new(), Vec::new());
        let (mut clients, mut cost) = (0, 0);
        for &(plane, nodes) in &planes {
            clients += i64::from(nodes);
            cost += i64::from(nodes) * self.plane_cost[plane];
            for &window in &self.windows_at[plane] {
                count(&mut windows, window, nodes);
                for &user in &self.users[window] {
                    count(&mut users, user, nodes);
                }
            }
        }
        self.classes.push(Class {
            planes,
            clients,
            cost,
            windows,
            users,
        });
        self.classes.len() - 1
    }
}

impl Shape {
    fn add(
        &mut self,
        machine: &Machine,
        axes: &Axes<'_>,
        group: &Group,
        windows: &mut Vec<Vec<u16>>,
        levels: &mut Vec<Vec<(u16, i32)>>,
    ) -> Option<()> {
        let planes = axes.window_size();
        let mut held = vec![Vec::new(); group.sub_groups.len()];
        for plane in 0..planes {
            let vertex = axes.grid.vertex(&[0, plane, 0])?;
            held[axes.sub_group(machine, group, vertex)?.sub_group].push(plane);
        }
        for (modules, held) in group.sub_groups.iter().zip(held) {
            let level = level(machine, axes, modules.clone(), group.nets.len())?;
            for &plane in &held {
                let hops = level.iter().map(|&(at, nets)| {
                    i64::from(axes.grid.distance(1, plane, at)) * i64::from(nets)
                });
                let cost = i64::from(axes.grid.dimensions()[1].cost);
                self.plane_cost[usize::from(plane)] += hops.sum::<i64>() * cost;
            }
            let window = index_of(windows, held);
            let level = index_of(levels, level);
            if window == self.users.len() {
                for &plane in &windows[window] {
                    self.windows_at[usize::from(plane)].push(window);
                }
                self.users.push(Vec::new());
            }
            if level == self.nets_at_once.len() {
                let most = levels[level].iter().map(|plane| plane.1).max();
                self.nets_at_once.push(most.unwrap_or(0));
                let nodes = machine.routers_of(modules.start).iter();
                let planes = nodes.map(|router| axes.grid.position(router.vertex, axes.window));
                self.planes_of_level.push(planes.collect());
            }
            let index = self.sub_groups.len();
            self.users[window].push(index);
            let first = self.sub_group_of.len();
            for module in modules.clone() {
                self.seat_of[usize::from(module)] = Some(self.sub_group_of.len());
                self.sub_group_of.push(index);
            }
            self.routers += (modules.len() * group.nets.len()) as f64;
            self.sub_groups.push(SubGroup {
                seats: first..self.sub_group_of.len(),
                window,
                level,
                nets: group.nets.len() as i64,
            });
        }
        Some(())
    }
}

/// Returns the planes of the modules of a sub-group, with the nets that each plane serves; `None`
/// if the modules differ, or if a module does not have exactly one node for each net.
fn level(
    machine: &Machine,
    axes: &Axes<'_>,
    modules: std::ops::Range<u16>,
    nets: usize,
) -> Option<Vec<(u16, i32)>> {
    let mut found: Option<Vec<(u16, i32)>> = None;
    for module in modules {
        let routers = machine.routers_of(module);
        let mut served: Vec<u16> = routers.iter().map(|router| router.net).collect();
        served.sort_unstable();
        served.dedup();
        if served.len() != nets || routers.len() != nets {
            return None;
        }
        let mut level: Vec<(u16, i32)> = Vec::new();
        for router in routers {
            let plane = axes.grid.position(router.vertex, axes.window);
            match level.iter_mut().find(|(other, _)| *other == plane) {
                Some((_, count)) => *count += 1,
                None => level.push((plane, 1)),
            }
        }
        level.sort_unstable();
        if found.get_or_insert_with(|| level.clone()) != &level {
            return None;
        }
    }
    found
}

/// Adds to the count of a number.
fn count(counts: &mut Vec<(usize, i16)>, number: usize, more: i16) {
    match counts.iter_mut().find(|(known, _)| *known == number) {
        Some((_, count)) => *count += more,
        None => counts.push((number, more)),
    }
}

fn index_of<T: PartialEq>(known: &mut Vec<T>, wanted: T) -> usize {
    match known.iter().position(|other| *other == wanted) {
        Some(index) => index,
        None => {
            known.push(wanted);
            known.len() - 1
        }
    }
}
