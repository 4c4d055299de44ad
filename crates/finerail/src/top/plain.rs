//! Formats the model as text and as JSON, and lays out the columns of a table.

use files_lnet::Printable;
use lnet_dlc::protocol::ServiceNumber;
use serde_json::{Map, Value, json};

use super::frame::{Cell, Column, Page, Row};
use super::model::{Model, Totals};
use super::text;

/// The limit of the width of a column, in characters.
const WIDTH_MAX: usize = 43;

/// Returns four lines about the whole node, and one about the service on it, if there is one; or two lines about RPCs. Each has at most 80
/// characters unless names are long.
pub(super) fn summary(model: &Model) -> Vec<String> {
    if model.is_of_rpcs() {
        return vec![first_line(model), rpcs(model)];
    }
    let totals = model.totals();
    let mut lines = vec![
        first_line(model),
        messages(totals.as_ref()),
        payload(totals.as_ref()),
        standing(model),
    ];
    lines.extend(service(model));
    lines
}

fn rpcs(model: &Model) -> String {
    let totals = model.rpc_totals();
    let rate = |at: usize, text: fn(f64) -> String| {
        let value = totals.and_then(|totals| totals.get(at).copied());
        value.map_or("-".to_owned(), text)
    };
    let now = model.sample().map(|sample| &sample.rpcs);
    let count = |count: Option<u64>| count.map_or("-".to_owned(), |count| count.to_string());
    let forgotten = now.map_or(0, |now| now.not_followed);
    let forgotten = (forgotten > 0).then(|| format!("  not followed {forgotten}"));
    format!(
        "rpcs/s   {}  errors {}  unanswered {}  bytes {}   outstanding {}  missed {}{}",
        rate(0, text::short),
        rate(1, text::short),
        rate(2, text::short),
        rate(3, text::bytes),
        count(now.map(|now| now.outstanding)),
        count(now.map(|now| now.missed)),
        forgotten.unwrap_or_default(),
    )
}

/// The numbers of a storage gateway that are shown, of all that it counts.
const OF_SERVICE: [&str; 5] = [
    "rpc_sessions",
    "rpc_busy",
    "rpc_crowded",
    "rpc_refused",
    "rpc_malformed",
];

fn service(model: &Model) -> Option<String> {
    let numbers = &model
        .sample()
        .filter(|sample| !sample.service.is_empty())?
        .service;
    let shown = OF_SERVICE.iter().filter_map(|name| {
        let number = numbers.iter().find(|number| number.name == *name)?;
        let title = name.trim_start_matches("rpc_");
        Some(match number.is_counter {
            false => format!("{title} {}", number.value),
            true => {
                let rate = model
                    .service_rate(number)
                    .map_or("-".to_owned(), text::short);
                format!("{title}/s {rate}")
            }
        })
    });
    Some(format!("service  {}", shown.collect::<Vec<_>>().join("  ")))
}

fn first_line(model: &Model) -> String {
    let line = who(model);
    match (model.stale, model.sample()) {
        (Some(seconds), Some(_)) => format!("STALE, {seconds} s old: {line}"),
        _ => line,
    }
}

fn who(model: &Model) -> String {
    if let Some(why) = &model.away {
        // Some reasons contain the name of the node, and a line of a terminal has room for one name.
        if why.starts_with("the node at ") {
            return why.clone();
        }
        return format!("waiting for the node at {}: {why}", model.path);
    }
    let Some(sample) = model.sample() else {
        return format!("connecting to the node at {}", model.path);
    };
    let nids = &sample.node.nids;
    let primary = nids.first().map_or("no interfaces", String::as_str);
    let more = match nids.len() {
        0 | 1 => String::new(),
        count => format!(" and {} more", count - 1),
    };
    let up = model.uptime().map(text::duration).unwrap_or_default();
    let role = if sample.node.routing { "   router" } else { "" };
    format!("{primary}{more}   up {up}{role}")
}

fn messages(totals: Option<&Totals>) -> String {
    let of =
        |value: fn(&Totals) -> f64| totals.map_or("-".to_owned(), |all| text::short(value(all)));
    format!(
        "msgs/s   sent {}  recv {}  routed {}  dropped {}  resent {}  lost {}",
        of(|all| all.sent),
        of(|all| all.received),
        of(|all| all.routed),
        of(|all| all.dropped),
        of(|all| all.resends),
        of(|all| all.given_up),
    )
}

fn payload(totals: Option<&Totals>) -> String {
    let bytes =
        |value: fn(&Totals) -> f64| totals.map_or("-".to_owned(), |all| text::bytes(value(all)));
    let of =
        |value: fn(&Totals) -> f64| totals.map_or("-".to_owned(), |all| text::short(value(all)));
    format!(
        "bytes/s  sent {}  recv {}  routed {}     failed/s {}  timeouts/s {}",
        bytes(|all| all.sent_bytes),
        bytes(|all| all.received_bytes),
        bytes(|all| all.routed_bytes),
        of(|all| all.failures),
        of(|all| all.timeouts),
    )
}

fn standing(model: &Model) -> String {
    let Some(sample) = model.sample() else {
        return String::new();
    };
    let node = &sample.node;
    let free = node.pools.iter().map(|pool| pool.credits.to_string());
    let buffers = if node.routing {
        let free: Vec<String> = free.collect();
        format!("  free buffers {}", free.join(" "))
    } else {
        String::new()
    };
    format!(
        "now      in flight {}  resending {}  conns {}{buffers}",
        node.under_way, node.resend_queue, node.connections,
    )
}

/// Formats everything as text. Each table has as many columns as fit into `width` characters.
pub(super) fn text(model: &Model, width: usize) -> String {
    let mut lines = summary(model);
    for &page in model.pages {
        let rows = model.rows_of(page);
        let layout = Layout::fitting(page.columns(), &rows, width);
        lines.push(String::new());
        lines.push(format!("{} {}", page.title(), text::grouped(rows.len())));
        if !rows.is_empty() {
            let titles = layout.titles(page.columns()).map(|(_, title)| title);
            lines.push(titles.collect::<Vec<_>>().join(" "));
            lines.extend(rows.iter().map(|row| layout.row(row)));
        }
    }
    let mut text = String::new();
    for line in lines {
        text += &Printable::text(line.trim_end()).to_string();
        text.push('\n');
    }
    text
}

/// Formats everything as one line of JSON. Unknown values are null.
pub(super) fn json(model: &Model) -> serde_json::Result<String> {
    let page = |page: Page| -> Vec<Value> {
        let rows = model.rows_of(page);
        rows.iter().map(|row| object(page.columns(), row)).collect()
    };
    if model.is_of_rpcs() {
        return serde_json::to_string(&of_rpcs(model, page));
    }
    let whole = json!({
        "node": model.sample().map(|sample| &sample.node),
        "per_second": model.totals().as_ref().map(of_totals),
        "service": model.sample().map(|sample| of_service(&sample.service)),
        "interfaces": page(Page::Interfaces),
        "routes": page(Page::Routes),
        "peers": page(Page::Peers),
        "o2ib": page(Page::O2ib),
    });
    serde_json::to_string(&whole)
}

fn of_rpcs(model: &Model, page: impl Fn(Page) -> Vec<Value>) -> Value {
    let now = model.sample().map(|sample| &sample.rpcs);
    let per_second = model.rpc_totals().map(|[rpcs, errors, unanswered, bytes]| {
        json!({ "rpcs": rpcs, "errors": errors, "unanswered": unanswered, "bytes": bytes })
    });
    json!({
        "nids": model.sample().map(|sample| &sample.node.nids),
        "rpcs": now.map(|now| now.all.rpcs),
        "outstanding": now.map(|now| now.outstanding),
        "missed": now.map(|now| now.missed),
        "not_followed": now.map(|now| now.not_followed),
        "per_second": per_second,
        "clients": page(Page::Clients),
        "targets": page(Page::Targets),
        "operations": page(Page::Operations),
        "jobs": page(Page::Jobs),
        "slowest": page(Page::Slowest),
    })
}

fn of_service(numbers: &[ServiceNumber]) -> Value {
    let named = numbers
        .iter()
        .map(|number| (number.name.clone(), json!(number.value)));
    Value::Object(named.collect())
}

fn of_totals(totals: &Totals) -> Value {
    json!({
        "sent": totals.sent,
        "received": totals.received,
        "routed": totals.routed,
        "sent_bytes": totals.sent_bytes,
        "received_bytes": totals.received_bytes,
        "routed_bytes": totals.routed_bytes,
        "dropped": totals.dropped,
        "resends": totals.resends,
        "resends_failed": totals.given_up,
        "failures": totals.failures,
        "response_timeouts": totals.timeouts,
    })
}

fn object(columns: &[Column], row: &Row) -> Value {
    let named = columns.iter().zip(&row.cells);
    let members = named.map(|(column, cell)| (column.name.to_owned(), value(cell)));
    Value::Object(members.collect::<Map<_, _>>())
}

fn value(cell: &Cell) -> Value {
    match cell {
        Cell::Nothing => Value::Null,
        Cell::Name(name) => json!(name),
        Cell::State(state) => json!(state.word()),
        Cell::Credits(left, most) => json!({ "left": left, "max": most }),
        Cell::Number(value) | Cell::Bytes(value) => json!(value),
        Cell::Nanos(nanos) => json!(nanos),
    }
}

/// The visible columns and their widths.
pub(super) struct Layout {
    columns: Vec<Place>,
}

/// The layout of one column.
#[derive(Clone, Copy)]
struct Place {
    column: usize,
    width: usize,
    rank: u8,
    is_name: bool,
}

impl Layout {
    /// Selects the columns that fit into `width` characters. Among the others, columns with the highest rank
    /// are left out first, from right to left. Columns of rank 0 are never left out.
    pub(super) fn fitting(columns: &[Column], rows: &[Row], width: usize) -> Self {
        let places = columns.iter().enumerate().map(|(at, column)| Place {
            column: at,
            width: needed(column, rows, at),
            rank: column.rank,
            is_name: column.is_name,
        });
        let mut shown: Vec<Place> = places.collect();
        let room = width.saturating_add(1);
        while shown.iter().map(|place| place.width + 1).sum::<usize>() > room {
            let highest = shown.iter().map(|place| place.rank).max().unwrap_or(0);
            let last = shown.iter().rposition(|place| place.rank == highest);
            match last {
                Some(last) if highest > 0 => shown.remove(last),
                _ => break,
            };
        }
        Self { columns: shown }
    }

    /// Returns the padded title of each visible column, with the index of the column.
    pub(super) fn titles<'a>(
        &'a self,
        columns: &'a [Column],
    ) -> impl Iterator<Item = (usize, String)> + 'a {
        self.columns.iter().filter_map(move |place| {
            let title = columns.get(place.column)?.title;
            Some((place.column, place.put(title)))
        })
    }

    /// Returns the cells of a row, padded to the columns.
    pub(super) fn row(&self, row: &Row) -> String {
        let cells = self
            .columns
            .iter()
            .filter_map(|place| Some(place.put(&row.cells.get(place.column)?.text())));
        cells.collect::<Vec<_>>().join(" ")
    }
}

impl Place {
    /// Fits a text into the column. A text that is too long loses its start, because names differ at the end.
    fn put(self, text: &str) -> String {
        let width = self.width;
        let length = text.chars().count();
        if length > width {
            let end: String = text.chars().skip(length + 1 - width).collect();
            return format!("~{end}");
        }
        if self.is_name {
            format!("{text:<width$}")
        } else {
            format!("{text:>width$}")
        }
    }
}

fn needed(column: &Column, rows: &[Row], at: usize) -> usize {
    let cells = rows.iter().filter_map(|row| row.cells.get(at));
    let widest = cells
        .map(|cell| cell.text().chars().count())
        .max()
        .unwrap_or(0);
    widest
        .min(WIDTH_MAX)
        .max(column.width.into())
        .max(column.title.len())
}
