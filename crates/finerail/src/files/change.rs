//! `finerail files rm`, `mv`, `mkdir` and `ln`: removes and renames objects, and makes directories and links.

use std::ffi::{OsStr, OsString};
use std::os::unix::ffi::OsStrExt;
use std::process::ExitCode;

use anyhow::{Context, bail};
use files::tools::{Failure, Failures, Progress, Tree};
use files::{Errno, Handle, Path, Place, RenameMode};

use super::address::Address;
use super::connections::{ConnectionArgs, Connections, Links, Located};
use super::copy::watched;
use super::show::{each, whole};
use super::{advice, not_so};
use crate::common::Negative;
use crate::service::raise_on_signals;

/// Arguments of `finerail files rm`.
#[derive(clap::Args)]
#[command(after_help = "\
Examples
  finerail files rm lnet:10.2.0.9@tcp1:/results.h5
  finerail files rm -r lnet:10.2.0.9@tcp1:/holiday
")]
pub(super) struct RmArgs {
    /// Files; with -r directories too
    #[arg(required = true, value_name = "ADDRESS")]
    addresses: Vec<OsString>,
    /// Remove directories with everything below them
    #[arg(long, short)]
    recursive: bool,
    /// Remove empty directories
    #[arg(long, short)]
    dir: bool,
    /// Ignore missing files
    #[arg(long, short)]
    force: bool,
    #[command(flatten)]
    connection: ConnectionArgs,
}

/// Arguments of `finerail files mv`.
#[derive(clap::Args)]
#[command(after_help = "\
Both names must be at the same server. A TO that ends with a slash is the directory that receives FROM.

Example
  finerail files mv lnet:10.2.0.9@tcp1:/results.h5 lnet:10.2.0.9@tcp1:/archive/2025.h5
")]
pub(super) struct MvArgs {
    /// The old name
    #[arg(value_name = "FROM")]
    from: OsString,
    /// The new name
    #[arg(value_name = "TO")]
    to: OsString,
    /// Make missing parent directories
    #[arg(long, short)]
    parents: bool,
    /// Do not replace an existing file
    #[arg(long, short)]
    no_clobber: bool,
    #[command(flatten)]
    connection: ConnectionArgs,
}

/// Arguments of `finerail files mkdir`.
#[derive(clap::Args)]
#[command(after_help = "\
Example
  finerail files mkdir -p lnet:10.2.0.9@tcp1:/a/b/c
")]
pub(super) struct MkdirArgs {
    /// The directories
    #[arg(required = true, value_name = "ADDRESS")]
    addresses: Vec<OsString>,
    /// Make missing parent directories, and accept a directory that exists
    #[arg(long, short)]
    parents: bool,
    #[command(flatten)]
    connection: ConnectionArgs,
}

/// Arguments of `finerail files ln`.
#[derive(clap::Args)]
#[command(after_help = "\
Examples
  finerail files ln lnet:10.2.0.9@tcp1:/results.h5 lnet:10.2.0.9@tcp1:/again.h5
  finerail files ln -s ../results.h5 lnet:10.2.0.9@tcp1:/archive/link
")]
pub(super) struct LnArgs {
    /// The file that gets another name, at the same server; with -s the target of the link
    #[arg(value_name = "TARGET")]
    target: OsString,
    /// The new name
    #[arg(value_name = "ADDRESS")]
    name: OsString,
    /// Make a symbolic link
    #[arg(long, short)]
    symbolic: bool,
    #[command(flatten)]
    connection: ConnectionArgs,
}

/// The objects that a removal may remove.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Depth {
    /// Everything except directories.
    Files,
    /// Empty directories as well as everything except directories.
    Empty,
    /// All objects, and directories with everything below them.
    All,
}

pub(super) fn rm(args: &RmArgs) -> anyhow::Result<ExitCode> {
    let depth = match (args.recursive, args.dir) {
        (true, _) => Depth::All,
        (false, true) => Depth::Empty,
        (false, false) => Depth::Files,
    };
    remove(
        &whole(&args.addresses)?,
        depth,
        args.force,
        &args.connection,
    )
}

/// Removes objects. A failure with one object is reported, and the others are still removed.
fn remove(
    addresses: &[Address],
    depth: Depth,
    force: bool,
    connection: &ConnectionArgs,
) -> anyhow::Result<ExitCode> {
    let interrupted = raise_on_signals().context("cannot register signal handlers")?;
    each(
        addresses,
        Links::Kept,
        connection,
        |located, tree, outcome| {
            let path = path_of(located, tree)?;
            let (progress, mut failures) = (Progress::default(), Failures::default());
            watched(&progress, &interrupted, || match depth {
                Depth::Empty => {
                    let removed = tree.files.remove(tree.caller, at(path), None);
                    if let Err(errno) = removed {
                        failures.add(tree.failure("remove", Some(path), errno));
                    }
                }
                Depth::Files | Depth::All => {
                    let recursive = depth == Depth::All;
                    files::tools::remove(tree, path, recursive, &progress, &mut failures);
                }
            });
            let is_missing = |failure: &&Failure| force && failure.errno() == Some(Errno::ENOENT);
            let mut counted = failures.list.iter().filter(|failure| !is_missing(failure));
            counted.try_for_each(|failure| outcome.note(failure))?;
            if progress.is_cancelled() {
                return Err(Negative("interrupted".to_owned()).into());
            }
            Ok(())
        },
    )
}

/// Returns the path to rename or remove. Rejects an address that is a whole server.
fn path_of<'a>(located: &'a Located, tree: Tree<'_>) -> anyhow::Result<&'a Path> {
    let path = located.path.as_ref();
    path.with_context(|| format!("{}: this is the whole server; add a path", tree.shown(None)))
}

fn at(path: &Path) -> Place {
    Place {
        directory: Handle::ROOT,
        path: path.clone(),
    }
}

pub(super) fn mv(args: &MvArgs) -> anyhow::Result<ExitCode> {
    let from = Address::parse_whole(&args.from)?;
    let to = Address::parse_whole(&args.to)?;
    let mode = match args.no_clobber {
        true => RenameMode::Keep,
        false => RenameMode::Replace,
    };
    rename(&from, &to, mode, args.parents, &args.connection)
}

/// Renames an object.
fn rename(
    from: &Address,
    to: &Address,
    mode: RenameMode,
    parents: bool,
    connection: &ConnectionArgs,
) -> anyhow::Result<ExitCode> {
    with_both(from, to, connection, |from, to, tree| {
        let source = path_of(from, tree)?;
        let name = Path::name(source.split_last().1)?;
        let to = match &to.path {
            None => name,
            Some(path) if to.is_directory => path.join(&name)?,
            Some(path) => path.clone(),
        };
        make_parent(tree, &to, parents)?;
        let renamed = tree.files.rename(tree.caller, at(source), at(&to), mode);
        renamed.map_err(|errno| not_so(&tree.failure("rename", Some(source), errno)))
    })
}

/// Makes the directory of a new name if `make` is set; otherwise the directory must exist, so that a typing
/// error does not create a tree of directories.
fn make_parent(tree: Tree<'_>, path: &Path, make: bool) -> anyhow::Result<()> {
    let (Some(parent), _) = path.split_last() else {
        return Ok(());
    };
    let done = match make {
        true => tree.make_directories(&parent),
        false => tree.lookup(Some(&parent)).map(drop),
    };
    done.map_err(|failure| {
        let hint = match failure.errno() {
            Some(Errno::ENOENT) => "; -p makes missing parent directories",
            _ => "",
        };
        Negative(format!("{}{hint}", advice(&failure))).into()
    })
}

/// Runs an action on two addresses that must be at the same server.
fn with_both(
    one: &Address,
    other: &Address,
    connection: &ConnectionArgs,
    action: impl FnOnce(&Located, &Located, Tree<'_>) -> anyhow::Result<()>,
) -> anyhow::Result<ExitCode> {
    let mut connections = Connections::new(connection);
    let located = connections.open(&[(one, Links::Kept), (other, Links::Kept)]);
    let done = located.and_then(|located| match &located[..] {
        [one, other] if one.is_beside(other) => action(one, other, one.tree(connections.caller())),
        _ => bail!("{one} and {other} are not at the same server; copy with put, then remove"),
    });
    connections.close()?;
    done.map(|()| ExitCode::SUCCESS)
}

pub(super) fn mkdir(args: &MkdirArgs) -> anyhow::Result<ExitCode> {
    let addresses = whole(&args.addresses)?;
    each(
        &addresses,
        Links::Kept,
        &args.connection,
        |located, tree, outcome| {
            let path = path_of(located, tree)?;
            let made = match args.parents {
                true => tree.make_directories(path),
                false => {
                    let made = tree.files.mkdir(tree.caller, at(path), 0o777);
                    made.map(drop)
                        .map_err(|errno| tree.failure("make", Some(path), errno))
                }
            };
            match made {
                Ok(()) => Ok(()),
                Err(failure) => outcome.note(&failure),
            }
        },
    )
}

pub(super) fn ln(args: &LnArgs) -> anyhow::Result<ExitCode> {
    let name = Address::parse_whole(&args.name)?;
    if args.symbolic {
        return symlink(&args.target, name, &args.connection);
    }
    let target = Address::parse_whole(&args.target)?;
    with_both(&target, &name, &args.connection, |target, name, tree| {
        let (from, to) = (target.path.as_ref(), path_of(name, tree)?);
        let entry = tree.lookup(from).map_err(|failure| not_so(&failure))?;
        let linked = tree.files.link(tree.caller, entry.handle, at(to));
        linked
            .map(drop)
            .map_err(|errno| not_so(&tree.failure("make", Some(to), errno)))
    })
}

fn symlink(target: &OsStr, name: Address, args: &ConnectionArgs) -> anyhow::Result<ExitCode> {
    each(&[name], Links::Kept, args, |located, tree, outcome| {
        let path = path_of(located, tree)?;
        match tree.files.symlink(tree.caller, at(path), target.as_bytes()) {
            Ok(_) => Ok(()),
            Err(errno) => outcome.note(&tree.failure("make", Some(path), errno)),
        }
    })
}
