//! `finerail store`: the storage service and its client.

mod copy;
mod export;
mod get;
mod put;
mod serve;
mod show;
mod waiting;

use std::ffi::OsStr;
use std::fmt;
use std::io::{self, Write};
use std::os::unix::ffi::OsStrExt;
use std::process::ExitCode;
use std::time::Duration;

use anyhow::Context;
use clap::Subcommand;
use lnet_node::Node;
use lnet_rpc::{Client, ClientOptions, Entropy};
use lnet_store::{Store, StoreError, StoreName};
use lnet_types::Nid;

use self::waiting::Waiting;
use crate::common::{ConfigArgs, NotSo, StatsArgs, TransportArgs};
use crate::service::GRACE;

/// Arguments of `finerail store`.
#[derive(clap::Args)]
pub(crate) struct StoreArgs {
    #[command(subcommand)]
    command: Command,
}

#[derive(Subcommand)]
enum Command {
    /// Serve a directory to clients that come over LNet
    Serve(serve::ServeArgs),
    /// Store files and directories
    Put(put::PutArgs),
    /// Fetch a file or a directory
    Get(get::GetArgs),
    /// List a directory
    Ls(show::LsArgs),
    /// Print what is known of files and directories
    Stat(show::StatArgs),
    /// Remove files, and directories that are empty
    Rm(show::RmArgs),
    /// Rename a file or directory; a file of the new name is replaced
    Mv(show::MvArgs),
}

/// Runs `finerail store`.
pub(crate) fn run(args: &StoreArgs) -> anyhow::Result<ExitCode> {
    match &args.command {
        Command::Serve(args) => serve::run(args),
        Command::Put(args) => put::run(args),
        Command::Get(args) => get::run(args),
        Command::Ls(args) => show::ls(args),
        Command::Stat(args) => show::stat(args),
        Command::Rm(args) => show::rm(args),
        Command::Mv(args) => show::mv(args),
    }
}

/// Which service, and as which node.
#[derive(clap::Args, Clone)]
struct ClientArgs {
    /// The storage service
    #[arg(value_name = "SERVER")]
    server: Nid,
    /// Seconds after which a call without an answer fails
    #[arg(long, alias = "deadline", value_name = "SECONDS", default_value_t = 60, value_parser = clap::value_parser!(u32).range(1..=3600))]
    timeout: u32,
    #[command(flatten)]
    config: ConfigArgs,
    #[command(flatten)]
    transport: TransportArgs,
    #[command(flatten)]
    stats: StatsArgs,
}

/// A node of our own and a client on it.
struct Session {
    node: Node,
    store: Store,
    stats: StatsArgs,
    waiting: Waiting,
}

/// How long the service is given to hear that this client goes.
const GOODBYE: Duration = Duration::from_secs(1);

impl Session {
    fn open(args: &ClientArgs) -> anyhow::Result<Self> {
        let config = args.config.read()?;
        let node = lnet_noded::start(&config, args.transport.options())
            .with_context(|| format!("cannot start the node of {}", args.config.config.display()))?
            .into_node();
        let entropy = Entropy::from_system().context("cannot read random numbers")?;
        let rpc = Client::new(node.clone(), args.server, entropy, ClientOptions::default());
        let limit = Duration::from_secs(args.timeout.into());
        let store = Store::new(rpc, limit);
        Ok(Self {
            waiting: Waiting::watch(node.clone(), args.server, limit),
            node,
            store,
            stats: args.stats.clone(),
        })
    }

    /// Says goodbye and ends the node.
    fn close(self) -> anyhow::Result<()> {
        drop(self.waiting);
        self.store.rpc().close(GOODBYE);
        self.node.shutdown(GRACE);
        self.stats.write(&self.node)
    }
}

/// A name as it is typed: `.` and nothing mean the root.
fn directory_name(text: &OsStr) -> anyhow::Result<Option<StoreName>> {
    match text.as_bytes() {
        b"" | b"." | b"/" => Ok(None),
        bytes => Ok(Some(StoreName::new(
            bytes.strip_suffix(b"/").unwrap_or(bytes),
        )?)),
    }
}

fn file_name(text: &OsStr) -> anyhow::Result<StoreName> {
    Ok(StoreName::new(text.as_bytes())?)
}

/// A name's directory must be there: a typing error must not become a tree of directories.
fn require_parent(store: &Store, name: &StoreName) -> anyhow::Result<()> {
    let (parents, _) = name.split_last();
    let parents: Vec<&[u8]> = parents.iter().map(|part| part.as_bytes()).collect();
    if parents.is_empty() {
        return Ok(());
    }
    let parent = StoreName::new(&parents.join(&b'/'))?;
    match store.stat(&parent) {
        Ok(_) => Ok(()),
        Err(error) if error.is_fatal() => Err(not_so(&error)),
        Err(error) => Err(NotSo(format!("{error}; -p makes the directories on the way")).into()),
    }
}

/// What the service refuses, or does not answer, is not the user's typing error.
fn not_so(error: &StoreError) -> anyhow::Error {
    NotSo(advice(error)).into()
}

/// An error with what to do about it.
fn advice(error: &StoreError) -> String {
    let hint = if error.is_fatal() {
        "; is 'finerail store serve' running there, and does 'finerail ping' reach it?"
    } else {
        ""
    };
    format!("{error}{hint}")
}

fn print(text: impl fmt::Display) -> anyhow::Result<()> {
    writeln!(io::stdout(), "{text}").context("cannot write to standard output")
}
