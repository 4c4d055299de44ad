//! Opens file systems for addresses: the carrier, the node of this process if LNet is needed, and the shutdown
//! of both.

use std::io;
use std::path::{Path as FilePath, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use anyhow::{Context, bail};
use bmi::Bmi;
use bmi::tcp::Tcp;
use files::dir::LocalDirectory;
use files::spread::{Mode, Real, Spread};
use files::tools::Tree;
use files::{Caller, FileSystem, Path};
use files_bmi::BmiFiles;
use files_lnet::Printable;
use files_lnet::files::RemoteFiles;
use lnet_node::Node;
use lnet_rpc::{Client, ClientOptions, Entropy};
use lnet_types::Nid;
use nix::unistd::{getegid, geteuid, getgroups};
use zoid::Zoid;

use super::address::{Address, Remote, Server};
use super::waiting::{Obstacle, Watched};
use crate::common::{ConfigArgs, Control, ControlArgs, Negative, StatsArgs, TransportArgs};
use crate::service::GRACE;

/// How servers are reached.
#[derive(clap::Args, Clone)]
pub(crate) struct ConnectionArgs {
    /// Seconds after which a call without an answer fails
    #[arg(long, alias = "deadline", value_name = "SECONDS", default_value_t = 60, value_parser = clap::value_parser!(u32).range(1..=3600))]
    pub(crate) timeout: u32,
    #[command(flatten)]
    pub(crate) spread: SpreadArgs,
    #[command(flatten)]
    pub(crate) config: ConfigArgs,
    #[command(flatten)]
    pub(crate) transport: TransportArgs,
    #[command(flatten)]
    pub(crate) stats: StatsArgs,
    /// Whether the arguments come from the options of a mount.
    #[arg(skip)]
    pub(crate) of_mount: bool,
}

impl ConnectionArgs {
    /// Returns how the user gives an argument: `--timeout` on a command line, `-o timeout=` to a mount.
    fn word(&self, name: &str) -> String {
        match self.of_mount {
            true => format!("-o {name}="),
            false => format!("--{name}"),
        }
    }
}

/// How several gateways are used.
#[derive(clap::Args, Clone)]
pub(crate) struct SpreadArgs {
    /// How to choose one of several gateways for an operation
    #[arg(long, value_enum, value_name = "MODE", default_value_t = ModeName::Serial)]
    mode: ModeName,
    /// Bytes of a block of --mode stripe
    #[arg(long, value_name = "BYTES", default_value_t = 1 << 20, value_parser = clap::value_parser!(u64).range(4096..=1 << 40))]
    block: u64,
    /// Seconds without an answer after which another of several gateways is used
    #[arg(long, value_name = "SECONDS", default_value_t = 4, value_parser = clap::value_parser!(u32).range(1..=3600))]
    failover: u32,
}

#[derive(Clone, Copy, clap::ValueEnum)]
enum ModeName {
    /// The first gateway; the others take over in their order
    Serial,
    /// One gateway for each file
    Cluster,
    /// One gateway for each block of a file
    Stripe,
    /// The least busy gateway; read-only
    Loadbalance,
}

impl Default for SpreadArgs {
    fn default() -> Self {
        Self {
            mode: ModeName::Serial,
            block: 1 << 20,
            failover: 4,
        }
    }
}

impl SpreadArgs {
    fn options(&self) -> files::spread::Options {
        files::spread::Options {
            mode: match self.mode {
                ModeName::Serial => Mode::Serial,
                ModeName::Cluster => Mode::Cluster,
                ModeName::Stripe => Mode::Stripe,
                ModeName::Loadbalance => Mode::LoadBalance,
            },
            block: self.block,
            ..files::spread::Options::default()
        }
    }
}

/// Whether a symbolic link at the end of a local path is followed. Links at a server are never followed.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) enum Links {
    Followed,
    Kept,
}

/// A file system, and a path in it.
#[derive(Clone)]
pub(crate) struct Located {
    pub(crate) files: Arc<dyn FileSystem>,
    /// The path; `None` is the root of the file system.
    pub(crate) path: Option<Path>,
    /// The text before paths in messages.
    pub(crate) name: String,
    /// Whether the form of the address marks a directory.
    pub(crate) is_directory: bool,
    /// Whether the files are on this machine.
    pub(crate) is_local: bool,
}

/// The open connections of a command, and the node of this process.
pub(crate) struct Connections<'a> {
    args: &'a ConnectionArgs,
    /// How the node can be controlled. `None` for commands that end by themselves: their node cannot be
    /// controlled.
    control: Option<&'a ControlArgs>,
    caller: Caller,
    node: Option<(Node, Option<Control>)>,
    clients: Vec<Client>,
    interfaces: Vec<Arc<Bmi>>,
    servers: Vec<(Server, Arc<dyn FileSystem>)>,
}

/// The longest time that a client waits for a daemon at its start.
const CONNECT_MAX: Duration = Duration::from_secs(5);
/// How long a client waits at its end until a gateway has closed the client's state.
const GOODBYE: Duration = Duration::from_secs(1);

impl Located {
    /// Returns the file system, for use as this caller.
    pub(crate) fn tree<'a>(&'a self, caller: &'a Caller) -> Tree<'a> {
        Tree {
            files: &*self.files,
            caller,
            name: &self.name,
        }
    }

    /// Returns whether both are in the same file system.
    pub(crate) fn is_beside(&self, other: &Self) -> bool {
        Arc::ptr_eq(&self.files, &other.files)
    }
}

impl<'a> Connections<'a> {
    /// Creates an empty set. Connections are opened when they are needed.
    pub(crate) fn new(args: &'a ConnectionArgs) -> Self {
        Self {
            args,
            control: None,
            caller: caller(),
            node: None,
            clients: Vec::new(),
            interfaces: Vec::new(),
            servers: Vec::new(),
        }
    }

    /// Creates an empty set. The node can be controlled after it has been started.
    pub(crate) fn controlled(args: &'a ConnectionArgs, control: &'a ControlArgs) -> Self {
        Self {
            control: Some(control),
            ..Self::new(args)
        }
    }

    /// Returns how the node is controlled, as text for the user. `None` if there is no node, or if the command does
    /// not offer control.
    pub(crate) fn control(&self) -> Option<String> {
        let (_, control) = self.node.as_ref()?;
        control.as_ref().map(ToString::to_string)
    }

    /// Returns the identity of this process for requests to servers.
    pub(crate) fn caller(&self) -> &Caller {
        &self.caller
    }

    /// Returns the number of requests that were sent again because no response came.
    pub(crate) fn retries(&self) -> u64 {
        let retries = self.clients.iter().map(|client| client.counters().retries);
        retries.sum()
    }

    /// Opens addresses. All local addresses become paths below one directory.
    pub(crate) fn open(&mut self, addresses: &[(&Address, Links)]) -> anyhow::Result<Vec<Located>> {
        let local = LocalRoot::of(addresses)?;
        let mut local_paths = local.iter().flat_map(|root| root.paths.iter());
        let mut located = Vec::with_capacity(addresses.len());
        for (address, _) in addresses {
            located.push(match address {
                Address::Remote(remote) => self.remote(remote)?,
                Address::Local(_) => {
                    let (root, path) = local.as_ref().zip(local_paths.next()).context("no root")?;
                    root.located(path)?
                }
            });
        }
        Ok(located)
    }

    /// Opens one address.
    pub(crate) fn open_one(&mut self, address: &Address, links: Links) -> anyhow::Result<Located> {
        let mut located = self.open(&[(address, links)])?;
        located.pop().context("no address")
    }

    fn remote(&mut self, remote: &Remote) -> anyhow::Result<Located> {
        Ok(Located {
            files: self.server(&remote.server)?,
            path: remote.path.clone(),
            name: remote.server.prefix(),
            is_directory: remote.is_directory,
            is_local: false,
        })
    }

    /// Opens a server for the lifetime of this process. If the server was started again and no longer knows a
    /// handle, the object is looked up by its path.
    pub(crate) fn lasting(&mut self, server: &Server) -> anyhow::Result<Arc<dyn FileSystem>> {
        let files = self.server(server)?;
        if matches!(server, Server::Lnet(nids) if nids.len() > 1) {
            return Ok(files);
        }
        let name = server.to_string();
        let only = files::spread::Server { name, files };
        let options = files::spread::Options {
            mode: Mode::Serial,
            ..self.args.spread.options()
        };
        let spread = Spread::new(vec![only], options, Real::new())?;
        spread
            .check()
            .map_err(|error| Negative(error.to_string()))?;
        Ok(Arc::new(spread))
    }

    fn server(&mut self, server: &Server) -> anyhow::Result<Arc<dyn FileSystem>> {
        if let Some((_, files)) = self.servers.iter().find(|(known, _)| known == server) {
            return Ok(Arc::clone(files));
        }
        let limit = Duration::from_secs(self.args.timeout.into());
        let files = match server {
            Server::Lnet(nids) => match nids[..] {
                [nid] => self.gateway(nid, limit)?,
                _ => self.spread(nids, limit)?,
            },
            other => self.forwarder(other, limit)?,
        };
        let name = match server {
            Server::Lnet(nids) if nids.len() == 1 => nids[0].to_string(),
            other => other.to_string(),
        };
        let obstacle = self.obstacle(server);
        let files: Arc<dyn FileSystem> = {
            let word = self.args.word("timeout");
            Watched::new(files, name, (limit, word), obstacle)
        };
        self.servers.push((server.clone(), Arc::clone(&files)));
        Ok(files)
    }

    /// Returns a function that asks why the server does not answer: it is full, or no path leads to it. If the server has several NIDs,
    /// the function returns the reason for the first NID without a path. For a server that is not on LNet it
    /// always returns `None`.
    fn obstacle(&self, server: &Server) -> Box<Obstacle> {
        match (server, &self.node) {
            (Server::Lnet(nids), Some((node, _))) => {
                let (nids, node) = (nids.clone(), node.clone());
                let of_server = |client: &&Client| nids.contains(&client.server());
                let clients: Vec<Client> = self.clients.iter().filter(of_server).cloned().collect();
                Box::new(move || {
                    if clients.iter().any(Client::is_put_off) {
                        return Some(
                            "the gateway is full: it has no room for a further client".into(),
                        );
                    }
                    node.with_engine(|engine, _| {
                        let mut obstacles = nids.iter().map(|nid| engine.core().no_path_to(*nid));
                        obstacles.find_map(|obstacle| obstacle.map(|why| why.to_string()))
                    })
                })
            }
            _ => Box::new(|| None),
        }
    }

    /// Combines several gateways into one file system.
    fn spread(&mut self, nids: &[Nid], limit: Duration) -> anyhow::Result<Arc<dyn FileSystem>> {
        let SpreadArgs { failover, .. } = self.args.spread;
        let limit = limit.min(Duration::from_secs(failover.into()));
        let mut servers = Vec::with_capacity(nids.len());
        for &nid in nids {
            servers.push(files::spread::Server {
                name: nid.to_string(),
                files: self.gateway(nid, limit)?,
            });
        }
        let options = self.args.spread.options();
        let spread = Spread::new(servers, options, Real::new())?;
        spread
            .check()
            .map_err(|error| Negative(error.to_string()))?;
        Ok(Arc::new(spread))
    }

    fn gateway(&mut self, nid: Nid, limit: Duration) -> anyhow::Result<Arc<dyn FileSystem>> {
        let node = self.node()?;
        let entropy = Entropy::from_system().context("cannot read random numbers")?;
        let client = Client::new(node, nid, entropy, ClientOptions::default());
        self.clients.push(client.clone());
        Ok(Arc::new(RemoteFiles::new(client, limit)))
    }

    /// Connects to the forwarder of an address over BMI.
    fn forwarder(
        &mut self,
        server: &Server,
        limit: Duration,
    ) -> anyhow::Result<Arc<dyn FileSystem>> {
        let zoid = zoid::Options {
            extended_addresses: true,
            pipelined: true,
            client_connect: limit.min(CONNECT_MAX),
            ..zoid::Options::from_environment()
        };
        let (job, builder) = (zoid.job, Bmi::builder());
        let (address, builder) = match server {
            Server::Bmi(host) => (format!("tcp://{host}"), builder.method(Tcp::new())),
            Server::ZoidTcp(host, instance) => (
                format!("zoid+tcp://{host}/{instance}"),
                builder.method(Zoid::new(zoid)),
            ),
            Server::Zoid(Some(instance)) => (
                format!("zoid://{instance}"),
                builder.method(Zoid::new(zoid)),
            ),
            _ => ("zoid://".to_owned(), builder.method(Zoid::new(zoid))),
        };
        let options = files_bmi::ClientOptions {
            deadline: limit,
            job,
            ..files_bmi::ClientOptions::default()
        };
        let connected = builder.start().and_then(|bmi| {
            let bmi = Arc::new(bmi);
            self.interfaces.push(Arc::clone(&bmi));
            BmiFiles::connect(bmi, &address, options)
        });
        let files = connected.map_err(|error| {
            let hint = "is the daemon (finerail zoid daemon) running, and the forwarder behind it?";
            Negative(format!("{server} cannot be reached: {error}; {hint}"))
        })?;
        Ok(Arc::new(files))
    }

    /// Returns the node of this process, and starts it at the first call.
    fn node(&mut self) -> anyhow::Result<Node> {
        if let Some((node, _)) = &self.node {
            return Ok(node.clone());
        }
        let config = self.args.config.read_as(&self.args.word("config"))?;
        let path = &self.args.config.config;
        let managed = lnet_noded::start(&config, self.args.transport.options())
            .with_context(|| format!("cannot start the node of {}", path.display()))?;
        let control = self
            .control
            .map(|control| control.open(&managed))
            .transpose()?;
        let node = managed.into_node();
        self.node = Some((node.clone(), control));
        Ok(node)
    }

    /// Closes the connections to gateways and ends the node.
    pub(crate) fn close(self) -> anyhow::Result<()> {
        drop(self.servers);
        for client in &self.clients {
            client.close(GOODBYE);
        }
        for bmi in &self.interfaces {
            bmi.finalize();
        }
        let Some((node, control)) = self.node else {
            return Ok(());
        };
        drop(control);
        node.shutdown(GRACE);
        self.args.stats.write(&node)
    }
}

/// Returns the identity of this process for requests to servers.
pub(crate) fn caller() -> Caller {
    let mut groups: Vec<u32> = getgroups()
        .unwrap_or_default()
        .iter()
        .map(|group| group.as_raw())
        .collect();
    groups.truncate(files::GROUPS_MAX);
    Caller {
        uid: geteuid().as_raw(),
        gid: getegid().as_raw(),
        groups,
    }
}

/// The directory of this machine that contains all local paths of one command.
struct LocalRoot {
    files: Arc<dyn FileSystem>,
    directory: PathBuf,
    paths: Vec<LocalPath>,
}

/// A local path: its existing part is free of symbolic links, and the rest does not exist yet.
struct LocalPath {
    whole: PathBuf,
    is_directory: bool,
}

impl LocalRoot {
    fn of(addresses: &[(&Address, Links)]) -> anyhow::Result<Option<Self>> {
        let mut paths = Vec::new();
        let mut directory: Option<PathBuf> = None;
        for (address, links) in addresses {
            let Address::Local(path) = address else {
                continue;
            };
            let (base, local) = resolve(path, *links)
                .with_context(|| format!("cannot use {}", Printable::new(bytes(path))))?;
            directory = Some(match directory {
                Some(directory) => common(&directory, &base),
                None => base,
            });
            paths.push(local);
        }
        let Some(directory) = directory else {
            return Ok(None);
        };
        let files = LocalDirectory::open(&directory, files::dir::Options::default())?;
        let files = Arc::new(files);
        Ok(Some(Self {
            files,
            directory,
            paths,
        }))
    }

    fn located(&self, path: &LocalPath) -> anyhow::Result<Located> {
        let shown = || Printable::new(bytes(&path.whole));
        let within = path.whole.strip_prefix(&self.directory);
        let within = match within.map(bytes) {
            Ok(b"") => None,
            Ok(within) => {
                let within = Path::new(within);
                Some(within.with_context(|| format!("cannot use {}", shown()))?)
            }
            Err(_) => bail!("{}: not below {}", shown(), self.directory.display()),
        };
        let name = Printable::new(bytes(&self.directory)).to_string();
        Ok(Located {
            files: Arc::clone(&self.files),
            path: within,
            name: name.trim_end_matches('/').to_owned(),
            is_directory: path.is_directory,
            is_local: true,
        })
    }
}

fn bytes(path: &FilePath) -> &[u8] {
    path.as_os_str().as_encoded_bytes()
}

/// Splits a path: returns a directory at which a file system can be opened, and the whole path without symbolic
/// links. The directory is the parent of the path's object if the object exists, otherwise the deepest existing
/// directory above it.
fn resolve(path: &FilePath, links: Links) -> io::Result<(PathBuf, LocalPath)> {
    let is_directory = matches!(bytes(path), [.., b'/'] | b"." | b".." | [.., b'/', b'.'])
        || path.file_name().is_none();
    if is_directory || links == Links::Followed {
        match path.canonicalize() {
            Ok(whole) => {
                let base = whole.parent().unwrap_or(&whole).to_owned();
                let whole = LocalPath {
                    whole,
                    is_directory,
                };
                return Ok((base, whole));
            }
            Err(error) if error.kind() != io::ErrorKind::NotFound => return Err(error),
            Err(_) => {}
        }
    }
    let name = path.file_name().ok_or(io::ErrorKind::NotFound)?;
    let parent = match path.parent() {
        Some(parent) if !bytes(parent).is_empty() => parent,
        _ => FilePath::new("."),
    };
    let (base, whole) = match parent.canonicalize() {
        Ok(base) => (base.clone(), base),
        Err(error) if error.kind() == io::ErrorKind::NotFound => {
            let (base, parent) = resolve(parent, Links::Followed)?;
            (base, parent.whole)
        }
        Err(error) => return Err(error),
    };
    let whole = whole.join(name);
    Ok((
        base,
        LocalPath {
            whole,
            is_directory,
        },
    ))
}

/// Returns the deepest directory above both paths.
fn common(one: &FilePath, other: &FilePath) -> PathBuf {
    let same = one
        .components()
        .zip(other.components())
        .take_while(|(a, b)| a == b);
    same.map(|(component, _)| component).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn at(paths: &[(&str, Links)], directory: &FilePath) -> Vec<Option<String>> {
        let addresses: Vec<(Address, Links)> = paths
            .iter()
            .map(|(path, links)| (Address::Local(directory.join(path)), *links))
            .collect();
        let addresses: Vec<_> = addresses.iter().map(|(a, links)| (a, *links)).collect();
        let root = LocalRoot::of(&addresses).unwrap().unwrap();
        let located = root
            .paths
            .iter()
            .map(|path| root.located(path).unwrap().path);
        located
            .map(|path| path.map(|path| path.to_string()))
            .collect()
    }

    #[test]
    fn paths_of_this_machine_are_below_one_directory() {
        let directory = tempfile::tempdir().unwrap();
        let here = directory.path();
        std::fs::create_dir_all(here.join("a/b")).unwrap();
        std::os::unix::fs::symlink("a/b", here.join("link")).unwrap();
        let some = |path: &str| Some(path.to_owned());
        assert_eq!(at(&[("a/b", Links::Kept)], here), [some("b")]);
        assert_eq!(at(&[("link", Links::Kept)], here), [some("link")]);
        assert_eq!(at(&[("link", Links::Followed)], here), [some("b")]);
        assert_eq!(at(&[("link/", Links::Kept)], here), [some("b")]);
        let missing = [("a/b", Links::Kept), ("x/y/z", Links::Kept)];
        assert_eq!(at(&missing, here), [some("a/b"), some("x/y/z")]);
        let both = [("link/../c", Links::Kept), ("a", Links::Kept)];
        assert_eq!(at(&both, here), [some("a/c"), some("a")]);
    }
}
