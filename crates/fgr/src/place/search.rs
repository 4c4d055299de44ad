//! Walks through placements: threshold accepting with several weightings of the figures.

use std::ops::ControlFlow;

use crate::machine::{Machine, Role};
use crate::place::archive::Archive;
use crate::place::score::{Adder, GroupScore, Total, group_machine, stand};
use crate::place::{Effort, PlaceError, Problem, Progress};
use crate::random::SplitMix;
use crate::rule::Axes;

/// The weights of cost, balance, write and read, one walk each.
const WALKS: [[f64; 4]; 6] = [
    [1.0, 1.0, 1.0, 1.0],
    [1.0, 0.2, 4.0, 0.5],
    [1.0, 0.2, 0.5, 4.0],
    [1.0, 4.0, 1.0, 1.0],
    [6.0, 1.0, 1.0, 1.0],
    [0.5, 0.1, 3.0, 3.0],
];

/// How much worse, relative to the start, a walk accepts at its beginning.
const THRESHOLD: f64 = 0.0006;

/// Nearest blades that most moves choose from.
const NEIGHBOURS: u64 = 24;

/// Draws of a move before a candidate is given up: most fail on a taken blade.
const DRAWS: u32 = 64;

/// One module and the site that it goes to.
type Step = (usize, u32);

/// A data group on its own.
struct Part {
    machine: Machine,
    first_module: usize,
}

pub(super) struct Search<'a> {
    problem: &'a Problem<'a>,
    effort: Effort,
    random: SplitMix,
    adder: Adder,
    parts: Vec<Part>,
    /// Data modules, by index of the machine.
    movable: Vec<usize>,
    /// The part of each module; `None` for metadata.
    part_of: Vec<Option<usize>>,
    /// Position of each site along the windowed dimension, 0 where there is none.
    planes: Vec<u16>,
    start: Vec<u32>,
    archive: Archive,
    tried: u64,
}

/// Where a walk is.
struct At {
    sites: Vec<u32>,
    owner: Vec<Option<usize>>,
    groups: Vec<GroupScore>,
    worth: f64,
}

impl<'a> Search<'a> {
    pub(super) fn new(
        problem: &'a Problem<'a>,
        effort: Effort,
        start: Vec<u32>,
    ) -> Result<Self, PlaceError> {
        let machine = problem.machine;
        let data = |g: &usize| machine.groups[*g].role == Role::Data;
        let groups: Vec<usize> = (0..machine.groups.len()).filter(data).collect();
        let parts = groups.iter().map(|&group| Part {
            machine: group_machine(machine, group),
            first_module: usize::from(machine.groups[group].modules().start),
        });
        let part_of: Vec<Option<usize>> = machine
            .modules
            .iter()
            .map(|module| groups.iter().position(|&g| g == usize::from(module.group)))
            .collect();
        let axes = Axes::of(&machine.fabric);
        let plane = |site: &crate::place::Site| match (&axes, site.nodes.first()) {
            (Some(axes), Some(&(_, vertex))) => axes.grid.position(vertex, axes.window),
            _ => 0,
        };
        Ok(Self {
            planes: problem.sites.iter().map(plane).collect(),
            movable: (0..part_of.len())
                .filter(|&m| part_of[m].is_some())
                .collect(),
            parts: parts.collect(),
            part_of,
            random: SplitMix(effort.seed),
            adder: Adder::new(machine),
            archive: Archive::default(),
            tried: 0,
            problem,
            effort,
            start,
        })
    }

    pub(super) fn tried(&self) -> u64 {
        self.tried
    }

    pub(super) fn into_points(self) -> impl Iterator<Item = Vec<u32>> {
        self.archive.into_points().into_iter().map(|p| p.sites)
    }

    /// Walks until the effort is spent or the caller breaks.
    pub(super) fn run(
        &mut self,
        progress: &mut dyn FnMut(Progress) -> ControlFlow<()>,
    ) -> ControlFlow<()> {
        for (walk, weights) in (1_u64..).zip(&WALKS) {
            let until = self.effort.candidates * walk / WALKS.len() as u64;
            // The start was planned before, and its groups are parts of that plan.
            if let Ok(at) = self.begin() {
                self.walk(at, weights, until, progress)?;
            }
        }
        ControlFlow::Continue(())
    }

    fn begin(&mut self) -> Result<At, PlaceError> {
        let sites = self.start.clone();
        let mut owner = vec![None; self.problem.sites.len()];
        for (module, &site) in sites.iter().enumerate() {
            owner[site as usize] = Some(module);
        }
        self.put(&sites, &(0..self.parts.len()).collect::<Vec<_>>());
        let scores = self.parts.iter();
        let scores = scores.map(|part| GroupScore::of(&part.machine, self.problem.policy));
        Ok(At {
            groups: scores.collect::<Result<_, _>>()?,
            worth: f64::INFINITY,
            sites,
            owner,
        })
    }

    fn walk(
        &mut self,
        mut at: At,
        weights: &[f64; 4],
        until: u64,
        progress: &mut dyn FnMut(Progress) -> ControlFlow<()>,
    ) -> ControlFlow<()> {
        let from = self.tried;
        let base = self.adder.total(&at.groups);
        at.worth = worth(&base, &base, weights);
        while self.tried < until {
            let left = (until - self.tried) as f64 / (until - from) as f64;
            if let Some(steps) = self.draw(&at) {
                self.try_out(&mut at, &steps, &base, weights, THRESHOLD * left);
            }
            self.tried += 1;
            progress(Progress {
                tried: self.tried,
                points: self.archive.len(),
                best: self.archive.best(),
            })?;
        }
        ControlFlow::Continue(())
    }

    /// Makes the steps, and takes them back when the result is worse by more than the threshold.
    fn try_out(
        &mut self,
        at: &mut At,
        steps: &[Step],
        base: &Total,
        weights: &[f64; 4],
        threshold: f64,
    ) {
        let mut sites = at.sites.clone();
        for &(module, site) in steps {
            sites[module] = site;
        }
        let mut changed: Vec<usize> = steps.iter().filter_map(|s| self.part_of[s.0]).collect();
        changed.sort_unstable();
        changed.dedup();
        self.put(&sites, &changed);
        let mut groups = at.groups.clone();
        for &part in &changed {
            match GroupScore::of(&self.parts[part].machine, self.problem.policy) {
                Ok(score) => groups[part] = score,
                Err(_) => return,
            }
        }
        let total = self.adder.total(&groups);
        let worth = worth(&total, base, weights);
        if worth > at.worth + threshold {
            return;
        }
        self.archive.offer(&total.figures, &sites);
        for &(module, _) in steps {
            at.owner[at.sites[module] as usize] = None;
        }
        for &(module, site) in steps {
            at.owner[site as usize] = Some(module);
        }
        at.sites = sites;
        at.groups = groups;
        at.worth = worth;
    }

    /// Puts the modules of these parts where they stand.
    fn put(&mut self, sites: &[u32], parts: &[usize]) {
        for &part in parts {
            let Part {
                machine,
                first_module,
            } = &mut self.parts[part];
            for module in 0..machine.modules.len() {
                let site = sites[*first_module + module] as usize;
                stand(machine, module, &self.problem.sites[site]);
            }
        }
    }

    /// A move to a free blade or a swap with the module that has it; mostly within the plane, because
    /// a window serves the planes around its modules.
    fn draw(&mut self, at: &At) -> Option<Vec<Step>> {
        for _ in 0..DRAWS {
            let module = self.movable[self.random.below(self.movable.len() as u64) as usize];
            let here = at.sites[module];
            let site = match self.random.below(8) {
                0 => self.random.below(self.problem.sites.len() as u64) as u32,
                _ => self.neighbour(here),
            };
            let is_level = self.planes[site as usize] == self.planes[here as usize];
            if site == here || (!is_level && self.random.below(16) > 0) {
                continue;
            }
            let steps = match at.owner[site as usize] {
                None => vec![(module, site)],
                // A swap inside a sub-group changes nothing but the order in ties.
                Some(other) if self.part_of[other].is_some() => vec![(module, site), (other, here)],
                Some(_) => continue,
            };
            if steps.iter().all(|step| self.is_apart(at, &steps, *step)) {
                return Some(steps);
            }
        }
        None
    }

    /// One of the nearest blades of the plane.
    fn neighbour(&mut self, here: u32) -> u32 {
        let sites = &self.problem.sites;
        let home = |site: u32| sites[site as usize].nodes.first().map(|node| node.1);
        let plane = self.planes[here as usize];
        let level = (0..sites.len() as u32).filter(|&s| self.planes[s as usize] == plane);
        let fabric = &self.problem.machine.fabric;
        let mut near: Vec<(u32, u32)> = level
            .filter(|&site| site != here)
            .filter_map(|site| Some((fabric.cost(home(here)?, home(site)?), site)))
            .collect();
        let wanted = self.random.below(NEIGHBOURS) as usize;
        if near.is_empty() {
            return here;
        }
        let wanted = wanted.min(near.len() - 1);
        near.select_nth_unstable(wanted).1.1
    }

    /// Whether no other module of the sub-group will stand in the cabinet; a cabinet that the module
    /// shares already may stay shared.
    fn is_apart(&self, at: &At, steps: &[Step], (module, site): Step) -> bool {
        let cabinet = |site: u32| self.problem.sites[site as usize].cabinet.as_str();
        if cabinet(site) == cabinet(at.sites[module]) {
            return true;
        }
        let machine = self.problem.machine;
        let entry = &machine.modules[module];
        let range =
            &machine.groups[usize::from(entry.group)].sub_groups[usize::from(entry.sub_group)];
        let siblings = range.clone().map(usize::from).filter(|&m| m != module);
        siblings.into_iter().all(|sibling| {
            let step = steps.iter().find(|step| step.0 == sibling);
            let there = step.map_or(at.sites[sibling], |step| step.1);
            cabinet(there) != cabinet(site)
        })
    }
}

/// What a walk makes less: the weighted figures relative to those of the start, the peaks half by
/// what is nearly as hot.
fn worth(total: &Total, base: &Total, weights: &[f64; 4]) -> f64 {
    let [_, balance, write, read] = total.figures.values();
    let [_, balance_0, write_0, read_0] = base.figures.values();
    let peaks = [
        (balance / balance_0, total.soft[0] / base.soft[0]),
        (write / write_0, total.soft[1] / base.soft[1]),
        (read / read_0, total.soft[2] / base.soft[2]),
    ];
    let cost = weights[0] * total.figures.cost / base.figures.cost;
    let rest = peaks.into_iter().zip(&weights[1..]);
    let sum: f64 = rest.map(|((hard, soft), w)| w * (hard + soft) / 2.0).sum();
    (cost + sum) / weights.iter().sum::<f64>()
}
