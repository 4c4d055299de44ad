//! `finerail ctl stats show --since`: prints what a node counted between two readings of its counters.

use std::collections::BTreeSet;
use std::io::{self, Write};
use std::path::Path;
use std::thread;
use std::time::Duration;

use lnet_config::Document;
use lnet_dlc::protocol::{Request, Section, Show};

use super::talk::{Failed, Talk, read, read_named};
use crate::common::{complaint, read_text};

/// The longest time between the two readings that the command waits for: a day, in seconds.
const SECONDS_MAX: u64 = 86_400;

/// The sections to compare: the node's counters, its interfaces, and the interfaces of its peers.
const SECTIONS: [Section; 3] = [Section::Statistics, Section::Net, Section::Peer];

/// Prints what the node counted since the reading in a file, or will count within the given number of seconds.
pub(super) fn show(since: &str, talk: &mut Talk) -> Result<(), Failed> {
    let earlier = match since.parse::<u64>() {
        Ok(seconds) => {
            if !(1..=SECONDS_MAX).contains(&seconds) {
                let text = format!("--since takes 1 to {SECONDS_MAX} seconds, or a file");
                return Err(Failed::Plain(text));
            }
            let earlier = reading(&SECTIONS, talk)?;
            thread::sleep(Duration::from_secs(seconds));
            earlier
        }
        Err(_) => file(Path::new(since))?,
    };
    let has = |section: &&Section| match section {
        Section::Statistics => earlier.statistics.is_some(),
        Section::Net => !earlier.nets.is_empty(),
        _ => !earlier.peers.is_empty(),
    };
    let sections: Vec<Section> = SECTIONS.iter().filter(has).copied().collect();
    let since = reading(&sections, talk)?.since(&earlier);
    if since.zeroed {
        complaint(
            "a count is lower than before: the node was restarted, its counters were zeroed, or the reading is \
             another node's; lower counts are counts from there",
        );
    }
    let mut out = io::stdout().lock();
    out.write_all(since.document.to_yaml().as_bytes())?;
    Ok(out.flush()?)
}

fn reading(sections: &[Section], talk: &mut Talk) -> Result<Document, Failed> {
    let mut all = Document::default();
    for &section in sections {
        let request = Request::Show(Show::all(section, 1));
        let document = read(&talk.dlc()?.request(&request)?)?;
        match section {
            Section::Statistics => all.statistics = document.statistics,
            Section::Net => all.nets = document.nets,
            _ => all.peers = document.peers,
        }
    }
    Ok(all)
}

fn file(path: &Path) -> Result<Document, Failed> {
    let name = path.display().to_string();
    let text = read_text(path).map_err(|error| Failed::unreadable(&name, &error))?;
    let earlier = read_named(&text, &name)?;
    let counts = |ni: &lnet_config::NiShow| ni.statistics.is_some();
    let has_nis = earlier.nets.iter().flat_map(|net| &net.nis).any(counts);
    let peer_nis = earlier.peers.iter().flat_map(|peer| &peer.nis);
    let has_peers = peer_nis.into_iter().any(|ni| ni.statistics.is_some());
    if earlier.statistics.is_none() && !has_nis && !has_peers {
        return Err(Failed::Plain(format!(
            "{name}: no statistics; write them with stats show, net show -v or peer show -v"
        )));
    }
    let lacking = lacking(&earlier, &text);
    if let Some(first) = lacking.first() {
        let count = lacking.len();
        complaint(&format!(
            "{name} lacks {count} counters of the node, {first} first: the file is cut off, or of another version; they \
             count from the node's start"
        ));
    }
    Ok(earlier)
}

/// Returns the node's counters that a reading lacks although it has others.
fn lacking(earlier: &Document, text: &str) -> Vec<String> {
    let statistics = Document {
        statistics: earlier.statistics,
        ..Document::default()
    };
    let shown = statistics.to_yaml();
    let known: BTreeSet<String> = text.lines().filter_map(key).collect();
    let due = shown.lines().filter(|line| line.contains(": "));
    due.filter_map(key)
        .filter(|key| !known.contains(key))
        .collect()
}

/// The key of a line in block style.
fn key(line: &str) -> Option<String> {
    line.split_once(':').map(|(key, _)| key.trim().to_owned())
}
