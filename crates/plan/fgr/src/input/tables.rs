//! Tables: Titan's map, lists in the style of `xtprocadmin`, router modules.
//!
//! ```text
//!   map          20 c0-0c1s5n0 compute 0 0 10              NID, name, compute|service, X, Y, Z
//!   node table   20 0x14 c0-0c1s5n0 compute up batch       NID, hex NID, name, type, state, mode
//!   modules      A,1,1,1,c7-2c2s0,4,2,0,16798,…            group … nets, with a header line
//! ```
//!
//! The layout of the node table is inferred from descriptions of the tool, not from its source.
//! Lines before the first line that begins with a number are headings and are skipped.

use std::collections::BTreeSet;

use lnet_types::Net;

use crate::input::csv_table::Table;
use crate::input::draft::{ClientDraft, Draft, ModuleDraft, NodeDraft};
use crate::input::fits;
use crate::machine::{Client, Details, Machine, Origin, Role};
use crate::problem::{InputError, Problem, Problems, Reason, shown};
use crate::rates::{Known, RateSource, RateSources};
use crate::topology::titan::{NODES, NodeName};
use crate::topology::{Fabric, Grid, Tie, Vertex};

/// A node of a map or node table.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct MapNode {
    /// Number of the node.
    pub id: u32,
    /// Name of the node.
    pub name: NodeName,
    /// Whether the node is a compute node; otherwise it is a service node.
    pub compute: bool,
    /// Whether the node is up. A map does not say, and all its nodes count as up.
    pub up: bool,
    /// The line that describes the node, from 1.
    pub line: u32,
}

/// Reads a map: NID, name, `compute` or `service`, X, Y, Z.
///
/// # Errors
///
/// Every line that does not have this form, whose name contradicts its coordinates or NID, or that
/// repeats a NID.
pub fn read_map(file: &str, text: &str) -> Result<Vec<MapNode>, InputError> {
    const LAYOUT: &str = "NID name compute|service X Y Z";
    read_lines(file, text, 6, LAYOUT, |problems, line, fields| {
        let node = map_node(problems, line, fields[0], fields[1], fields[2])?;
        let [x, y, z] = node.name.coordinates();
        let said = fields[3..].iter().map(|word| word.parse().ok());
        if !said.eq([x, y, z].map(Some)) {
            let reason = Reason::Disagrees {
                name: node.name.to_string(),
                expected: format!("{x} {y} {z}"),
                found: shown(&fields[3..].join(" ")),
            };
            problems.add(line, reason);
        }
        Some(node)
    })
}

/// Reads a table of nodes as `xtprocadmin` prints it (layout inferred): NID, NID in hexadecimal,
/// name, type, state, mode. Lines before the first line that begins with a number are headings.
///
/// # Errors
///
/// Every line after the headings that does not have this form, whose NIDs or name and NID
/// contradict each other, or that repeats a NID.
pub fn read_node_table(file: &str, text: &str) -> Result<Vec<MapNode>, InputError> {
    const LAYOUT: &str = "NID 0xNID name compute|service state mode";
    read_lines(file, text, 6, LAYOUT, |problems, line, fields| {
        let mut node = map_node(problems, line, fields[0], fields[2], fields[3])?;
        let digits = fields[1].strip_prefix("0x").unwrap_or_default();
        if u32::from_str_radix(digits, 16) != Ok(node.id) {
            problems.value(
                line,
                "hexadecimal NID",
                fields[1],
                &format!("{:#x}", node.id),
            );
        }
        node.up = fields[4] == "up";
        Some(node)
    })
}

/// Reads lines of `columns` words. Skips empty lines and everything before the first line that
/// begins with a number.
fn read_lines(
    file: &str,
    text: &str,
    columns: usize,
    layout: &'static str,
    mut read: impl FnMut(&mut Problems, u32, &[&str]) -> Option<MapNode>,
) -> Result<Vec<MapNode>, InputError> {
    let mut problems = Problems::new(file);
    let mut nodes: Vec<MapNode> = Vec::new();
    // The line of each number; 0 if there was none.
    let mut lines = vec![0; NODES as usize];
    let readable = fits(&mut problems, text);
    let mut in_heading = true;
    let mut fields = Vec::with_capacity(columns + 1);
    for (line, content) in (1..).zip(text.lines()).take_while(|_| readable) {
        words(content, columns + 1, &mut fields);
        let Some(first) = fields.first() else {
            continue;
        };
        if in_heading && !first.starts_with(|c: char| c.is_ascii_digit()) {
            continue;
        }
        in_heading = false;
        if fields.len() != columns {
            let (found, expected) = (fields.len(), columns);
            problems.add(
                line,
                Reason::Columns {
                    found,
                    expected,
                    layout,
                },
            );
            continue;
        }
        let Some(node) = read(&mut problems, line, &fields) else {
            continue;
        };
        let id = node.id;
        match &mut lines[id as usize] {
            first @ 0 => *first = line,
            first => {
                let first = problems.place(*first);
                problems.add(line, Reason::NodeTwice { id, first });
            }
        }
        nodes.push(node);
    }
    problems.into_result(nodes)
}

/// Returns the first words of a line, at most `most`.
fn words<'t>(line: &'t str, most: usize, words: &mut Vec<&'t str>) {
    words.clear();
    if !line.is_ascii() {
        words.extend(line.split_whitespace().take(most));
        return;
    }
    // Matches ASCII white space as `char` does, without decoding.
    let is_space = |byte: &u8| matches!(byte, b'\t'..=b'\r' | b' ');
    let pieces = line.as_bytes().split(is_space);
    let mut start = 0;
    for piece in pieces {
        let end = start + piece.len();
        if start < end && words.len() < most {
            words.push(&line[start..end]);
        }
        start = end + 1;
    }
}

fn map_node(
    problems: &mut Problems,
    line: u32,
    id: &str,
    name: &str,
    kind: &str,
) -> Option<MapNode> {
    let compute = match kind {
        "compute" => true,
        "service" => false,
        _ => {
            problems.value(line, "type", kind, "compute or service");
            return None;
        }
    };
    let name: NodeName = match name.parse() {
        Ok(name) => name,
        Err(_) => {
            problems.value(line, "name", name, "a node from c0-0c0s0n0 to c24-7c2s7n3");
            return None;
        }
    };
    if id.parse() != Ok(name.nid()) {
        problems.value(line, "NID", id, &format!("{}, that of {name}", name.nid()));
    }
    Some(MapNode {
        id: name.nid(),
        name,
        compute,
        up: true,
        line,
    })
}

/// The header of the modules table.
const HEADER: &str = "group,subgroup,index,slot,blade,x,y0,z,nid_n0,nid_n1,nid_n2,nid_n3,net_n0,net_n2,net_n1,net_n3";

/// The columns of the header.
const COLUMNS: [&str; 16] = [
    "group", "subgroup", "index", "slot", "blade", "x", "y0", "z", "nid_n0", "nid_n1", "nid_n2",
    "nid_n3", "net_n0", "net_n2", "net_n1", "net_n3",
];

/// Reads the table of router modules: a header line, then one module per line, with sub-group and
/// index from 1. `role` says what the nets of these groups carry.
///
/// # Errors
///
/// Another header, and every line with invalid values, with a blade that is not at the given
/// coordinates, or with NIDs that the blade does not have.
pub fn read_modules(
    file: &str,
    text: &str,
    grid: &Grid,
    role: Role,
) -> Result<Vec<ModuleDraft>, InputError> {
    let mut problems = Problems::new(file);
    let mut modules = Vec::new();
    for (line, fields) in Table::read(&mut problems, text, &[HEADER]).rows {
        let fields: Vec<&str> = fields.iter().map(String::as_str).collect();
        modules.extend(module(&mut problems, line, &fields, grid, role));
    }
    problems.into_result(modules)
}

fn module(
    problems: &mut Problems,
    line: u32,
    fields: &[&str],
    grid: &Grid,
    role: Role,
) -> Option<ModuleDraft> {
    let sub_group = ordinal(problems, line, "subgroup", fields[1]);
    let index = ordinal(problems, line, "index", fields[2]);
    let blade = fields[4];
    let Ok(first) = format!("{blade}n0").parse::<NodeName>() else {
        problems.value(line, "blade", blade, "a blade from c0-0c0s0 to c24-7c2s7");
        return None;
    };
    let at = first.coordinates().map(|position| position.to_string());
    if at[..] != fields[5..8] {
        let reason = Reason::Disagrees {
            name: shown(blade),
            expected: at.join(","),
            found: shown(&fields[5..8].join(",")),
        };
        problems.add(line, reason);
    }
    let nodes = (0..4).map(|n| node(problems, line, fields, grid, n));
    let nodes: Vec<Option<NodeDraft>> = nodes.collect();
    Some(ModuleDraft {
        group: shown(fields[0]),
        role,
        sub_group: sub_group?,
        index: index?,
        blade: blade.to_owned(),
        cabinet: first.cabinet(),
        nodes: nodes.into_iter().collect::<Option<_>>()?,
        place: problems.place(line),
    })
}

/// Returns node `n` of a module. The columns of nets are in the order n0, n2, n1, n3: storage row
/// by storage row.
fn node(
    problems: &mut Problems,
    line: u32,
    fields: &[&str],
    grid: &Grid,
    n: usize,
) -> Option<NodeDraft> {
    let name: NodeName = format!("{}n{n}", fields[4]).parse().ok()?;
    let nid = fields[8 + n];
    if nid.parse() != Ok(name.nid()) {
        problems.value(
            line,
            COLUMNS[8 + n],
            nid,
            &format!("{}, that of {name}", name.nid()),
        );
    }
    let column = 12 + [0, 2, 1, 3][n];
    let net = net(problems, line, COLUMNS[column], fields[column])?;
    let vertex = grid.vertex(&name.coordinates());
    if vertex.is_none() {
        problems.add(line, Reason::Outside(name.to_string()));
    }
    Some(NodeDraft {
        id: name.nid(),
        vertex: vertex?,
        net,
    })
}

pub(crate) fn net(problems: &mut Problems, line: u32, key: &str, text: &str) -> Option<Net> {
    let net = text.parse().ok();
    if net.is_none_or(|net| net == Net::ANY || net == Net::LO) {
        problems.value(line, key, text, "a net such as o2ib201");
        return None;
    }
    net
}

fn ordinal(problems: &mut Problems, line: u32, key: &str, text: &str) -> Option<u16> {
    let number = text.parse().ok().filter(|&n| (1..1_000).contains(&n));
    if number.is_none() {
        problems.value(line, key, text, "a number from 1 to 999");
    }
    number
}

/// Makes Titan: the nodes of `map` on Titan's torus, with `modules`.
///
/// # Errors
///
/// Routers that are not service nodes of the map, and what [`Draft::check`] finds.
pub fn titan(
    file: &str,
    map: &[MapNode],
    modules: Vec<ModuleDraft>,
    tie: Tie,
) -> Result<Machine, InputError> {
    let mut problems = Problems::new(file);
    let mut warnings = Problems::new(file);
    let grid = match crate::topology::titan::grid() {
        Ok(grid) => grid,
        Err(error) => {
            problems.add(1, Reason::Fabric(error.to_string()));
            return Err(InputError(problems.found));
        }
    };
    let clients: Vec<ClientDraft> = map
        .iter()
        .filter(|node| node.compute)
        .map(|node| client(&problems, &mut warnings, &grid, node))
        .collect();
    let service: BTreeSet<u32> = map
        .iter()
        .filter(|node| !node.compute)
        .map(|node| node.id)
        .collect();
    let unknown = modules.iter().flat_map(|module| {
        let nodes = module
            .nodes
            .iter()
            .filter(|node| !service.contains(&node.id));
        nodes.map(|node| Problem {
            place: module.place.clone(),
            reason: Reason::UnknownNode(node.id),
        })
    });
    problems.found.extend(unknown);
    let place = problems.place(1);
    problems.into_result(())?;
    let metadata = modules
        .iter()
        .filter(|module| module.role == Role::Metadata);
    let made_up: Vec<&str> = metadata
        .map(|module| module.blade.as_str())
        .filter(|blade| METADATA_BLADES.contains(blade))
        .collect();
    if !made_up.is_empty() {
        warnings.add(1, Reason::SyntheticMetadata(made_up.join(", ")));
    }
    Draft {
        name: "titan".to_owned(),
        origin: Origin::Published,
        fabric: Fabric::Grid(grid, tie),
        clients,
        footprint: None,
        details: router_names(map, &modules),
        rates: gemini(),
        modules,
        place,
        warnings: warnings.found,
    }
    .check()
}

/// The names of the routers.
fn router_names(map: &[MapNode], modules: &[ModuleDraft]) -> Details {
    let nodes = modules.iter().flat_map(|module| &module.nodes);
    let routers: BTreeSet<u32> = nodes.map(|node| node.id).collect();
    let nodes = map.iter().filter(|node| routers.contains(&node.id));
    Details {
        names: nodes.map(|node| (node.id, node.name.into())).collect(),
        ..Details::default()
    }
}

fn gemini() -> RateSources {
    let source = "lanes of Gemini by medium, 6.25, 5 and 3.125 Gbit/s each; which steps along z are cables is assumed";
    RateSources {
        links: RateSource::new(Known::Published, source),
        ..RateSources::default()
    }
}

fn client(
    problems: &Problems,
    warnings: &mut Problems,
    grid: &Grid,
    node: &MapNode,
) -> ClientDraft {
    if !node.up {
        warnings.add(node.line, Reason::Down(node.name.to_string()));
    }
    // The coordinates of a name are inside Titan's torus.
    let vertex = grid.vertex(&node.name.coordinates()).unwrap_or(Vertex(0));
    ClientDraft {
        client: Client {
            id: node.id,
            name: Some(node.name.into()),
            vertex,
        },
        place: problems.place(node.line),
    }
}

/// Two service blades of Titan that are not file I/O modules. They are in cabinets of group A, far
/// from each other. The places of the real metadata modules are not published.
const METADATA_BLADES: [&str; 2] = ["c7-2c1s3", "c14-1c1s0"];

/// Makes the two metadata modules of Titan at synthetic places, with their eight nodes on `net`.
///
/// # Errors
///
/// None on Titan's torus; places outside any other grid.
pub fn synthetic_metadata(grid: &Grid, net: Net) -> Result<Vec<ModuleDraft>, InputError> {
    let mut problems = Problems::new("synthetic metadata modules");
    let mut modules = Vec::new();
    for (index, blade) in (1..).zip(METADATA_BLADES) {
        let names = (0..4).filter_map(|n| format!("{blade}n{n}").parse::<NodeName>().ok());
        let mut nodes = Vec::new();
        let mut cabinet = String::new();
        for name in names {
            cabinet = name.cabinet();
            match grid.vertex(&name.coordinates()) {
                Some(vertex) => nodes.push(NodeDraft {
                    id: name.nid(),
                    vertex,
                    net,
                }),
                None => problems.add(index.into(), Reason::Outside(name.to_string())),
            }
        }
        modules.push(ModuleDraft {
            group: "metadata".to_owned(),
            role: Role::Metadata,
            sub_group: 1,
            index,
            blade: blade.to_owned(),
            cabinet,
            nodes,
            place: problems.place(index.into()),
        });
    }
    problems.into_result(modules)
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::words;

    proptest! {
        #[test]
        fn words_are_separated_by_white_space(line in "[ \t\u{b}\u{c}\r\u{a0}\u{2003}a-c0é]{0,12}") {
            for most in 0..5 {
                let mut found = Vec::new();
                words(&line, most, &mut found);
                let known: Vec<&str> = line.split_whitespace().take(most).collect();
                prop_assert_eq!(found, known);
            }
        }
    }
}
