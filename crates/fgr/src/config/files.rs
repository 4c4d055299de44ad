//! The files of a site: which node has which class, an inventory, and the list of servers.
//!
//! ```text
//!   classes/client-001.yaml         for lnetctl import
//!   classes/client-001.conf         for /etc/modprobe.d instead of the document, where a kernel takes it
//!   classes/client-001.udsp         selection rules as commands, where rules choose the routers
//!   module.conf                     for /etc/modprobe.d beside the document: what no document can say
//!   nodes.csv                       node,role,class,blade,nids
//!   inventory.yaml                  for Ansible: a group for each role and class
//! ```

use std::collections::BTreeMap;
use std::fmt::Write;

use lnet_types::Nid;

use crate::config::scheme::Server;
use crate::config::text::yaml;
use crate::config::{ModprobeRefusal, NodeRole, Site};
use crate::input::fits;
use crate::problem::{InputError, Problems, Reason, shown};

/// The header of `nodes.csv`.
const HEADER: &str = "node,role,class,blade,nids";

/// A line of `nodes.csv`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct NodeLine {
    /// The node's name.
    pub name: String,
    /// What it does.
    pub role: NodeRole,
    /// The name of its class.
    pub class: String,
    /// What fails together with it.
    pub blade: Option<String>,
    /// Its NIDs, at least one.
    pub nids: Vec<Nid>,
}

/// The texts of a site.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SiteFiles<'a> {
    /// Path below one directory, and text.
    pub files: Vec<(String, String)>,
    /// Classes without a `modprobe.d` form, and why.
    pub refused: Vec<(&'a str, ModprobeRefusal)>,
}

impl Site {
    /// All files of the site.
    #[must_use]
    pub fn files(&self) -> SiteFiles<'_> {
        let mut files = Vec::new();
        let mut refused = Vec::new();
        for class in &self.classes {
            files.push((format!("classes/{}.yaml", class.name), class.yaml()));
            match class.modprobe(self.timing) {
                Ok(text) => files.push((format!("classes/{}.conf", class.name), text)),
                Err(why) => refused.push((class.name.as_str(), why)),
            }
            if !class.rules.is_empty() {
                let path = format!("classes/{}.udsp", class.name);
                files.push((path, class.udsp_commands()));
            }
        }
        files.push(("module.conf".to_owned(), self.timing.module_options()));
        files.push(("nodes.csv".to_owned(), self.nodes_csv()));
        files.push(("inventory.yaml".to_owned(), self.inventory()));
        SiteFiles { files, refused }
    }

    /// A document for each node, with its NIDs instead of names of interfaces, by its path.
    pub fn node_files(&self) -> impl Iterator<Item = (String, String)> + '_ {
        self.nodes.iter().map(|node| {
            let path = format!("nodes/{}.yaml", node.name);
            (path, yaml(&self.node_config(node)))
        })
    }

    /// The nodes, a line each; NIDs are separated by blanks.
    #[must_use]
    pub fn nodes_csv(&self) -> String {
        let mut text = format!("{HEADER}\n");
        for node in &self.nodes {
            let class = self.class_of(node);
            let blade = node.blade.as_deref().unwrap_or_default();
            let nids: Vec<String> = node.nids.iter().map(Nid::to_string).collect();
            let (role, nids) = (class.role.name(), nids.join(" "));
            // Writing to a String cannot fail, here and below.
            let _ = writeln!(text, "{},{role},{},{blade},{nids}", node.name, class.name);
        }
        text
    }

    /// A fragment of an Ansible inventory: a group for each role, in it one for each class, whose
    /// variable `lnet_conf` names the document to install.
    #[must_use]
    pub fn inventory(&self) -> String {
        let mut members: BTreeMap<usize, Vec<&str>> = BTreeMap::new();
        for node in &self.nodes {
            members.entry(node.class).or_default().push(&node.name);
        }
        let mut text = String::from("all:\n  children:\n");
        for role in [NodeRole::Client, NodeRole::Router, NodeRole::Server] {
            let _ = writeln!(text, "    lnet_{}s:\n      children:", role.name());
            for (index, class) in self.classes.iter().enumerate() {
                if class.role != role {
                    continue;
                }
                let group = class.name.replace('-', "_");
                let _ = writeln!(text, "        lnet_{group}:\n          vars:");
                let _ = writeln!(text, "            lnet_conf: classes/{}.yaml", class.name);
                let _ = writeln!(text, "          hosts:");
                for name in members.get(&index).into_iter().flatten() {
                    let _ = writeln!(text, "            {name}:");
                }
            }
        }
        text
    }
}

/// Reads `nodes.csv`.
///
/// # Errors
///
/// A header that is another one, and every line that does not have this form or repeats a name.
pub fn read_nodes(file: &str, text: &str) -> Result<Vec<NodeLine>, InputError> {
    let mut problems = Problems::new(file);
    let mut nodes = Vec::new();
    let mut lines: BTreeMap<&str, u32> = BTreeMap::new();
    let readable = fits(&mut problems, text);
    for (line, content) in (1..).zip(text.lines()).take_while(|_| readable) {
        let fields: Vec<&str> = content.split(',').map(str::trim).collect();
        let &[name, role, class, blade, nids] = &fields[..] else {
            let (found, expected, layout) = (fields.len(), 5, HEADER);
            problems.add(
                line,
                Reason::Columns {
                    found,
                    expected,
                    layout,
                },
            );
            continue;
        };
        if line == 1 {
            if fields.join(",") != HEADER {
                problems.value(1, "header", content, HEADER);
            }
            continue;
        }
        if let Some(first) = lines.insert(name, line) {
            problems.value(
                line,
                "node",
                name,
                &format!("new: it is at line {first} already"),
            );
        }
        nodes.extend(node_line(
            &mut problems,
            line,
            [name, role, class, blade, nids],
        ));
    }
    problems.into_result(nodes)
}

fn node_line(problems: &mut Problems, line: u32, fields: [&str; 5]) -> Option<NodeLine> {
    let [name, role, class, blade, nids] = fields;
    let known_role = NodeRole::from_name(role);
    if known_role.is_none() {
        problems.value(line, "role", role, "client, router or server");
    }
    let nids = nid_list(problems, line, nids);
    for (key, text) in [("node", name), ("class", class)] {
        if !is_file_name(text) {
            problems.value(
                line,
                key,
                text,
                "a name of letters, digits, '-', '_' and '.'",
            );
            return None;
        }
    }
    Some(NodeLine {
        name: name.to_owned(),
        role: known_role?,
        class: class.to_owned(),
        blade: (!blade.is_empty()).then(|| blade.to_owned()),
        nids: nids?,
    })
}

/// A name that stays in its directory.
pub(super) fn is_file_name(text: &str) -> bool {
    let is_plain = |byte: u8| byte.is_ascii_alphanumeric() || b"-_.".contains(&byte);
    !text.is_empty() && !text.starts_with('.') && text.bytes().all(is_plain)
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

/// Reads a list of servers: `NAME,NID` a line; a server with several interfaces has several lines.
/// Empty lines and those that begin with `#` are passed over.
///
/// # Errors
///
/// Every line that does not have this form, and every NID that appeared before.
pub fn read_servers(file: &str, text: &str) -> Result<Vec<Server>, InputError> {
    let mut problems = Problems::new(file);
    let mut servers: Vec<Server> = Vec::new();
    let mut by_name: BTreeMap<&str, usize> = BTreeMap::new();
    let mut seen: BTreeMap<Nid, u32> = BTreeMap::new();
    let readable = fits(&mut problems, text);
    for (line, content) in (1..).zip(text.lines()).take_while(|_| readable) {
        let content = content.trim();
        if content.is_empty() || content.starts_with('#') {
            continue;
        }
        let fields: Vec<&str> = content.split(',').map(str::trim).collect();
        let &[name, nid] = &fields[..] else {
            let (found, expected, layout) = (fields.len(), 2, "NAME,NID");
            problems.add(
                line,
                Reason::Columns {
                    found,
                    expected,
                    layout,
                },
            );
            continue;
        };
        if !is_file_name(name) {
            let wanted = "a name of letters, digits, '-', '_' and '.'";
            problems.value(line, "name", name, wanted);
        }
        let nids = nid_list(&mut problems, line, nid).unwrap_or_default();
        for &nid in &nids {
            if let Some(first) = seen.insert(nid, line) {
                let found = shown(&nid.to_string());
                problems.value(line, "nid", &found, &format!("new: it is at line {first}"));
            }
        }
        let next = servers.len();
        let index = *by_name.entry(name).or_insert(next);
        if index == next {
            let (name, nids) = (name.to_owned(), Vec::new());
            servers.push(Server { name, nids });
        }
        servers[index].nids.extend(nids);
    }
    problems.into_result(servers)
}
