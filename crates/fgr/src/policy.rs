//! The policies by which routers are assigned, and what is common to all of them.

use std::collections::BTreeSet;

use topology::Fabric;

use crate::machine::{Group, Machine, Role};

/// What makes one path shorter than another.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Metric {
    /// Hops weighted with the cost of their dimension or level.
    #[default]
    Cost,
    /// Hops.
    Hops,
}

/// Which of several equally near modules is the primary, under [`Policy::Strict`].
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum TieRule {
    /// The first in order, as in production.
    #[default]
    Index,
    /// The one with the lower cost in the remaining dimensions, then the first.
    Rest,
    /// Each tied position of the second dimension goes to the tied module that has been given the
    /// fewest so far.
    Balance,
}

/// How routers are assigned to clients.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Policy {
    /// Algorithm 1 as printed, whose comparison never updates the shortest distance: the last module
    /// always wins. Without `wrap` also its plain equalities, by which some planes match nothing and
    /// get no routers. Shows what the slips cost; not for use.
    Printed {
        /// Whether windows go round the torus.
        wrap: bool,
    },
    /// Algorithm 1 as corrected in section 2.3.
    Strict {
        /// What happens in a tie.
        tie: TieRule,
    },
    /// Each net's nearest router; equal ones in order of slot.
    Nearest {
        /// What is near.
        by: Metric,
    },
    /// For each net the assignment of least total length in which router loads differ by at most
    /// one client.
    Balanced {
        /// What is summed up.
        by: Metric,
    },
    /// For each net and each block of consecutive clients the assignment of least cost in which no
    /// router serves more of the block than the efficiency allows, so that a job of neighbours finds
    /// that share of all routers' bandwidth.
    Spread {
        /// Consecutive clients of a block.
        block: u32,
        /// Per cent of the bandwidth of all routers of a net that a block can use at least.
        efficiency: u32,
    },
    /// The strict rule with lines of clients along the last dimension cut into slices: no module
    /// serves more of a line than the cap, so that a job of neighbours finds more routers. Each line
    /// is cut where it costs least.
    Slices {
        /// Per cent of a line that one module serves at most.
        cap: u32,
        /// Consecutive positions of a line that are not cut; longer runs make fewer route tables.
        run: u16,
    },
    /// Router loads that differ by at most one client, as under `balanced` by cost, and then clients
    /// exchanged between routers until no link carries more than a limit, in either direction.
    Cool {
        /// Units per GB/s that the hottest link may have; 0 for as little as exchanges reach.
        limit: u32,
    },
    /// No fine-grained routing: every router of the net with the same priority, so that LNet takes
    /// them in turn, message by message. All are primaries; there are no backups.
    Flat,
}

impl Policy {
    /// `strict` as it is in production.
    pub const STRICT: Self = Self::Strict {
        tie: TieRule::Index,
    };

    /// `spread` that more than doubles what a compact job of 1,008 Titan nodes can use.
    pub const SPREAD: Self = Self::Spread {
        block: 126,
        efficiency: 50,
    };

    /// Each policy once, with its default parameters.
    pub const ALL: [Self; 8] = [
        Self::STRICT,
        Self::Slices { cap: 50, run: 1 },
        Self::Cool { limit: 0 },
        Self::Nearest { by: Metric::Cost },
        Self::Balanced { by: Metric::Cost },
        Self::SPREAD,
        Self::Printed { wrap: true },
        Self::Flat,
    ];

    /// The policy that suits a machine when none is asked for: `strict` where its groups are cut into
    /// windows of a torus or mesh; otherwise `balanced`, or `nearest` where that would take long.
    #[must_use]
    pub fn suited(machine: &Machine) -> Self {
        let is_cut = |group: &Group| group.role == Role::Data && group.sub_groups.len() > 1;
        let by = Metric::Cost;
        let routers = machine.nets.iter().map(|net| net.routers.len()).max();
        let pairs = machine.clients.len() * routers.unwrap_or(0);
        match &machine.fabric {
            Fabric::Grid(grid, _)
                if grid.dimensions().len() > 1 && machine.groups.iter().any(is_cut) =>
            {
                Self::STRICT
            }
            _ if pairs <= QUICK_PAIRS => Self::Balanced { by },
            _ => Self::Nearest { by },
        }
    }

    /// The policy's name on the command line and in reports.
    #[must_use]
    pub fn name(self) -> &'static str {
        match self {
            Self::Printed { .. } => "printed",
            Self::Strict { .. } => "strict",
            Self::Nearest { .. } => "nearest",
            Self::Balanced { .. } => "balanced",
            Self::Spread { .. } => "spread",
            Self::Slices { .. } => "slices",
            Self::Cool { .. } => "cool",
            Self::Flat => "flat",
        }
    }
}

/// Pairs of clients and routers of one net whose exact optimum takes about a second.
const QUICK_PAIRS: usize = 1 << 21;

/// What a backup may not share with the primary or another backup.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Disjoint {
    /// The node.
    Node,
    /// The blade.
    #[default]
    Blade,
    /// The cabinet.
    Cabinet,
    /// The sub-group.
    SubGroup,
}

/// What all policies obey.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Options {
    /// Backups beside the primary.
    pub backups: u8,
    /// What they may not share.
    pub disjoint: Disjoint,
    /// Routers, by index, that must not be used.
    pub dead: BTreeSet<u16>,
}

impl Default for Options {
    /// Two backups on other blades, every router in use.
    fn default() -> Self {
        Self {
            backups: 2,
            disjoint: Disjoint::default(),
            dead: BTreeSet::new(),
        }
    }
}
