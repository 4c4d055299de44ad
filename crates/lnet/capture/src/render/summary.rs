//! The summary of a capture.

use std::io;

use serde_json::{Map, Value, json};

use crate::summary::Summary;

/// Writes the summary as a few lines of text.
///
/// # Errors
///
/// Those of `out`.
pub fn write_summary(out: &mut dyn io::Write, summary: &Summary) -> io::Result<()> {
    let Summary {
        packets,
        connections,
        joined,
        rejected,
        bytes,
        ..
    } = summary;
    writeln!(
        out,
        "connections  {connections} ({joined} joined, {rejected} rejected)"
    )?;
    let messages: Vec<_> = summary
        .messages
        .iter()
        .map(|(name, count)| format!("{name} {count}"))
        .collect();
    writeln!(
        out,
        "messages     {}",
        if messages.is_empty() {
            "none".to_owned()
        } else {
            messages.join("  ")
        }
    )?;
    write!(
        out,
        "bytes        {} decoded  {} undecoded",
        bytes.decoded, bytes.undecoded
    )?;
    write!(
        out,
        "  {} cut  {} before a joined boundary",
        bytes.cut, bytes.before_join
    )?;
    writeln!(
        out,
        "  {} unaccepted  {} not in the capture",
        bytes.unaccepted, bytes.lost
    )?;
    let skipped: Vec<_> = summary
        .skipped
        .iter()
        .map(|(reason, count)| format!("{reason} {count}"))
        .collect();
    write!(out, "packets      {packets}")?;
    if !skipped.is_empty() {
        write!(out, " (not read: {})", skipped.join(", "))?;
    }
    let (repeated, lost) = (summary.packets_repeated, summary.packets_lost);
    if (repeated, lost) != (0, 0) {
        write!(
            out,
            "  RDMA: {repeated} sent again, {lost} not in the capture"
        )?;
    }
    writeln!(out)
}

/// Writes the summary as one JSON object a line, `{"what": "summary", …}`.
///
/// # Errors
///
/// Those of `out`.
pub fn write_summary_json(out: &mut dyn io::Write, summary: &Summary) -> io::Result<()> {
    let skipped: Map<String, Value> = summary
        .skipped
        .iter()
        .map(|(reason, &count)| (reason.to_string(), count.into()))
        .collect();
    let object = json!({
        "what": "summary",
        "packets": summary.packets,
        "packets_skipped": skipped,
        "packets_repeated": summary.packets_repeated,
        "packets_lost": summary.packets_lost,
        "connections": summary.connections,
        "joined": summary.joined,
        "refused": summary.rejected,
        "messages": summary.messages,
        "bytes_decoded": summary.bytes.decoded,
        "bytes_undecoded": summary.bytes.undecoded,
        "bytes_cut": summary.bytes.cut,
        "bytes_before_join": summary.bytes.before_join,
        "bytes_unaccepted": summary.bytes.unaccepted,
        "bytes_lost": summary.bytes.lost,
    });
    writeln!(out, "{object}")
}
