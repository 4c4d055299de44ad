//! The machine of the demo, and the configurations that `finerail fgr` writes for its nodes.
//!
//! Two rails lead to one net with two storage gateways. Each rail is a torus of 6 × 4 places with two routers.
//! Each rail is planned by itself, in the multi-rail form. `fgr join` joins both, and `fgr check` proves the
//! result before any node runs.

use std::net::{IpAddr, Ipv4Addr};
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use anyhow::{Context, bail};
use fgr::config::{NodeRole, Site, SiteNode};

use crate::fgr::read_site;

/// Seconds between two pings of a gateway. The next constant is the timeout of such a ping in seconds.
pub(super) const CHECK_INTERVAL: u64 = 1;
const PING_TIMEOUT: u64 = 1;

/// The name of the I/O node that runs. The other I/O nodes exist in the plan only.
pub(super) const IO_NODE: &str = "ion1";

/// A node that the demo runs.
#[derive(Clone, Debug)]
pub(super) struct PlannedNode {
    pub(super) name: String,
    pub(super) role: NodeRole,
    /// The path of the node's configuration.
    pub(super) config: PathBuf,
    /// The path of the node's rules, which choose the planned routers: commands of `lnetctl udsp`, one a line.
    pub(super) rules: Option<PathBuf>,
    /// The interfaces of the node: name and IPv4 address.
    pub(super) interfaces: Vec<(String, Ipv4Addr)>,
    /// The first NID of the node, as text.
    pub(super) nid: String,
}

/// The result of the planning.
pub(super) struct Plan {
    pub(super) nodes: Vec<PlannedNode>,
    /// The output of `fgr plan` for each rail: costs and link loads.
    pub(super) figures: Vec<String>,
    /// The output of `fgr check`.
    pub(super) proof: String,
}

/// The range of addresses that the demo uses.
#[derive(Clone, Copy)]
pub(super) enum Addresses {
    /// Private addresses, on interfaces of their own.
    Rails,
    /// Loopback addresses.
    Loopback,
}

impl Addresses {
    fn first_byte(self) -> u8 {
        match self {
            Self::Rails => 10,
            Self::Loopback => 127,
        }
    }
}

impl Plan {
    /// Plans both rails in `directory`, with commands that any user can type.
    pub(super) fn make(directory: &Path, addresses: Addresses) -> anyhow::Result<Self> {
        let byte = addresses.first_byte();
        let write = |name: &str, text: String| {
            let path = directory.join(name);
            sys::write_file(&path, text).with_context(|| format!("cannot write {}", path.display()))
        };
        write(
            "servers.csv",
            format!("oss1,{byte}.3.0.1@tcp300\noss2,{byte}.3.0.2@tcp300\n"),
        )?;
        let mut figures = Vec::new();
        for rail in 1..=2 {
            write(&format!("rail{rail}.yaml"), machine(rail))?;
            figures.push(fgr(
                directory,
                &["plan", "--machine", &format!("rail{rail}.yaml")],
            )?);
            fgr(directory, &words(&config_arguments(rail, byte)))?;
        }
        fgr(directory, &["join", "rail1", "rail2", "-o", "conf"])?;
        let proof = fgr(directory, &["check", "conf"])?;
        let site = read_site(&directory.join("conf"))?;
        Ok(Self {
            nodes: nodes(&site, directory, addresses)?,
            figures,
            proof,
        })
    }

    /// Returns the nodes with a role.
    pub(super) fn with_role(&self, role: NodeRole) -> impl Iterator<Item = &PlannedNode> {
        self.nodes.iter().filter(move |node| node.role == role)
    }

    /// Returns the I/O node.
    pub(super) fn io_node(&self) -> anyhow::Result<&PlannedNode> {
        let mut nodes = self.nodes.iter();
        let found = nodes.find(|node| node.name == IO_NODE);
        found.with_context(|| format!("the plan has no node {IO_NODE}"))
    }
}

/// Returns the machine file of a rail: three I/O nodes, and two routers that lead to the storage net.
fn machine(rail: u8) -> String {
    format!(
        "machine: demo, rail {rail}\n\
         origin: synthetic\n\
         fabric:\n\
         \x20 kind: torus\n\
         \x20 dimensions:\n\
         \x20   - {{name: x, size: 6, cost: 4, capacity: [9.375]}}\n\
         \x20   - {{name: y, size: 4, cost: 8, capacity: [4.6875]}}\n\
         clients:\n\
         \x20 list:\n\
         \x20   - {{id: 1, name: ion1, at: [1, 1]}}\n\
         \x20   - {{id: 2, name: ion2, at: [4, 3]}}\n\
         \x20   - {{id: 3, name: ion3, at: [2, 2]}}\n\
         groups:\n\
         \x20 - name: storage\n\
         \x20   nets: [tcp300]\n\
         \x20   sub-groups:\n\
         \x20     - modules:\n\
         \x20         - {{blade: b{rail}1, at: [0, 1], nodes: [{rail}1]}}\n\
         \x20         - {{blade: b{rail}2, at: [3, 1], nodes: [{rail}2]}}\n"
    )
}

/// Returns the arguments of `fgr config` for a rail. Each client has one backup, because a rail has two
/// routers.
fn config_arguments(rail: u8, byte: u8) -> String {
    let interface = rail - 1;
    format!(
        "config --machine rail{rail}.yaml --backups 1 --client-net tcp{rail}00 \
         --client-interface hsn{interface} --client-addresses {byte}.{rail}.0.0 \
         --router-addresses {byte}.3.1.0 --server-interface ib0 --servers servers.csv \
         --check-interval {CHECK_INTERVAL} --ping-timeout {PING_TIMEOUT} --form multi-rail -o rail{rail}"
    )
}

fn words(text: &str) -> Vec<&str> {
    text.split_whitespace().collect()
}

/// Runs a command of `finerail fgr` in `directory`, and returns its output.
fn fgr(directory: &Path, words: &[&str]) -> anyhow::Result<String> {
    let binary = std::env::current_exe().context("cannot find this program")?;
    let output = Command::new(binary)
        .arg("fgr")
        .args(words)
        .current_dir(directory)
        .stdin(Stdio::null())
        .output()
        .context("cannot run 'finerail fgr'")?;
    if !output.status.success() {
        let why = String::from_utf8_lossy(&output.stderr);
        bail!("'finerail fgr {}' failed: {}", words.join(" "), why.trim());
    }
    Ok(String::from_utf8_lossy(&output.stdout).into_owned())
}

/// Returns the nodes to run, each with its configuration.
fn nodes(site: &Site, directory: &Path, addresses: Addresses) -> anyhow::Result<Vec<PlannedNode>> {
    let mut nodes = Vec::new();
    for node in &site.nodes {
        let class = site.class_of(node);
        if class.role == NodeRole::Client && node.name != IO_NODE {
            continue;
        }
        let config = match addresses {
            Addresses::Rails => directory.join(format!("conf/classes/{}.yaml", class.name)),
            Addresses::Loopback => {
                let path = directory.join(format!("conf/{}.yaml", node.name));
                // Here all nodes share the interface `lo`, so the configuration names NIDs instead of
                // interfaces.
                sys::write_file(&path, site.node_config(node).to_yaml())
                    .with_context(|| format!("cannot write {}", path.display()))?;
                path
            }
        };
        let rules = match addresses {
            Addresses::Rails => Some(directory.join(format!("conf/classes/{}.udsp", class.name))),
            // The configuration of the node already contains the rules.
            Addresses::Loopback => None,
        };
        let nid = node.nids.first().context("a node without a NID")?;
        nodes.push(PlannedNode {
            name: node.name.clone(),
            role: class.role,
            config,
            rules: rules.filter(|rules| rules.exists()),
            interfaces: interfaces(site, node),
            nid: nid.to_string(),
        });
    }
    Ok(nodes)
}

/// Returns the interfaces of a node's nets, each once. The NIDs of a node have the same order as the nets of
/// its class.
fn interfaces(site: &Site, node: &SiteNode) -> Vec<(String, Ipv4Addr)> {
    let mut found: Vec<(String, Ipv4Addr)> = Vec::new();
    let nets = &site.class_of(node).config.nets;
    for (net, nid) in nets.iter().zip(node.nids.iter()) {
        let name = net.nis.iter().find_map(|ni| ni.interfaces.first());
        let (Some(name), Some(IpAddr::V4(address))) = (name, nid.ip()) else {
            continue;
        };
        if found.iter().all(|(known, _)| known != name) {
            found.push((name.clone(), address));
        }
    }
    found
}
