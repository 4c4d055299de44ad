//! Titan's Gemini torus: names, coordinates and NIDs.
//!
//! ```text
//!   c{column}-{row}c{cage}s{slot}n{node}       25 columns × 8 rows × 3 cages × 8 slots × 4 nodes
//!        │      │      └──┬───┘      │
//!        X      Y ◀───────┼──────────┘  nodes 0, 1 on the lower Gemini, 2, 3 on the next one
//!                         Z
//! ```
//!
//! The torus is folded, so that no cable is long: X runs out over the odd columns and back over the
//! even ones; rows fold in the same way. NIDs run along Z, then Y, then X downwards, and reverse
//! direction at each turn.

use std::fmt;
use std::str::FromStr;

use thiserror::Error;

use crate::topology::{Dimension, Grid, TopologyError};

/// Number of positions along X, Y and Z.
pub const SIZE: [u16; 3] = [25, 16, 24];

/// Number of nodes, two per Gemini.
pub const NODES: u32 = 19_200;

/// Cabinet row of each pair of Y planes.
const ROW_OF_PAIR: [u16; 8] = [0, 2, 4, 6, 7, 5, 3, 1];

/// Pair of Y planes of each cabinet row.
const PAIR_OF_ROW: [u16; 8] = [0, 7, 1, 6, 2, 5, 3, 4];

/// Length in bytes of the longest name: `c24-7c2s7n3`.
const NAME_MAX: usize = 11;

/// The name of a node.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct NodeName {
    column: u16,
    row: u16,
    cage: u16,
    slot: u16,
    node: u16,
}

/// A text is not the name of a node of Titan.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
#[error("'{0}' is not a node of Titan; names go from c0-0c0s0n0 to c24-7c2s7n3")]
pub struct ParseNodeNameError(String);

impl NodeName {
    /// Coordinates X, Y and Z of the node's Gemini.
    #[must_use]
    pub fn coordinates(self) -> [u16; 3] {
        let pair = PAIR_OF_ROW[usize::from(self.row)];
        let x = match self.column {
            0 => 0,
            odd if odd % 2 == 1 => odd.div_ceil(2),
            even => 25 - even / 2,
        };
        let cage = if pair.is_multiple_of(2) {
            self.cage
        } else {
            2 - self.cage
        };
        let slot = if cage == 1 { 7 - self.slot } else { self.slot };
        [x, 2 * pair + self.node / 2, 8 * cage + slot]
    }

    /// The number in the node's NID.
    #[must_use]
    pub fn nid(self) -> u32 {
        let [x, y, z] = self.coordinates().map(u32::from);
        let plane = (25 - x) % 25;
        let line = 16 * plane + if plane % 2 == 0 { y } else { 15 - y };
        let place = 24 * line + if line % 2 == 0 { z } else { 23 - z };
        2 * place + u32::from(self.node % 2)
    }

    /// Returns the node with this NID, or `None` if `nid` is [`NODES`] or more.
    #[must_use]
    pub fn from_nid(nid: u32) -> Option<Self> {
        if nid >= NODES {
            return None;
        }
        let (place, odd) = (nid / 2, (nid % 2) as u16);
        let (line, z) = (place / 24, place % 24);
        let z = if line % 2 == 0 { z } else { 23 - z };
        let (plane, y) = (line / 16, line % 16);
        let y = if plane % 2 == 0 { y } else { 15 - y };
        // All three are below 25.
        Self::at([((25 - plane) % 25) as u16, y as u16, z as u16], odd)
    }

    /// Returns node 0 or 1 of a Gemini, or `None` outside the torus.
    #[must_use]
    pub fn at([x, y, z]: [u16; 3], odd: u16) -> Option<Self> {
        if x >= SIZE[0] || y >= SIZE[1] || z >= SIZE[2] || odd > 1 {
            return None;
        }
        let pair = y / 2;
        let (cage, slot) = (z / 8, z % 8);
        Some(Self {
            column: match x {
                0 => 0,
                out if out <= 12 => 2 * out - 1,
                back => 2 * (25 - back),
            },
            row: ROW_OF_PAIR[usize::from(pair)],
            cage: if pair % 2 == 0 { cage } else { 2 - cage },
            slot: if cage == 1 { 7 - slot } else { slot },
            node: 2 * (y % 2) + odd,
        })
    }

    /// Index of the node among the four nodes of its blade.
    #[must_use]
    pub fn node(self) -> u16 {
        self.node
    }

    /// Name of the node's blade: `c7-2c2s0`.
    #[must_use]
    pub fn blade(self) -> String {
        format!("{}c{}s{}", self.cabinet(), self.cage, self.slot)
    }

    /// Name of the node's cabinet: `c7-2`.
    #[must_use]
    pub fn cabinet(self) -> String {
        format!("c{}-{}", self.column, self.row)
    }

    /// Formats the name. Only the column may have two digits.
    fn format_into(self, bytes: &mut [u8; NAME_MAX]) -> &str {
        // Each of these numbers is below 10.
        let digit = |number: u16| b'0' + number as u8;
        let Self {
            row,
            cage,
            slot,
            node,
            ..
        } = self;
        let (tens, ones) = (digit(self.column / 10), digit(self.column % 10));
        let (row, cage, slot, node) = (digit(row), digit(cage), digit(slot), digit(node));
        *bytes = [
            b'c', tens, ones, b'-', row, b'c', cage, b's', slot, b'n', node,
        ];
        let mut first = 0;
        if self.column < 10 {
            bytes[1] = b'c';
            first = 1;
        }
        // The name is ASCII.
        std::str::from_utf8(&bytes[first..]).unwrap_or_default()
    }
}

impl fmt::Display for NodeName {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.format_into(&mut [0; NAME_MAX]))
    }
}

impl From<NodeName> for Box<str> {
    fn from(name: NodeName) -> Self {
        name.format_into(&mut [0; NAME_MAX]).into()
    }
}

impl FromStr for NodeName {
    type Err = ParseNodeNameError;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        parse_name(text).ok_or_else(|| ParseNodeNameError(text.chars().take(40).collect()))
    }
}

fn parse_name(text: &str) -> Option<NodeName> {
    let mut rest = text.as_bytes();
    let name = NodeName {
        column: number(&mut rest, b'c', 25)?,
        row: number(&mut rest, b'-', 8)?,
        cage: number(&mut rest, b'c', 3)?,
        slot: number(&mut rest, b's', 8)?,
        node: number(&mut rest, b'n', 4)?,
    };
    rest.is_empty().then_some(name)
}

/// Parses a marker byte and the number of one or two digits behind it. The number must be below
/// `limit`.
fn number(rest: &mut &[u8], mark: u8, limit: u16) -> Option<u16> {
    let behind = rest.strip_prefix(&[mark])?;
    let digits = behind
        .iter()
        .take(2)
        .take_while(|byte| byte.is_ascii_digit());
    let count = digits.clone().count();
    let number = digits.fold(0, |number, digit| 10 * number + u16::from(digit - b'0'));
    *rest = &behind[count..];
    (count > 0 && number < limit).then_some(number)
}

/// Titan's torus with the planner's costs 4, 8, 1 and the raw capacities of its links in GB/s.
///
/// # Errors
///
/// None: the sizes and capacities are valid constants. The return type is that of [`Grid::new`].
pub fn grid() -> Result<Grid, TopologyError> {
    // A cabinet holds eight slots per cage: every eighth step of Z leaves a cage. This is inferred
    // from the cabinets.
    let mut z = vec![15.0; 7];
    z.push(9.375);
    let capacities = [vec![9.375], vec![9.375, 4.6875], z];
    let dimensions = ["x", "y", "z"].into_iter().zip(SIZE).zip([4, 8, 1]);
    let dimensions = dimensions.zip(capacities);
    Grid::new(
        dimensions
            .map(|(((name, size), cost), capacity)| Dimension {
                name: name.to_owned(),
                size,
                wrap: true,
                cost,
                capacity,
            })
            .collect(),
    )
}
