//! The control endpoint: a Unix socket over which clients read a node's state and configure the node.
//!
//! ```text
//!  listener thread ── accept ── credentials ── one thread a connection (at most 32)
//!                                                 read a frame ── carry out under the engine's lock
//!                                                 ── release it ── write the answer
//! ```
//!
//! Nothing is read or written while the engine is locked, so a slow or dead client holds up only its own thread. A
//! client that neither sends nor receives for half a minute is cut off. These users may connect: this process's user,
//! root, and the members of one group if that is allowed.

mod before;
mod complete;
mod connection;
mod failure;
mod fault;
mod import;
mod lst;
mod numbers;
mod o2ib;
mod parameters;
mod ping;
mod plan;
mod recording;
mod request;
mod rpcs;
mod rules;
mod show;
mod tune;
mod watch;

use std::fs;
use std::io::{self, ErrorKind};
use std::net::Shutdown;
use std::os::fd::OwnedFd;
use std::os::unix::fs::{FileTypeExt, PermissionsExt};
use std::os::unix::net::{UnixListener, UnixStream};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::thread::JoinHandle;
use std::time::Duration;

use socket2::{Domain, SockAddr, SockRef, Socket, Type};
use thiserror::Error;
use tracing::{debug, warn};

use crate::managed::ManagedNode;
use crate::serving::{self, Clients, Full};

pub use import::ReconfigureError;

/// The path at which the endpoint listens, and the users that may connect.
#[derive(Clone, Debug)]
pub struct ControlOptions {
    /// The socket's path; programs look at [`lnet_dlc::protocol::default_socket_path`]. A missing directory is created.
    pub path: PathBuf,
    /// A group whose members may connect, too.
    pub group: Option<u32>,
}

/// The reason why the endpoint cannot be opened.
#[derive(Debug, Error)]
#[non_exhaustive]
pub enum ControlError {
    /// A node is already listening at this path.
    #[error("another node is controlled at {0}: stop it, or choose another path")]
    InUse(PathBuf),
    /// The path exists and is not a socket.
    #[error("{0} exists and is not a socket")]
    NotASocket(PathBuf),
    /// The operating system rejected the socket.
    #[error("cannot listen at {path}: {error}")]
    Listen {
        /// The socket's path.
        path: PathBuf,
        /// The error of the operating system.
        error: io::Error,
    },
}

/// A node's open control endpoint. Dropping this value closes the endpoint and removes its socket.
#[derive(Debug)]
pub struct ControlEndpoint {
    path: PathBuf,
    clients: Arc<Clients<UnixStream>>,
    /// The listener's socket, to end its wait.
    socket: UnixListener,
    listener: Option<JoinHandle<()>>,
}

/// The listen backlog: connections that the system keeps until they are accepted.
const BACKLOG: i32 = 16;

/// The limit of simultaneous connections; a further client gets an answer that says so and is closed.
const CLIENTS_MAX: usize = 32;

impl ControlEndpoint {
    /// Opens an endpoint that controls a node.
    ///
    /// # Errors
    ///
    /// Another node's endpoint at that path, a file that is not a socket, or an error of the operating system.
    pub fn open(node: &ManagedNode, options: &ControlOptions) -> Result<Self, ControlError> {
        let path = options.path.clone();
        let listener = listen(&path, options.group)?;
        let socket = listener.try_clone().map_err(|error| ControlError::Listen {
            path: path.clone(),
            error,
        })?;
        let clients = Arc::new(Clients::new("control", CLIENTS_MAX, Full::Reject));
        let accepting = Accepting {
            node: node.clone(),
            listener,
            group: options.group,
            clients: Arc::clone(&clients),
        };
        let thread = std::thread::Builder::new()
            .name("lnet-control".into())
            .spawn(move || accepting.run())
            .map_err(|error| ControlError::Listen {
                path: path.clone(),
                error,
            })?;
        Ok(Self {
            path,
            clients,
            socket,
            listener: Some(thread),
        })
    }

    /// Returns the path that the endpoint listens at.
    #[must_use]
    pub fn path(&self) -> &Path {
        &self.path
    }
}

impl Drop for ControlEndpoint {
    fn drop(&mut self) {
        self.clients.stop();
        // Wakes the listener from accept, even if the path has been removed; the listener then sees the flag.
        if let Err(error) = SockRef::from(&self.socket).shutdown(Shutdown::Both) {
            debug!(%error, "the control socket cannot be shut down");
        }
        if let Some(listener) = self.listener.take() {
            serving::join(listener);
        }
        self.clients.end();
        if let Err(error) = fs::remove_file(&self.path) {
            debug!(%error, path = %self.path.display(), "the control socket did not exist any more");
        }
    }
}

/// Makes the listening socket. It listens only once its permissions are final, so that no client can connect before.
fn listen(path: &Path, group: Option<u32>) -> Result<UnixListener, ControlError> {
    let failed = |error| ControlError::Listen {
        path: path.to_owned(),
        error,
    };
    if let Some(directory) = path.parent() {
        fs::create_dir_all(directory).map_err(failed)?;
    }
    // Elsewhere, another user could put a link in the place of the socket before its mode and group are set.
    sys::require_trusted_parent(path).map_err(failed)?;
    let _turn = take_turn(path);
    remove_stale_socket(path)?;
    let socket = Socket::new(Domain::UNIX, Type::STREAM, None).map_err(failed)?;
    let address = SockAddr::unix(path).map_err(failed)?;
    socket.bind(&address).map_err(failed)?;
    let mode = if group.is_some() { 0o660 } else { 0o600 };
    fs::set_permissions(path, fs::Permissions::from_mode(mode)).map_err(failed)?;
    if group.is_some() {
        std::os::unix::fs::chown(path, None, group).map_err(failed)?;
    }
    socket.listen(BACKLOG).map_err(failed)?;
    Ok(UnixListener::from(OwnedFd::from(socket)))
}

/// Takes a lock on the directory, so that nodes that start at the same moment take turns: between another node's
/// `bind` and `listen`, its socket looks like that of a killed node. Others may hold the lock, too, so the wait for
/// it is no longer than any node needs.
fn take_turn(path: &Path) -> Option<fs::File> {
    let directory = path.parent().filter(|path| !path.as_os_str().is_empty());
    let directory = fs::File::open(directory.unwrap_or(Path::new("."))).ok()?;
    for _ in 0..TURN_LOOKS {
        match directory.try_lock() {
            Ok(()) => return Some(directory),
            Err(fs::TryLockError::WouldBlock) => std::thread::park_timeout(TURN_PAUSE),
            Err(fs::TryLockError::Error(_)) => return None,
        }
    }
    None
}

const TURN_LOOKS: u32 = 100;
const TURN_PAUSE: Duration = Duration::from_millis(10);

/// Removes the socket of a node that was killed.
fn remove_stale_socket(path: &Path) -> Result<(), ControlError> {
    let failed = |error| ControlError::Listen {
        path: path.to_owned(),
        error,
    };
    match fs::symlink_metadata(path) {
        Err(error) if error.kind() == ErrorKind::NotFound => Ok(()),
        Err(error) => Err(failed(error)),
        Ok(found) if !found.file_type().is_socket() => {
            Err(ControlError::NotASocket(path.to_owned()))
        }
        Ok(_) if UnixStream::connect(path).is_ok() => Err(ControlError::InUse(path.to_owned())),
        Ok(_) => fs::remove_file(path).map_err(failed),
    }
}

const EACCES: i32 = 13;
const EAGAIN: i32 = 11;

/// The state of the listener's thread.
struct Accepting {
    node: ManagedNode,
    listener: UnixListener,
    group: Option<u32>,
    clients: Arc<Clients<UnixStream>>,
}

impl Accepting {
    fn run(&self) {
        let arriving = self.listener.incoming();
        serving::accept(&self.clients, arriving, |stream| self.admit(stream));
    }

    fn admit(&self, stream: UnixStream) {
        if let Err(why) = self.may_connect(&stream) {
            warn!(why, "control connection rejected");
            return connection::reject(&stream, EACCES, why);
        }
        let node = self.node.clone();
        let to_refuse = stream.try_clone();
        let served = self
            .clients
            .serve(stream, move |stream, _| connection::serve(&node, stream));
        if let Err(error) = served {
            warn!(%error, "cannot serve a control connection");
            if let Ok(stream) = to_refuse {
                connection::reject(&stream, EAGAIN, format!("the node is busy: {error}"));
            }
        }
    }

    /// Checks the user of a connection. The mode of the socket keeps other users out, too, but a changed mode lets no
    /// other user in.
    fn may_connect(&self, stream: &UnixStream) -> Result<(), String> {
        let peer = sys::peer_credentials(stream).map_err(|error| error.to_string())?;
        if peer.user == 0 || peer.user == sys::effective_user() {
            return Ok(());
        }
        let in_group = |group| {
            let others = || sys::peer_groups(stream).unwrap_or_default();
            peer.group == group || others().contains(&group)
        };
        let (user, process) = (peer.user, peer.process);
        match self.group {
            Some(group) if in_group(group) => Ok(()),
            Some(group) => Err(format!(
                "user {user} (process {process}) may not control this node: only its own user, root and the members \
                 of group {group} may (--control-group)"
            )),
            None => Err(format!(
                "user {user} (process {process}) may not control this node: only its own user and root may; \
                 --control-group GROUP lets a group"
            )),
        }
    }
}
