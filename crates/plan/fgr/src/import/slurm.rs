//! Reads Slurm's `topology.conf`, and gives `topology.yaml` to its own module.
//!
//! ```text
//!   SwitchName=leaf1 Nodes=n[01-18]            tree: leaf switches with nodes,
//!   SwitchName=top Switches=leaf[1-4]                switches with switches
//!   SwitchName=top2 Switches=leaf[1-4]               a switch may be below several
//!   BlockName=b1 Nodes=n[01-18]                block: blocks of nodes
//! ```

use std::collections::BTreeMap;

use crate::import::levels::{MAX_LEVELS, Switches};
use crate::import::{Assumed, Shape, ShapeNode, rejection, slurm_yaml};
use crate::input::{NODE_NAME, fits, hosts, is_node_name};
use crate::problem::{InputError, Problems, Reason, shown};
use crate::rates::{Known, RateSource};

/// Most nodes of a file: more than those of any machine of 2025.
const MAX_NODES: usize = 1 << 21;

/// Reads `topology.conf` or `topology.yaml` of the plugins `tree` and `block` as a fat tree. Of
/// several topologies in YAML, the cluster's default is read, or the first.
///
/// # Errors
///
/// Every line that does not belong to such a file, names that no line defines, nodes in two places,
/// rings, more than eight levels, a flat topology.
pub fn slurm(file: &str, text: &str, assumed: Assumed) -> Result<Shape, InputError> {
    if slurm_yaml::is_yaml(text) {
        return slurm_yaml::read(file, text)?.shape(file, assumed);
    }
    let mut problems = Problems::new(file);
    let mut reader = Reader::default();
    let readable = fits(&mut problems, text);
    for (line, content) in joined(text).into_iter().take_while(|_| readable) {
        reader.line(line, &content, &mut problems);
    }
    let reader = problems.into_result(reader)?;
    reader.shape(file, assumed)
}

/// Lines without comments, each with the number of its first line. A line that ends with a
/// backslash is joined with the next.
fn joined(text: &str) -> Vec<(u32, String)> {
    let mut lines: Vec<(u32, String)> = Vec::new();
    let mut open = false;
    for (number, line) in (1..).zip(text.lines()) {
        let line = line.split('#').next().unwrap_or_default().trim_end();
        let (content, goes_on) = match line.strip_suffix('\\') {
            Some(content) => (content, true),
            None => (line, false),
        };
        match lines.last_mut().filter(|_| open) {
            Some((_, before)) => before.push_str(content),
            None => lines.push((number, content.to_owned())),
        }
        open = goes_on;
    }
    lines.retain(|(_, content)| !content.trim().is_empty());
    lines
}

/// What is below a switch or in a block.
pub(super) enum Below {
    Nodes(Vec<String>),
    Switches(Vec<String>),
}

struct Switch {
    name: String,
    below: Below,
    line: u32,
}

#[derive(Default)]
pub(super) struct Reader {
    switches: Vec<Switch>,
    by_name: BTreeMap<String, usize>,
    /// Nodes of all switches so far.
    nodes: usize,
    has_speeds: bool,
    pub(super) has_sizes: bool,
    /// What was left out, with the reason.
    pub(super) skipped: Vec<String>,
}

impl Reader {
    fn line(&mut self, line: u32, content: &str, problems: &mut Problems) {
        const KEYS: &str = "SwitchName, BlockName, Nodes, Switches, LinkSpeed, BlockSizes";
        let (mut names, mut nodes, mut switches) = (None, None, None);
        let mut sizes = false;
        for word in content.split_whitespace() {
            let (key, value) = word.split_once('=').unwrap_or((word, ""));
            match key.to_ascii_lowercase().as_str() {
                "switchname" | "blockname" => names = Some(value),
                "nodes" => nodes = Some(value),
                "switches" => switches = Some(value),
                "linkspeed" => self.has_speeds = true,
                "blocksizes" => sizes = true,
                _ => {
                    let (key, known) = (shown(key), KEYS.to_owned());
                    problems.add(line, Reason::UnknownKey { key, known });
                    return;
                }
            }
        }
        self.has_sizes |= sizes;
        let mut list = |key: &str, value: &str| self.list(line, key, value, problems);
        let below = match (names, nodes, switches) {
            (Some(_), Some(nodes), None) => list("Nodes", nodes).map(Below::Nodes),
            (Some(_), None, Some(below)) => list("Switches", below).map(Below::Switches),
            (None, None, None) if sizes => return,
            _ => {
                let wanted = "a SwitchName or BlockName with Nodes or with Switches";
                problems.value(line, "line", content, wanted);
                return;
            }
        };
        let names = names.and_then(|names| list("SwitchName", names));
        let (Some(below), Some(names)) = (below, names) else {
            return;
        };
        let [name] = &names[..] else {
            problems.value(line, "SwitchName", content, "one name");
            return;
        };
        self.add(line, name, below, problems);
    }

    /// Adds a switch or block with what is below it.
    pub(super) fn add(&mut self, line: u32, name: &str, below: Below, problems: &mut Problems) {
        let next = self.switches.len();
        if self.by_name.insert(name.to_owned(), next).is_some() {
            problems.value(line, "SwitchName", name, "a name that no line before has");
        }
        if let Below::Nodes(nodes) = &below {
            self.nodes += nodes.len();
        }
        let name = name.to_owned();
        self.switches.push(Switch { name, below, line });
    }

    /// Reads a host list that has to give a name. Reports other texts, and more nodes than a file may
    /// have.
    pub(super) fn list(
        &self,
        line: u32,
        key: &str,
        value: &str,
        problems: &mut Problems,
    ) -> Option<Vec<String>> {
        if self.is_full() {
            let (what, max) = ("nodes", MAX_NODES);
            problems.add(line, Reason::TooMany { what, max });
            return None;
        }
        match hosts(value) {
            Ok(found) if !found.is_empty() => {
                let is_of_nodes = key.eq_ignore_ascii_case("nodes");
                let bad = found.iter().find(|name| is_of_nodes && !is_node_name(name));
                if let Some(name) = bad {
                    problems.value(line, key, name, NODE_NAME);
                }
                Some(found)
            }
            Ok(_) => {
                problems.add(line, Reason::Missing(format!("a name of {key}")));
                None
            }
            Err(error) => {
                problems.value(line, key, value, &format!("a host list: {error}"));
                None
            }
        }
    }

    /// Whether there are as many nodes as a file may have.
    pub(super) fn is_full(&self) -> bool {
        self.nodes > MAX_NODES
    }

    pub(super) fn shape(&self, file: &str, assumed: Assumed) -> Result<Shape, InputError> {
        let mut problems = Problems::new(file);
        let children = self.children(&mut problems);
        self.check_nodes(&mut problems);
        let level = self.levels(&children, &mut problems);
        problems.into_result(())?;
        let rejected = |why: String| rejection(file, Reason::Fabric(why));
        let mut switches = Switches {
            names: self
                .switches
                .iter()
                .map(|switch| switch.name.clone())
                .collect(),
            level,
            ..Switches::default()
        };
        for (parent, children) in children.iter().enumerate() {
            switches
                .up
                .extend(children.iter().map(|&child| ((child, parent), None)));
        }
        let (mut leaves, mut names) = (Vec::new(), Vec::new());
        for (leaf, switch) in self.switches.iter().enumerate() {
            if let Below::Nodes(nodes) = &switch.below {
                leaves.extend(nodes.iter().map(|_| leaf));
                names.extend(nodes.iter().cloned());
            }
        }
        if names.is_empty() {
            return Err(rejected(
                "the file names no switch or block with nodes".to_owned(),
            ));
        }
        let placed = switches
            .place(&leaves, assumed.capacity, assumed.capacity)
            .map_err(rejected)?;
        let assumptions = self.assumptions(&switches, placed.parts.len(), assumed);
        let places = placed.endpoints.into_iter().map(|endpoint| vec![endpoint]);
        Ok(Shape {
            fabric: placed.fabric,
            nodes: ShapeNode::numbered(names.into_iter().zip(places)),
            rates: RateSource::new(Known::Assumed, "--capacity: Slurm does not say them"),
            assumptions,
            warnings: Vec::new(),
            skipped: self.skipped.clone(),
        })
    }

    fn assumptions(&self, switches: &Switches, parts: usize, assumed: Assumed) -> Vec<String> {
        let mut above: BTreeMap<usize, usize> = BTreeMap::new();
        for &(child, _) in switches.up.keys() {
            *above.entry(child).or_default() += 1;
        }
        let mut found = Vec::new();
        found.push(match above.values().max() {
            Some(2..) => {
                "switches with several above them have one link to each; messages take the link that their \
                 destination selects"
            }
            _ => "the switches are a tree in which each has one parent",
        }
        .to_owned());
        found.push(format!("each link has {} GB/s", assumed.capacity));
        if self.has_speeds {
            found.push("LinkSpeed is not a bandwidth and was not used".to_owned());
        }
        if self.has_sizes {
            found.push("BlockSizes says what Slurm allocates and was not used".to_owned());
        }
        if parts > 1 {
            found.push(format!(
                "{parts} parts that no switch joins are all below one more switch"
            ));
        }
        found
    }

    /// Returns the switches below each switch, and reports names that no line defines.
    fn children(&self, problems: &mut Problems) -> Vec<Vec<usize>> {
        let mut children = vec![Vec::new(); self.switches.len()];
        for (switch, children) in self.switches.iter().zip(&mut children) {
            let Below::Switches(names) = &switch.below else {
                continue;
            };
            for name in names {
                match self.by_name.get(name) {
                    Some(&child) => children.push(child),
                    None => problems.value(switch.line, "Switches", name, "a SwitchName"),
                }
            }
            children.sort_unstable();
            children.dedup();
        }
        children
    }

    /// Returns the level of each switch: one above the highest switch below it. Reports rings, and
    /// switches above too many levels.
    fn levels(&self, children: &[Vec<usize>], problems: &mut Problems) -> Vec<usize> {
        let mut level = vec![0; children.len()];
        let mut waiting: Vec<usize> = children.iter().map(Vec::len).collect();
        let mut parents = vec![Vec::new(); children.len()];
        for (parent, below) in children.iter().enumerate() {
            for &child in below {
                parents[child].push(parent);
            }
        }
        let mut ready: Vec<usize> = (0..children.len()).filter(|&s| waiting[s] == 0).collect();
        while let Some(switch) = ready.pop() {
            for &parent in &parents[switch] {
                level[parent] = level[parent].max(level[switch] + 1);
                waiting[parent] -= 1;
                if waiting[parent] == 0 {
                    ready.push(parent);
                }
            }
        }
        for (index, switch) in self.switches.iter().enumerate() {
            if waiting[index] > 0 {
                let wanted = "a tree: the switch is below itself, or above a switch that is";
                problems.value(switch.line, "Switches", &switch.name, wanted);
            } else if level[index] >= MAX_LEVELS {
                let wanted = format!("within the first {MAX_LEVELS} levels of switches");
                problems.value(switch.line, "SwitchName", &switch.name, &wanted);
            }
        }
        level
    }

    fn check_nodes(&self, problems: &mut Problems) {
        let mut seen: BTreeMap<&str, &str> = BTreeMap::new();
        for switch in &self.switches {
            let Below::Nodes(nodes) = &switch.below else {
                continue;
            };
            for node in nodes {
                if let Some(first) = seen.insert(node, &switch.name) {
                    let wanted = format!("on one switch; it is on {first} already");
                    problems.value(switch.line, "Nodes", node, &wanted);
                }
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const ASSUMED: Assumed = Assumed {
        capacity: 25.0,
        links_per_pair: 1,
    };

    fn places(text: &str) -> (Vec<(u16, u16)>, Vec<String>) {
        let shape = slurm("topology.conf", text, ASSUMED).unwrap();
        let crate::import::ShapeFabric::FatTree(levels) = &shape.fabric else {
            unreachable!("a tree");
        };
        let levels = levels.iter().map(|level| (level.down, level.up)).collect();
        let nodes = shape
            .nodes
            .iter()
            .map(|node| format!("{}@{}", node.name, node.at[0]));
        (levels, nodes.collect())
    }

    #[test]
    fn a_tree_of_switches_is_a_fat_tree_with_its_nodes_in_place() {
        let text = "# two leaves\nSwitchName=s0 Nodes=n[0-1]\nswitchname=s1 \\\n  Nodes=n[2-4] LinkSpeed=100\n\nSwitchName=top Switches=s[0-1]\n";
        let (levels, nodes) = places(text);
        assert_eq!(levels, [(3, 1), (2, 1)]);
        assert_eq!(nodes, ["n0@0", "n1@1", "n2@3", "n3@4", "n4@5"]);
    }

    #[test]
    fn blocks_are_leaves_of_one_tree_and_several_roots_get_a_common_root() {
        let text = "BlockName=b1 Nodes=n[1-2]\nBlockName=b2 Nodes=n[3-4]\nBlockSizes=2,4\n";
        let (levels, nodes) = places(text);
        assert_eq!(levels, [(2, 1), (2, 1)]);
        assert_eq!(nodes, ["n1@0", "n2@1", "n3@2", "n4@3"]);
    }

    #[test]
    fn nodes_on_a_higher_level_are_moved_down_to_the_leaves() {
        let text = "SwitchName=a Nodes=n1\nSwitchName=b Switches=a\nSwitchName=c Nodes=n2\nSwitchName=top Switches=b,c\n";
        let (levels, nodes) = places(text);
        assert_eq!(levels, [(1, 1), (1, 1), (2, 1)]);
        assert_eq!(nodes, ["n1@0", "n2@1"]);
    }

    #[test]
    fn every_wrong_line_is_reported() {
        let complaints = |text: &str| slurm("t", text, ASSUMED).unwrap_err().to_string();
        let found =
            complaints("SwitchName=a Nodes=n1\nhello\nSwitchName=b\nSwitchName=c Nodes=n[2\n");
        for line in [
            "t:2: unknown key 'hello'",
            "t:3: line:",
            "t:4: Nodes: 'n[2'",
        ] {
            assert!(found.contains(line), "{line} in {found}");
        }
        let found =
            complaints("SwitchName=a Nodes=n1\nSwitchName=b Nodes=n1\nSwitchName=c Switches=a,x\n");
        assert!(found.contains("it is on a already") && found.contains("'x' is not a SwitchName"));
        let ring = complaints("SwitchName=a Switches=b\nSwitchName=b Switches=a\n");
        assert!(
            ring.contains("t:1: ") && ring.contains("t:2: ") && ring.contains("below itself"),
            "{ring}"
        );
        assert!(complaints("").contains("no switch or block with nodes"));
        let mut chain = "SwitchName=s0 Nodes=n0\n".to_owned();
        for level in 1..12 {
            chain += &format!("SwitchName=s{level} Switches=s{}\n", level - 1);
        }
        assert!(
            complaints(&chain).contains("t:9: SwitchName: 's8' is not within"),
            "{}",
            complaints(&chain)
        );
    }

    #[test]
    fn a_switch_below_several_spines_has_a_link_to_each() {
        let text = "SwitchName=s0 Nodes=n[0-1]\nSwitchName=s1 Nodes=n[2-3]\nSwitchName=s2 Nodes=n[4-5]\n\
                    SwitchName=p0 Switches=s[0-2]\nSwitchName=p1 Switches=s[0-2]\n";
        let (levels, nodes) = places(text);
        assert_eq!(levels, [(2, 1), (3, 2)]);
        assert_eq!(nodes, ["n0@0", "n1@1", "n2@2", "n3@3", "n4@4", "n5@5"]);
    }

    #[test]
    fn spines_of_pods_and_cores_above_them_are_three_levels() {
        let mut text = String::new();
        for pod in 0..2 {
            for leaf in 0..2 {
                text += &format!("SwitchName=l{pod}{leaf} Nodes=n{pod}{leaf}[0-1]\n");
            }
            for spine in 0..2 {
                text += &format!("SwitchName=s{pod}{spine} Switches=l{pod}[0-1]\n");
            }
        }
        text += "SwitchName=c0 Switches=s[00,10]\nSwitchName=c1 Switches=s[01,11]\n";
        let (levels, nodes) = places(&text);
        assert_eq!(levels, [(2, 1), (2, 2), (2, 1)]);
        assert_eq!(nodes[7], "n111@7");
    }

    #[test]
    fn more_nodes_than_a_switch_has_ports_are_an_error_and_no_panic() {
        let error = slurm("t", "SwitchName=a Nodes=n[0-70000]\n", ASSUMED)
            .unwrap_err()
            .to_string();
        assert!(error.contains("70001 ports of one switch"), "{error}");
        let many: String = (0..20)
            .map(|s| format!("SwitchName=s{s} Nodes=m{s}x[0-300000]\n"))
            .collect();
        let error = slurm("t", &many, ASSUMED).unwrap_err().to_string();
        assert!(error.contains("more than 2097152 nodes"), "{error}");
    }
}
