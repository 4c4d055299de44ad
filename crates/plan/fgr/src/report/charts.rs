//! Histograms, and the policies as a front.

use crate::links::in_digits;
use crate::report::study::{Comparison, Study};
use crate::report::svg::{Picture, escape};

const WIDTH: f64 = 460.0;
const HEIGHT: f64 = 230.0;
const LEFT: f64 = 46.0;
const BOTTOM: f64 = 200.0;
const TOP: f64 = 12.0;

/// Number of bars of a histogram of many values.
const BARS: usize = 24;

/// The histograms of the plan.
pub(super) fn all(study: &Study) -> Vec<Picture> {
    vec![hops(study), clients(study), failures(study)]
}

/// The policies by cost and by the share of the routers that a compact job can use, and by cost and
/// hottest link.
pub(super) fn fronts(study: &Study) -> Vec<Picture> {
    let efficiency = |row: &Comparison| Some(row.result.as_ref().ok()?.1.mean);
    let heat = |row: &Comparison| {
        let (e, _) = row.result.as_ref().ok()?;
        Some(e.write.max.max(e.read.max))
    };
    let mut jobs = front(
        study,
        "front-jobs",
        "share of all routers that a compact job can use",
        efficiency,
        1.0,
    );
    jobs.words = format!(
        "Policies by mean cost (to the right, logarithmic) and by the share of the routers' bandwidth that a job of \
         {} consecutive nodes can use (upwards). The line joins those that no other one beats in both.{}",
        study.job_size, jobs.words
    );
    let mut hot = front(
        study,
        "front-links",
        "units per GB/s on the hottest link",
        heat,
        -1.0,
    );
    hot.words = format!(
        "Policies by mean cost and by their hottest link, writes or reads, whichever is hotter. The line joins those \
         that no other one beats in both.{}",
        hot.words
    );
    vec![jobs, hot]
}

/// From this balance on, a policy is drawn only if it is that of the plan: the algorithm as printed is
/// not for use and would squeeze all others together.
const BALANCE_MAX: f64 = 2.0;

/// A point of a front.
struct Dot<'a> {
    row: &'a Comparison,
    cost: f64,
    value: f64,
}

/// Draws the policies by cost and another figure. A higher value of `sign` times the figure is
/// better. The words of the picture name the policies that are not drawn.
fn front(
    study: &Study,
    name: &str,
    what: &str,
    value: impl Fn(&Comparison) -> Option<f64>,
    sign: f64,
) -> Picture {
    let title = format!("Policies by cost and {what}");
    let mut picture = Picture::new(name, title, WIDTH, HEIGHT + 70.0);
    let (mut dots, mut absent) = (Vec::new(), Vec::new());
    for row in study.comparisons() {
        let (Ok((e, _)), Some(value)) = (&row.result, value(row)) else {
            continue;
        };
        let is_usable = e.unserved == 0 && e.balance() < BALANCE_MAX;
        let cost = e.cost.mean;
        match cost > 0.0 && value > 0.0 && (is_usable || row.is_this) {
            true => dots.push(Dot { row, cost, value }),
            false => absent.push(row.name.as_str()),
        }
    }
    picture.words = absent_in_words(&absent);
    if dots.is_empty() {
        return picture;
    }
    dots.sort_by(|a, b| a.cost.total_cmp(&b.cost));
    let ends = |of: fn(&Dot<'_>) -> f64| {
        let all = dots.iter().map(of);
        let least = all.clone().fold(f64::INFINITY, f64::min);
        (least, all.fold(0.0, f64::max))
    };
    let ((left, right), (low, high)) = (ends(|d| d.cost), ends(|d| d.value));
    let across = |cost: f64| {
        LEFT + 8.0 + (cost / left).ln() / (right / left).ln().max(1e-9) * (WIDTH - LEFT - 24.0)
    };
    let ticks = ticks(if sign > 0.0 { 0.0 } else { low }, high, 0.0);
    let up = |value: f64| height(&ticks, value);
    axes(&mut picture, &ticks, (left, right), across);
    let mut best = f64::NEG_INFINITY;
    let mut line = Vec::new();
    for dot in &dots {
        if dot.value * sign > best {
            best = dot.value * sign;
            line.push(format!("{:.1},{:.1}", across(dot.cost), up(dot.value)));
        }
    }
    picture.add(format_args!(
        "<polyline points=\"{}\" class=\"front\"/>",
        line.join(" ")
    ));
    // The plan of the report is drawn last, above other policies at the same place.
    dots.sort_by_key(|dot| dot.row.is_this);
    for dot in &dots {
        point(&mut picture, dot, (across(dot.cost), up(dot.value)));
    }
    picture.text(
        LEFT,
        HEIGHT + 64.0,
        "small",
        "Red: this plan. Point at a policy, or go from one to the next with the Tab key.",
    );
    picture
}

/// A sentence about the policies that are not drawn; empty if all are.
fn absent_in_words(names: &[&str]) -> String {
    if names.is_empty() {
        return String::new();
    }
    let names = names.join("; ");
    format!(
        " Not drawn, because a pair has no router, a router serves {BALANCE_MAX} times the mean or more, or no link is \
         crossed: {names}."
    )
}

fn axes(
    picture: &mut Picture,
    ticks: &[f64],
    (left, right): (f64, f64),
    across: impl Fn(f64) -> f64,
) {
    // As many digits as the step needs.
    let step = ticks.get(1).map_or(1.0, |next| next - ticks[0]);
    let digits = (-step.log10()).ceil().clamp(0.0, 3.0) as usize;
    grid(picture, ticks, |value| format!("{value:.digits$}"));
    for part in 0..=4 {
        let cost = left * (right / left).powf(f64::from(part) / 4.0);
        let cost = if right > 20.0 { cost.round() } else { cost };
        let digits = usize::from(right <= 20.0);
        picture.text(
            across(cost),
            BOTTOM + 13.0,
            "small middle",
            &format!("{cost:.digits$}"),
        );
    }
    picture.text(WIDTH - 6.0, BOTTOM + 27.0, "small end", "mean cost");
}

/// Draws horizontal lines at these values.
fn grid(picture: &mut Picture, ticks: &[f64], label: impl Fn(f64) -> String) {
    let end = WIDTH - 6.0;
    for &value in ticks {
        let y = height(ticks, value);
        picture.add(format_args!(
            "<line x1=\"{LEFT}\" x2=\"{end}\" y1=\"{y:.1}\" y2=\"{y:.1}\" class=\"frame\"/>"
        ));
        picture.text(LEFT - 6.0, y + 3.5, "small end", &label(value));
    }
}

/// Position of a value between the first and the last tick.
fn height(ticks: &[f64], value: f64) -> f64 {
    let (floor, head) = (ticks[0], ticks[ticks.len() - 1]);
    BOTTOM - (value - floor) / (head - floor) * (BOTTOM - TOP)
}

/// Two to seven round values around and between two others, at least `least` apart.
fn ticks(low: f64, high: f64, least: f64) -> Vec<f64> {
    let span = (high - low).max(high.abs() * 1e-3).max(1e-9);
    let unit = 10_f64.powf((span / 5.0).log10().floor());
    let steps = [1.0, 2.0, 5.0, 10.0].map(|times| times * unit);
    let step = steps.into_iter().find(|step| span / step <= 5.0);
    let step = step.unwrap_or(span).max(least);
    let first = (low / step).floor();
    let count = ((high / step).ceil() - first).clamp(1.0, 6.0) as u32;
    (0..=count).map(|n| (first + f64::from(n)) * step).collect()
}

/// Draws a point, with the text that is shown while it has the pointer or the focus.
fn point(picture: &mut Picture, dot: &Dot<'_>, (x, y): (f64, f64)) {
    let Ok((e, jobs)) = &dot.row.result else {
        return;
    };
    let name = escape(&dot.row.name);
    let class = if dot.row.is_this {
        "point this"
    } else {
        "point"
    };
    let first = format!(
        "{name}: cost {:.3}, hops {:.3}, balance {:.3}",
        e.cost.mean,
        e.hops.mean,
        e.balance()
    );
    let second = format!(
        "job {:.3}; hottest link: write {}, read {}; {} tables, {:.1} MB",
        jobs.mean,
        in_digits(e.write.max),
        in_digits(e.read.max),
        dot.row.tables,
        dot.row.bytes as f64 / 1e6
    );
    picture.add(format_args!(
        "<g class=\"{class}\" tabindex=\"0\" role=\"img\" aria-label=\"{first}; {second}\">\
         <circle cx=\"{x:.1}\" cy=\"{y:.1}\" r=\"5\"/>\
         <g class=\"tip\"><text x=\"{LEFT}\" y=\"{:.1}\">{first}</text><text x=\"{LEFT}\" y=\"{:.1}\">{second}</text></g></g>",
        HEIGHT + 20.0,
        HEIGHT + 38.0
    ));
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

/// Counts in equal ranges, each labelled with its lower end.
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
    // As many digits as distinguish two ranges.
    let number = |value: f64| match width {
        w if w >= 1.0 => format!("{value:.0}"),
        w if w >= 0.01 => format!("{value:.2}"),
        _ => format!("{value:.4}"),
    };
    let labels = (0..BARS).map(|bar| number(least + bar as f64 * width));
    labels.zip(counts).collect()
}

/// Draws bars with their labels, as many as have room.
pub(super) fn histogram(name: &str, title: &str, unit: &str, bars: &[(String, f64)]) -> Picture {
    let mut picture = Picture::new(name, title.to_owned(), WIDTH, HEIGHT);
    let most = bars.iter().map(|bar| bar.1).fold(1.0, f64::max);
    let width = (WIDTH - LEFT - 6.0) / bars.len().max(1) as f64;
    let ticks = ticks(0.0, most, 1.0);
    grid(&mut picture, &ticks, short);
    let labelled = bars.len().div_ceil(8);
    for (index, (label, value)) in bars.iter().enumerate() {
        let x = LEFT + index as f64 * width;
        let (y, wide) = (height(&ticks, *value), (width - 2.0).max(0.5));
        let tall = BOTTOM - y;
        picture.add(format_args!(
            "<rect x=\"{:.1}\" y=\"{y:.1}\" width=\"{wide:.1}\" height=\"{tall:.1}\" class=\"bar\"/>",
            x + 1.0
        ));
        if index % labelled == 0 {
            picture.text(x + width / 2.0, BOTTOM + 13.0, "small middle", label);
        }
    }
    picture.text(WIDTH - 6.0, HEIGHT - 3.0, "small end", unit);
    picture
}

/// Formats a count in few letters.
fn short(value: f64) -> String {
    match value {
        v if v >= 2e6 => format!("{:.1}M", v / 1e6),
        v if v >= 2e3 => format!("{:.0}k", v / 1e3),
        v if v >= 10.0 || v == v.round() => format!("{v:.0}"),
        v => in_digits(v),
    }
}

#[cfg(test)]
mod tests {
    use super::ticks;

    #[test]
    fn lines_are_at_round_values_around_the_data() {
        assert_eq!(
            ticks(0.0, 1.0, 0.0),
            [0.0, 0.2, 0.4, 0.6000000000000001, 0.8, 1.0]
        );
        assert_eq!(
            ticks(159.9, 192.2, 0.0),
            [150.0, 160.0, 170.0, 180.0, 190.0, 200.0]
        );
        assert_eq!(ticks(0.0, 2.0, 1.0), [0.0, 1.0, 2.0]);
        assert_eq!(ticks(0.0, 1.0, 1.0), [0.0, 1.0]);
        for (low, high) in [(5.0, 5.0), (0.0, 0.0), (1e-9, 1e9), (99.9, 100.1)] {
            let found = ticks(low, high, 0.0);
            assert!((2..=7).contains(&found.len()), "{found:?}");
            assert!(
                found[0] <= low && found[found.len() - 1] >= high,
                "{found:?}"
            );
        }
    }
}
