//! Pictures of the machine: positions of routers, the module that serves each client, hot links.

use std::collections::BTreeMap;
use std::fmt::Write;

use crate::links::{LinkEnds, in_digits};
use crate::machine::{Group, Machine, Module, Role};
use crate::metrics::data_modules;
use crate::plan::Plan;
use crate::report::layout::Layout;
use crate::report::study::Study;
use crate::report::svg::{Picture, escape};
use crate::report::tables;
use crate::rule::Axes;
use crate::topology::{Direction, Fabric, Grid, GridLink};

/// Most stripes of one cell.
const STRIPES: usize = 6;

/// Most places that the words about a group list.
const PLACES: usize = 12;

/// Width of the pictures of a group or a dimension, and space above them.
const SMALL_WIDTH: f64 = 300.0;
const HEAD: f64 = 18.0;

/// All pictures of the machine.
pub(super) fn all(machine: &Machine, study: &Study) -> Vec<Picture> {
    let mut pictures = vec![routers(machine)];
    pictures.extend(assignments(machine, &study.plan));
    pictures.extend(projections(machine, study));
    pictures
}

/// Draws the positions of the routers, by group.
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
            .map(|m| layout.part(&machine.fabric, machine.modules[usize::from(m)].home));
        let (names, mut rows): (Vec<&str>, Vec<usize>) = homes.unzip();
        rows.sort_unstable();
        rows.dedup();
        let more = rows.len().saturating_sub(PLACES);
        let rows: Vec<String> = rows.iter().take(PLACES).map(ToString::to_string).collect();
        let more = match more {
            0 => String::new(),
            more => format!(" and {more} more"),
        };
        let and = if index > 0 { " " } else { "" };
        let _infallible = write!(
            words,
            "{and}Group {}: {} modules in {} {}{more}.",
            group.name,
            group.modules().len(),
            names.first().copied().unwrap_or_default(),
            rows.join(", ")
        );
    }
    words
}

/// One colour per group, evenly spread over the colour wheel; metadata is grey.
pub(super) fn group_colour(machine: &Machine, group: u16) -> String {
    if machine.groups[usize::from(group)].role == Role::Metadata {
        return "hsl(0,0%,45%)".to_owned();
    }
    let hue = 360 * usize::from(group) / machine.groups.len().max(1) + 210;
    format!("hsl({},62%,42%)", hue % 360)
}

/// One hue per sub-group, one lightness per module of the sub-group.
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

/// Draws for each data group which module is the primary of each client.
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

/// Draws dots at the positions of the group's modules.
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
        (Some((_, most)), Some((_, least))) if most == least => format!(
            "{} of {} modules are primaries; each serves {most} clients.",
            clients.len(),
            group.modules().len(),
        ),
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

/// Number of hottest links that are drawn for each direction of traffic.
const HOT_LINKS: usize = 24;

/// Draws the machine as seen along each of three dimensions, with its modules and hottest links.
/// Empty if the fabric is not a grid.
pub(super) fn projections(machine: &Machine, study: &Study) -> Vec<Picture> {
    let (Fabric::Grid(grid, _), Some(axes)) = (&machine.fabric, Axes::of(&machine.fabric)) else {
        return Vec::new();
    };
    let along = (0..grid.dimensions().len()).rfind(|&d| d != axes.window && d != axes.near);
    let mut pairs = vec![(axes.near, axes.window)];
    if let Some(along) = along {
        pairs.extend([(axes.near, along), (along, axes.window)]);
    }
    let pairs = pairs.into_iter();
    pairs
        .map(|pair| projection(machine, grid, study, pair))
        .collect()
}

fn projection(
    machine: &Machine,
    grid: &Grid,
    study: &Study,
    (across, down): (usize, usize),
) -> Picture {
    let name = |d: usize| grid.dimensions()[d].name.to_uppercase();
    let size = |d: usize| usize::from(grid.dimensions()[d].size);
    let (left, top) = (22.0, 20.0);
    let step = ((SMALL_WIDTH + 60.0) / (size(across) + 1) as f64).min(24.0);
    let (wide, high) = (size(across) as f64 * step, size(down) as f64 * step);
    let title = format!("{} across, {} down", name(across), name(down));
    let file = format!(
        "machine-{}-{}",
        name(across).to_lowercase(),
        name(down).to_lowercase()
    );
    let mut picture = Picture::new(&file, title, left + wide + step, top + high + step);
    let at = |vertex, d| f64::from(grid.position(vertex, d));
    let place = |vertex| {
        (
            left + (at(vertex, across) + 0.5) * step,
            top + (at(vertex, down) + 0.5) * step,
        )
    };
    picture.add(format_args!(
        "<rect x=\"{left}\" y=\"{top}\" width=\"{wide:.1}\" height=\"{high:.1}\" class=\"cell\"/>"
    ));
    scale(&mut picture, (left, top), step, (size(across), size(down)));
    for (index, module) in machine.modules.iter().enumerate() {
        module_dot(
            &mut picture,
            machine,
            (index, module),
            place(module.home),
            step,
        );
    }
    for link in tables::hottest(machine, study, HOT_LINKS) {
        if let Some(at) = link.ends.grid {
            let lines = (across, down);
            hot_link(&mut picture, (&link, at), lines, step, place(at.from));
        }
    }
    picture.words = format!(
        "{} to the right, {} down. Dots are router modules by group; select one to see its clients. Thick lines are the {HOT_LINKS} \
         hottest links of writes (red) and of reads (blue); a square is a link that runs away from you, along {}.",
        name(across),
        name(down),
        (0..grid.dimensions().len())
            .filter(|&d| d != across && d != down)
            .map(name)
            .collect::<Vec<_>>()
            .join(" or ")
    );
    picture
}

/// Labels every fourth position along both sides of a projection.
fn scale(picture: &mut Picture, (left, top): (f64, f64), step: f64, (wide, high): (usize, usize)) {
    let middle = |position: usize| (position as f64 + 0.5) * step;
    for position in (0..wide).step_by(4) {
        let text = position.to_string();
        picture.text(left + middle(position), top - 6.0, "small middle", &text);
    }
    for position in (0..high).step_by(4) {
        let text = position.to_string();
        picture.text(left - 4.0, top + middle(position) + 3.5, "small end", &text);
    }
}

/// Draws a router module as a dot that links to the module's panel, if it has one.
fn module_dot(
    picture: &mut Picture,
    machine: &Machine,
    (index, module): (usize, &Module),
    (x, y): (f64, f64),
    step: f64,
) {
    let colour = group_colour(machine, module.group);
    let (radius, blade) = ((step * 0.36).max(1.5), escape(&module.blade));
    let group = escape(&machine.groups[usize::from(module.group)].name);
    let dot = format!(
        "<circle cx=\"{x:.1}\" cy=\"{y:.1}\" r=\"{radius:.1}\" fill=\"{colour}\"><title>{blade}, group {group}</title></circle>"
    );
    if index < PANELS_MAX && machine.groups[usize::from(module.group)].role == Role::Data {
        picture.add(format_args!(
            "<a href=\"#m-{index}\" aria-label=\"{blade}\">{dot}</a>"
        ));
    } else {
        picture.add(format_args!("{dot}"));
    }
}

fn hot_link(
    picture: &mut Picture,
    (link, at): (&tables::HotLink, GridLink),
    (across, down): (usize, usize),
    step: f64,
    (x, y): (f64, f64),
) {
    let sign = match at.direction {
        Direction::Plus => step,
        Direction::Minus => -step,
    };
    let (class, hot) = (link.traffic, in_digits(link.load / link.capacity));
    let LinkEnds { from, to, axis, .. } = &link.ends;
    let what = escape(&format!(
        "{class} {from} {axis} → {to}: {hot} units per GB/s"
    ));
    if at.dimension == across || at.dimension == down {
        let (dx, dy) = if at.dimension == across {
            (sign, 0.0)
        } else {
            (0.0, sign)
        };
        picture.add(format_args!(
            "<line x1=\"{x:.1}\" y1=\"{y:.1}\" x2=\"{:.1}\" y2=\"{:.1}\" class=\"hot {class}\"><title>{what}</title></line>",
            x + dx,
            y + dy
        ));
    } else {
        let half = step * 0.45;
        picture.add(format_args!(
            "<rect x=\"{:.1}\" y=\"{:.1}\" width=\"{:.1}\" height=\"{:.1}\" class=\"hot {class}\"><title>{what}</title></rect>",
            x - half,
            y - half,
            2.0 * half,
            2.0 * half
        ));
    }
}

/// Most modules with a panel of their own, so that a report stays below a few megabytes.
pub(super) const PANELS_MAX: usize = 256;

/// Draws the clients of a module, and the modules that serve them after it died, on the first net
/// of its group.
pub(super) fn clients_of(machine: &Machine, plan: &Plan, module: u16) -> Picture {
    let layout = Layout::of(&machine.fabric);
    let entry = &machine.modules[usize::from(module)];
    let group = &machine.groups[usize::from(entry.group)];
    let net = group.nets.first().map_or(0, |&net| usize::from(net));
    let (wide, high) = (layout.columns as f64, layout.rows as f64);
    let size = (SMALL_WIDTH / wide).min(12.0);
    let title = format!("The clients of {} before and after it died", entry.blade);
    let file = format!("clients-{module}");
    let mut picture = Picture::new(&file, title, 2.0 * wide * size + 20.0, high * size + HEAD);
    let mut cells: BTreeMap<u16, Vec<bool>> = BTreeMap::new();
    let (mut clients, mut lost) = (0, 0);
    let count = layout.columns * layout.rows;
    for (row, place) in plan.rows().iter().enumerate() {
        let mut modules = plan
            .routers(row, net)
            .iter()
            .map(|&r| machine.routers[usize::from(r)].module);
        if modules.next() != Some(module) {
            continue;
        }
        clients += place.clients;
        let index = layout.index(layout.cell(place.vertex));
        let next = modules.find(|&other| other != module);
        lost += if next.is_none() { place.clients } else { 0 };
        for which in [Some(module), next].into_iter().flatten() {
            cells.entry(which).or_insert_with(|| vec![false; count])[index] = true;
        }
    }
    picture.text(0.0, 12.0, "small", "before");
    picture.text(wide * size + 20.0, 12.0, "small", "after it died");
    for left in [0.0, wide * size + 20.0] {
        picture.add(format_args!(
            "<rect x=\"{left:.1}\" y=\"{HEAD}\" width=\"{:.1}\" height=\"{:.1}\" class=\"cell\"/>",
            wide * size,
            high * size
        ));
    }
    for (&which, cells) in &cells {
        let left = if which == module {
            0.0
        } else {
            wide * size + 20.0
        };
        area(&mut picture, machine, &layout, (which, cells), (left, size));
    }
    let heirs = cells.keys().filter(|&&which| which != module);
    let heirs: Vec<&str> = heirs
        .map(|&m| machine.modules[usize::from(m)].blade.as_str())
        .collect();
    picture.words = format!(
        "{clients} clients of each net of group {} have their primary here. After it died {} serve them; {lost} are left without a router.",
        group.name,
        if heirs.is_empty() {
            "none".to_owned()
        } else {
            heirs.join(", ")
        }
    );
    picture
}

/// Draws the cells that a module serves and the position of the module.
fn area(
    picture: &mut Picture,
    machine: &Machine,
    layout: &Layout,
    (which, cells): (u16, &[bool]),
    (left, size): (f64, f64),
) {
    let module = &machine.modules[usize::from(which)];
    let group = &machine.groups[usize::from(module.group)];
    let colour = module_colour(group, module.sub_group, module.index);
    let path = runs(cells, layout.columns);
    let blade = escape(&module.blade);
    picture.add(format_args!(
        "<path transform=\"translate({left:.1} {HEAD}) scale({size:.2})\" d=\"{path}\" fill=\"{colour}\"><title>{blade}</title></path>"
    ));
    let home = layout.cell(module.home);
    let (x, y) = (
        left + (home.column as f64 + 0.5) * size,
        HEAD + (home.row as f64 + 0.5) * size,
    );
    picture.add(format_args!(
        "<circle cx=\"{x:.1}\" cy=\"{y:.1}\" r=\"3\" class=\"home\"/>"
    ));
}

/// Makes a path of cells, with a rectangle for each run in a row.
fn runs(cells: &[bool], columns: usize) -> String {
    let mut path = String::new();
    for (y, row) in cells.chunks(columns.max(1)).enumerate() {
        let mut x = 0;
        while x < row.len() {
            let length = row[x..].iter().take_while(|&&cell| cell).count();
            if length > 0 {
                // Writing to a string cannot fail.
                let _infallible = write!(path, "M{x} {y}h{length}v1h-{length}z");
            }
            x += length.max(1);
        }
    }
    path
}

/// Draws the empty cells as one path.
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

/// Draws names and positions along the top and the left side.
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

/// Distance between labelled positions for which there is room.
fn step(count: usize, length: f64) -> usize {
    let room = (length / 22.0).max(1.0) as usize;
    count.div_ceil(room).max(1)
}

/// A name that any file system accepts.
pub(super) fn file_name(name: &str) -> String {
    let plain = |c: char| if c.is_ascii_alphanumeric() { c } else { '-' };
    name.chars().map(plain).collect()
}

/// Numbers of data modules and of their cabinets.
pub(super) fn module_count(machine: &Machine) -> (usize, usize) {
    let mut cabinets: Vec<&str> = data_modules(machine)
        .map(|(_, m)| m.cabinet.as_str())
        .collect();
    let modules = cabinets.len();
    cabinets.sort_unstable();
    cabinets.dedup();
    (modules, cabinets.len())
}
