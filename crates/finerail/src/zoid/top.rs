//! `finerail zoid top`: shows the sessions, pools and waiting operations of a running I/O-node daemon, live.
//!
//! A view is computed from two samples of the daemon's metrics, and depends neither on sockets nor on
//! terminals. So a terminal, `--once` and `--json` show the same values.

use std::collections::BTreeMap;
use std::fmt::Write as _;
use std::io::{self, IsTerminal};
use std::path::PathBuf;
use std::process::ExitCode;
use std::sync::atomic::Ordering;
use std::thread;
use std::time::{Duration, Instant};

use anyhow::Context;
use ratatui::crossterm::event::{self, Event, KeyCode};
use ratatui::widgets::Paragraph;
use serde::Serialize;
use zoid_proto::Instance;
use zoidd::Metric;

use super::metrics;
use crate::common::print_bytes;
use crate::service::raise_on_signals;

/// Arguments of `finerail zoid top`.
#[derive(clap::Args)]
#[command(after_help = "\
Rates are computed between two samples, so --once takes as long as --interval. The slowest client is \
the client with the lowest payload rate among those that transfer payload. q ends the live view.

Examples
  finerail zoid top
  finerail zoid top --instance blue --interval 5
  finerail zoid top --json --once
")]
pub(crate) struct TopArgs {
    /// Name of the daemon
    #[arg(long, value_name = "NAME", default_value = "default")]
    instance: Instance,
    /// The directory of its lock, journal and sockets [default: /run/user/UID, or /tmp/zbmi-UID]
    #[arg(long, value_name = "DIR")]
    directory: Option<PathBuf>,
    /// Seconds between two samples of the daemon
    #[arg(long, value_name = "SECONDS", default_value = "2", value_parser = crate::top::interval)]
    interval: Duration,
    /// Print all tables once, as plain text
    #[arg(long)]
    once: bool,
    /// Print one JSON document a line: one with --once, otherwise one for every sample
    #[arg(long)]
    json: bool,
}

/// A row of a view: one client.
#[derive(Clone, Debug, PartialEq, Serialize)]
struct Session {
    pid: u32,
    sent_bytes_per_second: f64,
    received_bytes_per_second: f64,
    messages_per_second: f64,
    /// How often a second the daemon tells the client to retry later.
    not_now_per_second: f64,
    /// The payload of the client so far.
    bytes: f64,
}

impl Session {
    fn payload(&self) -> f64 {
        self.sent_bytes_per_second + self.received_bytes_per_second
    }
}

/// The values to show.
#[derive(Clone, Debug, PartialEq, Serialize)]
struct View {
    instance: String,
    uptime_seconds: f64,
    server_attached: bool,
    clients: f64,
    /// Requests of clients that wait for their counterpart. The next field counts large transfers that wait for
    /// their turn.
    waiting: f64,
    bulk_waiting: f64,
    posts: f64,
    transfers: f64,
    unexpected_messages: f64,
    unexpected_pool_used_bytes: f64,
    unexpected_pool_bytes: f64,
    server_memory_used_bytes: f64,
    server_waiting_for_memory: f64,
    slowest_client: Option<u32>,
    /// The clients, those with the highest payload rate first.
    sessions: Vec<Session>,
}

/// A sample: the metrics of one moment, by name.
struct Look {
    taken: Instant,
    values: BTreeMap<String, f64>,
}

impl Look {
    fn new(metrics: Vec<Metric>, taken: Instant) -> Self {
        let values = metrics
            .into_iter()
            .map(|metric| (metric.name, metric.value));
        Self {
            taken,
            values: values.collect(),
        }
    }

    fn value(&self, name: &str) -> f64 {
        let found = self.values.get(&format!("zoidd_{name}"));
        found.copied().unwrap_or_default()
    }

    fn of_client(&self, pid: u32, name: &str) -> f64 {
        self.value(&format!("client_{name}_total{{pid=\"{pid}\"}}"))
    }

    /// Returns the process ids of the connected clients.
    fn pids(&self) -> impl Iterator<Item = u32> {
        let names = self.values.keys();
        names.filter_map(|name| {
            let rest = name.strip_prefix("zoidd_client_not_now_total{pid=\"")?;
            rest.strip_suffix("\"}")?.parse().ok()
        })
    }
}

impl View {
    fn new(instance: &Instance, before: &Look, now: &Look) -> Self {
        let seconds = (now.taken - before.taken).as_secs_f64().max(1e-3);
        let session = |pid| {
            let rate = |name| {
                // The rate is at least 0: a new client may have the process id of an earlier one, and smaller
                // counts.
                let grown = now.of_client(pid, name) - before.of_client(pid, name);
                grown.max(0.0) / seconds
            };
            Session {
                pid,
                sent_bytes_per_second: rate("sent_bytes"),
                received_bytes_per_second: rate("received_bytes"),
                messages_per_second: rate("sent_messages") + rate("received_messages"),
                not_now_per_second: rate("not_now"),
                bytes: now.of_client(pid, "sent_bytes") + now.of_client(pid, "received_bytes"),
            }
        };
        let mut sessions: Vec<Session> = now.pids().map(session).collect();
        sessions.sort_by(|a, b| {
            let faster = b.payload().total_cmp(&a.payload());
            faster.then(a.pid.cmp(&b.pid))
        });
        let moving = sessions
            .iter()
            .rev()
            .find(|session| session.payload() > 0.0);
        Self {
            instance: instance.to_string(),
            uptime_seconds: now.value("uptime_seconds"),
            server_attached: now.value("server_attached") > 0.0,
            clients: now.value("clients"),
            waiting: now.value("waiting"),
            bulk_waiting: now.value("bulk_waiting"),
            posts: now.value("posts"),
            transfers: now.value("transfers"),
            unexpected_messages: now.value("unexpected_messages"),
            unexpected_pool_used_bytes: now.value("unexpected_pool_used_bytes"),
            unexpected_pool_bytes: now.value("unexpected_pool_bytes"),
            server_memory_used_bytes: now.value("server_memory_used_bytes"),
            server_waiting_for_memory: now.value("server_waiting_for_memory"),
            slowest_client: moving.map(|session| session.pid),
            sessions,
        }
    }

    /// Formats the view as text, with at most `rows` clients.
    fn text(&self, rows: usize) -> String {
        let server = if self.server_attached {
            "a server"
        } else {
            "no server"
        };
        let slowest = match self.slowest_client {
            Some(pid) => format!("   slowest client {pid}"),
            None => String::new(),
        };
        let mut text = format!(
            "{}   up {} s   {server}   {} clients{slowest}\n\
             waits    {} requests, {} large transfers   in flight {} posts, {} transfers\n\
             pools    unexpected {} of {} in {} messages   server {}, {} operations wait for memory\n\n\
             {:>10} {:>12} {:>12} {:>12} {:>12} {:>12}\n",
            self.instance,
            self.uptime_seconds,
            self.clients,
            self.waiting,
            self.bulk_waiting,
            self.posts,
            self.transfers,
            bytes(self.unexpected_pool_used_bytes),
            bytes(self.unexpected_pool_bytes),
            self.unexpected_messages,
            bytes(self.server_memory_used_bytes),
            self.server_waiting_for_memory,
            "client",
            "to server/s",
            "to client/s",
            "messages/s",
            "not now/s",
            "all"
        );
        for session in self.sessions.iter().take(rows) {
            // Writing to a `String` cannot fail.
            let _infallible = writeln!(
                text,
                "{:>10} {:>12} {:>12} {:>12.1} {:>12.1} {:>12}",
                session.pid,
                bytes(session.sent_bytes_per_second),
                bytes(session.received_bytes_per_second),
                session.messages_per_second,
                session.not_now_per_second,
                bytes(session.bytes)
            );
        }
        let hidden = self.sessions.len().saturating_sub(rows);
        if hidden > 0 {
            let _infallible = writeln!(text, "and {hidden} more");
        }
        text
    }
}

/// Formats a size with the binary units of the daemon's settings.
fn bytes(value: f64) -> String {
    const UNITS: [&str; 4] = ["", "k", "M", "G"];
    let mut value = value;
    let mut unit = 0;
    while value >= 1024.0 && unit + 1 < UNITS.len() {
        value /= 1024.0;
        unit += 1;
    }
    let name = UNITS.get(unit).copied().unwrap_or_default();
    match unit {
        0 => format!("{value:.0}"),
        _ => format!("{value:.1}{name}"),
    }
}

pub(super) fn run(args: &TopArgs) -> anyhow::Result<ExitCode> {
    let look = || -> anyhow::Result<Look> {
        let metrics = metrics(&args.instance, args.directory.as_deref())?;
        Ok(Look::new(metrics, Instant::now()))
    };
    let before = look()?;
    if args.once || args.json {
        return print(args, before, look);
    }
    if !io::stdout().is_terminal() || !io::stdin().is_terminal() {
        anyhow::bail!("standard input or output is not a terminal: use --once or --json");
    }
    let mut terminal = ratatui::try_init().context("cannot use the terminal")?;
    let shown = live(args, &mut terminal, before, look);
    ratatui::restore();
    shown.map(|()| ExitCode::SUCCESS)
}

fn print(
    args: &TopArgs,
    mut before: Look,
    look: impl Fn() -> anyhow::Result<Look>,
) -> anyhow::Result<ExitCode> {
    loop {
        thread::sleep(args.interval);
        let now = look()?;
        let view = View::new(&args.instance, &before, &now);
        let text = match args.json {
            true => serde_json::to_string(&view)? + "\n",
            false => view.text(usize::MAX),
        };
        print_bytes(text.as_bytes(), &mut io::stdout())?;
        if args.once {
            return Ok(ExitCode::SUCCESS);
        }
        before = now;
    }
}

/// How long a signal or a key may wait until it is noticed.
const TICK: Duration = Duration::from_millis(100);

/// Lines of the view that are not clients: those above the clients, and the one below them.
const OTHER_LINES: usize = 6;

fn live(
    args: &TopArgs,
    terminal: &mut ratatui::DefaultTerminal,
    mut before: Look,
    look: impl Fn() -> anyhow::Result<Look>,
) -> anyhow::Result<()> {
    let stop = raise_on_signals().context("cannot register signal handlers")?;
    let mut view = View::new(&args.instance, &before, &before);
    while !stop.load(Ordering::Relaxed) {
        let rows = usize::from(terminal.size()?.height).saturating_sub(OTHER_LINES);
        let text = view.text(rows);
        terminal.draw(|frame| frame.render_widget(Paragraph::new(text), frame.area()))?;
        if event::poll(TICK)?
            && let Event::Key(key) = event::read()?
            && matches!(key.code, KeyCode::Char('q') | KeyCode::Esc)
        {
            break;
        }
        if before.taken.elapsed() >= args.interval {
            let now = look()?;
            view = View::new(&args.instance, &before, &now);
            before = now;
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn look(taken: Instant, sent: &[(u32, f64)]) -> Look {
        let mut metrics = vec![
            ("uptime_seconds".to_owned(), 7.0),
            ("server_attached".to_owned(), 1.0),
            ("clients".to_owned(), sent.len() as f64),
            ("unexpected_pool_used_bytes".to_owned(), 8192.0),
            ("unexpected_pool_bytes".to_owned(), 1_048_576.0),
        ];
        for (pid, bytes) in sent {
            metrics.push((format!("client_sent_bytes_total{{pid=\"{pid}\"}}"), *bytes));
            metrics.push((format!("client_not_now_total{{pid=\"{pid}\"}}"), 0.0));
        }
        let metrics = metrics.into_iter().map(|(name, value)| Metric {
            name: format!("zoidd_{name}"),
            value,
        });
        Look::new(metrics.collect(), taken)
    }

    fn view() -> View {
        let began = Instant::now();
        let before = look(began, &[(1, 0.0), (2, 500.0), (3, 9000.0)]);
        // Client 3 is a new client with the process id of an earlier one.
        let sent = [(1, 4096.0), (2, 3_000_500.0), (3, 10.0), (4, 0.0)];
        let now = look(began + Duration::from_secs(2), &sent);
        View::new(&Instance::default(), &before, &now)
    }

    #[test]
    fn clients_are_ordered_by_what_they_move_and_the_slowest_of_them_is_named() {
        let view = view();
        let order: Vec<u32> = view.sessions.iter().map(|session| session.pid).collect();
        assert_eq!(order, [2, 1, 3, 4]);
        assert_eq!(view.slowest_client, Some(1));
        assert_eq!(view.sessions[0].sent_bytes_per_second, 1_500_000.0);
        assert_eq!(view.sessions[2].payload(), 0.0);
    }

    #[test]
    fn the_text_has_a_line_a_client_as_far_as_there_is_room() {
        let text = view().text(2);
        let first = text.lines().next();
        assert_eq!(
            first,
            Some("default   up 7 s   a server   4 clients   slowest client 1")
        );
        assert!(
            text.contains("unexpected 8.0k of 1.0M in 0 messages"),
            "{text}"
        );
        assert!(
            text.contains("         2         1.4M            0"),
            "{text}"
        );
        assert_eq!(text.lines().last(), Some("and 2 more"));
        assert_eq!(text.lines().count(), OTHER_LINES + 2);
    }
}
