//! Parallel walks through placements, each towards a goal that moves on when it is reached.
//!
//! A walk accepts a move if the energy grows at most a little, and accepts less and less growth
//! during a span of rounds. After each round the points of all walks go into one archive. After a
//! span, a walk that is far behind continues from the best point of the others. A round is a pure
//! function of the state before it, so threads and interruptions do not change the result.

use std::ops::ControlFlow;

use lnet_types::SplitMix64;
use rayon::prelude::*;

use crate::machine::Role;
use crate::place::archive::Archive;
use crate::place::board::{Board, Step};
use crate::place::goal::Goal;
use crate::place::{
    Effort, Figures, PlaceError, Point, Problem, Progress, State, WalkState, moved,
};
use crate::rule::Axes;

/// Part of a step towards better figures (cost, balance, write, read) that each walk takes.
const AIMS: [[f64; 4]; 8] = [
    [1.0, 1.0, 1.0, 1.0],
    [0.2, 1.0, 4.0, 1.0],
    [0.2, 1.0, 1.0, 4.0],
    [0.2, 4.0, 1.0, 1.0],
    [4.0, 1.0, 1.0, 1.0],
    [0.0, 0.0, 4.0, 4.0],
    [1.0, 2.0, 2.0, 0.5],
    [2.0, 1.0, 2.0, 2.0],
];

/// One step of each figure, relative to the figure.
const STEPS: [f64; 4] = [0.000_02, 0.000_5, 0.01, 0.001];

/// Moves of each walk in a round; `SLOW_ROUND` on machines whose placements are planned as a whole.
const ROUND: u64 = 1 << 12;
const SLOW_ROUND: u64 = 1 << 3;

/// Rounds in which a walk goes from accepting worse placements to accepting only better ones. After
/// each span, a walk that is behind continues from the point that is nearest to its goal.
const SPAN: u64 = 16;

/// Growth of the energy that a walk accepts at the start of a span, relative to the energy. Spans
/// use the values in turn.
const HEATS: [f64; 4] = [0.2, 0.1, 0.05, 0.02];

/// Most draws for one candidate. Most draws fail on a taken blade.
const DRAWS: u32 = 64;

/// Most points that a walk keeps of a round.
const KEPT_MAX: usize = 32;

/// What all walks share.
pub(super) struct Field<'a> {
    problem: &'a Problem<'a>,
    /// Indices of the data modules, and whether a module is one.
    movable: Vec<usize>,
    is_movable: Vec<bool>,
    /// Sites by their planes, and the class of planes of each site.
    by_level: Vec<Vec<u32>>,
    /// Sites by their planes and their position along the dimension that decides which module is
    /// nearest.
    by_column: Vec<Vec<Vec<u32>>>,
    column_of: Vec<usize>,
    level_of: Vec<usize>,
    cabinet_of: Vec<u32>,
    /// The other modules of each module's sub-group.
    siblings: Vec<Vec<usize>>,
    start: Figures,
}

/// How placements are scored.
#[derive(Clone)]
enum Score {
    /// Move by move.
    Board(Box<Board>),
    /// With a whole plan for each candidate, for any policy and fabric.
    Whole {
        at: Vec<u32>,
        figures: Figures,
        goal: Goal,
    },
}

/// One walk.
struct Walk {
    random: SplitMix64,
    score: Score,
    owner: Vec<Option<usize>>,
    goal: Figures,
    found: Archive,
    /// The lowest energy of the round.
    lowest: i64,
}

impl<'a> Field<'a> {
    pub(super) fn new(problem: &'a Problem<'a>, start: Figures) -> Self {
        let machine = problem.machine;
        let modules = machine.modules.iter();
        let group = modules.map(|module| &machine.groups[usize::from(module.group)]);
        let is_movable: Vec<bool> = group.map(|group| group.role == Role::Data).collect();
        let needed = machine.modules.iter().map(|m| m.routers.len()).max();
        let (mut levels, mut cabinets) = (Vec::new(), Vec::new());
        let mut by_level: Vec<Vec<u32>> = Vec::new();
        let mut by_column: Vec<Vec<Vec<u32>>> = Vec::new();
        let (mut level_of, mut cabinet_of) = (Vec::new(), Vec::new());
        let mut column_of = Vec::new();
        let axes = Axes::of(&machine.fabric);
        let columns = axes.as_ref().map_or(1, |axes| {
            usize::from(axes.grid.dimensions()[axes.near].size)
        });
        for (index, site) in (0_u32..).zip(&problem.sites) {
            let nodes = site.nodes.iter().take(needed.unwrap_or(0));
            let position = |vertex, d: fn(&Axes<'_>) -> usize| {
                let axes = axes.as_ref();
                axes.map_or(0, |axes| axes.grid.position(vertex, d(axes)))
            };
            let planes: Vec<u16> = nodes.map(|node| position(node.1, |a| a.window)).collect();
            let column = site
                .nodes
                .first()
                .map_or(0, |n| position(n.1, |a| a.near).into());
            let level = number(&mut levels, planes);
            by_level.resize(levels.len(), Vec::new());
            by_level[level].push(index);
            by_column.resize(levels.len(), vec![Vec::new(); columns]);
            by_column[level][column].push(index);
            column_of.push(column);
            level_of.push(level);
            cabinet_of.push(number(&mut cabinets, site.cabinet.clone()) as u32);
        }
        let modules = machine.modules.iter().enumerate();
        let siblings = modules.map(|(index, module)| {
            let group = &machine.groups[usize::from(module.group)];
            let range = group.sub_groups[usize::from(module.sub_group)].clone();
            range.map(usize::from).filter(|&m| m != index).collect()
        });
        Self {
            movable: (0..is_movable.len()).filter(|&m| is_movable[m]).collect(),
            is_movable,
            siblings: siblings.collect(),
            problem,
            by_level,
            by_column,
            column_of,
            level_of,
            cabinet_of,
            start,
        }
    }

    /// Returns whether no other module of the sub-group will be in the cabinet. If the module
    /// already shares a cabinet, it may stay there.
    fn is_apart(&self, at: &[u32], steps: &[Step], (module, site): Step) -> bool {
        let cabinet = |site: u32| self.cabinet_of[site as usize];
        if cabinet(site) == cabinet(at[module]) {
            return true;
        }
        self.siblings[module].iter().all(|&sibling| {
            let step = steps.iter().find(|step| step.0 == sibling);
            cabinet(step.map_or(at[sibling], |step| step.1)) != cabinet(site)
        })
    }
}

fn number<T: PartialEq>(known: &mut Vec<T>, wanted: T) -> usize {
    let found = known.iter().position(|other| *other == wanted);
    found.unwrap_or_else(|| {
        known.push(wanted);
        known.len() - 1
    })
}

impl Score {
    fn new(problem: &Problem<'_>, at: &[u32]) -> Result<Self, PlaceError> {
        if let Some(board) = Board::new(problem, at) {
            return Ok(Self::Board(Box::new(board)));
        }
        Ok(Self::Whole {
            figures: Figures::of(&moved(problem, at), problem.policy)?,
            at: at.to_vec(),
            goal: Goal::default(),
        })
    }

    fn at(&self) -> &[u32] {
        match self {
            Self::Board(board) => &board.at,
            Self::Whole { at, .. } => at,
        }
    }

    fn figures(&self) -> Figures {
        match self {
            Self::Board(board) => board.figures(),
            Self::Whole { figures, .. } => *figures,
        }
    }

    fn set_goal(&mut self, figures: &Figures) {
        match self {
            Self::Board(board) => board.set_goal(figures),
            Self::Whole { goal, .. } => *goal = Goal::new(figures, 1.0, 1.0),
        }
    }

    fn energy(&self) -> i64 {
        match self {
            Self::Board(board) => board.energy(),
            Self::Whole { figures, goal, .. } => goal.whole(figures),
        }
    }

    /// Returns whether the goal may be reached. Called before figures are calculated.
    fn may_meet_goal(&self) -> bool {
        match self {
            Self::Board(board) => board.may_meet_goal(),
            Self::Whole { .. } => true,
        }
    }

    fn attempt(&mut self, problem: &Problem<'_>, steps: &[Step], limit: i64) -> bool {
        match self {
            Self::Board(board) => board.attempt(steps, limit),
            Self::Whole { at, figures, goal } => {
                let mut there = at.clone();
                for &(module, site) in steps {
                    there[module] = site;
                }
                let Ok(found) = Figures::of(&moved(problem, &there), problem.policy) else {
                    return false;
                };
                let is_taken = goal.whole(&found) <= limit;
                if is_taken {
                    (*at, *figures) = (there, found);
                }
                is_taken
            }
        }
    }
}

impl Walk {
    /// Makes the walks of a search. Walks that start at the same placement share the calculation of
    /// its score.
    fn all(problem: &Problem<'_>, states: &[WalkState]) -> Result<Vec<Self>, PlaceError> {
        let Some(first) = states.first() else {
            return Ok(Vec::new());
        };
        let score = Score::new(problem, &first.at)?;
        let walks = states.par_iter().map(|state| {
            let score = if state.at == first.at {
                score.clone()
            } else {
                Score::new(problem, &state.at)?
            };
            Ok(Self::new(problem, state, score))
        });
        walks.collect()
    }

    fn new(problem: &Problem<'_>, state: &WalkState, mut score: Score) -> Self {
        score.set_goal(&state.goal);
        let mut walk = Self {
            random: SplitMix64::new(state.random),
            owner: Vec::new(),
            goal: state.goal,
            found: Archive::default(),
            lowest: i64::MAX,
            score,
        };
        walk.own(problem);
        walk
    }

    fn own(&mut self, problem: &Problem<'_>) {
        self.owner = vec![None; problem.sites.len()];
        for (module, &site) in self.score.at().iter().enumerate() {
            self.owner[site as usize] = Some(module);
        }
    }

    fn state(&self) -> WalkState {
        WalkState {
            at: self.score.at().to_vec(),
            random: self.random.seed(),
            goal: self.goal,
        }
    }

    fn is_slow(&self) -> bool {
        matches!(self.score, Score::Whole { .. })
    }

    /// Moves of a round.
    fn moves(&self) -> u64 {
        if self.is_slow() { SLOW_ROUND } else { ROUND }
    }

    /// Makes this many moves. Rounds differ in the growth of energy that they accept.
    fn round(&mut self, field: &Field<'_>, (round, moves): (u64, u64), aims: &[f64; 4]) {
        let heat = HEATS[(round / SPAN % HEATS.len() as u64) as usize];
        self.lowest = i64::MAX;
        for step in 0..moves {
            let done = (round % SPAN * moves + step) as f64 / (SPAN * moves) as f64;
            let left = 1.0 - done;
            let energy = self.score.energy();
            let more = (energy.max(0) as f64 * heat * left * left) as i64;
            let (steps, count) = self.draw(field);
            let steps = &steps[..count];
            if count == 0 {
                continue;
            }
            let from = [steps[0].0, steps[count - 1].0].map(|module| self.score.at()[module]);
            if self.score.attempt(field.problem, steps, energy + more) {
                for site in from {
                    self.owner[site as usize] = None;
                }
                for &(module, site) in steps {
                    self.owner[site as usize] = Some(module);
                }
                self.record_placement(field, aims);
            }
        }
    }

    /// Keeps the placement if it is the nearest to the goal in this round, and moves the goal on if
    /// it is reached.
    fn record_placement(&mut self, field: &Field<'_>, aims: &[f64; 4]) {
        let energy = self.score.energy();
        let is_lowest = energy < self.lowest;
        self.lowest = self.lowest.min(energy);
        let is_kept = is_lowest && self.found.len() < KEPT_MAX;
        let may_meet_goal = self.score.may_meet_goal();
        if !is_kept && !may_meet_goal {
            return;
        }
        let figures = self.score.figures();
        if is_kept {
            self.found.offer(&figures, self.score.at());
        }
        if !may_meet_goal {
            return;
        }
        let reached = figures.values().into_iter().zip(self.goal.values());
        if !reached.into_iter().all(|(value, goal)| value <= goal) {
            return;
        }
        self.found.offer_first(&figures, self.score.at());
        let start = field.start.values();
        let mut next = self.goal.values();
        for (figure, value) in next.iter_mut().enumerate() {
            *value -= start[figure] * STEPS[figure] * aims[figure];
        }
        self.goal = Figures::from_values(next);
        self.score.set_goal(&self.goal);
        self.lowest = self.score.energy();
    }

    /// Draws a move to a free blade, or a swap with the module on the blade, within the planes of
    /// the module: its window serves the clients around these planes.
    fn draw(&mut self, field: &Field<'_>) -> ([Step; 2], usize) {
        for _ in 0..DRAWS {
            let which = self.random.below(field.movable.len() as u64) as usize;
            let module = field.movable[which];
            let at = self.score.at();
            let here = at[module];
            let level = field.level_of[here as usize];
            let columns = &field.by_column[level];
            let column = field.column_of[here as usize];
            // Mostly in the same or the next column, so that the cells stay nearly the same.
            let among = match self.random.below(8) {
                0 => &field.by_level[level],
                1 | 2 => columns.get(column + 1).unwrap_or(&columns[0]),
                3 | 4 => &columns[column.checked_sub(1).unwrap_or(columns.len() - 1)],
                _ => &columns[column],
            };
            if among.is_empty() {
                continue;
            }
            let site = among[self.random.below(among.len() as u64) as usize];
            if site == here {
                continue;
            }
            let (steps, count) = match self.owner[site as usize] {
                None => ([(module, site); 2], 1),
                // A swap within a sub-group only changes the order in ties.
                Some(other) if field.is_movable[other] => ([(module, site), (other, here)], 2),
                Some(_) => continue,
            };
            let taken = &steps[..count];
            if taken.iter().all(|step| field.is_apart(at, taken, *step)) {
                return (steps, count);
            }
        }
        ([(0, 0); 2], 0)
    }
}

/// Runs one span of all walks with this many moves in all, or slightly more. Returns the final
/// states.
pub(super) fn span(
    field: &Field<'_>,
    from: &[WalkState],
    moves: u64,
) -> Result<Vec<Figures>, PlaceError> {
    let each = moves.div_ceil(SPAN * (from.len() as u64).max(1));
    let mut walks = Walk::all(field.problem, from)?;
    // Walks take turns round by round, so that all of them end at nearly the same time.
    rayon::scope_fifo(|scope| {
        for (walk, aims) in walks.iter_mut().zip(&AIMS) {
            scope.spawn_fifo(move |scope| next_rounds(scope, (walk, aims), field, (0, each)));
        }
    });
    Ok(walks.iter().map(|walk| walk.score.figures()).collect())
}

/// Runs one round of a walk of a span, then schedules the next.
fn next_rounds<'a>(
    scope: &rayon::ScopeFifo<'a>,
    (walk, aims): (&'a mut Walk, &'a [f64; 4]),
    field: &'a Field<'_>,
    (round, moves): (u64, u64),
) {
    walk.round(field, (round, moves), aims);
    if round + 1 < SPAN {
        scope.spawn_fifo(move |scope| {
            next_rounds(scope, (walk, aims), field, (round + 1, moves));
        });
    }
}

/// Runs rounds until the effort is spent or the caller breaks, and updates the state.
pub(super) fn run(
    field: &Field<'_>,
    effort: Effort,
    state: &mut State,
    progress: &mut dyn FnMut(Progress) -> ControlFlow<()>,
) -> Result<ControlFlow<()>, PlaceError> {
    let mut walks = Walk::all(field.problem, &state.walks)?;
    let moves: u64 = walks.iter().map(Walk::moves).sum();
    let mut archive = Archive::from_points(std::mem::take(&mut state.points));
    let mut flow = ControlFlow::Continue(());
    while state.tried < effort.candidates && flow.is_continue() {
        let round = state.rounds;
        let pairs = walks.par_iter_mut().zip(&AIMS);
        pairs.for_each(|(walk, aims)| walk.round(field, (round, walk.moves()), aims));
        for walk in &mut walks {
            for point in std::mem::take(&mut walk.found).into_points() {
                archive.offer(&point.figures, &point.sites);
            }
        }
        if round % SPAN == SPAN - 1 {
            restart_walks(field, &mut walks, archive.points())?;
        }
        state.rounds += 1;
        state.tried += moves;
        flow = progress(Progress {
            tried: state.tried,
            points: archive.len(),
            best: archive.best(),
        });
    }
    state.walks = walks.iter().map(Walk::state).collect();
    state.points = archive.into_points();
    Ok(flow)
}

/// Restarts each walk from the point that is nearest to its goal, if that point is nearer than the
/// walk.
fn restart_walks(
    field: &Field<'_>,
    walks: &mut [Walk],
    points: &[Point],
) -> Result<(), PlaceError> {
    for walk in walks {
        let goal = Goal::new(&walk.goal, 1.0, 1.0);
        let distance = |point: &&Point| goal.whole(&point.figures);
        let Some(best) = points.iter().min_by_key(distance) else {
            return Ok(());
        };
        if distance(&best) < goal.whole(&walk.score.figures()) / 2 {
            walk.score = Score::new(field.problem, &best.sites)?;
            walk.score.set_goal(&walk.goal);
            walk.own(field.problem);
        }
    }
    Ok(())
}

/// The state before the first round: every walk at the start.
pub(super) fn begin(effort: &Effort, start: &Figures, at: &[u32]) -> State {
    let seed = effort.seed;
    let mut seeds = SplitMix64::new(seed);
    let walks = AIMS.iter().map(|_| WalkState {
        at: at.to_vec(),
        random: seeds.below(u64::MAX),
        goal: effort.goal.unwrap_or(*start),
    });
    State {
        seed,
        rounds: 0,
        tried: 0,
        walks: walks.collect(),
        points: Vec::new(),
    }
}
