//! The document of this machine's own node: its port, its NIs and routes, and what is wrong with them here.

use std::net::IpAddr;
use std::path::Path;

use anyhow::Context;
use lnet_conform::{Finding, OWN_ADDRESS_MISSING, OWN_NET_MISSING, OWN_SOURCE_DIFFERS};
use lnet_site::lint::{self, Input, LINTS, Settings, Severity};
use lnet_types::Nid;

use super::{Examined, FindingRow, Row, StepRow};
use crate::common::read_text;
use crate::ip;
use crate::ping::{endpoint_address, is_here};

/// The lints of what decides whether other machines are reached: interfaces, addresses, gateways. `finerail lint` has the
/// others.
const PLACES: [&str; 15] = [
    "unreadable",
    "import-refused",
    "option-mistaken",
    "interface-missing",
    "interface-down",
    "first-interface",
    "loopback-interface",
    "virtual-interface",
    "nid-not-of-interface",
    "wrong-interface",
    "one-subnet",
    "host-prefixes",
    "subnets-apart",
    "ip2nets-host-match",
    "gateway-not-local",
];

/// The document, and what was found in it.
pub(super) struct Own {
    name: String,
    settings: Settings,
    findings: Vec<lint::Finding>,
    /// The reason why the interfaces of this machine are not known; `None` if they are.
    unknown: Option<String>,
}

impl Own {
    /// Reads a document and compares it with the interfaces of this machine.
    pub(super) fn read(path: &Path) -> anyhow::Result<Self> {
        let name = path.display().to_string();
        let text = read_text(path).with_context(|| format!("cannot read {name}"))?;
        let (interfaces, unknown) = match ip::addresses() {
            Ok(interfaces) => (Some(interfaces), None),
            Err(error) => (None, Some(format!("{error:#}"))),
        };
        let input = Input {
            name: &name,
            text: &text,
            interfaces: interfaces.as_deref(),
            port: None,
        };
        let mut findings = lint::lint(&[input])?.findings;
        findings.retain(|one| one.severity > Severity::Note && PLACES.contains(&one.code));
        Ok(Self {
            settings: lint::settings(&input)?,
            findings,
            unknown,
            name,
        })
    }

    /// Returns the port of the node, if the document names one.
    pub(super) fn port(&self) -> Option<u16> {
        self.settings.port
    }

    /// Returns the gateways to a NID. A NID on a local net has none.
    pub(super) fn gateways(&self, nid: Nid) -> Vec<Nid> {
        let is_local = self.settings.nis.iter().any(|ni| ni.net == nid.net());
        let routes = self.settings.routes.iter().filter(|_| !is_local);
        let to_net = routes.filter(|(net, _)| *net == nid.net());
        to_net.map(|(_, gateway)| *gateway).collect()
    }

    /// Returns the address from which the node dials a NID, if the document names one that this machine has.
    pub(super) fn source(&self, nid: Nid, port: u16) -> Option<IpAddr> {
        let usual = nid.ip().and_then(|ip| endpoint_address(ip, port).ok());
        let mut here: Vec<IpAddr> = self.addresses(nid).filter(|ip| is_here(*ip)).collect();
        // With several NIs, a node uses each of them; the usual one proves the most.
        here.sort_by_key(|ip| Some(*ip) != usual);
        here.into_iter().find(|ip| Some(*ip) != nid.ip())
    }

    /// Returns the addresses of the NIs on the net of a NID.
    fn addresses(&self, nid: Nid) -> impl Iterator<Item = IpAddr> {
        let nis = self.settings.nis.iter();
        nis.filter(move |ni| ni.net == nid.net())
            .filter_map(|ni| ni.address())
    }

    /// Returns what this machine's document has wrong for a node that is dialled directly.
    pub(super) fn findings_for(&self, nid: Nid, port: u16) -> Vec<Finding> {
        let Some(address) = nid.ip() else {
            return Vec::new();
        };
        let net = nid.net();
        if self.settings.nis.iter().all(|ni| ni.net != net) {
            let known = &self.settings;
            let has: Vec<String> = known.nis.iter().map(|ni| ni.net.to_string()).collect();
            let seen = format!(
                "{} has no NI on {net} and no route there; it has {}",
                self.name,
                if has.is_empty() {
                    "no net".to_owned()
                } else {
                    has.join(", ")
                }
            );
            let kind = &OWN_NET_MISSING;
            return if known.is_partial {
                Vec::new()
            } else {
                vec![Finding { kind, seen }]
            };
        }
        let own: Vec<IpAddr> = self.addresses(nid).collect();
        let absent = own.iter().filter(|ip| !is_here(**ip)).map(|ip| {
            let seen = format!("{} has an NI of {net} with {ip}", self.name);
            let kind = &OWN_ADDRESS_MISSING;
            Finding { kind, seen }
        });
        let mut found: Vec<Finding> = absent.collect();
        let usual = endpoint_address(address, port).ok();
        if let Some(usual) = usual.filter(|usual| !own.is_empty() && !own.contains(usual)) {
            let listed: Vec<String> = own.iter().map(ToString::to_string).collect();
            let by = ip::route_to(address, None).map(|route| format!(" ({})", route.dev));
            let seen = format!(
                "this machine reaches {address} from {usual}{}, and the NI of {net} has {}",
                by.unwrap_or_default(),
                listed.join(", ")
            );
            let kind = &OWN_SOURCE_DIFFERS;
            found.push(Finding { kind, seen });
        }
        found
    }

    pub(super) fn is_right(&self) -> bool {
        self.findings.is_empty()
    }

    /// Returns the report about the document.
    pub(super) fn text(&self) -> String {
        let mut text = format!("{}\n", self.name);
        for step in self.steps() {
            text.push_str(&Examined::step_text(step.step, step.tested, &step.seen));
        }
        for finding in &self.findings {
            text.push_str(&format!(
                "{} {}: {}\n    to do: {}\n",
                finding.severity, finding.code, finding.reason, finding.fix
            ));
        }
        text + &Examined::end_text(&self.name, self.findings.len())
    }

    fn steps(&self) -> Vec<StepRow> {
        let nis = self.settings.nis.iter().map(|ni| {
            let nid = ni
                .nid
                .map_or_else(|| ni.net.to_string(), |nid| nid.to_string());
            match &ni.interface {
                Some(interface) => format!("{nid} ({interface})"),
                None => nid,
            }
        });
        let nis: Vec<String> = nis.collect();
        let port = self.port().map(|port| format!("; port {port}"));
        let seen = format!("{}{}", nis.join(", "), port.unwrap_or_default());
        let configured = StepRow {
            step: "document",
            tested: true,
            seen: if nis.is_empty() {
                format!("no NI{seen}")
            } else {
                seen
            },
        };
        let unknown = self.unknown.iter().map(|why| StepRow {
            step: "interfaces",
            tested: false,
            seen: why.clone(),
        });
        std::iter::once(configured).chain(unknown).collect()
    }

    pub(super) fn row(&self) -> Row<'_> {
        let findings = self.findings.iter().map(|finding| {
            let lint = LINTS.iter().find(|lint| lint.code == finding.code);
            FindingRow {
                name: finding.code,
                severity: finding.severity.to_string(),
                seen: finding.reason.clone(),
                means: lint.map_or("", |lint| lint.finds),
                to_do: finding.fix.clone(),
            }
        });
        Row {
            nid: &self.name,
            address: None,
            source: None,
            privileged: false,
            steps: self.steps(),
            findings: findings.collect(),
        }
    }
}
