//! The machine that a plan is for: arguments shared by all commands of `finerail fgr` and its bench.

use std::io::{self, Write};
use std::path::{Path, PathBuf};

use anyhow::{Context, anyhow, bail, ensure};
use clap::ValueEnum;
use fgr::topology::{Dimension, Grid, Tie};
use fgr::{
    Machine, ModuleDraft, Origin, PRESETS, Role, Synthetic, preset, read_machine, read_map,
    read_modules, read_node_table, synthetic, synthetic_metadata, titan,
};
use lnet_types::Net;

use crate::common::read_limited;

/// The prefix of the sizes of a synthetic machine, and of the net of synthetic metadata modules.
const SYNTHETIC: &str = "synthetic:";

/// The prefix of the name of a preset.
const PRESET: &str = "preset:";

/// The machine.
#[derive(clap::Args, Clone)]
pub struct MachineArgs {
    /// The machine: a machine file (YAML), a map like Titan's or a table like that of xtprocadmin (both
    /// with --modules), or synthetic:25x16x24:9x3x4 for a torus with 9 groups, 3 modules a sub-group
    /// and 4 nets a group, spread by rule, or preset:frontier, preset:aurora, preset:fugaku,
    /// preset:el-capitan, preset:lumi, preset:perlmutter for machines like these, whose assumptions
    /// and sources are printed with every result
    #[arg(long, value_name = "FILE")]
    pub machine: String,
    /// The router modules of a map: CSV with the columns group, subgroup, index, slot, blade, x, y0,
    /// z, and NIDs and nets of the four nodes
    #[arg(long, value_name = "FILE")]
    modules: Option<PathBuf>,
    /// Metadata modules of a map: a file like that of --modules, or synthetic:o2ib300 for two invented
    /// modules with their nodes on that net
    #[arg(long, value_name = "FILE", requires = "modules")]
    metadata: Option<String>,
    /// The direction of messages between opposite positions of a ring of a map or synthetic machine
    #[arg(long, value_enum, value_name = "DIRECTION", default_value_t = HalfWay::Split)]
    half_way: HalfWay,
}

#[derive(Clone, Copy, ValueEnum)]
enum HalfWay {
    /// Half of them in each direction
    Split,
    /// All towards higher positions
    Plus,
    /// All towards lower positions
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
    /// Reads the machine. Prints warnings about its description to standard error.
    ///
    /// # Errors
    ///
    /// Everything that is wrong with the inputs: one line for each problem, with file and line number.
    pub fn read(&self) -> anyhow::Result<Machine> {
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
                bail!(
                    "{} is a map: name its router modules with --modules",
                    self.machine
                );
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

    /// Reads a machine like Titan. The problems of all files are collected before the machine is rejected.
    fn titan(
        &self,
        map: &str,
        (modules_file, modules): (&Path, &str),
        metadata: Option<&str>,
    ) -> anyhow::Result<Machine> {
        let grid = fgr::topology::titan::grid()?;
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
            // This parser writes the error message, with the option's value as the file name.
            Err(_) => read_modules(name, net, grid, Role::Metadata),
        }
    }

    /// Builds a machine from sizes such as `25x16x24:9x3x4`: the torus, then groups, modules of a sub-group and
    /// nets of a group.
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
    let known = || {
        anyhow!(
            "there is no preset '{name}'; the presets are {}",
            PRESETS.join(", ")
        )
    };
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

/// Returns dimensions with Titan's costs, and with links of equal capacity.
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

/// Decides whether the first line that is not empty begins with a number or is the heading of a node table.
fn looks_like_table(text: &str) -> bool {
    let mut lines = text.lines().filter(|line| !line.trim().is_empty());
    lines.next().is_some_and(|line| {
        line.trim_start().starts_with(|c: char| c.is_ascii_digit())
            || line.split_whitespace().next() == Some("NID")
    })
}

/// Decides whether the second column is a hexadecimal number.
fn is_node_table(text: &str) -> bool {
    let mut rows = text
        .lines()
        .filter(|line| line.trim_start().starts_with(|c: char| c.is_ascii_digit()));
    rows.next().is_some_and(|line| {
        let second = line.split_whitespace().nth(1);
        second.is_some_and(|word| word.starts_with("0x"))
    })
}

/// Returns the words for the origin of a machine's description.
pub fn origin(machine: &Machine) -> &'static str {
    match machine.origin {
        Origin::Published => "published",
        Origin::Assumed => "assumed in part",
        Origin::Synthetic => "synthetic",
    }
}

fn all_problems(error: &fgr::InputError) -> anyhow::Error {
    anyhow!("{error}")
}

/// The limit of bytes of a file. Tables of a million nodes have about 100 MB.
const FILE_BYTES_MAX: u64 = 1 << 30;

/// Reads a text file.
pub fn read(path: &Path) -> anyhow::Result<String> {
    let text = read_limited(path, FILE_BYTES_MAX);
    let text = text.with_context(|| format!("cannot read {}", path.display()))?;
    ensure!(
        text.len() as u64 <= FILE_BYTES_MAX,
        "{}: longer than 1 GiB",
        path.display()
    );
    Ok(text)
}
