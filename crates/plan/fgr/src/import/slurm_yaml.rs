//! Reads Slurm's `topology.yaml`: a list of topologies.
//!
//! ```yaml
//! - topology: topo1
//!   cluster_default: true
//!   tree:
//!     switches:
//!       - {switch: root, children: "s[1-2]"}
//!       - {switch: s1, nodes: "n[01-16]"}
//! - topology: topo2
//!   block:
//!     block_sizes: [16, 32]
//!     blocks:
//!       - {block: b1, nodes: "n[01-16]"}
//! ```

use crate::import::slurm::{Below, Reader};
use crate::input::fields::{Fields, items, text};
use crate::input::fits;
use crate::input::yaml::{self, Node};
use crate::problem::{InputError, Problems, Reason, shown};

/// Decides whether a text is the YAML form: its first line with content begins a document or an
/// item. No line of `topology.conf` does.
pub(super) fn is_yaml(source: &str) -> bool {
    let lines = source
        .lines()
        .map(|line| line.split('#').next().unwrap_or_default().trim());
    let first = lines.into_iter().find(|line| !line.is_empty());
    first.is_some_and(|line| line == "---" || line.starts_with("- ") || line.starts_with('['))
}

/// Reads the topology of the whole cluster, or the first.
pub(super) fn read(file: &str, source: &str) -> Result<Reader, InputError> {
    let mut problems = Problems::new(file);
    let mut reader = Reader::default();
    if !fits(&mut problems, source) {
        return problems.into_result(reader);
    }
    match yaml::load(source) {
        Ok(root) => topologies(&root, &mut reader, &mut problems),
        Err(yaml::NotYaml { line, reason }) => problems.add(line, Reason::Yaml(reason)),
    }
    problems.into_result(reader)
}

/// One topology of the list.
struct Topology<'n, 'a> {
    name: String,
    is_default: bool,
    line: u32,
    tree: Option<&'n Node<'a>>,
    block: Option<&'n Node<'a>>,
}

fn topologies(root: &Node<'_>, reader: &mut Reader, problems: &mut Problems) {
    let all = items(root, "the document", problems).iter();
    let all: Vec<Topology<'_, '_>> = all.filter_map(|node| topology(node, problems)).collect();
    let chosen = all
        .iter()
        .position(|topology| topology.is_default)
        .unwrap_or(0);
    let others = all.iter().enumerate().filter(|(index, _)| *index != chosen);
    let others: Vec<String> = others.map(|(_, topology)| topology.name.clone()).collect();
    match all.get(chosen) {
        Some(Topology {
            tree: Some(node), ..
        }) => {
            list(node, &TREE, reader, problems);
        }
        Some(Topology {
            block: Some(node), ..
        }) => {
            reader.has_sizes = true;
            list(node, &BLOCK, reader, problems);
        }
        Some(topology) => {
            let wanted = "a topology with a tree or blocks: a flat one names no switches";
            problems.value(topology.line, "topology", &topology.name, wanted);
        }
        None => problems.add(1, Reason::Missing("a topology".to_owned())),
    }
    if !others.is_empty() {
        let (count, names) = (others.len(), crate::import::infiniband::listed(&others));
        reader.skipped.push(format!(
            "{count} topologies, because another one is the cluster's default or the first: {names}"
        ));
    }
}

fn topology<'n, 'a>(node: &'n Node<'a>, problems: &mut Problems) -> Option<Topology<'n, 'a>> {
    let mut fields = Fields::of(node, "topology", problems);
    let name = fields.required("topology", problems);
    let name = name.and_then(|node| text(node, "topology", problems).map(shown));
    let is_default = fields.parsed_or("cluster_default", "true or false", false, problems);
    let (tree, block) = (fields.optional("tree"), fields.optional("block"));
    let _flat = fields.optional("flat");
    fields.report_rest(problems);
    Some(Topology {
        name: name?,
        is_default,
        line: node.line,
        tree,
        block,
    })
}

/// The keys of a topology of one kind.
struct Keys {
    list: &'static str,
    item: &'static str,
    has_children: bool,
}

const TREE: Keys = Keys {
    list: "switches",
    item: "switch",
    has_children: true,
};
const BLOCK: Keys = Keys {
    list: "blocks",
    item: "block",
    has_children: false,
};

fn list(node: &Node<'_>, keys: &Keys, reader: &mut Reader, problems: &mut Problems) {
    let mut fields = Fields::of(node, keys.list, problems);
    let found = fields.required(keys.list, problems);
    if !keys.has_children {
        let _sizes = fields.optional("block_sizes");
    }
    fields.report_rest(problems);
    for node in found.map_or(&[][..], |node| items(node, keys.list, problems)) {
        item(node, keys, reader, problems);
    }
}

fn item(node: &Node<'_>, keys: &Keys, reader: &mut Reader, problems: &mut Problems) {
    let mut fields = Fields::of(node, keys.item, problems);
    let name = fields.required(keys.item, problems);
    let name = name.and_then(|node| text(node, keys.item, problems));
    let nodes = fields.optional("nodes");
    let children = match keys.has_children {
        true => fields.optional("children"),
        false => None,
    };
    fields.report_rest(problems);
    let mut names = |key: &str, node: &Node<'_>| {
        let value = text(node, key, problems)?;
        reader.list(node.line, key, value, problems)
    };
    let below = match (nodes, children) {
        (Some(nodes), None) => names("nodes", nodes).map(Below::Nodes),
        (None, Some(children)) => names("children", children).map(Below::Switches),
        _ => {
            let wanted = "an item with nodes, or with children";
            problems.value(node.line, keys.item, name.unwrap_or_default(), wanted);
            None
        }
    };
    if let (Some(name), Some(below)) = (name, below) {
        reader.add(node.line, name, below, problems);
    }
}

#[cfg(test)]
mod tests {
    use crate::import::{Assumed, Shape, slurm};

    const ASSUMED: Assumed = Assumed {
        capacity: 25.0,
        links_per_pair: 1,
    };

    const THREE: &str = "---\n- topology: blocks\n  block:\n    block_sizes: [2, 4]\n    blocks:\n      \
        - block: b1\n        nodes: m[1-2]\n- topology: main\n  cluster_default: true\n  tree:\n    switches:\n      \
        - switch: root # above all\n        children: s[1-2]\n      - switch: s1\n        nodes: n[1-2]\n      \
        - switch: s2\n        nodes: n[3-4]\n- topology: none\n  flat: true\n";

    fn names(shape: &Shape) -> String {
        let names: Vec<&str> = shape.nodes.iter().map(|node| node.name.as_str()).collect();
        names.join(" ")
    }

    #[test]
    fn the_default_topology_is_read_and_the_others_are_named() {
        let shape = slurm("topology.yaml", THREE, ASSUMED).unwrap();
        assert_eq!(names(&shape), "n1 n2 n3 n4");
        assert_eq!(shape.skipped.len(), 1);
        assert!(
            shape.skipped[0].ends_with("blocks, none"),
            "{:?}",
            shape.skipped
        );
        let first = THREE.replace("  cluster_default: true\n", "");
        assert_eq!(
            names(&slurm("topology.yaml", &first, ASSUMED).unwrap()),
            "m1 m2"
        );
    }

    #[test]
    fn errors_have_their_lines() {
        let complaint = |text: &str| slurm("t", text, ASSUMED).unwrap_err().to_string();
        let flat = complaint("- topology: none\n  flat: true\n");
        assert!(
            flat.starts_with("t:1: topology: 'none' is not a topology with a tree"),
            "{flat}"
        );
        let both =
            complaint(&THREE.replace("children: s[1-2]", "children: s[1-2]\n        nodes: x"));
        assert!(both.starts_with("t:12: switch: 'root'"), "{both}");
        let key = complaint(&THREE.replace("nodes: n[3-4]", "hosts: n[3-4]"));
        assert!(key.contains("t:17: unknown key 'hosts'"), "{key}");
        assert!(complaint("- topology: [\n").contains("not a YAML document"));
    }
}
