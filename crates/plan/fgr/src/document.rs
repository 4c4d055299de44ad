//! A plan as a YAML document: its different route tables, each with its clients.
//!
//! ```yaml
//! machine: mini
//! origin: synthetic
//! policy: strict
//! warnings: []
//! names: {1011: "gw1"}                # of routers, if the machine has some
//! tables:
//!   - clients: "0,7,64-71"
//!     routes:
//!       o2ib201: [1011, 1012, 1013]     # primary, backups
//! ```

use std::collections::BTreeMap;
use std::fmt::{self, Write};

use crate::machine::{Machine, Origin};
use crate::plan::Plan;

/// Writes the document. Tables are in the order of their first clients; nodes are written as the
/// machine's numbers.
///
/// # Errors
///
/// Errors of `out`.
pub fn write_yaml(machine: &Machine, plan: &Plan, out: &mut impl Write) -> fmt::Result {
    let origin = match machine.origin {
        Origin::Published => "published",
        Origin::Assumed => "assumed",
        Origin::Synthetic => "synthetic",
    };
    writeln!(out, "machine: {}", quoted(&machine.name))?;
    writeln!(out, "origin: {origin}")?;
    writeln!(out, "policy: {}", plan.policy.name())?;
    let doubts = machine.warnings.iter().map(ToString::to_string);
    let doubts: Vec<String> = doubts
        .chain(plan.warnings.iter().map(ToString::to_string))
        .map(|doubt| quoted(&doubt))
        .collect();
    writeln!(out, "warnings: [{}]", doubts.join(", "))?;
    let names = machine.details.names.iter();
    let names: Vec<String> = names
        .map(|(id, name)| format!("{id}: {}", quoted(name)))
        .collect();
    if !names.is_empty() {
        writeln!(out, "names: {{{}}}", names.join(", "))?;
    }
    writeln!(out, "tables:")?;
    for (row, clients) in tables(machine, plan) {
        writeln!(out, "  - clients: \"{}\"", ranges(&clients))?;
        writeln!(out, "    routes:")?;
        for (net, entry) in machine.nets.iter().enumerate() {
            let routers = plan.routers(row, net).iter();
            let ids: Vec<u32> = routers
                .map(|&r| machine.routers[usize::from(r)].id)
                .collect();
            writeln!(out, "      {}: {ids:?}", entry.net)?;
        }
    }
    Ok(())
}

/// Quotes text so that YAML reads it back unchanged.
pub(crate) fn quoted(text: &str) -> String {
    let mut quoted = String::from("\"");
    for character in text.chars() {
        match character {
            '"' | '\\' => quoted.extend(['\\', character]),
            ' '..='~' => quoted.push(character),
            other => quoted += &format!("\\U{:08X}", u32::from(other)),
        }
    }
    quoted + "\""
}

/// Returns the different route tables, each as one row with it and the numbers of its clients in
/// ascending order.
fn tables(machine: &Machine, plan: &Plan) -> Vec<(usize, Vec<u32>)> {
    let mut found: Vec<(usize, Vec<u32>)> = Vec::new();
    let classes = classes(machine, plan);
    for (client, &class) in machine.clients.iter().zip(&classes.of_client) {
        match found.get_mut(class) {
            Some((_, clients)) => clients.push(client.id),
            None => found.push((classes.rows[class], vec![client.id])),
        }
    }
    found
}

/// Clients, grouped by route table.
pub(crate) struct Classes {
    /// One row of each class, in the order of the first clients.
    pub(crate) rows: Vec<usize>,
    /// The class of each client.
    pub(crate) of_client: Vec<usize>,
}

/// Groups clients with equal route tables.
pub(crate) fn classes(machine: &Machine, plan: &Plan) -> Classes {
    let mut known: BTreeMap<&[u16], usize> = BTreeMap::new();
    let mut class_of_row: Vec<Option<usize>> = vec![None; plan.rows().len()];
    let mut classes = Classes {
        rows: Vec::new(),
        of_client: Vec::with_capacity(machine.clients.len()),
    };
    for client in 0..machine.clients.len() {
        let row = plan.row_of(client);
        let class = *class_of_row[row].get_or_insert_with(|| {
            let next = known.len();
            *known.entry(plan.table(row)).or_insert(next)
        });
        if class == classes.rows.len() {
            classes.rows.push(row);
        }
        classes.of_client.push(class);
    }
    classes
}

/// Formats ascending numbers as ranges: `0-3,7`.
fn ranges(numbers: &[u32]) -> String {
    let runs = numbers.chunk_by(|a, b| a.checked_add(1) == Some(*b));
    let runs: Vec<String> = runs
        .map(|run| match run {
            [one] => one.to_string(),
            [first, .., last] => format!("{first}-{last}"),
            [] => String::new(),
        })
        .collect();
    runs.join(",")
}

#[cfg(test)]
mod tests {
    use super::{ranges, write_yaml};
    use crate::topology::{Dimension, Grid, Tie};
    use crate::{Options, Policy, Problem, Reason, Synthetic, assign, read_machine, synthetic};

    #[test]
    fn neighbours_are_written_as_a_range() {
        assert_eq!(
            ranges(&[0, 1, 2, 5, 7, 8, u32::MAX]),
            "0-2,5,7-8,4294967295"
        );
    }

    #[test]
    fn the_document_is_yaml_for_every_name_of_a_machine() {
        let dimension = |name: &str| Dimension {
            name: name.to_owned(),
            size: 4,
            wrap: true,
            cost: 1,
            capacity: vec![1.0],
        };
        let grid = Grid::new(["x", "y", "z"].map(dimension).to_vec()).unwrap();
        let size = Synthetic {
            groups: 2,
            modules: 3,
            nets: 1,
        };
        let machine = synthetic("a \"b\" \\ \u{7} ä: #", grid, Tie::Split, size).unwrap();
        let plan = assign(&machine, Policy::STRICT, &Options::default()).unwrap();
        let mut text = String::new();
        write_yaml(&machine, &plan, &mut text).unwrap();
        // The document is not a machine, but it is YAML.
        let problems = read_machine("plan.yaml", &text).unwrap_err().0;
        let not_yaml = |problem: &Problem| matches!(problem.reason, Reason::Yaml(_));
        assert!(!problems.iter().any(not_yaml), "{problems:?} in {text}");
    }
}
