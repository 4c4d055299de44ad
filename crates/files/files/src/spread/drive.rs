//! Executes one operation at the gateways in order, until one of them completes it.

use std::io::IoSliceMut;
use std::sync::Arc;
use std::sync::atomic::Ordering;

use crate::spread::gateway::{Gateway, is_lost, is_unclear};
use crate::spread::health::State;
use crate::spread::proof::{Before, Verdict};
use crate::spread::several::{Inner, Spread};
use crate::spread::table::Spot;
use crate::spread::translate::handles_of;
use crate::{Caller, Data, Errno, OUTCOME_UNKNOWN, Place, RenameMode, Reply, Request};

/// An operation to execute.
pub(crate) struct Job<'a, 'd> {
    pub(crate) caller: &'a Caller,
    /// The request, with the handles of the spread.
    pub(crate) request: &'a Request,
    pub(crate) data: Data<'d>,
    /// The objects that had the names of the request before, for [`Spread::prove`].
    pub(crate) before: Before,
}

impl Spread {
    /// Executes an operation at the first gateway of `order` that answers.
    pub(crate) fn drive(&self, order: &[usize], job: &mut Job<'_, '_>) -> Result<Reply, Errno> {
        let mut failed: Vec<usize> = Vec::new();
        let (mut in_doubt, mut was_in_doubt, mut last) = (None, false, Errno::ETIMEDOUT);
        // Twice for each gateway: a gateway that lost an operation but answers a probe gets a second attempt.
        for _ in 0..2 * order.len() {
            let Some(gateway) = self.choose(order, &failed, &mut last) else {
                break;
            };
            let epoch = self.inner.gateways[gateway].epoch();
            let result = match in_doubt {
                Some(by) => match self.prove(gateway, job) {
                    Ok(Verdict::NotDone) => {
                        in_doubt = None;
                        self.attempt(gateway, job)
                    }
                    Ok(Verdict::Done(reply)) => {
                        self.note_names(job);
                        Ok(reply)
                    }
                    Ok(Verdict::Refused(errno)) => Err(errno),
                    Err(errno) if is_lost(errno) => Err(errno),
                    Ok(Verdict::Unknown) | Err(_) => return Err(self.unknown(by, job)),
                },
                None => self.attempt(gateway, job),
            };
            match result {
                Err(errno) if is_lost(errno) => {
                    last = errno;
                    failed.push(gateway);
                    self.lost(gateway, epoch, errno);
                    if in_doubt.is_none() && !job.request.is_idempotent() {
                        (in_doubt, was_in_doubt) = (Some(gateway), true);
                    }
                }
                // The first gateway may have executed the operation after the proof had not found a result.
                Err(Errno::EEXIST | Errno::ENOENT | Errno::ENODATA)
                    if was_in_doubt && in_doubt.is_none() =>
                {
                    return Err(self.unknown(gateway, job));
                }
                result => {
                    if !failed.is_empty() {
                        let taken_over = &self.inner.gateways[gateway].taken_over;
                        taken_over.fetch_add(1, Ordering::Relaxed);
                    }
                    return result;
                }
            }
        }
        match in_doubt {
            Some(by) => Err(self.unknown(by, job)),
            None => Err(last),
        }
    }

    /// Executes an operation at one gateway, and records its effect.
    pub(crate) fn attempt(&self, gateway: usize, job: &mut Job<'_, '_>) -> Result<Reply, Errno> {
        let boot = self.inner.gateways[gateway].boot();
        let reply = self.send(gateway, job)?;
        self.note_effect(gateway, boot, job);
        self.for_caller(gateway, job.request, reply)
    }

    /// Sends an operation to one gateway. If the gateway does not know an object, looks the object up and retries
    /// once. The reply has the gateway's handles.
    pub(crate) fn send(&self, gateway: usize, job: &mut Job<'_, '_>) -> Result<Reply, Errno> {
        let Job {
            caller, request, ..
        } = *job;
        let at = &self.inner.gateways[gateway];
        let sent = self.for_gateway(gateway, caller, request)?;
        match call(at, caller, &sent, &mut job.data) {
            Err(Errno::ESTALE) => {
                at.stale.fetch_add(1, Ordering::Relaxed);
                self.forget_handles(gateway, request, &sent);
                // Perhaps the gateway was restarted, or another server has its address.
                self.inner.probe(gateway)?;
                let sent = self.for_gateway(gateway, caller, request)?;
                call(at, caller, &sent, &mut job.data)
            }
            result => result,
        }
    }

    /// Selects the next gateway: one that is up, otherwise one that answers a probe.
    fn choose(&self, order: &[usize], failed: &[usize], last: &mut Errno) -> Option<usize> {
        for &gateway in order.iter().filter(|gateway| !failed.contains(gateway)) {
            match self.inner.gateways[gateway].state() {
                State::Up => return Some(gateway),
                State::New => match self.inner.probe(gateway) {
                    Ok(()) => return Some(gateway),
                    Err(errno) => *last = errno,
                },
                State::Down { .. } => self.probe_later(gateway),
            }
        }
        let answers = |&&gateway: &&usize| match self.inner.probe(gateway) {
            Ok(()) => true,
            Err(errno) => {
                *last = errno;
                false
            }
        };
        order.iter().find(answers).copied()
    }

    /// Starts a probe of a gateway whose pause is over.
    fn probe_later(&self, gateway: usize) {
        if !self.inner.gateways[gateway].take_probe(self.inner.surroundings.now()) {
            return;
        }
        let inner = Arc::clone(&self.inner);
        self.inner.surroundings.later(Box::new(move || {
            // `probe` records the answer.
            let _answer = inner.probe(gateway);
            inner.gateways[gateway].probed();
        }));
    }

    /// Records that a gateway lost an operation. Probes a gateway that may be healthy before it counts as down.
    pub(crate) fn lost(&self, gateway: usize, epoch: u64, errno: Errno) {
        let at = &self.inner.gateways[gateway];
        at.count_lost();
        if !is_unclear(errno) || self.inner.probe(gateway).is_err() {
            at.failed(epoch, self.inner.surroundings.now(), errno);
        }
    }

    /// Records that the outcome of an operation is unknown, and returns the error for the caller.
    fn unknown(&self, by: usize, job: &Job<'_, '_>) -> Errno {
        self.inner.gateways[by]
            .unknown
            .fetch_add(1, Ordering::Relaxed);
        if matches!(job.request, Request::Remove { .. } | Request::Rename { .. }) {
            self.forget_names(job.request);
        }
        OUTCOME_UNKNOWN
    }

    /// Records which objects and names a gateway has changed.
    fn note_effect(&self, gateway: usize, boot: u64, job: &Job<'_, '_>) {
        if !job.request.is_change() {
            return;
        }
        for handle in handles_of(job.request) {
            let mut table = self.table();
            if let Ok((id, _)) = table.find(handle) {
                table.changed(id, gateway, boot);
            }
        }
        self.note_names(job);
    }

    /// Records which names were removed or belong to other objects now.
    fn note_names(&self, job: &Job<'_, '_>) {
        let Some(first) = job.before.first else {
            return;
        };
        let mut table = self.table();
        let mut spot = |place: &Place| -> Option<Spot> {
            let (directory, _) = table.find(place.directory).ok()?;
            Some((directory, place.path.as_bytes().into()))
        };
        match job.request {
            Request::Remove { place, .. } => {
                if let Some((directory, name)) = spot(place) {
                    table.removed(&first, directory, &name);
                }
            }
            Request::Rename { from, to, mode } => {
                if let (Some(from), Some(to)) = (spot(from), spot(to)) {
                    table.moved(&first, from, to, *mode == RenameMode::Exchange);
                }
            }
            _ => {}
        }
    }

    /// Records that the objects of the names of a request are unknown.
    fn forget_names(&self, request: &Request) {
        for place in request.clone().places_mut() {
            let mut table = self.table();
            if let Ok((directory, _)) = table.find(place.directory) {
                table.forget_spot(&(directory, place.path.as_bytes().into()));
            }
        }
    }
}

impl Inner {
    /// Probes a gateway, even if it is down: asks it for its export and root. Admits it only if it shows the same
    /// file system as the others.
    pub(crate) fn probe(&self, gateway: usize) -> Result<(), Errno> {
        let at = &self.gateways[gateway];
        let epoch = at.epoch();
        let answer = at
            .introduce()
            .and_then(|(export, root)| self.admit(gateway, &export, &root));
        match answer {
            Ok(()) => at.answered(),
            Err(errno) => at.failed(epoch, self.surroundings.now(), errno),
        }
        answer
    }
}

/// Calls a gateway. The memory of `data` stays available for another call.
fn call(
    at: &Gateway,
    caller: &Caller,
    request: &Request,
    data: &mut Data<'_>,
) -> Result<Reply, Errno> {
    match data {
        Data::None => at.call(caller, request, Data::None),
        Data::Write(memory) => at.call(caller, request, Data::Write(memory)),
        Data::Read(memory) => {
            let parts = memory.iter_mut().map(|part| IoSliceMut::new(part));
            let mut memory: Vec<IoSliceMut<'_>> = parts.collect();
            at.call(caller, request, Data::Read(&mut memory))
        }
    }
}
