//! What a forwarder exports: a directory, or gateways on LNet.

use std::ffi::OsStr;
use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use anyhow::{Context, bail};
use files::FileSystem;
use files_dir::{Identity, LocalDirectory, Squash};
use files_spread::{Real, Server, Spread};
use lnet_node::Node;
use lnet_rpc::{Client, ClientOptions, Entropy};
use lnet_store::files::RemoteFiles;
use lnet_types::Nid;
use nix::sys::stat::{Mode, umask};

use crate::common::{ConfigArgs, StatsArgs, TransportArgs};
use crate::files::address::{Address, Remote, Server as Gateway};
use crate::service::GRACE;

/// How the exported files are reached.
#[derive(clap::Args)]
pub(super) struct ExportArgs {
    /// dir: nothing can be changed
    #[arg(long)]
    read_only: bool,
    /// dir: as whom operations are carried out; other than server needs CAP_SETUID and CAP_SETGID
    #[arg(long, value_enum, value_name = "WHO", default_value_t = Who::Server)]
    identity: Who,
    /// dir: user and group of callers that are squashed
    #[arg(long, value_name = "ID", default_value_t = 65534)]
    anonymous: u32,
    /// lnet: seconds after which a call to a gateway without an answer fails
    #[arg(long, value_name = "SECONDS", default_value_t = 60, value_parser = clap::value_parser!(u32).range(1..=3600))]
    timeout: u32,
    #[command(flatten)]
    config: ConfigArgs,
    #[command(flatten)]
    transport: TransportArgs,
    #[command(flatten)]
    stats: StatsArgs,
}

#[derive(Clone, Copy, clap::ValueEnum)]
enum Who {
    /// As this process, whoever calls
    Server,
    /// As the caller, who says who he is; root is squashed
    Caller,
    /// As the caller, root too
    CallerOrRoot,
    /// All callers are squashed
    Anonymous,
}

/// An exported file system, and what keeps it.
pub(super) struct Export<'a> {
    files: Arc<dyn FileSystem>,
    name: String,
    node: Option<Node>,
    clients: Vec<Client>,
    args: &'a ExportArgs,
}

/// How long a gateway is given to hear that this client goes.
const GOODBYE: Duration = Duration::from_secs(1);
/// How long one of several gateways is waited for before the next one is asked, at most.
const FAILOVER: Duration = Duration::from_secs(4);

impl<'a> Export<'a> {
    pub(super) fn open(address: &OsStr, args: &'a ExportArgs) -> anyhow::Result<Self> {
        let parsed = Address::parse_whole(address)?;
        let name = parsed.to_string();
        match parsed {
            Address::Local(path) => Ok(Self {
                files: Arc::new(args.directory(&path)?),
                name,
                node: None,
                clients: Vec::new(),
                args,
            }),
            Address::Remote(Remote {
                server: Gateway::Lnet(nids),
                path: None,
                ..
            }) => Self::gateways(&nids, name, args),
            Address::Remote(_) => bail!(
                "{name}: not an export; there are dir:PATH and lnet:NID[,NID…], all of it without a path"
            ),
        }
    }

    fn gateways(nids: &[Nid], name: String, args: &'a ExportArgs) -> anyhow::Result<Self> {
        let config = args.config.read()?;
        let node = lnet_noded::start(&config, args.transport.options())
            .with_context(|| format!("cannot start the node of {}", args.config.config.display()))?
            .into_node();
        let mut limit = Duration::from_secs(args.timeout.into());
        if nids.len() > 1 {
            limit = limit.min(FAILOVER);
        }
        let (mut clients, mut servers) = (Vec::new(), Vec::new());
        for &nid in nids {
            let entropy = Entropy::from_system().context("cannot read random numbers")?;
            let client = Client::new(node.clone(), nid, entropy, ClientOptions::default());
            clients.push(client.clone());
            servers.push(Server {
                name: nid.to_string(),
                files: Arc::new(RemoteFiles::new(client, limit)),
            });
        }
        let files: Arc<dyn FileSystem> = match &servers[..] {
            [one] => Arc::clone(&one.files),
            _ => Arc::new(Spread::new(
                servers,
                files_spread::Options::default(),
                Real::new(),
            )?),
        };
        Ok(Self {
            files,
            name,
            node: Some(node),
            clients,
            args,
        })
    }

    pub(super) fn files(&self) -> Arc<dyn FileSystem> {
        Arc::clone(&self.files)
    }

    pub(super) fn name(&self) -> &str {
        &self.name
    }

    /// Says goodbye to gateways and ends the node.
    pub(super) fn close(self) -> anyhow::Result<()> {
        let Self {
            files,
            node,
            clients,
            args,
            ..
        } = self;
        drop(files);
        for client in clients {
            client.close(GOODBYE);
        }
        if let Some(node) = node {
            node.shutdown(GRACE);
            args.stats.write(&node)?;
        }
        Ok(())
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
        // Clients have taken their masks off already.
        umask(Mode::empty());
        let options = files_dir::Options {
            identity,
            read_only: self.read_only,
            ..files_dir::Options::default()
        };
        Ok(LocalDirectory::open(path, options)?)
    }
}
