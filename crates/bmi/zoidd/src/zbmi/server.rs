//! The server's session: its unanswered commands and its uncollected completions.

use std::collections::{BTreeMap, VecDeque};
use std::sync::Arc;

use crate::zbmi::client::Key;
use crate::zbmi::io::{
    BmiId, CallId, Class, Completion, Errno, GrantId, Peer, PluginId, Segment, Session,
};
use crate::zbmi::time::Time;

/// An operation that has not completed.
#[derive(Debug)]
pub(crate) struct ServerPost {
    pub(crate) bmi: BmiId,
    pub(crate) peer: Peer,
    pub(crate) key: Key,
    /// Without empty segments.
    pub(crate) segments: Arc<[Segment]>,
    pub(crate) total: u64,
    pub(crate) stage: PostStage,
    pub(crate) posted: Time,
    /// A cancel came while the post was claimed; it takes effect if the claim is released.
    pub(crate) cancel_wanted: bool,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum PostStage {
    /// Held: waits, unanswered, for the call that follows a client's test.
    Held { call: CallId, until: Time },
    /// Waits for a counterpart.
    Registered,
    /// Its transfer runs; a call, if any, is answered at the end.
    Claimed {
        grant: GrantId,
        immediate: Option<CallId>,
    },
}

/// An unanswered command.
#[derive(Debug)]
pub(crate) enum Call {
    /// A post that is held or whose transfer runs.
    Post,
    /// A sleeping TEST.
    Test {
        wanted: Wanted,
        wake_on_unexpected: bool,
        deadline: Time,
    },
    /// A sleeping UNEXP_TEST.
    Unexpected {
        class: Class,
        capacity: usize,
        deadline: Time,
    },
}

impl Call {
    /// Returns when the command's sleep ends.
    pub(crate) fn deadline(&self) -> Option<Time> {
        match *self {
            Self::Post => None,
            Self::Test { deadline, .. } | Self::Unexpected { deadline, .. } => Some(deadline),
        }
    }
}

/// The operations that a TEST asks for.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Wanted {
    /// These, sorted.
    Ids(Vec<PluginId>),
    /// Any, at most this many.
    Any(usize),
}

impl Wanted {
    pub(crate) fn covers(&self, plugin: PluginId) -> bool {
        match self {
            Self::Ids(ids) => ids.binary_search(&plugin).is_ok(),
            Self::Any(_) => true,
        }
    }
}

#[derive(Debug)]
pub(crate) struct Server {
    pub(crate) session: Session,
    pub(crate) calls: BTreeMap<CallId, Call>,
    /// Sleeping commands in the order of arrival.
    pub(crate) sleepers: VecDeque<CallId>,
    pub(crate) done: DoneList,
}

impl Server {
    pub(crate) fn new(session: Session) -> Self {
        let calls = BTreeMap::new();
        Self {
            session,
            calls,
            sleepers: VecDeque::new(),
            done: DoneList::default(),
        }
    }

    /// Removes a command that is being answered.
    pub(crate) fn end_call(&mut self, call: CallId) -> Option<Call> {
        self.sleepers.retain(|&other| other != call);
        self.calls.remove(&call)
    }

    /// Returns the oldest sleeping command for which `is_for` is true.
    // [CTL-24]
    pub(crate) fn first_sleeper(&self, is_for: impl Fn(&Call) -> bool) -> Option<CallId> {
        let mut sleepers = self.sleepers.iter().copied();
        sleepers.find(|call| self.calls.get(call).is_some_and(&is_for))
    }
}

/// Completions that were not collected, oldest first. Those whose delivery failed come before all others.
#[derive(Debug, Default)]
pub(crate) struct DoneList {
    order: BTreeMap<i64, Completion>,
    places: BTreeMap<PluginId, i64>,
}

impl DoneList {
    pub(crate) fn push_back(&mut self, completion: Completion) {
        let place = self
            .order
            .last_key_value()
            .map_or(0, |(place, _)| place + 1);
        self.insert(place, completion);
    }

    pub(crate) fn push_front(&mut self, completion: Completion) {
        let place = self
            .order
            .first_key_value()
            .map_or(0, |(place, _)| place - 1);
        self.insert(place, completion);
    }

    fn insert(&mut self, place: i64, completion: Completion) {
        self.places.insert(completion.plugin, place);
        self.order.insert(place, completion);
    }

    pub(crate) fn take(&mut self, wanted: &Wanted) -> Vec<Completion> {
        match wanted {
            Wanted::Any(capacity) => {
                let count = (*capacity).min(self.order.len());
                (0..count).filter_map(|_| self.pop_front()).collect()
            }
            Wanted::Ids(ids) => ids.iter().filter_map(|&id| self.remove(id)).collect(),
        }
    }

    fn pop_front(&mut self) -> Option<Completion> {
        let (_, completion) = self.order.pop_first()?;
        self.places.remove(&completion.plugin);
        Some(completion)
    }

    fn remove(&mut self, plugin: PluginId) -> Option<Completion> {
        let place = self.places.remove(&plugin)?;
        self.order.remove(&place)
    }

    pub(crate) fn contains(&self, plugin: PluginId) -> bool {
        self.places.contains_key(&plugin)
    }

    pub(crate) fn len(&self) -> usize {
        self.order.len()
    }
}

/// The result of an operation.
pub(crate) type Ended = Result<u64, Errno>;
