//! The seat of one module: its position, and the clients that it serves.

use crate::place::ring::{Side, add, subtract};
use crate::place::shape::Shape;

/// The clients of a window: for each line of positions a vector padded to whole lanes.
#[derive(Clone)]
pub(super) struct Window {
    /// Clients by column.
    pub(super) by_column: Vec<i16>,
    /// Clients by depth: one vector for each column.
    pub(super) by_place: Vec<i16>,
}

/// The position of a module and the clients that it serves.
#[derive(Clone, Default)]
pub(super) struct Seat {
    pub(super) column: usize,
    pub(super) depth: usize,
    /// The ring of its writes and the ring of its reads.
    pub(super) rings: [usize; 2],
    /// The columns of its cell, one bit each.
    pub(super) cell: u64,
    pub(super) clients: i32,
    /// Hops of its clients along the first dimension.
    pub(super) hops: i64,
    /// Cost along the first and the last dimension.
    pub(super) cost: i64,
    by_column: Vec<i16>,
    by_depth: Vec<i16>,
}

impl Window {
    pub(super) fn new(shape: &Shape) -> Self {
        Self {
            by_column: vec![0; shape.columns.lanes],
            by_place: vec![0; shape.columns.size * shape.depths.lanes],
        }
    }

    /// Adds or removes clients at a place.
    pub(super) fn change(&mut self, shape: &Shape, column: usize, depth: usize, clients: i16) {
        self.by_column[column] += clients;
        self.by_place[column * shape.depths.lanes + depth] += clients;
    }
}

impl Seat {
    pub(super) fn place_at(&mut self, shape: &Shape, level: usize, column: usize, depth: usize) {
        (self.column, self.depth) = (column, depth);
        self.rings = shape.rings(level, column, depth);
    }

    /// Returns the seat's position on the ring of a direction and its units along the ring.
    pub(super) fn streams(&self, side: Side) -> (usize, &[i16]) {
        match side {
            Side::Write => (self.depth, &self.by_depth),
            Side::Read => (self.column, &self.by_column),
        }
    }

    /// Sets the cell: its clients and their hops along the first dimension. `was` is the earlier
    /// seat.
    pub(super) fn serve(&mut self, shape: &Shape, cell: u64, window: &Window, was: Option<&Self>) {
        self.cell = cell;
        let known = begin(
            &mut self.by_column,
            was.map(|was| (&was.by_column, was.cell)),
            shape.columns.lanes,
        );
        self.clients = was.map_or(0, |was| was.clients);
        for x in bits(known & !cell) {
            self.clients -= i32::from(std::mem::take(&mut self.by_column[x]));
        }
        for x in bits(cell & !known) {
            self.by_column[x] = window.by_column[x];
            self.clients += i32::from(window.by_column[x]);
        }
        self.hops = shape.columns.hops(self.column, &self.by_column);
    }

    /// Completes `serve`: calculates where the clients of the cell are along the last dimension.
    pub(super) fn reach(&mut self, shape: &Shape, window: &Window, was: Option<&Self>) {
        let lanes = shape.depths.lanes;
        let known = begin(
            &mut self.by_depth,
            was.map(|was| (&was.by_depth, was.cell)),
            lanes,
        );
        let column = |x: usize| &window.by_place[x * lanes..(x + 1) * lanes];
        for x in bits(known & !self.cell) {
            subtract(&mut self.by_depth, column(x));
        }
        for x in bits(self.cell & !known) {
            add(&mut self.by_depth, column(x));
        }
        self.cost = self.hops * shape.columns.cost
            + shape.depths.hops(self.depth, &self.by_depth) * shape.depths.cost;
    }

    /// Adds or removes clients at a place of the cell.
    pub(super) fn grow(&mut self, shape: &Shape, column: usize, depth: usize, clients: i16) {
        self.by_column[column] += clients;
        self.by_depth[depth] += clients;
        self.clients += i32::from(clients);
        let hops = i64::from(clients) * shape.columns.between(column, self.column);
        self.hops += hops;
        let along = i64::from(clients) * shape.depths.between(depth, self.depth);
        self.cost += hops * shape.columns.cost + along * shape.depths.cost;
    }

    /// Moves clients from one depth to another.
    pub(super) fn shift(&mut self, shape: &Shape, [from, to]: [usize; 2], clients: i16) {
        self.by_depth[from] -= clients;
        self.by_depth[to] += clients;
        let [near, far] = [from, to].map(|depth| shape.depths.between(depth, self.depth));
        self.cost += i64::from(clients) * (far - near) * shape.depths.cost;
    }
}

/// Starts from the vector and the cell of the earlier seat, or from an empty vector.
fn begin(vector: &mut Vec<i16>, was: Option<(&Vec<i16>, u64)>, lanes: usize) -> u64 {
    if let Some((before, cell)) = was {
        vector.clone_from(before);
        return cell;
    }
    vector.clear();
    vector.resize(lanes, 0);
    0
}

/// The bits of a set, in ascending order.
pub(super) fn bits(mut set: u64) -> impl Iterator<Item = usize> {
    std::iter::from_fn(move || {
        let next = (set != 0).then(|| set.trailing_zeros() as usize)?;
        set &= set - 1;
        Some(next)
    })
}
