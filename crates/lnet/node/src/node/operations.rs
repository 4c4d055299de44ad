//! Puts and gets, one by one and many in one call.

use std::sync::atomic::Ordering;

use lnet_core::{GetRequest, MdHandle, PutRequest, SendHints};
use lnet_types::{Nid, Time};
use thiserror::Error;

use super::{Node, NodeError};
use crate::engine::Engine;
use crate::stack::Registered;

/// The most operations that one call begins before other threads get the lock: some 100 µs.
const REQUESTS_PER_LOCK: usize = 128;

/// The error of a call that begins many operations.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
#[error("operation {begun} of the call, counted from 0: {error}")]
pub struct ManyError {
    /// The operations that have begun: those in front of the rejected one. Their events will come.
    pub begun: usize,
    /// Why the next operation was rejected.
    pub error: NodeError,
}

impl Node {
    /// Sends a bound descriptor's memory to a match entry of the target.
    ///
    /// # Errors
    ///
    /// The descriptor is unknown or exhausted. The result of the message comes as events.
    pub fn put(&self, put: PutRequest) -> Result<(), NodeError> {
        self.hinted_put(put, SendHints::default())
    }

    /// Sends as [`Node::put`] does, with hints for the choice of the path.
    ///
    /// # Errors
    ///
    /// Those of [`Node::put`].
    pub fn hinted_put(&self, put: PutRequest, hints: SendHints) -> Result<(), NodeError> {
        self.shared
            .with_engine(|engine, now| Ok(engine.core_mut().hinted_put(put, hints, now)?))
    }

    /// Returns the next hop of a message that was sent from a descriptor, while its response is awaited; the message
    /// may or may not have been written yet. If the response does not come, [`SendHints::avoid`] takes this NID.
    #[must_use]
    pub fn next_hop(&self, md: MdHandle) -> Option<Nid> {
        self.with_engine(|engine, _| engine.core().next_hop(md))
    }

    /// Fetches from a match entry of the target into a bound descriptor's memory.
    ///
    /// # Errors
    ///
    /// The descriptor is unknown, exhausted, or not writable. The result of the message comes as events.
    pub fn get(&self, get: GetRequest) -> Result<(), NodeError> {
        self.hinted_get(get, SendHints::default())
    }

    /// Fetches as [`Node::get`] does, with hints for the choice of the path.
    ///
    /// # Errors
    ///
    /// Those of [`Node::get`].
    pub fn hinted_get(&self, get: GetRequest, hints: SendHints) -> Result<(), NodeError> {
        self.shared
            .with_engine(|engine, now| begin_get(engine, get, hints, now))
    }

    /// Sends as [`Node::put`] does, many times: costs less than as many calls, and more of the messages leave together.
    ///
    /// # Errors
    ///
    /// Those of [`Node::put`], with the number of the rejected operation. The operations behind it have not begun.
    pub fn put_many(&self, puts: &[PutRequest]) -> Result<(), ManyError> {
        self.begin_many(puts, |engine, put, now| {
            Ok(engine.core_mut().put(*put, now)?)
        })
    }

    /// Fetches as [`Node::get`] does, many times: costs less than as many calls, and more of the messages leave
    /// together.
    ///
    /// # Errors
    ///
    /// Those of [`Node::get`], with the number of the rejected operation. The operations behind it have not begun.
    pub fn get_many(&self, gets: &[GetRequest]) -> Result<(), ManyError> {
        self.begin_many(gets, |engine, get, now| {
            begin_get(engine, *get, SendHints::default(), now)
        })
    }

    fn begin_many<T>(
        &self,
        requests: &[T],
        begin: impl Fn(&mut Engine, &T, Time) -> Result<(), NodeError>,
    ) -> Result<(), ManyError> {
        let mut begun = 0;
        for some in requests.chunks(REQUESTS_PER_LOCK) {
            // Each counts as a call of its own.
            let others = some.len() as u32 - 1;
            self.shared.deferred.fetch_add(others, Ordering::Relaxed);
            let result = self.shared.with_engine(|engine, now| {
                some.iter().try_for_each(|request| {
                    begin(engine, request, now)?;
                    begun += 1;
                    Ok(())
                })
            });
            result.map_err(|error| ManyError { begun, error })?;
        }
        Ok(())
    }
}

fn begin_get(
    engine: &mut Engine,
    get: GetRequest,
    hints: SendHints,
    now: Time,
) -> Result<(), NodeError> {
    let registered = engine.stack.side.memory.registered(get.md);
    if registered.is_some_and(Registered::is_source) {
        return Err(NodeError::NotWritable);
    }
    Ok(engine.core_mut().hinted_get(get, hints, now)?)
}
