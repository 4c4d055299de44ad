//! The targets of a file system, as its configuration log describes them to clients.

use std::collections::{BTreeMap, BTreeSet};

use serde::Serialize;

use crate::client::Service;
use crate::log::{Command, Group};
use crate::whereabouts::Whereabouts;

/// The most targets, NIDs of one node, and other entries that are kept; a file system has fewer.
const ENTRIES_MAX: usize = 65_536;

/// The most NIDs of one node.
const NIDS_MAX: usize = 64;

/// The most NIDs of all nodes of all targets together: many targets may be on one node of many NIDs.
const LISTED_MAX: usize = 4 * ENTRIES_MAX;

/// What a log says.
#[derive(Clone, Debug, Default, Serialize)]
pub struct FileSystem {
    /// The metadata and object targets by their names.
    pub targets: BTreeMap<String, Target>,
    /// Parameters: the target or device, and `key=value`.
    pub parameters: Vec<(String, String)>,
    /// The members of each pool.
    pub pools: BTreeMap<String, BTreeSet<String>>,
    /// What a client would refuse, or what does not fit together.
    pub problems: Vec<String>,
    #[serde(skip)]
    nodes: BTreeMap<String, Vec<String>>,
    #[serde(skip)]
    devices: BTreeMap<String, String>,
    #[serde(skip)]
    group: Group,
    /// The NIDs that targets were given.
    #[serde(skip)]
    listed: usize,
    #[serde(skip)]
    is_cut: (bool, bool),
}

/// A target.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize)]
pub struct Target {
    /// Its index, if its name has one.
    pub index: Option<u32>,
    /// The NIDs of the node that usually serves the target.
    pub nids: Vec<String>,
    /// The NIDs of each node that may take over.
    pub failover: Vec<Vec<String>>,
    /// Whether an administrator switched the target off.
    pub is_inactive: bool,
    /// The NIDs from which the target registered last, as its MGS remembers; empty if it did not since the MGS started.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub now: Vec<String>,
}

impl FileSystem {
    /// Takes the next command of the log, in the order of the records.
    // [PTLRPC-19]
    pub fn take(&mut self, command: &Command<'_>) {
        if !self.group.counts(command) {
            return;
        }
        if command.name().is_none() && command.is_required() {
            let problem = format!(
                "command {:#x}: a client that does not know it refuses the log",
                command.code
            );
            push(&mut self.problems, problem);
        }
        self.apply(command);
    }

    fn apply(&mut self, command: &Command<'_>) {
        let text = |index| command.text(index).to_string();
        match command.name() {
            Some("add_uuid") => {
                let nid = command.nid().map_or_else(|| text(2), |nid| nid.to_string());
                self.add_nid(text(1), nid);
            }
            Some("setup") => self.setup(text(0), &text(1), &text(2)),
            Some("del_uuid") => {
                self.nodes.remove(&text(1));
            }
            Some("del_conn") => self.remove_failover(&text(0), &text(1)),
            Some("add_conn") => self.add_failover(&text(0), &text(1)),
            Some("add_inactive_ost") => self.switch_off(&text(1)),
            Some("del_ost" | "del_mdt") => {
                self.targets.remove(name_of(&text(1)));
            }
            Some("param") => self.parameter(text(0), text(1)),
            Some("set_param") => push(&mut self.parameters, (text(1), text(2))),
            Some("pool_new") => {
                self.pools.entry(text(2)).or_default();
            }
            Some("pool_add") => {
                let members = self.pools.entry(text(2)).or_default();
                if members.len() < ENTRIES_MAX {
                    members.insert(name_of(&text(3)).to_owned());
                }
            }
            Some("pool_remove") => {
                let members = self.pools.entry(text(2)).or_default();
                members.remove(name_of(&text(3)));
            }
            Some("pool_del") => {
                self.pools.remove(&text(2));
            }
            _ => {}
        }
    }

    /// Notes where a target is. What the log does not have is no target.
    pub(crate) fn is_now_at(&mut self, fs: &str, entry: &Whereabouts) {
        let kind = match entry.service {
            Service::Mdt => "MDT",
            _ => "OST",
        };
        let name = format!("{fs}-{kind}{:04x}", entry.index);
        if let Some(target) = self.targets.get_mut(&name) {
            let nids = entry.nids.iter().take(NIDS_MAX);
            target.now = nids.map(ToString::to_string).collect();
        }
    }

    pub(crate) fn problem(&mut self, what: String) {
        push(&mut self.problems, what);
    }

    fn add_nid(&mut self, node: String, nid: String) {
        if self.nodes.len() < ENTRIES_MAX || self.nodes.contains_key(&node) {
            let nids = self.nodes.entry(node.clone()).or_default();
            if nids.contains(&nid) {
                return;
            }
            if nids.len() < NIDS_MAX {
                return nids.push(nid);
            }
            if !std::mem::replace(&mut self.is_cut.0, true) {
                self.problem(format!("node {node} has more than {NIDS_MAX} NIDs"));
            }
        }
    }

    /// Returns the NIDs of a node, as a target lists them.
    fn nids_of(&mut self, node: &str) -> Vec<String> {
        let nids = self.nodes.get(node).map_or(&[][..], Vec::as_slice);
        if self.listed + nids.len() <= LISTED_MAX {
            self.listed += nids.len();
            return nids.to_vec();
        }
        if !std::mem::replace(&mut self.is_cut.1, true) {
            self.problem(format!("the targets list more than {LISTED_MAX} NIDs"));
        }
        Vec::new()
    }

    fn is_known(&self, node: &str) -> bool {
        self.nodes.contains_key(node)
    }

    /// The setup of an mdc or an osc names its target and the node of the target.
    fn setup(&mut self, device: String, uuid: &str, node: &str) {
        let name = name_of(uuid);
        if name == uuid || node.is_empty() || self.targets.len() >= ENTRIES_MAX {
            return;
        }
        let nids = self.nids_of(node);
        if nids.is_empty() && !self.is_known(node) {
            push(
                &mut self.problems,
                format!("{name}: node {node} has no NID"),
            );
        }
        let target = self.targets.entry(name.to_owned()).or_default();
        target.index = name
            .get(name.len().saturating_sub(4)..)
            .and_then(|hex| u32::from_str_radix(hex, 16).ok());
        target.nids = nids;
        self.devices.insert(device, name.to_owned());
    }

    fn add_failover(&mut self, device: &str, node: &str) {
        let nids = self.nids_of(node);
        let is_known = self.is_known(node);
        let target = self
            .devices
            .get(device)
            .and_then(|name| self.targets.get_mut(name));
        match target {
            Some(target) if !nids.is_empty() => push(&mut target.failover, nids),
            Some(_) if is_known => {}
            Some(_) => push(
                &mut self.problems,
                format!("{device}: failover node {node} has no NID"),
            ),
            None => push(
                &mut self.problems,
                format!("{device}: a failover node of an unknown device"),
            ),
        }
    }

    fn remove_failover(&mut self, device: &str, node: &str) {
        let nids = self.nodes.get(node);
        let name = self.devices.get(device);
        if let (Some(nids), Some(name)) = (nids, name)
            && let Some(target) = self.targets.get_mut(name)
        {
            target.failover.retain(|failover| failover != nids);
        }
    }

    fn switch_off(&mut self, uuid: &str) {
        if let Some(target) = self.targets.get_mut(name_of(uuid)) {
            target.is_inactive = true;
        }
    }

    fn parameter(&mut self, device: String, value: String) {
        let active = value
            .strip_prefix("osc.active=")
            .or_else(|| value.strip_prefix("mdc.active="));
        let name = self
            .devices
            .get(&device)
            .cloned()
            .unwrap_or_else(|| name_of(&device).to_owned());
        if let (Some(active), Some(target)) = (active, self.targets.get_mut(&name)) {
            target.is_inactive = active == "0";
        }
        push(&mut self.parameters, (device, value));
    }
}

fn name_of(uuid: &str) -> &str {
    uuid.strip_suffix("_UUID").unwrap_or(uuid)
}

fn push<T>(list: &mut Vec<T>, value: T) {
    if list.len() < ENTRIES_MAX {
        list.push(value);
    }
}
