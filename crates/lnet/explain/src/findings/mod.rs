//! Searches for the causes of trouble that a node shows, one function for each cause.
//!
//! Each search is a function of the node, the question and the recorded selection. No search chooses a path.

mod interfaces;
mod paths;
mod routes;
mod rules;

use lnet_core::{PeerSelection, SelectionState};
use lnet_types::{Net, Nid};

use crate::Question;
use crate::explanation::Policies;
use crate::finding::{Code, Finding, Severity};
use crate::node::Node;
use crate::selection::Told;

/// The input of the searches.
#[derive(Clone, Copy)]
pub(crate) struct Context<'a> {
    pub(crate) node: &'a Node,
    pub(crate) question: &'a Question,
    pub(crate) told: &'a Told,
    pub(crate) policies: &'a Policies,
}

/// A search for one cause.
type Search = fn(&Context<'_>) -> Vec<Finding>;

const SEARCHES: [Search; 21] = [
    paths::net_not_reached,
    paths::no_path,
    paths::primary_not_reached,
    paths::peer_nets_missing,
    paths::rail_mismatch,
    paths::subnets_apart,
    paths::credits_exhausted,
    paths::mixed_fabrics,
    paths::discovery_first,
    routes::route_down,
    routes::gateway_health,
    interfaces::ni_down,
    interfaces::interface_missing,
    interfaces::interface_down,
    interfaces::shared_device_down,
    interfaces::one_subnet,
    interfaces::ip2nets_host_match,
    rules::rule_findings,
    rules::cannot_matter,
    rules::timeouts_misaligned,
    rules::failures_counted,
];

/// Runs all searches, and returns the findings with the most severe first.
pub(crate) fn findings(context: &Context<'_>) -> Vec<Finding> {
    let mut found: Vec<Finding> = SEARCHES.iter().flat_map(|search| search(context)).collect();
    found.sort_by_key(|finding| std::cmp::Reverse(finding.severity));
    found
}

impl<'a> Context<'a> {
    fn state(&self) -> &'a SelectionState {
        &self.node.state
    }

    /// Returns the peer that the question is about, if the peer is known.
    fn peer(&self) -> Option<&'a PeerSelection> {
        let to = self.question.to;
        self.state()
            .peers
            .iter()
            .find(|peer| peer.nids.contains(&to))
    }

    fn has_net(&self, net: Net) -> bool {
        self.state().nis.iter().any(|ni| ni.nid.net() == net)
    }

    fn has_route(&self, net: Net) -> bool {
        self.state()
            .routes
            .iter()
            .any(|route| route.route.net == net)
    }

    fn is_own(&self, nid: Nid) -> bool {
        self.state().nis.iter().any(|ni| ni.nid == nid)
    }
}

fn finding(
    code: Code,
    severity: Severity,
    subject: impl ToString,
    text: String,
    advice: impl ToString,
) -> Finding {
    Finding {
        code,
        severity,
        subject: subject.to_string(),
        text,
        advice: advice.to_string(),
    }
}

/// Joins names with commas.
fn listed<T: ToString>(items: impl IntoIterator<Item = T>) -> String {
    let items: Vec<String> = items.into_iter().map(|item| item.to_string()).collect();
    items.join(", ")
}
