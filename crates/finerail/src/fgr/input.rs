//! The policy and the failures: arguments shared by all commands of `finerail fgr` that plan.

use std::collections::BTreeSet;
use std::io::{self, IsTerminal, Write};
use std::path::Path;
use std::time::Duration;

use anyhow::{Context, ensure};
use clap::ValueEnum;
use fgr::{Cut, Disjoint, Machine, Metric, Options, Plan, Policy, TieRule, failed};
use indicatif::{ProgressBar, ProgressStyle};

use crate::machine::{MachineArgs, read};

/// Returns a list as it was given; for `@FILE`, returns the lines of that file without comments, joined by
/// commas.
pub(super) fn list_or_file(list: &str) -> anyhow::Result<String> {
    let Some(path) = list.strip_prefix('@') else {
        return Ok(list.to_owned());
    };
    let text = read(Path::new(path))?;
    let lines = text
        .lines()
        .map(|line| line.split('#').next().unwrap_or_default().trim());
    let lines: Vec<&str> = lines.filter(|line| !line.is_empty()).collect();
    Ok(lines.join(","))
}

/// Policies by name.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(crate) enum PolicyName {
    /// Algorithm 1, corrected
    Strict,
    /// The nearest router of each net
    Nearest,
    /// The shortest total of all paths with equal loads
    Balanced,
    /// Spreads the routers of a block of neighbours over the net
    Spread,
    /// Algorithm 1, with lines of clients shared among its modules, for jobs of neighbours
    Slices,
    /// Equal loads, and the lowest possible load of the hottest link
    Cool,
    /// Algorithm 1 as printed, to show the cost of its error
    Printed,
    /// All routers of a net in turn: no fine-grained routing
    Flat,
}

#[derive(Clone, Copy, ValueEnum)]
enum By {
    /// Weighted hops
    Cost,
    /// Hops
    Hops,
}

#[derive(Clone, Copy, ValueEnum)]
enum TieName {
    /// The first in order
    Index,
    /// The nearer one in the other dimensions
    Z,
    /// Each in turn
    Balance,
}

#[derive(Clone, Copy, ValueEnum)]
enum DisjointName {
    Node,
    Blade,
    Cabinet,
    SubGroup,
}

#[derive(Clone, Copy, ValueEnum)]
enum CutName {
    /// At the positions with the lowest cost under a cap
    Cost,
    /// Between the nearest modules along the line
    Near,
    /// At each position: modules in turn
    Turns,
}

/// Rules that hold for every policy.
#[derive(clap::Args, Clone)]
pub(crate) struct RuleArgs {
    /// Number of backups in addition to the primary
    #[arg(long, value_name = "N", default_value_t = 2, value_parser = clap::value_parser!(u8).range(0..=15))]
    backups: u8,
    /// What a backup must not share with the primary or another backup
    #[arg(long, value_enum, value_name = "WHAT", default_value_t = DisjointName::Blade)]
    disjoint: DisjointName,
    /// Under strict: the module that is the primary among equally near ones [default: index]
    #[arg(long, value_enum, value_name = "RULE")]
    tie: Option<TieName>,
    /// Under nearest and balanced: the measure of distance [default: cost]
    #[arg(long, value_enum, value_name = "METRIC")]
    by: Option<By>,
    /// Under balanced, on a torus or mesh: the limit of clients that a router serves on each side of it in the first
    /// dimension; it limits the load of the hottest link when clients read
    #[arg(long, value_name = "CLIENTS")]
    side: Option<u32>,
    /// Under spread: the number of consecutive clients of a block [default: 126]
    #[arg(long, value_name = "CLIENTS")]
    block: Option<u32>,
    /// Under spread: per cent of all routers' bandwidth that a block can use [default: 50]
    #[arg(long, value_name = "PERCENT")]
    efficiency: Option<u32>,
    /// Under slices: the positions at which lines of clients are cut [default: cost]
    #[arg(long, value_enum, value_name = "WHERE")]
    cut: Option<CutName>,
    /// Under slices by cost: the limit of per cent of a line of clients that one module serves [default: 50]
    #[arg(long, value_name = "PERCENT", value_parser = clap::value_parser!(u32).range(1..=100))]
    cap: Option<u32>,
    /// Under slices by cost: positions of a line that are not cut; longer runs make fewer route tables [default: 1]
    #[arg(long, value_name = "POSITIONS", value_parser = clap::value_parser!(u16).range(1..))]
    run: Option<u16>,
    /// Under cool: the limit of the load of the hottest link, in units per GB/s; 0: the lowest possible [default: 0]
    #[arg(long, value_name = "UNITS")]
    limit: Option<u32>,
    /// Under cool: the same limit for reads; --limit is then the limit for writes; 0: no limit
    #[arg(long, value_name = "UNITS")]
    limit_read: Option<u32>,
}

impl RuleArgs {
    /// Returns the library's options. Plans avoid the routers in `dead`.
    pub(crate) fn options(&self, dead: BTreeSet<u16>) -> Options {
        Options {
            backups: self.backups,
            disjoint: match self.disjoint {
                DisjointName::Node => Disjoint::Node,
                DisjointName::Blade => Disjoint::Blade,
                DisjointName::Cabinet => Disjoint::Cabinet,
                DisjointName::SubGroup => Disjoint::SubGroup,
            },
            dead,
        }
    }

    /// Returns the policy that suits the machine, with these parameters.
    ///
    /// # Errors
    ///
    /// The errors of [`RuleArgs::policy`].
    fn suited(&self, machine: &Machine) -> anyhow::Result<Policy> {
        self.policy(match Policy::suited(machine) {
            Policy::Balanced { .. } => PolicyName::Balanced,
            Policy::Nearest { .. } => PolicyName::Nearest,
            _ => PolicyName::Strict,
        })
    }

    /// Returns a policy with these parameters.
    ///
    /// # Errors
    /// A given parameter does not belong to this policy.
    /// A parameter that this policy does not have.
    pub(crate) fn policy(&self, name: PolicyName) -> anyhow::Result<Policy> {
        self.check(&[name])?;
        Ok(self.with_parameters(name))
    }

    /// Returns policies with these parameters.
    ///
    /// # Errors
    ///
    /// A given parameter belongs to none of these policies.
    pub(crate) fn policies(&self, names: &[PolicyName]) -> anyhow::Result<Vec<Policy>> {
        self.check(names)?;
        let policies = names.iter().map(|&name| self.with_parameters(name));
        Ok(policies.collect())
    }

    /// Rejects a parameter that none of these policies has, because it would have no effect.
    fn check(&self, names: &[PolicyName]) -> anyhow::Result<()> {
        use PolicyName::{Balanced, Cool, Nearest, Slices, Spread, Strict};
        let given: [(&str, bool, &[PolicyName]); 10] = [
            ("--tie", self.tie.is_some(), &[Strict]),
            ("--by", self.by.is_some(), &[Nearest, Balanced]),
            ("--side", self.side.is_some(), &[Balanced]),
            ("--block", self.block.is_some(), &[Spread]),
            ("--efficiency", self.efficiency.is_some(), &[Spread]),
            ("--cut", self.cut.is_some(), &[Slices]),
            ("--cap", self.cap.is_some(), &[Slices]),
            ("--run", self.run.is_some(), &[Slices]),
            ("--limit", self.limit.is_some(), &[Cool]),
            ("--limit-read", self.limit_read.is_some(), &[Cool]),
        ];
        for (option, is_given, policies) in given {
            let has = |name| policies.contains(name);
            ensure!(
                !is_given || names.iter().any(has),
                "{option} is a parameter of the policy {}, not of {}",
                listed(policies, "or"),
                listed(names, "and")
            );
        }
        let is_by_cost = self.cut.is_none_or(|cut| matches!(cut, CutName::Cost));
        for (option, is_given) in [("--cap", self.cap.is_some()), ("--run", self.run.is_some())] {
            ensure!(
                is_by_cost || !is_given,
                "{option} is a parameter of the policy slices with --cut cost, not with another cut"
            );
        }
        Ok(())
    }

    /// Returns a policy with those of these parameters that it has.
    pub(super) fn with_parameters(&self, name: PolicyName) -> Policy {
        let by = match self.by.unwrap_or(By::Cost) {
            By::Cost => Metric::Cost,
            By::Hops => Metric::Hops,
        };
        match name {
            PolicyName::Strict => Policy::Strict {
                tie: match self.tie.unwrap_or(TieName::Index) {
                    TieName::Index => TieRule::Index,
                    TieName::Z => TieRule::Rest,
                    TieName::Balance => TieRule::Balance,
                },
            },
            PolicyName::Nearest => Policy::Nearest { by },
            PolicyName::Balanced => match self.side {
                Some(side) => Policy::Sided { by, side },
                None => Policy::Balanced { by },
            },
            PolicyName::Spread => Policy::Spread {
                block: self.block.unwrap_or(126),
                efficiency: self.efficiency.unwrap_or(50),
            },
            PolicyName::Slices => Policy::Slices {
                cut: match self.cut.unwrap_or(CutName::Cost) {
                    CutName::Cost => Cut::Cost {
                        cap: self.cap.unwrap_or(50),
                        run: self.run.unwrap_or(1),
                    },
                    CutName::Near => Cut::Near,
                    CutName::Turns => Cut::Turns,
                },
            },
            PolicyName::Cool => {
                let write = self.limit.unwrap_or(0);
                Policy::Cool {
                    write,
                    read: self.limit_read.unwrap_or(write),
                }
            }
            PolicyName::Printed => Policy::Printed { wrap: true },
            PolicyName::Flat => Policy::Flat,
        }
    }
}

/// Shows on a terminal that work goes on, and for how long.
pub(super) fn spinner(what: &str) -> ProgressBar {
    if !io::stderr().is_terminal() {
        return ProgressBar::hidden();
    }
    let bar = ProgressBar::new_spinner().with_message(what.to_owned());
    if let Ok(style) = ProgressStyle::with_template("{spinner} {msg} {elapsed}") {
        bar.set_style(style);
    }
    bar.enable_steady_tick(Duration::from_millis(100));
    bar
}

/// Joins the names of policies as in a sentence, with `last` before the last name.
fn listed(names: &[PolicyName], last: &str) -> String {
    let names = names.iter().filter_map(ValueEnum::to_possible_value);
    let names: Vec<String> = names.map(|name| name.get_name().to_owned()).collect();
    match &names[..] {
        [others @ .., name] if !others.is_empty() => {
            format!("{} {last} {name}", others.join(", "))
        }
        names => names.concat(),
    }
}

/// The parts that have failed.
#[derive(clap::Args, Clone)]
pub(crate) struct FailureArgs {
    /// Failed parts: node numbers, names, NIDs, host lists, blades, cabinets, nets; or @FILE with such
    /// a list. The plan avoids them, and those that the machine file marks as down
    #[arg(long, value_name = "LIST")]
    failed: Vec<String>,
    /// Plan as if all parts that the machine file marks as down were up
    #[arg(long, conflicts_with = "failed")]
    whole: bool,
}

impl FailureArgs {
    /// Returns the routers that a plan avoids, by index, and prints their number to standard error.
    ///
    /// # Errors
    ///
    /// A list names something that the machine does not have.
    pub(crate) fn dead(&self, machine: &Machine) -> anyhow::Result<BTreeSet<u16>> {
        if self.whole {
            return Ok(BTreeSet::new());
        }
        let mut dead = machine.down.clone();
        for list in &self.failed {
            let list = list_or_file(list)?;
            let mut named = failed(machine, &list).with_context(|| "--failed".to_owned())?;
            dead.append(&mut named.routers);
            if !named.clients.is_empty() {
                let count = named.clients.len();
                writeln!(
                    io::stderr(),
                    "note: {count} of the failed nodes are clients; they keep their routes"
                )?;
            }
        }
        if !dead.is_empty() {
            let count = machine.count_nodes(dead.iter().copied());
            let all = machine.router_nodes();
            writeln!(
                io::stderr(),
                "note: planned around {count} of {all} routers"
            )?;
        }
        Ok(dead)
    }
}

/// The machine and the policy.
#[derive(clap::Args, Clone)]
pub(crate) struct PlanningArgs {
    #[command(flatten)]
    pub(crate) machine: MachineArgs,
    /// The policy that chooses the routers [default: strict on a torus or mesh whose groups have
    /// sub-groups, otherwise balanced, or nearest on a large machine]
    #[arg(long, value_enum, value_name = "POLICY")]
    policy: Option<PolicyName>,
    #[command(flatten)]
    pub(crate) rules: RuleArgs,
    #[command(flatten)]
    failures: FailureArgs,
}

impl PlanningArgs {
    /// Reads the machine and makes the plan. Prints to standard error what is not as intended.
    pub(crate) fn plan(&self) -> anyhow::Result<(Machine, Plan)> {
        self.plan_if(|_| Ok(()))
    }

    /// Does the same as [`Self::plan`], but first calls `fits`, whose error rejects the machine, because
    /// planning a large machine takes long.
    pub(crate) fn plan_if(
        &self,
        fits: impl FnOnce(&Machine) -> anyhow::Result<()>,
    ) -> anyhow::Result<(Machine, Plan)> {
        let machine = self.machine.read()?;
        fits(&machine)?;
        let policy = match self.policy {
            Some(name) => self.rules.policy(name)?,
            None => self.rules.suited(&machine)?,
        };
        let options = self.rules.options(self.failures.dead(&machine)?);
        let bar = spinner(policy.name());
        let plan = fgr::assign(&machine, policy, &options);
        bar.finish_and_clear();
        let plan = plan?;
        let mut doubts = io::stderr().lock();
        for warning in &plan.warnings {
            writeln!(doubts, "warning: {warning}")?;
        }
        for found in fgr::rates::router_rates(&machine, &plan) {
            writeln!(doubts, "warning: {found}")?;
        }
        Ok((machine, plan))
    }
}
