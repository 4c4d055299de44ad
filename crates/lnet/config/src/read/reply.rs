//! Answers to requests.

use lnet_types::Nid;

use super::fields::mapping_of;
use super::peer::boolean;
use super::reader::{Reader, only};
use super::shown::nids;
use crate::error::{Fault, Problem};
use crate::reply::{ErrorBlock, ErrorLayout, PeerReply, Reply};
use crate::yaml::{Entry, Node, Value};

/// Reads a section that is an answer; `None` if its key is not that of an answer.
pub(super) fn section(entry: &Entry<'_>, reader: &mut Reader) -> Result<Option<Vec<Reply>>, Fault> {
    let reply = match entry.key.as_ref() {
        "ping" => Reply::Ping(peers(entry, reader)?),
        "discover" => Reply::Discover(peers(entry, reader)?),
        "peer list" => Reply::PeerList(nid_list(entry, reader)?),
        "Local NI recovery" => Reply::LocalRecovery(nids(entry)?),
        "Peer NI recovery" => Reply::PeerRecovery(nids(entry)?),
        "cpt-of-nid" => Reply::CptOfNid(cpts_of_nids(entry, reader)?),
        "error" => Reply::Message(message(entry, reader)?),
        "add" | "del" | "set" | "show" | "manage" | "configure" | "yaml" => {
            let failures = entry.sequence()?.iter();
            let failures = failures.map(|item| failure(&entry.key, item, reader));
            return failures
                .map(|failure| failure.map(Reply::Failure))
                .collect::<Result<_, _>>()
                .map(Some);
        }
        _ => return Ok(None),
    };
    Ok(Some(vec![reply]))
}

fn peers(section: &Entry<'_>, reader: &mut Reader) -> Result<Vec<PeerReply>, Fault> {
    let items = section.sequence()?.iter();
    items.map(|item| peer(item, reader)).collect()
}

fn peer(item: &Node<'_>, reader: &mut Reader) -> Result<PeerReply, Fault> {
    let (mut primary, mut multi_rail, mut nids) = (None, false, Vec::new());
    for entry in mapping_of(item, "ping")? {
        match entry.key.as_ref() {
            "primary nid" => primary = Some(entry.parse()?),
            "Multi-Rail" => multi_rail = boolean(entry)?,
            // With a blank in releases up to 2.15.
            "peer_ni" | "peer ni" => nids = nid_list(entry, reader)?,
            _ => reader.unknown(entry, &[])?,
        }
    }
    let missing = Problem::MissingKey { key: "primary nid" };
    Ok(PeerReply {
        primary: primary.ok_or(Fault::new(item.place, missing))?,
        multi_rail,
        nids,
    })
}

/// A list of `nid: …`.
fn nid_list(section: &Entry<'_>, reader: &mut Reader) -> Result<Vec<Nid>, Fault> {
    let mut nids = Vec::new();
    for entry in reader.items(section)?.into_iter().flatten() {
        match entry.key.as_ref() {
            "nid" => nids.push(entry.parse()?),
            _ => reader.unknown(entry, &[])?,
        }
    }
    Ok(nids)
}

fn cpts_of_nids(section: &Entry<'_>, reader: &mut Reader) -> Result<Vec<(Nid, i64)>, Fault> {
    let mut cpts = Vec::new();
    for item in reader.items(section)? {
        let (mut nid, mut cpt) = (None, -1);
        for entry in item {
            match entry.key.as_ref() {
                "nid" => nid = Some(entry.parse()?),
                "cpt" => cpt = entry.signed()?,
                _ => reader.unknown(entry, &[])?,
            }
        }
        cpts.extend(nid.map(|nid| (nid, cpt)));
    }
    Ok(cpts)
}

fn message(section: &Entry<'_>, reader: &mut Reader) -> Result<String, Fault> {
    let mut message = String::new();
    for entry in section.mapping()? {
        match entry.key.as_ref() {
            "msg" => entry.text()?.clone_into(&mut message),
            _ => reader.unknown(entry, &[])?,
        }
    }
    Ok(message)
}

/// Reads an error, whose number and reason are under the entity or beside it.
fn failure(verb: &str, item: &Node<'_>, reader: &mut Reader) -> Result<ErrorBlock, Fault> {
    let mut block = ErrorBlock {
        verb: verb.to_owned(),
        entity: String::new(),
        seq_no: None,
        errno: 0,
        descr: String::new(),
        layout: ErrorLayout::Flat,
    };
    if let Some(entity) = only(item)
        && !matches!(entity.node.value, Value::Null)
    {
        block.entity = entity.key.clone().into_owned();
        block.layout = ErrorLayout::Nested;
        for entry in entity.mapping()? {
            fill(&mut block, entry, reader)?;
        }
        return Ok(block);
    }
    for entry in mapping_of(item, verb)? {
        if block.entity.is_empty() && matches!(entry.node.value, Value::Null) {
            block.entity = entry.key.clone().into_owned();
        } else {
            fill(&mut block, entry, reader)?;
        }
    }
    // The error of a peer that did not answer has the layout of an answer; other errors have not.
    if block
        .descr
        .starts_with(&format!("failed to {} ", block.entity))
        && verb == "manage"
    {
        block.layout = ErrorLayout::Reply;
    }
    Ok(block)
}

fn fill(block: &mut ErrorBlock, entry: &Entry<'_>, reader: &mut Reader) -> Result<(), Fault> {
    match entry.key.as_ref() {
        "errno" => block.errno = entry.signed()?,
        "descr" => entry.text()?.clone_into(&mut block.descr),
        "seq_no" => block.seq_no = entry.unsigned_or_default(0..=u32::MAX)?,
        _ => reader.unknown(entry, &[])?,
    }
    Ok(())
}
