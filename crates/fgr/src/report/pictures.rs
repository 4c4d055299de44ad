//! The machine's pictures: where routers stand, which module serves whom, which links are hot.

use std::collections::BTreeMap;
use std::fmt::Write;

use topology::{Fabric, Grid};

use crate::evaluate::LinkLoads;
use crate::machine::{Group, Machine, Role};
use crate::metrics::data_modules;
use crate::plan::Plan;
use crate::report::layout::Layout;
use crate::report::study::Study;
use crate::report::svg::Picture;

/// Stripes of one cell at most.
const STRIPES: usize = 6;

/// Width of the pictures of a group or a dimension, and room above them.
const SMALL_WIDTH: f64 = 300.0;
const HEAD: f64 = 18.0;

/// All pictures of the machine.
pub(super) fn all(machine: &Machine, study: &Study) -> Vec<Picture> {
    let mut pictures = vec![routers(machine)];
    pictures.extend(assignments(machine, &study.plan));
    pictures.extend(links(machine, study));
    pictures
}

/// Where the routers stand, by group.
pub(super) fn routers(machine: &Machine) -> Picture {
    let layout = Layout::of(&machine.fabric);
    let (left, top) = (34.0, 26.0);
    let width = (900.0 / layout.columns as f64).min(60.0);
    let height = (640.0 / layout.rows as f64).clamp(6.0, 40.0);
    let (columns, rows) = (layout.columns as f64, layout.rows as f64);
    let (full, down) = (left + columns * width + 8.0, top + rows * height + 8.0);
    let title = format!("Router positions by group: {}", machine.name);
    let mut picture = Picture::new("routers", title, full, down);
    cells(&mut picture, &layout, (left, top), (width, height));
    scales(&mut picture, &layout, (left, top), (width, height));
    let mut places: BTreeMap<_, u16> = BTreeMap::new();
    for (_, module) in (0_u16..).zip(&machine.modules) {
        for router in
            &machine.routers[usize::from(module.routers.start)..usize::from(module.routers.end)]
        {
            places.insert(router.vertex, module.group);
        }
    }
    let radius = (width / 2.0 - 1.0).min(height / 2.0 - 1.0).clamp(1.5, 6.5);
    for (vertex, group) in places {
        let cell = layout.cell(vertex);
        let inside = (cell.depth as f64 + 0.5) / layout.depth as f64;
        let x = left + (cell.column as f64 + 0.5) * width;
        let y = top + cell.row as f64 * height + radius + inside * (height - 2.0 * radius);
        let colour = group_colour(machine, group);
        picture.add(format_args!(
            "<circle cx=\"{x:.1}\" cy=\"{y:.1}\" r=\"{radius:.1}\" fill=\"{colour}\"/>"
        ));
        if radius > 5.0 {
            let name = &machine.groups[usize::from(group)].name;
            let initial: String = name.chars().take(1).collect();
            picture.text(x, y + 2.9, "mark", &initial);
        }
    }
    picture.words = routers_in_words(machine, &layout);
    picture
}

fn routers_in_words(machine: &Machine, layout: &Layout<'_>) -> String {
    let [columns, rows, inside] = &layout.names;
    let mut words = format!(
        "{columns} across (0 to {}), {rows} down (0 to {})",
        layout.columns - 1,
        layout.rows - 1
    );
    if layout.depth > 1 {
        // Writing to a string cannot fail.
        let _infallible = write!(words, ", {inside} from top to bottom inside a cell");
    }
    words.push_str(". ");
    for (index, group) in machine.groups.iter().enumerate() {
        let homes = group
            .modules()
            .map(|m| layout.cell(machine.modules[usize::from(m)].home));
        let mut rows: Vec<usize> = homes.map(|cell| cell.row).collect();
        rows.sort_unstable();
        rows.dedup();
        let rows: Vec<String> = rows.iter().take(12).map(ToString::to_string).collect();
        let and = if index > 0 { " " } else { "" };
        let _infallible = write!(
            words,
            "{and}Group {}: {} modules in {} {}.",
            group.name,
            group.modules().len(),
            layout.names[1],
            rows.join(", ")
        );
    }
    words
}

/// One colour a group, evenly round the wheel; metadata is grey.
pub(super) fn group_colour(machine: &Machine, group: u16) -> String {
    if machine.groups[usize::from(group)].role == Role::Metadata {
        return "hsl(0,0%,45%)".to_owned();
    }
    let hue = 360 * usize::from(group) / machine.groups.len().max(1) + 210;
    format!("hsl({},62%,42%)", hue % 360)
}

/// One hue a sub-group, one lightness a module of it.
fn module_colour(group: &Group, sub_group: u16, index: u16) -> String {
    let hue = 360 * usize::from(sub_group) / group.sub_groups.len().max(1) + 210;
    let most = group
        .sub_groups
        .iter()
        .map(|r| r.len())
        .max()
        .unwrap_or(1)
        .max(2);
    let light = 34 + 38 * usize::from(index) / (most - 1);
    format!("hsl({},55%,{light}%)", hue % 360)
}

/// For each data group, which module is the primary of whom.
pub(super) fn assignments(machine: &Machine, plan: &Plan) -> Vec<Picture> {
    let layout = Layout::of(&machine.fabric);
    let groups = machine.groups.iter().filter(|g| g.role == Role::Data);
    groups
        .map(|group| assignment(machine, plan, &layout, group))
        .collect()
}

fn assignment(machine: &Machine, plan: &Plan, layout: &Layout<'_>, group: &Group) -> Picture {
    let size = SMALL_WIDTH / layout.columns as f64;
    let tall = (200.0 / layout.rows as f64).clamp(1.0, 10.0);
    let title = format!("Group {}: the primary module of each client", group.name);
    let name = format!("primaries-{}", file_name(&group.name));
    let down = HEAD + tall * layout.rows as f64 + 2.0;
    let mut picture = Picture::new(&name, title, SMALL_WIDTH, down);
    picture.text(0.0, 12.0, "", &format!("Group {}", group.name));
    let net = group.nets.first().map_or(0, |&net| usize::from(net));
    let stripes = layout.depth.min(STRIPES);
    let mut paths: BTreeMap<u16, String> = BTreeMap::new();
    let mut clients: BTreeMap<u16, u32> = BTreeMap::new();
    let mut drawn = vec![false; layout.columns * layout.rows * stripes];
    for (row, entry) in plan.rows().iter().enumerate() {
        let Some(&router) = plan.routers(row, net).first() else {
            continue;
        };
        let module = machine.routers[usize::from(router)].module;
        *clients.entry(module).or_default() += entry.clients;
        let cell = layout.cell(entry.vertex);
        let stripe = cell.depth * stripes / layout.depth;
        let index = layout.index(cell) * stripes + stripe;
        if !std::mem::replace(&mut drawn[index], true) {
            let x = cell.column as f64 * size;
            let high = tall / stripes as f64;
            let y = HEAD + cell.row as f64 * tall + stripe as f64 * high;
            // Writing to a string cannot fail.
            let _infallible = write!(
                paths.entry(module).or_default(),
                "M{x:.1} {y:.1}h{size:.1}v{high:.1}h-{size:.1}z"
            );
        }
    }
    for (module, path) in &paths {
        let entry = &machine.modules[usize::from(*module)];
        let colour = module_colour(group, entry.sub_group, entry.index);
        picture.add(format_args!("<path d=\"{path}\" fill=\"{colour}\"/>"));
    }
    homes(&mut picture, machine, layout, group, (size, tall));
    picture.words = zone_words(machine, group, &clients);
    picture
}

/// Dots where the group's modules stand.
fn homes(
    picture: &mut Picture,
    machine: &Machine,
    layout: &Layout<'_>,
    group: &Group,
    (size, tall): (f64, f64),
) {
    for module in group.modules() {
        let cell = layout.cell(machine.modules[usize::from(module)].home);
        let x = (cell.column as f64 + 0.5) * size;
        let y = HEAD + (cell.row as f64 + 0.5) * tall;
        picture.add(format_args!(
            "<circle cx=\"{x:.1}\" cy=\"{y:.1}\" r=\"2.6\" class=\"home\"/>"
        ));
    }
}

fn zone_words(machine: &Machine, group: &Group, clients: &BTreeMap<u16, u32>) -> String {
    let name = |module: &u16| &machine.modules[usize::from(*module)].blade;
    let most = clients.iter().max_by_key(|(_, count)| **count);
    let least = clients.iter().min_by_key(|(_, count)| **count);
    match (most, least) {
        (Some((a, most)), Some((b, least))) => format!(
            "{} of {} modules are primaries; {} serves most clients ({most}), {} fewest ({least}).",
            clients.len(),
            group.modules().len(),
            name(a),
            name(b),
        ),
        _ => "No module of this group is a primary.".to_owned(),
    }
}

/// The hottest links of each dimension, for writes and for reads; none where the fabric is no grid.
pub(super) fn links(machine: &Machine, study: &Study) -> Vec<Picture> {
    let Fabric::Grid(grid, _) = &machine.fabric else {
        return Vec::new();
    };
    let layout = Layout::of(&machine.fabric);
    let most = study.evaluation.write.max.max(study.evaluation.read.max);
    let each = [("write", &study.write), ("read", &study.read)];
    let each = each.into_iter().flat_map(|(traffic, loads)| {
        (0..grid.dimensions().len()).map(move |d| (traffic, loads, d))
    });
    each.map(|(traffic, loads, d)| heat(machine, grid, &layout, (traffic, loads), d, most))
        .collect()
}

fn heat(
    machine: &Machine,
    grid: &Grid,
    layout: &Layout<'_>,
    (traffic, loads): (&str, &LinkLoads),
    dimension: usize,
    most: f64,
) -> Picture {
    let size = SMALL_WIDTH / layout.columns as f64;
    let tall = (200.0 / layout.rows as f64).clamp(1.0, 10.0);
    let axis = grid.dimensions()[dimension].name.to_uppercase();
    let title = format!("Hottest {axis} link of each cell, {traffic}");
    let name = format!("links-{}-{traffic}", file_name(&axis.to_lowercase()));
    let down = HEAD + tall * layout.rows as f64 + 2.0;
    let mut picture = Picture::new(&name, title, SMALL_WIDTH, down);
    let mut hottest = vec![0.0_f64; layout.columns * layout.rows];
    for (link, load, capacity) in loads.links(&machine.fabric) {
        let link = grid.describe(link);
        if link.dimension == dimension {
            let cell = &mut hottest[layout.index(layout.cell(link.from))];
            *cell = cell.max(load / capacity);
        }
    }
    let peak = hottest.iter().copied().fold(0.0, f64::max);
    picture.text(
        0.0,
        12.0,
        "",
        &format!("{axis}, {traffic}: up to {peak:.1}"),
    );
    cells(&mut picture, layout, (0.0, HEAD), (size, tall));
    // Ten steps: one path each is a hundredth of the bytes of a rectangle a cell.
    for step in 1_u8..=10 {
        let mut path = String::new();
        for (index, &value) in hottest.iter().enumerate() {
            if (value / most * 10.0).ceil() == f64::from(step) {
                let x = (index % layout.columns) as f64 * size;
                let y = HEAD + (index / layout.columns) as f64 * tall;
                let _infallible = write!(path, "M{x:.1} {y:.1}h{size:.1}v{tall:.1}h-{size:.1}z");
            }
        }
        let opacity = f64::from(step) / 10.0;
        picture.add(format_args!(
            "<path d=\"{path}\" class=\"heat\" fill-opacity=\"{opacity}\"/>"
        ));
    }
    let all = hottest.len().max(1);
    let hot = hottest.iter().filter(|&&value| value > most / 2.0).count();
    picture.words = format!(
        "The hottest {axis} link has {peak:.1} units per GB/s; {hot} of {all} cells have one above half of the machine's hottest, {most:.1}."
    );
    picture
}

/// The empty cells, as one path.
fn cells(
    picture: &mut Picture,
    layout: &Layout<'_>,
    (left, top): (f64, f64),
    (width, height): (f64, f64),
) {
    let gap = if height > 12.0 { 1.0 } else { 0.3 };
    let mut path = String::new();
    for row in 0..layout.rows {
        for column in 0..layout.columns {
            let (x, y) = (left + column as f64 * width, top + row as f64 * height);
            let (w, h) = (width - gap, height - gap);
            // Writing to a string cannot fail.
            let _infallible = write!(path, "M{x:.1} {y:.1}h{w:.1}v{h:.1}h-{w:.1}z");
        }
    }
    picture.add(format_args!("<path d=\"{path}\" class=\"cell\"/>"));
}

/// Names and positions along the top and the left side.
fn scales(
    picture: &mut Picture,
    layout: &Layout<'_>,
    (left, top): (f64, f64),
    (width, height): (f64, f64),
) {
    for column in (0..layout.columns).step_by(step(layout.columns, 900.0)) {
        let x = left + (column as f64 + 0.5) * width;
        picture.text(x, top - 6.0, "small middle", &column.to_string());
    }
    for row in (0..layout.rows).step_by(step(layout.rows, layout.rows as f64 * height)) {
        let y = top + (row as f64 + 0.5) * height + 3.5;
        picture.text(left - 6.0, y, "small end", &row.to_string());
    }
}

/// Every how many positions there is room for a number.
fn step(count: usize, length: f64) -> usize {
    let room = (length / 22.0).max(1.0) as usize;
    count.div_ceil(room).max(1)
}

/// A name that any file system takes.
pub(super) fn file_name(name: &str) -> String {
    let plain = |c: char| if c.is_ascii_alphanumeric() { c } else { '-' };
    name.chars().map(plain).collect()
}

/// Data modules in words: how many, and on how many cabinets.
pub(super) fn module_count(machine: &Machine) -> (usize, usize) {
    let mut cabinets: Vec<&str> = data_modules(machine)
        .map(|(_, m)| m.cabinet.as_str())
        .collect();
    let modules = cabinets.len();
    cabinets.sort_unstable();
    cabinets.dedup();
    (modules, cabinets.len())
}
