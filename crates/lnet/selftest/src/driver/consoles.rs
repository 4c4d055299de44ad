//! The consoles of a test node: one for each key, kept between the commands of a program.
//!
//! ```text
//!   command ── key ──▶ lease ──▶ Console ── RPCs ──▶ test nodes, this one among them
//!                        │ dropped: a console without a session is forgotten
//!   keeper thread ───────┴ once a second: keeps sessions alive, ends those without commands
//! ```

use std::collections::BTreeMap;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::thread::{self, JoinHandle};
use std::time::{Duration, Instant};

use super::{StartError, TestNode};
use crate::console::{Answer, Console, ConsoleError, Question};
use crate::wire::BatchReply;

/// The limit of sessions of one node.
const SESSIONS_MAX: usize = 16;
/// The interval of keepalives to nodes that would otherwise consider the console dead.
// [LST-17]
const KEEP_ALIVE: Duration = Duration::from_secs(8);
/// The interval of the checks whether a session must end.
const LOOK: Duration = Duration::from_secs(1);
/// How long nodes may take to answer the end of a session when the program ends.
const LEAVE: Duration = Duration::from_secs(2);

/// The consoles of a test node. Dropping them ends their sessions and stops the test node.
pub struct Consoles {
    shared: Arc<Shared>,
    keeper: Option<JoinHandle<()>>,
}

struct Shared {
    node: Arc<TestNode>,
    table: Mutex<Table>,
    is_stopping: AtomicBool,
}

#[derive(Default)]
struct Table {
    held: BTreeMap<String, Held>,
    /// Whether there ever was a console.
    is_used: bool,
}

type Keyed = Arc<Mutex<Console<Arc<TestNode>>>>;

struct Held {
    console: Keyed,
    /// Leases of the console.
    users: usize,
    /// When the last lease ended.
    spoken: Instant,
}

/// A console while a command uses it.
pub struct Lease {
    shared: Arc<Shared>,
    key: String,
    console: Keyed,
}

impl Consoles {
    /// Starts to keep consoles that send their RPCs from `node`.
    ///
    /// # Errors
    ///
    /// A thread cannot be started.
    pub fn start(node: TestNode) -> Result<Self, StartError> {
        let shared = Arc::new(Shared {
            node: Arc::new(node),
            table: Mutex::default(),
            is_stopping: AtomicBool::new(false),
        });
        let kept = Arc::clone(&shared);
        let keeper = thread::Builder::new()
            .name("lst-consoles".to_owned())
            .spawn(move || kept.keep())
            .map_err(StartError::Thread)?;
        Ok(Self {
            shared,
            keeper: Some(keeper),
        })
    }

    /// Returns the test node from which the consoles send their RPCs.
    #[must_use]
    pub fn test_node(&self) -> &TestNode {
        &self.shared.node
    }

    /// Returns the console of a key. A console without a session is made if there is none.
    ///
    /// # Errors
    ///
    /// The limit of 16 sessions is reached.
    pub fn lease(&self, key: &str) -> Result<Lease, ConsoleError> {
        let mut table = self.shared.table();
        if table.held.len() >= SESSIONS_MAX && !table.held.contains_key(key) {
            return Err(ConsoleError::TooMany("sessions", SESSIONS_MAX));
        }
        table.is_used = true;
        let new = || Held {
            console: Arc::new(Mutex::new(Console::new(Arc::clone(&self.shared.node)))),
            users: 0,
            spoken: Instant::now(),
        };
        let held = table.held.entry(key.to_owned()).or_insert_with(new);
        held.users += 1;
        Ok(Lease {
            shared: Arc::clone(&self.shared),
            key: key.to_owned(),
            console: Arc::clone(&held.console),
        })
    }

    /// Returns the number of consoles: those with a session, and those that a command uses.
    #[must_use]
    pub fn count(&self) -> usize {
        self.shared.table().held.len()
    }

    /// Reports whether there ever was a console.
    #[must_use]
    pub fn is_used(&self) -> bool {
        self.shared.table().is_used
    }

    /// Ends all sessions and stops the test node, so that commands under way end at once.
    pub fn close(&self) {
        if self.shared.is_stopping.swap(true, Ordering::AcqRel) {
            return;
        }
        let held = self.shared.table();
        let all: Vec<Keyed> = held
            .held
            .values()
            .map(|one| Arc::clone(&one.console))
            .collect();
        drop(held);
        thread::scope(|scope| {
            for console in &all {
                scope.spawn(|| {
                    // A console that is locked waits for nodes. Nodes that hear nothing end the session by themselves.
                    if let Ok(mut console) = console.try_lock() {
                        let _unanswered = console.end_session_within(LEAVE);
                    }
                });
            }
        });
        self.shared.node.close();
    }
}

impl Drop for Consoles {
    fn drop(&mut self) {
        self.close();
        if let Some(keeper) = self.keeper.take() {
            keeper.thread().unpark();
            if keeper.join().is_err() {
                tracing::warn!("the thread of the consoles ended with a panic");
            }
        }
    }
}

impl Lease {
    /// Asks nodes without holding the console: other commands of the session go on until the answers are there.
    ///
    /// # Errors
    ///
    /// That of `question`, which the locked console makes.
    pub fn ask<T>(
        &self,
        question: impl FnOnce(&Console<Arc<TestNode>>) -> Result<Question<T>, ConsoleError>,
    ) -> Result<Vec<Answer<T>>, ConsoleError> {
        let question = question(&self.console())?;
        let asked = question.send(&*self.shared.node);
        self.console().note(&asked);
        Ok(question.read(asked))
    }

    /// Asks the clients of a batch, or of one test, whether they run, without holding the console.
    ///
    /// # Errors
    ///
    /// The batch or the test does not exist.
    pub fn query(&self, name: &str, test: usize) -> Result<Vec<Answer<BatchReply>>, ConsoleError> {
        let mut runs = 0;
        let answers = self.ask(|console| {
            let (question, before) = console.query_question(name, test)?;
            runs = before;
            Ok(question)
        })?;
        self.console().settle(name, (test, runs), &answers);
        Ok(answers)
    }

    /// Locks the console. Another command of the same session waits until this one is done with it.
    pub fn console(&self) -> MutexGuard<'_, Console<Arc<TestNode>>> {
        self.console.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Drop for Lease {
    fn drop(&mut self) {
        let mut table = self.shared.table();
        let Some(held) = table.held.get_mut(&self.key) else {
            return;
        };
        held.users -= 1;
        held.spoken = Instant::now();
        // A console that is locked has a session: the keeper is asking its nodes.
        let is_over = |console: &Keyed| console.try_lock().is_ok_and(|one| one.session().is_err());
        if held.users == 0 && is_over(&held.console) {
            table.held.remove(&self.key);
        }
    }
}

impl Shared {
    fn table(&self) -> MutexGuard<'_, Table> {
        self.table.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Returns the consoles, each with its key, and the time of its last command if no command uses it.
    fn all(&self) -> Vec<(String, Keyed, Option<Instant>)> {
        let table = self.table();
        let all = table.held.iter().map(|(key, held)| {
            let spoken = (held.users == 0).then_some(held.spoken);
            (key.clone(), Arc::clone(&held.console), spoken)
        });
        all.collect()
    }

    fn keep(&self) {
        let mut told = Instant::now();
        while !self.is_stopping.load(Ordering::Acquire) {
            thread::park_timeout(LOOK);
            let is_due = told.elapsed() >= KEEP_ALIVE;
            if is_due {
                told = Instant::now();
            }
            self.look(is_due);
        }
    }

    /// Ends the sessions without commands. With `is_due`, keeps the others alive, also while a command runs: it may
    /// concern few of the nodes, and take long. A node that does not answer holds up only its own session.
    fn look(&self, is_due: bool) {
        let all = self.all();
        thread::scope(|scope| {
            for (key, console, spoken) in &all {
                let is_idle = spoken.is_some_and(|spoken| is_idle(console, spoken));
                if is_idle || is_due {
                    scope.spawn(move || self.tend(key, console, is_idle));
                }
            }
        });
    }

    fn tend(&self, key: &str, console: &Keyed, is_idle: bool) {
        let Ok(mut held) = console.try_lock() else {
            // A command changes the session, and speaks to the nodes.
            return;
        };
        if !is_idle {
            let question = held.keep_alive_question();
            drop(held);
            if let Some(question) = question {
                let asked = question.send(&*self.node);
                console
                    .lock()
                    .unwrap_or_else(PoisonError::into_inner)
                    .note(&asked);
            }
            return;
        }
        // Nodes that do not answer end the session by themselves.
        let _unanswered = held.end_session();
        let mut table = self.table();
        if table.held.get(key).is_some_and(|held| held.users == 0) {
            table.held.remove(key);
        }
    }
}

fn is_idle(console: &Keyed, spoken: Instant) -> bool {
    let Ok(console) = console.try_lock() else {
        return false;
    };
    let timeout = console.session().map_or(0, |session| session.timeout_s);
    spoken.elapsed() >= Duration::from_secs(timeout.into())
}

#[cfg(test)]
mod tests {
    use std::error::Error;

    use lnet_node::{NiSettings, Node, NodeOptions};

    use super::*;

    // [LST-17]
    #[test]
    fn a_session_is_kept_alive_while_a_command_uses_it_and_ends_only_without_one() {
        let options = NodeOptions {
            port: testkit::port(),
            ..NodeOptions::default()
        };
        let node = Node::start_with(options, |engine, now| -> Result<(), Box<dyn Error>> {
            engine.add_interface("127.0.0.1@tcp".parse()?, NiSettings::default(), now)?;
            Ok(())
        });
        let consoles = Consoles::start(TestNode::start(node.unwrap()).unwrap()).unwrap();
        let lease = consoles.lease("7").unwrap();
        lease.console().new_session("x", 1, false, 1).unwrap();
        let spoken = || consoles.shared.all().into_iter().map(|(.., spoken)| spoken);
        assert_eq!(spoken().collect::<Vec<_>>(), [None]);
        drop(lease);
        assert!(spoken().all(|spoken| spoken.is_some()));
        testkit::eventually("the session without commands ends", || {
            consoles.count() == 0
        });
    }
}
