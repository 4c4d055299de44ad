//! The tables of the report as CSV.

use std::fmt::{Arguments, Write};

use crate::links::{LinkEnds, LinkNames, in_digits};
use crate::machine::Machine;
use crate::report::Part;
use crate::report::layout::Layout;
use crate::report::study::Study;

/// All tables.
pub(super) fn all(machine: &Machine, study: &Study) -> Vec<Part> {
    vec![
        policies(study),
        routers(machine, study),
        regions(study),
        failures(machine, study),
        random(study),
        successors(machine, study),
        hops(study),
        links(machine, study),
        who_serves(machine, study),
        rates(machine),
    ]
}

struct Csv(String);

impl Csv {
    fn new(header: &str) -> Self {
        Self(format!("{header}\n"))
    }

    fn line(&mut self, line: Arguments<'_>) {
        // Writing to a string cannot fail.
        let _infallible = self.0.write_fmt(line);
        self.0.push('\n');
    }

    fn part(self, name: &str) -> Part {
        Part {
            name: format!("{name}.csv"),
            content: self.0,
        }
    }
}

/// Formats a field that may contain any text.
fn field(text: &str) -> String {
    if text.contains([',', '"', '\n', '\r']) {
        return format!("\"{}\"", text.replace('"', "\"\""));
    }
    text.to_owned()
}

fn policies(study: &Study) -> Part {
    let mut csv = Csv::new(
        "policy,hops_mean,hops_max,cost_mean,cost_max,balance,write_max,read_max,write_ceiling_gb_s,\
         read_ceiling_gb_s,link_work_write,compact_job_efficiency_mean,compact_job_efficiency_worst,unserved,\
         route_tables,config_bytes",
    );
    for row in &study.comparisons {
        let Ok((e, jobs)) = &row.result else {
            continue;
        };
        csv.line(format_args!(
            "{},{:.3},{},{:.3},{},{:.3},{},{},{:.0},{:.0},{:.0},{:.3},{:.3},{},{},{}",
            field(&row.name),
            e.hops.mean,
            e.hops.max,
            e.cost.mean,
            e.cost.max,
            e.balance(),
            in_digits(e.write.max),
            in_digits(e.read.max),
            e.write.ceiling,
            e.read.ceiling,
            e.write.work,
            jobs.mean,
            jobs.worst,
            e.unserved,
            row.tables,
            row.bytes
        ));
    }
    csv.part("policies")
}

fn routers(machine: &Machine, study: &Study) -> Part {
    let layout = Layout::of(&machine.fabric);
    let mut csv = Csv::new(
        "group,subgroup,index,blade,cabinet,node,net,column,row,depth,clients,name,forwards_gb_s",
    );
    for (router, clients) in machine.routers.iter().zip(&study.clients) {
        let module = &machine.modules[usize::from(router.module)];
        let cell = layout.cell(router.vertex);
        let rate = machine.details.forwarding_rate(router.id);
        csv.line(format_args!(
            "{},{},{},{},{},{},{},{},{},{},{clients:.0},{},{}",
            field(&machine.groups[usize::from(module.group)].name),
            module.sub_group + 1,
            module.index + 1,
            field(&module.blade),
            field(&module.cabinet),
            router.id,
            machine.nets[usize::from(router.net)].net,
            cell.column,
            cell.row,
            cell.depth,
            field(&machine.router_name(router.id)),
            rate.map(|rate| rate.to_string()).unwrap_or_default()
        ));
    }
    csv.part("routers")
}

fn rates(machine: &Machine) -> Part {
    let mut csv = Csv::new("rates_of,gb_s,known,source");
    for rates in super::rates::all(machine) {
        csv.line(format_args!(
            "{},{},{},{}",
            rates.what,
            field(&rates.values),
            rates.source.known.name(),
            field(&rates.source.source)
        ));
    }
    csv.part("rates")
}

fn regions(study: &Study) -> Part {
    let modules: u32 = study.regions.iter().map(|region| region.modules).sum();
    let uniform = f64::from(modules) / study.regions.len().max(1) as f64;
    let mut csv = Csv::new("region,modules,uniform");
    for region in &study.regions {
        csv.line(format_args!(
            "{},{},{uniform:.2}",
            field(&region.name),
            region.modules
        ));
    }
    csv.part("regions")
}

fn failures(machine: &Machine, study: &Study) -> Part {
    let mut csv =
        Csv::new("dead_module,unreachable_pairs,worst_router,worst_load,write_max,read_max");
    let optional = |value: Option<f64>| value.map(in_digits).unwrap_or_default();
    for failure in &study.failures {
        csv.line(format_args!(
            "{},{},{},{:.3},{},{}",
            field(dead_name(machine, &failure.dead)),
            failure.unreachable,
            field(&machine.router_name(machine.routers[usize::from(failure.worst_router)].id)),
            failure.worst_load,
            optional(failure.write_max),
            optional(failure.read_max)
        ));
    }
    csv.part("failures")
}

/// The blade of the first dead router.
pub(super) fn dead_name<'a>(machine: &'a Machine, dead: &[u16]) -> &'a str {
    let router = dead
        .first()
        .map(|&router| &machine.routers[usize::from(router)]);
    router.map_or("", |router| {
        &machine.modules[usize::from(router.module)].blade
    })
}

fn random(study: &Study) -> Part {
    let mut csv = Csv::new(
        "dead_modules,trials,trials_with_losses,unreachable_pairs_mean,expected_dead_sub_groups,\
         worst_load_mean,worst_load_max",
    );
    for losses in &study.random {
        csv.line(format_args!(
            "{},{},{},{:.1},{:.1e},{:.3},{:.3}",
            losses.count,
            losses.trials,
            losses.with_losses,
            losses.unreachable,
            losses.expected_dead,
            losses.worst_load_mean,
            losses.worst_load_max
        ));
    }
    csv.part("random-failures")
}

fn successors(machine: &Machine, study: &Study) -> Part {
    let mut csv = Csv::new("dead_module,next_module,pairs");
    for successor in &study.successors {
        let blade = |module: u16| machine.modules[usize::from(module)].blade.as_str();
        csv.line(format_args!(
            "{},{},{}",
            field(blade(successor.dead)),
            field(successor.module.map_or("", blade)),
            successor.pairs
        ));
    }
    csv.part("successors")
}

fn hops(study: &Study) -> Part {
    let mut csv = Csv::new("hops,pairs");
    for (hops, pairs) in study.evaluation.hops_histogram.iter().enumerate() {
        csv.line(format_args!("{hops},{pairs:.0}"));
    }
    csv.part("hops")
}

/// Most links in the table of hottest links.
const LINKS: usize = 200;

/// Returns the hottest links of writes, then those of reads.
pub(super) fn hottest(machine: &Machine, study: &Study, most: usize) -> Vec<HotLink> {
    let mut found = Vec::new();
    let names = LinkNames::new(machine);
    for (traffic, loads) in [("write", &study.write), ("read", &study.read)] {
        let links = loads
            .links(&machine.fabric)
            .filter(|&(_, load, _)| load > 0.0);
        let mut links: Vec<_> = links.collect();
        links.sort_by(|a, b| (b.1 / b.2).total_cmp(&(a.1 / a.2)).then(a.0.cmp(&b.0)));
        found.extend(
            links
                .into_iter()
                .take(most)
                .map(|(link, load, capacity)| HotLink {
                    traffic,
                    ends: names.ends(link),
                    load,
                    capacity,
                }),
        );
    }
    found
}

/// A link with a high load.
pub(super) struct HotLink {
    pub(super) traffic: &'static str,
    pub(super) ends: LinkEnds,
    pub(super) load: f64,
    pub(super) capacity: f64,
}

/// Who serves whom: each area with the primaries of its clients.
fn who_serves(machine: &Machine, study: &Study) -> Part {
    let mut csv = Csv::new("area,area_clients,net,node,blade,clients");
    for area in &study.areas {
        for serving in &area.servings {
            let router = &machine.routers[usize::from(serving.router)];
            csv.line(format_args!(
                "{},{},{},{},{},{}",
                field(&area.name),
                area.clients,
                machine.nets[usize::from(router.net)].net,
                field(&machine.router_name(router.id)),
                field(&machine.modules[usize::from(router.module)].blade),
                serving.clients
            ));
        }
    }
    csv.part("who-serves")
}

fn links(machine: &Machine, study: &Study) -> Part {
    let mut csv = Csv::new("traffic,from,direction,to,units,gb_s,units_per_gb_s");
    for link in hottest(machine, study, LINKS) {
        let HotLink {
            traffic,
            ends,
            load,
            capacity,
        } = link;
        csv.line(format_args!(
            "{traffic},{},{},{},{},{capacity},{}",
            field(&ends.from),
            ends.axis,
            field(&ends.to),
            in_digits(load),
            in_digits(load / capacity)
        ));
    }
    csv.part("links")
}
