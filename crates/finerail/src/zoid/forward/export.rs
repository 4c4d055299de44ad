//! The export of a forwarder: a directory, or gateways on LNet.

use std::ffi::OsStr;
use std::path::Path;
use std::sync::Arc;

use anyhow::bail;
use files::FileSystem;
use files::dir::{Identity, LocalDirectory, Squash};
use nix::sys::stat::{Mode, umask};

use crate::common::ControlArgs;
use crate::files::address::{Address, Remote, Server};
use crate::files::connections::{ConnectionArgs, Connections};

/// How the exported files are reached.
#[derive(clap::Args)]
pub(super) struct ExportArgs {
    /// dir: export it read-only
    #[arg(long)]
    read_only: bool,
    /// dir: the identity with which operations run; all except server need CAP_SETUID and CAP_SETGID
    #[arg(long, value_enum, value_name = "WHO", default_value_t = Who::Server)]
    identity: Who,
    /// dir: user and group of callers that are squashed
    #[arg(long, value_name = "ID", default_value_t = 65534)]
    anonymous: u32,
    #[command(flatten)]
    connection: ConnectionArgs,
    #[command(flatten)]
    control: ControlArgs,
}

#[derive(Clone, Copy, clap::ValueEnum)]
enum Who {
    /// As this process, for all callers
    Server,
    /// As the caller, with the identity that the caller states; root is squashed
    Caller,
    /// As the caller, including root
    CallerOrRoot,
    /// All callers are squashed
    Anonymous,
}

/// An exported file system, and the connections that it needs.
pub(super) struct Export<'a> {
    files: Arc<dyn FileSystem>,
    name: String,
    connections: Connections<'a>,
}

impl<'a> Export<'a> {
    pub(super) fn open(address: &OsStr, args: &'a ExportArgs) -> anyhow::Result<Self> {
        let address = Address::parse_whole(address)?;
        let name = address.to_string();
        let mut connections = Connections::controlled(&args.connection, &args.control);
        let files: Arc<dyn FileSystem> = match &address {
            Address::Local(path) => Arc::new(args.directory(path)?),
            Address::Remote(Remote {
                server: server @ Server::Lnet(_),
                path: None,
                ..
            }) => connections.lasting(server)?,
            Address::Remote(_) => {
                bail!("{name}: not an export; write dir:PATH or lnet:NID[,NID…] without a path")
            }
        };
        Ok(Self {
            files,
            name,
            connections,
        })
    }

    pub(super) fn files(&self) -> Arc<dyn FileSystem> {
        Arc::clone(&self.files)
    }

    pub(super) fn name(&self) -> &str {
        &self.name
    }

    /// Returns how the node is controlled, as text for the user; `None` if there is no node.
    pub(super) fn control(&self) -> Option<String> {
        self.connections.control()
    }

    /// Closes the connections to gateways and ends the node.
    pub(super) fn close(self) -> anyhow::Result<()> {
        drop(self.files);
        self.connections.close()
    }
}

impl ExportArgs {
    fn directory(&self, path: &Path) -> anyhow::Result<LocalDirectory> {
        let squashed = |squash| Identity::Caller {
            squash,
            uid: self.anonymous,
            gid: self.anonymous,
        };
        let identity = match self.identity {
            Who::Server => Identity::Server,
            Who::Caller => squashed(Squash::Root),
            Who::CallerOrRoot => squashed(Squash::None),
            Who::Anonymous => squashed(Squash::All),
        };
        // Clients have already applied their umask to the modes they send.
        umask(Mode::empty());
        let options = files::dir::Options {
            identity,
            read_only: self.read_only,
            ..files::dir::Options::default()
        };
        Ok(LocalDirectory::open(path, options)?)
    }
}
