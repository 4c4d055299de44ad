//! Which machine, and by which policy: what all commands of `finerail fgr` ask for.

use std::collections::BTreeSet;
use std::fs;
use std::io::{self, Write};
use std::path::{Path, PathBuf};

use anyhow::{Context, anyhow, bail, ensure};
use clap::ValueEnum;
use fgr::{
    Cut, Disjoint, Machine, Metric, ModuleDraft, Options, Origin, PRESETS, Plan, Policy, Role,
    Synthetic, TieRule, failed, preset, read_machine, read_map, read_modules, read_node_table,
    synthetic, synthetic_metadata, titan,
};
use lnet_types::Net;
use topology::{Dimension, Grid, Tie};

/// What stands before the sizes of a machine by rule, and before the net of metadata modules by rule.
const SYNTHETIC: &str = "synthetic:";

/// What stands before the name of a preset.
const PRESET: &str = "preset:";

/// The machine.
#[derive(clap::Args, Clone)]
pub(crate) struct MachineArgs {
    /// The machine: a machine file (YAML), a map like Titan's or a table like that of xtprocadmin (both
    /// with --modules), or synthetic:25x16x24:9x3x4 for a torus with 9 groups, 3 modules a sub-group
    /// and 4 nets a group, spread by rule, or preset:frontier, preset:aurora, preset:fugaku for
    /// machines like these, whose assumptions are said with every result
    #[arg(long, value_name = "FILE")]
    pub(crate) machine: String,
    /// The router modules of a map: CSV with the columns group, subgroup, index, slot, blade, x, y0,
    /// z, and NIDs and nets of the four nodes
    #[arg(long, value_name = "FILE")]
    modules: Option<PathBuf>,
    /// Metadata modules of a map: a file like that of --modules, or synthetic:o2ib300 for two modules
    /// at made-up places with their nodes on that net
    #[arg(long, value_name = "FILE", requires = "modules")]
    metadata: Option<String>,
    /// Which way messages go that are half way round a ring of a map or synthetic machine
    #[arg(long, value_enum, value_name = "WAY", default_value_t = HalfWay::Split)]
    half_way: HalfWay,
}

#[derive(Clone, Copy, ValueEnum)]
enum HalfWay {
    /// Half of them each way
    Split,
    /// Towards higher positions
    Plus,
    /// Towards lower positions
    Minus,
}

impl From<HalfWay> for Tie {
    fn from(way: HalfWay) -> Self {
        match way {
            HalfWay::Split => Self::Split,
            HalfWay::Plus => Self::Plus,
            HalfWay::Minus => Self::Minus,
        }
    }
}

impl MachineArgs {
    /// Reads the machine and says on standard error what is doubtful in its description.
    ///
    /// # Errors
    ///
    /// Everything that is wrong with the inputs, a line each with file and line.
    pub(crate) fn read(&self) -> anyhow::Result<Machine> {
        let machine = if let Some(sizes) = self.machine.strip_prefix(SYNTHETIC) {
            self.by_rule(sizes)?
        } else if let Some(name) = self.machine.strip_prefix(PRESET) {
            by_preset(name)?
        } else {
            self.described()?
        };
        let mut doubts = io::stderr().lock();
        for warning in &machine.warnings {
            writeln!(doubts, "warning: {warning}")?;
        }
        if machine.origin != Origin::Published {
            writeln!(doubts, "note: {} is {}", machine.name, origin(&machine))?;
        }
        Ok(machine)
    }

    fn described(&self) -> anyhow::Result<Machine> {
        let text = read(Path::new(&self.machine))?;
        let Some(modules) = &self.modules else {
            if looks_like_table(&text) {
                bail!("{} is a map: say where its --modules are", self.machine);
            }
            return read_machine(&self.machine, &text).map_err(|e| all_problems(&e));
        };
        let modules_text = read(modules)?;
        let metadata = self.metadata_text()?;
        self.titan(&text, (modules, &modules_text), metadata.as_deref())
    }

    fn metadata_text(&self) -> anyhow::Result<Option<String>> {
        let file = self.metadata.as_deref();
        let file = file.filter(|name| !name.starts_with(SYNTHETIC));
        file.map(|name| read(Path::new(name))).transpose()
    }

    /// A machine named like Titan. Problems of all files are found before anything is refused.
    fn titan(
        &self,
        map: &str,
        (modules_file, modules): (&Path, &str),
        metadata: Option<&str>,
    ) -> anyhow::Result<Machine> {
        let grid = topology::titan::grid()?;
        let read_nodes = if is_node_table(map) {
            read_node_table
        } else {
            read_map
        };
        let nodes = read_nodes(&self.machine, map);
        let file = modules_file.display().to_string();
        let modules = read_modules(&file, modules, &grid, Role::Data);
        let metadata = self.metadata_modules(metadata, &grid);
        let problems = [
            nodes.as_ref().err(),
            modules.as_ref().err(),
            metadata.as_ref().err(),
        ];
        let problems: Vec<_> = problems.into_iter().flatten().map(all_problems).collect();
        let (Ok(nodes), Ok(mut modules), Ok(metadata)) = (nodes, modules, metadata) else {
            let lines: Vec<String> = problems.iter().map(ToString::to_string).collect();
            bail!("{}", lines.join("\n"));
        };
        modules.extend(metadata);
        titan(&self.machine, &nodes, modules, self.half_way.into()).map_err(|e| all_problems(&e))
    }

    fn metadata_modules(
        &self,
        text: Option<&str>,
        grid: &Grid,
    ) -> Result<Vec<ModuleDraft>, fgr::InputError> {
        let Some(name) = &self.metadata else {
            return Ok(Vec::new());
        };
        if let Some(text) = text {
            return read_modules(name, text, grid, Role::Metadata);
        }
        let net = name.strip_prefix(SYNTHETIC).unwrap_or(name);
        match net.parse::<Net>() {
            Ok(net) => synthetic_metadata(grid, net),
            // The table reader words the complaint and names the option's value.
            Err(_) => read_modules(name, net, grid, Role::Metadata),
        }
    }

    /// `25x16x24:9x3x4`: sizes, then groups, modules of a sub-group and nets of a group.
    fn by_rule(&self, sizes: &str) -> anyhow::Result<Machine> {
        let wrong = || {
            anyhow!(
                "'{}': write synthetic:XxYxZ:GROUPSxMODULESxNETS, numbers up to {}, such as \
                 synthetic:25x16x24:9x3x4",
                self.machine,
                u16::MAX
            )
        };
        let (torus, routers) = sizes.split_once(':').ok_or_else(wrong)?;
        let torus = three(torus).ok_or_else(wrong)?;
        let [groups, modules, nets] = three(routers).ok_or_else(wrong)?;
        let grid = Grid::new(dimensions(torus))?;
        let size = Synthetic {
            groups,
            modules,
            nets,
        };
        let made = synthetic(&self.machine, grid, self.half_way.into(), size);
        made.map_err(|e| all_problems(&e))
    }
}

fn by_preset(name: &str) -> anyhow::Result<Machine> {
    let known = || anyhow!("'{name}' is no preset; there are {}", PRESETS.join(", "));
    preset(name)
        .ok_or_else(known)?
        .map_err(|e| all_problems(&e))
}

fn three(text: &str) -> Option<[u16; 3]> {
    let numbers: Vec<u16> = text
        .split('x')
        .map(|word| word.parse().ok())
        .collect::<Option<_>>()?;
    numbers.try_into().ok()
}

/// Titan's weights, and links that are all alike.
fn dimensions(sizes: [u16; 3]) -> Vec<Dimension> {
    let each = ["x", "y", "z"].into_iter().zip(sizes).zip([4, 8, 1]);
    each.map(|((name, size), cost)| Dimension {
        name: name.to_owned(),
        size,
        wrap: true,
        cost,
        capacity: vec![9.375],
    })
    .collect()
}

/// Whether the first line that is no comment begins with a number or is a heading of a node table.
fn looks_like_table(text: &str) -> bool {
    let mut lines = text.lines().filter(|line| !line.trim().is_empty());
    lines.next().is_some_and(|line| {
        line.trim_start().starts_with(|c: char| c.is_ascii_digit())
            || line.split_whitespace().next() == Some("NID")
    })
}

/// Whether the second column is a number in hexadecimal.
fn is_node_table(text: &str) -> bool {
    let mut rows = text
        .lines()
        .filter(|line| line.trim_start().starts_with(|c: char| c.is_ascii_digit()));
    rows.next().is_some_and(|line| {
        let second = line.split_whitespace().nth(1);
        second.is_some_and(|word| word.starts_with("0x"))
    })
}

/// What is said of where a machine's description comes from.
pub(crate) fn origin(machine: &Machine) -> &'static str {
    match machine.origin {
        Origin::Published => "published",
        Origin::Assumed => "assumed in part",
        Origin::Synthetic => "synthetic",
    }
}

fn all_problems(error: &fgr::InputError) -> anyhow::Error {
    anyhow!("{error}")
}

/// A list as it was given, or the lines of the file that `@FILE` names, without comments.
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

/// Reads a file of text.
pub(crate) fn read(path: &Path) -> anyhow::Result<String> {
    fs::read_to_string(path).with_context(|| format!("cannot read {}", path.display()))
}

/// Policies by name.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(crate) enum PolicyName {
    /// Algorithm 1, corrected
    Strict,
    /// The nearest router of each net
    Nearest,
    /// The shortest paths in total with equal loads
    Balanced,
    /// Routers of a block of neighbours spread over the net
    Spread,
    /// Algorithm 1 with lines of clients shared among its modules, for jobs of neighbours
    Slices,
    /// Equal loads, and the hottest link as cool as can be
    Cool,
    /// Algorithm 1 as it was printed, to show what its slip costs
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
    /// Where it costs least under a cap
    Cost,
    /// Between the nearest modules along the line
    Near,
    /// At each position: modules in turn
    Turns,
}

/// What holds whatever the policy.
#[derive(clap::Args, Clone)]
pub(crate) struct RuleArgs {
    /// Backups beside the primary
    #[arg(long, value_name = "N", default_value_t = 2, value_parser = clap::value_parser!(u8).range(0..=15))]
    backups: u8,
    /// What a backup may not share with the primary or another backup
    #[arg(long, value_enum, value_name = "WHAT", default_value_t = DisjointName::Blade)]
    disjoint: DisjointName,
    /// Under strict: which of equally near modules is the primary [default: index]
    #[arg(long, value_enum, value_name = "RULE")]
    tie: Option<TieName>,
    /// Under nearest and balanced: what is near [default: cost]
    #[arg(long, value_enum, value_name = "METRIC")]
    by: Option<By>,
    /// Under balanced, on a torus or mesh: clients that a router serves on either side of it in the first dimension at
    /// most; this limits the hottest link when clients read
    #[arg(long, value_name = "CLIENTS")]
    side: Option<u32>,
    /// Under spread: consecutive clients of a block [default: 126]
    #[arg(long, value_name = "CLIENTS")]
    block: Option<u32>,
    /// Under spread: per cent of all routers' bandwidth that a block can use [default: 50]
    #[arg(long, value_name = "PERCENT")]
    efficiency: Option<u32>,
    /// Under slices: where lines of clients are cut [default: cost]
    #[arg(long, value_enum, value_name = "WHERE")]
    cut: Option<CutName>,
    /// Under slices by cost: per cent of a line of clients that one module serves at most [default: 50]
    #[arg(long, value_name = "PERCENT", value_parser = clap::value_parser!(u32).range(1..=100))]
    cap: Option<u32>,
    /// Under slices by cost: positions of a line that are not cut; longer runs make fewer route tables [default: 1]
    #[arg(long, value_name = "POSITIONS", value_parser = clap::value_parser!(u16).range(1..))]
    run: Option<u16>,
    /// Under cool: units per GB/s that the hottest link may have; 0 for as little as can be [default: 0]
    #[arg(long, value_name = "UNITS")]
    limit: Option<u32>,
    /// Under cool: the same for reads alone, --limit then being that of writes; 0 for no limit
    #[arg(long, value_name = "UNITS")]
    limit_read: Option<u32>,
}

impl RuleArgs {
    /// The library's options, without these routers.
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

    /// The policy that suits the machine, with these parameters.
    ///
    /// # Errors
    ///
    /// As [`RuleArgs::policy`].
    fn suited(&self, machine: &Machine) -> anyhow::Result<Policy> {
        self.policy(match Policy::suited(machine) {
            Policy::Balanced { .. } => PolicyName::Balanced,
            Policy::Nearest { .. } => PolicyName::Nearest,
            _ => PolicyName::Strict,
        })
    }

    /// A policy with these parameters.
    ///
    /// # Errors
    ///
    /// A parameter that this policy has not.
    pub(crate) fn policy(&self, name: PolicyName) -> anyhow::Result<Policy> {
        self.check(&[name])?;
        Ok(self.with_parameters(name))
    }

    /// Policies with these parameters.
    ///
    /// # Errors
    ///
    /// A parameter that none of these policies has.
    pub(crate) fn policies(&self, names: &[PolicyName]) -> anyhow::Result<Vec<Policy>> {
        self.check(names)?;
        let policies = names.iter().map(|&name| self.with_parameters(name));
        Ok(policies.collect())
    }

    /// Refuses a parameter that none of these policies has: it would have no effect.
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

    fn with_parameters(&self, name: PolicyName) -> Policy {
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

/// The names of policies, as a sentence has them.
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

/// What does not work now.
#[derive(clap::Args, Clone)]
pub(crate) struct FailureArgs {
    /// What does not work now: node numbers, names, NIDs, host lists, blades, cabinets, nets; or @FILE
    /// with such a list. The plan avoids it, and what the machine file marks as down
    #[arg(long, value_name = "LIST")]
    failed: Vec<String>,
    /// Plan as if everything that the machine file marks as down was up
    #[arg(long, conflicts_with = "failed")]
    whole: bool,
}

impl FailureArgs {
    /// The routers that a plan avoids, by index; said on standard error.
    ///
    /// # Errors
    ///
    /// A list that names what the machine does not have.
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
            let (count, all) = (dead.len(), machine.routers.len());
            writeln!(
                io::stderr(),
                "note: planned around {count} of {all} routers"
            )?;
        }
        Ok(dead)
    }
}

/// Machine and policy.
#[derive(clap::Args, Clone)]
pub(crate) struct PlanningArgs {
    #[command(flatten)]
    pub(crate) machine: MachineArgs,
    /// How routers are chosen [default: strict on a torus or mesh whose groups have sub-groups,
    /// otherwise balanced, or nearest on a large machine]
    #[arg(long, value_enum, value_name = "POLICY")]
    policy: Option<PolicyName>,
    #[command(flatten)]
    pub(crate) rules: RuleArgs,
    #[command(flatten)]
    failures: FailureArgs,
}

impl PlanningArgs {
    /// Reads the machine and makes the plan; what is not as intended is said on standard error.
    pub(crate) fn plan(&self) -> anyhow::Result<(Machine, Plan)> {
        self.plan_if(|_| Ok(()))
    }

    /// The same, where the machine is fit for what is wanted: planning a large one takes long.
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
        let plan = fgr::assign(&machine, policy, &options)?;
        let mut doubts = io::stderr().lock();
        for warning in &plan.warnings {
            writeln!(doubts, "warning: {warning}")?;
        }
        Ok((machine, plan))
    }
}
