//! Makes the classes and nodes of a site from a plan.

use std::collections::{BTreeMap, BTreeSet};

use lnet_config::{Buffers, Config, Globals, RouteConfig};
use lnet_policy::{Rule, RuleList};
use lnet_types::{Net, Nid};

use crate::config::interfaces::{Interfaces, OnNet, nets};
use crate::config::rules;
use crate::config::scheme::{BackupPriority, Form, Scheme, Server, Slots, slots};
use crate::config::slot_routers::SlotRouters;
use crate::config::{Class, NodeRole, Site, SiteError, SiteNode};
use crate::document::classes;
use crate::input::{is_file_name, is_node_name};
use crate::machine::Machine;
use crate::plan::Plan;
use crate::problem::shown;

/// Router buffers of one page and of 1 MiB: four times the kernel's minimum per CPU partition.
const BUFFERS: Buffers = Buffers {
    tiny: None,
    small: Some(16_384),
    large: Some(2_048),
};

impl Site {
    /// Makes the configuration of every client, router and server.
    ///
    /// # Errors
    ///
    /// [`SiteError`]: a number that gives no address or net, servers and nets that do not match,
    /// and more.
    pub fn new(
        machine: &Machine,
        plan: &Plan,
        scheme: &Scheme,
        servers: &[Server],
    ) -> Result<Self, SiteError> {
        let builder = Builder::new(machine, plan, scheme)?;
        builder.check_servers(servers)?;
        let mut site = Self {
            timing: scheme.timing.checked()?,
            ..Self::default()
        };
        builder.clients(&mut site)?;
        builder.routers(&mut site)?;
        let mut ids = BTreeSet::new();
        if machine.routers.iter().any(|router| !ids.insert(router.id)) {
            // A router of several nets was made once per net.
            site = Self::join(&[site])?;
        }
        builder.servers(&mut site, servers)?;
        check_names(scheme, &site)?;
        Ok(site)
    }
}

struct Builder<'a> {
    machine: &'a Machine,
    plan: &'a Plan,
    scheme: &'a Scheme,
    /// Client nets by slot.
    slots: Vec<Net>,
    slot_routers: SlotRouters,
    interfaces: Interfaces<'a>,
}

impl<'a> Builder<'a> {
    fn new(machine: &'a Machine, plan: &'a Plan, scheme: &'a Scheme) -> Result<Self, SiteError> {
        scheme.check(machine)?;
        let builder = Self {
            machine,
            plan,
            scheme,
            slots: scheme.client_nets(slots(machine))?,
            slot_routers: SlotRouters::new(machine, plan, scheme.form),
            interfaces: Interfaces::new(machine, scheme),
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

    fn clients(&self, site: &mut Site) -> Result<(), SiteError> {
        let classes = classes(self.machine, self.plan);
        // Clients of a class have the same routes and the same names of interfaces.
        let mut known: BTreeMap<(usize, Vec<OnNet>), usize> = BTreeMap::new();
        for (client, &class) in self.machine.clients.iter().zip(&classes.of_client) {
            let slots = self.slots_of(classes.rows[class]);
            let (on, nids) = self.on_client_nets(&slots, client.id)?;
            let next = known.len();
            site.nodes.push(SiteNode {
                name: client
                    .name
                    .as_deref()
                    .map_or_else(|| name(client.id), str::to_owned),
                class: *known.entry((class, on)).or_insert(next),
                blade: None,
                nids: nids.into_iter().collect(),
            });
        }
        // In the order of route tables, not in that of clients.
        let mut order = vec![0; known.len()];
        for (index, ((table, on), first)) in known.into_iter().enumerate() {
            let mut class = self.class(NodeRole::Client, index, &on)?;
            class.config.globals.drop_asym_route = Some(true);
            for net in 0..self.machine.nets.len() {
                self.client_routes(&mut class, classes.rows[table], net)?;
            }
            site.classes.push(class);
            order[first] = index;
        }
        for node in &mut site.nodes {
            node.class = order[node.class];
        }
        Ok(())
    }

    /// Interfaces and NIDs of a node on these client nets.
    fn on_client_nets(&self, nets: &[Net], id: u32) -> Result<(Vec<OnNet>, Vec<Nid>), SiteError> {
        let (mut on, mut all) = (Vec::with_capacity(nets.len()), Vec::new());
        for &net in nets {
            let (interfaces, nids): (Vec<String>, Vec<Nid>) = self
                .interfaces
                .towards_clients(net, id)?
                .into_iter()
                .unzip();
            on.push((net, interfaces));
            all.extend(nids);
        }
        Ok((on, all))
    }

    /// Returns the nets of the clients of a row.
    fn slots_of(&self, row: usize) -> Vec<Net> {
        if self.scheme.slots == Slots::All {
            return self.slots.clone();
        }
        let nets = 0..self.machine.nets.len();
        let used = nets.filter_map(|net| self.slot_routers.slot(self.plan.routers(row, net)));
        let used: BTreeSet<usize> = used.collect();
        used.into_iter().map(|slot| self.slots[slot]).collect()
    }

    /// Adds routes by the routers of a cell, each by its NID on the slot net of the primary. Other
    /// routers that servers may use towards that net come last; without them the client would drop
    /// messages from those routers.
    fn client_routes(&self, class: &mut Class, row: usize, net: usize) -> Result<(), SiteError> {
        let routers = self.plan.routers(row, net);
        let Some(slot) = self.slot_routers.slot(routers) else {
            return Ok(());
        };
        let gateways = |router: u16| -> Result<Vec<Nid>, SiteError> {
            let id = self.machine.routers[usize::from(router)].id;
            let on = self.interfaces.towards_clients(self.slots[slot], id)?;
            Ok(self.as_gateway(on))
        };
        let target = self.machine.nets[net].net;
        for (&router, priority) in routers.iter().zip(self.priorities()) {
            add_routes(class, target, &gateways(router)?, priority);
        }
        let last = self.priorities().nth(routers.len()).unwrap_or(0);
        let others = self.slot_routers.routers(net, slot).iter();
        for &router in others.filter(|router| !routers.contains(router)) {
            add_routes(class, target, &gateways(router)?, last);
        }
        let primary = routers.first().filter(|_| !self.plan.is_shared());
        if let (Form::MultiRail, Some(&primary)) = (self.scheme.form, primary) {
            for gateway in gateways(primary)? {
                class.rules.extend(rules::towards_net(target, gateway));
            }
        }
        Ok(())
    }

    /// Returns the NIDs by which others route over a node: all without discovery, because each is
    /// then a peer of its own; otherwise the first, by which discovery finds the others.
    fn as_gateway(&self, on: Vec<(String, Nid)>) -> Vec<Nid> {
        let most = match self.scheme.form {
            Form::SlotNets => usize::MAX,
            Form::MultiRail => 1,
        };
        on.into_iter().map(|(_, nid)| nid).take(most).collect()
    }

    /// Priorities of routers, in the order of the plan.
    fn priorities(&self) -> impl Iterator<Item = u32> + use<> {
        let (shared, backups) = (self.plan.is_shared(), self.scheme.backups);
        (0..).map(move |choice: u32| match backups {
            _ if shared => 0,
            BackupPriority::Equal => choice.min(1),
            BackupPriority::Ranked => choice,
        })
    }

    /// A router is on the net of its own slot and on the nets of the slots that it backs up.
    fn routers(&self, site: &mut Site) -> Result<(), SiteError> {
        let mut known: BTreeMap<Vec<OnNet>, usize> = BTreeMap::new();
        let first = site.classes.len();
        let routers = (0_u16..).zip(&self.machine.routers);
        for (index, router) in routers.filter(|(index, _)| !self.plan.dead.contains(index)) {
            let slots = self.slot_routers.slots_of(index).into_iter();
            let client_nets: Vec<Net> = slots.map(|slot| self.slots[slot]).collect();
            let server_net = self.machine.nets[usize::from(router.net)].net;
            let (mut on, mut nids) = self.on_client_nets(&client_nets, router.id)?;
            let (interfaces, behind): (Vec<String>, Vec<Nid>) = self
                .interfaces
                .behind(server_net, router.id)?
                .into_iter()
                .unzip();
            on.push((server_net, interfaces));
            nids.extend(behind);
            let next = known.len();
            let number = *known.entry(on.clone()).or_insert(next);
            if first + number == site.classes.len() {
                let mut class = self.class(NodeRole::Router, number, &on)?;
                class.config.routing = Some(true);
                class.config.buffers = BUFFERS;
                site.classes.push(class);
            }
            let module = &self.machine.modules[usize::from(router.module)];
            site.nodes.push(SiteNode {
                name: self.router_name(router.id),
                class: first + number,
                blade: Some(module.blade.clone()),
                nids: nids.into_iter().collect(),
            });
        }
        Ok(())
    }

    /// The name of a router: that of the machine, or its number.
    fn router_name(&self, id: u32) -> String {
        let given = self.machine.details.names.get(&id);
        given.map_or_else(|| name(id), ToString::to_string)
    }

    fn servers(&self, site: &mut Site, servers: &[Server]) -> Result<(), SiteError> {
        let mut known: BTreeMap<Vec<OnNet>, usize> = BTreeMap::new();
        for server in servers {
            let (nets, nids) = self.interfaces.of_server(&server.nids);
            if !known.contains_key(&nets) {
                let class = self.server_class(known.len(), &nets)?;
                known.insert(nets.clone(), site.classes.len());
                site.classes.push(class);
            }
            site.nodes.push(SiteNode {
                name: server.name.clone(),
                class: known[&nets],
                blade: None,
                nids: nids.into_iter().collect(),
            });
        }
        Ok(())
    }

    /// Makes the routes to the slot nets of clients: first by the router of the slot, then by its
    /// backups.
    fn server_class(&self, index: usize, nets: &[OnNet]) -> Result<Class, SiteError> {
        let mut class = self.class(NodeRole::Server, index, nets)?;
        class.config.globals.drop_asym_route = Some(true);
        for (slot, &client_net) in self.slots.iter().enumerate() {
            for (net, entry) in self.machine.nets.iter().enumerate() {
                if nets.iter().all(|(on, _)| *on != entry.net) {
                    continue;
                }
                let routers = self.slot_routers.routers(net, slot).iter();
                for (&router, priority) in routers.zip(self.priorities()) {
                    let id = self.machine.routers[usize::from(router)].id;
                    let gateways = self.as_gateway(self.interfaces.behind(entry.net, id)?);
                    let priority = match self.scheme.form {
                        Form::SlotNets => priority,
                        Form::MultiRail => 0,
                    };
                    add_routes(&mut class, client_net, &gateways, priority);
                }
                if self.scheme.form == Form::MultiRail && !self.plan.is_shared() {
                    class.rules.extend(self.rules_of_server(net)?);
                }
            }
        }
        match class.rules.len() {
            0..=RuleList::MAX_LEN => Ok(class),
            rules => Err(SiteError::TooManyRules { rules }),
        }
    }

    /// Makes a rule for each router of a net: the servers reach the clients of the router by the
    /// router.
    fn rules_of_server(&self, net: usize) -> Result<Vec<Rule>, SiteError> {
        let mut clients: BTreeMap<u16, Vec<Nid>> = BTreeMap::new();
        for (index, client) in self.machine.clients.iter().enumerate() {
            let routers = self.plan.routers(self.plan.row_of(index), net);
            if let Some(&primary) = routers.first() {
                let on = self
                    .interfaces
                    .towards_clients(self.scheme.client_net, client.id)?;
                let nids = clients.entry(primary).or_default();
                nids.extend(on.into_iter().map(|(_, nid)| nid));
            }
        }
        let mut found = Vec::new();
        for (router, mut nids) in clients {
            nids.sort_unstable();
            let id = self.machine.routers[usize::from(router)].id;
            for gateway in self.as_gateway(self.interfaces.behind(self.machine.nets[net].net, id)?)
            {
                found.extend(rules::towards_nids(&nids, gateway));
            }
        }
        Ok(found)
    }

    /// Makes a class on these nets. With slot nets discovery is off, because it would merge the
    /// nets of a peer and with them the slots.
    fn class(&self, role: NodeRole, index: usize, on: &[OnNet]) -> Result<Class, SiteError> {
        self.scheme.check_count(
            role,
            on.iter().map(|(_, interfaces)| interfaces.len()).sum(),
        )?;
        Ok(Class {
            name: format!("{}-{:03}", role.name(), index + 1),
            role,
            config: Config {
                nets: nets(on),
                globals: Globals {
                    discovery: Some(self.scheme.form == Form::MultiRail),
                    transaction_timeout: Some(self.scheme.timing.transaction_timeout),
                    ..Globals::default()
                },
                ..Config::default()
            },
            rules: Vec::new(),
        })
    }
}

/// Every route has `hop: 1`: LNet tracks the state of the far side only for such routes.
fn add_routes(class: &mut Class, net: Net, gateways: &[Nid], priority: u32) {
    class
        .config
        .routes
        .extend(gateways.iter().map(|&gateway| RouteConfig {
            net,
            gateway,
            hop: Some(1),
            priority,
        }));
}

/// Checks names. They become file names and columns of tables, so they must stay within these and
/// be unique.
fn check_names(scheme: &Scheme, site: &Site) -> Result<(), SiteError> {
    let nis = site
        .classes
        .iter()
        .flat_map(|class| &class.config.nets)
        .flat_map(|net| &net.nis);
    let given = [&scheme.client_interface, &scheme.server_interface];
    let interfaces = nis.flat_map(|ni| &ni.interfaces).chain(given);
    let interfaces: BTreeSet<&String> = interfaces.collect();
    let interfaces = interfaces
        .into_iter()
        .map(|name| ("interface", name.replace(':', "-")));
    let nodes = site.nodes.iter().map(|node| ("node", node.name.clone()));
    let blades = site.nodes.iter().filter_map(|node| node.blade.clone());
    let blades = blades.map(|blade| ("blade", blade));
    for (what, name) in interfaces.chain(nodes).chain(blades) {
        let is_good = if what == "node" {
            is_node_name(&name)
        } else {
            is_file_name(&name)
        };
        if !is_good {
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

/// The name of a node for which the machine gives none.
fn name(id: u32) -> String {
    format!("nid{id:05}")
}
