//! Histograms.

use crate::report::study::Study;
use crate::report::svg::Picture;

const WIDTH: f64 = 460.0;
const HEIGHT: f64 = 230.0;
const LEFT: f64 = 46.0;
const BOTTOM: f64 = 200.0;
const TOP: f64 = 12.0;

/// Bars of a histogram of many values.
const BARS: usize = 24;

/// The histograms of the plan.
pub(super) fn all(study: &Study) -> Vec<Picture> {
    vec![hops(study), clients(study), failures(study)]
}

fn hops(study: &Study) -> Picture {
    let e = &study.evaluation;
    let bars: Vec<(String, f64)> = e
        .hops_histogram
        .iter()
        .enumerate()
        .map(|(hops, &pairs)| (hops.to_string(), pairs))
        .collect();
    let title = "Pairs of a client and a net by hops to the primary";
    let mut picture = histogram("hops", title, "hops", &bars);
    picture.words = format!(
        "{:.0} pairs; from {} to {} hops, mean {:.3}, standard deviation {:.2}.",
        e.hops.count as f64, e.hops.min, e.hops.max, e.hops.mean, e.hops.deviation
    );
    picture
}

fn clients(study: &Study) -> Picture {
    let loads: Vec<f64> = study.clients.iter().copied().filter(|&c| c > 0.0).collect();
    let e = &study.evaluation;
    let title = "Routers by clients whose primary they are";
    let mut picture = histogram("router-clients", title, "clients", &binned(&loads));
    picture.words = format!(
        "{} data routers serve from {:.0} to {:.0} clients, mean {:.1}: the most loaded one has {:.3} times the mean; 1 would be even.",
        e.router_load.count,
        e.router_load.min,
        e.router_load.max,
        e.router_load.mean,
        e.balance()
    );
    picture
}

fn failures(study: &Study) -> Picture {
    let loads: Vec<f64> = study.failures.iter().map(|f| f.worst_load).collect();
    let title = "Single-module failures by the load of the worst router";
    let mut picture = histogram("failures", title, "times the mean before", &binned(&loads));
    let most = loads.iter().copied().fold(0.0, f64::max);
    let least = loads.iter().copied().fold(f64::INFINITY, f64::min);
    picture.words = format!(
        "Of {} single-module failures the mildest leaves a router with {least:.2} times the mean, the worst with {most:.2}.",
        loads.len()
    );
    picture
}

/// Counts in equal ranges; the label is where a range begins.
fn binned(values: &[f64]) -> Vec<(String, f64)> {
    let least = values.iter().copied().fold(f64::INFINITY, f64::min);
    let most = values.iter().copied().fold(0.0, f64::max);
    if values.is_empty() || most <= least {
        let label = if values.is_empty() { 0.0 } else { most };
        return vec![(format!("{label:.2}"), values.len() as f64)];
    }
    let width = (most - least) / BARS as f64;
    let mut counts = vec![0.0; BARS];
    for value in values {
        let bar = ((value - least) / width) as usize;
        counts[bar.min(BARS - 1)] += 1.0;
    }
    // As many digits as tell two ranges apart.
    let number = |value: f64| match width {
        w if w >= 1.0 => format!("{value:.0}"),
        w if w >= 0.01 => format!("{value:.2}"),
        _ => format!("{value:.4}"),
    };
    let labels = (0..BARS).map(|bar| number(least + bar as f64 * width));
    labels.zip(counts).collect()
}

fn histogram(name: &str, title: &str, unit: &str, bars: &[(String, f64)]) -> Picture {
    let mut picture = Picture::new(name, title.to_owned(), WIDTH, HEIGHT);
    let most = bars.iter().map(|bar| bar.1).fold(1.0, f64::max);
    let width = (WIDTH - LEFT - 6.0) / bars.len().max(1) as f64;
    for part in 0..=4 {
        let share = f64::from(part) / 4.0;
        let y = BOTTOM - share * (BOTTOM - TOP);
        let right = WIDTH - 6.0;
        picture.add(format_args!(
            "<line x1=\"{LEFT}\" x2=\"{right}\" y1=\"{y:.1}\" y2=\"{y:.1}\" class=\"frame\"/>"
        ));
        picture.text(LEFT - 6.0, y + 3.5, "small end", &short(most * share));
    }
    let labelled = bars.len().div_ceil(8);
    for (index, (label, value)) in bars.iter().enumerate() {
        let x = LEFT + index as f64 * width;
        let height = value / most * (BOTTOM - TOP);
        let (y, wide) = (BOTTOM - height, (width - 2.0).max(0.5));
        picture.add(format_args!(
            "<rect x=\"{:.1}\" y=\"{y:.1}\" width=\"{wide:.1}\" height=\"{height:.1}\" class=\"bar\"/>",
            x + 1.0
        ));
        if index % labelled == 0 {
            picture.text(x + width / 2.0, BOTTOM + 13.0, "small middle", label);
        }
    }
    picture.text(WIDTH - 6.0, HEIGHT - 3.0, "small end", unit);
    picture
}

/// A count in few letters.
fn short(value: f64) -> String {
    match value {
        v if v >= 2e6 => format!("{:.1}M", v / 1e6),
        v if v >= 2e3 => format!("{:.0}k", v / 1e3),
        v if v >= 10.0 || v == v.round() => format!("{v:.0}"),
        v => format!("{v:.1}"),
    }
}
