//! The files of a site: the class of each node, an inventory, and the list of servers.
//!
//! ```text
//!   classes/client-001.yaml         for lnetctl import
//!   classes/client-001.conf         for /etc/modprobe.d instead of the document, if a kernel accepts it
//!   classes/client-001.udsp         selection rules as commands, if rules choose the routers
//!   module.conf                     for /etc/modprobe.d beside the document: what no document can hold
//!   nodes.csv                       node,role,class,blade,nids
//!   inventory.yaml                  for Ansible: a group for each role and class
//! ```
//!
//! Nodes with consecutive names and addresses and the same class share a line of `nodes.csv` and of
//! the inventory. Both files therefore stay small on machines with a million nodes:
//!
//! ```text
//!   nid[00020-00051],client,client-007,,10.1.0.[20-51]@tcp[101-112]
//! ```

use std::collections::BTreeMap;
use std::fmt::{self, Write};
use std::io::Read;
use std::sync::Arc;

use lnet_types::Nid;

use crate::config::nids::Nids;
use crate::config::scheme::Server;
use crate::config::siblings::Siblings;
use crate::config::text::yaml;
use crate::config::{Class, ModprobeRefusal, NodeRole, Site, SiteNode};
use crate::input::{Layout, NODE_NAME, fits, hosts, is_file_name, is_node_name, read_rows};
use crate::problem::{InputError, Problems, Reason, shown};

/// The header of `nodes.csv`.
const HEADER: &str = "node,role,class,blade,nids";

/// The first line of a node's document.
const INTERVALS: &str =
    "global: # with the intervals of router checks that the check of the site assumes\n";

/// Most nodes of a list: several times those of the largest machine of 2025.
const MAX_NODES: usize = 1 << 22;

/// Most nodes of one line: one block of addresses.
const MAX_LINE_NODES: usize = 1 << 12;

/// A node from `nodes.csv`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct NodeLine {
    /// The node's name.
    pub name: String,
    /// The role of the node.
    pub role: NodeRole,
    /// The name of its class.
    pub class: Arc<str>,
    /// The blade of the node, which fails as a whole.
    pub blade: Option<String>,
    /// The NIDs of the node, at least one.
    pub nids: Nids,
}

/// The files of a class.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ClassFiles {
    /// Pairs of a path below the directory of the site and a text.
    pub files: Vec<(String, String)>,
    /// Why the class has no `modprobe.d` form.
    pub refused: Option<ModprobeRefusal>,
}

impl Site {
    /// Makes the files of a class.
    #[must_use]
    pub fn class_files(&self, class: &Class) -> ClassFiles {
        let path = |extension: &str| format!("classes/{}.{extension}", class.name);
        let mut files = vec![(path("yaml"), class.yaml())];
        let refused = match class.modprobe(self.timing) {
            Ok(text) => {
                files.push((path("conf"), text));
                None
            }
            Err(why) => Some(why),
        };
        if !class.rules.is_empty() {
            files.push((path("udsp"), class.udsp_commands()));
        }
        ClassFiles { files, refused }
    }

    /// Returns the text of `module.conf`, which says how nodes watch their gateways.
    #[must_use]
    pub fn module_options(&self) -> String {
        self.timing.module_options()
    }

    /// Returns a document for each node, by path, with the node's NIDs instead of the names of
    /// interfaces, and for a router with other routers as peers.
    pub fn node_files(&self) -> impl Iterator<Item = (String, String)> + '_ {
        let siblings = Siblings::new(self);
        self.nodes.iter().map(move |node| {
            let path = format!("nodes/{}.yaml", node.name);
            let document = yaml(&self.config_among(node, &siblings));
            (path, document.replacen("global:\n", INTERVALS, 1))
        })
    }

    /// Writes `nodes.csv`, with one line for each run of nodes. Blanks separate NIDs.
    ///
    /// # Errors
    ///
    /// Errors of `out`.
    pub fn write_nodes(&self, out: &mut dyn Write) -> fmt::Result {
        writeln!(out, "{HEADER}")?;
        for run in self.nodes.chunk_by(follows) {
            let [first, ..] = run else { continue };
            let class = self.class_of(first);
            let (role, class) = (class.role.name(), class.name.as_str());
            let blade = first.blade.as_deref().unwrap_or_default();
            // At most MAX_LINE_NODES.
            let nids = first.nids.text(run.len() as u32 - 1);
            let names = names(run, '-');
            writeln!(out, "{names},{role},{class},{blade},{nids}")?;
        }
        Ok(())
    }

    /// Writes a fragment of an Ansible inventory: a group for each role, and in it a group for each
    /// class, whose variable `lnet_conf` names the document to install.
    ///
    /// # Errors
    ///
    /// Errors of `out`.
    pub fn write_inventory(&self, out: &mut dyn Write) -> fmt::Result {
        let mut members: BTreeMap<usize, Vec<&[SiteNode]>> = BTreeMap::new();
        for run in self.nodes.chunk_by(follows) {
            members.entry(run[0].class).or_default().push(run);
        }
        out.write_str("all:\n  children:\n")?;
        for role in [NodeRole::Client, NodeRole::Router, NodeRole::Server] {
            writeln!(out, "    lnet_{}s:\n      children:", role.name())?;
            for (index, class) in self.classes.iter().enumerate() {
                if class.role != role {
                    continue;
                }
                let group = class.name.replace('-', "_");
                writeln!(out, "        lnet_{group}:\n          vars:")?;
                writeln!(out, "            lnet_conf: classes/{}.yaml", class.name)?;
                writeln!(out, "          hosts:")?;
                for run in members.get(&index).into_iter().flatten() {
                    let names = names(run, ':');
                    // YAML takes some of these names for numbers: 0x12, 0b101.
                    match names.starts_with(|c: char| c.is_ascii_digit()) {
                        true => writeln!(out, "            \"{names}\":")?,
                        false => writeln!(out, "            {names}:")?,
                    }
                }
            }
        }
        Ok(())
    }
}

/// Returns whether two nodes are consecutive in name and addresses and otherwise equal.
fn follows(node: &SiteNode, next: &SiteNode) -> bool {
    node.class == next.class
        && node.blade == next.blade
        && is_next_name(&node.name, &next.name)
        && node.nids.are_followed_by(&next.nids)
}

/// Splits a name into its stem and the number at its end, if the number is short enough to count
/// with.
fn numbered(name: &str) -> Option<(&str, &str)> {
    let head = name.trim_end_matches(|c: char| c.is_ascii_digit());
    let number = &name[head.len()..];
    (1..=9).contains(&number.len()).then_some((head, number))
}

fn is_next_name(name: &str, next: &str) -> bool {
    let (Some((head, number)), Some((other, following))) = (numbered(name), numbered(next)) else {
        return false;
    };
    let (width, number) = (number.len(), number.parse::<u32>());
    head == other && number.is_ok_and(|n| following == format!("{:0width$}", n + 1))
}

/// The names of a run of nodes in one word, such as `nid[00020-00051]`.
fn names(run: &[SiteNode], to: char) -> String {
    let [first, .., last] = run else {
        return run.first().map_or(String::new(), |node| node.name.clone());
    };
    match (numbered(&first.name), numbered(&last.name)) {
        (Some((head, from)), Some((_, until))) => format!("{head}[{from}{to}{until}]"),
        _ => first.name.clone(),
    }
}

/// Reads `nodes.csv` line by line.
///
/// # Errors
///
/// Another header, and every line that does not have this form or repeats a name.
pub fn read_nodes(file: &str, input: impl Read) -> Result<Vec<NodeLine>, InputError> {
    let mut problems = Problems::new(file);
    let mut nodes: Vec<NodeLine> = Vec::new();
    let mut lines: Vec<u32> = Vec::new();
    let mut is_full = false;
    read_rows(
        &mut problems,
        input,
        Layout::Header(&[HEADER]),
        |problems, line, fields| {
            let &[names, role, class, blade, nids] = fields else {
                return;
            };
            let found = node_line(problems, line, [names, role, class, blade, nids]);
            if nodes.len() + found.len() > MAX_NODES {
                if !is_full {
                    let (what, max) = ("nodes", MAX_NODES);
                    problems.add(line, Reason::TooMany { what, max });
                }
                is_full = true;
                return;
            }
            lines.extend(found.iter().map(|_| line));
            nodes.extend(found);
        },
    );
    names_once(&mut problems, &nodes, &lines);
    problems.into_result(nodes)
}

/// Reports every name that an earlier line has.
fn names_once(problems: &mut Problems, nodes: &[NodeLine], lines: &[u32]) {
    let mut order: Vec<usize> = (0..nodes.len()).collect();
    order.sort_by(|&a, &b| (&nodes[a].name, a).cmp(&(&nodes[b].name, b)));
    for same in order.chunk_by(|&a, &b| nodes[a].name == nodes[b].name) {
        for &again in &same[1..] {
            let wanted = format!("new: it is at line {} already", lines[same[0]]);
            problems.value(lines[again], "node", &nodes[again].name, &wanted);
        }
    }
}

fn node_line(problems: &mut Problems, line: u32, fields: [&str; 5]) -> Vec<NodeLine> {
    let [list, role, class, blade, nids] = fields;
    let known_role = NodeRole::from_name(role);
    if known_role.is_none() {
        problems.value(line, "role", role, "client, router or server");
    }
    let names = hosts(list).unwrap_or_default();
    let is_list = (1..=MAX_LINE_NODES).contains(&names.len());
    let nids = match Nids::parse(nids, names.len()) {
        _ if !is_list => None,
        Ok(nids) if nids.iter().any(Nids::is_empty) => {
            problems.add(line, Reason::Missing("a NID".to_owned()));
            None
        }
        Ok(nids) => Some(nids),
        Err(word) => {
            let wanted = match names.len() {
                1 => "a NID, such as 10.0.0.1@o2ib201 or 10.0.0.1@tcp[101-112]".to_owned(),
                count => format!("the NIDs of {count} nodes, such as 10.0.0.[1-{count}]@o2ib201"),
            };
            problems.value(line, "nids", word, &wanted);
            None
        }
    };
    for (key, text, is_good, wanted) in [
        (
            "node",
            list,
            is_list && names.iter().all(|name| is_node_name(name)),
            NODE_NAME,
        ),
        (
            "class",
            class,
            is_file_name(class),
            "a name of letters, digits, '-', '_' and '.'",
        ),
    ] {
        if !is_good {
            problems.value(line, key, text, wanted);
            return Vec::new();
        }
    }
    let (Some(role), Some(nids)) = (known_role, nids) else {
        return Vec::new();
    };
    let class: Arc<str> = class.into();
    let node = |(name, nids)| NodeLine {
        name,
        role,
        class: Arc::clone(&class),
        blade: (!blade.is_empty()).then(|| blade.to_owned()),
        nids,
    };
    names.into_iter().zip(nids).map(node).collect()
}

/// Reads a list of servers with `NAME,NID` on each line. A server with several interfaces has
/// several lines. Empty lines and lines that begin with `#` are skipped.
///
/// # Errors
///
/// Every line that does not have this form, and every NID of an earlier line.
pub fn read_servers(file: &str, text: &str) -> Result<Vec<Server>, InputError> {
    let mut problems = Problems::new(file);
    let mut servers: Vec<Server> = Vec::new();
    let mut by_name: BTreeMap<String, usize> = BTreeMap::new();
    let mut seen: BTreeMap<Nid, u32> = BTreeMap::new();
    if !fits(&mut problems, text) {
        return problems.into_result(servers);
    }
    let layout = Layout::Columns("NAME,NID");
    read_rows(
        &mut problems,
        text.as_bytes(),
        layout,
        |problems, line, fields| {
            let &[name, nid] = fields else {
                return;
            };
            if !is_node_name(name) {
                problems.value(line, "name", name, NODE_NAME);
            }
            let nids = nid_list(problems, line, nid).unwrap_or_default();
            for &nid in &nids {
                if let Some(first) = seen.insert(nid, line) {
                    let found = shown(&nid.to_string());
                    problems.value(line, "nid", &found, &format!("new: it is at line {first}"));
                }
            }
            let next = servers.len();
            let index = *by_name.entry(name.to_owned()).or_insert(next);
            if index == next {
                let (name, nids) = (name.to_owned(), Vec::new());
                servers.push(Server { name, nids });
            }
            servers[index].nids.extend(nids);
        },
    );
    problems.into_result(servers)
}

fn nid_list(problems: &mut Problems, line: u32, text: &str) -> Option<Vec<Nid>> {
    let nids: Option<Vec<Nid>> = text
        .split_whitespace()
        .map(|word| match word.parse::<Nid>() {
            Ok(nid) if !nid.is_any() && !nid.is_loopback() => Some(nid),
            _ => {
                problems.value(line, "nids", word, "a NID, such as 10.0.0.1@o2ib201");
                None
            }
        })
        .collect();
    if nids.as_ref().is_some_and(Vec::is_empty) {
        problems.add(line, Reason::Missing("a NID".to_owned()));
        return None;
    }
    nids
}
