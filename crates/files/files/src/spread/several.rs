//! The file system that several gateways export.

use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, MutexGuard};
use std::time::Duration;

use thiserror::Error;

use crate::spread::drive::Job;
use crate::spread::gateway::{Gateway, GatewayReport, Server, is_lost, is_unclear, lock};
use crate::spread::health::{Pauses, State};
use crate::spread::order::{Mode, by_load, from_first, home};
use crate::spread::proof::Before;
use crate::spread::surroundings::Surroundings;
use crate::spread::table::{Dirty, Id, Identity, Table};
use crate::spread::translate::handles_of;
use crate::{Attributes, Caller, Data, Errno, Export, FileSystem, Handle, Reply, Request};

/// Options of a spread.
#[derive(Clone, Copy, Debug)]
pub struct Options {
    /// How operations are distributed among the gateways.
    pub mode: Mode,
    /// Bytes of a block of [`Mode::Stripe`]. A multiple of the file system's own stripe size is best.
    pub block: u64,
    /// Limit of the number of objects in the table, about 400 bytes each.
    pub objects_max: usize,
    /// How long a gateway that lost an operation gets no operations. The pause doubles after each probe without an
    /// answer.
    pub first_pause: Duration,
    /// Limit of the pause.
    pub longest_pause: Duration,
}

impl Default for Options {
    /// Serial mode, and values that are usual for NFS clients: 1 MiB, 1 s, 30 s.
    fn default() -> Self {
        Self {
            mode: Mode::Serial,
            block: 1 << 20,
            objects_max: 1 << 20,
            first_pause: Duration::from_secs(1),
            longest_pause: Duration::from_secs(30),
        }
    }
}

/// Why gateways cannot be used as one file system.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
pub enum SpreadError {
    /// There is no gateway, or there are more than [`GATEWAYS_MAX`].
    #[error("{0} gateways; the number must be 1 to {GATEWAYS_MAX}")]
    Number(usize),
    /// Two gateways have the same name.
    #[error("gateway {0} is given twice")]
    Twice(String),
    /// The block size is 0.
    #[error("a block of 0 bytes; a block has at least 1 byte")]
    Block,
    /// The system provides no random number to distinguish this start from others.
    #[error("cannot get random bytes: {0}")]
    Random(getrandom::Error),
    /// A gateway does not declare its directory coherent with those of the others, or shows another directory.
    #[error(
        "gateway {0} does not export the same coherent file system as the others: each must declare the same name and \
         serve the same directory"
    )]
    NotCoherent(String),
    /// No gateway answers.
    #[error("no gateway answers; the error of {name}: {}", .errno.desc())]
    NoAnswer {
        /// Name of one of the gateways.
        name: String,
        /// The error of this gateway.
        errno: Errno,
    },
}

/// Limit of the number of gateways of one spread.
pub const GATEWAYS_MAX: usize = 64;

/// The error of a gateway that exports something else than the others.
const ELSEWHERE: Errno = Errno::EREMCHG;

/// One file system from several gateways.
pub struct Spread {
    pub(crate) inner: Arc<Inner>,
}

pub(crate) struct Inner {
    pub(crate) gateways: Vec<Gateway>,
    pub(crate) options: Options,
    pub(crate) surroundings: Arc<dyn Surroundings>,
    /// The answer of the first gateway that answered.
    shown: Mutex<Option<Shown>>,
    table: Mutex<Table>,
    turn: AtomicUsize,
}

struct Shown {
    coherent: Vec<u8>,
    root: Identity,
}

impl Spread {
    /// Makes one file system of `servers`, in the order of failover. Does not call any server yet.
    ///
    /// # Errors
    ///
    /// The arguments are invalid.
    pub fn new(
        servers: Vec<Server>,
        options: Options,
        surroundings: Arc<dyn Surroundings>,
    ) -> Result<Self, SpreadError> {
        if servers.is_empty() || servers.len() > GATEWAYS_MAX {
            return Err(SpreadError::Number(servers.len()));
        }
        if options.block == 0 {
            return Err(SpreadError::Block);
        }
        let mut names: Vec<&str> = servers.iter().map(|server| server.name.as_str()).collect();
        names.sort_unstable();
        if let Some(twice) = names.windows(2).find(|two| two[0] == two[1]) {
            return Err(SpreadError::Twice(twice[0].to_owned()));
        }
        let mut start = [0; 8];
        getrandom::fill(&mut start).map_err(SpreadError::Random)?;
        let pauses = Pauses {
            first: options.first_pause,
            longest: options.longest_pause,
        };
        let table = Table::new(start, servers.len(), options.objects_max.max(2));
        let gateway = |server| Gateway::new(server, pauses);
        let inner = Inner {
            gateways: servers.into_iter().map(gateway).collect(),
            options,
            surroundings,
            shown: Mutex::default(),
            table: Mutex::new(table),
            turn: AtomicUsize::new(0),
        };
        Ok(Self {
            inner: Arc::new(inner),
        })
    }

    /// Probes all gateways at the same time. Some may be silent: these are probed later, when they are needed.
    ///
    /// # Errors
    ///
    /// A gateway exports something else than the others, or no gateway answers.
    pub fn check(&self) -> Result<(), SpreadError> {
        let inner = &*self.inner;
        let mut answers = vec![Err(Errno::EAGAIN); inner.gateways.len()];
        let ask =
            |(gateway, answer): (usize, &mut Result<(), Errno>)| *answer = inner.probe(gateway);
        let mut parts: Vec<crate::spread::Part<'_>> = Vec::new();
        for numbered in answers.iter_mut().enumerate() {
            parts.push(Box::new(move || ask(numbered)));
        }
        inner.surroundings.together(parts);
        let named = || {
            inner
                .gateways
                .iter()
                .map(|at| at.name.clone())
                .zip(&answers)
        };
        if let Some((name, _)) = named().find(|(_, answer)| **answer == Err(ELSEWHERE)) {
            return Err(SpreadError::NotCoherent(name));
        }
        match named().next() {
            Some((name, &Err(errno))) if answers.iter().all(Result::is_err) => {
                Err(SpreadError::NoAnswer { name, errno })
            }
            _ => Ok(()),
        }
    }

    /// Returns the counters of each gateway.
    #[must_use]
    pub fn report(&self) -> Vec<GatewayReport> {
        self.inner.gateways.iter().map(Gateway::report).collect()
    }

    pub(crate) fn table(&self) -> MutexGuard<'_, Table> {
        lock(&self.inner.table)
    }

    /// Returns the root, which all gateways share, once one gateway has answered.
    pub(crate) fn root(&self) -> Option<Identity> {
        lock(&self.inner.shown).as_ref().map(|shown| shown.root)
    }

    /// Returns the order of the gateways for an operation that is not divided into blocks.
    pub(crate) fn order(&self, request: &Request, identity: Option<Identity>) -> Vec<usize> {
        let gateways = self.inner.gateways.len();
        // Only one gateway can tell whether two clients' locks conflict.
        if request.is_of_locks() {
            return vec![0];
        }
        let at_home = || identity.map_or(0, |identity| home(identity, gateways));
        match self.inner.options.mode {
            Mode::Serial => from_first(0, gateways),
            // All pages of one listing must come from one gateway.
            Mode::LoadBalance if !matches!(request, Request::ReadDir { .. }) => {
                let load: Vec<usize> = self.inner.gateways.iter().map(Gateway::under_way).collect();
                by_load(&load, self.inner.turn.fetch_add(1, Ordering::Relaxed))
            }
            Mode::Cluster | Mode::Stripe | Mode::LoadBalance => from_first(at_home(), gateways),
        }
    }

    /// Writes an object to stable storage, through each gateway that has changed it.
    fn commit(
        &self,
        caller: &Caller,
        request: &Request,
        (id, identity): (Id, Identity),
    ) -> Result<Reply, Errno> {
        let (dirty, forgotten) = {
            let table = self.table();
            (table.dirty(id), table.forgotten_dirty().to_vec())
        };
        let mut asked: Vec<(usize, Option<Dirty>)> = Vec::new();
        asked.extend(dirty.iter().map(|dirty| (dirty.gateway, Some(*dirty))));
        for gateway in forgotten {
            if dirty.iter().all(|dirty| dirty.gateway != gateway) {
                asked.push((gateway, None));
            }
        }
        if dirty.is_empty() {
            let mut job = Job::new(caller, request, Data::None);
            self.drive(&self.order(request, Some(identity)), &mut job)?;
        }
        let mut results = vec![Err(Errno::EAGAIN); asked.len()];
        let mut parts: Vec<crate::spread::Part<'_>> = Vec::new();
        for ((gateway, dirty), result) in asked.into_iter().zip(&mut results) {
            parts.push(Box::new(move || {
                *result = self.commit_at(gateway, dirty, caller, request, id);
            }));
        }
        self.inner.surroundings.together(parts);
        results.into_iter().collect::<Result<(), Errno>>()?;
        Ok(Reply::Done)
    }

    fn commit_at(
        &self,
        gateway: usize,
        dirty: Option<Dirty>,
        caller: &Caller,
        request: &Request,
        id: Id,
    ) -> Result<(), Errno> {
        let result = self.commit_through(gateway, caller, request);
        let Some(dirty) = dirty else {
            // The gateway may have uncommitted changes of forgotten objects, or none: a lost gateway is no error.
            return match result {
                Err(errno) if is_lost(errno) => Ok(()),
                result => result.map(|_| ()),
            };
        };
        let boot = match result {
            Ok(boot) => boot,
            // An error that may come from the disk is returned: another gateway must not hide it.
            Err(errno) if is_lost(errno) && !is_unclear(errno) => {
                self.commit_beside(&dirty, caller, request, errno)?
            }
            Err(errno) => return Err(errno),
        };
        self.table().settled(id, &dirty);
        // If the machine rebooted, its uncommitted changes are lost.
        if boot == dirty.boot {
            Ok(())
        } else {
            Err(Errno::EIO)
        }
    }

    /// Commits at one gateway. Returns the boot of its machine.
    fn commit_through(
        &self,
        gateway: usize,
        caller: &Caller,
        request: &Request,
    ) -> Result<u64, Errno> {
        let at = &self.inner.gateways[gateway];
        if at.state() != State::Up {
            self.inner.probe(gateway)?;
        }
        let epoch = at.epoch();
        match self.attempt(gateway, &mut Job::new(caller, request, Data::None)) {
            Ok(_) => Ok(at.boot()),
            Err(errno) => {
                if is_lost(errno) {
                    self.lost(gateway, epoch, errno);
                }
                Err(errno)
            }
        }
    }

    /// Commits at another gateway on the same machine, whose kernel holds the same changes.
    fn commit_beside(
        &self,
        dirty: &Dirty,
        caller: &Caller,
        request: &Request,
        errno: Errno,
    ) -> Result<u64, Errno> {
        let is_beside = |(number, at): &(usize, &Gateway)| {
            let is_same = dirty.boot != 0 && at.boot() == dirty.boot;
            *number != dirty.gateway && is_same && at.state() == State::Up
        };
        let mut others = self.inner.gateways.iter().enumerate();
        let (other, _) = others.find(is_beside).ok_or(errno)?;
        self.commit_through(other, caller, request)
    }
}

impl Inner {
    /// Admits a gateway if it shows the same file system as the first gateway that answered.
    pub(crate) fn admit(
        &self,
        gateway: usize,
        export: &Export,
        root: &Attributes,
    ) -> Result<(), Errno> {
        if self.gateways.len() > 1 && export.coherent.is_empty() {
            return Err(ELSEWHERE);
        }
        let mut shown = lock(&self.shown);
        let mut seen = Identity {
            kind: root.kind,
            filesystem: root.filesystem,
            file: root.file,
            born: root.born,
        };
        match &*shown {
            Some(shown) => {
                seen.filesystem = shown.root.filesystem;
                if shown.coherent != export.coherent || !seen.is_same(&shown.root) {
                    return Err(ELSEWHERE);
                }
            }
            None => {
                lock(&self.table).name_root(seen);
                *shown = Some(Shown {
                    coherent: export.coherent.clone(),
                    root: seen,
                });
            }
        }
        self.gateways[gateway].said(root.filesystem, export.boot);
        Ok(())
    }
}

impl<'a, 'd> Job<'a, 'd> {
    /// Creates an operation that needs no proof.
    pub(crate) fn new(caller: &'a Caller, request: &'a Request, data: Data<'d>) -> Self {
        let before = Before::default();
        Self {
            caller,
            request,
            data,
            before,
        }
    }
}

impl FileSystem for Spread {
    fn call(&self, caller: &Caller, request: &Request, data: Data<'_>) -> Result<Reply, Errno> {
        request.check()?;
        caller.check()?;
        data.check(request)?;
        if self.inner.options.mode == Mode::LoadBalance && request.is_change() {
            return Err(Errno::EROFS);
        }
        if let Request::Renew { .. } = request {
            return Ok(self.renew(caller, request));
        }
        let request = &self.narrowed(caller, request)?;
        let first = handles_of(request).into_iter().next();
        let object = first
            .map(|handle: Handle| self.table().find(handle))
            .transpose()?;
        let gateways = self.inner.gateways.len();
        match (request, object) {
            (Request::Commit { .. }, Some(object)) => return self.commit(caller, request, object),
            (Request::Hold { .. }, Some(object)) => return self.hold(caller, request, object),
            (
                Request::Read { handle, segments } | Request::Write { handle, segments },
                Some(object),
            ) if self.inner.options.mode == Mode::Stripe
                && segments.iter().any(|segment| segment.length > 0) =>
            {
                return self.transfer(caller, *handle, segments, data, home(object.1, gateways));
            }
            _ => {}
        }
        let before = self.before(caller, request)?;
        let order = self.order(request, object.map(|(_, identity)| identity));
        let mut job = Job {
            caller,
            request,
            data,
            before,
        };
        self.drive(&order, &mut job)
    }
}
