//! The report of the demo: one HTML file that needs no scripts and no other files.

use std::fmt::Write as _;

use maud::{DOCTYPE, Markup, PreEscaped, html};

use super::outcome::{Outcome, moved, seconds};
use super::watch::Track;

/// The milliseconds that one point of the timeline stands for.
const STEP_MS: u64 = 250;
/// The size of the drawing, in units of its own; the page scales it.
const WIDTH: f64 = 1000.0;
const BAND: f64 = 100.0;
const LEFT: f64 = 0.0;
/// The part of a band above its curve, for its name.
const HEAD: f64 = 30.0;
/// The lowest rate that the full height of a band stands for, in bytes a second. Without it, pings alone would
/// fill the band.
const LOWEST_PEAK: f64 = 1e6;

/// Returns the page.
pub(super) fn page(outcome: &Outcome) -> String {
    html! {
        (DOCTYPE)
        html lang="en" {
            head {
                meta charset="utf-8";
                meta name="viewport" content="width=device-width, initial-scale=1";
                title { "Finerail demo" }
                style { (PreEscaped(include_str!("page.css"))) }
            }
            body {
                h1 { "Finerail demo" }
                p { (verdict(outcome)) }
                p { (outcome.world) " " (outcome.mount) }
                (path())
                h2 { "Throughput and faults" }
                p { "Payload in MB/s that each node moved. A shaded band is a fault. After the last large file, the small files that are under way \
                come to their end; they carry little, and this time counts in no rate." }
                div.wide { (timeline(outcome)) }
                h2 { "Faults" }
                div.wide { (faults(outcome)) }
                h2 { "Nodes" }
                div.wide { (nodes(outcome)) }
                p { (outcome.reconciled()) }
                @if !outcome.failures.is_empty() {
                    h2 { "Commands that failed and were retried" }
                    ul { @for (why, count) in &outcome.failures { li { (count) " × " (why) } } }
                }
                h2 { "Why messages took their paths" }
                @for explanation in &outcome.explanations {
                    details {
                        summary { (explanation.when) }
                        pre { (explanation.text) }
                    }
                }
                h2 { "The plan" }
                p { "The output of " code { "finerail fgr plan" } " for each rail, and of " code { "finerail fgr check" } " for both:" }
                @for figures in &outcome.plan { pre { (figures.trim_end()) } }
                pre { (outcome.proof.trim_end()) }
            }
        }
    }
    .into_string()
}

fn verdict(outcome: &Outcome) -> Markup {
    let verified = &outcome.verified;
    html! {
        @if verified.differences.is_empty() {
            strong { "Every byte is right." }
            " " (verified.files) " files with " (verified.bytes / 1_000_000) " MB are on the storage side. "
        } @else {
            strong { "The stored files differ from the written files: " }
            (verified.differences.join("; ")) ". "
        }
        (outcome.commands) " commands carried " (outcome.bytes / 1_000_000) " MB in "
        (seconds(outcome.carried_ms)) " s; " (outcome.retries) " failed and were retried."
    }
}

fn path() -> Markup {
    let hops = [
        "compute process",
        "daemon and forwarder",
        "router",
        "storage gateway",
        "directory",
    ];
    html! {
        ol.path { @for hop in hops { li { (hop) } } }
    }
}

fn faults(outcome: &Outcome) -> Markup {
    html! {
        table {
            tr { th { "Fault" } th { "Of" } th.number { "From, s" } th.number { "To, s" }
                th.number { "No progress for, s" } th.number { "Goal, s" } th { "" } }
            @for fault in &outcome.faults {
                tr {
                    td { (fault.kind.describe()) }
                    td { (fault.target) }
                    td.number { (seconds(fault.at_ms)) }
                    td.number { (seconds(fault.until_ms)) }
                    td.number { (seconds(fault.pause_ms)) }
                    td.number { (fault.goal_ms.map(seconds).unwrap_or_default()) }
                    td { (fault.verdict()) }
                }
            }
        }
    }
}

fn nodes(outcome: &Outcome) -> Markup {
    html! {
        table {
            tr { th { "Node" } th.number { "Payload, MB" } th.number { "Routes up at the end" } th.number { "Lowest health" } }
            @for track in &outcome.tracks {
                @let last = track.points.last().cloned().unwrap_or_default();
                tr {
                    td { (track.name) }
                    td.number { (moved(track) / 1_000_000) }
                    td.number { (last.routes_up) " of " (last.routes) }
                    td.number { (track.points.iter().map(|point| point.health).min().unwrap_or_default()) }
                }
            }
        }
    }
}

/// Draws one band for each node, all on one time axis.
fn timeline(outcome: &Outcome) -> Markup {
    let end_ms = outcome.work_ms.max(STEP_MS);
    let bands = outcome.tracks.len() as f64;
    let height = BAND * bands + 40.0;
    let x = |ms: u64| LEFT + (WIDTH - LEFT) * ms as f64 / end_ms as f64;
    html! {
        svg viewBox=(format!("0 0 {WIDTH} {height}")) role="img" aria-label="Throughput of each node over time, and faults" {
            @for fault in &outcome.faults {
                @let (from, to) = (x(fault.at_ms.min(end_ms)), x(fault.until_ms.min(end_ms)));
                rect.fault x=(number(from)) y="0" width=(number((to - from).max(3.0))) height=(number(BAND * bands)) {
                    title { (fault.kind.describe()) ", " (fault.target) ", from " (seconds(fault.at_ms)) " s" }
                }
            }
            @for (index, track) in outcome.tracks.iter().enumerate() {
                (band(track, BAND * index as f64, end_ms))
            }
            @for tick in 1..=5_u64 {
                @let ms = end_ms * tick / 5;
                text.tick x=(number(x(ms))) y=(number(BAND * bands + 22.0)) { (seconds(ms)) }
            }
        }
    }
}

fn band(track: &Track, top: f64, end_ms: u64) -> Markup {
    let rates = track.rates(STEP_MS, end_ms);
    let highest = rates.iter().copied().fold(LOWEST_PEAK, f64::max);
    let last = rates.len().saturating_sub(1).max(1) as f64;
    let base = top + BAND - 6.0;
    let mut line = String::new();
    for (index, rate) in rates.iter().enumerate() {
        let x = LEFT + (WIDTH - LEFT) * index as f64 / last;
        let y = base - (BAND - 6.0 - HEAD) * rate / highest;
        let command = if index == 0 { 'M' } else { 'L' };
        // Writing to a `String` cannot fail.
        let _written = write!(line, "{command}{x:.1} {y:.1}");
    }
    html! {
        text.name x="4" y=(number(top + HEAD - 6.0)) {
            (track.name) ", at most " (format!("{:.0}", highest / 1e6)) " MB/s"
        }
        path.rate d=(line) { title { (track.name) } }
        line.base x1=(number(LEFT)) x2=(number(WIDTH)) y1=(number(base)) y2=(number(base)) {}
    }
}

fn number(value: f64) -> String {
    format!("{value:.1}")
}
