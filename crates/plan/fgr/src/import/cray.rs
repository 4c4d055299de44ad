//! Reads tables in the style of `xtprocadmin` for Cray XC machines, whose names give the places.
//!
//! ```text
//!   NID    (HEX)    NODENAME     TYPE    STATUS     MODE
//!     8     0x8  c0-0c0s2n0   compute        up    batch     c COLUMN - ROW c CHASSIS s SLOT n NODE
//! ```
//!
//! Two neighbouring cabinets of a row are a group of an Aries dragonfly. A slot has one switch with
//! four nodes, a chassis 16 slots, a cabinet three chassis.

use std::collections::BTreeMap;

use crate::import::infiniband::listed;
use crate::import::{Assumed, Shape, ShapeFabric, ShapeNode};
use crate::input::fits;
use crate::problem::{InputError, Problems, Reason};
use crate::rates::{Known, RateSource};

const LAYOUT: &str = "NID hex-NID NAME TYPE STATUS MODE";

/// GB/s of an Aries link inside a group and between groups: 5.25 and 4.7, as Los Alamos' performance
/// models of XC machines have them.
const LINKS: (f64, f64) = (5.25, 4.7);

/// Slots of a chassis, chassis of a cabinet.
const CHASSIS: (u32, u32) = (16, 3);

/// Reads a table of nodes of a Cray XC machine as a dragonfly. Nodes keep their numbers. Compute
/// nodes are clients; service nodes can be named as routers. Lines before the first number are
/// headings.
///
/// # Errors
///
/// Every line that does not have this form, or repeats a number or a name; machines with eight slots
/// in a chassis, because the names of their nodes do not give their places.
pub fn node_table(file: &str, text: &str, assumed: Assumed) -> Result<Shape, InputError> {
    let mut problems = Problems::new(file);
    let mut nodes: Vec<Node> = Vec::new();
    let mut lines: BTreeMap<String, u32> = BTreeMap::new();
    let readable = fits(&mut problems, text);
    for (line, content) in (1..).zip(text.lines()).take_while(|_| readable) {
        let words: Vec<&str> = content.split_whitespace().take(7).collect();
        let is_heading = |word: &&str| !word.starts_with(|c: char| c.is_ascii_digit());
        if words.is_empty() || nodes.is_empty() && words.first().is_some_and(is_heading) {
            continue;
        }
        let Some(node) = node(line, &words, &mut problems) else {
            continue;
        };
        for key in [node.name.clone(), node.id.to_string()] {
            if let Some(first) = lines.insert(key.clone(), line) {
                problems.value(line, "node", &key, &format!("new: it is at line {first}"));
            }
        }
        nodes.push(node);
    }
    if nodes.is_empty() && problems.found.is_empty() {
        problems.add(1, Reason::NoClients);
    }
    if !nodes.is_empty() && nodes.iter().all(|node| node.slot < 8) {
        let why = "no slot above 7: a Gemini torus, whose names do not give the places of nodes. Give a map, NID \
                   name compute|service X Y Z a line, to --machine";
        problems.add(1, Reason::Fabric(why.to_owned()));
    }
    let nodes = problems.into_result(nodes)?;
    Ok(shape(nodes, assumed))
}

struct Node {
    id: u32,
    name: String,
    /// Row of cabinets, and pair of cabinets in it.
    group: (u32, u32),
    switch: u32,
    slot: u32,
    computes: bool,
    is_up: bool,
}

fn node(line: u32, words: &[&str], problems: &mut Problems) -> Option<Node> {
    let [id, hex, name, kind, status, ..] = words else {
        let (found, expected) = (words.len(), 6);
        let layout = LAYOUT;
        problems.add(
            line,
            Reason::Columns {
                found,
                expected,
                layout,
            },
        );
        return None;
    };
    let number = id.parse::<u32>().ok();
    let same = hex
        .strip_prefix("0x")
        .and_then(|hex| u32::from_str_radix(hex, 16).ok());
    let Some(id) = number.filter(|_| number == same) else {
        problems.value(
            line,
            "NID",
            &format!("{id} {hex}"),
            "one number, decimal and hexadecimal",
        );
        return None;
    };
    let Some([column, row, chassis, slot, _]) = place(name) else {
        let wanted = "a name such as c0-0c2s15n3: two cabinets of a row a group, chassis 0 to 2, slots 0 to 15";
        problems.value(line, "NODENAME", name, wanted);
        return None;
    };
    let computes = match *kind {
        "compute" => true,
        "service" => false,
        _ => {
            problems.value(line, "TYPE", kind, "compute or service");
            return None;
        }
    };
    Some(Node {
        id,
        name: (*name).to_owned(),
        group: (row, column / 2),
        switch: (column % 2 * CHASSIS.1 + chassis) * CHASSIS.0 + slot,
        slot,
        computes,
        is_up: *status == "up",
    })
}

/// Returns column, row, chassis, slot and node of `c1-0c2s15n3`.
fn place(name: &str) -> Option<[u32; 5]> {
    let mut rest = name;
    let mut number = |mark: char| -> Option<u32> {
        let after = rest.strip_prefix(mark)?;
        let end = after
            .find(|c: char| !c.is_ascii_digit())
            .unwrap_or(after.len());
        rest = &after[end..];
        after[..end].parse().ok().filter(|&n| n < 1_000)
    };
    let found = [
        number('c')?,
        number('-')?,
        number('c')?,
        number('s')?,
        number('n')?,
    ];
    let fits = rest.is_empty() && found[2] < CHASSIS.1 && found[3] < CHASSIS.0 && found[4] < 4;
    fits.then_some(found)
}

fn shape(mut nodes: Vec<Node>, assumed: Assumed) -> Shape {
    nodes.sort_by_key(|node| node.id);
    let mut groups: BTreeMap<(u32, u32), u32> = nodes.iter().map(|node| (node.group, 0)).collect();
    for (number, group) in (0..).zip(groups.values_mut()) {
        *group = number;
    }
    let down = nodes.iter().filter(|node| node.computes && !node.is_up);
    let down: Vec<String> = down.map(|node| node.name.clone()).collect();
    let mut warnings = Vec::new();
    if !down.is_empty() {
        warnings.push(format!(
            "{} compute nodes are not up; they are clients, because they may come back: {}",
            down.len(),
            listed(&down)
        ));
    }
    let service = nodes.iter().filter(|node| !node.computes);
    let service: Vec<String> = service.map(|node| node.name.clone()).collect();
    let mut skipped = Vec::new();
    if !service.is_empty() {
        skipped.push(format!(
            "{} service nodes, because they are no clients; --routers may name them: {}",
            service.len(),
            listed(&service)
        ));
    }
    let links_per_pair = assumed.links_per_pair;
    Shape {
        fabric: ShapeFabric::Dragonfly {
            // Columns and rows are below 1,000, and so is the number of cabinets of a table.
            groups: u16::try_from(groups.len()).unwrap_or(u16::MAX),
            switches: (2 * CHASSIS.1 * CHASSIS.0) as u16,
            ports: 1,
            links_per_pair,
            local: LINKS.0,
            global: LINKS.1,
        },
        rates: RateSource::new(
            Known::Published,
            "links of Aries in Los Alamos' performance models of XC machines",
        ),
        assumptions: vec![
            "two neighbouring cabinets of a row are a group of 96 Aries switches".to_owned(),
            format!(
                "links have {} GB/s inside a group and {} between groups",
                LINKS.0, LINKS.1
            ),
            format!("each two groups have {links_per_pair} links between them"),
            "the switches of a group are linked each with each; in Aries by one or two hops"
                .to_owned(),
        ],
        warnings,
        skipped,
        nodes: nodes
            .into_iter()
            .map(|node| ShapeNode {
                id: node.id,
                at: vec![groups[&node.group], node.switch],
                name: node.name,
                computes: node.computes,
                nics: Vec::new(),
            })
            .collect(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const ASSUMED: Assumed = Assumed {
        capacity: 25.0,
        links_per_pair: 4,
    };

    const TABLE: &str = "   NID    (HEX)    NODENAME     TYPE    STATUS     MODE\n\
                         1  0x1  c0-0c0s0n1  service  up  other\n\
                         8  0x8  c0-0c0s2n0  compute  up  batch\n\
                         252  0xfc  c1-0c0s15n0  compute  down  batch\n\
                         400  0x190  c2-0c1s4n0  compute  up  interactive\n";

    #[test]
    fn nodes_of_an_xc_machine_have_their_numbers_and_the_places_of_their_names() {
        let shape = node_table("t", TABLE, ASSUMED).unwrap();
        let nodes = shape.nodes.iter().map(|n| (n.id, &n.at[..], n.computes));
        let expected = [
            (1, &[0, 0][..], false),
            (8, &[0, 2], true),
            (252, &[0, 63], true),
            (400, &[1, 20], true),
        ];
        assert_eq!(nodes.collect::<Vec<_>>(), expected);
        assert!(
            shape.warnings[0].ends_with("c1-0c0s15n0"),
            "{:?}",
            shape.warnings
        );
        assert!(
            shape.skipped[0].starts_with("1 service nodes"),
            "{:?}",
            shape.skipped
        );
        let file = shape.machine_file("xc", &[]).unwrap();
        assert!(
            file.contains("{id: 400, name: \"c2-0c1s4n0\", at: [1, 20]}"),
            "{file}"
        );
        assert!(!file.contains("c0-0c0s0n1\","), "{file}");
    }

    #[test]
    fn tables_of_other_machines_and_wrong_lines_are_rejected() {
        let rejection = |text: &str| node_table("t", text, ASSUMED).unwrap_err().to_string();
        let gemini = "8 0x8 c0-0c0s2n0 compute up batch\n";
        assert!(rejection(gemini).contains("Gemini torus"));
        let wrong = rejection(
            &(TABLE.to_owned()
                + "8 0x8 c0-0c0s2n1 compute up batch\n9 0x8 c0-0c0s2n2 compute up b\n10 0xa nid10 compute up b\nx\n"),
        );
        for line in [
            "t:6: node: '8'",
            "t:7: NID",
            "t:8: NODENAME: 'nid10'",
            "t:9: 1 columns",
        ] {
            assert!(wrong.contains(line), "{line} in {wrong}");
        }
        assert!(rejection("").contains("no clients"));
    }
}
