//! The rates of a report and their sources, and routers that get more than they forward.

use std::collections::BTreeSet;

use maud::{Markup, html};

use crate::machine::Machine;
use crate::rates::{RateSource, known_routers};
use crate::report::study::Study;
use crate::topology::Link;

/// Most different rates that are listed one by one.
const LISTED: usize = 6;

/// Rates of one kind of parts.
pub(super) struct Rates<'a> {
    /// What has the rates.
    pub(super) what: &'static str,
    /// The rates in GB/s, in words.
    pub(super) values: String,
    /// Where they come from.
    pub(super) source: &'a RateSource,
}

/// Returns the rates of links and interfaces that the figures use.
pub(super) fn all(machine: &Machine) -> Vec<Rates<'_>> {
    let links =
        (0..machine.fabric.link_slots()).filter_map(|link| machine.fabric.capacity(Link(link)));
    let routers: BTreeSet<u32> = machine.routers.iter().map(|router| router.id).collect();
    let nics = |of_routers: bool| -> Vec<f64> {
        let nodes = machine.details.nics.iter();
        let nodes = nodes.filter(|(id, _)| routers.contains(id) == of_routers);
        let nics = nodes.flat_map(|(_, nics)| nics);
        nics.filter_map(|nic| nic.rate).collect()
    };
    let sources = &machine.rates;
    let rows = [
        ("links", in_words(links), &sources.links),
        (
            "interfaces of clients",
            in_words(nics(false)),
            &sources.nics,
        ),
        ("interfaces of routers", in_words(nics(true)), &sources.nics),
    ];
    let known = rows.into_iter().filter(|(_, values, _)| !values.is_empty());
    known
        .map(|(what, values, source)| Rates {
            what,
            values,
            source,
        })
        .collect()
}

/// Lists different rates, or the lowest and the highest of many.
pub(super) fn in_words(rates: impl IntoIterator<Item = f64>) -> String {
    // Rates are positive, so their bits have the order of the numbers.
    let bits: BTreeSet<u64> = rates.into_iter().map(f64::to_bits).collect();
    let words: Vec<String> = bits
        .iter()
        .map(|&bits| f64::from_bits(bits).to_string())
        .collect();
    match &words[..] {
        [first, .., last] if words.len() > LISTED => {
            format!("{first} to {last}, {} different ones", words.len())
        }
        words => words.join(", "),
    }
}

/// The section of the page.
pub(super) fn section(machine: &Machine, study: &Study) -> Markup {
    let (known, unknown) = known_routers(machine);
    html! {
        section id="rates" {
            h2 { "Rates and their sources" }
            div.panel.scroll { table {
                thead { tr {
                    th scope="col" { "rates of" }
                    th scope="col" { "GB/s" }
                    th.name scope="col" { "source" }
                } }
                tbody { @for rates in all(machine) { tr {
                    th scope="row" { (rates.what) }
                    td { (rates.values) }
                    td.name { (rates.source.to_string()) }
                } } }
            } }
            p {
                @if unknown == 0 {
                    "Each router forwards what its slower side lets pass."
                } @else {
                    "The rate of " (unknown) " of " (known + unknown) " routers is not known; a router without a rate limits nothing."
                    @if known > 0 { " Each other router forwards what its slower side lets pass." }
                }
            }
            @if !study.router_rates.is_empty() {
                section.warnings {
                    strong { "Routers that the plan gives more than they forward" }
                    ul { @for found in &study.router_rates { li { (found.to_string()) } } }
                }
            }
        }
    }
}
