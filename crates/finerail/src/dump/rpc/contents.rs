//! What stands inside the logs and the tables of an MGS, as lines below the fields or as objects of JSON.

use std::collections::BTreeMap;
use std::io::{self, Write};

use lnet_ptlrpc::{Body as RpcBody, ConfigRead, Contents, Opened, Role, Seen, open, portal};
use lnet_types::Nid;
use lnet_wire::Body;
use serde::Serialize;

use super::line_of_json;

/// The most requests for tables that are remembered. Their numbers rise: the lowest is the oldest.
const READS_MAX: usize = 1 << 10;

/// Finds messages with contents. Bulk does not say which table it has: the request does.
#[derive(Default)]
pub(super) struct Reader {
    /// Requests for tables, by the match bits of their bulk.
    reads: BTreeMap<u64, ConfigRead>,
}

impl Reader {
    /// Returns what stands inside of a message; `None` if it is another one.
    pub(super) fn contents(&mut self, seen: &Seen<'_>, role: Role) -> Option<Contents> {
        let Body::Put(put) = seen.header.body else {
            return None;
        };
        let len = seen.header.payload_length as usize;
        let message = || match open(seen.head, len) {
            Ok(Opened::Clear(message, _)) => Some(message),
            _ => None,
        };
        match role {
            Role::Request(_) if put.ptl_index == portal::MGS_REQUEST => {
                let message = message()?;
                let read = ConfigRead::of(&message)?;
                let bits = RpcBody::of(&message).map_or(0, |body| body.mbits());
                self.remember(put.match_bits, read);
                if bits != 0 {
                    self.remember(bits, read);
                }
                None
            }
            Role::Reply(_) => Contents::of_log(&message()?),
            Role::Bulk if put.ptl_index == portal::MGS_BULK => {
                let read = self.reads.get(&put.match_bits)?;
                Some(Contents::of_table(*read, seen.head, len))
            }
            _ => None,
        }
    }

    fn remember(&mut self, bits: u64, read: ConfigRead) {
        self.reads.insert(bits, read);
        if self.reads.len() > READS_MAX {
            self.reads.pop_first();
        }
    }
}

/// An object of JSON.
#[derive(Serialize)]
struct Object<'a> {
    what: &'static str,
    time: f64,
    match_bits: String,
    client: String,
    server: String,
    #[serde(flatten)]
    contents: &'a Contents,
}

/// Where a message with contents was seen.
pub(super) struct Place {
    pub(super) seconds: f64,
    pub(super) match_bits: u64,
    pub(super) client: Nid,
    pub(super) server: Nid,
}

pub(super) fn print_json(
    contents: &Contents,
    place: &Place,
    out: &mut dyn Write,
) -> io::Result<()> {
    let object = Object {
        what: contents.what,
        time: place.seconds,
        match_bits: format!("{:#x}", place.match_bits),
        client: place.client.to_string(),
        server: place.server.to_string(),
        contents,
    };
    line_of_json(out, &object)
}

pub(super) fn print_lines(contents: &Contents, out: &mut dyn Write) -> io::Result<()> {
    contents.lines().iter().try_for_each(|line| {
        let (part, name, text) = (line.part, &line.name, &line.text);
        writeln!(out, "{:>14}  {part:<14} {name:<16} {text}", "")
    })
}
