//! Answers to requests, and errors: [CONF-9].

use std::fmt::{self, Display};

use lnet_types::Nid;

use super::emitter::{Emitter, Layout, Quoted, Scalar};
use crate::reply::{ErrorBlock, ErrorLayout, PeerReply, Reply};

pub(super) fn replies(text: &mut String, replies: &[Reply]) {
    for reply in replies {
        self::reply(text, reply);
    }
}

fn reply(text: &mut String, reply: &Reply) {
    match reply {
        Reply::Ping(peers) => self::peers(text, "ping", peers),
        Reply::Discover(peers) => self::peers(text, "discover", peers),
        Reply::PeerList(nids) => {
            Emitter::new(text, Layout::SIX).list("peer list", nids, nid);
        }
        Reply::LocalRecovery(nids) => {
            Emitter::new(text, Layout::SIX).enumerated("Local NI recovery", "nid-", nids.iter());
        }
        Reply::PeerRecovery(nids) => {
            Emitter::new(text, Layout::SIX).enumerated("Peer NI recovery", "nid-", nids.iter());
        }
        Reply::CptOfNid(cpts) => {
            Emitter::new(text, Layout::TWO).list("cpt-of-nid", cpts, |out, (nid, cpt)| {
                out.pair("nid", nid);
                out.pair("cpt", cpt);
            });
        }
        Reply::Failure(block) => failure(text, block),
        Reply::Message(message) => {
            Emitter::new(text, Layout::FOUR).map("error", |out| out.pair("msg", Quoted(message)));
        }
    }
}

fn peers(text: &mut String, key: &str, peers: &[PeerReply]) {
    Emitter::new(text, Layout::TWO).list(key, peers, |out, peer| {
        out.pair("primary nid", peer.primary);
        out.pair("Multi-Rail", peer.multi_rail);
        out.list("peer_ni", &peer.nids, nid);
    });
}

fn nid(out: &mut Emitter<'_>, nid: &Nid) {
    out.pair("nid", nid);
}

fn failure(text: &mut String, block: &ErrorBlock) {
    match block.layout {
        ErrorLayout::Flat => {
            text.push_str("---\n");
            flat(
                text,
                Layout::SIX,
                block,
                format_args!("! {}", Quoted(&block.descr)),
            );
            text.push_str("...\n");
        }
        ErrorLayout::Reply => {
            flat(
                text,
                Layout::TWO,
                block,
                format_args!("! {}", SingleQuoted(&block.descr)),
            );
        }
        ErrorLayout::Nested => nested(text, block),
    }
}

/// Number and reason beside the entity, which has no value.
fn flat(text: &mut String, layout: Layout, block: &ErrorBlock, descr: impl Display + Copy) {
    Emitter::new(text, layout).list(&block.verb, [block], |out, block| {
        out.null(&Scalar(&block.entity).to_string());
        out.pair_if("seq_no", block.seq_no);
        out.pair("errno", block.errno);
        out.pair("descr", descr);
    });
}

/// Number and reason under the entity.
fn nested(text: &mut String, block: &ErrorBlock) {
    Emitter::new(text, Layout::FOUR).list(&block.verb, [block], |out, block| {
        out.map(&Scalar(&block.entity).to_string(), |out| {
            out.pair_if("seq_no", block.seq_no);
            out.pair("errno", block.errno);
            out.pair("descr", Quoted(&block.descr));
        });
    });
}

/// Text in single quotes, with quotes doubled; in double quotes if it has characters that single
/// quotes cannot hold.
struct SingleQuoted<'a>(&'a str);

impl Display for SingleQuoted<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if self.0.contains(char::is_control) {
            return Quoted(self.0).fmt(f);
        }
        write!(f, "'{}'", self.0.replace('\'', "''"))
    }
}
