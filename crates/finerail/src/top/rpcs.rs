//! Tables of cells for Lustre's RPCs.

use lnet_dlc::protocol::{RpcNumbers, RpcRow, RpcTold};

use super::frame::{Cell, Column, Row, State, by_key, column, names};
use super::rates::{Span, growth};

const RATE: Column = column("RPC/S", "rpcs_per_second", 6, 0);
const BYTES: Column = column("BYTES/S", "bytes_per_second", 7, 1);
const ERRORS: Column = column("ERR/S", "errors_per_second", 6, 1);
const LOST: Column = column("LOST/S", "unanswered_per_second", 6, 2);
const MEAN: Column = column("MEAN", "mean_nanos", 6, 1);
const TIME_99: Column = column("P99", "nanos_99", 6, 3);
const TIME_MAX: Column = column("MAX", "nanos_max", 6, 3);
const RPCS: Column = column("RPCS", "rpcs", 6, 4);

const fn table(name: Column) -> [Column; 9] {
    [
        name, RATE, BYTES, ERRORS, LOST, MEAN, TIME_99, TIME_MAX, RPCS,
    ]
}

/// The index of the column with the rate of RPCs.
pub(super) const RATE_COLUMN: usize = 1;

pub(super) const CLIENTS: &[Column] = &table(names("CLIENT", "client", 18, 0));
pub(super) const TARGETS: &[Column] = &table(names("TARGET", "target", 18, 0));
pub(super) const OPERATIONS: &[Column] = &table(names("OPERATION", "operation", 18, 0));
pub(super) const JOBS: &[Column] = &table(names("JOB", "job", 18, 0));

pub(super) const SLOWEST: &[Column] = &[
    column("TIME", "nanos", 6, 0),
    names("OPERATION", "operation", 14, 0),
    names("CLIENT", "client", 18, 0),
    names("TARGET", "target", 18, 1),
    names("JOB", "job", 12, 2),
    column("BYTES", "bytes", 6, 3),
    column("STATUS", "status", 6, 3),
    names("SUBJECT", "subject", 18, 4),
];

/// Returns the rows of a table in the node's order. The mean is of what ended between the samples; the other times are
/// of all RPCs of a row.
pub(super) fn rows(
    by: &str,
    before: &RpcNumbers,
    now: &RpcNumbers,
    span: Option<Span>,
) -> Vec<Row> {
    let table = |numbers: &'_ RpcNumbers| {
        let table = numbers.tables.iter().find(|table| table.by == by);
        table.map(|table| table.rows.clone()).unwrap_or_default()
    };
    let (before, now) = (table(before), table(now));
    let old = by_key(&before, |row| row.name.as_str());
    let rows = now.iter();
    rows.map(|row| of_row(old.get(row.name.as_str()).copied(), row, span))
        .collect()
}

fn of_row(old: Option<&RpcRow>, row: &RpcRow, span: Option<Span>) -> Row {
    let fresh = RpcRow::default();
    let old = old.unwrap_or(&fresh);
    let rate = |before, after| span.map(|span| span.rate(before, after));
    let number = |before, after| rate(before, after).map_or(Cell::Nothing, Cell::Number);
    let answered = growth(old.answered, row.answered);
    let mean = growth(old.micros, row.micros).checked_div(answered);
    let cells = vec![
        Cell::Name(row.name.clone()),
        number(old.rpcs, row.rpcs),
        rate(old.bytes, row.bytes).map_or(Cell::Nothing, Cell::Bytes),
        number(old.errors, row.errors),
        number(old.unanswered, row.unanswered),
        time(span.and(mean)),
        time(row.micros_99),
        time(row.micros_max),
        Cell::Number(row.rpcs as f64),
    ];
    let state = State::Up;
    Row { state, cells }
}

pub(super) fn of_told(rpc: &RpcTold) -> Row {
    let status = rpc.status.map(f64::from);
    let cells = vec![
        time(rpc.micros),
        Cell::Name(rpc.operation.clone()),
        Cell::Name(rpc.client.clone()),
        Cell::Name(rpc.target.clone()),
        Cell::Name(rpc.job.clone()),
        Cell::Bytes(rpc.bytes as f64),
        status.map_or(Cell::Nothing, Cell::Number),
        Cell::Name(rpc.subject.clone()),
    ];
    let state = State::Up;
    Row { state, cells }
}

fn time(micros: Option<u64>) -> Cell {
    micros.map_or(Cell::Nothing, |micros| {
        Cell::Nanos(micros.saturating_mul(1000))
    })
}

#[cfg(test)]
pub(super) mod tests {
    use lnet_dlc::protocol::RpcTable;

    use super::*;

    pub(in crate::top) fn one_of_each() -> RpcNumbers {
        let tables = ["client", "target", "operation", "job"].map(|by| RpcTable {
            by: by.to_owned(),
            rows: vec![RpcRow::default()],
        });
        RpcNumbers {
            tables: tables.into(),
            slowest: vec![RpcTold::default()],
            ..RpcNumbers::default()
        }
    }

    #[test]
    fn rates_and_the_mean_are_of_the_time_between_two_samples() {
        let row = |rpcs, micros| RpcRow {
            name: "OST_READ".into(),
            rpcs,
            answered: rpcs,
            micros,
            bytes: rpcs * 10,
            ..RpcRow::default()
        };
        let span = Span::between(1, 2_000_000_001);
        let cells = of_row(Some(&row(100, 1_000_000)), &row(110, 1_000_200), span).cells;
        assert_eq!(cells[1], Cell::Number(5.0));
        assert_eq!(cells[2], Cell::Bytes(50.0));
        assert_eq!(cells[5], Cell::Nanos(20_000));
        let idle = of_row(Some(&row(110, 7)), &row(110, 7), span).cells;
        assert_eq!(idle[5], Cell::Nothing);
        let first = of_row(None, &row(110, 7), None).cells;
        assert_eq!((&first[1], &first[5]), (&Cell::Nothing, &Cell::Nothing));
        assert_eq!(first[8], Cell::Number(110.0));
    }
}
