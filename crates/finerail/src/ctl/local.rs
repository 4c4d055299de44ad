//! What needs no node: calculators.

use std::io::{self, Write};

use lnet_config::{Document, Reply};
use lnet_types::Nid;
use lnet_types::expr::NidList;

use super::args::{CptOfNidArgs, NidlistArgs};
use super::talk::Failed;

/// NIDs that a list may stand for before it is too long to be printed.
const LISTED_MAX: usize = 4096;

/// Every NID is in partition 0: a node has one.
pub(super) fn cpt_of_nid(args: &CptOfNidArgs) -> Result<(), Failed> {
    let cpts = args.nids.iter().map(|text| nid(text).map(|nid| (nid, 0)));
    let reply = Reply::CptOfNid(cpts.collect::<Result<_, _>>()?);
    print(
        &Document {
            replies: vec![reply],
            ..Document::default()
        }
        .to_yaml(),
    )
}

pub(super) fn nidlist(args: &NidlistArgs) -> Result<(), Failed> {
    let unparsable =
        |error: &dyn std::fmt::Display| Failed::Plain(format!("Unable to parse nidlist: {error}"));
    let list: NidList = args.list.parse().map_err(|error| unparsable(&error))?;
    match &args.nid {
        Some(text) => {
            let matches = list.matches(nid(text)?);
            print(&format!(
                "{text}: {}\n",
                if matches { "match" } else { "no match" }
            ))
        }
        None => {
            let nids = list
                .expand(LISTED_MAX)
                .map_err(|error| unparsable(&error))?;
            let lines: Vec<String> = nids.iter().map(|nid| format!("{nid}\n")).collect();
            print(&lines.concat())
        }
    }
}

fn nid(text: &str) -> Result<Nid, Failed> {
    let parsed = text.parse();
    parsed.map_err(|error| Failed::Plain(format!("'{text}' is no NID: {error}")))
}

fn print(text: &str) -> Result<(), Failed> {
    Ok(io::stdout().write_all(text.as_bytes())?)
}
