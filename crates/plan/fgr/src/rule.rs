//! The windows of Algorithm 1, for any torus or mesh.
//!
//! The dimension with the highest cost per hop has windows: each sub-group serves the planes around
//! its modules. Within the sub-group, the primary is the nearest module in the dimension with the
//! second highest cost. On Titan these dimensions are Y and X.
//!
//! ```text
//!   width W = N / K         footprint f = planes of a module, from y0 upwards
//!   ◀─ ⌊(W-f)/2⌋ ─▶│ y0 … y0+f-1 │◀─ ⌈(W-f)/2⌉ ─▶        Titan: W 4, f 2: y0-1 … y0+2
//! ```

use crate::machine::{Group, Machine};
use crate::topology::{Fabric, Grid, Vertex};

/// The dimensions that the rule uses.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Axes<'a> {
    pub(crate) grid: &'a Grid,
    /// The windowed dimension.
    pub(crate) window: usize,
    /// The dimension that decides which module is nearest.
    pub(crate) near: usize,
}

/// The sub-group of a client.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Window {
    /// Index of the sub-group, from 0.
    pub sub_group: usize,
    /// Offset of the client from the sub-group's modules along the windowed dimension.
    pub offset: i32,
    /// Whether the client is inside a window; otherwise this is the nearest window.
    pub inside: bool,
}

impl<'a> Axes<'a> {
    /// Returns the axes of a grid of at least two dimensions. If costs are equal, the window uses
    /// the later dimension and the distance the earlier one.
    pub(crate) fn of(fabric: &'a Fabric) -> Option<Self> {
        let Fabric::Grid(grid, _) = fabric else {
            return None;
        };
        let cost = |d: &usize| grid.dimensions()[*d].cost;
        let window = (0..grid.dimensions().len()).max_by_key(cost)?;
        let others = (0..grid.dimensions().len()).filter(|&d| d != window).rev();
        let near = others.max_by_key(cost)?;
        Some(Self { grid, window, near })
    }

    pub(crate) fn window_size(&self) -> u16 {
        self.grid.dimensions()[self.window].size
    }

    pub(crate) fn window_name(&self) -> &'a str {
        &self.grid.dimensions()[self.window].name
    }

    /// Number of planes from a module's home to its farthest node, both included.
    pub(crate) fn footprint(&self, machine: &Machine) -> u16 {
        let reach = machine.modules.iter().flat_map(|module| {
            let home = self.grid.position(module.home, self.window);
            let routers = &machine.routers
                [usize::from(module.routers.start)..usize::from(module.routers.end)];
            routers.iter().map(move |router| {
                let there = self.grid.position(router.vertex, self.window);
                self.grid.offset(self.window, home, there)
            })
        });
        // An offset is smaller than a dimension.
        reach.max().unwrap_or(0).max(0) as u16 + 1
    }

    /// Returns the first and last offset of the window of a sub-group of `group`.
    pub(crate) fn bounds(&self, group: &Group, sub_group: usize, footprint: u16) -> (i32, i32) {
        let (size, count) = (usize::from(self.window_size()), group.sub_groups.len());
        let width = (sub_group + 1) * size / count - sub_group * size / count;
        // At most as wide as a dimension, which fits in 16 bits.
        let (width, footprint) = (width as i32, i32::from(footprint));
        let spare = (width - footprint).max(0);
        let low = -(spare / 2);
        (low, low + width - 1)
    }

    /// Returns the sub-group whose window holds the client: the first in order, or else the
    /// nearest.
    pub(crate) fn sub_group(
        &self,
        machine: &Machine,
        group: &Group,
        client: Vertex,
    ) -> Option<Window> {
        let here = self.grid.position(client, self.window);
        let mut nearest: Option<(i32, Window)> = None;
        for (sub_group, modules) in group.sub_groups.iter().enumerate() {
            let home = machine.modules[usize::from(modules.start)].home;
            let there = self.grid.position(home, self.window);
            let offset = self.grid.offset(self.window, there, here);
            let (low, high) = self.bounds(group, sub_group, machine.footprint);
            let outside = (low - offset).max(offset - high).max(0);
            if nearest.is_none_or(|(best, _)| outside < best) {
                let inside = outside == 0;
                nearest = Some((
                    outside,
                    Window {
                        sub_group,
                        offset,
                        inside,
                    },
                ));
            }
        }
        nearest.map(|(_, window)| window)
    }

    /// Returns the sub-groups by position along the windowed dimension. No other dimension affects
    /// them.
    pub(crate) fn windows(&self, machine: &Machine, group: &Group) -> Vec<Option<Window>> {
        let planes = 0..u32::from(self.window_size());
        let stride = self.grid.stride(self.window);
        planes
            .map(|plane| self.sub_group(machine, group, Vertex(plane * stride)))
            .collect()
    }

    /// Number of hops from a vertex to a module along the dimension that decides which module is
    /// nearest.
    pub(crate) fn near_hops(&self, from: Vertex, home: Vertex) -> u16 {
        self.hops_from(self.grid.position(from, self.near), home)
    }

    /// Number of hops from a position in that dimension to a module.
    pub(crate) fn hops_from(&self, near: u16, home: Vertex) -> u16 {
        let there = self.grid.position(home, self.near);
        self.grid.distance(self.near, near, there)
    }
}
