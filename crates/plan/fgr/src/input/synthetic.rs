//! Machines without known coordinates: a rule spreads router modules over a torus of three
//! dimensions. The origin of such a machine is `synthetic`.
//!
//! ```text
//!   sub-group s of group g at y0 = (0 or 2, by turns) + 4 s
//!   module j of m at         x  = halton2(g) + s · ⌊Nx / 2m⌋ + j · Nx / m
//!                            z  = halton3(g) + 8 j + 5 s, and on to the next free blade
//! ```

use std::collections::BTreeSet;

use lnet_types::{LndType, Net};

use crate::input::draft::{ClientDraft, Draft, ModuleDraft, NodeDraft};
use crate::machine::{Client, Details, Machine, Origin, Role};
use crate::problem::{InputError, Problems, Reason};
use crate::rates::{Known, RateSource, RateSources};
use crate::topology::{Fabric, Grid, Tie, Vertex};

/// Number of planes that a sub-group serves.
const WINDOW: u16 = 4;

/// Number of the first net. The other nets have the following numbers.
const FIRST_NET: u16 = 201;

/// The number of routers of a synthetic machine.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Synthetic {
    /// Number of groups.
    pub groups: u16,
    /// Number of modules in a sub-group.
    pub modules: u16,
    /// Number of nets of a group, and of nodes of a module. Node `k` routes to net `k`. The first
    /// half of the nodes is on the module's plane, the other half on the next plane.
    pub nets: u16,
}

/// Makes a torus with one client at each vertex, numbered from 0, and router modules placed by
/// rule. The numbers of router nodes follow those of the clients.
///
/// # Errors
///
/// A grid without exactly three dimensions, a count of 0, or more modules or nets than fit.
pub fn synthetic(name: &str, grid: Grid, tie: Tie, size: Synthetic) -> Result<Machine, InputError> {
    let mut problems = Problems::new(name);
    let &[nx, ny, nz] = &grid.dimensions().iter().map(|d| d.size).collect::<Vec<_>>()[..] else {
        problems.add(
            1,
            Reason::Fabric("not a grid of three dimensions".to_owned()),
        );
        return Err(InputError(problems.found));
    };
    let nets = u32::from(size.groups) * u32::from(size.nets);
    let modules = u64::from(size.groups) * u64::from(ny.div_ceil(WINDOW)) * u64::from(size.modules);
    let routers = modules.saturating_mul(size.nets.into());
    if routers == 0 || nets > u32::from(u16::MAX - FIRST_NET) || routers > u64::from(u16::MAX) {
        let wanted = "from 1 to 65,000 nets and routers";
        let counts = format!("{}x{}x{}", size.groups, size.modules, size.nets);
        problems.value(1, "groups, modules and nets", &counts, wanted);
        return Err(InputError(problems.found));
    }
    let mut maker = Maker {
        grid: &grid,
        size: [nx, ny, nz],
        counts: size,
        taken: BTreeSet::new(),
        next_id: grid.vertices(),
        problems,
    };
    let modules = maker.modules();
    let place = maker.problems.place(1);
    maker.problems.into_result(())?;
    let clients = (0..grid.vertices()).map(|id| ClientDraft {
        client: Client {
            id,
            name: None,
            vertex: Vertex(id),
        },
        place: place.clone(),
    });
    Draft {
        name: name.to_owned(),
        origin: Origin::Synthetic,
        clients: clients.collect(),
        fabric: Fabric::Grid(grid, tie),
        modules,
        footprint: None,
        details: Details::default(),
        rates: RateSources {
            links: RateSource::new(Known::Assumed, "made up with the machine"),
            ..RateSources::default()
        },
        place,
        warnings: Vec::new(),
    }
    .check()
}

struct Maker<'a> {
    grid: &'a Grid,
    size: [u16; 3],
    counts: Synthetic,
    taken: BTreeSet<[u16; 3]>,
    next_id: u32,
    problems: Problems,
}

impl Maker<'_> {
    fn modules(&mut self) -> Vec<ModuleDraft> {
        let mut modules = Vec::new();
        for group in 0..self.counts.groups {
            for sub_group in 0..self.size[1].div_ceil(WINDOW) {
                for index in 0..self.counts.modules {
                    let Some(at) = self.free_place(group, sub_group, index) else {
                        let (what, max) = ("modules in one column of blades", self.size[2].into());
                        self.problems.add(1, Reason::TooMany { what, max });
                        return modules;
                    };
                    modules.push(self.module(at, group, sub_group, index));
                }
            }
        }
        modules
    }

    /// Returns the first free blade from the one that the rule gives.
    fn free_place(&mut self, group: u16, sub_group: u16, index: u16) -> Option<[u16; 3]> {
        let [nx, ny, nz] = self.size.map(u32::from);
        let (g, s, j) = (u32::from(group), u32::from(sub_group), u32::from(index));
        let m = u32::from(self.counts.modules);
        let x = halton(g + 1, 2, nx) + s * (nx / (2 * m)) + (j * nx + m / 2) / m;
        let y = 2 * (g % 2) + u32::from(WINDOW) * s;
        let z = halton(g + 1, 3, nz) + 8 * j + 5 * s;
        // Each value is reduced below a size, which fits in 16 bits.
        let mut places = (0..nz).map(|bump| [x % nx, y % ny, (z + bump) % nz].map(|p| p as u16));
        let free = places.find(|place| !self.taken.contains(place))?;
        self.taken.insert(free);
        Some(free)
    }

    fn module(&mut self, at: [u16; 3], group: u16, sub_group: u16, index: u16) -> ModuleDraft {
        let [x, y, z] = at;
        let above = [x, (y + 1) % self.size[1], z];
        let nodes = (0..self.counts.nets).map(|k| {
            let place = if k < self.counts.nets.div_ceil(2) {
                at
            } else {
                above
            };
            let id = self.next_id;
            self.next_id += 1;
            NodeDraft {
                id,
                vertex: self.grid.vertex(&place).unwrap_or_default(),
                net: Net::new(LndType::O2IB, FIRST_NET + group + self.counts.groups * k),
            }
        });
        ModuleDraft {
            nodes: nodes.collect(),
            group: format!("G{}", group + 1),
            role: Role::Data,
            sub_group: sub_group + 1,
            index: index + 1,
            blade: format!("{x}-{y}-{z}"),
            cabinet: format!("{x}-{y}"),
            place: self.problems.place(1),
        }
    }
}

/// Returns element `index` of the Halton sequence of this base, scaled to `0..size`: the digits are
/// mirrored at the point.
fn halton(mut index: u32, base: u32, size: u32) -> u32 {
    let (mut numerator, mut denominator) = (0_u64, 1_u64);
    while index > 0 {
        numerator = numerator * u64::from(base) + u64::from(index % base);
        denominator *= u64::from(base);
        index /= base;
    }
    // The result is below `size`, because the numerator is below the denominator.
    (numerator * u64::from(size) / denominator) as u32
}
