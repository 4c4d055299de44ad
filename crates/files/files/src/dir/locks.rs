//! Locks of clients on files. They hold among the clients of this directory only, not for other programs of this machine.
//!
//! Requests for locks never wait here. A lock that cannot be granted has a place in a queue, as long as its client repeats
//! the request ([`LOCK_PATIENCE`]). The queue is fair: an owner without any lock stands behind all who came before and
//! want the same bytes. An owner with locks does not stand behind those who wait for others, because they may wait for
//! this owner; the queue therefore never makes a deadlock.
//!
//! The locks of a client end [`HOLD_TIME`] after the last request of the client for locks. With a mark (a file that exists
//! while there are locks), a new life of the server grants for [`LOCK_GRACE`] only what clients had locked before.

use std::path::PathBuf;
use std::sync::{MutexGuard, PoisonError};
use std::time::{Duration, Instant};
use std::{fs, io};

use rustc_hash::{FxHashMap, FxHashSet};
use tracing::warn;

use crate::dir::LocalDirectory;
use crate::dir::table::Identity;
use crate::held_locks::HeldLocks;
use crate::{
    Errno, HOLD_TIME, Handle, Kind, LOCK_GRACE, LOCK_PATIENCE, Lock, LockAction, LockOutcome, Reply,
};

/// Limit of the clients with locks.
const SESSIONS_MAX: usize = 16_384;
/// Limit of the locks and waits of one client.
const OWN_MAX: usize = 8_192;
/// Limit of the locks and waits of all clients.
const ALL_MAX: usize = 65_536;
/// How long a mark stays at least, so that a program that locks and unlocks all the time does not change it each time.
const MARKED_MIN: Duration = Duration::from_secs(10);

/// A client, and one of its owners.
type Who = (u64, u64);

/// A request for a lock.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Asked {
    pub(crate) holder: u64,
    pub(crate) sequence: u64,
    pub(crate) floor: u64,
    pub(crate) action: LockAction,
    pub(crate) lock: Lock,
}

/// The locks of all clients.
pub(crate) struct Locks {
    /// The number of the next session. The first one is random, so that no two lives of a server use the same number.
    next_session: u64,
    sessions: FxHashMap<u64, Session>,
    files: FxHashMap<Identity, OfFile>,
    /// Number of locks and waits.
    count: usize,
    /// No session ends before this time.
    next_end: Option<Instant>,
    grace_until: Option<Instant>,
    mark: Option<Mark>,
}

struct Session {
    number: u64,
    until: Instant,
    floor: u64,
    count: usize,
}

#[derive(Default)]
struct OfFile {
    held: HeldLocks<Who>,
    waits: Vec<Wait>,
}

struct Wait {
    who: Who,
    sequence: u64,
    lock: Lock,
    until: Instant,
}

/// The file that exists while there are locks.
struct Mark {
    path: PathBuf,
    since: Option<Instant>,
}

impl OfFile {
    fn count(&self) -> usize {
        self.held.count() + self.waits.len()
    }

    /// Returns a lock that is in the way of a request, and its client. `has_locks` says whether the owner has any lock.
    fn obstacle(&self, who: Who, asked: &Asked, has_locks: bool) -> Option<(Who, Lock)> {
        if let Some(found) = self.held.conflicts(who, &asked.lock).next() {
            return Some(*found);
        }
        let is_own = |wait: &&Wait| wait.who == who && wait.sequence == asked.sequence;
        let before = self.waits.iter().take_while(|wait| !is_own(wait));
        let mut obstacles = before.filter(|wait| {
            let is_next = self.held.conflicts(wait.who, &wait.lock).next().is_none();
            wait.who != who && wait.lock.conflicts(&asked.lock) && (is_next || !has_locks)
        });
        obstacles.next().map(|wait| (wait.who, wait.lock))
    }
}

impl Mark {
    fn set(&mut self, now: Instant) -> io::Result<()> {
        if self.since.is_none() {
            fs::File::create(&self.path)?.sync_all()?;
            if let Some(directory) = self.path.parent() {
                fs::File::open(directory)?.sync_all()?;
            }
            self.since = Some(now);
        }
        Ok(())
    }

    fn clear(&mut self, now: Instant) {
        if self.since.is_some_and(|since| now >= since + MARKED_MIN) {
            match fs::remove_file(&self.path) {
                Err(error) if error.kind() != io::ErrorKind::NotFound => {
                    warn!(%error, path = %self.path.display(), "the mark of locks stays");
                }
                _ => self.since = None,
            }
        }
    }
}

impl Locks {
    /// Creates an empty list. `life` is a random number.
    pub(crate) fn new(life: u64) -> Self {
        Self {
            next_session: life,
            sessions: FxHashMap::default(),
            files: FxHashMap::default(),
            count: 0,
            next_end: None,
            grace_until: None,
            mark: None,
        }
    }

    /// Renews the session of a client, or opens one. Returns its number.
    pub(crate) fn keep(&mut self, holder: u64, now: Instant) -> Result<u64, Errno> {
        self.end_sessions(now);
        let until = now + HOLD_TIME;
        if let Some(session) = self.sessions.get_mut(&holder) {
            session.until = until;
            return Ok(session.number);
        }
        if self.sessions.len() >= SESSIONS_MAX {
            return Err(Errno::ENOLCK);
        }
        let number = self.next_session;
        self.next_session = number.wrapping_add(1);
        let session = Session {
            number,
            until,
            floor: 0,
            count: 0,
        };
        self.sessions.insert(holder, session);
        self.next_end.get_or_insert(until);
        Ok(number)
    }

    /// Carries out a request for a lock on a file.
    pub(crate) fn carry_out(
        &mut self,
        file: Identity,
        asked: &Asked,
        now: Instant,
    ) -> Result<(u64, LockOutcome), Errno> {
        let number = self.keep(asked.holder, now)?;
        self.raise_floor(asked)?;
        self.end_waits(|wait| wait.until <= now);
        let before = self.files.get(&file).map_or(0, OfFile::count);
        let own_before = self.count_of(file, asked.holder);
        let outcome = self.decide(file, asked, now);
        let after = self.files.get(&file).map_or(0, OfFile::count);
        let own_after = self.count_of(file, asked.holder);
        self.count = (self.count + after).saturating_sub(before);
        if let Some(session) = self.sessions.get_mut(&asked.holder) {
            session.count = (session.count + own_after).saturating_sub(own_before);
        }
        if after == 0 {
            self.files.remove(&file);
        }
        if self.count == 0
            && let Some(mark) = &mut self.mark
        {
            mark.clear(now);
        }
        Ok((number, outcome?))
    }

    /// Rejects a late copy of an earlier request, and ends the waits that the client has given up.
    fn raise_floor(&mut self, asked: &Asked) -> Result<(), Errno> {
        let Some(session) = self.sessions.get_mut(&asked.holder) else {
            return Err(Errno::ENOLCK);
        };
        if asked.sequence < session.floor {
            return Err(Errno::EALREADY);
        }
        if asked.floor > session.floor {
            session.floor = asked.floor;
            self.end_waits(|wait| wait.who.0 == asked.holder && wait.sequence < asked.floor);
        }
        Ok(())
    }

    fn decide(
        &mut self,
        file: Identity,
        asked: &Asked,
        now: Instant,
    ) -> Result<LockOutcome, Errno> {
        let who = (asked.holder, asked.lock.owner);
        if asked.action == LockAction::Release {
            let is_whole = asked.lock.first == 0 && asked.lock.last >= i64::MAX as u64;
            if !is_whole {
                // What remains on both sides are two locks.
                self.admit(asked.holder)?;
            }
            let of_file = self.files.entry(file).or_default();
            of_file.held.unlock(who, &asked.lock);
            return Ok(LockOutcome::Done);
        }
        let has_locks = self.has_locks(who);
        let of_file = self.files.entry(file).or_default();
        let obstacle = match asked.action {
            LockAction::Reclaim => of_file.held.conflicts(who, &asked.lock).next().copied(),
            _ => of_file.obstacle(who, asked, has_locks),
        };
        if let Some((by, lock)) = obstacle {
            if asked.action == LockAction::Wait {
                self.wait(file, who, asked, now)?;
            }
            return Ok(LockOutcome::Blocked(lock, by.0 == asked.holder));
        }
        let is_grace = self.grace_until.is_some_and(|until| now < until);
        if is_grace && asked.action != LockAction::Reclaim {
            return Ok(LockOutcome::Later);
        }
        if asked.action == LockAction::Test {
            return Ok(LockOutcome::Done);
        }
        self.admit(asked.holder)?;
        if let Some(mark) = &mut self.mark {
            mark.set(now).map_err(|error| {
                warn!(%error, path = %mark.path.display(), "no lock: the mark of locks cannot be written");
                Errno::ENOLCK
            })?;
        }
        let of_file = self.files.entry(file).or_default();
        of_file
            .waits
            .retain(|wait| wait.who != who || wait.sequence != asked.sequence);
        of_file.held.lock(who, asked.lock);
        Ok(LockOutcome::Done)
    }

    /// Gives a request its place in the queue of a file.
    fn wait(&mut self, file: Identity, who: Who, asked: &Asked, now: Instant) -> Result<(), Errno> {
        let until = now + LOCK_PATIENCE;
        let of_file = self.files.entry(file).or_default();
        let mut waits = of_file.waits.iter_mut();
        let own = waits.find(|wait| wait.who == who && wait.sequence == asked.sequence);
        if let Some(wait) = own {
            wait.until = until;
            return Ok(());
        }
        self.admit(who.0)?;
        if self.waits_for_itself(file, who, &asked.lock) {
            return Err(Errno::EDEADLK);
        }
        let of_file = self.files.entry(file).or_default();
        of_file.waits.push(Wait {
            who,
            sequence: asked.sequence,
            lock: asked.lock,
            until,
        });
        Ok(())
    }

    /// Returns whether an owner would wait for others who wait, perhaps through further ones, for this owner.
    fn waits_for_itself(&self, file: Identity, who: Who, lock: &Lock) -> bool {
        let blockers = |of_file: &OfFile, who: Who, lock: &Lock| -> Vec<Who> {
            let conflicts = of_file.held.conflicts(who, lock);
            conflicts.map(|(owner, _)| *owner).collect()
        };
        let mut waiting: FxHashMap<Who, Vec<Who>> = FxHashMap::default();
        for of_file in self.files.values() {
            for wait in &of_file.waits {
                let found = blockers(of_file, wait.who, &wait.lock);
                waiting.entry(wait.who).or_default().extend(found);
            }
        }
        let mut next = self
            .files
            .get(&file)
            .map_or_else(Vec::new, |of_file| blockers(of_file, who, lock));
        let mut seen: FxHashSet<Who> = FxHashSet::default();
        while let Some(blocker) = next.pop() {
            if blocker == who {
                return true;
            }
            if seen.insert(blocker) {
                next.extend(waiting.get(&blocker).into_iter().flatten());
            }
        }
        false
    }

    fn admit(&self, holder: u64) -> Result<(), Errno> {
        let own = self
            .sessions
            .get(&holder)
            .map_or(0, |session| session.count);
        if self.count >= ALL_MAX || own >= OWN_MAX {
            return Err(Errno::ENOLCK);
        }
        Ok(())
    }

    fn has_locks(&self, who: Who) -> bool {
        let mut files = self.files.values();
        files.any(|of_file| of_file.held.count_of(who) > 0)
    }

    fn count_of(&self, file: Identity, holder: u64) -> usize {
        self.files.get(&file).map_or(0, |of_file| {
            let held = of_file.held.iter().filter(|((own, _), _)| *own == holder);
            let waits = of_file.waits.iter().filter(|wait| wait.who.0 == holder);
            held.count() + waits.count()
        })
    }

    fn end_waits(&mut self, ends: impl Fn(&Wait) -> bool) {
        self.files.retain(|_, of_file| {
            of_file.waits.retain(|wait| {
                let stays = !ends(wait);
                if !stays {
                    self.count -= 1;
                    if let Some(session) = self.sessions.get_mut(&wait.who.0) {
                        session.count -= 1;
                    }
                }
                stays
            });
            of_file.count() > 0
        });
    }

    /// Ends the sessions of clients that were silent for too long.
    fn end_sessions(&mut self, now: Instant) {
        if self.next_end.is_none_or(|next| now < next) {
            return;
        }
        let mut ended = FxHashSet::default();
        self.sessions.retain(|holder, session| {
            let lives = now < session.until;
            if !lives {
                ended.insert(*holder);
            }
            lives
        });
        self.next_end = self.sessions.values().map(|session| session.until).min();
        self.count = 0;
        self.files.retain(|_, of_file| {
            of_file.held.remove(|(holder, _)| ended.contains(&holder));
            of_file.waits.retain(|wait| !ended.contains(&wait.who.0));
            self.count += of_file.count();
            of_file.count() > 0
        });
    }
}

impl LocalDirectory {
    /// Keeps a mark at `mark` while clients have locks. If the mark is there already, an earlier life of the server ended
    /// while clients had locks: for [`LOCK_GRACE`] from now on, only they get their locks.
    #[must_use]
    pub fn remember_locks(self, mark: PathBuf) -> Self {
        let now = Instant::now();
        let was_there = mark.exists();
        {
            let mut locks = self.locks();
            locks.grace_until = was_there.then(|| now + LOCK_GRACE);
            locks.mark = Some(Mark {
                path: mark,
                since: was_there.then_some(now),
            });
        }
        self
    }

    fn locks(&self) -> MutexGuard<'_, Locks> {
        self.locks.lock().unwrap_or_else(PoisonError::into_inner)
    }

    pub(crate) fn lock_file(&self, handle: Handle, asked: &Asked) -> Result<Reply, Errno> {
        let object = self.object(handle)?;
        if object.kind != Kind::File {
            return Err(Errno::EINVAL);
        }
        let mut locks = self.locks();
        let (session, outcome) = locks.carry_out(object.identity, asked, Instant::now())?;
        Ok(Reply::Lock(session, outcome))
    }

    pub(crate) fn keep_locks(&self, holder: u64) -> Result<Reply, Errno> {
        let session = self.locks().keep(holder, Instant::now())?;
        Ok(Reply::Lock(session, LockOutcome::Done))
    }
}

#[cfg(test)]
mod tests;
