//! The table of the o2ib LND's counters.

use lnet_dlc::protocol::O2ibNumber;

use super::frame::{Cell, Column, Row, State, by_key, column, names};
use super::rates::Span;

pub(super) const COUNTERS: &[Column] = &[
    names("COUNTER", "counter", 18, 0),
    names("OF", "of", 18, 0),
    column("PER/S", "per_second", 8, 0),
    column("TOTAL", "total", 8, 0),
];

/// Returns the rows in the node's order.
pub(super) fn rows(before: &[O2ibNumber], now: &[O2ibNumber], span: Option<Span>) -> Vec<Row> {
    let old = by_key(before, |number| (&number.counter, &number.of));
    let rows = now.iter();
    rows.map(|number| {
        let old = old.get(&(&number.counter, &number.of));
        of_number(old.map_or(0, |old| old.value), number, span)
    })
    .collect()
}

fn of_number(before: u64, number: &O2ibNumber, span: Option<Span>) -> Row {
    let cell = if number.is_bytes {
        Cell::Bytes
    } else {
        Cell::Number
    };
    let rate = span.filter(|_| !number.is_level);
    let rate = rate.map(|span| span.rate(before, number.value));
    let cells = vec![
        Cell::Name(number.counter.clone()),
        Cell::Name(number.of.clone()),
        rate.map_or(Cell::Nothing, cell),
        cell(number.value as f64),
    ];
    let state = State::Up;
    Row { state, cells }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn counters_have_rates_and_levels_have_none() {
        let number = |value, is_level, is_bytes| O2ibNumber {
            counter: "sent".into(),
            value,
            is_level,
            is_bytes,
            ..O2ibNumber::default()
        };
        let span = Span::between(1, 2_000_000_001);
        let cells = |number: &O2ibNumber| of_number(10, number, span).cells[2..].to_vec();
        assert_eq!(
            cells(&number(20, false, false)),
            [Cell::Number(5.0), Cell::Number(20.0)]
        );
        assert_eq!(
            cells(&number(20, false, true)),
            [Cell::Bytes(5.0), Cell::Bytes(20.0)]
        );
        assert_eq!(
            cells(&number(20, true, false)),
            [Cell::Nothing, Cell::Number(20.0)]
        );
    }
}
