//! `finerail top`: a running node's interfaces, routes and peers, live.
//!
//! ```text
//!  feed (a thread)                     this thread
//!  ---------------                     -----------
//!  control socket ── Numbers ─▶ Sample ─▶ Model ─▶ frame::Table ─▶ screen   a terminal
//!                                          ▲                  └──▶ plain    --once, --json
//!                                    keys ─┘
//! ```
//!
//! The model is a function of samples and keys and knows neither sockets nor terminals; everything that
//! is drawn is a table first, so that what a terminal shows, what `--once` prints and what `--json` says
//! cannot differ.

mod feed;
mod frame;
mod keys;
mod live;
mod model;
mod plain;
mod rates;
mod sample;
mod screen;
#[cfg(test)]
mod tests;
mod text;

pub(crate) use feed::Feed;
pub(crate) use sample::Sample;

use std::io::{self, IsTerminal};
use std::path::PathBuf;
use std::process::ExitCode;
use std::time::Duration;

use self::model::Model;
use crate::common::{NotSo, default_control_path, print_bytes};
use crate::ctl::LimitArgs;

/// Arguments of `finerail top`.
#[derive(clap::Args)]
#[command(after_help = "\
Keys: 1 2 3 or Tab for interfaces, peers, routes; < and > for the column that sorts, r to turn the
order; / to see only what contains a text; ? for help; q to quit.

Examples
  finerail top
  finerail top --node /run/finerail/control.sock --interval 5
  finerail top --once | less
  finerail top --json --once

Rates are those between two looks, so that --once takes as long as --interval.
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
    /// Seconds between two looks at the node
    #[arg(long, value_name = "SECONDS", default_value = "2", value_parser = interval)]
    interval: Duration,
    /// Print everything once, as plain text
    #[arg(long)]
    once: bool,
    /// Print JSON, one document a line: one with --once, else one at every look
    #[arg(long)]
    json: bool,
}

/// The shortest interval: a look at 100,000 peers takes a good part of it.
const INTERVAL_MIN: f64 = 0.2;
/// The longest: a day.
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
        anyhow::bail!("standard input or output is no terminal: use --once or --json");
    }
    let colours = wants_colours(|name| std::env::var_os(name).map(|value| value.into_string()));
    let feed = Feed::new(&path, args.limit.patience());
    live::run(feed, path, args.interval, colours)?;
    Ok(ExitCode::SUCCESS)
}

/// Plain text once, or JSON.
fn print(args: &TopArgs, path: &std::path::Path) -> anyhow::Result<()> {
    let mut feed = Feed::new(path, args.limit.patience());
    // What is read by a program, or goes into a file, has all columns.
    let is_read_here = io::stdout().is_terminal();
    let size = is_read_here.then(ratatui::crossterm::terminal::size);
    let width = match size {
        Some(Ok((columns, _))) if columns > 0 => columns.into(),
        _ => usize::MAX,
    };
    let mut model = Model::new(path.display().to_string());
    let unreachable = |why: String| {
        NotSo(format!(
            "cannot look at the node at {}: {why}",
            path.display()
        ))
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

/// Colours say nothing that a word does not say, too. They are left out where nobody wants them
/// (`NO_COLOR`) or the terminal has none.
pub(crate) fn wants_colours(
    variable: impl Fn(&str) -> Option<Result<String, std::ffi::OsString>>,
) -> bool {
    let is_set =
        |name| variable(name).is_some_and(|value| value.is_err() || value != Ok(String::new()));
    let term = variable("TERM").and_then(Result::ok).unwrap_or_default();
    !is_set("NO_COLOR") && !["", "dumb"].contains(&term.as_str()) && !term.ends_with("-mono")
}
