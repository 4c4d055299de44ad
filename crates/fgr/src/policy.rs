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

/// How [`Policy::Slices`] shares a line of clients among the modules of its sub-group.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Cut {
    /// No module serves more than the cap; each line is cut where it costs least.
    Cost {
        /// Per cent of a line that one module serves at most.
        cap: u32,
        /// Consecutive positions of a line that are not cut; longer runs make fewer route tables.
        run: u16,
    },
    /// The nearest module along the line.
    Near,
    /// Modules in turn, position by position.
    Turns,
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
    /// As `Balanced`, and no router serves more than `side` clients on either side of it in the first dimension. The
    /// limit also bounds the load of the links by which routers send.
    Sided {
        /// What is summed up.
        by: Metric,
        /// Clients on either side of a router at most.
        side: u32,
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
    /// The strict rule with lines of clients along the last dimension cut into slices, so that a job
    /// of neighbours finds more routers.
    Slices {
        /// Where lines are cut.
        cut: Cut,
    },
    /// Router loads that differ by at most one client, as under `balanced` by cost, and then clients
    /// exchanged between routers until no link carries more than a limit. With no limit at all, as
    /// little as exchanges reach in both directions.
    Cool {
        /// Units per GB/s that the hottest link may have when clients write; 0 for any.
        write: u32,
        /// The same when they read.
        read: u32,
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
        Self::Slices {
            cut: Cut::Cost { cap: 50, run: 1 },
        },
        Self::Cool { write: 0, read: 0 },
        Self::Nearest { by: Metric::Cost },
        Self::Balanced { by: Metric::Cost },
        Self::SPREAD,
        Self::Printed { wrap: true },
        Self::Flat,
    ];

    /// Policies from short paths to jobs of neighbours that find many routers.
    pub const FRONT: [Self; 10] = [
        Self::STRICT,
        Self::slices(84, 4),
        Self::slices(67, 4),
        Self::slices(50, 1),
        Self::slices(50, 4),
        Self::slices(42, 2),
        Self::slices(34, 2),
        Self::slices(34, 8),
        Self::Slices { cut: Cut::Near },
        Self::Slices { cut: Cut::Turns },
    ];

    /// [`Self::FRONT`] for a machine, and on a torus or mesh `balanced` with 48 per cent of a router's clients on either
    /// side of it at most: equal loads with cooler reads.
    #[must_use]
    pub fn front(machine: &Machine) -> Vec<Self> {
        let mut front = Self::FRONT.to_vec();
        let routers = machine
            .data_nets()
            .map(|net| machine.nets[net].routers.len());
        if let (Fabric::Grid(..), Some(routers)) = (&machine.fabric, routers.min()) {
            // Clients are below 2^24.
            let side = machine.clients.len() * 48 / (100 * routers.max(1));
            let (by, side) = (Metric::Cost, side as u32);
            front.push(Self::Sided { by, side });
        }
        front
    }

    const fn slices(cap: u32, run: u16) -> Self {
        let cut = Cut::Cost { cap, run };
        Self::Slices { cut }
    }

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

    /// The name with what the policy is asked for, as on the command line.
    #[must_use]
    pub fn label(self) -> String {
        let name = self.name();
        match self {
            Self::Strict { tie: TieRule::Rest } => format!("{name} --tie z"),
            Self::Strict {
                tie: TieRule::Balance,
            } => format!("{name} --tie balance"),
            Self::Nearest { by: Metric::Hops } | Self::Balanced { by: Metric::Hops } => {
                format!("{name} --by hops")
            }
            Self::Sided { by, side } => match by {
                Metric::Cost => format!("{name} --side {side}"),
                Metric::Hops => format!("{name} --by hops --side {side}"),
            },
            Self::Spread { block, efficiency } => {
                format!("{name} --block {block} --efficiency {efficiency}")
            }
            Self::Slices { cut } => match cut {
                Cut::Cost { cap, run } => format!("{name} --cap {cap} --run {run}"),
                Cut::Near => format!("{name} --cut near"),
                Cut::Turns => format!("{name} --cut turns"),
            },
            Self::Cool { write, read } if write == read => format!("{name} --limit {write}"),
            Self::Cool { write, read } => format!("{name} --limit {write} --limit-read {read}"),
            _ => name.to_owned(),
        }
    }

    /// The policy's name on the command line and in reports.
    #[must_use]
    pub fn name(self) -> &'static str {
        match self {
            Self::Printed { .. } => "printed",
            Self::Strict { .. } => "strict",
            Self::Nearest { .. } => "nearest",
            Self::Balanced { .. } | Self::Sided { .. } => "balanced",
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
