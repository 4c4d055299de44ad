//! `finerail store get`.

use std::collections::BTreeSet;
use std::ffi::OsString;
use std::fs;
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};
use std::process::ExitCode;

use anyhow::{Context, bail};
use lnet_store::transfer::{self, GetItem};
use lnet_store::{Kind, Store, StoreName};

use super::copy::{self, Amount, Summary};
use super::{ClientArgs, Session, directory_name, not_so};

/// Arguments of `finerail store get`.
#[derive(clap::Args)]
#[command(after_help = "\
A directory is fetched with everything below it, and LOCAL then is the directory that receives it
(made if need be; its own parent with -p). A local file appears whole or not at all, and replaces one of the same name.

Examples
  finerail store get 10.2.0.9@tcp1 results.h5
  finerail store get 10.2.0.9@tcp1 holiday ~/pictures
  finerail store get --config client.yaml --port 9988 127.0.0.5@tcp . everything
")]
pub(super) struct GetArgs {
    #[command(flatten)]
    client: ClientArgs,
    /// The file or directory to fetch; '.' is everything
    #[arg(value_name = "NAME")]
    name: OsString,
    /// Where it goes [default: its own name, here]
    #[arg(value_name = "LOCAL")]
    local: Option<PathBuf>,
    /// Calls in flight
    #[arg(long, short, value_name = "N", default_value_t = 8, value_parser = clap::value_parser!(u16).range(1..=64))]
    jobs: u16,
    /// Make local directories on the way to LOCAL
    #[arg(long, short)]
    parents: bool,
    /// Print the summary as JSON
    #[arg(long)]
    json: bool,
}

pub(super) fn run(args: &GetArgs) -> anyhow::Result<ExitCode> {
    let name = directory_name(&args.name)?;
    let local = local(args, name.as_ref())?;
    let session = Session::open(&args.client)?;
    let summary = fetch(args, &session.store, name.as_ref(), local);
    session.close()?;
    summary?.print("fetched", args.json)
}

fn local(args: &GetArgs, name: Option<&StoreName>) -> anyhow::Result<PathBuf> {
    match (&args.local, name) {
        (Some(local), _) => Ok(local.clone()),
        (None, Some(name)) => Ok(PathBuf::from(name.split_last().1)),
        (None, None) => bail!("everything goes into a directory: say which, as LOCAL"),
    }
}

fn fetch(
    args: &GetArgs,
    store: &Store,
    name: Option<&StoreName>,
    local: PathBuf,
) -> anyhow::Result<Summary> {
    let items = match name {
        Some(name) => {
            let attributes = store.stat(name).map_err(|error| not_so(&error))?;
            if attributes.kind == Kind::Directory {
                args.require_parent(&local)?;
                walk(store, Some(name), local)?
            } else {
                let local = beside(local, name);
                args.require_parent(&local)?;
                vec![GetItem {
                    name: name.clone(),
                    local,
                    size: Some(attributes.size),
                }]
            }
        }
        None => {
            args.require_parent(&local)?;
            walk(store, None, local)?
        }
    };
    make_directories(&items)?;
    let bytes = items.iter().filter_map(|item| item.size).sum();
    let amount = Amount {
        files: items.len() as u64,
        bytes,
    };
    let name_of = |item: usize| items[item].name.to_string();
    copy::run(store, amount, name_of, |progress| {
        transfer::get(store, &items, args.jobs.into(), progress)
    })
}

impl GetArgs {
    /// A typing error must not become a tree of directories.
    fn require_parent(&self, local: &Path) -> anyhow::Result<()> {
        let parent = local.parent().filter(|path| !path.as_os_str().is_empty());
        match parent {
            Some(parent) if !self.parents && !parent.is_dir() => {
                bail!("{}: no such directory; -p makes it", parent.display())
            }
            _ => Ok(()),
        }
    }
}

/// A file that goes to a directory keeps its own name there.
fn beside(local: PathBuf, name: &StoreName) -> PathBuf {
    let is_directory = local.is_dir() || local.as_os_str().as_bytes().ends_with(b"/");
    if is_directory {
        local.join(name.split_last().1)
    } else {
        local
    }
}

/// Collects the files of a directory of the store. The names that come were checked by the library:
/// none leads out of `local`.
fn walk(store: &Store, root: Option<&StoreName>, local: PathBuf) -> anyhow::Result<Vec<GetItem>> {
    let mut items = Vec::new();
    let mut left = vec![(root.cloned(), local)];
    while let Some((directory, local)) = left.pop() {
        for entry in store.list(directory.as_ref()) {
            let entry = entry.map_err(|error| not_so(&error))?;
            let name = match &directory {
                Some(directory) => directory.join(&entry.name)?,
                None => StoreName::new(&entry.name)?,
            };
            let local = local.join(name.split_last().1);
            match entry.attributes.kind {
                Kind::File => {
                    let size = Some(entry.attributes.size);
                    items.push(GetItem { name, local, size });
                }
                Kind::Directory => left.push((Some(name), local)),
                Kind::Other => tracing::warn!(%name, "left out: not a regular file"),
            }
        }
    }
    Ok(items)
}

fn make_directories(items: &[GetItem]) -> anyhow::Result<()> {
    let parents: BTreeSet<&Path> = items
        .iter()
        .filter_map(|item| item.local.parent())
        .collect();
    for parent in parents
        .into_iter()
        .filter(|parent| !parent.as_os_str().is_empty())
    {
        fs::create_dir_all(parent)
            .with_context(|| format!("cannot make the directory {}", parent.display()))?;
    }
    Ok(())
}
