//! What moves do not change: the torus and its rings, the windows, and which module belongs where.

use topology::{Direction, Fabric, Grid, Tie, Vertex, Way};

use crate::machine::{Group, Machine, Role};
use crate::place::{Problem, Site};
use crate::rule::Axes;

/// Positions along a ring that the masks of cells hold.
const POSITIONS_MAX: usize = 64;

/// What does not change: the torus, its windows, and which module belongs where.
pub(super) struct Shape {
    pub(super) columns: Ring,
    pub(super) depths: Ring,
    /// By two columns, a bit for each column that is nearer to the first of them.
    pub(super) nearer: Vec<u64>,
    /// By position along the windowed dimension, the windows that hold it.
    pub(super) windows_at: Vec<Vec<usize>>,
    /// The sub-groups that use each window.
    pub(super) users: Vec<Vec<usize>>,
    pub(super) sub_groups: Vec<SubGroup>,
    /// The sub-group of each seat.
    pub(super) sub_group_of: Vec<usize>,
    /// By level, the most nets that a module of it serves from one plane.
    pub(super) nets_at_once: Vec<i32>,
    /// By level, the plane of each node of a module.
    pub(super) planes_of_level: Vec<Vec<u16>>,
    /// Cost of a client of each plane along the windowed dimension, over all groups.
    pub(super) plane_cost: Vec<i64>,
    /// Clients and data nets at the start, and routers of data nets.
    pub(super) nets: f64,
    pub(super) routers: f64,
    /// The seat of each module; `None` for metadata.
    pub(super) seat_of: Vec<Option<usize>>,
    pub(super) sites: Vec<Spot>,
}

/// A site: column, depth and nodes that compute while it is free, by plane.
#[derive(Clone)]
pub(super) struct Spot {
    pub(super) column: usize,
    pub(super) depth: usize,
    /// The plane of each node that a module uses.
    pub(super) level: Vec<u16>,
    pub(super) planes: Vec<(usize, i32)>,
}

pub(super) struct SubGroup {
    pub(super) seats: std::ops::Range<usize>,
    pub(super) window: usize,
    pub(super) level: usize,
    pub(super) nets: i64,
}

/// One dimension: distances, and which way streams go.
pub(super) struct Ring {
    pub(super) size: usize,
    pub(super) cost: i64,
    pub(super) distance: Vec<i64>,
    /// Halves of a stream over this distance that go up; the others go down.
    pub(super) up: Vec<i32>,
    /// One over the capacity of half a unit of each link up, then of each link down, by the position
    /// that it leaves.
    pub(super) scale: Vec<f32>,
}

impl Ring {
    fn new(grid: &Grid, d: usize, tie: Tie) -> Self {
        let dimension = &grid.dimensions()[d];
        let size = usize::from(dimension.size);
        let capacity = |p: usize| dimension.capacity[p % dimension.capacity.len()];
        let up = (0..dimension.size).map(|to| match grid.way(d, 0, to, tie) {
            Way::Both => 1,
            Way::One(Direction::Plus) => 2,
            _ => 0,
        });
        let links_up = (0..size).map(capacity);
        let links_down = (0..size).map(|p| capacity((p + size - 1) % size));
        Self {
            size,
            cost: i64::from(dimension.cost),
            distance: (0..dimension.size)
                .map(|p| i64::from(grid.distance(d, 0, p)))
                .collect(),
            up: up.collect(),
            // The precision of a ring's temperature only ranks placements.
            scale: links_up
                .chain(links_down)
                .map(|c| (0.5 / c) as f32)
                .collect(),
        }
    }

    pub(super) fn between(&self, a: usize, b: usize) -> i64 {
        self.distance[a.abs_diff(b)]
    }

    /// By two positions, a bit for each position that is nearer to the first of them.
    fn nearer(&self) -> Vec<u64> {
        let pairs = (0..self.size).flat_map(|a| (0..self.size).map(move |b| (a, b)));
        let of = |(a, b)| {
            let near = (0..self.size).filter(|&x| self.between(x, a) < self.between(x, b));
            near.fold(0, |set, x| set | 1 << x)
        };
        pairs.map(of).collect()
    }

    pub(super) fn plus(&self, at: usize, by: usize) -> usize {
        let sum = at + by;
        if sum >= self.size {
            sum - self.size
        } else {
            sum
        }
    }

    pub(super) fn minus(&self, at: usize, by: usize) -> usize {
        if at >= by {
            at - by
        } else {
            at + self.size - by
        }
    }

    /// Loads of both directions when each position sends its units to `at`.
    pub(super) fn gather(&self, units: &[i32], at: usize, loads: &mut [i32]) {
        loads.fill(0);
        let (up, down) = loads.split_at_mut(self.size);
        let (mut from_below, mut from_above) = (0, 0);
        for d in (1..=self.size / 2).rev() {
            let (below, above) = (self.minus(at, d), self.plus(at, d));
            from_below += self.up[d] * units[below];
            up[below] = from_below;
            from_above += (2 - self.up[self.size - d]) * units[above];
            down[above] = from_above;
        }
    }

    /// Loads of both directions when `at` sends each position its units.
    pub(super) fn scatter(&self, units: &[i32], at: usize, loads: &mut [i32]) {
        loads.fill(0);
        let (up, down) = loads.split_at_mut(self.size);
        let (mut to_above, mut to_below) = (0, 0);
        for d in (1..=self.size / 2).rev() {
            let (below, above) = (self.minus(at, d), self.plus(at, d));
            to_above += self.up[d] * units[above];
            up[self.minus(above, 1)] = to_above;
            to_below += (2 - self.up[self.size - d]) * units[below];
            down[self.plus(below, 1)] = to_below;
        }
    }

    /// Adds a stream from one position to another.
    pub(super) fn stream(&self, loads: &mut [i32], from: usize, to: usize, units: i32) {
        let distance = self.minus(to, from);
        if distance == 0 {
            return;
        }
        let (up, down) = loads.split_at_mut(self.size);
        let halves = self.up[distance];
        if halves > 0 {
            for d in 0..distance {
                up[self.plus(from, d)] += halves * units;
            }
        }
        if halves < 2 {
            for d in 0..self.size - distance {
                down[self.minus(from, d)] += (2 - halves) * units;
            }
        }
    }

    /// The hottest link of a ring under the sum of these loads, each `times` over.
    pub(super) fn hottest<'a>(
        &self,
        mut loads: impl Iterator<Item = &'a [i32]>,
        times: i32,
        sum: &mut Vec<i32>,
    ) -> f32 {
        let Some(first) = loads.next() else {
            return 0.0;
        };
        let Some(second) = loads.next() else {
            return peak(first, &self.scale) * times as f32;
        };
        sum.clear();
        sum.extend(first.iter().zip(second).map(|(a, b)| a + b));
        for more in loads {
            for (total, &load) in sum.iter_mut().zip(more) {
                *total += load;
            }
        }
        peak(sum, &self.scale) * times as f32
    }
}

impl Shape {
    /// The cells of modules in these columns, a bit for each column: the first of the nearest.
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

/// The largest product, in lanes that a compiler can keep in one register.
pub(super) fn peak(loads: &[i32], scale: &[f32]) -> f32 {
    let larger = |a: f32, b: f32| if a > b { a } else { b };
    let mut lanes = [0.0_f32; 8];
    let (loads, loads_rest) = loads.as_chunks::<8>();
    let (scale, scale_rest) = scale.as_chunks::<8>();
    for (loads, scale) in loads.iter().zip(scale) {
        for ((lane, &load), &scale) in lanes.iter_mut().zip(loads).zip(scale) {
            *lane = larger(*lane, load as f32 * scale);
        }
    }
    let rest = loads_rest.iter().zip(scale_rest);
    let rest = rest.map(|(&load, scale)| load as f32 * scale);
    rest.chain(lanes).fold(0.0, larger)
}

/// The shape of a machine, or `None` where the board's rule does not hold.
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
    let sites = problem.sites.iter().map(|site| spot(grid, site, nodes));
    let columns = Ring::new(grid, 0, *tie);
    let mut shape = Shape {
        nearer: columns.nearer(),
        columns,
        depths: Ring::new(grid, 2, *tie),
        windows_at: vec![Vec::new(); usize::from(dimensions[1].size)],
        users: Vec::new(),
        sub_groups: Vec::new(),
        sub_group_of: Vec::new(),
        nets_at_once: Vec::new(),
        planes_of_level: Vec::new(),
        plane_cost: vec![0; usize::from(dimensions[1].size)],
        nets: machine.data_nets().count() as f64,
        routers: 0.0,
        seat_of: vec![None; machine.modules.len()],
        sites: sites.collect::<Option<_>>()?,
    };
    let mut windows = Vec::new();
    let mut levels = Vec::new();
    for group in machine.groups.iter().filter(|g| g.role == Role::Data) {
        shape.add(machine, &axes, group, &mut windows, &mut levels)?;
    }
    // A ring belongs to one level only.
    let planes = levels
        .iter()
        .flat_map(|level: &Vec<(u16, i32)>| level.iter().map(|p| p.0));
    let mut planes: Vec<u16> = planes.collect();
    let count = planes.len();
    planes.sort_unstable();
    planes.dedup();
    (planes.len() == count).then_some(shape)
}

/// A site whose nodes stand above each other.
fn spot(grid: &Grid, site: &Site, nodes: usize) -> Option<Spot> {
    let position = |vertex: Vertex, d| usize::from(grid.position(vertex, d));
    let &(_, first) = site.nodes.first()?;
    let (column, depth) = (position(first, 0), position(first, 2));
    let mut planes: Vec<(usize, i32)> = Vec::new();
    for &(_, vertex) in &site.nodes {
        if (position(vertex, 0), position(vertex, 2)) != (column, depth) {
            return None;
        }
        let plane = position(vertex, 1);
        match planes.iter_mut().find(|(other, _)| *other == plane) {
            Some((_, nodes)) => *nodes += i32::from(site.computes),
            None => planes.push((plane, i32::from(site.computes))),
        }
    }
    let used = site.nodes.iter().take(nodes);
    Some(Spot {
        column,
        depth,
        level: used.map(|node| grid.position(node.1, 1)).collect(),
        planes: planes.into_iter().filter(|&(_, nodes)| nodes > 0).collect(),
    })
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

/// The planes of the modules of a sub-group with the nets that each serves; `None` if they differ or
/// a module has not one node for each net.
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

fn index_of<T: PartialEq>(known: &mut Vec<T>, wanted: T) -> usize {
    match known.iter().position(|other| *other == wanted) {
        Some(index) => index,
        None => {
            known.push(wanted);
            known.len() - 1
        }
    }
}
