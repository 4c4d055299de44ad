//! The metrics of a kernel node as OpenMetrics text, with the names of those of a node of Finerail.

use std::fmt::Write as _;

use lnet_config::{Document, MessageStats, NiShow, NodeStats, PeerNiShow, RouteShow, Status};
use lnet_site::lint::Finding;

/// The most interfaces of peers, and the most routes, with series of their own.
const SERIES_MAX: usize = 1000;

/// A page of metrics.
#[derive(Default)]
pub(super) struct Page(String);

/// The labels and the value of a series.
type Row = (String, i128);

#[derive(Clone, Copy, PartialEq, Eq)]
enum Kind {
    Counter,
    Gauge,
}

impl Page {
    /// Returns the page of a reading, made at a time in seconds since 1970.
    pub(super) fn of(document: &Document, findings: &[Finding], at: u64) -> String {
        let mut page = Self::default();
        page.reading(true, at);
        page.findings(findings);
        if let Some(counts) = &document.statistics {
            page.node(counts);
        }
        let nis: Vec<&NiShow> = document.nets.iter().flat_map(|net| &net.nis).collect();
        page.nis(&nis);
        page.routes(&document.routes);
        let peers = document.peers.iter().flat_map(|peer| &peer.nis);
        let peers: Vec<&PeerNiShow> = peers.take(SERIES_MAX).collect();
        page.peers(&peers);
        page.0 + "# EOF\n"
    }

    /// Returns the page after a reading that failed.
    pub(super) fn unread(at: u64) -> String {
        let mut page = Self::default();
        page.reading(false, at);
        page.0 + "# EOF\n"
    }

    fn reading(&mut self, is_good: bool, at: u64) {
        let rows = [(String::new(), i128::from(is_good))];
        self.family(
            "lnet_reading_ok",
            "1 if the last reading of the kernel's LNet succeeded.",
            Kind::Gauge,
            rows,
        );
        let rows = [(String::new(), i128::from(at))];
        self.family(
            "lnet_reading_time_seconds",
            "When LNet was read last.",
            Kind::Gauge,
            rows,
        );
    }

    fn findings(&mut self, findings: &[Finding]) {
        let mut counts: Vec<((&str, String), i128)> = Vec::new();
        for finding in findings {
            let key = (finding.code, finding.severity.to_string());
            match counts.iter_mut().find(|(known, _)| *known == key) {
                Some((_, count)) => *count += 1,
                None => counts.push((key, 1)),
            }
        }
        let rows = counts.into_iter().map(|((code, severity), count)| {
            (labels(&[("code", code), ("severity", &severity)]), count)
        });
        self.family(
            "lnet_findings",
            "What the lints find, by code.",
            Kind::Gauge,
            rows,
        );
    }

    fn node(&mut self, counts: &NodeStats) {
        for (name, help, value) in [
            ("sent_messages", "Messages sent.", counts.send_count),
            ("received_messages", "Messages received.", counts.recv_count),
            (
                "errors",
                "Messages that failed to be sent or received.",
                counts.errors,
            ),
            (
                "response_timeouts",
                "ACKs and REPLYs that did not arrive in time.",
                counts.response_timeout_count,
            ),
        ] {
            self.family(
                &format!("finerail_{name}"),
                help,
                Kind::Counter,
                [(String::new(), value.into())],
            );
        }
        let classes = [
            ("local_interrupt", counts.local_interrupt_count),
            ("local_dropped", counts.local_dropped_count),
            ("local_aborted", counts.local_aborted_count),
            ("local_no_route", counts.local_no_route_count),
            ("local_timeout", counts.local_timeout_count),
            ("local_error", counts.local_error_count),
            ("remote_dropped", counts.remote_dropped_count),
            ("remote_error", counts.remote_error_count),
            ("remote_timeout", counts.remote_timeout_count),
            ("network_timeout", counts.network_timeout_count),
        ];
        let rows = classes.map(|(class, count)| (labels(&[("class", class)]), count.into()));
        self.family(
            "finerail_send_failures",
            "Attempts to send that failed, by class.",
            Kind::Counter,
            rows,
        );
        let rows = [(String::new(), counts.msgs_alloc.into())];
        self.family(
            "finerail_messages_under_way",
            "Messages in flight.",
            Kind::Gauge,
            rows,
        );
    }

    fn nis(&mut self, nis: &[&NiShow]) {
        let label = |ni: &NiShow| {
            ni.config
                .nid
                .map(|nid| labels(&[("nid", &nid.to_string())]))
        };
        let is_fatal = |ni: &NiShow| ni.health.is_some_and(|health| health.fatal_error != 0);
        let up = nis
            .iter()
            .filter_map(|ni| Some((label(ni)?, is_up(ni.status)?)));
        self.family(
            "finerail_ni_up",
            "1 if the interface counts as up.",
            Kind::Gauge,
            up,
        );
        let fatal = nis
            .iter()
            .filter_map(|ni| Some((label(ni)?, i128::from(is_fatal(ni)))));
        self.family(
            "finerail_ni_fatal",
            "1 if the LND reports a fatal error.",
            Kind::Gauge,
            fatal,
        );
        let health = nis
            .iter()
            .filter_map(|ni| Some((label(ni)?, ni.health?.health_value.into())));
        self.family(
            "finerail_ni_health",
            "Health of the interface, 0 to 1000.",
            Kind::Gauge,
            health,
        );
        for (name, of) in [
            (
                "sent",
                (|ni| ni.sent) as fn(&NiShow) -> Option<MessageStats>,
            ),
            ("received", |ni| ni.received),
            ("dropped", |ni| ni.dropped),
        ] {
            let rows = nis
                .iter()
                .filter_map(|ni| Some((ni.config.nid?.to_string(), of(ni)?)));
            let rows = rows.flat_map(|(nid, counts)| types(&nid, &counts));
            let help = format!("Messages {name}, by type.");
            self.family(
                &format!("finerail_ni_{name}_messages"),
                &help,
                Kind::Counter,
                rows,
            );
        }
        self.ni_failures(nis);
    }

    fn ni_failures(&mut self, nis: &[&NiShow]) {
        let failures = nis
            .iter()
            .filter_map(|ni| Some((ni.config.nid?.to_string(), ni.health?)));
        let failures = failures.flat_map(|(nid, failed)| {
            let classes = [
                ("local_interrupt", failed.interrupts),
                ("local_dropped", failed.dropped),
                ("local_aborted", failed.aborted),
                ("local_no_route", failed.no_route),
                ("local_timeout", failed.timeouts),
                ("local_error", failed.error),
            ];
            classes.map(|(class, count)| {
                (
                    labels(&[("nid", &nid), ("class", class)]),
                    i128::from(count),
                )
            })
        });
        let help = "Failed attempts that count against the interface, by class.";
        self.family("finerail_ni_failures", help, Kind::Counter, failures);
    }

    fn routes(&mut self, routes: &[RouteShow]) {
        let rows = [(
            String::new(),
            i128::try_from(routes.len()).unwrap_or(i128::MAX),
        )];
        self.family(
            "finerail_routes",
            "Routes, with or without their own series.",
            Kind::Gauge,
            rows,
        );
        let up = routes.iter().take(SERIES_MAX).filter_map(|route| {
            let (net, gateway) = (route.net.to_string(), route.gateway.to_string());
            Some((
                labels(&[("net", &net), ("gateway", &gateway)]),
                is_up(route.state)?,
            ))
        });
        self.family(
            "finerail_route_up",
            "1 if the route can be used.",
            Kind::Gauge,
            up,
        );
    }

    fn peers(&mut self, peers: &[&PeerNiShow]) {
        let label = |peer: &PeerNiShow| labels(&[("peer", &peer.nid.to_string())]);
        let health = peers
            .iter()
            .filter_map(|one| Some((label(one), one.health?.health_value.into())));
        self.family(
            "finerail_peer_ni_health",
            "Health of the peer interface, 0 to 1000.",
            Kind::Gauge,
            health,
        );
        let up = peers
            .iter()
            .filter_map(|one| Some((label(one), is_up(one.state)?)));
        self.family(
            "finerail_peer_ni_up",
            "1 unless the interface was reported down.",
            Kind::Gauge,
            up,
        );
        let credits = peers.iter().filter_map(|one| {
            let credits = one.credits.as_ref()?;
            Some((label(one), credits.available_tx.into()))
        });
        let help =
            "Available transmit credits; a negative value is the number of messages that wait.";
        self.family("finerail_peer_ni_tx_credits", help, Kind::Gauge, credits);
        for (name, of) in [
            (
                "sent",
                (|one| Some(one.statistics?.send_count)) as fn(&PeerNiShow) -> Option<u64>,
            ),
            ("received", |one| Some(one.statistics?.recv_count)),
            ("dropped", |one| Some(one.statistics?.drop_count)),
        ] {
            let rows = peers
                .iter()
                .filter_map(|one| Some((label(one), of(one)?.into())));
            let help = format!("Messages {name}.");
            self.family(
                &format!("finerail_peer_ni_{name}_messages"),
                &help,
                Kind::Counter,
                rows,
            );
        }
        let failures = peers
            .iter()
            .filter_map(|one| Some((one.nid.to_string(), one.health?)));
        let failures = failures.flat_map(|(nid, failed)| {
            let classes = [
                ("remote_dropped", failed.dropped),
                ("remote_timeout", failed.timeout),
                ("remote_error", failed.error),
                ("network_timeout", failed.network_timeout),
            ];
            classes.map(|(class, count)| {
                (
                    labels(&[("peer", &nid), ("class", class)]),
                    i128::from(count),
                )
            })
        });
        let help = "Failed attempts that count against the peer interface, by class.";
        self.family("finerail_peer_ni_failures", help, Kind::Counter, failures);
    }

    fn family(&mut self, name: &str, help: &str, kind: Kind, rows: impl IntoIterator<Item = Row>) {
        let (word, total) = match kind {
            Kind::Counter => ("counter", "_total"),
            Kind::Gauge => ("gauge", ""),
        };
        // Writing to a String cannot fail.
        let _infallible = writeln!(self.0, "# HELP {name} {help}\n# TYPE {name} {word}");
        for (labels, value) in rows {
            let _infallible = writeln!(self.0, "{name}{total}{labels} {value}");
        }
    }
}

fn types(nid: &str, counts: &MessageStats) -> [Row; 4] {
    let types = [
        ("put", counts.put),
        ("get", counts.get),
        ("reply", counts.reply),
        ("ack", counts.ack),
    ];
    types.map(|(kind, count)| (labels(&[("nid", nid), ("type", kind)]), count.into()))
}

fn is_up(status: Option<Status>) -> Option<i128> {
    match status? {
        Status::Up => Some(1),
        Status::Down => Some(0),
        Status::NotWatched => None,
    }
}

/// Returns labels in braces. Values are NIDs, nets, and names of this program, none of which needs an escape.
fn labels(labels: &[(&str, &str)]) -> String {
    let all: Vec<String> = labels
        .iter()
        .map(|(name, value)| format!("{name}=\"{value}\""))
        .collect();
    format!("{{{}}}", all.join(","))
}
