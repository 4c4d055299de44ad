//! Reads lists of a dragonfly: the group and switch of each node.
//!
//! ```text
//!   node,group,switch                   node,switch
//!   nid001,g0,s3                        x1000c0s0b0n0,x1000c0r7     the cabinet x1000 is the group
//!   nid001,g0,s4                        x1000c0s0b0n0,x1000c0r3     a second port of the node
//! ```

use std::collections::BTreeMap;

use crate::import::{Assumed, Shape, ShapeFabric, ShapeNode};
use crate::input::{NODE_NAME, Table, is_node_name};
use crate::problem::{InputError, Problems, Reason};
use crate::rates::{Known, RateSource};

/// Most nodes that a warning names.
const NAMED: usize = 5;

/// Most ports of a node.
const PORTS_MAX: usize = 64;

/// A node with the switches of its ports.
struct Attached {
    name: String,
    group: u32,
    /// Numbers of its switches in the group, with the line of each.
    switches: Vec<(u32, u32)>,
}

impl Attached {
    /// Adds the port of a line.
    fn port(
        &mut self,
        line: u32,
        [node, switch]: [&str; 2],
        (group, place): (u32, u32),
        problems: &mut Problems,
    ) {
        let twice = self.switches.iter().find(|(known, _)| *known == place);
        let (field, value, wanted) = match (self.group == group, twice) {
            (false, _) => {
                let first = self.switches.first().map_or(0, |(_, line)| *line);
                ("switch", switch, format!("in the group of line {first}"))
            }
            (true, Some((_, first))) => ("node", node, format!("new: it is at line {first}")),
            (true, None) if self.switches.len() == PORTS_MAX => {
                ("node", node, format!("on at most {PORTS_MAX} switches"))
            }
            (true, None) => return self.switches.push((place, line)),
        };
        problems.value(line, field, value, &wanted);
    }
}

/// What the lines so far say.
#[derive(Default)]
struct Reading<'t> {
    known: BTreeMap<&'t str, usize>,
    groups: BTreeMap<&'t str, u32>,
    switches: BTreeMap<(u32, &'t str), u32>,
    /// The number of switches of each group.
    in_group: Vec<u32>,
    nodes: Vec<Attached>,
}

impl<'t> Reading<'t> {
    fn line(&mut self, line: u32, fields: &'t [String], problems: &mut Problems) {
        let (node, switch) = (&fields[0], &fields[fields.len() - 1]);
        let group = match fields {
            [_, group, _] => Some(group.as_str()),
            _ => cabinet(switch),
        };
        let Some(group) = group.filter(|group| !group.is_empty()) else {
            return problems.value(line, "switch", switch, "a name such as x1000c0r7");
        };
        if node.is_empty() || switch.is_empty() {
            return problems.add(line, Reason::Missing("a node or its switch".to_owned()));
        }
        if !is_node_name(node) {
            return problems.value(line, "node", node, NODE_NAME);
        }
        // There are no more groups or switches than lines.
        let next = self.in_group.len() as u32;
        let group = *self.groups.entry(group).or_insert(next);
        if group == next {
            self.in_group.push(0);
        }
        let count = &mut self.in_group[group as usize];
        let place = *self.switches.entry((group, switch)).or_insert(*count);
        *count = (*count).max(place + 1);
        let index = *self.known.entry(node).or_insert(self.nodes.len());
        if index == self.nodes.len() {
            self.nodes.push(Attached {
                name: node.clone(),
                group,
                switches: Vec::new(),
            });
        }
        self.nodes[index].port(line, [node, switch], (group, place), problems);
    }
}

/// Reads a CSV table with the header `node,group,switch`, or `node,switch`. In the second form the
/// name of a switch begins with the name of its cabinet, and the cabinet is the group. Groups and
/// switches are numbered in the order in which they first appear. A node with several ports has a line
/// for the switch of each.
///
/// # Errors
///
/// Another header, and every line that does not have this form, repeats a port or attaches a node to
/// switches of two groups.
pub fn dragonfly(file: &str, text: &str, assumed: Assumed) -> Result<Shape, InputError> {
    let mut problems = Problems::new(file);
    let table = Table::read(&mut problems, text, &["node,group,switch", "node,switch"]);
    let mut read = Reading::default();
    for (line, fields) in &table.rows {
        read.line(*line, fields, &mut problems);
    }
    let Reading {
        in_group, nodes, ..
    } = read;
    let narrow = |count: usize| u16::try_from(count).ok();
    let most = in_group.iter().max().copied().unwrap_or(0);
    let (Some(groups), Some(switches)) = (narrow(in_group.len()), narrow(most as usize)) else {
        let (what, max) = ("groups or switches of a group", usize::from(u16::MAX));
        problems.add(1, Reason::TooMany { what, max });
        return Err(InputError(problems.found));
    };
    if nodes.is_empty() {
        problems.add(1, Reason::NoClients);
    }
    let ports = usual_ports(&nodes);
    let (nodes, warnings) = places(nodes, ports, switches);
    problems.into_result(Shape {
        fabric: ShapeFabric::Dragonfly {
            groups,
            switches,
            ports,
            links_per_pair: assumed.links_per_pair,
            local: assumed.capacity,
            global: assumed.capacity,
        },
        nodes: ShapeNode::numbered(nodes),
        rates: RateSource::new(Known::Assumed, "--capacity: the list does not say them"),
        assumptions: assumptions(assumed, ports),
        warnings,
        skipped: Vec::new(),
    })
}

/// What a list of nodes does not say.
fn assumptions(assumed: Assumed, ports: u16) -> Vec<String> {
    let mut assumptions = vec![
        format!("each link has {} GB/s", assumed.capacity),
        format!(
            "each two groups have {} links between them",
            assumed.links_per_pair
        ),
        "the switches of a group are linked each with each".to_owned(),
    ];
    if ports > 1 {
        assumptions.push(format!("each node uses its {ports} ports equally"));
    }
    assumptions
}

/// The number of ports that most nodes have; of equal numbers the largest.
fn usual_ports(nodes: &[Attached]) -> u16 {
    let mut counts: BTreeMap<usize, usize> = BTreeMap::new();
    for node in nodes {
        *counts.entry(node.switches.len().max(1)).or_default() += 1;
    }
    let usual = counts
        .into_iter()
        .max_by_key(|&(ports, count)| (count, ports));
    // A group has no more switches than 16 bits number, or the list is refused.
    u16::try_from(usual.map_or(1, |(ports, _)| ports)).unwrap_or(u16::MAX)
}

/// Returns the first of sorted switches if they follow each other; the first switch of a group follows the last.
fn first_of(places: &[u32], switches: u16) -> Option<u32> {
    let (first, last) = (*places.first()?, *places.last()?);
    let is_gap = |pair: &&[u32]| pair[1] != pair[0] + 1;
    let mut gaps = places.windows(2).filter(is_gap);
    let goes_round = first == 0 && last + 1 == u32::from(switches);
    match (gaps.next(), gaps.next()) {
        (None, _) => Some(first),
        (Some(gap), None) if goes_round => Some(gap[1]),
        _ => None,
    }
}

/// Returns the place of each node: its first switch, from which its ports follow. Warns of nodes that are attached
/// otherwise.
fn places(
    nodes: Vec<Attached>,
    ports: u16,
    switches: u16,
) -> (Vec<(String, Vec<u32>)>, Vec<String>) {
    let (mut placed, mut uneven, mut apart) = (Vec::new(), Vec::new(), Vec::new());
    for Attached {
        name,
        group,
        switches: of_node,
    } in nodes
    {
        let mut of_node: Vec<u32> = of_node.into_iter().map(|(place, _)| place).collect();
        of_node.sort_unstable();
        let first = first_of(&of_node, switches);
        if of_node.len() != usize::from(ports) {
            uneven.push(name.clone());
        } else if first.is_none() {
            apart.push(name.clone());
        }
        let place = first.or(of_node.first().copied()).unwrap_or(0);
        placed.push((name, vec![group, place]));
    }
    let warning = |nodes: Vec<String>, what: String| {
        let named = nodes
            .iter()
            .take(NAMED)
            .map(String::as_str)
            .collect::<Vec<_>>()
            .join(", ");
        let more = if nodes.len() > NAMED { ", …" } else { "" };
        (!nodes.is_empty()).then(|| format!("{} nodes {what}: {named}{more}", nodes.len()))
    };
    let warnings = [
        warning(
            uneven,
            format!("do not have {ports} ports, which is assumed"),
        ),
        warning(
            apart,
            "are not on consecutive switches, which is assumed".to_owned(),
        ),
    ];
    (placed, warnings.into_iter().flatten().collect())
}

/// Returns the cabinet of a switch: `x1000` of `x1000c0r7`.
fn cabinet(switch: &str) -> Option<&str> {
    let end = switch
        .strip_prefix('x')?
        .find(|c: char| !c.is_ascii_digit())?
        + 1;
    Some(&switch[..end]).filter(|cabinet| cabinet.len() > 1)
}

#[cfg(test)]
mod tests {
    use super::*;

    const ASSUMED: Assumed = Assumed {
        capacity: 25.0,
        links_per_pair: 4,
    };

    #[test]
    fn nodes_are_placed_by_group_and_switch_in_the_order_of_the_list() {
        let text = "\u{feff}node,group,switch\r\n\"n1\",west,s1\r\nn2,east,s1\r\nn3,west,s2\r\n";
        let shape = dragonfly("list", text, ASSUMED).unwrap();
        let found = shape
            .nodes
            .iter()
            .map(|node| (node.id, node.name.as_str(), &node.at[..]));
        let expected = [
            (0, "n1", &[0, 0][..]),
            (1, "n2", &[1, 0]),
            (2, "n3", &[0, 1]),
        ];
        assert_eq!(found.collect::<Vec<_>>(), expected);
        let ShapeFabric::Dragonfly {
            groups, switches, ..
        } = shape.fabric
        else {
            unreachable!("a dragonfly");
        };
        assert_eq!((groups, switches), (2, 2));
    }

    #[test]
    fn the_cabinet_of_a_slingshot_switch_is_its_group() {
        let text = "node,switch\nx1000c0s0b0n0,x1000c0r7\nx1001c0s0b0n0,x1001c0r7\n";
        let shape = dragonfly("list", text, ASSUMED).unwrap();
        assert_eq!(shape.nodes[1].at, [1, 0]);
        let wrong = dragonfly("list", "node,switch\nn1,leaf1\nn1\n", ASSUMED).unwrap_err();
        let wrong = wrong.to_string();
        assert!(
            wrong.contains("list:2: switch: 'leaf1'") && wrong.contains("list:3: "),
            "{wrong}"
        );
    }

    #[test]
    fn a_node_with_several_ports_has_a_line_for_the_switch_of_each() {
        let mut text = "node,group,switch\n".to_owned();
        for (node, first) in [("n0", 0), ("n1", 0), ("n2", 4), ("n3", 6)] {
            for port in 0..4 {
                let switch = (first + port) % 8;
                text += &format!("{node},g0,s{switch}\n");
            }
        }
        text += "n4,g0,s0\nn5,g0,s0\nn5,g0,s2\nn5,g0,s4\nn5,g0,s6\n";
        let shape = dragonfly("list", &text, ASSUMED).unwrap();
        let places: Vec<&[u32]> = shape.nodes.iter().map(|node| &node.at[..]).collect();
        assert_eq!(places, [[0, 0], [0, 0], [0, 4], [0, 6], [0, 0], [0, 0]]);
        assert_eq!(
            shape.warnings,
            [
                "1 nodes do not have 4 ports, which is assumed: n4",
                "1 nodes are not on consecutive switches, which is assumed: n5"
            ]
        );
        let file = shape.machine_file("m", &[]).unwrap();
        assert!(file.contains("\n  ports: 4\n"), "{file}");

        let wrong = "node,group,switch\nn0,g0,s0\nn0,g0,s0\nn0,g1,s0\n";
        let wrong = dragonfly("list", wrong, ASSUMED).unwrap_err().to_string();
        assert!(
            wrong.contains("list:3: node: 'n0' is not new: it is at line 2"),
            "{wrong}"
        );
        assert!(
            wrong.contains("list:4: switch: 's0' is not in the group of line 2"),
            "{wrong}"
        );
    }
}
