//! Reads the table of interfaces of an imported machine.

use std::collections::BTreeMap;

use crate::document::quoted;
use crate::import::Shape;
use crate::input::{Table, net};
use crate::machine::Nic;
use crate::problem::{InputError, Place, Problem, Problems, Reason, shown};
use crate::rates::{RATE, is_rate};

/// A line of the table: one interface of one node.
#[derive(Clone, Debug, PartialEq)]
pub struct NicLine {
    /// The node's name in the topology.
    pub node: String,
    /// The interface.
    pub nic: Nic,
    /// The line in the file.
    pub place: Place,
}

/// Reads a CSV table with the header `node,net,interface,address,rate` and a line for each interface
/// of each node. `net` is empty for interfaces towards clients; `address` and `rate`, in GB/s, may be
/// empty.
///
/// # Errors
///
/// Another header, and every line that does not have this form.
pub fn read_nics(file: &str, text: &str) -> Result<Vec<NicLine>, InputError> {
    let mut problems = Problems::new(file);
    let table = Table::read(&mut problems, text, &["node,net,interface,address,rate"]);
    let mut lines = Vec::new();
    for (line, fields) in &table.rows {
        let [node, on, interface, address, rate] = &fields[..] else {
            continue;
        };
        if node.is_empty() {
            problems.add(*line, Reason::Missing("a node".to_owned()));
        }
        let given = |text: &str| !text.is_empty();
        let on = given(on)
            .then(|| net(&mut problems, *line, "net", on))
            .flatten();
        let number = rate.parse().ok().filter(|rate: &f64| is_rate(*rate));
        if number.is_none() && given(rate) {
            problems.value(*line, "rate", rate, RATE);
        }
        let place = address.parse().ok();
        if place.is_none() && given(address) {
            problems.value(*line, "address", address, "an IPv4 address");
        }
        lines.push(NicLine {
            node: node.clone(),
            nic: Nic {
                net: on,
                interface: given(interface).then(|| interface.clone()),
                address: place,
                rate: number,
            },
            place: problems.place(*line),
        });
    }
    problems.into_result(lines)
}

impl Shape {
    /// Gives nodes their interfaces.
    ///
    /// # Errors
    ///
    /// Lines of nodes that the topology does not have.
    pub fn add_nics(&mut self, lines: Vec<NicLine>) -> Result<(), InputError> {
        let nodes = self.nodes.iter().enumerate();
        let by_name: BTreeMap<String, usize> =
            nodes.map(|(at, node)| (node.name.clone(), at)).collect();
        let mut problems = Vec::new();
        for line in lines {
            match by_name.get(&line.node) {
                Some(&at) => self.nodes[at].nics.push(line.nic),
                None => problems.push(Problem {
                    place: line.place,
                    reason: Reason::Value {
                        key: "node".to_owned(),
                        found: shown(&line.node),
                        wanted: "a node of the topology".to_owned(),
                    },
                }),
            }
        }
        match problems.is_empty() {
            true => Ok(()),
            false => Err(InputError(problems)),
        }
    }
}

/// Formats interfaces as the end of a node's entry: `, nics: [{interface: "hsn0"}]`.
pub(super) fn text(nics: &[Nic]) -> String {
    let one = |nic: &Nic| {
        let parts = [
            nic.net.map(|net| format!("net: {net}")),
            nic.interface
                .as_ref()
                .map(|name| format!("interface: {}", quoted(name))),
            nic.address.map(|address| format!("address: {address}")),
            nic.rate.map(|rate| format!("rate: {rate}")),
        ];
        let parts: Vec<String> = parts.into_iter().flatten().collect();
        format!("{{{}}}", parts.join(", "))
    };
    match nics {
        [] => String::new(),
        nics => format!(
            ", nics: [{}]",
            nics.iter().map(one).collect::<Vec<_>>().join(", ")
        ),
    }
}
