//! The RPCs of Lustre in a capture: a line for each, or a table.

mod contents;

use std::collections::BTreeMap;
use std::io::{self, Read, Write};
use std::process::ExitCode;

use comfy_table::{CellAlignment, Table, presets};
use lnet_capture::{Decoder, Direction, Kind, Message, Payload, Summary as CaptureSummary};
use lnet_ptlrpc::{
    By, Contents, End, Evidence, Field, FindingKind, OTHER, Opened, Pairer, PortalUse, ROWS_MAX,
    Role, Rpc, Seen, Status, Summary, Tally, fields, open, portal, portal_use,
};
use lnet_types::Time;
use lnet_wire::{Body, Header, o2ib};
use serde::Serialize;
use serde_json::json;

use super::{DumpArgs, damage, verdict};
use contents::{Place, Reader, print_json, print_lines};

/// A column that makes rows of the table.
#[derive(Clone, Copy, Debug, clap::ValueEnum)]
pub(super) enum Column {
    Client,
    Target,
    Operation,
    Job,
}

impl From<Column> for By {
    fn from(column: Column) -> Self {
        match column {
            Column::Client => Self::Client,
            Column::Target => Self::Target,
            Column::Operation => Self::Operation,
            Column::Job => Self::Job,
        }
    }
}

/// The bytes of a message that are looked at: blocks of a log with their frame fit, and nothing that is printed is longer.
const KEPT: usize = 16 << 10;

/// The bytes of a table of an MGS that are looked at. Other bulk is not kept.
const TABLE_KEPT: usize = 64 << 10;

fn keep(header: &Header) -> usize {
    match header.body {
        Body::Put(put) if put.ptl_index == portal::MGS_BULK => TABLE_KEPT,
        Body::Put(put) => match portal_use(put.ptl_index) {
            PortalUse::Request | PortalUse::Reply => KEPT,
            PortalUse::Bulk | PortalUse::Other => 0,
        },
        _ => 0,
    }
}

/// The most GETs whose replies come by RDMA that are remembered.
const GETS_MAX: usize = 1 << 16;

/// Returns the header of the REPLY that the o2ib LND does not send: GET_DONE says how many bytes were written; `None` if
/// the GET failed.
fn reply_to(get: &Header, status: i32) -> Option<Header> {
    let Body::Get(asked) = get.body else {
        return None;
    };
    Some(Header {
        dest_nid: get.src_nid,
        src_nid: get.dest_nid,
        dest_pid: get.src_pid,
        src_pid: get.dest_pid,
        payload_length: u32::try_from(status).ok()?,
        body: Body::Reply(lnet_wire::Reply {
            dst_wmd: asked.return_wmd,
        }),
    })
}

/// Reads the capture and prints its RPCs.
pub(super) fn dump(
    args: &DumpArgs,
    input: Box<dyn Read>,
    out: &mut dyn Write,
) -> anyhow::Result<ExitCode> {
    let mut view = View::new(args);
    let mut pairer = Pairer::default();
    if args.csv {
        view.csv_names(out)?;
    }
    let decoder = Decoder::new(&args.ports).keeping(keep);
    let (summary, read) = decoder.decode(input, |message| {
        view.message(&mut pairer, message, &mut *out)
    });
    let damage = damage(args, read)?;
    let mut result = Ok(());
    pairer.finish(&mut |rpc| {
        if result.is_ok() {
            result = view.rpc(&rpc, &mut *out);
        }
    });
    result?;
    view.end(&pairer.tally, &summary, out)?;
    out.flush()?;
    Ok(verdict(args, &summary, damage.as_ref()))
}

/// How RPCs are printed.
struct View<'a> {
    args: &'a DumpArgs,
    start: Option<Time>,
    table: Option<Summary>,
    /// GETs over o2ib by connection, sender and cookie.
    gets: BTreeMap<(u32, Direction, u64), Header>,
    /// GETs over o2ib that were forgotten, because more than [`GETS_MAX`] had no reply.
    gets_forgotten: u64,
    reader: Reader,
}

impl<'a> View<'a> {
    fn new(args: &'a DumpArgs) -> Self {
        let by: Vec<By> = args.by.iter().map(|column| By::from(*column)).collect();
        Self {
            args,
            start: None,
            table: args.rpc_summary.then(|| Summary::new(&by)),
            gets: BTreeMap::new(),
            gets_forgotten: 0,
            reader: Reader::default(),
        }
    }

    fn message(
        &mut self,
        pairer: &mut Pairer,
        message: &Message<'_>,
        out: &mut dyn Write,
    ) -> io::Result<()> {
        self.start.get_or_insert(message.time);
        let Some((header, head)) = self.lnet(message) else {
            return Ok(());
        };
        let side = u64::from(message.direction == Direction::FromAcceptor);
        let seen = Seen {
            time: message.time,
            place: u64::from(message.connection.id) << 1 | side,
            header: &header,
            head,
        };
        let mut ended = Vec::new();
        let role = pairer.take(&seen, &mut |rpc| ended.push(rpc));
        if self.args.verbose {
            let contents = self.reader.contents(&seen, role);
            self.fields(&seen, role, contents.as_ref(), out)?;
        } else if self.args.json && self.table.is_none() {
            let contents = self.reader.contents(&seen, role);
            objects(&seen, contents.as_ref(), out)?;
        }
        ended.iter().try_for_each(|rpc| self.rpc(rpc, out))
    }

    /// Returns the LNet header of a message and the first bytes of its payload; `None` if there is none.
    fn lnet<'m>(&mut self, message: &Message<'m>) -> Option<(Header, &'m [u8])> {
        let (header, head) = match message.kind {
            Kind::Lnet(lnet) => match lnet.payload {
                Payload::Opaque { head, .. } => (lnet.header, head),
                _ => (lnet.header, &[][..]),
            },
            Kind::O2ib(o2ib) => match &o2ib.body {
                o2ib::Body::Immediate { header, payload } => (*header, *payload),
                o2ib::Body::PutReq { header, .. } => (*header, &[][..]),
                o2ib::Body::GetReq { header, cookie, .. } => {
                    let key = (message.connection.id, message.direction, *cookie);
                    self.gets.insert(key, *header);
                    if self.gets.len() > GETS_MAX {
                        self.gets.pop_first();
                        self.gets_forgotten += 1;
                    }
                    (*header, &[][..])
                }
                o2ib::Body::GetDone { cookie, status } => {
                    let asker = message.direction.other();
                    let get = self.gets.remove(&(message.connection.id, asker, *cookie))?;
                    (reply_to(&get, *status)?, &[][..])
                }
                _ => return None,
            },
            _ => return None,
        };
        Some((header, head))
    }

    /// Prints every field of a request or a reply, and what stands inside of a message.
    fn fields(
        &self,
        seen: &Seen<'_>,
        role: Role,
        contents: Option<&Contents>,
        out: &mut dyn Write,
    ) -> io::Result<()> {
        let (name, intent) = match role {
            Role::Request(intent) => ("request", intent),
            Role::Reply(intent) => ("reply", intent),
            Role::Early => ("early reply", None),
            Role::Encrypted => ("encrypted", None),
            Role::Bulk if contents.is_some() => ("bulk", None),
            Role::Bulk | Role::Other => return Ok(()),
        };
        let Header {
            src_nid, dest_nid, ..
        } = seen.header;
        let since = self.since(seen.time);
        writeln!(out, "{since:>11} {src_nid} -> {dest_nid}  {name}")?;
        let len = seen.header.payload_length as usize;
        if let (false, Ok(Opened::Clear(message, base))) = (name == "bulk", open(seen.head, len)) {
            let mut result = Ok(());
            fields(&message, intent, &mut |field| {
                if result.is_ok() && field.name != "pad" {
                    result = print_field(&field, base, out);
                }
            });
            result?;
        }
        contents.map_or(Ok(()), |contents| print_lines(contents, out))
    }

    fn since(&self, time: Time) -> String {
        let start = self.start.unwrap_or(time);
        Time::from_nanos(time.as_nanos().saturating_sub(start.as_nanos())).to_string()
    }

    fn rpc(&mut self, rpc: &Rpc, out: &mut dyn Write) -> io::Result<()> {
        match &mut self.table {
            Some(table) => {
                table.add(rpc);
                Ok(())
            }
            None if self.args.json => line_of_json(out, &Row::of(rpc)),
            None if self.args.csv => out.write_all(&csv_line(&Row::of(rpc))?),
            None => self.line(rpc, out),
        }
    }

    fn line(&self, rpc: &Rpc, out: &mut dyn Write) -> io::Result<()> {
        let since = self.since(rpc.started);
        let (client, target) = (rpc.client, rpc.target_name());
        let ends = format!("{client} > {target}");
        let job = if rpc.job.is_empty() { "-" } else { &rpc.job };
        let details = details(rpc);
        let line = format!(
            "{since:>11} {:<16} {ends:<36} {job:<16} {details}",
            rpc.operation()
        );
        writeln!(out, "{}", line.trim_end())
    }

    fn csv_names(&self, out: &mut dyn Write) -> io::Result<()> {
        out.write_all(&csv_record(Row::NAMES)?)
    }

    /// Prints the table, and what was notable.
    fn end(
        &self,
        tally: &Tally,
        capture: &CaptureSummary,
        out: &mut dyn Write,
    ) -> anyhow::Result<()> {
        if self.args.csv {
            return Ok(());
        }
        if self.args.json {
            let last = json!({
                "what": "summary",
                "rpcs": tally.rpcs,
                "in_flight": tally.in_flight,
                "forgotten": tally.forgotten,
                "gets_forgotten": self.gets_forgotten,
                "replies_without_request": tally.orphan_replies,
                "late_replies": tally.late_replies,
                "repeated_replies": tally.repeated_replies,
                "bulk_without_request": tally.orphan_bulk,
                "late_bulk": tally.late_bulk,
                "malformed": tally.malformed,
                "undecoded_bytes": capture.bytes.undecoded,
                "rows_evicted": self.table.as_ref().map(Summary::evicted),
                "rows": self.table.as_ref().map(rows_of_json),
                "findings": tally.findings(),
                "counts": counts(tally),
            });
            return Ok(line_of_json(out, &last)?);
        }
        if let Some(table) = &self.table {
            writeln!(out, "{}", text_table(table))?;
            rows_left_out(table, out)?;
        }
        print_findings(tally, out)?;
        if self.gets_forgotten > 0 {
            let count = self.gets_forgotten;
            writeln!(
                out,
                "{count} GETs over RDMA without a reply were forgotten: more than {GETS_MAX} at a time"
            )?;
        }
        Ok(())
    }
}

fn print_field(field: &Field<'_>, base: usize, out: &mut dyn Write) -> io::Result<()> {
    let mark = match field.evidence {
        Evidence::Read => "  (only read)",
        Evidence::Checked => "  (only read, size checked)",
        Evidence::Live => "",
    };
    let at = base + field.at;
    let (part, name) = (field.part, field.name);
    writeln!(out, "{at:>14}  {part:<14} {name:<16} {field}{mark}")
}

/// Prints what stands inside of a message as an object of JSON.
fn objects(seen: &Seen<'_>, contents: Option<&Contents>, out: &mut dyn Write) -> io::Result<()> {
    let (Some(contents), Body::Put(put)) = (contents, seen.header.body) else {
        return Ok(());
    };
    let place = Place {
        seconds: seconds(seen.time),
        match_bits: put.match_bits,
        client: seen.header.dest_nid,
        server: seen.header.src_nid,
    };
    print_json(contents, &place, out)
}

/// Seconds of this century have digits left for microseconds.
fn seconds(time: Time) -> f64 {
    time.as_nanos() as f64 / 1e9
}

/// Says that the table does not have everything by name.
fn rows_left_out(table: &Summary, out: &mut dyn Write) -> io::Result<()> {
    let evicted = table.evicted();
    if evicted == 0 {
        return Ok(());
    }
    writeln!(
        out,
        "\n{evicted} rows with few RPCs are part of `{OTHER}`: there are more than {ROWS_MAX}. Rows of the most RPCs are\n\
         there; one may lack its first RPCs. Fewer columns (--by) make fewer rows"
    )
}

/// Returns object or name, bytes, status and times.
fn details(rpc: &Rpc) -> String {
    let mut words = Vec::new();
    if !rpc.subject.is_empty() {
        words.push(rpc.subject.clone());
    }
    if rpc.bulk_parts > 0 || rpc.moved() > 0 {
        words.push(format!("{} B", rpc.moved()));
    }
    words.push(match (rpc.end, rpc.status_text()) {
        (End::Answered, Some(status)) => status,
        (End::Answered, None) => "answered".to_owned(),
        (End::Unanswered, _) => "NO REPLY".to_owned(),
        (End::InFlight, _) => "in flight".to_owned(),
        (End::Forgotten, _) => "not followed to its end".to_owned(),
    });
    if let Some(took) = rpc.took() {
        words.push(format!("{:.3} ms", took.as_secs_f64() * 1e3));
    }
    if let Some(beyond) = rpc.beyond {
        words.push(format!(
            "({:.3} ms beyond the router)",
            beyond.as_secs_f64() * 1e3
        ));
    }
    if let Some(seconds) = rpc.service_time.filter(|seconds| *seconds > 0) {
        words.push(format!("server {seconds} s"));
    }
    if rpc.resends > 0 {
        words.push(format!("sent {} times", rpc.resends + 1));
    }
    if rpc.early > 0 {
        words.push(format!("{} early", rpc.early));
    }
    if rpc.is_replay {
        words.push("replay".to_owned());
    }
    words.join("  ")
}

/// An RPC as an object of JSON, and as a line of CSV. Names keep their meaning.
#[derive(Serialize)]
struct Row {
    what: &'static str,
    time: f64,
    operation: String,
    opcode: Option<u32>,
    xid: String,
    client: String,
    server: String,
    target: Option<String>,
    job: String,
    uid: Option<u32>,
    gid: Option<u32>,
    subject: String,
    flavor: String,
    /// Bytes of data that moved, in bulk or within the messages: those of the table.
    bytes: u64,
    asked_bytes: u64,
    bulk_bytes: u64,
    bulk_messages: u32,
    status: Option<i32>,
    error: Option<String>,
    end: &'static str,
    took_seconds: Option<f64>,
    beyond_seconds: Option<f64>,
    server_seconds: Option<u32>,
    resends: u32,
    early_replies: u32,
    replay: bool,
}

impl Row {
    /// The names of the columns of CSV, in their order.
    const NAMES: [&str; 25] = [
        "time",
        "operation",
        "opcode",
        "xid",
        "client",
        "server",
        "target",
        "job",
        "uid",
        "gid",
        "subject",
        "flavor",
        "bytes",
        "asked_bytes",
        "bulk_bytes",
        "bulk_messages",
        "status",
        "error",
        "end",
        "took_seconds",
        "beyond_seconds",
        "server_seconds",
        "resends",
        "early_replies",
        "replay",
    ];

    fn of(rpc: &Rpc) -> Self {
        let error = rpc.status.filter(|status| *status < 0);
        Self {
            what: "RPC",
            time: seconds(rpc.started),
            operation: rpc.operation(),
            opcode: rpc.opc,
            xid: format!("{:#x}", rpc.xid),
            client: rpc.client.to_string(),
            server: rpc.server.to_string(),
            target: rpc.target.as_ref().map(ToString::to_string),
            job: rpc.job.to_string(),
            uid: rpc.ids.map(|(uid, _)| uid),
            gid: rpc.ids.map(|(_, gid)| gid),
            subject: rpc.subject.clone(),
            flavor: rpc.flavor.to_string(),
            bytes: rpc.moved(),
            asked_bytes: rpc.asked,
            bulk_bytes: rpc.bulk,
            bulk_messages: rpc.bulk_parts,
            status: rpc.status,
            error: error.map(|status| Status(status).to_string()),
            end: match rpc.end {
                End::Answered => "answered",
                End::Unanswered => "unanswered",
                End::InFlight => "in_flight",
                End::Forgotten => "forgotten",
            },
            took_seconds: rpc.took().map(|took| took.as_secs_f64()),
            beyond_seconds: rpc.beyond.map(|beyond| beyond.as_secs_f64()),
            server_seconds: rpc.service_time,
            resends: rpc.resends,
            early_replies: rpc.early,
            replay: rpc.is_replay,
        }
    }
}

fn csv_line(row: &Row) -> io::Result<Vec<u8>> {
    let Ok(serde_json::Value::Object(object)) = serde_json::to_value(row) else {
        return Ok(Vec::new());
    };
    let cells = Row::NAMES.map(|name| match object.get(name) {
        None | Some(serde_json::Value::Null) => String::new(),
        Some(serde_json::Value::String(text)) => text.clone(),
        Some(other) => other.to_string(),
    });
    csv_record(cells)
}

fn csv_record<T: AsRef<[u8]>>(cells: impl IntoIterator<Item = T>) -> io::Result<Vec<u8>> {
    let mut writer = csv::Writer::from_writer(Vec::new());
    writer.write_record(cells).map_err(io::Error::other)?;
    writer
        .into_inner()
        .map_err(|error| io::Error::other(error.to_string()))
}

fn line_of_json(out: &mut dyn Write, value: &impl Serialize) -> io::Result<()> {
    serde_json::to_writer(&mut *out, value).map_err(io::Error::from)?;
    writeln!(out)
}

fn rows_of_json(table: &Summary) -> Vec<serde_json::Value> {
    let row = |(key, figures): (&[String], &lnet_ptlrpc::Figures)| {
        let names = table.by().iter().map(|by| by.name().to_owned());
        let key = names.zip(key.iter().map(|text| json!(text)));
        let mut object: serde_json::Map<_, _> = key.collect();
        object.insert("rpcs".into(), json!(figures.rpcs));
        object.insert("errors".into(), json!(figures.errors));
        object.insert("unanswered".into(), json!(figures.unanswered));
        object.insert("bytes".into(), json!(figures.bytes));
        for (name, share) in PERCENTILES {
            object.insert(format!("{name}_us"), json!(figures.within(share)));
        }
        object.insert("max_us".into(), json!(figures.longest()));
        serde_json::Value::Object(object)
    };
    table.rows().into_iter().map(row).collect()
}

/// The shares of RPCs whose times the table has.
const PERCENTILES: [(&str, f64); 3] = [("p50", 0.5), ("p95", 0.95), ("p99", 0.99)];

fn text_table(table: &Summary) -> Table {
    let mut text = Table::new();
    text.load_style(presets::NOTHING);
    let names = table.by().iter().map(|by| by.name());
    let figures = [
        "RPCs", "errors", "no reply", "bytes", "p50 ms", "p95 ms", "p99 ms", "max ms",
    ];
    text.set_header(names.chain(figures));
    let mut put = |key: Vec<String>, row: &lnet_ptlrpc::Figures| {
        let milliseconds = |micros: Option<u64>| match micros {
            Some(micros) => format!("{:.3}", micros as f64 / 1e3),
            None => "-".to_owned(),
        };
        let times = PERCENTILES.map(|(_, share)| milliseconds(row.within(share)));
        let counts =
            [row.rpcs, row.errors, row.unanswered, row.bytes].map(|count| count.to_string());
        let longest = milliseconds(row.longest());
        let cells = key.into_iter().chain(counts).chain(times).chain([longest]);
        text.add_row(cells);
    };
    for (key, row) in table.rows() {
        put(key.to_vec(), row);
    }
    let mut all = vec![String::new(); table.by().len()];
    if let Some(first) = all.first_mut() {
        "all".clone_into(first);
    }
    put(all, &table.total());
    for column in text.column_iter_mut().skip(table.by().len()) {
        column.set_cell_alignment(CellAlignment::Right);
    }
    text
}

fn counts(tally: &Tally) -> serde_json::Map<String, serde_json::Value> {
    let kinds = FindingKind::ALL.into_iter();
    kinds
        .map(|kind| (kind.name().to_owned(), json!(tally.count_of(kind))))
        .collect()
}

/// Prints the totals, and the findings by kind with the first places of each.
fn print_findings(tally: &Tally, out: &mut dyn Write) -> io::Result<()> {
    writeln!(out)?;
    write!(out, "{} RPCs", tally.rpcs)?;
    let others = [
        (tally.in_flight, "in flight at the end"),
        (
            tally.orphan_replies,
            "replies whose request is not in the capture",
        ),
        (
            tally.late_replies,
            "replies that came when their RPC counted as unanswered",
        ),
        (tally.repeated_replies, "replies that came once more"),
        (
            tally.orphan_bulk,
            "messages of bulk whose request is not in the capture",
        ),
        (
            tally.late_bulk,
            "messages of bulk that came when their RPC had ended",
        ),
        (
            tally.malformed,
            "messages on Lustre's portals that are no RPC",
        ),
        (
            tally.forgotten,
            "not followed to their end, because too many were under way",
        ),
    ];
    for (count, what) in others.into_iter().filter(|(count, _)| *count > 0) {
        write!(out, ", {count} {what}")?;
    }
    writeln!(out)?;
    for kind in FindingKind::ALL {
        let count = tally.count_of(kind);
        if count == 0 {
            continue;
        }
        writeln!(out, "{}: {count}: {}", kind.name(), kind.means())?;
        let mut shown = 0;
        for finding in tally
            .findings()
            .iter()
            .filter(|finding| finding.kind == kind)
        {
            writeln!(out, "    {}", finding.seen)?;
            shown += 1;
        }
        if count > shown {
            writeln!(out, "    and {} more", count - shown)?;
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use lnet_ptlrpc::Flavor;
    use lnet_types::Nid;

    use super::*;

    fn rpc(job: usize) -> Rpc {
        Rpc {
            opc: Some(400),
            xid: 128,
            client: Nid::LOOPBACK,
            server: Nid::LOOPBACK,
            portal: 28,
            target: None,
            job: format!("cp.{job}").into(),
            ids: None,
            subject: String::new(),
            flavor: Flavor(0),
            started: Time::ZERO,
            ended: None,
            beyond: None,
            service_time: None,
            status: None,
            asked: 0,
            bulk: 0,
            bulk_parts: 0,
            early: 0,
            resends: 0,
            is_replay: false,
            timeout: 30,
            end: End::InFlight,
        }
    }

    fn said(table: &Summary) -> String {
        let mut out = Vec::new();
        rows_left_out(table, &mut out).unwrap();
        String::from_utf8(out).unwrap()
    }

    #[test]
    fn a_table_says_how_many_rows_it_left_out() {
        let mut table = Summary::new(&[By::Client, By::Job]);
        (0..ROWS_MAX).for_each(|job| table.add(&rpc(job)));
        assert_eq!(said(&table), "");
        table.add(&rpc(ROWS_MAX));
        let said = said(&table);
        let begin = format!(
            "\n{} rows with few RPCs are part of `other`",
            table.evicted()
        );
        assert!(table.evicted() > 0 && said.starts_with(&begin), "{said}");
    }
}
