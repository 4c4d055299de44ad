//! Reads Slurm's `topology.conf`.
//!
//! ```text
//!   SwitchName=leaf1 Nodes=n[01-18]            tree: leaf switches with nodes,
//!   SwitchName=top Switches=leaf[1-4]                switches with switches
//!   BlockName=b1 Nodes=n[01-18]                block: blocks of nodes
//! ```

use std::collections::BTreeMap;

use crate::import::{Assumed, Shape, ShapeFabric, rejection};
use crate::input::{fits, hosts};
use crate::problem::{InputError, Problems, Reason, shown};

/// Most levels of a tree: no fabric has more, and recursion stays bounded.
const MAX_DEPTH: usize = 8;

/// Reads `topology.conf` of the plugins `tree` and `block` as a fat tree with one parent for each
/// switch.
///
/// # Errors
///
/// Every line that does not belong to such a file, names that no line defines, nodes or switches in
/// two places, rings, more than eight levels.
pub fn slurm(file: &str, text: &str, assumed: Assumed) -> Result<Shape, InputError> {
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
enum Below {
    Nodes(Vec<String>),
    Switches(Vec<String>),
}

struct Switch {
    name: String,
    below: Below,
    line: u32,
}

#[derive(Default)]
struct Reader {
    switches: Vec<Switch>,
    by_name: BTreeMap<String, usize>,
    has_speeds: bool,
    has_sizes: bool,
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
        let mut list = |key: &str, value: &str| match hosts(value) {
            Ok(found) if !found.is_empty() => Some(found),
            Ok(_) => {
                problems.add(line, Reason::Missing(format!("a name of {key}")));
                None
            }
            Err(error) => {
                problems.value(line, key, value, &format!("a host list: {error}"));
                None
            }
        };
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
        if self
            .by_name
            .insert(name.clone(), self.switches.len())
            .is_some()
        {
            problems.value(line, "SwitchName", name, "a name that no line before has");
        }
        self.switches.push(Switch {
            name: name.clone(),
            below,
            line,
        });
    }

    fn shape(&self, file: &str, assumed: Assumed) -> Result<Shape, InputError> {
        let mut problems = Problems::new(file);
        let parents = self.parents(&mut problems);
        self.check_nodes(&mut problems);
        problems.into_result(())?;
        let roots: Vec<usize> = (0..parents.len())
            .filter(|&s| parents[s].is_none())
            .collect();
        let mut walk = Walk {
            reader: self,
            found: Vec::new(),
            path: Vec::new(),
        };
        for (place, &root) in roots.iter().enumerate() {
            walk.down(root, place);
        }
        let depth = walk
            .found
            .iter()
            .map(|(_, path)| path.len())
            .max()
            .unwrap_or(0);
        let reached = walk.found.len();
        let all = self.switches.iter().map(|switch| match &switch.below {
            Below::Nodes(nodes) => nodes.len(),
            Below::Switches(_) => 0,
        });
        if reached == 0 || reached < all.sum() || depth > MAX_DEPTH {
            let what = "the switches are not a tree of at most eight levels with nodes below it";
            return Err(rejection(file, Reason::Fabric(what.to_owned())));
        }
        Ok(self.tree(walk.found, depth, roots.len() == 1, assumed))
    }

    /// Returns the switch above each switch, and reports a switch that is below two.
    fn parents(&self, problems: &mut Problems) -> Vec<Option<usize>> {
        let mut parents = vec![None; self.switches.len()];
        for (index, switch) in self.switches.iter().enumerate() {
            let Below::Switches(names) = &switch.below else {
                continue;
            };
            for name in names {
                match self.by_name.get(name) {
                    Some(&child) if parents[child].is_none() => parents[child] = Some(index),
                    Some(_) => {
                        problems.value(switch.line, "Switches", name, "below one switch only");
                    }
                    None => problems.value(switch.line, "Switches", name, "a SwitchName"),
                }
            }
        }
        parents
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

    fn tree(
        &self,
        found: Vec<(String, Vec<u16>)>,
        depth: usize,
        one_root: bool,
        assumed: Assumed,
    ) -> Shape {
        let (names, mut paths): (Vec<String>, Vec<Vec<u16>>) = found.into_iter().unzip();
        let mut assumptions = vec![
            "the switches are a tree in which each has one parent".to_owned(),
            format!("each link has {} GB/s", assumed.capacity),
        ];
        if self.has_speeds {
            assumptions.push("LinkSpeed is not a bandwidth and was not used".to_owned());
        }
        if self.has_sizes {
            assumptions.push("BlockSizes says what Slurm allocates and was not used".to_owned());
        }
        let mut depth = depth;
        for path in &mut paths {
            // Nodes on a higher level than others get switches with one child below them.
            let (root, slot) = (path[0], path.len() - 1);
            let missing = depth - path.len();
            path.splice(slot..slot, std::iter::repeat_n(0, missing));
            path[0] = root;
        }
        if one_root {
            for path in &mut paths {
                path.remove(0);
            }
            depth -= 1;
        } else {
            assumptions.push("switches without one above them are all below one more".to_owned());
        }
        let (fabric, endpoints) = ShapeFabric::tree(&paths, &vec![(1, assumed.capacity); depth]);
        let nodes = names
            .into_iter()
            .zip(endpoints.into_iter().map(|endpoint| vec![endpoint]));
        Shape {
            fabric,
            nodes: nodes.collect(),
            assumptions,
        }
    }
}

/// Collects nodes with their paths from the roots.
struct Walk<'a> {
    reader: &'a Reader,
    found: Vec<(String, Vec<u16>)>,
    path: Vec<u16>,
}

impl Walk<'_> {
    fn down(&mut self, switch: usize, place: usize) {
        // A place that no fabric has is not searched. The numbers of nodes then disagree.
        let Ok(place) = u16::try_from(place) else {
            return;
        };
        if self.path.len() == MAX_DEPTH {
            return;
        }
        self.path.push(place);
        let reader = self.reader;
        match &reader.switches[switch].below {
            Below::Switches(names) => {
                let children = names.iter().filter_map(|name| reader.by_name.get(name));
                for (place, &child) in children.enumerate() {
                    self.down(child, place);
                }
            }
            Below::Nodes(nodes) => {
                for (slot, node) in (0_u16..).zip(nodes) {
                    let path = [&self.path[..], &[slot]].concat();
                    self.found.push((node.clone(), path));
                }
            }
        }
        self.path.pop();
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
        let ShapeFabric::FatTree(levels) = &shape.fabric else {
            unreachable!("a tree");
        };
        let levels = levels.iter().map(|level| (level.down, level.up)).collect();
        let nodes = shape
            .nodes
            .iter()
            .map(|(name, at)| format!("{name}@{}", at[0]));
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
        assert!(
            complaints("SwitchName=a Switches=b\nSwitchName=b Switches=a\n").contains("not a tree")
        );
        assert!(complaints("").contains("not a tree"));
    }
}
