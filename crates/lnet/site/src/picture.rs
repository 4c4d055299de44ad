//! Shows which nodes reach each other: as text, and as a page with a picture that has nets as columns and gateways
//! and classes as rows.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt::Write as _;

use maud::{Markup, html};

use crate::check::short;
use crate::fold::fold;
use crate::html::page;
use crate::model::Verdict;
use crate::reach::{Direction, End, Reach};
use crate::text::{counted, wrapped};

/// The width of the names in the picture, in pixels.
const NAMES: usize = 190;
/// The height of a row, in pixels.
const ROW: usize = 26;
/// The height above the rows, for the names of nets, in pixels.
const HEAD: usize = 74;
/// The width of the picture in pixels. With many nets the picture is wider.
const WIDTH: usize = 400;
/// The smallest width of a column, in pixels.
const COLUMN_MIN: usize = 16;
/// The number of characters of a name that the picture shows.
const NAME_SHOWN: usize = 26;

impl Reach {
    /// Returns in one line how many directions there are and how many of them work.
    #[must_use]
    pub fn headline(&self) -> String {
        let count = |verdict| {
            let found = self.directions.iter().filter(|one| one.verdict == verdict);
            found.count()
        };
        let (all, some, none) = (
            count(Verdict::All),
            count(Verdict::Some),
            count(Verdict::None),
        );
        let apart = match self.apart {
            0 => String::new(),
            pairs => format!("; {} joined by nothing", counted(pairs, "pair")),
        };
        let doubtful = self.directions.iter().filter(|one| !one.doubts.is_empty());
        let doubtful = match doubtful.count() {
            0 => String::new(),
            count => format!("; {count} in doubt"),
        };
        format!(
            "{}, {}, {}: {all} work, {some} in part, {none} not{doubtful}{apart}",
            counted(self.ends.len(), "class"),
            counted(self.gateways.len(), "gateway"),
            counted(self.directions.len(), "direction"),
        )
    }

    /// Returns true if all messages arrive between all classes that a net or a route joins, without a doubt.
    #[must_use]
    pub fn is_whole(&self) -> bool {
        let mut directions = self.directions.iter();
        directions.all(|one| one.verdict == Verdict::All && one.doubts.is_empty())
    }

    fn name(&self, at: usize) -> &str {
        self.ends.get(at).map_or("", |end| end.name.as_str())
    }

    /// Returns the directions, the worst first.
    fn by_verdict(&self) -> Vec<&Direction> {
        let mut directions: Vec<&Direction> = self.directions.iter().collect();
        directions.sort_by_key(|one| (std::cmp::Reverse(one.verdict), one.from, one.to));
        directions
    }

    /// Returns the answer as text, the directions that do not work first.
    #[must_use]
    pub fn to_text(&self) -> String {
        let mut text = format!("{}\n", self.headline());
        for one in self.by_verdict() {
            let (from, to) = (short(self.name(one.from)), short(self.name(one.to)));
            let _infallible = writeln!(text, "{} {from} -> {to}", mark(one));
            for trouble in &one.troubles {
                wrapped(&mut text, "    ", trouble);
            }
            if let Some(repair) = &one.repair {
                wrapped(&mut text, "    ", &format!("repaired by: {repair}"));
            } else if one.verdict != Verdict::All {
                wrapped(&mut text, "    ", &one.told_tried());
            }
            for doubt in told_doubts(one) {
                wrapped(&mut text, "    ", &doubt);
            }
            if !one.paths.is_empty() {
                wrapped(&mut text, "    ", &told_paths(one));
                for why in &one.unused {
                    wrapped(&mut text, "    ", &format!("a route is down: {why}"));
                }
            }
        }
        text
    }

    /// Returns the answer as an HTML page with a picture, without references to other files.
    #[must_use]
    pub fn to_html(&self) -> String {
        let body = html! {
            p { (self.headline()) }
            (self.picture())
            table {
                tr { th {} th { "from" } th { "to" } th { "how" } }
                @for one in self.by_verdict() {
                    tr {
                        td class=(class(one.verdict)) { (mark(one)) }
                        td { code { (short(self.name(one.from))) } }
                        td { code { (short(self.name(one.to))) } }
                        td {
                            @for trouble in &one.troubles { div { (trouble) } }
                            @if let Some(repair) = &one.repair { div { b { "repaired by: " } (repair) } }
                            @else if one.verdict != Verdict::All { div { (one.told_tried()) } }
                            @for doubt in told_doubts(one) { div class="warning" { (doubt) } }
                            @if !one.paths.is_empty() {
                                div { (told_paths(one)) }
                                @for why in &one.unused { div class="warning" { "a route is down: " (why) } }
                            }
                        }
                    }
                }
            }
        };
        page("Who reaches whom", &body)
    }

    /// Draws the picture: nets as columns, one row for the gateways of each set of nets, and one row for each
    /// class.
    fn picture(&self) -> Markup {
        let all = self.ends.iter().chain(&self.gateways);
        let nets: BTreeSet<&str> = all
            .flat_map(|end| end.nets.iter().map(String::as_str))
            .collect();
        let nets: Vec<&str> = nets.into_iter().collect();
        let column = ((WIDTH - NAMES) / nets.len().max(1)).max(COLUMN_MIN);
        let x = |at: usize| NAMES + at * column + column / 2;
        let rows = self.rows();
        let (width, height) = (NAMES + nets.len() * column, HEAD + rows.len() * ROW + 6);
        html! {
            svg xmlns="http://www.w3.org/2000/svg" viewBox=(format!("0 0 {width} {height}"))
                width=(width) font-family="sans-serif" font-size="12" role="img" aria-label="nets, gateways and classes" {
                @for (at, net) in nets.iter().enumerate() {
                    line x1=(x(at)) x2=(x(at)) y1=(HEAD - 6) y2=(height) stroke="#bbb" {}
                    text transform=(format!("translate({} {}) rotate(-60)", x(at), HEAD - 10)) { (net) }
                }
                @for (at, row) in rows.iter().enumerate() {
                    (self::row(row, HEAD + at * ROW + ROW / 2, &nets, &x))
                }
            }
        }
    }

    fn rows(&self) -> Vec<Row> {
        let mut rows = Vec::new();
        let mut routers: BTreeMap<&[String], Vec<&End>> = BTreeMap::new();
        for gateway in &self.gateways {
            routers.entry(&gateway.nets).or_default().push(gateway);
        }
        for (nets, gateways) in routers {
            rows.push(Row {
                name: fold(gateways.iter().map(|end| end.name.as_str())),
                nodes: gateways.iter().map(|end| end.nodes).sum(),
                nets: nets.to_vec(),
                verdict: None,
            });
        }
        for (at, end) in self.ends.iter().enumerate() {
            let own = self
                .directions
                .iter()
                .filter(|one| one.from == at || one.to == at);
            rows.push(Row {
                name: end.name.clone(),
                nodes: end.nodes,
                nets: end.nets.clone(),
                verdict: Some(own.map(|one| one.verdict).max().unwrap_or(Verdict::All)),
            });
        }
        rows
    }
}

/// A row of the picture. `verdict` is `None` for gateways.
struct Row {
    name: String,
    nodes: usize,
    nets: Vec<String>,
    verdict: Option<Verdict>,
}

fn row(row: &Row, y: usize, nets: &[&str], x: &impl Fn(usize) -> usize) -> Markup {
    let colour = match row.verdict {
        None => "#1f5fa8",
        Some(Verdict::All) => "#2b7a2b",
        Some(Verdict::Some) => "#b36b00",
        Some(Verdict::None) => "#b00020",
    };
    let on: Vec<usize> = (0..nets.len())
        .filter(|&at| {
            nets.get(at)
                .is_some_and(|net| row.nets.iter().any(|own| own == net))
        })
        .collect();
    let name: String = row.name.chars().take(NAME_SHOWN).collect();
    let ends = on.first().zip(on.last());
    html! {
        text x="0" y=(y + 4) fill=(colour) { title { (row.name) ": " (row.nodes) } (name) }
        @if let (Some((&first, &last)), None) = (ends, row.verdict) {
            line x1=(x(first)) x2=(x(last)) y1=(y) y2=(y) stroke=(colour) stroke-width="3" {}
        }
        @for at in on { circle cx=(x(at)) cy=(y) r="5" fill=(colour) {} }
    }
}

fn told_paths(one: &Direction) -> String {
    let mut by: Vec<&str> = Vec::new();
    let mut other: Vec<String> = Vec::new();
    for path in &one.paths {
        match path
            .strip_prefix("by ")
            .filter(|names| !names.contains(", then "))
        {
            Some(name) => by.push(name),
            None => other.push(path.clone()),
        }
    }
    if !by.is_empty() {
        other.insert(0, format!("by {}", short(&fold(by))));
    }
    format!("{} ({})", other.join("; "), counted(one.ways, "way"))
}

/// The number of doubts of a direction that are shown.
const DOUBTS_SHOWN: usize = 4;

/// Returns what contradicts the answer that messages arrive.
fn told_doubts(one: &Direction) -> Vec<String> {
    let first = one.doubts.iter().take(DOUBTS_SHOWN);
    let mut told: Vec<String> = first
        .map(|doubt| format!("in doubt: {}", doubt.told()))
        .collect();
    let more = one.doubts.len().saturating_sub(DOUBTS_SHOWN);
    if more > 0 {
        told.push(format!(
            "in doubt: {} more, see `finerail site check`",
            counted(more, "finding")
        ));
    }
    told
}

fn mark(one: &Direction) -> &'static str {
    match one.verdict {
        Verdict::All if !one.doubts.is_empty() => "DOUBT",
        Verdict::All => "works",
        Verdict::Some => "PARTLY",
        Verdict::None => "NOT",
    }
}

fn class(verdict: Verdict) -> &'static str {
    match verdict {
        Verdict::All => "note",
        Verdict::Some => "warning",
        Verdict::None => "error",
    }
}
