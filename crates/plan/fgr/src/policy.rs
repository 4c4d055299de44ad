//! The policies that assign routers, and the options of all of them.

use std::collections::BTreeSet;

use crate::machine::{Group, Machine, Role};
use crate::topology::Fabric;

/// The measure of a path's length.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Metric {
    /// Hops, each weighted with the cost of its dimension or level.
    #[default]
    Cost,
    /// Number of hops.
    Hops,
}

/// Which of several equally near modules is the primary under [`Policy::Strict`].
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum TieRule {
    /// The first module in order, as in production.
    #[default]
    Index,
    /// The module with the lower cost in the remaining dimensions, then the first in order.
    Rest,
    /// Each tied position of the second dimension goes to the tied module that has won the fewest
    /// ties so far.
    Balance,
}

/// How [`Policy::Slices`] divides a line of clients among the modules of its sub-group.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Cut {
    /// No module serves more than the cap, and each line is cut at the lowest cost.
    Cost {
        /// Most of a line that one module serves, in per cent.
        cap: u32,
        /// Consecutive positions of a line that stay together. Longer runs give fewer route tables.
        run: u16,
    },
    /// Each position goes to the nearest module along the line.
    Near,
    /// Modules take turns, position by position.
    Turns,
}

/// How routers are assigned to clients.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Policy {
    /// Algorithm 1 as printed. Its comparison never updates the shortest distance, so the last
    /// module always wins. Without `wrap` the plain equalities are also as printed: some planes
    /// match nothing and get no routers. Shows the cost of these errors; not for production.
    Printed {
        /// Whether windows wrap round the torus.
        wrap: bool,
    },
    /// Algorithm 1 of the published description, with its windows corrected.
    Strict {
        /// The rule for ties.
        tie: TieRule,
    },
    /// The nearest router of each net; of equally near ones, the lower slot.
    Nearest {
        /// The measure of distance.
        by: Metric,
    },
    /// For each net, the assignment with the lowest total distance in which router loads differ by
    /// at most one client. If some routers serve several nets, the loads over all nets are balanced.
    Balanced {
        /// The measure of distance.
        by: Metric,
    },
    /// Like `Balanced`, but no router serves more than `side` clients on either side of it in the
    /// first dimension. The limit also applies to the load of the links by which routers send.
    Sided {
        /// The measure of distance.
        by: Metric,
        /// Most clients on either side of a router.
        side: u32,
    },
    /// For each net and each block of consecutive clients, the assignment with the lowest cost in
    /// which no router serves more of the block than the efficiency allows. A job on neighbouring
    /// nodes can then use that share of all routers' bandwidth.
    Spread {
        /// Number of consecutive clients in a block.
        block: u32,
        /// Least share of the bandwidth of all routers of a net that a block can use, in per cent.
        efficiency: u32,
    },
    /// The strict rule, with lines of clients along the last dimension cut into slices, so that a
    /// job on neighbouring nodes uses more routers.
    Slices {
        /// Where lines are cut.
        cut: Cut,
    },
    /// Router loads that differ by at most one client, as with `balanced` by cost; then exchanges
    /// of clients between routers until no link carries more than a limit. Without limits, the
    /// lowest loads in both directions that exchanges reach.
    Cool {
        /// Most units per GB/s on the hottest link when clients write; 0 for no limit.
        write: u32,
        /// Most units per GB/s on the hottest link when clients read; 0 for no limit.
        read: u32,
    },
    /// No fine-grained routing: all routers of the net have the same priority, and LNet takes them
    /// in turn, message by message. All are primaries, and there are no backups.
    Flat,
}

impl Policy {
    /// `strict` as used in production.
    pub const STRICT: Self = Self::Strict {
        tie: TieRule::Index,
    };

    /// `spread` with parameters that more than double what a compact job on 1,008 nodes of Titan
    /// can use.
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

    /// Policies in order, from short paths to many routers for jobs on neighbouring nodes.
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

    /// Returns [`Self::FRONT`] for a machine. On a torus or mesh it adds `balanced` with at most 48
    /// per cent of a router's clients on either side of it: equal loads with cooler reads. On another
    /// fabric the front is `nearest`, `balanced` and `spread`.
    #[must_use]
    pub fn front(machine: &Machine) -> Vec<Self> {
        let mut front = Self::FRONT.to_vec();
        front.retain(|policy| policy.suits(&machine.fabric));
        if front.is_empty() {
            let by = Metric::Cost;
            return vec![Self::Nearest { by }, Self::Balanced { by }, Self::SPREAD];
        }
        let routers = machine
            .data_nets()
            .map(|net| machine.nets[net].routers.len());
        if let (Fabric::Grid(..), Some(routers)) = (&machine.fabric, routers.min()) {
            // The number of clients is below 2^24.
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

    /// Returns the default policy of a machine: `strict` if its groups have windows on a torus or
    /// mesh; otherwise `balanced`, or `nearest` if `balanced` would take long.
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

    /// Returns whether the policy can plan machines of this fabric: policies of windows, and limits on
    /// the sides of a router, need a torus or mesh.
    #[must_use]
    pub const fn suits(self, fabric: &Fabric) -> bool {
        match self {
            Self::Printed { .. }
            | Self::Strict { .. }
            | Self::Sided { .. }
            | Self::Slices { .. } => {
                matches!(fabric, Fabric::Grid(..))
            }
            _ => true,
        }
    }

    /// The name with the parameters, as on the command line.
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

/// Most pairs of clients and routers of one net whose exact optimum takes about a second.
const QUICK_PAIRS: usize = 1 << 21;

/// What a backup must not share with the primary or another backup.
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

/// Options of all policies.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Options {
    /// Number of backups besides the primary.
    pub backups: u8,
    /// What backups must not share.
    pub disjoint: Disjoint,
    /// Indices of routers that must not be used.
    pub dead: BTreeSet<u16>,
}

impl Default for Options {
    /// Two backups on different blades, and no excluded routers.
    fn default() -> Self {
        Self {
            backups: 2,
            disjoint: Disjoint::default(),
            dead: BTreeSet::new(),
        }
    }
}
