//! The report of a plan: one self-contained HTML file, and each of its parts as SVG or CSV.
//!
//! ```text
//!   Machine, Plan ──▶ Study (every figure, computed once) ──▶ page    HTML, pictures inside
//!                                                         └─▶ parts   *.svg, *.csv
//! ```
//!
//! The page has no script and loads nothing: details of a point or module follow the focus and the
//! selected link. Every picture has its figures in words below it, for readers who cannot see it or
//! want to quote it. Equal plans give equal bytes.

mod charts;
mod layout;
mod page;
mod pictures;
mod rails;
mod rates;
mod study;
mod svg;
mod tables;

pub use study::{Comparison, Study};

use crate::import::RailHosts;
use crate::machine::Machine;
use crate::rails::{RailPlan, RailProof};

/// A file of the report.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Part {
    /// File name: `machine.svg`.
    pub name: String,
    /// Text of the file.
    pub content: String,
}

/// Returns the report as one HTML file. `command` is the command that makes the report; the page
/// shows it.
#[must_use]
pub fn html(machine: &Machine, study: &Study, command: &str) -> String {
    page::page(machine, study, command)
}

/// Returns the report of the rails of a fabric as one HTML file.
#[must_use]
pub fn rails_html(hosts: &RailHosts, plan: &RailPlan, proof: &RailProof, command: &str) -> String {
    rails::page(hosts, plan, proof, command)
}

/// Returns every picture as SVG and every table as CSV.
#[must_use]
pub fn parts(machine: &Machine, study: &Study) -> Vec<Part> {
    let pictures = pictures::all(machine, study).into_iter();
    let drawn = pictures
        .chain(charts::fronts(study))
        .chain(charts::all(study))
        .map(|picture| Part {
            content: picture.alone(),
            name: format!("{}.svg", picture.name),
        });
    drawn.chain(tables::all(machine, study)).collect()
}
