//! What stands inside the logs of an MGS, as lines below the fields or as objects of JSON.

use std::io::{self, Write};

use lnet_ptlrpc::Contents;
use lnet_types::Nid;
use serde::Serialize;

use super::line_of_json;

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
