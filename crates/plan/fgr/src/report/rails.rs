//! The report of the rails of a fabric without routers.

use std::collections::BTreeSet;

use maud::{DOCTYPE, Markup, PreEscaped, html};

use crate::import::{RailHosts, WIDTH_AND_SPEED};
use crate::rails::{LeafLoss, RailFacts, RailPlan, RailProof};
use crate::rates::{Known, RateSource};
use crate::report::charts::histogram;
use crate::report::page::{PAGE, count};
use crate::report::rates::in_words;
use crate::report::svg::{Picture, STYLE};

/// Most leaf switches, findings and notes that the page lists.
const LISTED: usize = 256;

/// The whole page.
pub(super) fn page(hosts: &RailHosts, plan: &RailPlan, proof: &RailProof, command: &str) -> String {
    let facts = plan.facts(hosts);
    let markup = html! {
        (DOCTYPE)
        html lang="en" {
            head {
                meta charset="utf-8";
                meta name="viewport" content="width=device-width, initial-scale=1";
                title { "Rails of a fabric" }
                style { (PreEscaped(PAGE)) (PreEscaped(STYLE)) }
            }
            body {
                main {
                    (head(hosts, plan, proof, command))
                    (rails(&facts))
                    (classes(plan))
                    (proved(proof))
                    (leaves(proof))
                    (rates(hosts))
                }
            }
        }
    };
    markup.into_string()
}

fn head(hosts: &RailHosts, plan: &RailPlan, proof: &RailProof, command: &str) -> Markup {
    let lost: u64 = proof.leaves.iter().map(|leaf| leaf.lost).max().unwrap_or(0);
    let left = proof.leaves.iter().filter_map(|leaf| leaf.left).min();
    let cards = [
        (count(hosts.hosts.len()), "hosts"),
        (plan.rails().to_string(), "rails"),
        (proof.pairs.to_string(), "pairs of a client and a server"),
        (
            left.map_or_else(|| "-".to_owned(), |(left, of)| format!("{left} of {of}")),
            "rails left to a pair when a leaf switch fails",
        ),
        (lost.to_string(), "pairs lost by the worst leaf switch"),
    ];
    let notes: Vec<&String> = hosts.warnings.iter().chain(&hosts.skipped).collect();
    html! {
        header {
            h1 { "Rails of a fabric" }
            p.lead {
                @if proof.findings.is_empty() {
                    "Proved: clients and servers meet, no rail is idle, no rule is without effect."
                } @else {
                    "Not proved: see the findings."
                }
            }
            p.note { "Made by " code { (command) } }
            @if !notes.is_empty() {
                section.warnings {
                    strong { "To know before using this" }
                    (list(&notes))
                }
            }
            nav {
                @for (id, name) in [("rails", "Rails"), ("classes", "Nets and rules"), ("proof", "Proof"),
                    ("leaves", "Failures of leaf switches"), ("rates", "Rates")] {
                    a href={ "#" (id) } { (name) }
                }
            }
        }
        div.cards {
            @for (figure, name) in &cards { div.card { b { (figure) } (name) } }
        }
    }
}

/// Lists texts, and how many more there are.
fn list<T: std::fmt::Display>(texts: &[T]) -> Markup {
    html! {
        ul {
            @for text in texts.iter().take(LISTED) { li { (text.to_string()) } }
            @if let Some(more @ 1..) = texts.len().checked_sub(LISTED) { li { "and " (more) " more" } }
        }
    }
}

fn rails(facts: &[RailFacts]) -> Markup {
    html! {
        section id="rails" {
            h2 { "Rails" }
            div.panel.scroll { table {
                thead { tr {
                    @for name in ["rail", "leaf switches", "clients", "servers", "NUMA node"] { th scope="col" { (name) } }
                    @for name in ["net", "interface", "adapters"] { th.name scope="col" { (name) } }
                } }
                tbody { @for rail in facts { tr {
                    th scope="row" { (rail.rail) }
                    td { (rail.leaves) }
                    td { (rail.clients) }
                    td { (rail.servers) }
                    td { @if let Some(partition) = rail.partition { (partition) } @else { "-" } }
                    td.name { (rail.net.to_string()) }
                    td.name { (rail.interface) }
                    td.name { (rail.adapters.join(" ")) }
                } } }
            } }
        }
    }
}

fn classes(plan: &RailPlan) -> Markup {
    let site = &plan.site;
    let hosts = |class: usize| site.nodes.iter().filter(|node| node.class == class).count();
    html! {
        section id="classes" {
            h2 { "Nets and rules" }
            @for (index, class) in site.classes.iter().enumerate() {
                @let nets: Vec<String> = class.config.nets.iter().map(|net| net.net.to_string()).collect();
                h3 { (class.name) }
                p { "Hosts: " (hosts(index)) ". Nets: " (nets.join(", ")) "." }
                @if !class.rules.is_empty() {
                    ul { @for rule in &class.rules { li { code { "lnetctl udsp add " (rule.to_string()) } } } }
                }
            }
        }
    }
}

fn proved(proof: &RailProof) -> Markup {
    html! {
        section id="proof" {
            h2 { "Proof" }
            @if proof.findings.is_empty() {
                p { "Clients and servers meet, no rail is idle, no rule is without effect." }
            } @else {
                section.warnings { strong { "Findings" } (list(&proof.findings)) }
            }
            @if !proof.uneven.is_empty() {
                p { "Hosts that lack a rail leave it idle on their peers, which use it towards others:" }
                (list(&proof.uneven))
            }
        }
    }
}

fn leaves(proof: &RailProof) -> Markup {
    let shown = &proof.leaves[..proof.leaves.len().min(LISTED)];
    html! {
        section id="leaves" {
            h2 { "Failures of leaf switches" }
            p { "What is missing from the failure of a leaf switch until it is repaired." }
            div.grid.charts {
                @for picture in pictures(&proof.leaves) {
                    figure.panel {
                        (PreEscaped(picture.inside()))
                        figcaption { strong { (picture.title) ". " } (picture.words) }
                    }
                }
            }
            div.panel.scroll.tall { table {
                thead { tr {
                    @for name in ["leaf", "rails", "hosts", "pairs with fewer rails", "rails left", "pairs lost"] {
                        th scope="col" { (name) }
                    }
                } }
                tbody { @for leaf in shown {
                    @let rails: Vec<String> = leaf.rails.iter().map(usize::to_string).collect();
                    tr {
                        th scope="row" { (leaf.leaf) }
                        td { (rails.join(" ")) }
                        td { (leaf.hosts) }
                        td { (leaf.reduced) }
                        td { @if let Some((left, of)) = leaf.left { (left) " of " (of) } @else { "-" } }
                        td { (leaf.lost) }
                    }
                } }
            } }
            @if let Some(more @ 1..) = proof.leaves.len().checked_sub(LISTED) {
                p.note { "And " (more) " more leaf switches." }
            }
        }
    }
}

/// Draws the hosts of each leaf switch, and the pairs that its end costs a rail.
fn pictures(leaves: &[LeafLoss]) -> [Picture; 2] {
    let bars = |value: &dyn Fn(&LeafLoss) -> f64| -> Vec<(String, f64)> {
        let numbered = (1..).zip(leaves);
        numbered
            .map(|(number, leaf): (usize, _)| (number.to_string(), value(leaf)))
            .collect()
    };
    let words = |what: &str, value: &dyn Fn(&LeafLoss) -> u64| {
        let values = || leaves.iter().map(value);
        let (least, most) = (values().min().unwrap_or(0), values().max().unwrap_or(0));
        format!("Leaf switches in the order of the table; from {least} to {most} {what}.")
    };
    let hosts = bars(&|leaf| leaf.hosts as f64);
    let mut of_hosts = histogram(
        "leaf-hosts",
        "Hosts of each leaf switch",
        "leaf switch",
        &hosts,
    );
    of_hosts.words = words("hosts", &|leaf| leaf.hosts as u64);
    let pairs = bars(&|leaf| leaf.reduced as f64);
    let title = "Pairs with fewer rails after its failure";
    let mut of_pairs = histogram("leaf-pairs", title, "leaf switch", &pairs);
    of_pairs.words = words("pairs", &|leaf| leaf.reduced);
    [of_hosts, of_pairs]
}

fn rates(hosts: &RailHosts) -> Markup {
    let source = RateSource::new(Known::Published, WIDTH_AND_SPEED);
    let of = |rail: usize| {
        let adapters = hosts
            .hosts
            .iter()
            .filter_map(move |host| host.adapters[rail].as_ref());
        in_words(adapters.map(|adapter| adapter.rate))
    };
    let values: BTreeSet<String> = (0..hosts.rails).map(of).collect();
    let is_even = values.len() == 1;
    html! {
        section id="rates" {
            h2 { "Rates and their sources" }
            div.panel.scroll { table {
                thead { tr {
                    th scope="col" { "rates of" }
                    th scope="col" { "GB/s" }
                    th.name scope="col" { "source" }
                } }
                tbody {
                    @if is_even {
                        tr { th scope="row" { "adapters" } td { (of(0)) } td.name { (source.to_string()) } }
                    } @else {
                        @for rail in 0..hosts.rails { tr {
                            th scope="row" { "adapters of rail " (rail + 1) }
                            td { (of(rail)) }
                            td.name { (source.to_string()) }
                        } }
                    }
                }
            } }
        }
    }
}
