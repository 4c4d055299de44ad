//! Reads the files that `finerail fgr config` wrote, or the configurations of a site's own nodes.

use std::collections::{BTreeMap, BTreeSet};
use std::path::{Path, PathBuf};

use anyhow::{Context, anyhow, bail, ensure};
use fgr::config::{ClassText, Site, Timing, nids, read_nodes, read_timing, read_udsp};
use lnet_types::Net;
use lnet_types::expr::NetExpr;

use crate::common::{open, read_config};
use crate::machine::read;

/// The limit of disagreements in one message.
const SHOWN: usize = 10;

/// Reads a directory that `finerail fgr config` wrote.
///
/// # Errors
///
/// Files that cannot be read, and documents of nodes that disagree with the classes.
pub(crate) fn read_directory(directory: &Path) -> anyhow::Result<Site> {
    let (site, disagreements) = read_parts(directory)?;
    if disagreements.is_empty() {
        return Ok(site);
    }
    let shown: Vec<&str> = disagreements
        .iter()
        .take(SHOWN)
        .map(String::as_str)
        .collect();
    bail!(
        "{}: {} documents in nodes/ disagree with classes/ and nodes.csv: write the folder again, or remove one of \
         the parts\n  {}",
        directory.display(),
        disagreements.len(),
        shown.join("\n  ")
    )
}

/// Refuses to compare the plans of two sites.
///
/// # Errors
///
/// No node has its name and one of its NIDs in both plans.
pub(super) fn one_site(plans: [(&Path, &Site); 2]) -> anyhow::Result<()> {
    let [(path, site), (other_path, other)] = plans;
    ensure!(
        site.is_site_of(other),
        "{} is not a plan of the site of {}: no node has its name and one of its NIDs in both",
        other_path.display(),
        path.display()
    );
    Ok(())
}

/// Returns whether a directory of `finerail fgr config` has documents of single nodes.
pub(super) fn has_documents(directory: &Path) -> bool {
    directory.join("nodes").is_dir()
}

/// Reads a directory that `finerail fgr config` wrote, and returns how documents of single nodes in it
/// disagree with the classes. The documents count.
pub(super) fn read_parts(directory: &Path) -> anyhow::Result<(Site, Vec<String>)> {
    let mut site = read_classes(directory)?;
    let nodes = directory.join("nodes");
    if !nodes.is_dir() {
        return Ok((site, Vec::new()));
    }
    let cannot = || format!("cannot read {}", nodes.display());
    let mut documents = BTreeMap::new();
    for entry in nodes.read_dir().with_context(cannot)? {
        let path = entry.with_context(cannot)?.path();
        if path.extension().is_none_or(|extension| extension != "yaml") {
            continue;
        }
        documents.insert(node_name(&path)?, read_config(&path)?);
    }
    let disagreements = site.beside(documents);
    Ok((site, disagreements))
}

/// Returns the name of the node that a file is named after.
fn node_name(path: &Path) -> anyhow::Result<String> {
    let name = path.file_stem().and_then(|name| name.to_str());
    let name = name.ok_or_else(|| anyhow!("{}: a name that is not UTF-8", path.display()))?;
    Ok(name.to_owned())
}

fn read_classes(directory: &Path) -> anyhow::Result<Site> {
    let path = directory.join("nodes.csv");
    let file = open(&path).with_context(|| format!("cannot read {}", path.display()))?;
    let lines = read_nodes(&path.display().to_string(), file)?;
    let names: BTreeSet<&str> = lines.iter().map(|line| &*line.class).collect();
    let mut classes = BTreeMap::new();
    for name in names {
        let file = |extension: &str| {
            directory
                .join("classes")
                .join(format!("{name}.{extension}"))
        };
        let config = read_config(&file("yaml"))?;
        let path = file("udsp");
        let rules = match path.exists() {
            true => read_udsp(&path.display().to_string(), &read(&path)?)?,
            false => Vec::new(),
        };
        classes.insert(name.to_owned(), ClassText { config, rules });
    }
    let mut site = Site::from_lines(lines, &classes);
    let options = directory.join("module.conf");
    if options.exists() {
        site.timing = timing(&options)?;
    }
    Ok(site)
}

/// Reads from a file of module options how gateways are watched.
pub(super) fn timing(path: &Path) -> anyhow::Result<Timing> {
    Ok(read_timing(&path.display().to_string(), &read(path)?)?)
}

/// Reads the configurations of nodes: one file for each node, named like the node.
pub(super) fn read_files(paths: &[PathBuf], server_nets: &[NetExpr]) -> anyhow::Result<Site> {
    let mut nodes = Vec::new();
    for path in paths {
        let config = read_config(path)?;
        if nids(&config).is_empty() {
            bail!(
                "{}: no NIDs, only names of interfaces: give the output of 'lnetctl export'",
                path.display()
            );
        }
        nodes.push((node_name(path)?, config));
    }
    let serves = |net: Net| server_nets.iter().any(|nets| nets.matches(net));
    Ok(Site::from_nodes(nodes, serves))
}
