//! Reads the YAML document of a plan.

use std::collections::BTreeMap;

use lnet_types::Net;

use crate::input::fields::{Fields, items, parse_all, text};
use crate::input::fits;
use crate::input::plan_lines;
use crate::input::yaml::{self, Node, Value};
use crate::machine::Machine;
use crate::plan::{Plan, Row};
use crate::policy::Policy;
use crate::problem::{InputError, Problems, Reason, shown};
use crate::topology::Vertex;

/// Reads a plan that [`crate::write_yaml`] wrote for this machine. The document does not contain
/// the parameters of the policy; the plan gets their defaults.
///
/// # Errors
///
/// Everything that is wrong with the document: invalid YAML, an unknown policy, clients, nets or
/// routers that the machine does not have, clients without a table or with two.
pub fn read_plan(file: &str, source: &str, machine: &Machine) -> Result<Plan, InputError> {
    let mut problems = Problems::new(file);
    if !fits(&mut problems, source) {
        return Err(InputError(problems.found));
    }
    let root = plan_lines::load(source).map_or_else(|| yaml::load(source), Ok);
    let plan = match root {
        Ok(root) => Reader::new(machine, &mut problems).plan(&root),
        Err(yaml::NotYaml { line, reason }) => {
            problems.add(line, Reason::Yaml(reason));
            None
        }
    };
    match problems.into_result(plan)? {
        Some(plan) => Ok(plan),
        // If there is no plan, an error was reported.
        None => Err(InputError(Vec::new())),
    }
}

/// A route table: the routers of each net, best first.
type Table = Vec<Vec<u16>>;

struct Reader<'a> {
    machine: &'a Machine,
    problems: &'a mut Problems,
    nets: BTreeMap<Net, usize>,
    routers: BTreeMap<(usize, u32), u16>,
    /// Index of each client's table.
    table_of: Vec<Option<usize>>,
}

impl<'a> Reader<'a> {
    fn new(machine: &'a Machine, problems: &'a mut Problems) -> Self {
        let nets = machine.nets.iter().enumerate();
        let routers = (0_u16..).zip(&machine.routers);
        Self {
            problems,
            nets: nets.map(|(index, entry)| (entry.net, index)).collect(),
            routers: routers
                .map(|(index, r)| ((r.net.into(), r.id), index))
                .collect(),
            table_of: vec![None; machine.clients.len()],
            machine,
        }
    }

    fn plan(mut self, root: &Node<'_>) -> Option<Plan> {
        let mut fields = Fields::of(root, "the document", self.problems);
        let machine: Option<String> = fields.parsed("machine", "a name", self.problems);
        let line = fields.line;
        let _origin = fields.optional("origin");
        let _doubts = fields.optional("warnings");
        let _names = fields.optional("names");
        let policy = fields.required("policy", self.problems);
        let policy = policy.and_then(|node| self.policy(node));
        let tables = fields.required("tables", self.problems);
        fields.report_rest(self.problems);
        if let Some(name) = machine.filter(|name| *name != self.machine.name) {
            let wanted = format!("{}, the machine that was given", self.machine.name);
            self.problems.value(line, "machine", &name, &wanted);
        }
        let nodes = tables.map_or(&[][..], |node| items(node, "tables", self.problems));
        let tables: Vec<Table> = (0..)
            .zip(nodes)
            .map(|(index, node)| self.table(node, index))
            .collect();
        for (client, table) in self.machine.clients.iter().zip(&self.table_of) {
            if table.is_none() {
                self.problems.add(
                    line,
                    Reason::Missing(format!("a table for client {}", client.id)),
                );
            }
        }
        let table_of: Vec<usize> = self.table_of.iter().copied().collect::<Option<_>>()?;
        Some(rows(self.machine, policy?, &tables, &table_of))
    }

    fn policy(&mut self, node: &Node<'_>) -> Option<Policy> {
        let name = text(node, "policy", self.problems)?;
        let found = Policy::ALL.into_iter().find(|policy| policy.name() == name);
        if found.is_none() {
            let names = Policy::ALL.map(Policy::name).join(", ");
            self.problems
                .value(node.line, "policy", name, &format!("one of {names}"));
        }
        found
    }

    fn table(&mut self, node: &Node<'_>, index: usize) -> Table {
        let mut table = vec![Vec::new(); self.machine.nets.len()];
        let mut fields = Fields::of(node, "table", self.problems);
        let clients = fields.required("clients", self.problems);
        let routes = fields.required("routes", self.problems);
        fields.report_rest(self.problems);
        if let Some(node) = clients {
            self.clients(node, index);
        }
        let Some(Node {
            line,
            value: Value::Mapping(routes),
        }) = routes
        else {
            self.problems
                .value(node.line, "routes", "something else", "a mapping of nets");
            return table;
        };
        let mut seen = 0;
        for (net, routers) in routes {
            let name = text(net, "net", self.problems).unwrap_or_default();
            let known = name
                .parse()
                .ok()
                .and_then(|net: Net| self.nets.get(&net).copied());
            match known {
                Some(net) if table[net].is_empty() => {
                    table[net] = self.routers(routers, net);
                    seen += 1;
                }
                _ => self
                    .problems
                    .value(net.line, "net", name, "a net of the machine, once"),
            }
        }
        if seen < table.len() {
            self.problems
                .add(*line, Reason::Missing("a net of the machine".to_owned()));
        }
        table
    }

    fn routers(&mut self, node: &Node<'_>, net: usize) -> Vec<u16> {
        let ids: Vec<u32> =
            parse_all(node, "routers", "a number", self.problems).unwrap_or_default();
        let mut routers = Vec::with_capacity(ids.len());
        for id in ids {
            match self.routers.get(&(net, id)) {
                Some(router) if !routers.contains(router) => routers.push(*router),
                _ => {
                    let wanted = format!("a router on {}, once", self.machine.nets[net].net);
                    self.problems
                        .value(node.line, "routers", &id.to_string(), &wanted);
                }
            }
        }
        routers
    }

    /// Assigns this table to the clients of a list such as `0,7,64-71`.
    fn clients(&mut self, node: &Node<'_>, table: usize) {
        let list = text(node, "clients", self.problems).unwrap_or_default();
        let clients = &self.machine.clients;
        for range in list.split(',') {
            let (first, last) = range.split_once('-').unwrap_or((range, range));
            let (Ok(first), Ok(last)) = (first.parse::<u32>(), last.parse::<u32>()) else {
                self.problems
                    .value(node.line, "clients", range, "a number or a range");
                continue;
            };
            let from = clients.partition_point(|client| client.id < first);
            let to = clients.partition_point(|client| client.id <= last);
            if first > last || to - from != (u64::from(last) + 1 - u64::from(first)) as usize {
                self.problems.value(
                    node.line,
                    "clients",
                    &shown(range),
                    "clients of the machine",
                );
                continue;
            }
            for (client, known) in clients[from..to].iter().zip(&mut self.table_of[from..to]) {
                if known.replace(table).is_some() {
                    let id = client.id.to_string();
                    self.problems.value(
                        node.line,
                        "clients",
                        &id,
                        "a client without a table so far",
                    );
                }
            }
        }
    }
}

/// Makes a row for each combination of vertex and table.
fn rows(machine: &Machine, policy: Policy, tables: &[Table], table_of: &[usize]) -> Plan {
    let mut known: BTreeMap<(Vertex, usize), u32> = BTreeMap::new();
    let (mut rows, mut tables_of_rows, mut row_of) = (Vec::new(), Vec::new(), Vec::new());
    for (client, &table) in machine.clients.iter().zip(table_of) {
        let vertex = client.vertex;
        // There are no more rows than clients.
        let row = *known.entry((vertex, table)).or_insert(rows.len() as u32);
        if row as usize == rows.len() {
            rows.push(Row { vertex, clients: 0 });
            tables_of_rows.push(table);
        }
        rows[row as usize].clients += 1;
        row_of.push(row);
    }
    let choices = tables
        .iter()
        .flatten()
        .map(Vec::len)
        .max()
        .unwrap_or(1)
        .max(1);
    let mut plan = Plan::new(machine, policy, choices, rows, row_of);
    let mut part = plan.fill();
    for (row, table) in tables_of_rows.into_iter().enumerate() {
        for (net, routers) in tables[table].iter().enumerate() {
            part.set(row, net, routers);
        }
    }
    plan
}
