//! Commands that need no node: they only compute.

use std::io::{self, Write};

use clap::Subcommand;
use lnet_config::{Document, Reply};
use lnet_types::Nid;
use lnet_types::expr::NidList;

use super::Tool;
use super::args::{CptOfNidArgs, Group, NidlistArgs};
use super::talk::Failed;

/// The limit of NIDs that are printed for a list.
const LISTED_MAX: usize = 4096;

/// Prints the CPU partition of each NID. It is 0, because a node has one partition.
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

/// Reports that there is no port. The port belongs to an RDMA service, which this kind of node does not have.
/// The text is that of a kernel node without such a service.
pub(super) fn service_id() -> Result<(), Failed> {
    let what = "cannot get service port: No such file or directory (-2)";
    let reply = Reply::Message(what.to_owned());
    let document = Document {
        replies: vec![reply],
        ..Document::default()
    };
    Err(Failed::Line {
        text: document.to_yaml().trim_end().to_owned(),
        code: NO_SERVICE_PORT,
    })
}

/// The exit code of `service-id` if there is no port.
const NO_SERVICE_PORT: u8 = 214;

/// Words that `lnetctl` understands in addition to its commands. The last two end a session.
const WORDS: [&str; 8] = [
    "help",
    "--help",
    "version",
    "--version",
    "list-commands",
    "--list-commands",
    "exit",
    "quit",
];

/// Prints the list of `--list-commands`, with four words in a line.
pub(super) fn list_commands(tool: Tool, out: &mut impl Write) -> io::Result<()> {
    let command = match tool {
        Tool::Lnetctl => Group::augment_subcommands(clap::Command::new(tool.name())),
        Tool::Lctl => tool.command(),
    };
    let groups = command
        .get_subcommands()
        .filter(|group| !group.is_hide_set());
    let names: Vec<&str> = WORDS
        .into_iter()
        .chain(groups.map(clap::Command::get_name))
        .collect();
    for row in names.chunks(4) {
        let row: String = row.iter().map(|name| format!("{name:<20}")).collect();
        writeln!(out, "{row}")?;
    }
    Ok(())
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
    parsed.map_err(|error| Failed::Plain(format!("'{text}' is not a NID: {error}")))
}

pub(super) fn print(text: &str) -> Result<(), Failed> {
    Ok(io::stdout().write_all(text.as_bytes())?)
}
