//! The console: a session over many nodes, with groups, batches and tests (section 11.8).
//!
//! ```text
//!   session ─┬─ nodes, each known once: active, busy with another session, down, or unknown
//!            ├─ groups of nodes
//!            └─ batches ── tests: from a group to a group
//!
//!   add_group   MAKE at every node              run, stop, query   BATCH at the clients
//!   add_test    TEST at servers, then clients   stat, show_error   STAT
//!   keep_alive  DEBUG at nodes that heard nothing for half a timeout
//!   end         REMOVE at every node
//! ```
//!
//! No I/O here: RPCs go through a [`Caller`], which answers all of a request's nodes at once, and time comes from it.

mod batch;
mod error;
mod test;
#[cfg(test)]
mod tests;

use std::collections::BTreeMap;
use std::time::Duration;

use lnet_types::{Nid, Time};

use crate::driver::{CallError, Request, TestNode};
use crate::framework::SESSION_TIMEOUT;
use crate::wire::{
    Body, DebugReply, DebugRequest, FEATURE_BULK_LEN, MakeRequest, Name, RemoveRequest, SessionId,
    StatReply, StatRequest,
};

pub use self::batch::{Batch, BatchState};
pub use self::error::ConsoleError;
pub(crate) use self::test::parse_size;
pub use self::test::{Distribution, Kind, Test, parse_parameters};

/// Sends RPCs for a console.
pub trait Caller {
    /// Sends these requests at once and waits for all.
    fn call(&self, requests: Vec<Request>, timeout: Duration) -> Vec<Result<Body, CallError>>;
    /// The time.
    fn now(&self) -> Time;
    /// The NID by which nodes know this console.
    fn nid(&self) -> Nid;
}

impl Caller for TestNode {
    fn call(&self, requests: Vec<Request>, timeout: Duration) -> Vec<Result<Body, CallError>> {
        Self::call(self, requests, timeout)
    }

    fn now(&self) -> Time {
        Self::now(self)
    }

    fn nid(&self) -> Nid {
        self.node().primary_nid()
    }
}

/// How a node is.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum State {
    /// In this session.
    Active,
    /// In the session of another console.
    Busy,
    /// It does not answer.
    Down,
    /// It answers, and is in no session.
    Unknown,
}

impl State {
    /// Every state.
    pub const ALL: [Self; 4] = [Self::Active, Self::Busy, Self::Down, Self::Unknown];

    /// As lists of nodes print it.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::Active => "Active",
            Self::Busy => "Busy",
            Self::Down => "Down",
            Self::Unknown => "Unknown",
        }
    }

    /// That with this name, in any case.
    #[must_use]
    pub fn of_name(name: &str) -> Option<Self> {
        let is_it = |state: &Self| state.name().eq_ignore_ascii_case(name);
        Self::ALL.into_iter().find(is_it)
    }
}

/// A group of nodes.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Group {
    /// Its name.
    pub name: String,
    /// Its nodes, in the order in which they were added.
    pub nodes: Vec<Nid>,
}

/// A console and its session, if it has one.
pub struct Console<C> {
    caller: C,
    session: Option<Session>,
    /// The next batch, of whatever session.
    batches: u64,
}

/// What a console has.
#[derive(Clone, Debug)]
pub struct Session {
    /// Its name.
    pub name: String,
    /// How nodes know it.
    pub id: SessionId,
    /// Take nodes out of the sessions of others.
    pub force: bool,
    /// Seconds without commands after which it ends.
    pub timeout_s: u32,
    /// Its groups.
    pub groups: Vec<Group>,
    /// Its batches.
    pub batches: Vec<Batch>,
    nodes: BTreeMap<Nid, Node>,
}

#[derive(Clone, Copy, Debug)]
struct Node {
    state: State,
    /// When it was last spoken to.
    spoken: Time,
}

/// How long an RPC of a console may take (section 11.7).
// [LST-6]
const TIMEOUT: Duration = Duration::from_secs(30);
/// Nodes of one session at most.
pub const NODES_MAX: usize = 4096;
/// Groups of one session, and batches of it, at most.
const NAMED_MAX: usize = 256;
/// The batch that every session begins with.
const DEFAULT_BATCH: &str = "batch";

/// What a node answered, or why it did not.
pub type Answer<T> = (Nid, Result<T, ConsoleError>);

impl<C: Caller> Console<C> {
    /// A console without a session.
    pub fn new(caller: C) -> Self {
        Self {
            caller,
            session: None,
            batches: 1,
        }
    }

    /// What sends its RPCs.
    pub fn caller(&self) -> &C {
        &self.caller
    }

    /// The session.
    ///
    /// # Errors
    ///
    /// There is none.
    pub fn session(&self) -> Result<&Session, ConsoleError> {
        self.session.as_ref().ok_or(ConsoleError::NoSession)
    }

    fn session_mut(&mut self) -> Result<&mut Session, ConsoleError> {
        self.session.as_mut().ok_or(ConsoleError::NoSession)
    }

    /// Begins a session. Nothing is said to any node. `stamp` is what tells it from other sessions of this node:
    /// milliseconds.
    ///
    /// # Errors
    ///
    /// There is one already and `force` is not set; the name is empty or longer than 31 bytes.
    pub fn new_session(
        &mut self,
        name: &str,
        timeout_s: u32,
        force: bool,
        stamp: i64,
    ) -> Result<&Session, ConsoleError> {
        named(name)?;
        if let Some(session) = &self.session {
            if !force {
                return Err(ConsoleError::HasSession(session.name.clone()));
            }
            self.end_session()?;
        }
        let mut session = Session {
            name: name.to_owned(),
            id: SessionId {
                nid: nid4(self.caller.nid()),
                stamp,
            },
            force,
            timeout_s,
            groups: Vec::new(),
            batches: Vec::new(),
            nodes: BTreeMap::new(),
        };
        let id = self.batch_id();
        session.batches.push(Batch::new(DEFAULT_BATCH, id));
        Ok(self.session.insert(session))
    }

    /// Ends the session at every node. Those that do not answer end it by themselves later; they are named.
    ///
    /// # Errors
    ///
    /// There is none.
    pub fn end_session(&mut self) -> Result<Vec<Answer<()>>, ConsoleError> {
        let session = self.session()?;
        let id = session.id;
        let nodes: Vec<Nid> = session
            .nodes
            .iter()
            .filter(|(_, node)| node.state == State::Active)
            .map(|(&nid, _)| nid)
            .collect();
        let body = Body::RemoveRequest(RemoveRequest {
            session: id,
            ..RemoveRequest::default()
        });
        let answers = self.ask_all(&nodes, body);
        self.session = None;
        Ok(only_failures(answers))
    }

    /// Makes a group of these nodes, and the session at those that do not have it yet. What is wrong with a node is
    /// told, and the node is in the group all the same.
    ///
    /// # Errors
    ///
    /// No session, a bad name, a group of that name, no nodes, too many.
    pub fn add_group(
        &mut self,
        name: &str,
        nodes: &[Nid],
    ) -> Result<Vec<Answer<()>>, ConsoleError> {
        named(name)?;
        let session = self.session()?;
        if session.groups.iter().any(|group| group.name == name) {
            return Err(ConsoleError::Exists("group", name.to_owned()));
        }
        if session.groups.len() >= NAMED_MAX {
            return Err(ConsoleError::TooMany("groups", NAMED_MAX));
        }
        let mut members: Vec<Nid> = Vec::new();
        for &nid in nodes {
            if !members.contains(&nid) {
                members.push(nid);
            }
        }
        let known = |nid: &&Nid| !session.nodes.contains_key(nid);
        if members.is_empty() {
            return Err(ConsoleError::NoNodes(name.to_owned()));
        }
        if session.nodes.len() + members.iter().filter(known).count() > NODES_MAX {
            return Err(ConsoleError::TooMany("nodes", NODES_MAX));
        }
        let failures = self.join(&members)?;
        self.session_mut()?.groups.push(Group {
            name: name.to_owned(),
            nodes: members,
        });
        Ok(failures)
    }

    /// Makes the session at those of these nodes that do not have it.
    fn join(&mut self, nodes: &[Nid]) -> Result<Vec<Answer<()>>, ConsoleError> {
        let session = self.session()?;
        let is_active = |nid: &Nid| {
            let node = session.nodes.get(nid);
            node.is_some_and(|node| node.state == State::Active)
        };
        let new: Vec<Nid> = nodes
            .iter()
            .copied()
            .filter(|nid| !is_active(nid))
            .collect();
        let body = Body::MakeRequest(MakeRequest {
            session: session.id,
            force: session.force.into(),
            name: Name::new(&session.name).unwrap_or_default(),
            ..MakeRequest::default()
        });
        Ok(only_failures(self.ask_all(&new, body)))
    }

    /// Forgets a group; its nodes stay in the session.
    ///
    /// # Errors
    ///
    /// No such group, or a test uses it.
    pub fn del_group(&mut self, name: &str) -> Result<(), ConsoleError> {
        let session = self.session_mut()?;
        session.check_unused(name)?;
        let at = session.groups.iter().position(|group| group.name == name);
        let at = at.ok_or_else(|| no_group(name))?;
        session.groups.remove(at);
        Ok(())
    }

    /// Asks the nodes of a group that are not in the session to join it.
    ///
    /// # Errors
    ///
    /// No such group.
    pub fn refresh_group(&mut self, name: &str) -> Result<Vec<Answer<()>>, ConsoleError> {
        let nodes = self.session()?.group(name)?.nodes.clone();
        self.join(&nodes)
    }

    /// Takes nodes out of a group: those in one of these states, and these. A group that is left empty goes.
    ///
    /// # Errors
    ///
    /// No such group, or a test uses it.
    pub fn clean_group(
        &mut self,
        name: &str,
        states: &[State],
        nids: &[Nid],
    ) -> Result<(), ConsoleError> {
        let session = self.session_mut()?;
        session.check_unused(name)?;
        let Session { groups, nodes, .. } = session;
        let at = groups.iter().position(|group| group.name == name);
        let at = at.ok_or_else(|| no_group(name))?;
        groups[at].nodes.retain(|nid| {
            let state = nodes.get(nid).map_or(State::Unknown, |node| node.state);
            !states.contains(&state) && !nids.contains(nid)
        });
        if groups[at].nodes.is_empty() {
            groups.remove(at);
        }
        Ok(())
    }

    /// Asks nodes which session they have.
    ///
    /// # Errors
    ///
    /// No session here.
    pub fn debug(&mut self, nodes: &[Nid]) -> Result<Vec<Answer<DebugReply>>, ConsoleError> {
        self.debug_within(nodes, TIMEOUT)
    }

    /// Asks nodes which session they have, and waits so long for each answer.
    ///
    /// # Errors
    ///
    /// No session here.
    pub fn debug_within(
        &mut self,
        nodes: &[Nid],
        timeout: Duration,
    ) -> Result<Vec<Answer<DebugReply>>, ConsoleError> {
        let body = Body::DebugRequest(DebugRequest {
            session: self.session()?.id,
            ..DebugRequest::default()
        });
        let requests = nodes.iter().map(|&nid| (nid, body, None)).collect();
        let answers = self.ask_within(requests, timeout);
        Ok(map(answers, |body| match body {
            Body::DebugReply(reply) => Some(reply),
            _ => None,
        }))
    }

    /// Asks nodes for their counters.
    ///
    /// # Errors
    ///
    /// No session here.
    pub fn stat(&mut self, nodes: &[Nid]) -> Result<Vec<Answer<StatReply>>, ConsoleError> {
        let body = Body::StatRequest(StatRequest {
            session: self.session()?.id,
            ..StatRequest::default()
        });
        let answers = self.ask_all(nodes, body);
        Ok(map(answers, |body| match body {
            Body::StatReply(reply) => Some(reply),
            _ => None,
        }))
    }

    /// Says something to nodes that would take this console for dead soon (section 11.7). True when there was one.
    // [LST-17]
    pub fn keep_alive(&mut self) -> bool {
        let now = self.caller.now();
        let Some(session) = &self.session else {
            return false;
        };
        let is_idle = |node: &Node| {
            let silence = now.saturating_since(node.spoken);
            node.state == State::Active && silence >= SESSION_TIMEOUT / 2
        };
        let idle = session.nodes.iter().filter(|(_, node)| is_idle(node));
        let idle: Vec<Nid> = idle.map(|(&nid, _)| nid).collect();
        // Their states are noted; there is nobody to tell.
        !idle.is_empty() && self.debug(&idle).is_ok()
    }

    fn batch_id(&mut self) -> u64 {
        let id = self.batches;
        self.batches += 1;
        id
    }

    /// Sends the same to all, and notes what that says of them.
    fn ask_all(&mut self, nodes: &[Nid], body: Body) -> Vec<Answer<Body>> {
        let requests = nodes.iter().map(|&nid| (nid, body, None)).collect();
        self.ask(requests)
    }

    fn ask(&mut self, requests: Vec<(Nid, Body, Option<bytes::Bytes>)>) -> Vec<Answer<Body>> {
        self.ask_within(requests, TIMEOUT)
    }

    fn ask_within(
        &mut self,
        requests: Vec<(Nid, Body, Option<bytes::Bytes>)>,
        timeout: Duration,
    ) -> Vec<Answer<Body>> {
        let nids: Vec<Nid> = requests.iter().map(|(nid, ..)| *nid).collect();
        let requests = requests.into_iter().map(|(target, body, source)| Request {
            target,
            features: FEATURE_BULK_LEN,
            body,
            source,
        });
        let replies = self.caller.call(requests.collect(), timeout);
        let now = self.caller.now();
        let mut answers = Vec::with_capacity(nids.len());
        for (nid, reply) in nids.into_iter().zip(replies) {
            if let Some(session) = &mut self.session {
                session.note(nid, &reply, now);
            }
            answers.push((nid, reply.map_err(ConsoleError::Call)));
        }
        answers
    }
}

impl Session {
    /// The group of this name.
    ///
    /// # Errors
    ///
    /// There is none.
    pub fn group(&self, name: &str) -> Result<&Group, ConsoleError> {
        let group = self.groups.iter().find(|group| group.name == name);
        group.ok_or_else(|| no_group(name))
    }

    /// How a node was when it was last spoken to.
    #[must_use]
    pub fn state(&self, nid: Nid) -> State {
        self.nodes.get(&nid).map_or(State::Unknown, |it| it.state)
    }

    /// All nodes.
    pub fn nodes(&self) -> impl Iterator<Item = Nid> {
        self.nodes.keys().copied()
    }

    fn check_unused(&self, group: &str) -> Result<(), ConsoleError> {
        let mut tests = self.batches.iter().flat_map(|batch| &batch.tests);
        if tests.any(|test| test.from == group || test.to == group) {
            return Err(ConsoleError::GroupInUse(group.to_owned()));
        }
        Ok(())
    }

    fn note(&mut self, nid: Nid, reply: &Result<Body, CallError>, now: Time) {
        let state = match reply {
            Err(_) => State::Down,
            Ok(Body::MakeReply(reply)) if reply.status == 0 => State::Active,
            Ok(Body::MakeReply(reply)) if reply.status == EBUSY => State::Busy,
            Ok(Body::DebugReply(reply)) if reply.session == self.id => State::Active,
            Ok(Body::DebugReply(reply)) if reply.status == 0 => State::Busy,
            Ok(Body::MakeReply(_) | Body::DebugReply(_)) => State::Unknown,
            // The node has forgotten the session, or has another one.
            Ok(body) if matches!(body.status(), Some(ESRCH | EPROTO)) => State::Unknown,
            Ok(_) => self.state(nid),
        };
        // A node that stands in no group is asked about, and not kept.
        if self.nodes.contains_key(&nid) || matches!(reply, Ok(Body::MakeReply(_)) | Err(_)) {
            let is_room = self.nodes.len() < NODES_MAX;
            if is_room || self.nodes.contains_key(&nid) {
                let spoken = now;
                self.nodes.insert(nid, Node { state, spoken });
            }
        }
    }
}

const ESRCH: u32 = 3;
const EBUSY: u32 = 16;
const EPROTO: u32 = 71;

/// The NID of a session: that of the console, or for a console with a large one only, what its address makes of the same
/// length. Nodes compare it and nothing else.
fn nid4(nid: Nid) -> u64 {
    nid.to_nid4().unwrap_or_else(|| {
        let bytes = nid.to_wire();
        let (words, _) = bytes.as_chunks::<4>();
        let folded = words.iter().fold(0, |sum: u32, word| {
            sum.rotate_left(5) ^ u32::from_be_bytes(*word)
        });
        let small = Nid::from_number(nid.net(), folded);
        small.to_nid4().unwrap_or_default()
    })
}

fn named(name: &str) -> Result<(), ConsoleError> {
    let is_good = Name::new(name).is_some() && !name.contains(char::is_control);
    if is_good {
        Ok(())
    } else {
        Err(ConsoleError::BadName(name.to_owned()))
    }
}

fn no_group(name: &str) -> ConsoleError {
    ConsoleError::NotFound("group", name.to_owned())
}

/// Replies of this kind; others, and those that refuse, are failures.
fn map<T>(answers: Vec<Answer<Body>>, of: impl Fn(Body) -> Option<T>) -> Vec<Answer<T>> {
    let one = |answer: Result<Body, ConsoleError>| match answer? {
        body if body.status() != Some(0) => {
            Err(ConsoleError::Refused(body.status().unwrap_or_default()))
        }
        body => of(body).ok_or(ConsoleError::Call(CallError::BadReply)),
    };
    answers
        .into_iter()
        .map(|(nid, answer)| (nid, one(answer)))
        .collect()
}

fn only_failures(answers: Vec<Answer<Body>>) -> Vec<Answer<()>> {
    let answers = map(answers, |_| Some(()));
    answers.into_iter().filter(|(_, it)| it.is_err()).collect()
}
