//! Reads the table of routers of an imported machine.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt::{self, Write};

use lnet_types::Net;

use crate::document::quoted;
use crate::import::{Shape, ShapeNode, nics};
use crate::input::{Table, is_file_name, net};
use crate::problem::{InputError, Place, Problem, Problems, Reason};

/// A line of the table: one net of one router node.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RouterLine {
    /// The group that serves the net.
    pub group: String,
    /// The sub-group, from 1.
    pub sub_group: u16,
    /// The blade of the node, which fails as a whole.
    pub blade: String,
    /// The node's name in the topology.
    pub node: String,
    /// The net.
    pub net: Net,
    /// The line in the file.
    pub place: Place,
}

/// Reads a CSV table with the header `group,subgroup,blade,node,net` and a line for each net of
/// each router node. Blades of a sub-group are placed in the order in which they first appear.
///
/// # Errors
///
/// Another header, and every line that does not have this form.
pub fn read_routers(file: &str, text: &str) -> Result<Vec<RouterLine>, InputError> {
    let mut problems = Problems::new(file);
    let table = Table::read(&mut problems, text, &["group,subgroup,blade,node,net"]);
    let mut lines = Vec::new();
    for (line, fields) in &table.rows {
        let [group, sub_group, blade, node, word] = &fields[..] else {
            continue;
        };
        let number = sub_group.parse().ok().filter(|&n: &u16| n > 0);
        if number.is_none() {
            problems.value(*line, "subgroup", sub_group, "a number from 1");
        }
        if [group, blade, node].into_iter().any(String::is_empty) {
            problems.add(
                *line,
                Reason::Missing("a group, a blade or a node".to_owned()),
            );
        }
        if !blade.is_empty() && !is_file_name(blade) {
            let wanted = "a name of letters, digits, '-', '_' and '.'";
            problems.value(*line, "blade", blade, wanted);
        }
        let net = net(&mut problems, *line, "net", word);
        if let (Some(sub_group), Some(net)) = (number, net) {
            lines.push(RouterLine {
                group: group.clone(),
                sub_group,
                blade: blade.clone(),
                node: node.clone(),
                net,
                place: problems.place(*line),
            });
        }
    }
    problems.into_result(lines)
}

/// Rejects routers that are not nodes of the shape.
pub(super) fn check(shape: &Shape, routers: &[RouterLine]) -> Result<(), InputError> {
    let known: BTreeSet<&str> = shape.nodes.iter().map(|node| node.name.as_str()).collect();
    let unknown = routers
        .iter()
        .filter(|line| !known.contains(line.node.as_str()));
    let problems: Vec<Problem> = unknown
        .map(|line| Problem {
            place: line.place.clone(),
            reason: Reason::Value {
                key: "node".to_owned(),
                found: crate::problem::shown(&line.node),
                wanted: "a node of the topology".to_owned(),
            },
        })
        .collect();
    if problems.is_empty() {
        Ok(())
    } else {
        Err(InputError(problems))
    }
}

/// Writes the groups, or a comment if there are none.
pub(super) fn write(shape: &Shape, routers: &[RouterLine], out: &mut String) -> fmt::Result {
    let nodes = shape.nodes.iter();
    let nodes: BTreeMap<&str, &ShapeNode> = nodes.map(|node| (node.name.as_str(), node)).collect();
    if routers.is_empty() {
        return writeln!(out, "groups: []   # the routers: see docs/machine-files.md");
    }
    writeln!(out, "groups:")?;
    for (group, lines) in by(routers.iter(), |line| line.group.clone()) {
        let nets: BTreeSet<String> = lines.iter().map(|line| line.net.to_string()).collect();
        let nets: Vec<String> = nets.into_iter().collect();
        writeln!(
            out,
            "  - name: {}\n    nets: [{}]",
            quoted(&group),
            nets.join(", ")
        )?;
        writeln!(out, "    sub-groups:")?;
        let mut sub_groups = by(lines.into_iter(), |line| line.sub_group);
        sub_groups.sort_by_key(|(number, _)| *number);
        for (_, lines) in sub_groups {
            writeln!(out, "      - modules:")?;
            for (blade, lines) in by(lines.into_iter(), |line| line.blade.clone()) {
                let first = lines.first().and_then(|line| nodes.get(line.node.as_str()));
                let at = first.map_or(&[][..], |node| &node.at[..]);
                writeln!(
                    out,
                    "          - blade: {}\n            at: {at:?}",
                    quoted(&blade)
                )?;
                writeln!(out, "            nodes:")?;
                for (node, lines) in by(lines.into_iter(), |line| line.node.clone()) {
                    let Some(ShapeNode {
                        id, name, at, nics, ..
                    }) = nodes.get(node.as_str()).copied()
                    else {
                        continue;
                    };
                    let nets: Vec<String> = lines.iter().map(|line| line.net.to_string()).collect();
                    let (name, nets, nics) = (quoted(name), nets.join(", "), nics::text(nics));
                    writeln!(
                        out,
                        "              - {{id: {id}, name: {name}, at: {at:?}, nets: [{nets}]{nics}}}"
                    )?;
                }
            }
        }
    }
    Ok(())
}

/// Groups lines with equal keys, in the order in which the keys first appear.
fn by<'a, K: PartialEq>(
    lines: impl Iterator<Item = &'a RouterLine>,
    key: impl Fn(&RouterLine) -> K,
) -> Vec<(K, Vec<&'a RouterLine>)> {
    let mut found: Vec<(K, Vec<&RouterLine>)> = Vec::new();
    for line in lines {
        let key = key(line);
        match found.iter_mut().find(|(known, _)| *known == key) {
            Some((_, lines)) => lines.push(line),
            None => found.push((key, vec![line])),
        }
    }
    found
}
