//! Gathers the facts: the MGS, its log, pings of every NID, and, where that is wanted, connects to the targets.

use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::io::{self, IsTerminal, Write};
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::{Mutex, PoisonError};
use std::thread;

use lnet_ptlrpc::client::{Ending, Exchange, Export, Failure, Service};
use lnet_ptlrpc::mount::{Answer, Facts, Knock, Mgs, Reach, TargetFacts, Way};
use lnet_ptlrpc::{FileSystem, Needs};
use lnet_types::Nid;
use serde_json::{Value, json};

use super::MountArgs;
use super::endpoint::{Endpoint, Lost, Peer};
use super::records::{Kept, Record, Records, now};
use super::source::Source;

/// The most pings at the same time.
const PINGS: usize = 128;

/// The most connects at the same time.
const KNOCKS: usize = 4;

/// After so many connects, a terminal shows how far they are.
const KNOCKS_SHOWN: usize = 32;

/// Everything that a check found out.
pub(super) struct Gathered {
    pub(super) facts: Facts,
    /// The file system as the log has it.
    pub(super) system: FileSystem,
    /// Connections that could not be ended.
    pub(super) left: Vec<Record>,
    pub(super) is_interrupted: bool,
}

/// The gathering.
pub(super) struct Gathering<'a> {
    args: &'a MountArgs,
    endpoint: &'a Endpoint,
    records: &'a Records,
    stop: &'a AtomicBool,
    left: Mutex<Vec<Record>>,
}

impl<'a> Gathering<'a> {
    pub(super) fn new(
        args: &'a MountArgs,
        endpoint: &'a Endpoint,
        records: &'a Records,
        stop: &'a AtomicBool,
    ) -> Self {
        Self {
            args,
            endpoint,
            records,
            stop,
            left: Mutex::default(),
        }
    }

    fn is_interrupted(&self) -> bool {
        self.stop.load(Ordering::Relaxed)
    }

    /// Returns whether nothing more is asked.
    fn is_stopped(&self) -> bool {
        self.is_interrupted() || self.endpoint.is_over(1)
    }

    /// Returns why not everything was asked, if that is so.
    fn why_cut(&self, facts: &Facts) -> Option<String> {
        let mut of_mgs = facts.mgs.iter().flat_map(|mgs| &mgs.nids);
        let is_cut = self.is_stopped()
            || of_mgs.any(Reach::is_unasked)
            || facts.targets.iter().any(|target| target.is_unasked);
        is_cut.then(|| match self.is_interrupted() {
            true => "interrupted".to_owned(),
            false => format!("the {} s of --timeout are over", self.args.timeout),
        })
    }

    /// Ends the connections of earlier runs that could not end them.
    pub(super) fn end_earlier(&self) {
        for (kept, record) in self.records.earlier() {
            let nid = record.server.parse::<Nid>().ok();
            let Some(nid) = nid.filter(|_| record.port == self.endpoint.port) else {
                self.leave(record);
                continue;
            };
            // The check itself needs most of the time.
            if self.is_interrupted() || self.endpoint.is_over(4) {
                self.leave(record);
                continue;
            }
            self.say(&format!("ending a connection of an earlier run on {nid}"));
            let mut exchange = None;
            let way = self.endpoint.way(nid);
            if !matches!(
                way,
                Way::NoNet | Way::NoDevice { .. } | Way::Unexamined { .. }
            ) && self.endpoint.ping(nid, 1) == Answer::Yes
            {
                exchange = Some(Exchange::end(
                    record.export.clone(),
                    self.endpoint.beginning(),
                ));
            }
            match exchange {
                Some(exchange) => {
                    let mut peer = self.endpoint.peer([nid].into_iter(), vec![nid]);
                    self.run(exchange, &mut peer, Some(kept));
                }
                None => self.leave(record),
            }
        }
    }

    pub(super) fn gather(&self, source: &Source) -> Gathered {
        let mut facts = Facts {
            fs: source.fs.clone(),
            ..Facts::default()
        };
        let mut system = FileSystem::default();
        for nids in &source.nodes {
            let (mgs, exchange) = self.ask_mgs(nids, &source.fs);
            let is_served = matches!(mgs.outcome, Some(Ok(_)));
            // A log that is not there, or not whole, is no better on another node.
            let is_final = matches!(
                mgs.outcome,
                Some(Err(Failure::NoFileSystem
                    | Failure::Log(_)
                    | Failure::Stopped))
            );
            facts.mgs.push(mgs);
            let log = exchange.as_ref().and_then(Exchange::log);
            if let Some((found, rules)) = log.filter(|_| is_served) {
                facts.has_log = true;
                facts.problems.clone_from(&found.problems);
                facts.rules = rules.clone();
                system = found.clone();
            }
            if is_served || is_final {
                break;
            }
        }
        let standby = source.nodes.get(facts.mgs.len()..).unwrap_or_default();
        let standby = if facts.has_log { standby } else { &[] };
        self.ask_targets(&system, standby, &mut facts);
        facts.cut = self.why_cut(&facts);
        let left = std::mem::take(&mut *self.left.lock().unwrap_or_else(PoisonError::into_inner));
        Gathered {
            facts,
            system,
            left,
            is_interrupted: self.is_interrupted(),
        }
    }

    fn ask_mgs(&self, nids: &[Nid], fs: &str) -> (Mgs, Option<Exchange>) {
        let reached = self.reach_all(nids.iter().map(ToString::to_string));
        let reaches: Vec<Reach> = nids
            .iter()
            .filter_map(|nid| reached.get(&nid.to_string()).cloned())
            .collect();
        let mut mgs = Mgs {
            nids: reaches,
            outcome: None,
        };
        let answering = answering(&mgs.nids);
        let mut peer = self.endpoint.peer(nids.iter().copied(), answering);
        let Some(first) = peer.current() else {
            return (mgs, None);
        };
        self.say(&format!("{first}: reading the configuration of {fs}"));
        let Some(export) = new_export(Service::Mgs, "MGS") else {
            let failure = Failure::Own("the system has no random numbers".to_owned());
            mgs.outcome = Some(Err(failure));
            return (mgs, None);
        };
        let exchange = Exchange::read_log(export, fs, self.endpoint.beginning());
        let exchange = self.run(exchange, &mut peer, None);
        // A node without a NID that still answers was not reached.
        if lose(&mut mgs.nids, peer.lost) {
            mgs.outcome = Some(outcome(&exchange));
        }
        (mgs, Some(exchange))
    }

    /// Runs a conversation to its end. Its connection is written down while a server may have it.
    fn run(&self, mut exchange: Exchange, peer: &mut Peer, mut kept: Option<Kept>) -> Exchange {
        let record = |server: String, export: &Export| Record {
            server,
            port: self.endpoint.port,
            time: now(),
            export: export.clone(),
        };
        let mut written: Option<Export> = None;
        let note = |exchange: &Exchange, nid: Nid| -> anyhow::Result<()> {
            let export = exchange.export();
            if written.as_ref() == Some(export) {
                return Ok(());
            }
            let record = record(nid.to_string(), export);
            match &mut kept {
                Some(kept) => kept.write(&record)?,
                None => kept = Some(self.records.keep(&record)?),
            }
            written = Some(export.clone());
            Ok(())
        };
        self.endpoint.converse(&mut exchange, peer, self.stop, note);
        let server = peer.current().map(|nid| nid.to_string());
        let server = server.unwrap_or_default();
        if exchange.strays() > 0 {
            tracing::warn!(
                server,
                messages = exchange.strays(),
                "ignored messages that no request waited for"
            );
        }
        match (exchange.ending(), kept) {
            (Ending::Clean, Some(kept)) => kept.remove(),
            (Ending::Clean, None) => {}
            (Ending::Left(export), Some(_)) => self.leave(record(server, export)),
            // It could not be written down, so nothing was sent.
            (Ending::Left(_), None) => {}
        }
        exchange
    }

    fn leave(&self, record: Record) {
        let mut left = self.left.lock().unwrap_or_else(PoisonError::into_inner);
        left.push(record);
    }

    /// Asks the targets, and the nodes of the MGS behind the one that serves.
    fn ask_targets(&self, system: &FileSystem, standby: &[Vec<Nid>], facts: &mut Facts) {
        let nodes = |target: &lnet_ptlrpc::Target| {
            let mut nodes = vec![target.nids.clone()];
            nodes.extend(target.failover.iter().cloned());
            nodes
        };
        let logged = by_worth(system).flat_map(|(_, target)| {
            let now = target.now.iter().cloned();
            nodes(target).into_iter().flatten().chain(now)
        });
        let standby = standby
            .iter()
            .map(|nids| nids.iter().map(ToString::to_string).collect());
        let standby: Vec<Vec<String>> = standby.collect();
        let texts = logged.chain(standby.iter().flatten().cloned());
        let reached = self.reach_all(texts);
        let reach = |nid: &String| reached.get(nid).cloned();
        facts.mgs.extend(standby.iter().map(|nids| Mgs {
            nids: nids.iter().filter_map(reach).collect(),
            outcome: None,
        }));
        for (name, target) in by_worth(system) {
            let Some(service) = Service::of_target(name) else {
                continue;
            };
            let nodes = nodes(target);
            let nodes = nodes
                .iter()
                .map(|node| node.iter().filter_map(reach).collect());
            facts.targets.push(TargetFacts {
                name: name.clone(),
                service,
                index: target.index,
                is_inactive: target.is_inactive,
                nodes: nodes.collect(),
                now: target.now.iter().filter_map(reach).collect(),
                knocks: Vec::new(),
                is_unasked: false,
            });
        }
        for target in &mut facts.targets {
            let mut reaches = target.nodes.iter().flatten().chain(&target.now);
            target.is_unasked = reaches.any(Reach::is_unasked);
        }
        if self.args.targets {
            self.knock_at_all(facts);
        }
    }

    /// Connects to the targets that a client without keys may ask: the check speaks with the null flavor only.
    fn knock_at_all(&self, facts: &mut Facts) {
        let Facts { rules, targets, .. } = facts;
        let speaks = |target: &&mut TargetFacts| target.needs(rules) == Needs::Nothing;
        let asked = targets.iter_mut().filter(|target| !target.is_inactive);
        let asked: VecDeque<&mut TargetFacts> = asked.filter(speaks).collect();
        let (total, done) = (asked.len(), AtomicUsize::new(0));
        let queue = Mutex::new(asked);
        self.say(&format!("asking {total} targets, {KNOCKS} at a time"));
        in_threads(KNOCKS, || {
            if self.is_stopped() {
                return false;
            }
            let next = queue
                .lock()
                .unwrap_or_else(PoisonError::into_inner)
                .pop_front();
            let is_one = next.map(|target| self.knock_at(target)).is_some();
            let count = done.fetch_add(usize::from(is_one), Ordering::Relaxed) + 1;
            if is_one && count.is_multiple_of(KNOCKS_SHOWN) {
                self.say(&format!("{count} of {total} targets asked"));
            }
            is_one
        });
        let rest = queue.into_inner().unwrap_or_else(PoisonError::into_inner);
        rest.into_iter().for_each(|target| target.is_unasked = true);
    }

    /// Returns the way to each NID, and whether it answers. The first NIDs are asked first.
    fn reach_all(&self, texts: impl Iterator<Item = String>) -> BTreeMap<String, Reach> {
        let mut known = BTreeSet::new();
        let queue: Vec<String> = texts.filter(|text| known.insert(text.clone())).collect();
        let (next, done) = (AtomicUsize::new(0), AtomicUsize::new(0));
        let found = Mutex::new(BTreeMap::new());
        in_threads(PINGS.min(queue.len()), || {
            let Some(text) = queue.get(next.fetch_add(1, Ordering::Relaxed)) else {
                return false;
            };
            let reach = self.reach(text, queue.len().div_ceil(PINGS));
            let count = done.fetch_add(1, Ordering::Relaxed) + 1;
            if count.is_multiple_of(PINGS) {
                self.say(&format!("{count} of {} NIDs asked", queue.len()));
            }
            let mut found = found.lock().unwrap_or_else(PoisonError::into_inner);
            found.insert(text.clone(), reach);
            true
        });
        found.into_inner().unwrap_or_else(PoisonError::into_inner)
    }

    fn reach(&self, text: &str, turns: usize) -> Reach {
        let (way, answer) = match text.parse::<Nid>() {
            Err(_) => (Way::Unreadable, Answer::NotAsked),
            Ok(nid) if nid.net().lnd.name().is_none() => (Way::Unreadable, Answer::NotAsked),
            Ok(_) if self.is_stopped() => (Way::NotAsked, Answer::NotAsked),
            Ok(nid) => match self.endpoint.way(nid) {
                way @ (Way::NoNet | Way::NoDevice { .. } | Way::Unexamined { .. }) => {
                    (way, Answer::NotAsked)
                }
                way if self.endpoint.is_own(nid) => (way, Answer::NotAsked),
                way if self.is_stopped() => (way, Answer::NotAsked),
                way => (way, self.endpoint.ping(nid, turns)),
            },
        };
        Reach {
            nid: text.to_owned(),
            way,
            answer,
        }
    }

    /// Connects to a target on one node after the other, until one serves it or says why not.
    fn knock_at(&self, target: &mut TargetFacts) {
        let uuid = format!("{}_UUID", target.name);
        for node in &mut target.nodes {
            let listed = node.iter().filter_map(|reach| reach.nid.parse().ok());
            let mut peer = self.endpoint.peer(listed, answering(node));
            if peer.current().is_none() {
                continue;
            }
            if self.is_stopped() {
                target.is_unasked = true;
                return;
            }
            let Some(export) = new_export(target.service, &uuid) else {
                target.is_unasked = true;
                return;
            };
            let exchange = Exchange::knock(export, self.endpoint.beginning());
            let exchange = self.run(exchange, &mut peer, None);
            let asked = peer.current();
            if !lose(node, peer.lost) {
                continue;
            }
            let result = outcome(&exchange).map(|granted| (granted, exchange.statfs()));
            let goes_on = matches!(
                result,
                Err(Failure::NoReply { .. }
                    | Failure::Unsent(_)
                    | Failure::Refused { status: -19, .. })
            );
            target.knocks.push(Knock {
                nid: asked.map(|nid| nid.to_string()).unwrap_or_default(),
                result,
            });
            if !goes_on {
                return;
            }
        }
    }

    /// Shows on a terminal what is done, because it may take its whole timeout.
    fn say(&self, what: &str) {
        let mut terminal = io::stderr();
        if terminal.is_terminal() {
            // Standard error is closed: there is no other place to report this.
            let _unprinted = writeln!(terminal, "{what} ...");
        }
    }
}

impl Gathered {
    /// Returns what `--save` writes.
    pub(super) fn saved(&self, source: &Source) -> Value {
        let node = |nids: &Vec<Nid>| nids.iter().map(ToString::to_string).collect::<Vec<_>>();
        json!({
            "fs": source.fs,
            "mgs": source.nodes.iter().map(node).collect::<Vec<_>>(),
            "targets": self.system.targets,
        })
    }
}

/// Returns the targets in the order in which they are asked: MDTs first, because what is wrong with one decides whether the
/// file system mounts.
fn by_worth(system: &FileSystem) -> impl Iterator<Item = (&String, &lnet_ptlrpc::Target)> {
    let mut targets: Vec<_> = system.targets.iter().collect();
    targets.sort_by_key(|(name, _)| Service::of_target(name) != Some(Service::Mdt));
    targets.into_iter()
}

/// Returns the NIDs that answered a ping.
fn answering(nids: &[Reach]) -> Vec<Nid> {
    let answering = nids.iter().filter(|reach| reach.answers());
    answering
        .filter_map(|reach| reach.nid.parse().ok())
        .collect()
}

/// Notes which NIDs of a node no longer answer. Returns whether one is left that does.
fn lose(nids: &mut [Reach], lost: Vec<Lost>) -> bool {
    for (nid, answer) in lost {
        let same = |reach: &&mut Reach| reach.nid.parse() == Ok(nid);
        if let Some(reach) = nids.iter_mut().find(same) {
            reach.answer = answer;
        }
    }
    nids.iter().any(Reach::answers)
}

/// Runs `work` in some threads until it returns false.
fn in_threads(threads: usize, work: impl Fn() -> bool + Sync) {
    thread::scope(|scope| {
        for _ in 0..threads {
            scope.spawn(|| while work() {});
        }
    });
}

fn outcome(exchange: &Exchange) -> Result<lnet_ptlrpc::client::Granted, Failure> {
    match (exchange.failure(), exchange.granted()) {
        (Some(failure), _) => Err(failure.clone()),
        (None, granted) => Ok(granted.copied().unwrap_or_default()),
    }
}

/// Returns a connection with random names; `None` if the system has no random numbers.
fn new_export(service: Service, target: &str) -> Option<Export> {
    let mut bytes = [0; 24];
    getrandom::fill(&mut bytes).ok()?;
    let (uuid, handle) = bytes.split_at(16);
    let handle = handle.try_into().map_or(1, u64::from_le_bytes);
    Some(Export::new(service, target, uuid_text(uuid), handle))
}

/// Returns a UUID of version 4 as text.
fn uuid_text(bytes: &[u8]) -> String {
    let mut text = String::new();
    for (at, byte) in bytes.iter().enumerate() {
        if matches!(at, 4 | 6 | 8 | 10) {
            text.push('-');
        }
        let byte = match at {
            6 => byte & 0x0f | 0x40,
            8 => byte & 0x3f | 0x80,
            _ => *byte,
        };
        text.push_str(&format!("{byte:02x}"));
    }
    text
}
