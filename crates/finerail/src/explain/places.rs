//! What the lints find at the ends of an explained path: the interface and the subnet under an NI, its NID, and the port.
//! `lnet-explain` knows only what the selection of a path depends on.

use std::collections::BTreeSet;

use lnet_explain::Path;
use lnet_site::lint::{Finding, Input, PlacedFinding, lint_places, settings};
use lnet_site::{SiteFile, gather};
use lnet_types::{Net, Nid};

use super::{Named, Texts};

/// The name of the node that stands for the destination and the next hop. It has no file.
const AHEAD: &str = "the destination";

/// Returns the findings about the NIs of this node and of the peer on the nets of a path. The state of a running node has
/// no text and no findings.
pub(super) fn findings(
    texts: &Texts,
    path: Option<&Path>,
    to: Nid,
) -> anyhow::Result<Vec<Finding>> {
    let Some(own) = whole(&texts.own) else {
        return Ok(Vec::new());
    };
    let peer = whole(&texts.peer);
    let own = Input {
        name: &own.0,
        text: &own.1,
        interfaces: texts.interfaces.as_ref().map(|(_, text)| text.as_str()),
        port: None,
    };
    let peer = peer.as_ref().map(|(name, text)| Input {
        name,
        text,
        interfaces: None,
        port: None,
    });
    let mut inputs: Vec<Input<'_>> = [own].into_iter().chain(peer).collect();
    let nid = |text: &String| text.parse::<Nid>().ok();
    let hops = path.map(|path| [path.gateway.as_ref().and_then(nid), nid(&path.destination)]);
    let mut ahead: BTreeSet<Nid> = hops.into_iter().flatten().flatten().chain([to]).collect();
    for input in &inputs {
        let known: BTreeSet<Nid> = settings(input)?
            .nis
            .iter()
            .filter_map(|ni| ni.nid)
            .collect();
        ahead.retain(|nid| !known.contains(nid));
    }
    let text = document(&ahead);
    if !ahead.is_empty() {
        let (name, text) = (AHEAD, text.as_str());
        inputs.push(Input {
            name,
            text,
            interfaces: None,
            port: None,
        });
    }
    let source = path.and_then(|path| nid(&path.source)).map(Nid::net);
    let nets = [source, Some(to.net())];
    let found = lint_places(&inputs, |_| 1)?;
    Ok(found
        .into_iter()
        .filter(|one| concerns(one, &nets))
        .map(|one| one.finding)
        .collect())
}

/// Decides whether a finding is about an NI on the net of its end of the path: `nets` has that of the source, if it is
/// known, and that of the destination.
fn concerns(one: &PlacedFinding, nets: &[Option<Net>]) -> bool {
    // The import of the input has its own warnings.
    let is_new = one.finding.file != AHEAD && one.finding.code != "import-refused";
    let end = nets.get(one.node).copied().flatten();
    let is_there = |net: Net| end.is_none_or(|end| end == net);
    is_new && one.ni.as_ref().is_none_or(|ni| is_there(ni.net))
}

/// Returns a document of a node with these NIDs.
fn document(nids: &BTreeSet<Nid>) -> String {
    let nets: BTreeSet<Net> = nids.iter().map(|nid| nid.net()).collect();
    let mut text = "net:\n".to_owned();
    for net in nets {
        text += &format!("- net type: {net}\n  local NI(s):\n");
        let there = nids.iter().filter(|nid| nid.net() == net);
        text.extend(there.map(|nid| format!("  - nid: {nid}\n")));
    }
    text
}

/// Returns the outputs of one node as one document, with the name of the first; `None` without outputs.
fn whole(texts: &[Named]) -> Option<Named> {
    let (name, text) = texts.first()?;
    if texts.len() == 1 {
        return Some((name.clone(), text.clone()));
    }
    let files = texts.iter().zip(1..).map(|((_, text), number)| SiteFile {
        path: format!("node/{number}.yaml"),
        text: text.clone(),
    });
    let files: Vec<SiteFile> = files.collect();
    let node = gather(&files).nodes.into_iter().next()?;
    Some((name.clone(), node.text))
}
