//! Remembers the peers that use a router across its restarts.
//!
//! A peer that lost its router uses the router again after the next check, which kernel nodes make once a minute, or
//! as soon as the router sends a message to the peer [GATE-15]. A router that comes back therefore
//! discovers the peers that it remembers: the ping makes the gateway alive at the peer, and the push says that all of
//! its interfaces are up.
//!
//! ```text
//!  start ──▶ read the file ──▶ discover or ping each peer, PER_SECOND at most
//!                                   │
//!                 after 1, 2, 4 … SAVE_INTERVAL: peers heard of since the start ──▶ file, if they changed
//! ```

use std::collections::BTreeSet;
use std::fs::OpenOptions;
use std::io::{self, ErrorKind, Read};
use std::path::{Path, PathBuf};
use std::sync::mpsc::{Receiver, RecvTimeoutError, Sender, channel};
use std::thread::{self, JoinHandle};
use std::time::{Duration, Instant};

use lnet_core::{PeerCursor, PeerView};
use lnet_types::Nid;
use tracing::{info, warn};

use crate::managed::ManagedNode;

/// The most peers that are remembered; others find the router by their own checks.
const USERS_MAX: usize = 4096;

/// The most bytes of the file that are read: a NID has at most 60 characters.
const FILE_MAX: u64 = 64 * USERS_MAX as u64;

/// Discoveries that begin per second.
const PER_SECOND: usize = 200;

/// The pause between two groups of discoveries.
const LOT_PAUSE: Duration = Duration::from_millis(50);

/// The timeout of one ping. If discovery is off, peers are pinged one by one.
const PING_TIMEOUT: Duration = Duration::from_secs(1);

/// Pings end after this time, in which every peer has checked by itself.
const PINGS_END: Duration = Duration::from_secs(60);

/// The time of the first reading of the peers that use the router. The pauses between further readings double up to
/// [`SAVE_INTERVAL`], so that a router that is killed soon after its first start knows its users, too.
const FIRST_SAVE: Duration = Duration::from_secs(1);

/// The longest pause between two readings of the peers that use the router.
const SAVE_INTERVAL: Duration = Duration::from_secs(10);

/// Peers that are read under one lock, which takes some 100 µs.
const PEERS_PER_PAGE: usize = 64;

/// Keeps a file of the peers that use this node as a router. Dropping this value saves the file and ends the thread.
#[derive(Debug)]
pub struct UsersFile {
    stop: Option<Sender<()>>,
    thread: Option<JoinHandle<()>>,
}

impl UsersFile {
    /// Reads the file, which need not exist, and tells the peers in it that the router is back.
    ///
    /// # Errors
    ///
    /// The file cannot be read, or is not a list of NIDs, one per line.
    pub fn open(node: &ManagedNode, path: &Path) -> io::Result<Self> {
        let known = read(path)?;
        let (stop, stopped) = channel();
        let keeper = Keeper {
            node: node.clone(),
            path: path.to_owned(),
            known,
            stopped,
        };
        let thread = thread::Builder::new().name("router-users".into());
        let thread = thread.spawn(move || keeper.run())?;
        Ok(Self {
            stop: Some(stop),
            thread: Some(thread),
        })
    }
}

impl Drop for UsersFile {
    fn drop(&mut self) {
        drop(self.stop.take());
        if let Some(thread) = self.thread.take() {
            // A panic of the thread has ended the process.
            let _ended = thread.join();
        }
    }
}

struct Keeper {
    node: ManagedNode,
    path: PathBuf,
    known: BTreeSet<Nid>,
    stopped: Receiver<()>,
}

impl Keeper {
    fn run(mut self) {
        if !self.known.is_empty() && self.node.with_core(|core, _| core.is_router()) {
            info!(
                peers = self.known.len(),
                "notifying the peers that used this router of its restart"
            );
            if !self.greet() {
                return;
            }
        }
        for pause in pauses() {
            if self.is_stopped(pause) {
                break;
            }
            self.save();
        }
        self.save();
    }

    /// Discovers or pings the remembered peers. Returns false if the node stops meanwhile.
    fn greet(&self) -> bool {
        let users: Vec<Nid> = self.known.iter().copied().collect();
        if !self.node.with_core(|core, _| core.globals().discovery) {
            return self.ping(&users);
        }
        let lot = PER_SECOND * LOT_PAUSE.as_millis() as usize / 1000;
        for some in users.chunks(lot.max(1)) {
            self.node.with_core(|core, now| {
                for &user in some {
                    // A peer that cannot be discovered finds the router by its own check.
                    let _refused = core.discover(user, now);
                }
            });
            if self.is_stopped(LOT_PAUSE) {
                return false;
            }
        }
        true
    }

    fn ping(&self, users: &[Nid]) -> bool {
        let begun = Instant::now();
        for &user in users {
            if begun.elapsed() > PINGS_END {
                return true;
            }
            // A peer that does not answer finds the router by its own check.
            let _unanswered = self.node.node().ping(user, None, PING_TIMEOUT);
            if self.is_stopped(Duration::ZERO) {
                return false;
            }
        }
        true
    }

    fn is_stopped(&self, within: Duration) -> bool {
        self.stopped.recv_timeout(within) != Err(RecvTimeoutError::Timeout)
    }

    /// Saves the peers heard of since the start. Other remembered peers stay in the file while there is room: they
    /// may be down.
    fn save(&mut self) {
        if !self.node.with_core(|core, _| core.is_router()) {
            return;
        }
        let mut users = heard_of(&self.node);
        for &before in &self.known {
            if users.len() >= USERS_MAX {
                break;
            }
            users.insert(before);
        }
        if users == self.known {
            return;
        }
        match write(&self.path, &users) {
            Ok(()) => self.known = users,
            Err(error) => warn!(
                "{}: the peers that use this router cannot be saved: {error}",
                self.path.display()
            ),
        }
    }
}

/// Returns the pauses between readings of the peers that use the router, without end.
fn pauses() -> impl Iterator<Item = Duration> {
    let longer = |pause: &Duration| Some(SAVE_INTERVAL.min(*pause * 2));
    std::iter::successors(Some(FIRST_SAVE), longer)
}

/// Returns the peers on nets of this node that have sent something, gateways excepted.
fn heard_of(node: &ManagedNode) -> BTreeSet<Nid> {
    let mut users = BTreeSet::new();
    let mut from = Some(PeerCursor::START);
    while let Some(cursor) = from {
        let (page, next) = node.with_core(|core, _| core.peer_page(cursor, PEERS_PER_PAGE));
        let some = page.iter().filter(|peer| !peer.gateway).filter_map(user);
        users.extend(some);
        if users.len() >= USERS_MAX {
            break;
        }
        from = next;
    }
    while users.len() > USERS_MAX {
        users.pop_last();
    }
    users
}

/// Returns the first interface over which a peer was heard of; discovery finds the others.
fn user(peer: &PeerView) -> Option<Nid> {
    let is_user = |ni: &&lnet_core::PeerNiView| ni.max_tx_credits > 0 && ni.last_alive.is_some();
    peer.nis.iter().find(is_user).map(|ni| ni.nid)
}

fn read(path: &Path) -> io::Result<BTreeSet<Nid>> {
    let opened = sys::without_following(OpenOptions::new().read(true)).open(path);
    let file = match opened {
        Err(error) if error.kind() == ErrorKind::NotFound => return Ok(BTreeSet::new()),
        opened => opened?,
    };
    let mut text = String::new();
    file.take(FILE_MAX + 1).read_to_string(&mut text)?;
    if text.len() as u64 > FILE_MAX {
        let what = format!("the file is longer than {FILE_MAX} bytes");
        return Err(io::Error::new(ErrorKind::InvalidData, what));
    }
    let read = text.lines().enumerate().map(|(at, line)| {
        let nid = line.trim().parse::<Nid>();
        nid.map_err(|error| {
            let what = format!("line {}: {error}", at + 1);
            io::Error::new(ErrorKind::InvalidData, what)
        })
    });
    let mut users: BTreeSet<Nid> = read.collect::<io::Result<_>>()?;
    while users.len() > USERS_MAX {
        users.pop_last();
    }
    Ok(users)
}

/// Replaces the file in one step, so that a crash leaves either the old or the new file.
fn write(path: &Path, users: &BTreeSet<Nid>) -> io::Result<()> {
    let text: String = users.iter().map(|nid| format!("{nid}\n")).collect();
    sys::replace_file(path, text)
}

#[cfg(test)]
mod tests {
    use std::fs;

    use super::*;

    #[test]
    fn who_uses_a_new_router_is_saved_soon_and_then_ever_more_seldom() {
        let seconds: Vec<u64> = pauses().take(6).map(|pause| pause.as_secs()).collect();
        assert_eq!(seconds, [1, 2, 4, 8, 10, 10]);
    }

    #[test]
    fn a_file_is_read_as_it_was_written_and_rubbish_is_refused_with_its_line() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("users");
        assert!(read(&path).unwrap().is_empty());
        let users: BTreeSet<Nid> = ["10.0.0.1@tcp", "fd00::1@tcp1"]
            .iter()
            .map(|text| text.parse().unwrap())
            .collect();
        write(&path, &users).unwrap();
        assert_eq!(read(&path).unwrap(), users);
        fs::write(&path, "10.0.0.1@tcp\nrubbish\n").unwrap();
        let refused = read(&path).unwrap_err().to_string();
        assert!(refused.starts_with("line 2: "), "{refused}");
        fs::write(&path, "10.0.0.1@tcp\n".repeat(FILE_MAX as usize / 10)).unwrap();
        let refused = read(&path).unwrap_err().to_string();
        assert_eq!(refused, "the file is longer than 262144 bytes");
    }
}
