//! Reads lists of a dragonfly: the group and switch of each node.
//!
//! ```text
//!   node,group,switch                   node,switch
//!   nid001,g0,s3                        x1000c0s0b0n0,x1000c0r7     the cabinet x1000 is the group
//! ```

use std::collections::BTreeMap;

use crate::import::{Assumed, Shape, ShapeFabric, ShapeNode};
use crate::input::Table;
use crate::problem::{InputError, Problems, Reason};

/// Reads a CSV table with the header `node,group,switch`, or `node,switch`. In the second form the
/// name of a switch begins with the name of its cabinet, and the cabinet is the group. Groups and
/// switches are numbered in the order in which they first appear.
///
/// # Errors
///
/// Another header, and every line that does not have this form or repeats a node.
pub fn dragonfly(file: &str, text: &str, assumed: Assumed) -> Result<Shape, InputError> {
    let mut problems = Problems::new(file);
    let table = Table::read(&mut problems, text, &["node,group,switch", "node,switch"]);
    let mut lines: BTreeMap<&str, u32> = BTreeMap::new();
    let mut groups: BTreeMap<&str, u32> = BTreeMap::new();
    let mut switches: BTreeMap<(u32, &str), u32> = BTreeMap::new();
    let mut in_group: Vec<u32> = Vec::new();
    let mut nodes = Vec::new();
    for (line, fields) in &table.rows {
        let (node, switch) = (&fields[0], &fields[fields.len() - 1]);
        let group = match &fields[..] {
            [_, group, _] => Some(group.as_str()),
            _ => cabinet(switch),
        };
        let Some(group) = group.filter(|group| !group.is_empty()) else {
            problems.value(*line, "switch", switch, "a name such as x1000c0r7");
            continue;
        };
        if node.is_empty() || switch.is_empty() {
            problems.add(*line, Reason::Missing("a node or its switch".to_owned()));
            continue;
        }
        if let Some(first) = lines.insert(node, *line) {
            problems.value(*line, "node", node, &format!("new: it is at line {first}"));
        }
        // There are no more groups or switches than lines.
        let next = in_group.len() as u32;
        let group = *groups.entry(group).or_insert(next);
        if group == next {
            in_group.push(0);
        }
        let count = &mut in_group[group as usize];
        let place = *switches.entry((group, switch)).or_insert(*count);
        *count = (*count).max(place + 1);
        nodes.push((node.clone(), vec![group, place]));
    }
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
    let links_per_pair = assumed.links_per_pair;
    problems.into_result(Shape {
        fabric: ShapeFabric::Dragonfly {
            groups,
            switches,
            links_per_pair,
            local: assumed.capacity,
            global: assumed.capacity,
        },
        nodes: ShapeNode::numbered(nodes),
        assumptions: vec![
            format!("each link has {} GB/s", assumed.capacity),
            format!("each two groups have {links_per_pair} links between them"),
            "the switches of a group are linked each with each".to_owned(),
        ],
        warnings: Vec::new(),
        skipped: Vec::new(),
    })
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
}
