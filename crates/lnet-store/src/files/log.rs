//! The log of replies: what makes a gateway execute once what must not be executed twice, across its restarts.
//!
//! ```text
//!   intend ── record on the disk ──▶ the operation ──▶ reply ── record written ──▶ the client gets it
//!     ╵ one fdatasync for all calls                       ╵ on the disk with the next intent
//!       that wait for one
//! ```
//!
//! A gateway writes down what it is about to execute, and what came of it. After a restart a call with a reply has that
//! reply. A call with an intent and without a reply was under way: whoever restores it looks at the files, and
//! says what became of it. A call without an intent was never begun.
//!
//! * **Replies are written before they are sent, and reach the disk later.** A process that is killed loses nothing that
//!   it wrote. A machine that goes down may lose a reply, and then its intent says that the files have to be looked at.
//! * **Sessions are in the log**, with the incarnation that clients know, so that clients notice no restart. A log
//!   that is new, because the old one was removed, has another incarnation: then clients get "outcome unknown".
//! * **The log is bounded.** What no client can ask for again is left out when the log is written anew, at each start and
//!   whenever most of it is of that kind. A client that never says what it has is refused at a limit.
//! * **The log is never trusted blindly**: `record.rs` says which damage is a torn tail, and what else is refused.
//! * **Where the log cannot be written**, because the disk is full or the directory gone, calls that need it are refused
//!   (`EIO`), others go on, and each further call tries again.

mod file;
mod record;
mod report;

use std::collections::BTreeMap;
use std::fs::File;
use std::io;
use std::path::{Path, PathBuf};
use std::sync::{Condvar, Mutex, MutexGuard, PoisonError};

use lnet_rpc::{ClientId, Entropy, Reply, Restored, RestoredClient, Session};
use tracing::{error, info, warn};

use self::file::{Home, LogFile};
pub use self::record::fuzz_log;
use self::record::{Damage, Record, decode};
pub(super) use self::record::{Fields, Out};
use self::report::{Counting, count};
pub use self::report::{LogCounters, LogError};

/// The log cannot be written. The call that needed it may not be executed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Unwritten;

/// The log of replies of one gateway.
#[derive(Debug)]
pub struct ReplyLog {
    home: Home,
    head: Record,
    incarnation: u64,
    starts: u64,
    state: Mutex<State>,
    synced: Condvar,
    /// Sessions that came and went since a call was written down: whoever tells of them must not wait for a disk.
    news: Mutex<Vec<News>>,
    counting: Counting,
}

#[derive(Debug)]
enum News {
    Came(Session),
    Gone(ClientId),
}

#[derive(Debug)]
struct State {
    file: LogFile,
    clients: BTreeMap<ClientId, Client>,
    /// Bytes of all that must be kept.
    kept: usize,
    /// One thread brings the log to the disk at a time.
    is_syncing: bool,
    /// The file lacks something, or is none any longer: it is written anew before anything else.
    is_bad: bool,
    /// Counts what was added, across files.
    added: u64,
    /// What was added up to here is on the disk.
    durable: u64,
}

#[derive(Debug)]
struct Client {
    session: Session,
    lowest: u64,
    calls: BTreeMap<u64, Kept>,
    kept: usize,
}

/// A call that its client may ask for again.
#[derive(Clone, Debug)]
pub(super) struct Kept {
    pub(super) intent: Vec<u8>,
    pub(super) reply: Option<Reply>,
}

/// What became of a call that was under way.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Verdict {
    /// It was executed, with this reply.
    Done(Reply),
    /// It was not executed.
    Undone,
    /// Nobody knows; this is what the client gets.
    Unknown(Reply),
}

/// Most calls of one client that are kept: as many as the server of `lnet-rpc` remembers.
const CALLS_PER_CLIENT_MAX: usize = 16_384;
/// Most bytes that are kept for one client.
const KEPT_PER_CLIENT_MAX: usize = 16 << 20;
/// Most bytes that are kept for all.
const KEPT_MAX: usize = 256 << 20;
/// A log shorter than this is never written anew because of its length.
const REWRITE_MIN: u64 = 4 << 20;
/// Most news that wait for a call to be written down.
const NEWS_MAX: usize = 1024;
/// What a call takes besides its own bytes.
const CALL_OVERHEAD: usize = 128;

impl ReplyLog {
    /// Opens the log in `directory`, which this gateway has for itself, or begins one. `export` is the directory that is
    /// served.
    ///
    /// # Errors
    ///
    /// The directory cannot be used, another process uses it, or the log in it cannot be believed.
    pub fn open(directory: &Path, export: &Path, entropy: &Entropy) -> Result<Self, LogError> {
        let home = Home::lock(directory, entropy.number("salt of a log"))?;
        let records = match home.read()? {
            Some(bytes) => read(&home.path(), &bytes)?,
            None => Vec::new(),
        };
        let (incarnation, starts) = match records.first() {
            Some(Record::Head {
                incarnation,
                starts,
                export: of,
            }) => {
                require_same(&home.path(), of, export)?;
                (*incarnation, starts + 1)
            }
            _ => (entropy.number("incarnation"), 1),
        };
        let head = Record::Head {
            incarnation,
            starts,
            export: export.as_os_str().as_encoded_bytes().to_vec(),
        };
        let clients = replay(records);
        let write = |clients: &BTreeMap<ClientId, Client>| home.replace(&all(&head, clients));
        let file = write(&clients).map_err(|source| LogError::Write {
            path: home.path(),
            source,
        })?;
        Ok(Self {
            state: Mutex::new(State::new(file, clients)),
            home,
            head,
            incarnation,
            starts,
            synced: Condvar::new(),
            news: Mutex::default(),
            counting: Counting::default(),
        })
    }

    /// What has been counted.
    #[must_use]
    pub fn counters(&self) -> LogCounters {
        self.counting.snapshot()
    }

    /// Settles what an earlier life left, before anything is served: `judge` says what became of a call that was under
    /// way, `refresh` may replace a reply whose handles are void.
    pub(super) fn settle(
        &self,
        judge: impl Fn(&[u8]) -> Verdict,
        refresh: impl Fn(&[u8], Reply) -> Reply,
    ) -> Result<(), LogError> {
        let mut state = self.state();
        for client in state.clients.values_mut() {
            let calls = std::mem::take(&mut client.calls);
            for (xid, kept) in calls {
                let reply = match kept.reply {
                    Some(reply) => {
                        count(&self.counting.replies_found);
                        Some(refresh(&kept.intent, reply))
                    }
                    None => self.judged(judge(&kept.intent), client.session.client, xid),
                };
                if reply.is_some() {
                    client.calls.insert(xid, Kept { reply, ..kept });
                }
            }
        }
        state.count_kept();
        // On the disk, or the next life would judge by files that have changed since.
        self.rewrite(&mut state).map_err(|source| LogError::Write {
            path: self.home.path(),
            source,
        })
    }

    fn judged(&self, verdict: Verdict, client: ClientId, xid: u64) -> Option<Reply> {
        match verdict {
            Verdict::Done(reply) => {
                count(&self.counting.found_done);
                Some(reply)
            }
            Verdict::Undone => {
                count(&self.counting.found_undone);
                None
            }
            Verdict::Unknown(reply) => {
                warn!(%client, xid, "the outcome of a call that was under way is unknown");
                count(&self.counting.unknown);
                Some(reply)
            }
        }
    }

    /// What the server goes on with, when all is settled.
    pub(super) fn restored(&self) -> Restored {
        let state = self.state();
        let restore = |client: &Client| RestoredClient {
            session: client.session,
            lowest: client.lowest,
            calls: client
                .calls
                .iter()
                .filter_map(|(&xid, kept)| Some((xid, kept.reply.clone()?)))
                .collect(),
        };
        Restored {
            incarnation: self.incarnation,
            // Each start has numbers of its own, so that a session whose record was lost is not met again.
            sessions: self.starts << 32,
            clients: state.clients.values().map(restore).collect(),
        }
    }

    /// A client has a session.
    pub(super) fn came(&self, session: &Session) {
        self.hear(News::Came(*session));
    }

    /// A client has none any longer.
    pub(super) fn gone(&self, client: ClientId) {
        self.hear(News::Gone(client));
    }

    fn hear(&self, news: News) {
        let mut list = self.news.lock().unwrap_or_else(PoisonError::into_inner);
        list.push(news);
        if list.len() > NEWS_MAX {
            drop(list);
            drop(self.informed());
        }
    }

    /// Writes down which sessions came and went, if any did: a call of a session that is in no log is unknown after a
    /// restart.
    pub(super) fn write_news(&self) {
        let is_empty = self
            .news
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
            .is_empty();
        if !is_empty {
            drop(self.informed());
        }
    }

    /// The state, with all news in it.
    fn informed(&self) -> MutexGuard<'_, State> {
        let mut state = self.state();
        let news = std::mem::take(&mut *self.news.lock().unwrap_or_else(PoisonError::into_inner));
        for news in news {
            match news {
                News::Came(session) => {
                    let client = Client::new(session);
                    let record = client.record();
                    state.clients.insert(session.client, client);
                    self.add(&mut state, &record);
                }
                News::Gone(client) => {
                    if let Some(gone) = state.clients.remove(&client) {
                        state.kept -= gone.kept;
                        self.add(&mut state, &Record::Gone { client });
                    }
                }
            }
        }
        state
    }

    /// Writes down what is about to be executed. It is on the disk when this returns.
    pub(super) fn intend(
        &self,
        client: ClientId,
        xid: u64,
        lowest: u64,
        intent: Vec<u8>,
    ) -> Result<(), Unwritten> {
        let written = self.write_intent(client, xid, lowest, intent);
        if written.is_err() {
            count(&self.counting.refused);
            self.state().drop_call(client, xid);
        }
        written
    }

    fn write_intent(
        &self,
        client: ClientId,
        xid: u64,
        lowest: u64,
        intent: Vec<u8>,
    ) -> Result<(), Unwritten> {
        let mut state = self.informed();
        state.raise(client, lowest);
        state.keep(client, xid, &intent)?;
        count(&self.counting.intents);
        let record = Record::Intent {
            client,
            xid,
            lowest,
            intent,
        };
        self.add(&mut state, &record);
        let position = state.added;
        self.sync(state, position)
    }

    /// Writes down what came of a call.
    pub(super) fn reply(&self, client: ClientId, xid: u64, reply: &Reply) {
        let mut state = self.state();
        if !state.answer(client, xid, reply) {
            return;
        }
        let record = Record::Reply {
            client,
            xid,
            status: reply.status,
            body: reply.body.clone(),
        };
        self.add(&mut state, &record);
        if state.is_bad {
            count(&self.counting.replies_lost);
        }
    }

    /// Adds a record to the file. Where that fails the file is written anew with the next intent.
    fn add(&self, state: &mut State, record: &Record) {
        state.added += 1;
        if !state.is_bad
            && let Err(error) = state.file.append(record)
        {
            self.complain(state, &error);
        }
    }

    fn complain(&self, state: &mut State, error: &io::Error) {
        let path = self.home.path();
        if !state.is_bad {
            error!(path = %path.display(), %error, "the log cannot be written: calls that need it are refused");
        }
        state.is_bad = true;
    }

    /// Waits until everything up to `position` is on the disk. The first that comes does it for all that wait.
    fn sync<'a>(
        &'a self,
        mut state: MutexGuard<'a, State>,
        position: u64,
    ) -> Result<(), Unwritten> {
        loop {
            if state.durable >= position {
                return Ok(());
            }
            if state.is_syncing {
                let waited = self.synced.wait(state);
                state = waited.unwrap_or_else(PoisonError::into_inner);
                continue;
            }
            state = self.lead(state)?;
        }
    }

    /// Brings the file to the disk, while others may add to it.
    fn lead<'a>(
        &'a self,
        mut state: MutexGuard<'a, State>,
    ) -> Result<MutexGuard<'a, State>, Unwritten> {
        if state.is_bad {
            return self.recover(state);
        }
        let (file, end, added) = (state.file.file(), state.file.end(), state.added);
        state.is_syncing = true;
        drop(state);
        let result = self.bring_to_disk(&file);
        let mut state = self.state();
        state.is_syncing = false;
        match result {
            Ok(()) => {
                state.file.synced(end);
                state.durable = state.durable.max(added);
            }
            Err(error) => {
                self.complain(&mut state, &error);
                return self.recover(state);
            }
        }
        if !state.is_bad && state.is_long() {
            // A failure leaves the old file, which is as good.
            let _kept = self.rewrite(&mut state);
        }
        self.synced.notify_all();
        Ok(state)
    }

    fn recover<'a>(
        &'a self,
        mut state: MutexGuard<'a, State>,
    ) -> Result<MutexGuard<'a, State>, Unwritten> {
        let written = self.rewrite(&mut state);
        self.synced.notify_all();
        match written {
            Ok(()) => {
                info!(path = %self.home.path().display(), "the log can be written again");
                Ok(state)
            }
            Err(_) => Err(Unwritten),
        }
    }

    fn bring_to_disk(&self, file: &File) -> io::Result<()> {
        file.sync_data()?;
        count(&self.counting.syncs);
        self.home.holds(file)
    }

    /// Writes the log anew, with what must be kept only.
    fn rewrite(&self, state: &mut State) -> io::Result<()> {
        state.file = self.home.replace(&all(&self.head, &state.clients))?;
        state.durable = state.added;
        state.is_bad = false;
        count(&self.counting.rewrites);
        Ok(())
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl State {
    fn new(file: LogFile, clients: BTreeMap<ClientId, Client>) -> Self {
        let mut state = Self {
            file,
            clients,
            kept: 0,
            is_syncing: false,
            is_bad: false,
            added: 0,
            durable: 0,
        };
        state.count_kept();
        state
    }

    /// Whether most of the file is of no use any more.
    fn is_long(&self) -> bool {
        self.file.end() > REWRITE_MIN.max(4 * self.kept as u64)
    }

    fn count_kept(&mut self) {
        for client in self.clients.values_mut() {
            client.kept = client.calls.values().map(Kept::length).sum();
        }
        self.kept = self.clients.values().map(|client| client.kept).sum();
    }

    /// Forgets what a client does not wait for any more.
    fn raise(&mut self, client: ClientId, lowest: u64) {
        if let Some(client) = self.clients.get_mut(&client) {
            self.kept -= client.raise(lowest);
        }
    }

    fn keep(&mut self, client: ClientId, xid: u64, intent: &[u8]) -> Result<(), Unwritten> {
        let room = KEPT_MAX.saturating_sub(self.kept);
        // The server has told of each client whose calls it takes.
        let client = self.clients.get_mut(&client).ok_or(Unwritten)?;
        let kept = Kept {
            intent: intent.to_vec(),
            reply: None,
        };
        let length = kept.length();
        let is_full = client.calls.len() >= CALLS_PER_CLIENT_MAX
            || client.kept + length > KEPT_PER_CLIENT_MAX
            || length > room;
        if is_full {
            return Err(Unwritten);
        }
        client.calls.insert(xid, kept);
        client.kept += length;
        self.kept += length;
        Ok(())
    }

    fn drop_call(&mut self, client: ClientId, xid: u64) {
        let client = self.clients.get_mut(&client);
        if let Some((client, kept)) = client.and_then(|client| {
            let kept = client.calls.remove(&xid)?;
            Some((client, kept))
        }) {
            client.kept -= kept.length();
            self.kept -= kept.length();
        }
    }

    /// False where the client has gone meanwhile.
    fn answer(&mut self, client: ClientId, xid: u64, reply: &Reply) -> bool {
        let Some(client) = self.clients.get_mut(&client) else {
            return false;
        };
        let Some(kept) = client.calls.get_mut(&xid) else {
            return false;
        };
        kept.reply = Some(reply.clone());
        client.kept += reply.body.len();
        self.kept += reply.body.len();
        true
    }
}

impl Client {
    fn new(session: Session) -> Self {
        Self {
            session,
            lowest: 0,
            calls: BTreeMap::new(),
            kept: 0,
        }
    }

    fn record(&self) -> Record {
        Record::Came {
            client: self.session.client,
            session: self.session.number,
            nid: self.session.nid,
            lowest: self.lowest,
        }
    }

    /// Forgets executed calls below; the bytes that were kept for them.
    fn raise(&mut self, lowest: u64) -> usize {
        self.lowest = self.lowest.max(lowest);
        let mut freed = 0;
        while let Some(first) = self.calls.first_entry()
            && *first.key() < self.lowest
            && first.get().reply.is_some()
        {
            freed += first.remove().length();
        }
        // While a log is read nothing is counted yet.
        self.kept = self.kept.saturating_sub(freed);
        freed
    }
}

impl Kept {
    fn length(&self) -> usize {
        let reply = self.reply.as_ref().map_or(0, |reply| reply.body.len());
        CALL_OVERHEAD + self.intent.len() + reply
    }
}

fn read(path: &Path, bytes: &[u8]) -> Result<Vec<Record>, LogError> {
    let path = path.to_owned();
    let contents = decode(bytes).map_err(|damage| match damage {
        Damage::Foreign => LogError::Foreign(path.clone()),
        Damage::Version => LogError::Version(path.clone()),
        Damage::At(offset) => LogError::Damaged {
            path: path.clone(),
            offset,
        },
    })?;
    if contents.torn > 0 {
        info!(path = %path.display(), bytes = contents.torn, "the log ends within a record, which was being written");
    }
    Ok(contents.records)
}

fn require_same(path: &Path, of: &[u8], export: &Path) -> Result<(), LogError> {
    if of == export.as_os_str().as_encoded_bytes() {
        return Ok(());
    }
    Err(LogError::Other {
        path: path.to_owned(),
        of: PathBuf::from(String::from_utf8_lossy(of).into_owned()),
        not: export.to_owned(),
    })
}

/// What records say together.
fn replay(records: Vec<Record>) -> BTreeMap<ClientId, Client> {
    let mut clients: BTreeMap<ClientId, Client> = BTreeMap::new();
    for record in records {
        match record {
            Record::Head { .. } => {}
            Record::Came {
                client,
                session: number,
                nid,
                lowest,
            } => {
                let session = Session {
                    client,
                    nid,
                    number,
                };
                let mut came = Client::new(session);
                came.lowest = lowest;
                clients.insert(client, came);
            }
            Record::Gone { client } => drop(clients.remove(&client)),
            Record::Intent {
                client,
                xid,
                lowest,
                intent,
            } => {
                if let Some(client) = clients.get_mut(&client) {
                    let reply = None;
                    client.raise(lowest);
                    client.calls.insert(xid, Kept { intent, reply });
                }
            }
            Record::Reply {
                client,
                xid,
                status,
                body,
            } => {
                let client = clients.get_mut(&client);
                if let Some(kept) = client.and_then(|client| client.calls.get_mut(&xid)) {
                    kept.reply = Some(Reply { status, body });
                }
            }
        }
    }
    clients
}

/// The records that say what must be kept.
fn all(head: &Record, clients: &BTreeMap<ClientId, Client>) -> Vec<Record> {
    let mut records = vec![head.clone()];
    for (&client, of) in clients {
        records.push(of.record());
        for (&xid, kept) in &of.calls {
            let lowest = of.lowest;
            let intent = kept.intent.clone();
            records.push(Record::Intent {
                client,
                xid,
                lowest,
                intent,
            });
            if let Some(Reply { status, body }) = kept.reply.clone() {
                records.push(Record::Reply {
                    client,
                    xid,
                    status,
                    body,
                });
            }
        }
    }
    records
}

#[cfg(test)]
mod tests;
