//! The machine file: any fabric, its clients, its router modules.
//!
//! ```yaml
//! machine: mini                   # name in reports
//! origin: synthetic               # published, assumed or synthetic (default)
//! fabric:
//!   kind: torus                   # torus, mesh, dragonfly, fat-tree
//!   tie: split                    # torus: half way round: split (default), plus, minus
//!   dimensions:                   # torus and mesh, in routing order
//!     - {name: x, size: 6, cost: 4, capacity: [9.375]}          # GB/s, a repeating pattern; wrap: true|false
//!   groups: 74                    # dragonfly; also switches, links-per-pair, routing: minimal|valiant,
//!   local-capacity: 25            #   global-capacity (GB/s), local-cost, global-cost (default 1)
//!   levels:                       # fat-tree, leaf switches first
//!     - {down: 32, up: 1, capacity: 25, cost: 1}
//! clients:
//!   per-vertex: 1                 # numbered from 0 in the order of the vertices; or
//!   list:
//!     - {id: 0, name: n0, at: [0, 0, 0]}
//!                                 # optional: nics: [{interface: hsn0, address: 10.1.0.7, rate: 25}]
//! footprint: 2                    # planes of the windowed dimension that a module takes (default: by its nodes)
//!                                 # or, for a router of several nets, nodes: [{id: 1001, nets: [o2ib201, o2ib202]}]
//! rates:                          # where rates come from: published, measured or assumed, and the source
//!   {links: "published: data sheet", nics: "measured: lst"}
//! down: [a1, 1042]                # nodes, blades, cabinets, nets that do not work now (see names.rs)
//! groups:
//!   - name: A
//!     role: data                  # data (default) or metadata
//!     nets: [o2ib201]             # node k of each module routes to net k; with one net, all nodes do
//!     sub-groups:
//!       - modules:
//!           - {blade: a1, cabinet: c1, at: [0, 0, 0], nodes: [1001]}         # cabinet is optional; or nodes: [{id: 1001, at: [0, 1, 0]}]
//!                                 # a node may have a name, and nics with net for those behind the router
//! ```
//!
//! `at` has one position per dimension on a torus or mesh; it is `[group, switch]` on a dragonfly
//! and `[endpoint]` on a fat tree.

use lnet_types::Net;

use crate::input::draft::{ClientDraft, Draft, ModuleDraft, NodeDraft};
use crate::input::fields::{Fields, items, parse, parse_all, rate_source, text};
use crate::input::fits;
use crate::input::tables::net;
use crate::input::yaml::{self, Node, Value};
use crate::machine::{Client, Details, Machine, Nic, Origin, Role};
use crate::names::failed;
use crate::problem::{InputError, Problems, Reason};
use crate::rates::{RATE, RateSource, RateSources, is_rate};
use crate::topology::{
    Dimension, Dragonfly, DragonflySize, Fabric, FatTree, Grid, Level, Routing, Tie, Vertex,
};

/// Most clients that `per-vertex` makes.
const MAX_CLIENTS: u64 = 1 << 22;

/// Reads a machine file.
///
/// # Errors
///
/// Everything that is wrong with the file: invalid YAML, unknown or missing keys, values out of
/// range, places outside the fabric, and what [`Draft::check`] finds. Contradictions between parts
/// are only searched if the parts themselves were read without errors.
pub fn read_machine(file: &str, source: &str) -> Result<Machine, InputError> {
    let mut problems = Problems::new(file);
    if !fits(&mut problems, source) {
        return Err(InputError(problems.found));
    }
    let mut down = Vec::new();
    let draft = match yaml::load(source) {
        Ok(root) => draft(&root, &mut down, &mut problems),
        Err(yaml::NotYaml { line, reason }) => {
            problems.add(line, Reason::Yaml(reason));
            None
        }
    };
    match problems.into_result(draft)? {
        Some(draft) => mark_down(file, draft.check()?, &down),
        // If there is no fabric, an error was reported.
        None => Err(InputError(Vec::new())),
    }
}

/// Marks the routers that these items name as down. Each item has its line.
fn mark_down(
    file: &str,
    mut machine: Machine,
    items: &[(u32, String)],
) -> Result<Machine, InputError> {
    let mut problems = Problems::new(file);
    for (line, item) in items {
        match failed(&machine, item) {
            Ok(mut named) => machine.down.append(&mut named.routers),
            Err(error) => problems.add(*line, Reason::NoPart(error.to_string())),
        }
    }
    problems.into_result(machine)
}

fn draft(root: &Node<'_>, down: &mut Vec<(u32, String)>, problems: &mut Problems) -> Option<Draft> {
    let mut fields = Fields::of(root, "the document", problems);
    let name = fields.parsed("machine", "a name", problems);
    let origin = match fields.optional("origin") {
        None => Some(Origin::Synthetic),
        Some(node) => choose(node, "origin", &ORIGINS, problems),
    };
    let fabric_node = fields.required("fabric", problems);
    let fabric = fabric_node.and_then(|node| fabric(node, problems));
    let clients = fields.required("clients", problems);
    let groups = fields.required("groups", problems);
    let rates = fields.optional("rates");
    let rates = rates.map(|node| rate_sources(node, problems));
    let footprint = fields.optional("footprint");
    let footprint = footprint.and_then(|n| parse(n, "footprint", "a number of planes", problems));
    for item in fields
        .optional("down")
        .map_or(&[][..], |node| items(node, "down", problems))
    {
        down.extend(text(item, "down", problems).map(|word| (item.line, word.to_owned())));
    }
    fields.report_rest(problems);
    let fabric = fabric?;
    let mut details = Details::default();
    let clients = clients.map(|node| read_clients(node, &fabric, &mut details, problems));
    let mut modules = Vec::new();
    for node in groups.map_or(&[][..], |node| items(node, "groups", problems)) {
        group(node, &fabric, (&mut modules, &mut details), problems);
    }
    Some(Draft {
        name: name?,
        origin: origin?,
        clients: clients?,
        fabric,
        modules,
        footprint,
        details,
        rates: rates.unwrap_or_default(),
        place: problems.place(1),
        warnings: Vec::new(),
    })
}

const ORIGINS: [(&str, Origin); 3] = [
    ("published", Origin::Published),
    ("assumed", Origin::Assumed),
    ("synthetic", Origin::Synthetic),
];
const TIES: [(&str, Tie); 3] = [
    ("split", Tie::Split),
    ("plus", Tie::Plus),
    ("minus", Tie::Minus),
];
const ROUTINGS: [(&str, Routing); 2] =
    [("minimal", Routing::Minimal), ("valiant", Routing::Valiant)];
const ROLES: [(&str, Role); 2] = [("data", Role::Data), ("metadata", Role::Metadata)];

/// Reads one of a few words.
fn choose<T: Copy>(
    node: &Node<'_>,
    key: &str,
    choices: &[(&str, T)],
    problems: &mut Problems,
) -> Option<T> {
    let word = text(node, key, problems)?;
    let choice = choices.iter().find(|(name, _)| *name == word);
    if choice.is_none() {
        let names: Vec<&str> = choices.iter().map(|(name, _)| *name).collect();
        problems.value(
            node.line,
            key,
            word,
            &format!("one of {}", names.join(", ")),
        );
    }
    choice.map(|(_, value)| *value)
}

fn choose_or<T: Copy + Default>(
    node: Option<&Node<'_>>,
    key: &str,
    choices: &[(&str, T)],
    problems: &mut Problems,
) -> T {
    node.and_then(|node| choose(node, key, choices, problems))
        .unwrap_or_default()
}

#[derive(Clone, Copy)]
enum FabricKind {
    Torus,
    Mesh,
    Dragonfly,
    FatTree,
}

fn fabric(node: &Node<'_>, problems: &mut Problems) -> Option<Fabric> {
    const KINDS: [(&str, FabricKind); 4] = [
        ("torus", FabricKind::Torus),
        ("mesh", FabricKind::Mesh),
        ("dragonfly", FabricKind::Dragonfly),
        ("fat-tree", FabricKind::FatTree),
    ];
    let mut fields = Fields::of(node, "fabric", problems);
    let kind = fields.required("kind", problems)?;
    let fabric = match choose(kind, "kind", &KINDS, problems)? {
        FabricKind::Torus => grid(&mut fields, true, problems),
        FabricKind::Mesh => grid(&mut fields, false, problems),
        FabricKind::Dragonfly => dragonfly(&mut fields, problems),
        FabricKind::FatTree => fat_tree(&mut fields, problems),
    };
    fields.report_rest(problems);
    match fabric? {
        Ok(fabric) => Some(fabric),
        Err(error) => {
            problems.add(node.line, Reason::Fabric(error.to_string()));
            None
        }
    }
}

type Made = Option<Result<Fabric, crate::topology::TopologyError>>;

const COUNT: &str = "a number up to 65535";
const WEIGHT: &str = "a whole number";

fn grid(fields: &mut Fields<'_, '_>, wrap: bool, problems: &mut Problems) -> Made {
    let tie = choose_or(fields.optional("tie"), "tie", &TIES, problems);
    let node = fields.required("dimensions", problems)?;
    let dimensions: Vec<Option<Dimension>> = items(node, "dimensions", problems)
        .iter()
        .map(|node| dimension(node, wrap, problems))
        .collect();
    let dimensions = dimensions.into_iter().collect::<Option<_>>()?;
    Some(Grid::new(dimensions).map(|grid| Fabric::Grid(grid, tie)))
}

fn dimension(node: &Node<'_>, wrap: bool, problems: &mut Problems) -> Option<Dimension> {
    let mut fields = Fields::of(node, "dimension", problems);
    let name = fields.parsed("name", "a name", problems);
    let size = fields.parsed("size", COUNT, problems);
    let wrap = fields.parsed_or("wrap", "true or false", wrap, problems);
    let cost = weight(&mut fields, "cost", problems);
    let capacity = fields.required("capacity", problems);
    let capacity = capacity.and_then(|node| parse_all(node, "capacity", "GB/s", problems));
    fields.report_rest(problems);
    Some(Dimension {
        name: name?,
        size: size?,
        wrap,
        cost,
        capacity: capacity?,
    })
}

/// Reads the cost of a hop.
fn weight(fields: &mut Fields<'_, '_>, key: &'static str, problems: &mut Problems) -> u32 {
    fields.parsed_or(key, WEIGHT, 1, problems)
}

fn dragonfly(fields: &mut Fields<'_, '_>, problems: &mut Problems) -> Made {
    let routing = choose_or(fields.optional("routing"), "routing", &ROUTINGS, problems);
    let groups = fields.parsed("groups", COUNT, problems);
    let switches = fields.parsed("switches", COUNT, problems);
    let links_per_pair = fields.parsed("links-per-pair", COUNT, problems);
    let local_capacity = fields.parsed("local-capacity", "GB/s", problems);
    let global_capacity = fields.parsed("global-capacity", "GB/s", problems);
    let ports = fields.parsed_or("ports", COUNT, 1, problems);
    let size = DragonflySize {
        groups: groups?,
        switches: switches?,
        links_per_pair: links_per_pair?,
        local_capacity: local_capacity?,
        global_capacity: global_capacity?,
        local_cost: weight(fields, "local-cost", problems),
        global_cost: weight(fields, "global-cost", problems),
    };
    let made = Dragonfly::new(size).and_then(|dragonfly| dragonfly.with_ports(ports));
    Some(made.map(|dragonfly| Fabric::Dragonfly(dragonfly, routing)))
}

fn fat_tree(fields: &mut Fields<'_, '_>, problems: &mut Problems) -> Made {
    let node = fields.required("levels", problems)?;
    let levels: Vec<Option<Level>> = items(node, "levels", problems)
        .iter()
        .map(|node| {
            let mut fields = Fields::of(node, "level", problems);
            let down = fields.parsed("down", COUNT, problems);
            let up = fields.parsed("up", COUNT, problems);
            let capacity = fields.parsed("capacity", "GB/s", problems);
            let cost = weight(&mut fields, "cost", problems);
            fields.report_rest(problems);
            Some(Level {
                down: down?,
                up: up?,
                capacity: capacity?,
                cost,
            })
        })
        .collect();
    let levels = levels.into_iter().collect::<Option<_>>()?;
    Some(FatTree::new(levels).map(Fabric::FatTree))
}

/// Returns the vertex at `[x, y, z]`, `[group, switch]` or `[endpoint]`.
fn vertex(node: &Node<'_>, fabric: &Fabric, problems: &mut Problems) -> Option<Vertex> {
    let at: Vec<u32> = parse_all(node, "at", "a position", problems)?;
    let narrow: Option<Vec<u16>> = at.iter().map(|&p| u16::try_from(p).ok()).collect();
    let vertex = match (fabric, narrow.as_deref()) {
        (Fabric::Grid(grid, _), Some(at)) => grid.vertex(at),
        (Fabric::Dragonfly(dragonfly, _), Some(&[group, switch])) => {
            dragonfly.switch(group, switch)
        }
        (Fabric::FatTree(tree), _) if at.len() == 1 && at[0] < tree.vertices() => {
            Some(Vertex(at[0]))
        }
        _ => None,
    };
    if vertex.is_none() {
        problems.add(node.line, Reason::Outside(format!("{at:?}")));
    }
    vertex
}

fn read_clients(
    node: &Node<'_>,
    fabric: &Fabric,
    details: &mut Details,
    problems: &mut Problems,
) -> Vec<ClientDraft> {
    let mut fields = Fields::of(node, "clients", problems);
    let mut clients = Vec::new();
    if let Some(count) = fields.optional("per-vertex") {
        clients = everywhere(count, fabric, problems);
    }
    if let Some(list) = fields.optional("list") {
        for node in items(list, "list", problems) {
            clients.extend(client(node, fabric, details, problems));
        }
    }
    fields.report_rest(problems);
    clients
}

/// Makes `count` clients at every vertex.
fn everywhere(node: &Node<'_>, fabric: &Fabric, problems: &mut Problems) -> Vec<ClientDraft> {
    let Some(count) = parse::<u32>(node, "per-vertex", "a number of clients", problems) else {
        return Vec::new();
    };
    let total = u64::from(count) * u64::from(fabric.vertices());
    if total > MAX_CLIENTS {
        let (what, max) = ("clients", MAX_CLIENTS as usize);
        problems.add(node.line, Reason::TooMany { what, max });
        return Vec::new();
    }
    let place = problems.place(node.line);
    // The total is below MAX_CLIENTS, so it fits.
    let ids = 0..total as u32;
    ids.map(|id| ClientDraft {
        client: Client {
            id,
            name: None,
            vertex: Vertex(id / count),
        },
        place: place.clone(),
    })
    .collect()
}

fn client(
    node: &Node<'_>,
    fabric: &Fabric,
    details: &mut Details,
    problems: &mut Problems,
) -> Option<ClientDraft> {
    let mut fields = Fields::of(node, "client", problems);
    let id = fields.parsed("id", "a number", problems);
    let name = fields.optional("name");
    let name = name.and_then(|node| text(node, "name", problems));
    let at = fields.required("at", problems);
    let vertex = at.and_then(|node| vertex(node, fabric, problems));
    let nics = fields
        .optional("nics")
        .map(|node| read_nics(node, &[], problems));
    fields.report_rest(problems);
    let id = id?;
    details.nics.extend(nics.map(|nics| (id, nics)));
    Some(ClientDraft {
        client: Client {
            id,
            name: name.map(Into::into),
            vertex: vertex?,
        },
        place: problems.place(node.line),
    })
}

/// What all modules of a group have in common.
struct GroupHead {
    name: String,
    role: Role,
    nets: Vec<Net>,
}

fn group(
    node: &Node<'_>,
    fabric: &Fabric,
    (modules, details): (&mut Vec<ModuleDraft>, &mut Details),
    problems: &mut Problems,
) {
    let mut fields = Fields::of(node, "group", problems);
    let name: Option<String> = fields.parsed("name", "a name", problems);
    let role = choose_or(fields.optional("role"), "role", &ROLES, problems);
    let nets = fields.required("nets", problems);
    let nets = nets.and_then(|node| read_nets(node, problems));
    let sub_groups = fields.required("sub-groups", problems);
    fields.report_rest(problems);
    let (Some(name), Some(nets), Some(sub_groups)) = (name, nets, sub_groups) else {
        return;
    };
    let head = GroupHead { name, role, nets };
    let before = modules.len();
    for (sub_group, node) in (1..).zip(items(sub_groups, "sub-groups", problems)) {
        let mut fields = Fields::of(node, "sub-group", problems);
        let list = fields.required("modules", problems);
        fields.report_rest(problems);
        let list = list.map_or(&[][..], |node| items(node, "modules", problems));
        for (index, node) in (1..).zip(list) {
            modules.extend(module(
                node,
                &head,
                (sub_group, index),
                (fabric, details),
                problems,
            ));
        }
    }
    if modules.len() == before {
        problems.add(node.line, Reason::EmptyGroup(head.name));
    }
}

fn read_nets(node: &Node<'_>, problems: &mut Problems) -> Option<Vec<Net>> {
    let mut nets = Vec::new();
    for item in items(node, "nets", problems) {
        let word = text(item, "nets", problems);
        nets.push(word.and_then(|word| net(problems, item.line, "nets", word)));
    }
    nets.into_iter().collect()
}

fn module(
    node: &Node<'_>,
    head: &GroupHead,
    (sub_group, index): (u16, u16),
    (fabric, details): (&Fabric, &mut Details),
    problems: &mut Problems,
) -> Option<ModuleDraft> {
    let mut fields = Fields::of(node, "module", problems);
    let blade: Option<String> = fields.parsed("blade", "a name", problems);
    let cabinet = fields.optional("cabinet");
    let cabinet = cabinet.and_then(|node| parse(node, "cabinet", "a name", problems));
    let at = fields.required("at", problems);
    let home = at.and_then(|node| vertex(node, fabric, problems));
    let ids = fields.required("nodes", problems);
    fields.report_rest(problems);
    let (ids, home) = (items(ids?, "nodes", problems), home?);
    let mut nodes = Vec::new();
    for (place, node) in ids.iter().enumerate() {
        let net = match &head.nets[..] {
            [net] => Some(*net),
            nets => nets.get(place).copied().filter(|_| nets.len() == ids.len()),
        };
        nodes.push(router(
            node,
            (net, &head.nets),
            home,
            (fabric, details),
            problems,
        ));
    }
    let nodes: Option<Vec<Vec<NodeDraft>>> = nodes.into_iter().collect();
    let nodes = nodes?;
    if nodes.iter().any(Vec::is_empty) {
        let (nodes, nets) = (ids.len(), head.nets.len());
        problems.add(node.line, Reason::NodesForNets { nodes, nets });
        return None;
    }
    Some(ModuleDraft {
        group: head.name.clone(),
        role: head.role,
        sub_group,
        index,
        cabinet: cabinet.or_else(|| blade.clone())?,
        blade: blade?,
        nodes: nodes.into_iter().flatten().collect(),
        place: problems.place(node.line),
    })
}

/// Reads a node of a module. Its place is that of the module unless it names another. The result
/// has one entry for each net of the node: the nets that the node names, or the net that belongs to
/// its position in the module, if there is one.
fn router(
    node: &Node<'_>,
    (net, known): (Option<Net>, &[Net]),
    home: Vertex,
    (fabric, details): (&Fabric, &mut Details),
    problems: &mut Problems,
) -> Option<Vec<NodeDraft>> {
    let mut nets: Vec<Net> = net.into_iter().collect();
    let (id, vertex) = match &node.value {
        Value::Mapping(_) => {
            let mut fields = Fields::of(node, "node", problems);
            let id = fields.parsed("id", "a number", problems);
            let name = fields.optional("name");
            let name = name.and_then(|node| text(node, "name", problems));
            let at = fields.optional("at");
            let vertex = at.map_or(Some(home), |node| vertex(node, fabric, problems));
            if let Some(list) = fields.optional("nets") {
                nets = read_nets(list, problems)?;
                for net in nets.iter().filter(|net| !known.contains(net)) {
                    problems.value(list.line, "nets", &net.to_string(), "a net of the group");
                }
            }
            let nics = fields
                .optional("nics")
                .map(|node| read_nics(node, &nets, problems));
            fields.report_rest(problems);
            if let Some(id) = id {
                details.names.extend(name.map(|name| (id, name.into())));
                details.nics.extend(nics.map(|nics| (id, nics)));
            }
            (id, vertex)
        }
        _ => (parse(node, "nodes", "a number", problems), Some(home)),
    };
    let (id, vertex) = (id?, vertex?);
    Some(
        nets.into_iter()
            .map(|net| NodeDraft { id, vertex, net })
            .collect(),
    )
}

/// Reads the interfaces of a node, whose nets behind the routers are `nets`. If there are several on
/// one side, each needs an address.
fn read_nics(node: &Node<'_>, nets: &[Net], problems: &mut Problems) -> Vec<Nic> {
    let mut nics: Vec<Nic> = Vec::new();
    for item in items(node, "nics", problems) {
        let mut fields = Fields::of(item, "nic", problems);
        let word = fields.optional("net");
        let word = word.and_then(|node| Some((node.line, text(node, "net", problems)?)));
        let on = word.and_then(|(line, word)| net(problems, line, "net", word));
        if let Some(on) = on.filter(|on| !nets.contains(on)) {
            let wanted = "a net of the node behind the routers; leave it out towards clients";
            problems.value(item.line, "net", &on.to_string(), wanted);
        }
        let interface = fields.optional("interface");
        let interface = interface.and_then(|node| text(node, "interface", problems));
        let address = fields.optional("address");
        let address = address.and_then(|node| parse(node, "address", "an IPv4 address", problems));
        let rate = fields
            .optional("rate")
            .and_then(|node| rate(node, problems));
        fields.report_rest(problems);
        nics.push(Nic {
            net: on,
            interface: interface.map(str::to_owned),
            address,
            rate,
        });
    }
    for (at, nic) in nics.iter().enumerate() {
        let is_beside = |other: &Nic| other.net == nic.net;
        if nic.address.is_none() && nics.iter().filter(|other| is_beside(other)).count() > 1 {
            let what = format!(
                "an address of interface {}: one of several on its side",
                at + 1
            );
            problems.add(node.line, Reason::Missing(what));
        }
    }
    nics
}

fn rate(node: &Node<'_>, problems: &mut Problems) -> Option<f64> {
    let rate: f64 = parse(node, "rate", "GB/s", problems)?;
    if !is_rate(rate) {
        problems.value(node.line, "rate", &rate.to_string(), RATE);
    }
    Some(rate).filter(|rate| is_rate(*rate))
}

/// Reads where rates come from.
fn rate_sources(node: &Node<'_>, problems: &mut Problems) -> RateSources {
    let mut fields = Fields::of(node, "rates", problems);
    let mut source = |key: &'static str| {
        let node = fields.optional(key);
        node.map_or_else(RateSource::unnamed, |node| rate_source(node, key, problems))
    };
    let (links, nics) = (source("links"), source("nics"));
    fields.report_rest(problems);
    RateSources { links, nics }
}
