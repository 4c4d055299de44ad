//! The console: a session at many nodes, with groups, batches and tests.
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
//! This module does no I/O: a [`Caller`] sends the RPCs, returns all their replies together, and provides the
//! time.

mod batch;
mod error;
mod question;
mod test;
#[cfg(test)]
mod tests;

use std::collections::BTreeMap;
use std::sync::Arc;
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
pub use self::question::{Asked, Question};
pub(crate) use self::test::parse_size;
pub use self::test::{Distribution, Kind, Test, parse_parameters};

/// The sender of a console's RPCs.
pub trait Caller {
    /// Sends these requests at once and waits until each has a reply or has failed. Returns the results in the
    /// order of the requests.
    fn call(&self, requests: Vec<Request>, timeout: Duration) -> Vec<Result<Body, CallError>>;
    /// Returns the time.
    fn now(&self) -> Time;
    /// Returns the NID by which nodes know this console.
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

impl<C: Caller> Caller for Arc<C> {
    fn call(&self, requests: Vec<Request>, timeout: Duration) -> Vec<Result<Body, CallError>> {
        (**self).call(requests, timeout)
    }

    fn now(&self) -> Time {
        (**self).now()
    }

    fn nid(&self) -> Nid {
        (**self).nid()
    }
}

/// The state of a node, as the console sees it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum State {
    /// The node is in this session.
    Active,
    /// The node is in the session of another console.
    Busy,
    /// The node does not answer.
    Down,
    /// The node answers, and is in no session.
    Unknown,
}

impl State {
    /// All states.
    pub const ALL: [Self; 4] = [Self::Active, Self::Busy, Self::Down, Self::Unknown];

    /// Returns the name that lists of nodes print.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::Active => "Active",
            Self::Busy => "Busy",
            Self::Down => "Down",
            Self::Unknown => "Unknown",
        }
    }

    /// Returns the state with this name, in upper or lower case.
    #[must_use]
    pub fn of_name(name: &str) -> Option<Self> {
        let is_it = |state: &Self| state.name().eq_ignore_ascii_case(name);
        Self::ALL.into_iter().find(is_it)
    }
}

/// A group of nodes.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Group {
    /// The name of the group.
    pub name: String,
    /// The nodes of the group, in the order in which they were added.
    pub nodes: Vec<Nid>,
}

/// A console and its session, if it has one.
pub struct Console<C> {
    caller: C,
    session: Option<Session>,
    /// The number of the next batch. Goes on over all sessions.
    batches: u64,
}

/// The session of a console.
#[derive(Clone, Debug)]
pub struct Session {
    /// The name of the session.
    pub name: String,
    /// The id by which nodes know the session.
    pub id: SessionId,
    /// True if the session takes nodes out of the sessions of other consoles.
    pub force: bool,
    /// Seconds without commands after which the session ends.
    pub timeout_s: u32,
    /// The groups of the session.
    pub groups: Vec<Group>,
    /// The batches of the session.
    pub batches: Vec<Batch>,
    nodes: BTreeMap<Nid, Node>,
}

#[derive(Clone, Copy, Debug)]
struct Node {
    state: State,
    /// When the console last sent the node a request.
    spoken: Time,
}

/// The timeout of an RPC of a console.
// [LST-6]
const TIMEOUT: Duration = Duration::from_secs(30);
/// The limit of nodes of one session.
pub const NODES_MAX: usize = 4096;
/// The limit of groups of one session, and of batches of one session.
const NAMED_MAX: usize = 256;
/// The name of the batch that every session has from its beginning.
const DEFAULT_BATCH: &str = "batch";

/// The NID of a node, and its answer or the reason why there is no answer.
pub type Answer<T> = (Nid, Result<T, ConsoleError>);

impl<C: Caller> Console<C> {
    /// Makes a console without a session.
    pub fn new(caller: C) -> Self {
        Self {
            caller,
            session: None,
            batches: 1,
        }
    }

    /// Returns the sender of the console's RPCs.
    pub fn caller(&self) -> &C {
        &self.caller
    }

    /// Returns the session.
    ///
    /// # Errors
    ///
    /// The console has no session.
    pub fn session(&self) -> Result<&Session, ConsoleError> {
        self.session.as_ref().ok_or(ConsoleError::NoSession)
    }

    fn session_mut(&mut self) -> Result<&mut Session, ConsoleError> {
        self.session.as_mut().ok_or(ConsoleError::NoSession)
    }

    /// Begins a session. Sends nothing to any node. `stamp` tells this session from other sessions of this
    /// node: the time in milliseconds.
    ///
    /// # Errors
    ///
    /// The console has a session and `force` is not set; the name is empty or longer than 31 bytes, or contains
    /// a control character.
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

    /// Ends the session at every node. Returns the nodes that did not answer or failed; the session expires
    /// there by itself.
    ///
    /// # Errors
    ///
    /// The console has no session.
    pub fn end_session(&mut self) -> Result<Vec<Answer<()>>, ConsoleError> {
        self.end_session_within(TIMEOUT)
    }

    /// Ends the session as [`Self::end_session`] does, with this timeout for each answer.
    ///
    /// # Errors
    ///
    /// The console has no session.
    pub fn end_session_within(
        &mut self,
        timeout: Duration,
    ) -> Result<Vec<Answer<()>>, ConsoleError> {
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
        let requests = nodes.iter().map(|&nid| (nid, body, None)).collect();
        let answers = self.ask_within(requests, timeout);
        self.session = None;
        Ok(only_failures(answers))
    }

    /// Makes a group of these nodes, and makes the session at the nodes that do not have it yet. Returns the
    /// nodes that failed; they are in the group nevertheless.
    ///
    /// # Errors
    ///
    /// The console has no session, the name is bad, a group has this name, there are no nodes, or a limit is
    /// reached.
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

    /// Removes a group; its nodes stay in the session.
    ///
    /// # Errors
    ///
    /// No group has this name, or a test uses the group.
    pub fn del_group(&mut self, name: &str) -> Result<(), ConsoleError> {
        let session = self.session_mut()?;
        session.check_unused(name)?;
        let at = session.groups.iter().position(|group| group.name == name);
        let at = at.ok_or_else(|| no_group(name))?;
        session.groups.remove(at);
        Ok(())
    }

    /// Asks the nodes of a group to join the session if they are not in it. Returns the nodes that failed.
    ///
    /// # Errors
    ///
    /// No group has this name.
    pub fn refresh_group(&mut self, name: &str) -> Result<Vec<Answer<()>>, ConsoleError> {
        let nodes = self.session()?.group(name)?.nodes.clone();
        self.join(&nodes)
    }

    /// Removes nodes from a group: the nodes in one of these states, and the nodes with these NIDs. A group
    /// without nodes is removed.
    ///
    /// # Errors
    ///
    /// No group has this name, or a test uses the group.
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
    /// This console has no session.
    pub fn debug(&mut self, nodes: &[Nid]) -> Result<Vec<Answer<DebugReply>>, ConsoleError> {
        let question = self.debug_question(nodes, TIMEOUT)?;
        Ok(self.put(&question))
    }

    /// Makes the question which session nodes have, with this timeout for each answer.
    ///
    /// # Errors
    ///
    /// This console has no session.
    pub fn debug_question(
        &self,
        nodes: &[Nid],
        timeout: Duration,
    ) -> Result<Question<DebugReply>, ConsoleError> {
        let session = self.session()?.id;
        let body = Body::DebugRequest(DebugRequest {
            session,
            ..DebugRequest::default()
        });
        Ok(Question::of(
            session,
            nodes,
            body,
            timeout,
            |body| match body {
                Body::DebugReply(reply) => Some(reply),
                _ => None,
            },
        ))
    }

    /// Asks nodes for their counters.
    ///
    /// # Errors
    ///
    /// This console has no session.
    pub fn stat(&mut self, nodes: &[Nid]) -> Result<Vec<Answer<StatReply>>, ConsoleError> {
        let question = self.stat_question(nodes, TIMEOUT)?;
        Ok(self.put(&question))
    }

    /// Makes the question for the counters of nodes, with this timeout for each answer.
    ///
    /// # Errors
    ///
    /// This console has no session.
    pub fn stat_question(
        &self,
        nodes: &[Nid],
        timeout: Duration,
    ) -> Result<Question<StatReply>, ConsoleError> {
        let session = self.session()?.id;
        let body = Body::StatRequest(StatRequest {
            session,
            ..StatRequest::default()
        });
        Ok(Question::of(
            session,
            nodes,
            body,
            timeout,
            |body| match body {
                Body::StatReply(reply) => Some(reply),
                _ => None,
            },
        ))
    }

    /// Notes the states of nodes as the answers to a question show them, unless the session is another one by now.
    pub fn note(&mut self, asked: &Asked) {
        let now = self.caller.now();
        let session = self.session.as_mut();
        if let Some(session) = session.filter(|session| session.id == asked.session) {
            for (nid, reply) in &asked.replies {
                session.note(*nid, reply, now);
            }
        }
    }

    /// Asks a question, and notes the states of the nodes.
    fn put<T>(&mut self, question: &Question<T>) -> Vec<Answer<T>> {
        let asked = question.send(&self.caller);
        self.note(&asked);
        question.read(asked)
    }

    /// Makes the question that keeps a session alive: it goes to each node where the session would expire soon. `None` if
    /// there is no such node. The answers have no receiver; the states of the nodes are noted.
    // [LST-17]
    #[must_use]
    pub fn keep_alive_question(&self) -> Option<Question<DebugReply>> {
        let now = self.caller.now();
        let session = self.session.as_ref()?;
        let is_idle = |node: &Node| {
            let silence = now.saturating_since(node.spoken);
            node.state == State::Active && silence >= SESSION_TIMEOUT / 2
        };
        let idle = session.nodes.iter().filter(|(_, node)| is_idle(node));
        let idle: Vec<Nid> = idle.map(|(&nid, _)| nid).collect();
        let question = self.debug_question(&idle, TIMEOUT).ok();
        question.filter(|_| !idle.is_empty())
    }

    /// Sends a request to each node where the session would expire soon. Returns true if there was such a node.
    pub fn keep_alive(&mut self) -> bool {
        let question = self.keep_alive_question();
        question.is_some_and(|question| !self.put(&question).is_empty())
    }

    fn batch_id(&mut self) -> u64 {
        let id = self.batches;
        self.batches += 1;
        id
    }

    /// Sends the same body to all nodes, and notes the state of each node.
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
    /// Returns the group with this name.
    ///
    /// # Errors
    ///
    /// No group has this name.
    pub fn group(&self, name: &str) -> Result<&Group, ConsoleError> {
        let group = self.groups.iter().find(|group| group.name == name);
        group.ok_or_else(|| no_group(name))
    }

    /// Returns the state of a node as of the last request to it.
    #[must_use]
    pub fn state(&self, nid: Nid) -> State {
        self.nodes
            .get(&nid)
            .map_or(State::Unknown, |node| node.state)
    }

    /// Returns all nodes.
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
            // The node has forgotten the session, or has another session.
            Ok(body) if matches!(body.status(), Some(ESRCH | EPROTO)) => State::Unknown,
            Ok(_) => self.state(nid),
        };
        // A node that is in no group and was only asked about is not kept, unless it did not answer.
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

/// Returns the NID for the id of a session: the NID of the console, if it has the short form. For a large NID,
/// folds the address to the short length. Nodes only compare this number.
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

/// Picks the replies of one kind. A reply of another kind, or with a status other than 0, becomes an error.
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
    answers
        .into_iter()
        .filter(|(_, answer)| answer.is_err())
        .collect()
}
