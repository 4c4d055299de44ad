//! Makes the classes and nodes of a plan.

use std::collections::{BTreeMap, BTreeSet};

use lnet_config::{Buffers, Config, Globals, NetConfig, NiConfig, RouteConfig};
use lnet_policy::{Profile, Rule, RuleText};
use lnet_types::{Net, Nid};

use crate::config::files::is_file_name;
use crate::config::scheme::{BackupPriority, Preference, Scheme, Server};
use crate::config::{Class, NodeRole, Site, SiteError, SiteNode};
use crate::document::classes;
use crate::machine::Machine;
use crate::plan::Plan;
use crate::problem::shown;

/// Router buffers of one page and of 1 MiB, four times the least that a kernel takes a CPU partition
/// (planning, sections 3.2 and 3.4).
const BUFFERS: Buffers = Buffers {
    tiny: None,
    small: Some(16_384),
    large: Some(2_048),
};

impl Site {
    /// The configuration of every client, router and server.
    ///
    /// # Errors
    ///
    /// [`SiteError`]: numbers that give no address or net, servers and nets that do not meet.
    pub fn new(
        machine: &Machine,
        plan: &Plan,
        scheme: &Scheme,
        servers: &[Server],
    ) -> Result<Self, SiteError> {
        let builder = Builder::new(machine, plan, scheme)?;
        builder.check_servers(servers)?;
        let mut site = Self::default();
        builder.clients(&mut site)?;
        builder.routers(&mut site)?;
        builder.servers(&mut site, servers)?;
        check_names(scheme, &site)?;
        Ok(site)
    }
}

struct Builder<'a> {
    machine: &'a Machine,
    plan: &'a Plan,
    scheme: &'a Scheme,
    /// The nets of clients by slot.
    slots: Vec<Net>,
    /// The slot of each router, from 0.
    slot_of: Vec<usize>,
}

impl<'a> Builder<'a> {
    fn new(machine: &'a Machine, plan: &'a Plan, scheme: &'a Scheme) -> Result<Self, SiteError> {
        let mut slot_of = vec![0; machine.routers.len()];
        for net in &machine.nets {
            for (slot, &router) in net.routers.iter().enumerate() {
                slot_of[usize::from(router)] = slot;
            }
        }
        let slots = machine.nets.iter().map(|net| net.routers.len()).max();
        let slots = (1..=slots.unwrap_or(0)).map(|slot| scheme.slot_net(slot));
        let builder = Self {
            machine,
            plan,
            scheme,
            slots: slots.collect::<Result<_, _>>()?,
            slot_of,
        };
        builder.check_nets()?;
        Ok(builder)
    }

    fn check_nets(&self) -> Result<(), SiteError> {
        let behind = self.machine.nets.iter().map(|entry| entry.net);
        for net in behind.clone() {
            if self.slots.contains(&net) {
                return Err(SiteError::NetTwice(net));
            }
        }
        match behind
            .chain([self.scheme.client_net])
            .find(|net| net.lnd.name().is_none())
        {
            Some(net) => Err(SiteError::NoName(net)),
            None => Ok(()),
        }
    }

    fn check_servers(&self, servers: &[Server]) -> Result<(), SiteError> {
        let nets = self.machine.nets.iter().map(|entry| entry.net);
        for server in servers {
            for net in server.nids.iter().map(|nid| nid.net()) {
                if nets.clone().all(|known| known != net) {
                    let server = server.name.clone();
                    return Err(SiteError::UnknownNet { server, net });
                }
            }
        }
        let is_on = |net: Net| {
            servers
                .iter()
                .flat_map(|s| &s.nids)
                .any(|nid| nid.net() == net)
        };
        match nets.clone().find(|&net| !is_on(net)) {
            Some(net) => Err(SiteError::NoServer(net)),
            None => Ok(()),
        }
    }

    /// The client-side NID of a router on the net of its own slot.
    fn gateway(&self, router: u16) -> Result<Nid, SiteError> {
        let router = usize::from(router);
        let net = self.slots[self.slot_of[router]];
        self.scheme.client_nid(net, self.machine.routers[router].id)
    }

    fn clients(&self, site: &mut Site) -> Result<(), SiteError> {
        let classes = classes(self.machine, self.plan);
        for (index, &row) in classes.rows.iter().enumerate() {
            let mut class = self.class(NodeRole::Client, index, &self.slots, &[]);
            class.config.globals.drop_asym_route = Some(true);
            for (net, entry) in self.machine.nets.iter().enumerate() {
                let gateways = self.plan.routers(row, net).iter();
                let gateways: Vec<Nid> = gateways
                    .map(|&r| self.gateway(r))
                    .collect::<Result<_, _>>()?;
                self.add_routes(&mut class, entry.net, &gateways);
            }
            site.classes.push(class);
        }
        for (client, &class) in self.machine.clients.iter().zip(&classes.of_client) {
            let nids = self
                .slots
                .iter()
                .map(|&net| self.scheme.client_nid(net, client.id));
            site.nodes.push(SiteNode {
                name: client
                    .name
                    .as_deref()
                    .map_or_else(|| name(client.id), str::to_owned),
                class,
                blade: None,
                nids: nids.collect::<Result<_, _>>()?,
            });
        }
        Ok(())
    }

    /// A router is on the net of its own slot and on those of its siblings.
    fn routers(&self, site: &mut Site) -> Result<(), SiteError> {
        let mut known: BTreeMap<(Vec<Net>, Net), usize> = BTreeMap::new();
        let routers = (0_u16..).zip(&self.machine.routers);
        for (index, router) in routers.filter(|(index, _)| !self.plan.dead.contains(index)) {
            let siblings = self.siblings(index).into_iter();
            let client_nets: Vec<Net> = siblings
                .map(|r| self.slots[self.slot_of[usize::from(r)]])
                .collect();
            let server_net = self.machine.nets[usize::from(router.net)].net;
            let mut nids: Vec<Nid> = Vec::new();
            for &net in &client_nets {
                nids.push(self.scheme.client_nid(net, router.id)?);
            }
            nids.push(self.scheme.server_nid(server_net, router.id)?);
            let next = known.len();
            let number = *known
                .entry((client_nets.clone(), server_net))
                .or_insert(next);
            let first = site
                .classes
                .iter()
                .take_while(|c| c.role == NodeRole::Client)
                .count();
            if first + number == site.classes.len() {
                let mut class = self.class(NodeRole::Router, number, &client_nets, &[server_net]);
                class.config.routing = Some(true);
                class.config.buffers = BUFFERS;
                site.classes.push(class);
            }
            let module = &self.machine.modules[usize::from(router.module)];
            site.nodes.push(SiteNode {
                name: name(router.id),
                class: first + number,
                blade: Some(module.blade.clone()),
                nids,
            });
        }
        Ok(())
    }

    /// The routers of the same net in the same sub-group, itself among them, in order of slot.
    fn siblings(&self, router: u16) -> Vec<u16> {
        let place = |index: u16| {
            let router = &self.machine.routers[usize::from(index)];
            let module = &self.machine.modules[usize::from(router.module)];
            (router.net, module.sub_group)
        };
        let net = self.machine.routers[usize::from(router)].net;
        let all = self.machine.nets[usize::from(net)].routers.iter().copied();
        let alive = all.filter(|router| !self.plan.dead.contains(router));
        alive
            .filter(|&other| place(other) == place(router))
            .collect()
    }

    fn servers(&self, site: &mut Site, servers: &[Server]) -> Result<(), SiteError> {
        let mut known: BTreeMap<Vec<Net>, usize> = BTreeMap::new();
        for server in servers {
            let nets: Vec<Net> = server.nids.iter().map(|nid| nid.net()).collect();
            if !known.contains_key(&nets) {
                let class = self.server_class(known.len(), &nets)?;
                known.insert(nets.clone(), site.classes.len());
                site.classes.push(class);
            }
            site.nodes.push(SiteNode {
                name: server.name.clone(),
                class: known[&nets],
                blade: None,
                nids: server.nids.clone(),
            });
        }
        Ok(())
    }

    /// Routes to the net of each slot: by the router of the slot, then by its siblings.
    fn server_class(&self, index: usize, nets: &[Net]) -> Result<Class, SiteError> {
        let mut class = self.class(NodeRole::Server, index, &[], nets);
        class.config.globals.drop_asym_route = Some(true);
        for (slot, &client_net) in self.slots.iter().enumerate() {
            for entry in self
                .machine
                .nets
                .iter()
                .filter(|entry| nets.contains(&entry.net))
            {
                let Some(&own) = entry.routers.get(slot) else {
                    continue;
                };
                let mut order = self.siblings(own);
                order.sort_by_key(|&router| router != own);
                order.truncate(self.plan.choices().max(1));
                let gateways = order.iter().map(|&router| {
                    let id = self.machine.routers[usize::from(router)].id;
                    self.scheme.server_nid(entry.net, id)
                });
                let gateways: Vec<Nid> = gateways.collect::<Result<_, _>>()?;
                self.add_routes(&mut class, client_net, &gateways);
            }
        }
        Ok(class)
    }

    /// A class on these nets. Discovery is off: it would merge the nets of a peer, and with them the
    /// slots (planning, section 3.2).
    fn class(&self, role: NodeRole, index: usize, client: &[Net], server: &[Net]) -> Class {
        let on = |net: &Net, interface: &String| NetConfig {
            net: *net,
            nis: vec![NiConfig {
                interfaces: vec![interface.clone()],
                ..NiConfig::default()
            }],
        };
        let client = client
            .iter()
            .map(|net| on(net, &self.scheme.client_interface));
        let server = server
            .iter()
            .map(|net| on(net, &self.scheme.server_interface));
        Class {
            name: format!("{}-{:03}", role.name(), index + 1),
            role,
            config: Config {
                nets: client.chain(server).collect(),
                globals: Globals {
                    discovery: Some(false),
                    ..Globals::default()
                },
                ..Config::default()
            },
            rules: Vec::new(),
        }
    }

    /// Routes to `net`, best first, each one hop long: only then is the far side's state known
    /// (planning, section 3.2).
    fn add_routes(&self, class: &mut Class, net: Net, gateways: &[Nid]) {
        let by_rule = self.scheme.preference == Preference::Rule;
        for (choice, &gateway) in (0_u32..).zip(gateways) {
            let priority = match self.scheme.backups {
                _ if by_rule || (self.plan.is_shared() && class.role == NodeRole::Client) => 0,
                BackupPriority::Equal => choice.min(1),
                BackupPriority::Ranked => choice,
            };
            class.config.routes.push(RouteConfig {
                net,
                gateway,
                hop: Some(1),
                priority,
            });
        }
        if let Some(first) = gateways
            .first()
            .filter(|_| by_rule && !self.plan.is_shared())
        {
            let (dst, rte) = (net.to_string(), first.to_string());
            let text = RuleText {
                dst: Some(&dst),
                rte: Some(&rte),
                ..RuleText::default()
            };
            // Nets with unknown LND types, which have no rule, were refused before.
            class.rules.extend(Rule::from_text(&text, Profile::Lustre));
        }
    }
}

/// Names become paths and columns, so they must stay in them, and tell nodes apart.
fn check_names(scheme: &Scheme, site: &Site) -> Result<(), SiteError> {
    let interfaces = [&scheme.client_interface, &scheme.server_interface];
    let interfaces = interfaces.map(|name| ("interface", name.replace(':', "-")));
    let nodes = site.nodes.iter().map(|node| ("node", node.name.clone()));
    let blades = site.nodes.iter().filter_map(|node| node.blade.clone());
    let blades = blades.map(|blade| ("blade", blade));
    for (what, name) in interfaces.into_iter().chain(nodes).chain(blades) {
        if !is_file_name(&name) {
            let name = shown(&name);
            return Err(SiteError::BadName { what, name });
        }
    }
    let mut seen = BTreeSet::new();
    match site.nodes.iter().find(|node| !seen.insert(&node.name)) {
        Some(node) => Err(SiteError::NameTwice(node.name.clone())),
        None => Ok(()),
    }
}

/// A node's name where the machine gives none.
fn name(id: u32) -> String {
    format!("nid{id:05}")
}
