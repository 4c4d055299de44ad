//! `finerail ctl watch`: prints the events of a node while they happen.

use std::io::{self, Write};

use jiff::Timestamp;
use jiff::tz::TimeZone;
use lnet_dlc::protocol::{Happening, Happenings, Request, RpcFilter};

use super::args::{WatchNodeArgs, WatchRpcsArgs};
use super::talk::{Failed, Talk};

/// Prints events until the node ends, the output closes, or the wanted number of events is reached.
pub(super) fn watch(args: &WatchNodeArgs, talk: &mut Talk) -> Result<(), Failed> {
    let request = match args.rpcs.rpc {
        true => Request::WatchRpcs(filter(&args.rpcs)),
        false => Request::Watch { kinds: kinds(args) },
    };
    let mut printer = Printer {
        zone: TimeZone::system(),
        json: args.json,
        left: args.count,
    };
    talk.follow(&request, |piece| printer.print(piece))
}

fn kinds(args: &WatchNodeArgs) -> Vec<Happenings> {
    let all = [
        (args.dropped, Happenings::Dropped),
        (args.health, Happenings::Health),
        (args.routes, Happenings::Routes),
        (args.sends, Happenings::Sends),
    ];
    let wanted = all.into_iter().filter(|(is_wanted, _)| *is_wanted);
    wanted.map(|(_, kind)| kind).collect()
}

fn filter(args: &WatchRpcsArgs) -> RpcFilter {
    RpcFilter {
        client: args.client.map(|client| client.to_string()),
        target: args.target.clone(),
        operation: args.operation.clone(),
        job: args.job.clone(),
        failed: args.failed,
        slower_micros: args.slower.map(|millis| u64::from(millis) * 1000),
    }
}

struct Printer {
    zone: TimeZone,
    json: bool,
    /// The number of events still to print; `None` means no limit.
    left: Option<u64>,
}

impl Printer {
    /// Prints a piece of the node's answer. Returns whether more events are wanted.
    fn print(&mut self, piece: &str) -> io::Result<bool> {
        let events: Vec<Happening> = serde_json::from_str(piece)?;
        let mut out = io::stdout().lock();
        for event in &events {
            if self.left == Some(0) {
                break;
            }
            writeln!(out, "{}", self.line(event)?)?;
            self.left = self.left.map(|left| left - 1);
        }
        out.flush()?;
        Ok(self.left != Some(0))
    }

    fn line(&self, event: &Happening) -> io::Result<String> {
        if self.json {
            return Ok(serde_json::to_string(event)?);
        }
        // The time of an event is in this millennium, so its microseconds fit. A wrong time is an error of the
        // node, and is shown as 1970.
        let at = Timestamp::from_microsecond((event.time * 1e6) as i64).unwrap_or_default();
        let at = at.to_zoned(self.zone.clone()).strftime("%H:%M:%S%.3f");
        Ok(format!("{at} {}", event.what))
    }
}
