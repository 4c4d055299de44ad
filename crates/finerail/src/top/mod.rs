//! `finerail top`: shows the interfaces, routes and peers of a running node, or the RPCs that it sees, live.
//!
//! ```text
//!  feed (a thread)                     this thread
//!  ---------------                     -----------
//!  control socket ── Numbers ─▶ Sample ─▶ Model ─▶ frame::Table ─▶ screen   a terminal
//!                                          ▲                  └──▶ plain    --once, --json
//!                                    keys ─┘
//! ```
//!
//! The model is a function of samples and keys, and depends neither on sockets nor on terminals. All output is
//! first made as a table. So a terminal, `--once` and `--json` show the same values.

mod feed;
mod frame;
mod keys;
mod live;
mod model;
mod o2ib;
mod plain;
mod rates;
mod rpcs;
mod sample;
mod screen;
#[cfg(test)]
mod tests;
mod text;

pub(crate) use feed::Feed;
pub(crate) use sample::Sample;

use std::io::{self, IsTerminal};
use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::time::Duration;

use lnet_dlc::DlcError;

use self::model::Model;
use crate::common::{Negative, default_control_path, print_bytes};
use crate::ctl::LimitArgs;

/// Arguments of `finerail top`.
#[derive(clap::Args)]
#[command(after_help = "\
Keys: 1 2 3 or Tab for interfaces, peers, routes, 4 for the counters of RDMA if the node has o2ib networks, with --rpc to 5 for clients, targets, operations, jobs, slowest; < and > for the sort column, r to reverse the order; \
/ to show only rows that contain a text; ? for help; q to quit.

Examples
  finerail top
  finerail top --node /run/finerail/control.sock --interval 5
  finerail top --once | less
  finerail top --json --once
  finerail top --rpc

Rates are computed between two samples, so --once takes as long as --interval.
")]
pub(crate) struct TopArgs {
    /// Socket of the node [default: finerail/control.sock in $XDG_RUNTIME_DIR, or in /run]
    #[arg(
        long,
        value_name = "SOCKET",
        env = "FINERAIL_CONTROL",
        hide_env_values = true
    )]
    node: Option<PathBuf>,
    #[command(flatten)]
    limit: LimitArgs,
    /// Seconds between two samples of the node
    #[arg(long, value_name = "SECONDS", default_value = "2", value_parser = interval)]
    interval: Duration,
    /// Show Lustre's RPCs that the node sees, by client, target, operation and job, and the slowest; the node must run
    /// with `finerail node --rpc`
    #[arg(long)]
    rpc: bool,
    /// Print all tables once, as plain text
    #[arg(long)]
    once: bool,
    /// Print one JSON document a line: one with --once, otherwise one for every sample
    #[arg(long)]
    json: bool,
}

impl TopArgs {
    fn model(&self, path: &Path) -> Model {
        let path = path.display().to_string();
        match self.rpc {
            true => Model::of_rpcs(path),
            false => Model::new(path),
        }
    }
}

/// The shortest interval, in seconds. One sample of 100,000 peers takes a large part of this time.
const INTERVAL_MIN: f64 = 0.2;
/// The longest interval: a day, in seconds.
const INTERVAL_MAX: f64 = 86_400.0;

pub(crate) fn interval(text: &str) -> Result<Duration, String> {
    let seconds: f64 = text.parse().map_err(|_| "no number".to_owned())?;
    if (INTERVAL_MIN..=INTERVAL_MAX).contains(&seconds) {
        Ok(Duration::from_secs_f64(seconds))
    } else {
        Err(format!(
            "must be from {INTERVAL_MIN} to {INTERVAL_MAX} seconds"
        ))
    }
}

pub(crate) fn run(args: &TopArgs) -> anyhow::Result<ExitCode> {
    let path = args.node.clone().unwrap_or_else(default_control_path);
    if args.once || args.json {
        return print(args, &path).map(|()| ExitCode::SUCCESS);
    }
    if !io::stdout().is_terminal() || !io::stdin().is_terminal() {
        anyhow::bail!("standard input or output is not a terminal: use --once or --json");
    }
    let colours = wants_colours(|name| std::env::var_os(name).map(|value| value.into_string()));
    let feed = Feed::new(&path, args.limit.patience()).with_rpcs(args.rpc);
    live::run(feed, args.model(&path), args.interval, colours)?;
    Ok(ExitCode::SUCCESS)
}

/// Prints a sample once as plain text, or samples as JSON.
fn print(args: &TopArgs, path: &Path) -> anyhow::Result<()> {
    let mut feed = Feed::new(path, args.limit.patience()).with_rpcs(args.rpc);
    // A pipe or a file gets all columns, whatever their width.
    let is_read_here = io::stdout().is_terminal();
    let size = is_read_here.then(ratatui::crossterm::terminal::size);
    let width = match size {
        Some(Ok((columns, _))) if columns > 0 => columns.into(),
        _ => usize::MAX,
    };
    let mut model = args.model(path);
    let unreachable = |error: DlcError| {
        Negative(match error {
            DlcError::Connect { .. } => error.to_string(),
            other => format!(
                "cannot read the counters of the node at {}: {other}",
                path.display()
            ),
        })
    };
    model.take(Ok(feed.look().map_err(unreachable)?));
    loop {
        std::thread::sleep(args.interval);
        model.take(Ok(feed.look().map_err(unreachable)?));
        let text = if args.json {
            plain::json(&model)? + "\n"
        } else {
            plain::text(&model, width)
        };
        print_bytes(text.as_bytes(), &mut io::stdout())?;
        if args.once {
            return Ok(());
        }
    }
}

/// Returns whether the output is coloured. Colours only repeat what a word says, so they are left out if
/// `NO_COLOR` is set or the terminal has no colours.
pub(crate) fn wants_colours(
    variable: impl Fn(&str) -> Option<Result<String, std::ffi::OsString>>,
) -> bool {
    let is_set =
        |name| variable(name).is_some_and(|value| value.is_err() || value != Ok(String::new()));
    let term = variable("TERM").and_then(Result::ok).unwrap_or_default();
    !is_set("NO_COLOR") && !["", "dumb"].contains(&term.as_str()) && !term.ends_with("-mono")
}
