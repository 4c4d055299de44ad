//! Metrics: a list of samples, and its text form for Prometheus.
//!
//! There is no second set of counters: the samples are read from the engine's and the daemon's counters.
//! `--stat` and STAT show the same list.

mod table;

use std::fmt::Write as _;
use std::io::{self, Read, Write};
use std::os::unix::net::UnixStream;
use std::path::Path;
use std::time::Duration;

use zoid_proto::{Instance, ServerStatistics};

use crate::client::{Obstacle, Violation};
use crate::counters::DaemonCounters;
use crate::daemon::metrics_file;
use crate::options::Options;
use crate::zbmi::{ClientTraffic, Histogram, Rejection};

/// The type of a metric.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub(crate) enum MetricKind {
    /// A number that only increases.
    Counter,
    /// A current value.
    Gauge,
    /// A part of a distribution.
    Histogram,
}

/// One value.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Sample {
    /// Its name without the prefix, and its suffix (`_bucket`).
    name: &'static str,
    suffix: &'static str,
    help: &'static str,
    kind: MetricKind,
    /// The label between the braces; empty without.
    label: String,
    value: f64,
}

impl Sample {
    fn new(kind: MetricKind, name: &'static str, help: &'static str, value: u64) -> Self {
        Self {
            name,
            suffix: "",
            help,
            kind,
            label: String::new(),
            // Exact up to 2^53, which a byte counter reaches after months.
            value: value as f64,
        }
    }

    /// Returns the value as an integer; all but times are integers.
    pub(crate) fn number(&self) -> u64 {
        self.value as u64
    }

    fn labelled(self, label: &str, value: impl std::fmt::Display) -> Self {
        Self {
            label: format!("{label}=\"{value}\""),
            ..self
        }
    }
}

/// Returns the text format of Prometheus, version 0.0.4.
// [WATCH-1]
pub(crate) fn exposition(samples: &[Sample]) -> String {
    let mut text = String::new();
    let mut last = "";
    for sample in samples {
        let name = sample.name;
        if last != name {
            let kind = match sample.kind {
                MetricKind::Counter => "counter",
                MetricKind::Gauge => "gauge",
                MetricKind::Histogram => "histogram",
            };
            // Writing to a String does not fail.
            let _infallible = writeln!(text, "# HELP zoidd_{name} {}", sample.help);
            let _infallible = writeln!(text, "# TYPE zoidd_{name} {kind}");
            last = name;
        }
        let label = match sample.label.as_str() {
            "" => String::new(),
            label => format!("{{{label}}}"),
        };
        let (suffix, value) = (sample.suffix, sample.value);
        let _infallible = writeln!(text, "zoidd_{name}{suffix}{label} {value}");
    }
    text
}

/// A metric of a running daemon, returned by [`read`].
#[derive(Clone, Debug, PartialEq)]
pub struct Metric {
    /// Its name, including labels.
    pub name: String,
    /// Its value.
    pub value: f64,
}

/// Asks a running daemon for its metrics.
///
/// # Errors
///
/// [`io::ErrorKind::NotFound`], [`io::ErrorKind::ConnectionRefused`]: no daemon of this instance is running.
/// [`io::ErrorKind::InvalidData`]: an invalid answer.
pub fn read(instance: &Instance, directory: &Path) -> io::Result<Vec<Metric>> {
    let mut stream = UnixStream::connect(directory.join(metrics_file(instance)))?;
    stream.set_read_timeout(Some(TIME_LIMIT))?;
    stream.write_all(b"GET /metrics HTTP/1.1\r\nHost: localhost\r\n\r\n")?;
    let mut answer = String::new();
    stream.read_to_string(&mut answer)?;
    let (_, text) = answer
        .split_once("\r\n\r\n")
        .ok_or(io::ErrorKind::InvalidData)?;
    let lines = text.lines().filter(|line| !line.starts_with('#'));
    let metrics: Option<Vec<Metric>> = lines.map(metric).collect();
    metrics.ok_or_else(|| io::ErrorKind::InvalidData.into())
}

/// How long a running daemon may take to answer.
const TIME_LIMIT: Duration = Duration::from_secs(10);

fn metric(line: &str) -> Option<Metric> {
    let (name, value) = line.rsplit_once(' ')?;
    Some(Metric {
        name: name.to_owned(),
        value: value.parse().ok()?,
    })
}

/// Everything that a daemon counts.
#[derive(Clone, Copy, Debug)]
pub(crate) struct View<'a> {
    pub(crate) engine: &'a crate::zbmi::Counters,
    pub(crate) gauges: crate::zbmi::Gauges,
    pub(crate) daemon: &'a DaemonCounters,
    /// Whether a server is attached.
    pub(crate) server: bool,
    /// The statistics of the attached server, or of the last one.
    pub(crate) reported: ServerStatistics,
    /// The size of the segment's huge pages in bytes; 0 for normal pages.
    pub(crate) huge_page_bytes: u64,
    /// The daemon's options.
    pub(crate) options: &'a Options,
    /// The time since the daemon's start.
    pub(crate) uptime: Duration,
    /// Attached clients by pid.
    pub(crate) clients: &'a [(u32, ClientTraffic)],
}

impl View<'_> {
    /// Returns all samples.
    pub(crate) fn samples(&self) -> Vec<Sample> {
        let mut samples = self.whole();
        samples.extend(self.derived());
        samples.extend(histogram("to_server", &self.engine.receive_to_end));
        samples.extend(histogram("to_client", &self.engine.send_to_end));
        samples.extend(self.of_clients());
        samples
    }

    /// Returns the samples of the whole daemon, in a fixed order.
    pub(crate) fn whole(&self) -> Vec<Sample> {
        let mut samples = self.traffic();
        let counters = table::COUNTERS.iter();
        samples.extend(
            counters.map(|(name, help, value)| {
                Sample::new(MetricKind::Counter, name, help, value(self))
            }),
        );
        let gauges = table::GAUGES.iter();
        samples
            .extend(gauges.map(|(name, help, value)| {
                Sample::new(MetricKind::Gauge, name, help, value(self))
            }));
        samples.extend(self.refusals());
        samples
    }

    /// Returns the samples that are not integers or have a label.
    fn derived(&self) -> Vec<Sample> {
        let gauge = |name, help, value| Sample {
            value,
            ..Sample::new(MetricKind::Gauge, name, help, 0)
        };
        let posts = self.engine.posts.max(1) as f64;
        let longest = Duration::from_micros(self.reported.longest_memory_wait_us);
        let mut samples = vec![
            gauge(
                "posts_immediate_ratio",
                "Share of the server's operations that completed within their post.",
                self.engine.posts_immediate as f64 / posts,
            ),
            gauge(
                "server_memory_wait_longest_seconds",
                "Longest completed wait of a server's operation for memory of the pool.",
                longest.as_secs_f64(),
            ),
        ];
        samples.extend(self.options.job_weights.iter().map(|(job, weight)| {
            let help = "Large transfers that a job begins per turn; 1 for jobs not shown.";
            Sample::new(MetricKind::Gauge, "job_weight", help, (*weight).into())
                .labelled("job", job)
        }));
        samples
    }

    fn traffic(&self) -> Vec<Sample> {
        let kinds = [
            ("expected_in", self.engine.expected_in),
            ("expected_out", self.engine.expected_out),
            ("unexpected_in", self.engine.unexpected_in),
        ];
        let messages = kinds.map(|(kind, traffic)| {
            let help = "Messages moved, by kind and direction.";
            Sample::new(
                MetricKind::Counter,
                "messages_total",
                help,
                traffic.messages,
            )
            .labelled("kind", kind)
        });
        let bytes = kinds.map(|(kind, traffic)| {
            let help = "Payload moved, by kind and direction.";
            Sample::new(
                MetricKind::Counter,
                "payload_bytes_total",
                help,
                traffic.bytes,
            )
            .labelled("kind", kind)
        });
        messages.into_iter().chain(bytes).collect()
    }

    fn refusals(&self) -> Vec<Sample> {
        let refusals = Rejection::ALL.iter().map(|reason| {
            let value = self.engine.rejections(*reason);
            let help = "Requests and commands rejected or ignored, by reason.";
            Sample::new(MetricKind::Counter, "refusals_total", help, value)
                .labelled("reason", reason.name())
        });
        let violations = Violation::ALL.iter().map(|rule| {
            let value = self.daemon.violations(*rule);
            let help = "Connections closed because of a protocol violation, by rule.";
            Sample::new(MetricKind::Counter, "violations_total", help, value)
                .labelled("rule", rule.name())
        });
        let obstacles = Obstacle::ALL.iter().map(|reason| {
            let value = self.daemon.obstacles(*reason);
            let help =
                "Clients or messages that used the stream instead of a direct copy, by reason.";
            Sample::new(
                MetricKind::Counter,
                "client_memory_fallbacks_total",
                help,
                value,
            )
            .labelled("reason", reason.name())
        });
        refusals.chain(violations).chain(obstacles).collect()
    }

    fn of_clients(&self) -> Vec<Sample> {
        let mut samples = Vec::new();
        for (name, help, field) in CLIENT_FIELDS {
            samples.extend(self.clients.iter().map(|(pid, traffic)| {
                Sample::new(MetricKind::Counter, name, help, field(traffic)).labelled("pid", pid)
            }));
        }
        samples
    }
}

/// The metrics of a client: name, help and value.
type ClientField = (&'static str, &'static str, fn(&ClientTraffic) -> u64);

const CLIENT_FIELDS: [ClientField; 5] = [
    (
        "client_sent_messages_total",
        "Messages of this client.",
        |t| t.sent.messages,
    ),
    ("client_sent_bytes_total", "Payload of this client.", |t| {
        t.sent.bytes
    }),
    (
        "client_received_messages_total",
        "Messages to this client.",
        |t| t.received.messages,
    ),
    (
        "client_received_bytes_total",
        "Payload to this client.",
        |t| t.received.bytes,
    ),
    (
        "client_not_now_total",
        "Sends and receives of this client answered \"not now\".",
        |t| t.not_now,
    ),
];

/// Returns cumulative buckets in seconds, as Prometheus requires.
fn histogram(direction: &str, histogram: &Histogram) -> Vec<Sample> {
    let direction = format!("direction=\"{direction}\"");
    let new = |suffix, label: String, value| Sample {
        suffix,
        label: format!("{direction}{label}"),
        value,
        ..Sample::new(
            MetricKind::Histogram,
            "post_to_end_seconds",
            "Time from the post of an operation of the server to its end, by direction.",
            0,
        )
    };
    let mut samples = Vec::new();
    let mut below = 0_u64;
    for (exponent, count) in histogram.buckets().iter().enumerate() {
        below += count;
        let limit = match exponent + 1 == Histogram::BUCKETS {
            true => "+Inf".to_owned(),
            // The exponent is below 32, so the result is exact.
            false => ((1_u64 << exponent) as f64 / 1e6).to_string(),
        };
        samples.push(new("_bucket", format!(",le=\"{limit}\""), below as f64));
    }
    samples.push(new("_sum", String::new(), histogram.sum().as_secs_f64()));
    samples.push(new("_count", String::new(), below as f64));
    samples
}

#[cfg(test)]
mod tests {
    use super::*;

    fn text() -> String {
        let options = Options {
            job_weights: [(7, 2)].into(),
            ..Options::default()
        };
        let (engine, daemon) = (crate::zbmi::Counters::default(), DaemonCounters::default());
        let view = View {
            engine: &engine,
            gauges: crate::zbmi::Gauges::default(),
            daemon: &daemon,
            server: true,
            reported: ServerStatistics::default(),
            huge_page_bytes: 0,
            options: &options,
            uptime: Duration::from_secs(60),
            clients: &[(3, ClientTraffic::default()), (7, ClientTraffic::default())],
        };
        exposition(&view.samples())
    }

    // [WATCH-1]
    #[test]
    fn every_metric_is_explained_once_and_before_its_values() {
        let text = text();
        let mut explained = std::collections::BTreeSet::new();
        for line in text.lines() {
            if let Some(rest) = line.strip_prefix("# TYPE ") {
                let name = rest.split(' ').next().unwrap();
                assert!(explained.insert(name), "{name} twice");
            } else if !line.starts_with('#') {
                let name = line.split(['{', ' ']).next().unwrap();
                let base = ["_bucket", "_sum", "_count"]
                    .iter()
                    .find_map(|suffix| name.strip_suffix(suffix))
                    .filter(|base| explained.contains(base));
                assert!(base.is_some() || explained.contains(name), "{line}");
            }
        }
        assert!(text.contains("zoidd_server_attached 1"), "{text}");
        assert!(text.contains("zoidd_job_weight{job=\"7\"} 2"), "{text}");
        assert!(
            text.contains("zoidd_client_not_now_total{pid=\"7\"} 0"),
            "{text}"
        );
    }

    #[test]
    fn what_is_written_is_read_back() {
        let text = text();
        let lines = text.lines().filter(|line| !line.starts_with('#'));
        assert!(lines.clone().all(|line| metric(line).is_some()));
        assert_eq!(metric("a{b=\"c d\"} 1.5").unwrap().value, 1.5);
        assert_eq!(metric("nothing"), None);
    }
}
