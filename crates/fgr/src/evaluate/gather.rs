//! Streams of a plan gathered dimension by dimension, for the loads of a grid's links.
//!
//! ```text
//!   write    (x, y, z) ──x──▶ (X, y, z) ──y──▶ (X, Y, z) ──z──▶ (X, Y, Z)    router at X, Y, Z
//!   streams   by x, y, z       by y, z          by z
//!
//!   read     (X, Y, Z) ──x──▶ (x, Y, Z) ──y──▶ (x, y, Z) ──z──▶ (x, y, z)
//!   streams   by x             by x, y          by x, y, z
//! ```
//!
//! Routing is dimension ordered: behind the first dimension, what clients of one line write to a router
//! is one stream; what a router gives to them is one until the last dimension. Each stream is added
//! to the rings once, and only what is left of it is carried on.

use std::rc::Rc;

use topology::{Grid, Tie, Vertex};

use crate::evaluate::loads::Traffic;
use crate::evaluate::rings::{Positions, Rings};
use crate::machine::Machine;

/// Which end of a path the clients are at.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum Side {
    /// Clients send to routers: dimensions are left behind from the first.
    From,
    /// Routers send to clients: dimensions are left behind from the last.
    To,
}

impl Side {
    pub(super) fn of(traffic: Traffic) -> Self {
        match traffic {
            Traffic::Write => Self::From,
            Traffic::Read => Self::To,
        }
    }
}

/// The streams of one direction of traffic.
pub(super) struct Gather<'a> {
    grid: &'a Grid,
    side: Side,
    rings: Rings<'a>,
    positions: Rc<Positions>,
    /// Vertices with routers of data nets, and the number of each by vertex.
    places: Vec<Vertex>,
    place_of: Vec<u32>,
    /// Units by what is left of the clients' coordinates, then by place.
    left: Vec<i64>,
}

impl<'a> Gather<'a> {
    pub(super) fn new(machine: &Machine, grid: &'a Grid, tie: Tie, side: Side) -> Self {
        let nets = machine.data_nets();
        let routers = nets.flat_map(|net| &machine.nets[net].routers);
        let vertices = routers.map(|&router| machine.routers[usize::from(router)].vertex);
        let mut places: Vec<Vertex> = vertices.collect();
        places.sort_unstable();
        places.dedup();
        let mut place_of = vec![0; grid.vertices() as usize];
        for (place, vertex) in (0_u32..).zip(&places) {
            place_of[vertex.0 as usize] = place;
        }
        let rings = Rings::new(grid, tie);
        let mut gather = Self {
            grid,
            side,
            positions: rings.positions(),
            rings,
            places,
            place_of,
            left: Vec::new(),
        };
        gather.left = vec![0; gather.lines(gather.first()) * gather.places.len()];
        gather
    }

    /// The dimension along which each stream is on its own.
    fn first(&self) -> usize {
        match self.side {
            Side::From => 0,
            Side::To => self.grid.dimensions().len() - 1,
        }
    }

    /// The dimension that follows.
    fn next(&self, d: usize) -> Option<usize> {
        match self.side {
            Side::From => Some(d + 1).filter(|&d| d < self.grid.dimensions().len()),
            Side::To => d.checked_sub(1),
        }
    }

    /// How many coordinates of clients are left behind this dimension.
    fn lines(&self, d: usize) -> usize {
        let stride = self.grid.stride(d);
        match self.side {
            Side::From => stride as usize,
            Side::To => (self.grid.vertices() / stride) as usize / self.size(d),
        }
    }

    fn size(&self, d: usize) -> usize {
        usize::from(self.grid.dimensions()[d].size)
    }

    /// Adds a stream between a place of clients and a router.
    pub(super) fn add(&mut self, client: Vertex, router: Vertex, parts: u64) {
        let d = self.first();
        // Clients are below 2^24 and parts of a unit below 2^32.
        let units = parts as i64;
        let stride = self.grid.stride(d);
        let (here, there) = (self.positions.of(client)[d], self.positions.of(router)[d]);
        let start = client.0 - u32::from(here) * stride;
        let (ends, line) = match self.side {
            // The first dimension has the longest stride: what is left is where the ring begins.
            Side::From => ((here, there), start),
            Side::To => (
                (there, here),
                start / u32::from(self.grid.dimensions()[d].size),
            ),
        };
        self.rings.add_along(d, start, ends, units);
        let place = self.place_of[router.0 as usize] as usize;
        self.left[line as usize * self.places.len() + place] += units;
    }

    /// Carries all streams to their ends.
    pub(super) fn into_rings(mut self) -> Rings<'a> {
        let mut d = self.first();
        while let Some(next) = self.next(d) {
            d = next;
            let left = std::mem::take(&mut self.left);
            self.left = vec![0; self.lines(d) * self.places.len()];
            let ends: Vec<(u32, u16)> = self.places.iter().map(|&v| self.end(v, d)).collect();
            for (line, units) in left.chunks_exact(self.places.len()).enumerate() {
                self.carry(d, line, units, &ends);
            }
        }
        self.rings
    }

    /// Of a router's vertex, the part of a ring's beginning that it decides about, and its position.
    fn end(&self, router: Vertex, d: usize) -> (u32, u16) {
        let (stride, size) = (self.grid.stride(d), self.size(d) as u32);
        let part = match self.side {
            Side::From => router.0 / (stride * size) * (stride * size),
            Side::To => router.0 % stride,
        };
        (part, self.positions.of(router)[d])
    }

    /// Adds what is left of the streams between the clients of a line and all places along a
    /// dimension.
    fn carry(&mut self, d: usize, line: usize, units: &[i64], ends: &[(u32, u16)]) {
        let (stride, size) = (self.grid.stride(d) as usize, self.size(d));
        // Positions fit 16 bits and vertices 32.
        let (here, rest, start) = match self.side {
            Side::From => (line / stride, line % stride, line % stride),
            Side::To => (line % size, line / size, line / size * size * stride),
        };
        let (here, start) = (here as u16, start as u32);
        let first = rest * self.places.len();
        let places = units.iter().zip(ends).enumerate();
        for (place, (&units, &(part, there))) in places.filter(|(_, (units, _))| **units != 0) {
            let ends = match self.side {
                Side::From => (here, there),
                Side::To => (there, here),
            };
            self.rings.add_along(d, start + part, ends, units);
            self.left[first + place] += units;
        }
    }
}
