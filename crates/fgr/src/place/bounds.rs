//! What no placement can go below, whatever the search finds.

use topology::{Fabric, Grid, Link, Vertex};

use crate::evaluate::bounds::ball;
use crate::machine::{Machine, Role};
use crate::policy::{Metric, Policy};
use crate::rule::Axes;

/// Lower bounds of the figures of any placement of as many modules; 0 where none is known.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct PlacementBounds {
    /// Of the mean cost, for any policy: the nearest share of all vertices, both nodes of a module
    /// counted (planning, section 4.6).
    pub cost: f64,
    /// Of the mean cost by windows, which choose along two dimensions only.
    pub cost_by_windows: f64,
    /// Of the balance by windows: arcs of whole columns.
    pub balance_by_windows: f64,
    /// Of both utilisations, for any policy: everything that a router takes, over all links of the
    /// best connected vertex.
    pub utilisation: f64,
    /// Of writes by windows, which do not look at the last dimension: nearly all that a router takes
    /// comes over the two last links.
    pub write_by_windows: f64,
    /// Of reads by windows, where the first dimension is the one in which the nearest wins: all but
    /// the router's own column leaves over its two first links.
    pub read_by_windows: f64,
}

/// The bounds for a machine. Those of windows are given for [`Policy::Strict`] on a torus whose
/// windows are alike; the nodes of a module are taken to stand as those of the first one do.
#[must_use]
pub fn placement_bounds(machine: &Machine, policy: Policy) -> PlacementBounds {
    let mut bounds = PlacementBounds::default();
    let Fabric::Grid(grid, _) = &machine.fabric else {
        return bounds;
    };
    let is_data =
        |m: &&crate::machine::Module| machine.groups[usize::from(m.group)].role == Role::Data;
    let Some(first) = machine.modules.iter().find(is_data) else {
        return bounds;
    };
    let group = &machine.groups[usize::from(first.group)];
    let routers =
        &machine.routers[usize::from(first.routers.start)..usize::from(first.routers.end)];
    let places: Vec<Vertex> = routers.iter().map(|router| router.vertex).collect();
    let wraps = grid.dimensions().iter().all(|d| d.wrap);
    if wraps {
        bounds.cost = ball(
            &machine.fabric,
            Metric::Cost,
            &places,
            group.modules().len() as u32,
        )
        .mean;
    }
    let home = places.iter().filter(|&&place| place == first.home).count();
    let units = machine.clients.len() as f64 / group.modules().len() as f64 * home as f64;
    bounds.utilisation = units / best_connected(grid);
    if let (true, Policy::Strict { .. }, Some(axes)) = (wraps, policy, Axes::of(&machine.fabric)) {
        let modules = group.sub_groups.first().map_or(1, |range| range.len());
        let windows = Windows::new(machine, &axes, group.sub_groups.len(), modules);
        windows.bound(&mut bounds, &places, home as f64);
    }
    bounds
}

/// GB/s into the best connected vertex.
fn best_connected(grid: &Grid) -> f64 {
    let into = |vertex| -> f64 {
        let links = grid.neighbours(Vertex(vertex));
        links.filter_map(|(link, _)| grid.capacity(link)).sum()
    };
    (0..grid.vertices()).map(into).fold(0.0, f64::max)
}

/// The clients of a grid by position along the two dimensions that the rule looks at.
struct Windows<'a> {
    axes: &'a Axes<'a>,
    sub_groups: usize,
    modules: usize,
    /// By position of the windowed dimension, clients by position of the other.
    clients: Vec<Vec<u64>>,
}

impl<'a> Windows<'a> {
    fn new(machine: &Machine, axes: &'a Axes<'a>, sub_groups: usize, modules: usize) -> Self {
        let size = |d: usize| usize::from(axes.grid.dimensions()[d].size);
        let mut clients = vec![vec![0; size(axes.near)]; size(axes.window)];
        for client in &machine.clients {
            let position = |d| usize::from(axes.grid.position(client.vertex, d));
            clients[position(axes.window)][position(axes.near)] += 1;
        }
        Self {
            axes,
            sub_groups,
            modules,
            clients,
        }
    }

    fn bound(&self, bounds: &mut PlacementBounds, places: &[Vertex], home: f64) {
        let planes = self.clients.len();
        if !planes.is_multiple_of(self.sub_groups) {
            return;
        }
        let columns = self.clients.first().map_or(0, Vec::len);
        let width = planes / self.sub_groups;
        let total: u64 = self.clients.iter().flatten().sum();
        let mean = total as f64 / (self.sub_groups * self.modules) as f64;
        bounds.cost_by_windows = self.cost(places, width, columns);
        // The longest tables of arcs are those of the largest dimension; beyond this the bound of
        // even arcs says nearly the same.
        if columns > 64 {
            return;
        }
        let windows = |offset: usize| {
            (0..self.sub_groups).map(move |s| self.window(offset + s * width, width))
        };
        let worst = |offset| windows(offset).map(|w| arcs(&w, self.modules)).max();
        let most = (0..width).filter_map(worst).min().unwrap_or(0);
        bounds.balance_by_windows = most as f64 / mean;
        self.utilisations(bounds, home, &windows(0).collect::<Vec<_>>());
    }

    /// Clients by column of a window.
    fn window(&self, first: usize, width: usize) -> Vec<u64> {
        let columns = self.clients.first().map_or(0, Vec::len);
        let planes = (first..first + width).map(|y| &self.clients[y % self.clients.len()]);
        planes.fold(vec![0; columns], |sum, plane| {
            sum.iter().zip(plane).map(|(a, b)| a + b).collect()
        })
    }

    /// The mean over whole windows and even arcs, with the last dimensions at random: places of
    /// clients count alike.
    fn cost(&self, places: &[Vertex], width: usize, columns: usize) -> f64 {
        let grid = self.axes.grid;
        let weight = |d: usize| f64::from(grid.dimensions()[d].cost);
        let offsets = places.iter().map(|&place| {
            let from = grid.position(places[0], self.axes.window);
            grid.offset(
                self.axes.window,
                from,
                grid.position(place, self.axes.window),
            )
        });
        let offsets: Vec<i32> = offsets.collect();
        let window = least_window(&offsets, width);
        let near = nearest_ring(columns, self.modules);
        let others =
            (0..grid.dimensions().len()).filter(|&d| d != self.axes.window && d != self.axes.near);
        let rest: f64 = others
            .map(|d| {
                let size = grid.dimensions()[d].size;
                let sum: u32 = (0..size).map(|p| u32::from(grid.distance(d, 0, p))).sum();
                weight(d) * f64::from(sum) / f64::from(size)
            })
            .sum();
        weight(self.axes.window) * window + weight(self.axes.near) * near + rest
    }

    fn utilisations(&self, bounds: &mut PlacementBounds, home: f64, windows: &[Vec<u64>]) {
        let grid = self.axes.grid;
        let last = grid.dimensions().len() - 1;
        let widest = |d: usize| {
            let slots = (0..grid.link_slots()).map(Link);
            let along = slots.filter(move |&link| grid.describe(link).dimension == d);
            along.filter_map(|l| grid.capacity(l)).fold(0.0, f64::max)
        };
        let total: u64 = windows.iter().flatten().sum();
        let modules = (self.sub_groups * self.modules) as f64;
        if last != self.axes.window && last != self.axes.near {
            let size = f64::from(grid.dimensions()[last].size);
            let units = total as f64 / modules * home;
            bounds.write_by_windows = units * (size - 1.0) / size / 2.0 / widest(last);
        }
        if self.axes.near == 0 {
            let own: u64 = windows.iter().filter_map(|w| w.iter().max()).sum();
            let away = total as f64 - own as f64 * self.modules as f64;
            bounds.read_by_windows = away.max(0.0) / modules * home / 2.0 / widest(0);
        }
    }
}

/// The least mean distance from the planes of a window to a module's nodes at these offsets.
fn least_window(offsets: &[i32], width: usize) -> f64 {
    // A window is not wider than a dimension.
    let width = width as i32;
    let sum = |low: i32| -> i32 {
        let planes = low..low + width;
        planes
            .map(|p| offsets.iter().map(|o| (p - o).abs()).sum::<i32>())
            .sum()
    };
    let least = (-width..=width).map(sum).min().unwrap_or(0);
    f64::from(least) / f64::from(width) / offsets.len().max(1) as f64
}

/// The least mean distance to the nearest of `modules` on a ring: arcs as even as can be.
fn nearest_ring(size: usize, modules: usize) -> f64 {
    let arc = |length: usize| (0..length).map(|i| i.div_ceil(2)).sum::<usize>();
    let (short, long) = (size / modules, size % modules);
    let sum = arc(short + 1) * long + arc(short) * (modules - long);
    sum as f64 / size.max(1) as f64
}

/// The least largest sum when a ring of columns is cut into this many arcs.
fn arcs(ring: &[u64], count: usize) -> u64 {
    let size = ring.len();
    let from = |start: usize| {
        let column = |i: usize| ring[(start + i) % size];
        // most[i]: the least largest sum of the first i columns in the arcs so far.
        let mut most: Vec<u64> = (0..=size).map(|end| (0..end).map(column).sum()).collect();
        for _ in 1..count {
            let mut next = most.clone();
            for (end, least) in next.iter_mut().enumerate() {
                let mut sum = 0;
                for cut in (0..end).rev() {
                    sum += column(cut);
                    *least = (*least).min(most[cut].max(sum));
                }
            }
            most = next;
        }
        most.last().copied().unwrap_or(0)
    };
    (0..size).map(from).min().unwrap_or(0)
}
