//! Typed requests: outputs and changes of a node as values.
//!
//! ```text
//!  look    nets, routes, peers, globals, routing, statistics, recovery queues, configuration
//!  change  add_*, del_*, set_*, tune: one step each;  apply, remove, replace: a whole configuration in one step
//!  ask     ping, discover
//! ```
//!
//! The values are those of `lnet-config`, so the output for a net can be changed and added to
//! another node.

use std::time::Duration;

use lnet_config::{
    Buffers, Config, CptPools, DerivedGlobals, Document, Globals, NetConfig, NetShow, NiConfig,
    NodeStats, PeerConfig, PeerNiShow, PeerReply, PeerShow, Reply, RouteConfig, RouteShow,
};
use lnet_types::{Net, Nid};

use crate::connection::Dlc;
use crate::error::DlcError;
use crate::protocol::{
    Failure, Fault, FaultRule, HealthTarget, ImportMode, Request, RuleChange, Section, Show, Tune,
};

/// The verbosity that shows everything.
const EVERYTHING: u8 = 4;

/// The router of a node.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Routing {
    /// Whether it forwards messages.
    pub enabled: bool,
    /// Its pools, by CPU partition.
    pub pools: Vec<CptPools>,
    /// Their sizes.
    pub buffers: Buffers,
}

/// The results of asking several peers.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Answers {
    /// The answers, in the order of the request.
    pub replies: Vec<PeerReply>,
    /// The errors of the other peers.
    pub failures: Vec<Failure>,
}

// --- Outputs ---

impl Dlc {
    /// The local nets with their interfaces, loopback first. `only` selects one net.
    ///
    /// # Errors
    ///
    /// An unknown net; a broken connection.
    pub fn nets(&mut self, only: Option<Net>) -> Result<Vec<NetShow>, DlcError> {
        let net = only.map(|net| net.to_string());
        let all = Show::all(Section::Net, EVERYTHING);
        Ok(self.document(&Request::Show(Show { net, ..all }))?.nets)
    }

    /// The routes.
    ///
    /// # Errors
    ///
    /// A broken connection.
    pub fn routes(&mut self) -> Result<Vec<RouteShow>, DlcError> {
        Ok(self.shown(Section::Route)?.routes)
    }

    /// All peers. A node may have more than a hundred thousand peers, which take about 100 MB.
    ///
    /// # Errors
    ///
    /// As [`Dlc::routes`].
    pub fn peers(&mut self) -> Result<Vec<PeerShow>, DlcError> {
        Ok(self.shown(Section::Peer)?.peers)
    }

    /// The peer that has this NID.
    ///
    /// # Errors
    ///
    /// As [`Dlc::routes`].
    pub fn peer(&mut self, nid: Nid) -> Result<Option<PeerShow>, DlcError> {
        let nid = Some(nid.to_string());
        let all = Show::all(Section::Peer, EVERYTHING);
        match self.document(&Request::Show(Show { nid, ..all })) {
            Ok(document) => Ok(document.peers.into_iter().next()),
            Err(error) if error.errno() == -ENOENT => Ok(None),
            Err(error) => Err(error),
        }
    }

    /// The primary NIDs of all peers.
    ///
    /// # Errors
    ///
    /// As [`Dlc::routes`].
    pub fn peer_list(&mut self) -> Result<Vec<Nid>, DlcError> {
        self.listed(Section::PeerList)
    }

    /// The node-wide parameters and the values derived from them.
    ///
    /// # Errors
    ///
    /// As [`Dlc::routes`].
    pub fn globals(&mut self) -> Result<(Globals, DerivedGlobals), DlcError> {
        let document = self.shown(Section::Global)?;
        Ok((document.globals, document.derived))
    }

    /// The router.
    ///
    /// # Errors
    ///
    /// As [`Dlc::routes`].
    pub fn routing(&mut self) -> Result<Routing, DlcError> {
        let document = self.shown(Section::Routing)?;
        Ok(Routing {
            enabled: document.routing == Some(true),
            pools: document.pools,
            buffers: document.buffers,
        })
    }

    /// The node's counters.
    ///
    /// # Errors
    ///
    /// As [`Dlc::routes`].
    pub fn statistics(&mut self) -> Result<NodeStats, DlcError> {
        let document = self.shown(Section::Statistics)?;
        let missing = || DlcError::Answer("it has no statistics".to_owned());
        document.statistics.ok_or_else(missing)
    }

    /// The local interfaces in recovery.
    ///
    /// # Errors
    ///
    /// As [`Dlc::routes`].
    pub fn local_recovery(&mut self) -> Result<Vec<Nid>, DlcError> {
        self.listed(Section::LocalRecovery)
    }

    /// The interfaces of peers in recovery.
    ///
    /// # Errors
    ///
    /// As [`Dlc::routes`].
    pub fn peer_recovery(&mut self) -> Result<Vec<Nid>, DlcError> {
        self.listed(Section::PeerRecovery)
    }

    /// The whole configuration, for a copy on another node; see [`Dlc::replace`].
    ///
    /// # Errors
    ///
    /// As [`Dlc::routes`].
    pub fn configuration(&mut self) -> Result<Config, DlcError> {
        let document = self.document(&Request::Export { backup: true })?;
        Ok(document.config().0)
    }

    /// The injected faults as `lctl` lists them: `delay` or drop rules. Empty if there are none.
    ///
    /// # Errors
    ///
    /// As [`Dlc::routes`].
    pub fn faults(&mut self, delay: bool) -> Result<String, DlcError> {
        self.request(&Request::Fault(Fault::Show { delay }))
    }

    fn shown(&mut self, section: Section) -> Result<Document, DlcError> {
        self.document(&Request::Show(Show::all(section, EVERYTHING)))
    }

    fn listed(&mut self, section: Section) -> Result<Vec<Nid>, DlcError> {
        let replies = self.shown(section)?.replies.into_iter();
        let nids = replies.flat_map(|reply| match reply {
            Reply::PeerList(nids) | Reply::LocalRecovery(nids) | Reply::PeerRecovery(nids) => nids,
            _ => Vec::new(),
        });
        Ok(nids.collect())
    }

    fn document(&mut self, request: &Request) -> Result<Document, DlcError> {
        read(&self.request(request)?)
    }
}

const ENOENT: i32 = 2;

fn read(text: &str) -> Result<Document, DlcError> {
    let reading = lnet_config::read(text);
    let reading = reading.map_err(|error| DlcError::Answer(error.render("the node's answer")))?;
    Ok(reading.document)
}

// --- Changes ---

/// Whether changes are made or only checked.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Run {
    /// Make all changes, or none after an error.
    #[default]
    Real,
    /// Make none, and report the errors.
    Dry,
}

impl Dlc {
    /// Adds everything in a configuration to the node in one step.
    ///
    /// # Errors
    ///
    /// Changes that the node rejects. Nothing is then changed.
    pub fn apply(&mut self, config: &Config, run: Run) -> Result<(), DlcError> {
        self.import(config.to_yaml(), ImportMode::Add, run)
    }

    /// Removes everything in a configuration from the node in one step. Parameters stay, except
    /// those that `lnetctl import --del` resets.
    ///
    /// # Errors
    ///
    /// As [`Dlc::apply`].
    pub fn remove(&mut self, config: &Config, run: Run) -> Result<(), DlcError> {
        self.import(config.to_yaml(), ImportMode::Del, run)
    }

    /// Makes the node's configuration equal to `config` in one step. Objects in both configurations
    /// are not disturbed.
    ///
    /// # Errors
    ///
    /// As [`Dlc::apply`].
    pub fn replace(&mut self, config: &Config, run: Run) -> Result<(), DlcError> {
        self.import(config.to_yaml(), ImportMode::Replace, run)
    }

    /// Removes every net, route, peer and rule.
    ///
    /// # Errors
    ///
    /// As [`Dlc::apply`].
    pub fn unconfigure(&mut self) -> Result<(), DlcError> {
        self.done(&Request::Unconfigure)
    }

    /// Adds interfaces, and their net if it is new.
    ///
    /// # Errors
    ///
    /// An unknown interface, or one that is configured already; as [`Dlc::apply`].
    pub fn add_net(&mut self, net: NetConfig) -> Result<(), DlcError> {
        self.apply(&of_nets(net), Run::Real)
    }

    /// Removes these interfaces of a net; the whole net if it has none here.
    ///
    /// # Errors
    ///
    /// An unknown net or interface; as [`Dlc::apply`].
    pub fn del_net(&mut self, net: NetConfig) -> Result<(), DlcError> {
        if !net.nis.is_empty() {
            return self.remove(&of_nets(net), Run::Real);
        }
        let shown = self.nets(Some(net.net))?;
        let nis = shown.into_iter().flat_map(|net| net.nis);
        let named = nis.map(|ni| NiConfig {
            nid: ni.config.nid,
            ..NiConfig::default()
        });
        let nis = named.collect();
        self.remove(&of_nets(NetConfig { nis, ..net }), Run::Real)
    }

    /// Adds a route.
    ///
    /// # Errors
    ///
    /// It exists, its net is local, its gateway is on no local net; as [`Dlc::apply`].
    pub fn add_route(&mut self, route: RouteConfig) -> Result<(), DlcError> {
        self.apply(&of_routes(route), Run::Real)
    }

    /// Removes the route to this net by this gateway.
    ///
    /// # Errors
    ///
    /// An unknown route; as [`Dlc::apply`].
    pub fn del_route(&mut self, net: Net, gateway: Nid) -> Result<(), DlcError> {
        let route = RouteConfig {
            net,
            gateway,
            hop: None,
            priority: 0,
        };
        self.remove(&of_routes(route), Run::Real)
    }

    /// Adds a peer, or NIDs to an existing one.
    ///
    /// # Errors
    ///
    /// One of the NIDs belongs to another peer; as [`Dlc::apply`].
    pub fn add_peer(&mut self, peer: PeerConfig) -> Result<(), DlcError> {
        let peers = vec![peer];
        let config = Config {
            peers,
            ..Config::default()
        };
        self.apply(&config, Run::Real)
    }

    /// Removes a peer; if `nids` is not empty, only these of its NIDs.
    ///
    /// # Errors
    ///
    /// An unknown peer, or a gateway; as [`Dlc::apply`].
    pub fn del_peer(&mut self, primary: Nid, nids: &[Nid]) -> Result<(), DlcError> {
        let config = PeerConfig {
            nids: vec![primary],
            multi_rail: true,
        };
        let peer = PeerShow {
            nis: nids.iter().map(|&nid| PeerNiShow::new(nid)).collect(),
            ..PeerShow::from(&config)
        };
        let document = Document {
            peers: vec![peer],
            ..Document::default()
        };
        self.import(document.to_yaml(), ImportMode::Del, Run::Real)
    }

    /// Sets the parameters that are not `None`.
    ///
    /// # Errors
    ///
    /// An invalid value; as [`Dlc::apply`].
    pub fn set_globals(&mut self, globals: Globals) -> Result<(), DlcError> {
        let config = Config {
            globals,
            ..Config::default()
        };
        self.apply(&config, Run::Real)
    }

    /// Switches forwarding on or off.
    ///
    /// # Errors
    ///
    /// As [`Dlc::apply`].
    pub fn set_routing(&mut self, enabled: bool) -> Result<(), DlcError> {
        let config = Config {
            routing: Some(enabled),
            ..Config::default()
        };
        self.apply(&config, Run::Real)
    }

    /// Sets the sizes of the router's pools that are not `None`.
    ///
    /// # Errors
    ///
    /// As [`Dlc::apply`].
    pub fn set_buffers(&mut self, buffers: Buffers) -> Result<(), DlcError> {
        let config = Config {
            buffers,
            ..Config::default()
        };
        self.apply(&config, Run::Real)
    }

    /// Changes settings of interfaces in use.
    ///
    /// # Errors
    ///
    /// Unknown interfaces; as [`Dlc::apply`].
    pub fn tune(&mut self, tune: Tune) -> Result<(), DlcError> {
        self.done(&Request::Tune(tune))
    }

    /// Sets the health value of interfaces, 0 to 1000.
    ///
    /// # Errors
    ///
    /// Unknown interfaces, or a value above 1000.
    pub fn set_health(&mut self, target: HealthTarget, health: u16) -> Result<(), DlcError> {
        self.done(&Request::SetHealth { target, health })
    }

    /// Adds a selection rule or removes some, as `lnetctl udsp` does. [`Dlc::change_all_rules`]
    /// makes several changes in one step.
    ///
    /// # Errors
    ///
    /// An unknown rule or an invalid expression; as [`Dlc::apply`].
    pub fn change_rule(&mut self, change: RuleChange) -> Result<(), DlcError> {
        self.done(&Request::Rule(change))
    }

    /// Adds an injected fault.
    ///
    /// # Errors
    ///
    /// An invalid rule.
    pub fn add_fault(&mut self, rule: FaultRule) -> Result<(), DlcError> {
        self.done(&Request::Fault(Fault::Add(rule)))
    }

    /// Removes all injected faults of a kind: `delay` or drop rules.
    ///
    /// # Errors
    ///
    /// As [`Dlc::routes`].
    pub fn clear_faults(&mut self, delay: bool) -> Result<(), DlcError> {
        let (source, dest) = (None, None);
        self.done(&Request::Fault(Fault::Del {
            delay,
            source,
            dest,
        }))
    }

    /// Zeroes the node's counters.
    ///
    /// # Errors
    ///
    /// As [`Dlc::routes`].
    pub fn reset_statistics(&mut self) -> Result<(), DlcError> {
        self.done(&Request::ResetStatistics)
    }

    fn import(&mut self, yaml: String, mode: ImportMode, run: Run) -> Result<(), DlcError> {
        self.done(&Request::Import {
            yaml,
            mode,
            partial: false,
            dry_run: run == Run::Dry,
        })
    }

    fn done(&mut self, request: &Request) -> Result<(), DlcError> {
        self.request(request).map(|_| ())
    }
}

fn of_nets(net: NetConfig) -> Config {
    Config {
        nets: vec![net],
        ..Config::default()
    }
}

fn of_routes(route: RouteConfig) -> Config {
    Config {
        routes: vec![route],
        ..Config::default()
    }
}

// --- Pings ---

impl Dlc {
    /// Asks peers for their interfaces, one after the other, each with this timeout (whole seconds,
    /// at least one); from the interface `source` if given.
    ///
    /// # Errors
    ///
    /// As [`Dlc::routes`]. A peer that does not answer is not an error; it is in
    /// [`Answers::failures`].
    pub fn ping(
        &mut self,
        nids: &[Nid],
        source: Option<Nid>,
        timeout: Duration,
    ) -> Result<Answers, DlcError> {
        self.ask(nids, source, timeout, false)
    }

    /// The same; the node also keeps the answers, as discovery does.
    ///
    /// # Errors
    ///
    /// As [`Dlc::ping`].
    pub fn discover(&mut self, nids: &[Nid], timeout: Duration) -> Result<Answers, DlcError> {
        self.ask(nids, None, timeout, true)
    }

    fn ask(
        &mut self,
        nids: &[Nid],
        source: Option<Nid>,
        timeout: Duration,
        discover: bool,
    ) -> Result<Answers, DlcError> {
        let request = Request::Ping {
            nids: nids.iter().map(Nid::to_string).collect(),
            source: source.map(|nid| nid.to_string()),
            timeout: u32::try_from(timeout.as_secs()).unwrap_or(u32::MAX).max(1),
            discover,
        };
        let mut text = String::new();
        let failures = match self.request_pieces(&request, |piece| text.push_str(piece)) {
            Ok(()) => Vec::new(),
            Err(DlcError::Rejected(failures)) => failures,
            Err(error) => return Err(error),
        };
        let replies = read(&text)?.replies.into_iter();
        let replies = replies.flat_map(|reply| match reply {
            Reply::Ping(peers) | Reply::Discover(peers) => peers,
            _ => Vec::new(),
        });
        Ok(Answers {
            replies: replies.collect(),
            failures,
        })
    }
}
