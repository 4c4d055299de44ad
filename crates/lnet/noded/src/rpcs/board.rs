//! Rows of RPCs for those who look again and again: a limited number, and no count ever falls.
//!
//! ```text
//!  every RPC ──▶ Summary: up to 4,096 rows ──▶ look: 100 rows of their own ──▶ value: since the row is shown
//!                                                  └─▶ other: all the rest, by difference
//! ```
//!
//! A row that comes to be shown begins at 0, unless it is so new that nobody saw its RPCs in `other`: its past stays in
//! `other`. A row that is no longer shown becomes part of `other` with what it showed.

use std::cmp::Reverse;
use std::collections::{BTreeMap, BTreeSet};

use lnet_ptlrpc::{By, Figures, OTHER, Ranked, Rpc, Summary, TIME_BOUNDS};

/// The most rows beside `other`.
pub(super) const OWN_MAX: usize = 100;

/// How many times the weight of a shown row another needs to take its place: equal ones do not take turns.
const FACTOR: u64 = 2;

/// RPCs by one of their properties.
pub(super) struct Board {
    by: By,
    table: Summary,
    /// What each reader was shown: the looks of one do not change the counts of another.
    views: [View; 2],
}

/// Who looks.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Reader {
    /// Scrapes of metrics.
    Metrics,
    /// Control clients.
    Control,
}

/// What a reader was shown.
#[derive(Default)]
struct View {
    /// The rows that are shown.
    own: Vec<Own>,
    /// The youngest row at the last look.
    seen: u64,
}

/// A row that is shown, by the number of the row, and what the row had before.
struct Own {
    born: u64,
    name: String,
    base: Sums,
    /// What was shown of rows of the same name that went.
    past: Sums,
    /// What the last look showed.
    shown: Sums,
}

impl Own {
    fn new(row: &Ranked<'_>, base: Sums) -> Self {
        Self {
            born: row.born,
            name: row.names.first().cloned().unwrap_or_default(),
            base,
            past: Sums::default(),
            shown: Sums::default(),
        }
    }
}

/// What a row shows.
pub(super) struct Line<'a> {
    pub(super) name: &'a str,
    pub(super) sums: Sums,
    /// What the row had since its first RPC, shown or not; `None` for `other`.
    pub(super) figures: Option<&'a Figures>,
}

/// Counts that only grow.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Sums {
    pub(super) rpcs: u64,
    pub(super) errors: u64,
    pub(super) unanswered: u64,
    pub(super) bytes: u64,
    pub(super) answered: u64,
    pub(super) micros: u64,
    pub(super) by_time: [u64; TIME_BOUNDS.len()],
}

impl Sums {
    pub(super) fn of(figures: &Figures) -> Self {
        Self {
            rpcs: figures.rpcs,
            errors: figures.errors,
            unanswered: figures.unanswered,
            bytes: figures.bytes,
            answered: figures.answered,
            micros: figures.micros,
            by_time: figures.by_time,
        }
    }

    fn plus(mut self, other: &Self) -> Self {
        self.rpcs += other.rpcs;
        self.errors += other.errors;
        self.unanswered += other.unanswered;
        self.bytes = self.bytes.saturating_add(other.bytes);
        self.answered += other.answered;
        self.micros = self.micros.saturating_add(other.micros);
        for (count, more) in self.by_time.iter_mut().zip(other.by_time) {
            *count += more;
        }
        self
    }

    fn minus(mut self, other: &Self) -> Self {
        self.rpcs = self.rpcs.saturating_sub(other.rpcs);
        self.errors = self.errors.saturating_sub(other.errors);
        self.unanswered = self.unanswered.saturating_sub(other.unanswered);
        self.bytes = self.bytes.saturating_sub(other.bytes);
        self.answered = self.answered.saturating_sub(other.answered);
        self.micros = self.micros.saturating_sub(other.micros);
        for (count, less) in self.by_time.iter_mut().zip(other.by_time) {
            *count = count.saturating_sub(less);
        }
        self
    }
}

impl Board {
    pub(super) fn new(by: By) -> Self {
        Self {
            by,
            table: Summary::coarse(&[by]),
            views: Default::default(),
        }
    }

    pub(super) fn add(&mut self, rpc: &Rpc) {
        self.table.add(rpc);
    }

    pub(super) const fn by(&self) -> By {
        self.by
    }

    /// Adds up the figures of all RPCs.
    pub(super) fn total(&self) -> Figures {
        self.table.total()
    }

    /// Returns how many rows with few RPCs made room for others.
    pub(super) const fn evicted(&self) -> u64 {
        self.table.evicted()
    }

    /// Lets RPCs that were counted so far decide less about which rows are shown.
    pub(super) fn age(&mut self) {
        self.table.age();
    }

    /// Returns the rows, those with the most RPCs first, and last `other` if it has RPCs.
    pub(super) fn look(&mut self, reader: Reader) -> Vec<Line<'_>> {
        let [of_metrics, of_control] = &mut self.views;
        let view = match reader {
            Reader::Metrics => of_metrics,
            Reader::Control => of_control,
        };
        let rows = self.table.ranked().map(|row| (row.born, row));
        let rows: BTreeMap<u64, Ranked<'_>> = rows.collect();
        revive(&mut view.own, &rows);
        choose(&mut view.own, &rows, view.seen);
        view.seen = self.table.births();
        let all = rows.values().map(|row| Sums::of(row.figures));
        let mut rest = all.fold(Sums::of(self.table.rest()), |sum, row| sum.plus(&row));
        let mut lines = Vec::new();
        for own in &mut view.own {
            let Some(row) = rows.get(&own.born) else {
                continue;
            };
            let sums = own.past.plus(&Sums::of(row.figures).minus(&own.base));
            own.shown = sums;
            rest = rest.minus(&sums);
            lines.push(Line {
                name: row.names.first().map_or("", String::as_str),
                sums,
                figures: Some(row.figures),
            });
        }
        lines.sort_by_key(|line| (Reverse(line.sums.rpcs), line.name));
        if rest.rpcs > 0 {
            lines.push(Line {
                name: OTHER,
                sums: rest,
                figures: None,
            });
        }
        lines
    }
}

/// Goes on with shown rows that went and came again since the last look: what the new row has was seen nowhere.
fn revive(own: &mut [Own], rows: &BTreeMap<u64, Ranked<'_>>) {
    let gone = own.iter_mut().filter(|own| !rows.contains_key(&own.born));
    let mut gone: BTreeMap<String, &mut Own> = gone.map(|own| (own.name.clone(), own)).collect();
    if gone.is_empty() {
        return;
    }
    for row in rows.values() {
        let own = row.names.first().and_then(|name| gone.get_mut(name));
        if let Some(own) = own {
            (own.born, own.base, own.past) = (row.born, Sums::default(), own.shown);
        }
    }
}

/// Chooses the rows that are shown. Rows behind `seen` are new: nobody saw their RPCs in `other`.
fn choose(own: &mut Vec<Own>, rows: &BTreeMap<u64, Ranked<'_>>, seen: u64) {
    own.retain(|own| rows.contains_key(&own.born));
    let shown: BTreeSet<u64> = own.iter().map(|own| own.born).collect();
    let others = rows.values().filter(|row| !shown.contains(&row.born));
    let mut others: Vec<&Ranked<'_>> = others.collect();
    others.sort_by_key(|row| (Reverse(row.weight), row.born));
    let weight = |own: &Own| rows.get(&own.born).map_or(0, |row| row.weight);
    for row in others.into_iter().take(OWN_MAX) {
        let base = match row.born > seen {
            true => Sums::default(),
            false => Sums::of(row.figures),
        };
        if own.len() < OWN_MAX {
            own.push(Own::new(row, base));
            continue;
        }
        match own.iter_mut().min_by_key(|own| weight(own)) {
            Some(least) if row.weight > FACTOR * weight(least) => *least = Own::new(row, base),
            _ => return,
        }
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;

    use proptest::prelude::*;

    use super::*;
    use crate::rpcs::tests::rpc;

    /// What the last look showed, by name.
    type Shown = BTreeMap<String, Sums>;

    fn add(board: &mut Board, client: u32, count: u64) {
        (0..count).for_each(|_| board.add(&rpc(client)));
    }

    fn name(client: u32) -> String {
        rpc(client).client.to_string()
    }

    /// Looks, and checks that no RPC is missing and that no count has fallen since `before`.
    fn look(board: &mut Board, before: &mut Shown) -> Shown {
        let total = Sums::of(&board.total());
        let lines = board.look(Reader::Metrics);
        assert!(lines.len() <= OWN_MAX + 1);
        let shown: Shown = lines
            .iter()
            .map(|line| (line.name.to_owned(), line.sums))
            .collect();
        assert_eq!(shown.len(), lines.len(), "a name twice");
        let sum = |part: fn(&Sums) -> u64| shown.values().map(part).sum::<u64>();
        assert_eq!(sum(|sums| sums.rpcs), total.rpcs);
        assert_eq!(sum(|sums| sums.errors), total.errors);
        assert_eq!(sum(|sums| sums.bytes), total.bytes);
        for (name, now) in &shown {
            let fell = before
                .get(name)
                .is_some_and(|before| before.rpcs > now.rpcs);
            assert!(!fell, "{name} falls to {}", now.rpcs);
        }
        let other = before.get(OTHER).map_or(0, |before| before.rpcs);
        assert!(
            other <= shown.get(OTHER).map_or(0, |now| now.rpcs),
            "other falls"
        );
        before.clone_from(&shown);
        shown
    }

    #[test]
    fn at_first_the_rows_with_the_most_are_shown_with_all_that_they_have() {
        let mut board = Board::new(By::Client);
        (1..=150).for_each(|client| add(&mut board, client, client.into()));
        let lines = board.look(Reader::Metrics);
        assert_eq!(lines.len(), OWN_MAX + 1);
        assert_eq!((lines[0].name, lines[0].sums.rpcs), ("0.0.0.150@tcp", 150));
        let rest = lines.last().unwrap();
        assert_eq!((rest.name, rest.sums.rpcs), (OTHER, (1..=50).sum::<u64>()));
        look(&mut board, &mut Shown::default());
    }

    #[test]
    fn row_that_rises_out_of_the_others_leaves_its_past_there() {
        let mut board = Board::new(By::Client);
        let mut before = Shown::default();
        (1..=101).for_each(|client| add(&mut board, client, 10 + u64::from(client == 1)));
        let first = look(&mut board, &mut before);
        // All but one of equal ones are shown.
        let hidden = (1..=101).find(|client| !first.contains_key(&name(*client)));
        let hidden = hidden.unwrap();
        assert_eq!(first[OTHER].rpcs, 10);
        // With not more than twice as many RPCs as the least, it stays where it is.
        add(&mut board, hidden, 10);
        assert_eq!(look(&mut board, &mut before)[OTHER].rpcs, 20);
        add(&mut board, hidden, 1);
        let risen = look(&mut board, &mut before);
        assert_eq!(risen[&name(hidden)], Sums::default());
        // The one that it replaces is part of the others, with what it showed.
        assert_eq!((risen[OTHER].rpcs, risen.len()), (31, OWN_MAX + 1));
        add(&mut board, hidden, 5);
        let later = look(&mut board, &mut before);
        assert_eq!((later[&name(hidden)].rpcs, later[OTHER].rpcs), (5, 31));
    }

    #[test]
    fn new_row_takes_the_place_of_one_that_was_busy_long_ago() {
        let mut board = Board::new(By::Client);
        let mut before = Shown::default();
        (1..=100).for_each(|client| add(&mut board, client, 1000));
        look(&mut board, &mut before);
        add(&mut board, 101, 100);
        assert!(!look(&mut board, &mut before).contains_key(&name(101)));
        (0..6).for_each(|_| board.age());
        add(&mut board, 101, 100);
        let shown = look(&mut board, &mut before);
        assert_eq!((shown[&name(101)].rpcs, shown[OTHER].rpcs), (0, 1200));
    }

    #[test]
    fn row_that_went_and_came_again_between_two_looks_goes_on() {
        let mut board = Board::new(By::Client);
        let mut before = Shown::default();
        add(&mut board, 1, 50);
        look(&mut board, &mut before);
        (0..10).for_each(|_| board.age());
        (2..6000).for_each(|client| add(&mut board, client, 1));
        add(&mut board, 1, 7);
        assert!(board.evicted() > 0);
        let shown = look(&mut board, &mut before);
        assert_eq!(shown[&name(1)].rpcs, 57);
        add(&mut board, 1, 3);
        assert_eq!(look(&mut board, &mut before)[&name(1)].rpcs, 60);
    }

    #[test]
    fn looks_of_one_reader_change_no_count_of_another() {
        let mut board = Board::new(By::Client);
        let mut before = Shown::default();
        (1..=100).for_each(|client| add(&mut board, client, 50));
        look(&mut board, &mut before);
        // Others displace all rows, as a control client sees, and become idle again.
        (0..10).for_each(|_| board.age());
        (101..=200).for_each(|client| add(&mut board, client, 50));
        board.look(Reader::Control);
        (0..10).for_each(|_| board.age());
        (1..=100).for_each(|client| add(&mut board, client, 3));
        board.look(Reader::Control);
        let shown = look(&mut board, &mut before);
        assert_eq!(shown[&name(1)].rpcs, 53);
    }

    proptest! {
        #[test]
        fn no_count_falls_whatever_is_busy_when(
            turns in prop::collection::vec((1u32..130, 1u32..5, 1u64..60, 0u8..12), 1..120),
        ) {
            let mut board = Board::new(By::Client);
            let mut before = Shown::default();
            (1..=105).for_each(|client| add(&mut board, client, 1));
            for (client, step, count, what) in turns {
                for at in 0..8 {
                    add(&mut board, client + at * step, count);
                }
                match what {
                    0 => board.age(),
                    1..4 => { look(&mut board, &mut before); }
                    _ => {}
                }
            }
            look(&mut board, &mut before);
        }
    }
}
