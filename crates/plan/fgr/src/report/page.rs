//! The page of the report.

use std::collections::BTreeMap;

use maud::{DOCTYPE, Markup, PreEscaped, html};

use crate::config::Timing;
use crate::links::in_digits;
use crate::machine::{Machine, Origin, Role};
use crate::metrics::data_modules;
use crate::report::pictures::{self, PANELS_MAX, group_colour, module_count};
use crate::report::study::{Comparison, Study};
use crate::report::svg::{Picture, STYLE};
use crate::report::{charts, rates, tables};
use crate::serves::Area;

pub(super) const PAGE: &str = include_str!("page.css");

/// Most rows of tables that are also complete files.
const FAILURES: usize = 12;
const LINKS: usize = 6;
const AREAS: usize = 256;

/// Most routers that the table of areas names for each area.
const AREA_ROUTERS: usize = 6;

/// The whole page.
pub(super) fn page(machine: &Machine, study: &Study, command: &str) -> String {
    let title = format!("Routing plan of {}", machine.name);
    let markup = html! {
        (DOCTYPE)
        html lang="en" {
            head {
                meta charset="utf-8";
                meta name="viewport" content="width=device-width, initial-scale=1";
                title { (title) }
                style { (PreEscaped(PAGE)) (PreEscaped(STYLE)) }
            }
            body {
                main {
                    (head(machine, study, command))
                    (cards(study))
                    (policies(study))
                    (positions(machine, study))
                    (primaries(machine, study))
                    (links(machine, study))
                    (distances(study))
                    (failures(machine, study))
                    (rates::section(machine, study))
                    (terms())
                }
            }
        }
    };
    markup.into_string()
}

fn head(machine: &Machine, study: &Study, command: &str) -> Markup {
    let origin = match machine.origin {
        Origin::Published => "Positions are those of the real machine, as published.",
        Origin::Assumed => "The machine's size is real; the rest is assumed.",
        Origin::Synthetic => "The machine is synthetic: made up by rule.",
    };
    let role = |role| machine.groups.iter().filter(move |g| g.role == role);
    let nodes = |wanted| -> usize {
        let modules = role(wanted).flat_map(|g| g.modules());
        modules.map(|m| machine.routers_of(m).len()).sum()
    };
    let (data, metadata) = (nodes(Role::Data), nodes(Role::Metadata));
    let (modules, cabinets) = module_count(machine);
    html! {
        header {
            h1 { "Routing plan of " (machine.name) }
            p.lead {
                "Policy " strong { (study.plan.policy.name()) } ": " (count(machine.clients.len()))
                " clients, " (machine.data_nets().count()) " data nets, " (modules)
                " modules in " (cabinets) " cabinets with " (data) " data routers"
                @if metadata > 0 {
                    ", and " (metadata) " metadata routers: " (data + metadata) " in all"
                }
                ". " (origin)
            }
            p.note { "Made by " code { (command) } }
            @if !machine.warnings.is_empty() || !study.plan.warnings.is_empty() {
                section.warnings {
                    strong { "To know before using this" }
                    ul {
                        @for warning in &machine.warnings { li { (warning.to_string()) } }
                        @for warning in &study.plan.warnings { li { (warning.to_string()) } }
                    }
                }
            }
            nav {
                @for (id, name) in [("policies", "Policies"), ("positions", "Router positions"),
                    ("primaries", "Who serves whom"), ("links", "Hottest links"),
                    ("distances", "Distances and loads"),
                    ("failures", "Failures"), ("rates", "Rates"), ("terms", "Terms")] {
                    a href={ "#" (id) } { (name) }
                }
            }
        }
    }
}

fn cards(study: &Study) -> Markup {
    let (e, floors) = (&study.evaluation, &study.floors);
    let worst = study
        .failures
        .iter()
        .map(|f| f.worst_load)
        .fold(0.0, f64::max);
    let own = study.comparisons.iter().find(|row| row.is_this);
    let jobs = own
        .and_then(|row| row.result.as_ref().ok())
        .map(|r| r.1.mean);
    let cards = [
        (
            format!("{:.2}", e.hops.mean),
            "mean hops",
            format!("no plan below {:.2}", floors.hops.0),
        ),
        (
            format!("{:.2}", e.cost.mean),
            "mean cost",
            format!("no plan below {:.2}", floors.cost.0),
        ),
        (
            format!("{:.3}", e.balance()),
            "balance",
            "most loaded router; 1 is even".to_owned(),
        ),
        (
            in_digits(e.write.max),
            "hottest link, write",
            "units per GB/s".to_owned(),
        ),
        (
            in_digits(e.read.max),
            "hottest link, read",
            "units per GB/s".to_owned(),
        ),
        (
            jobs.map_or_else(String::new, |j| format!("{:.0} %", j * 100.0)),
            "of the routers",
            format!("for a compact job of {} nodes", count(study.job_size)),
        ),
        (
            format!("{worst:.2} ×"),
            "mean load at worst",
            "after any one module died".to_owned(),
        ),
        (
            count(lost(study)),
            "pairs lost",
            "after any one module died".to_owned(),
        ),
    ];
    html! {
        div.cards {
            @for (figure, name, bound) in &cards {
                div.card { b { (figure) } (name) span { (bound) } }
            }
        }
    }
}

/// Most pairs that a single failure leaves without router.
fn lost(study: &Study) -> usize {
    let most = study.failures.iter().map(|f| f.unreachable).max();
    most.unwrap_or(0) as usize
}

fn policies(study: &Study) -> Markup {
    let floors = &study.floors;
    html! {
        section id="policies" {
            h2 { "Policies side by side" }
            p {
                "The same machine and modules, the routers chosen by each policy. The last line is what no "
                "policy can go below with the modules where they stand"
                @if let Some(cost) = floors.balanced_cost {
                    "; with equal loads and whole modules the mean cost is at least " (format!("{cost:.3}"))
                }
                "."
            }
            (figures(&charts::fronts(study), "charts"))
            div.panel.scroll {
                table {
                    thead { tr {
                        @for name in ["policy", "hops", "max", "cost", "max", "balance", "write", "read",
                            "GB/s write", "GB/s read", "compact job", "tables", "MB"] {
                            th scope="col" { (name) }
                        }
                    } }
                    tbody {
                        @for row in &study.comparisons { (policy(row)) }
                        tr.floor {
                            th scope="row" { "no policy below" }
                            td { (format!("{:.3}", floors.hops.0)) }
                            td { (floors.hops.1) }
                            td { (format!("{:.3}", floors.cost.0)) }
                            td { (floors.cost.1) }
                            td { "1.000" }
                            @for _ in 0..7 { td {} }
                        }
                    }
                }
            }
            p.note {
                "GB/s: all clients together when the hottest link is full, raw. Compact job: the share of all routers' "
                "bandwidth that " (count(study.job_size)) " clients with consecutive numbers can use."
            }
        }
    }
}

fn policy(row: &Comparison) -> Markup {
    let class = row.is_this.then_some("this");
    match &row.result {
        Err(error) => html! {
            tr class=[class] { th scope="row" { (row.name) } td.name colspan="12" { (error) } }
        },
        Ok((e, jobs)) => html! {
            tr class=[class] {
                th scope="row" { (row.name) }
                td { (format!("{:.3}", e.hops.mean)) }
                td { (e.hops.max) }
                td { (format!("{:.3}", e.cost.mean)) }
                td { (e.cost.max) }
                td { (format!("{:.3}", e.balance())) }
                td { (in_digits(e.write.max)) }
                td { (in_digits(e.read.max)) }
                td { (count(e.write.ceiling.round() as usize)) }
                td { (count(e.read.ceiling.round() as usize)) }
                td { (format!("{:.3}", jobs.mean)) }
                td { (count(row.tables)) }
                td { (format!("{:.1}", row.bytes as f64 / 1e6)) }
            }
        },
    }
}

fn positions(machine: &Machine, study: &Study) -> Markup {
    let projections = pictures::projections(machine, study);
    let picture = pictures::routers(machine);
    let (near, total) = (&study.nearest, study.regions.len().max(1));
    let modules: u32 = study.regions.iter().map(|r| r.modules).sum();
    let least = study.regions.iter().map(|r| r.modules).min().unwrap_or(0);
    let most = study.regions.iter().map(|r| r.modules).max().unwrap_or(0);
    let d = near.distance;
    html! {
        section id="positions" {
            h2 { "Where the routers stand" }
            ul.legend {
                @for (index, group) in (0_u16..).zip(&machine.groups) {
                    li { i style={ "background:" (group_colour(machine, index)) } {} (group.name) }
                }
            }
            @if projections.is_empty() {
                figure {
                    div.panel.scroll.wide { (PreEscaped(picture.inside())) }
                    figcaption { (picture.words) }
                }
            } @else {
                (figures(&projections, "charts"))
                (panels(machine, study))
            }
            p {
                "From a client to the nearest router place of any group: " (d.min) " to " (d.max) " hops, mean "
                (format!("{:.3}", d.mean)) ", spread " (format!("{:.2}", d.deviation)) "; no placement of as many is below "
                (format!("{:.3}", near.bound.mean)) " in the mean or " (near.bound.max) " at most. Modules of a region: from "
                (least) " to " (most) " in " (total) " regions; uniform would be "
                (format!("{:.1}", f64::from(modules) / total as f64)) "."
            }
        }
    }
}

/// For each module, its clients before and after its failure. The page shows only the selected
/// panel.
fn panels(machine: &Machine, study: &Study) -> Markup {
    let data = data_modules(machine).take_while(|&(index, _)| usize::from(index) < PANELS_MAX);
    html! {
        @for (index, module) in data {
            @let picture = pictures::clients_of(machine, &study.plan, index);
            figure.panel.module id={ "m-" (index) } {
                h3 { "Clients of " (module.blade) }
                (PreEscaped(picture.inside()))
                figcaption { (picture.words) " " a href="#positions" { "Close" } }
            }
        }
    }
}

fn figures(pictures: &[Picture], class: &str) -> Markup {
    html! {
        div class={ "grid " (class) } {
            @for picture in pictures {
                figure.panel {
                    (PreEscaped(picture.inside()))
                    figcaption { @if class == "charts" { strong { (picture.title) ". " } } (picture.words) }
                }
            }
        }
    }
}

fn primaries(machine: &Machine, study: &Study) -> Markup {
    let (primary, whole) = study.plan.distinct_tables();
    html! {
        section id="primaries" {
            h2 { "Who serves whom" }
            p {
                "A map for each group: every place has the colour of the module that is its primary, one hue a sub-group, "
                "white dots where the modules stand. There are " (count(primary)) " different tables of primaries in all, "
                (count(whole)) " with the order of the backups."
            }
            (figures(&pictures::assignments(machine, &study.plan), ""))
            (areas(machine, study))
        }
    }
}

/// The table of areas and their primaries.
fn areas(machine: &Machine, study: &Study) -> Markup {
    let shown = study.areas.iter().take(AREAS);
    let more = study.areas.len().saturating_sub(AREAS);
    html! {
        div.panel.scroll.tall {
            table {
                thead { tr {
                    @for name in ["area", "clients", "routers"] { th scope="col" { (name) } }
                    th.name scope="col" { "primaries, with the nets and clients of each" }
                } }
                tbody {
                    @for area in shown {
                        @let (count, names) = primaries_of(machine, area);
                        tr {
                            th scope="row" { (area.name) }
                            td { (area.clients) }
                            td { (count) }
                            td.name { (names) }
                        }
                    }
                }
            }
        }
        p.note {
            "Areas are cabinets where the names of clients tell them, otherwise groups of a dragonfly, leaves of a fat tree, "
            "or planes of a torus. "
            @if more > 0 { (more) " more areas are in who-serves.csv (--parts). " }
            code { "fgr who-serves AREAS" } " and " code { "fgr serves ROUTER" } " give all ranks."
        }
    }
}

/// Returns the number of blades that serve an area, and the first of them in words.
fn primaries_of(machine: &Machine, area: &Area) -> (usize, String) {
    let mut blades: BTreeMap<&str, (usize, usize)> = BTreeMap::new();
    for serving in &area.servings {
        let router = &machine.routers[usize::from(serving.router)];
        let blade = &machine.modules[usize::from(router.module)].blade;
        let entry = blades.entry(blade).or_default();
        *entry = (entry.0 + 1, entry.1.max(serving.clients));
    }
    let count = blades.len();
    let mut blades: Vec<(&str, (usize, usize))> = blades.into_iter().collect();
    blades.sort_by_key(|&(name, (nets, clients))| (std::cmp::Reverse(nets * clients), name));
    let words = blades
        .iter()
        .take(AREA_ROUTERS)
        .map(|(name, (nets, clients))| {
            let s = if *nets == 1 { "" } else { "s" };
            format!("{name} ({nets} net{s}, {clients})")
        });
    let mut words = words.collect::<Vec<_>>().join(", ");
    if let Some(more @ 1..) = count.checked_sub(AREA_ROUTERS) {
        words += &format!(", and {more} more");
    }
    (count, words)
}

fn links(machine: &Machine, study: &Study) -> Markup {
    let hottest = tables::hottest(machine, study, LINKS);
    let crossing = study.crossing;
    html! {
        section id="links" {
            h2 { "Hottest links" }
            @if hottest.is_empty() {
                p { "No link carries anything: every client is at the vertex of its routers." }
            } @else {
                p { "Units per GB/s; a unit is what one client exchanges with one net."
                    @if hottest.iter().any(|link| link.ends.grid.is_some()) { " The pictures of the machine show where they are." } }
                div.panel.scroll { table {
                    thead { tr {
                        @for name in ["traffic", "from", "to"] { th.name scope="col" { (name) } }
                        @for name in ["units", "GB/s", "units per GB/s"] { th scope="col" { (name) } }
                    } }
                    tbody { @for link in &hottest { tr {
                        td { (link.traffic) } td.name { (link.ends.from) " " (link.ends.axis) } td.name { (link.ends.to) }
                        td { (in_digits(link.load)) } td { (link.capacity) }
                        td { (in_digits(link.load / link.capacity)) }
                    } } }
                } }
            }
            @if machine.data_nets().count() > 1 {
                p {
                    "If each net of the servers is one leaf switch, " (format!("{:.1}", crossing.plan * 100.0))
                    " % of all bytes cross from one of these switches to another, because every router is on the net of "
                    "its server; without fine-grained routing it would be " (format!("{:.1}", crossing.flat * 100.0)) " %."
                }
            }
        }
    }
}

fn distances(study: &Study) -> Markup {
    html! {
        section id="distances" {
            h2 { "Distances and loads" }
            (figures(&charts::all(study), "charts"))
        }
    }
}

fn failures(machine: &Machine, study: &Study) -> Markup {
    let mut worst: Vec<_> = study.failures.iter().collect();
    worst.sort_by(|a, b| {
        (b.unreachable, b.worst_load)
            .partial_cmp(&(a.unreachable, a.worst_load))
            .unwrap_or(std::cmp::Ordering::Equal)
    });
    let peak = |value: Option<f64>| value.map_or_else(String::new, in_digits);
    let timing = Timing::PLANNED;
    html! {
        section id="failures" {
            h2 { "Failures" }
            p {
                "When a module dies, LNet goes on with the living gateway of best priority: the configurations of "
                code { "fgr config" } " give backups the priorities 1, 2, … in the order of the plan. Until the failure is noticed, "
                "its clients' messages are lost: " (timing.check_interval) " s when connections are refused; when the module "
                "hangs, about " (timing.check_interval + timing.transaction_timeout) " s on kernel nodes and "
                (timing.check_interval + timing.ping_timeout) " s on nodes of Finerail, with the times that "
                code { "fgr config" } " sets. Of " (study.failures.len())
                " single-module failures the most that are lost is " (count(lost(study))) " pairs of a client and a net. The worst "
                (worst.len().min(FAILURES)) ":"
            }
            div.panel.scroll { table {
                thead { tr {
                    @for name in ["dead module", "pairs lost", "worst load", "write", "read"] { th scope="col" { (name) } }
                    th.name scope="col" { "who takes over" }
                } }
                tbody { @for failure in worst.iter().take(FAILURES) { tr {
                    th scope="row" { (tables::dead_name(machine, &failure.dead)) }
                    td { (failure.unreachable) }
                    td { (format!("{:.2} ×", failure.worst_load)) }
                    td { (peak(failure.write_max)) }
                    td { (peak(failure.read_max)) }
                    td.name { (successors_in_words(machine, study, &failure.dead)) }
                } } }
            } }
            h3 { "Several modules at once, at random" }
            (random(study))
        }
    }
}

/// Names the modules that take over from a module, in descending order of pairs.
fn successors_in_words(machine: &Machine, study: &Study, dead: &[u16]) -> String {
    let module = dead
        .first()
        .map(|&router| machine.routers[usize::from(router)].module);
    let theirs = study.successors.iter().filter(|s| Some(s.dead) == module);
    let total: u64 = theirs.clone().map(|s| s.pairs).sum();
    let shares = theirs.take(3).map(|s| {
        let name = s
            .module
            .map_or("nobody", |m| machine.modules[usize::from(m)].blade.as_str());
        format!("{name} {} %", (s.pairs * 100 + total / 2) / total.max(1))
    });
    shares.collect::<Vec<_>>().join(", ")
}

fn random(study: &Study) -> Markup {
    html! {
        div.panel.scroll { table {
            thead { tr {
                @for name in ["dead modules", "trials", "with losses", "pairs lost, mean", "sub-groups dead, expected",
                    "worst load, mean", "worst load, worst"] { th scope="col" { (name) } }
            } }
            tbody { @for losses in &study.random { tr {
                th scope="row" { (losses.count) }
                td { (losses.trials) }
                td { (losses.with_losses) }
                td { (count(losses.unreachable.round() as usize)) }
                td { @if losses.expected_dead > 0.0 { (format!("{:.1e}", losses.expected_dead)) } @else { "0" } }
                td { (format!("{:.2} ×", losses.worst_load_mean)) }
                td { (format!("{:.2} ×", losses.worst_load_max)) }
            } } }
        } }
    }
}

fn terms() -> Markup {
    html! {
        section id="terms" {
            h2 { "Terms" }
            p { strong { "Cost. " } "Hops, each weighted with the cost of its dimension." }
            p { strong { "Balance. " } "Clients of the most loaded router over the mean; 1 is even." }
            p {
                strong { "Units per GB/s. " }
                "The load of a link over its capacity when every client exchanges one unit with every data net."
            }
            p { strong { "Module, group, net. " } "A module is a blade of router nodes; the modules of a group serve the same nets." }
        }
    }
}

/// Formats an integer with commas: `18,688`.
pub(super) fn count(number: usize) -> String {
    let digits = number.to_string();
    let mut grouped = String::new();
    for (index, digit) in digits.chars().enumerate() {
        if index > 0 && (digits.len() - index).is_multiple_of(3) {
            grouped.push(',');
        }
        grouped.push(digit);
    }
    grouped
}
