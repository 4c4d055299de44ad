//! The source of a mount: `NID[,NID]…[:NID[,NID]…]…:/NAME`.

use anyhow::{Context, bail, ensure};
use lnet_types::Nid;

use crate::ctl::hosts::nid_of;

/// The most NIDs of a source. A line of /etc/fstab has fewer.
const NIDS_MAX: usize = 64;

/// The longest name of a file system, in bytes.
const NAME_MAX: usize = 8;

/// A file system, and the nodes that may run its MGS.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Source {
    pub(super) fs: String,
    /// The NIDs of each node.
    pub(super) nodes: Vec<Vec<Nid>>,
}

impl Source {
    pub(super) fn parse(text: &str) -> anyhow::Result<Self> {
        let (nodes, path) = text
            .rsplit_once(":/")
            .with_context(|| format!("'{text}' has no ':/NAME' behind the NIDs of the MGS"))?;
        // A directory inside of the file system may follow.
        let fs = path.split('/').next().unwrap_or_default();
        let of_name = |c: char| c.is_ascii_alphanumeric() || c == '_' || c == '-';
        ensure!(
            !fs.is_empty() && fs.chars().all(of_name),
            "'{fs}' is not the name of a file system"
        );
        ensure!(
            fs.len() <= NAME_MAX,
            "'{fs}' is longer than the name of a file system can be: {NAME_MAX} characters"
        );
        let nodes: Vec<Vec<Nid>> = nodes_of(nodes)
            .into_iter()
            .map(|node| node.split(',').map(nid).collect())
            .collect::<anyhow::Result<_>>()?;
        let count: usize = nodes.iter().map(Vec::len).sum();
        ensure!(
            count <= NIDS_MAX,
            "{count} NIDs of the MGS, and at most {NIDS_MAX} are tried"
        );
        Ok(Self {
            fs: fs.to_owned(),
            nodes,
        })
    }
}

fn nid(text: &str) -> anyhow::Result<Nid> {
    let nid: Nid = nid_of(text)
        .parse()
        .with_context(|| format!("'{text}' in the NIDs of the MGS"))?;
    if nid.is_loopback() || nid.is_any() {
        bail!("'{text}' is not the NID of a node");
    }
    Ok(nid)
}

/// Splits at the colons behind nets. The colons of an IPv6 address stand before its net.
fn nodes_of(text: &str) -> Vec<String> {
    let mut nodes = vec![String::new()];
    let mut has_net = false;
    for character in text.chars() {
        match character {
            ':' if has_net || !text.contains('@') => {
                nodes.push(String::new());
                has_net = false;
                continue;
            }
            '@' => has_net = true,
            ',' => has_net = false,
            _ => {}
        }
        if let Some(node) = nodes.last_mut() {
            node.push(character);
        }
    }
    nodes
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn nodes_stand_behind_colons_and_the_nids_of_one_behind_commas() {
        let source = Source::parse("10.0.0.1@tcp,10.1.0.1@tcp1:fd00::2@tcp:10.0.0.3@tcp:/fs1/dir");
        let source = source.unwrap();
        let nodes: Vec<Vec<String>> = source
            .nodes
            .iter()
            .map(|node| node.iter().map(ToString::to_string).collect())
            .collect();
        let expected = vec![
            vec!["10.0.0.1@tcp", "10.1.0.1@tcp1"],
            vec!["fd00::2@tcp"],
            vec!["10.0.0.3@tcp"],
        ];
        assert_eq!(nodes, expected);
        assert_eq!(source.fs, "fs1");
    }

    #[test]
    fn what_is_no_source_is_rejected_with_its_reason() {
        for (text, reason) in [
            ("10.0.0.1@tcp", "has no ':/NAME'"),
            ("10.0.0.1@tcp:/", "not the name"),
            ("10.0.0.1@tcp:/f s", "not the name"),
            ("10.0.0.1@tcp:/toolongname", "longer"),
            ("10.0.0@tcp:/fs1", "'10.0.0@tcp'"),
            ("0@lo:/fs1", "not the NID"),
            (":/fs1", "''"),
        ] {
            let error = format!("{:#}", Source::parse(text).unwrap_err());
            assert!(error.contains(reason), "{text}: {error}");
        }
        let many = vec!["10.0.0.1@tcp"; 65].join(":") + ":/fs1";
        assert!(Source::parse(&many).is_err());
    }
}
