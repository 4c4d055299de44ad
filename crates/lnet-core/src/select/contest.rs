//! Choosing the best of several by criteria in a fixed order.
//!
//! A contender has one key a criterion, all of them "lower is better", so that the order of the keys is
//! the order of preference and the criterion that decided is where two keys first differ. There is no
//! second place that knows the order: what an observer is told is read off the same keys.

use smallvec::SmallVec;

use super::observe::{Criterion, Level, Observer, Subject};
use crate::health::Health;

/// Something to choose, and what it is judged by.
#[derive(Clone, Copy, Debug)]
pub(super) struct Contender<T, const N: usize> {
    pub(super) item: T,
    pub(super) key: [u64; N],
}

/// Who wins when nothing differs.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Ties {
    First,
    Last,
}

/// A level's criteria, in their order.
#[derive(Clone, Copy, Debug)]
pub(super) struct Contest<const N: usize> {
    pub(super) level: Level,
    pub(super) criteria: [Criterion; N],
    pub(super) ties: Ties,
}

impl<const N: usize> Contest<N> {
    /// The best contender. `subject` says what one is called; nobody asks where nobody watches.
    #[inline]
    pub(super) fn best<T: Copy, O: Observer>(
        &self,
        contenders: impl Iterator<Item = Contender<T, N>>,
        subject: impl Fn(T) -> Subject,
        observer: &mut O,
    ) -> Option<Contender<T, N>> {
        let mut best: Option<Contender<T, N>> = None;
        for contender in contenders {
            if O::WATCHES {
                self.announce(subject(contender.item), &contender.key, observer);
            }
            let Some(champion) = best else {
                best = Some(contender);
                continue;
            };
            let wins = match self.ties {
                Ties::First => contender.key < champion.key,
                Ties::Last => contender.key <= champion.key,
            };
            let (winner, loser) = if wins {
                (contender, champion)
            } else {
                (champion, contender)
            };
            if O::WATCHES {
                let by = self.decided_by(&winner.key, &loser.key);
                let (loser, winner) = (subject(loser.item), subject(winner.item));
                observer.eliminated(self.level, loser, winner, by);
            }
            best = Some(winner);
        }
        if O::WATCHES
            && let Some(best) = &best
        {
            observer.chosen(self.level, subject(best.item));
        }
        best
    }

    fn announce<O: Observer>(&self, subject: Subject, key: &[u64; N], observer: &mut O) {
        let values: SmallVec<[(Criterion, i64); 8]> = self
            .criteria
            .iter()
            .zip(key)
            .map(|(&criterion, &key)| (criterion, criterion.shown(key)))
            .collect();
        observer.candidate(self.level, subject, &values);
    }

    fn decided_by(&self, winner: &[u64; N], loser: &[u64; N]) -> Criterion {
        let differing = winner.iter().zip(loser).position(|(w, l)| w != l);
        differing
            .and_then(|at| self.criteria.get(at).copied())
            .unwrap_or(Criterion::Order)
    }
}

/// The key of a health value.
pub(super) fn by_health(health: Health) -> u64 {
    u64::from(Health::MAX.value() - health.value())
}

/// The key of a number of credits, which may be negative: more credits, smaller key.
pub(super) fn by_credits(credits: i64) -> u64 {
    !credits.cast_unsigned() ^ (1 << 63)
}

/// The credits behind a key.
pub(super) fn credits_of(key: u64) -> i64 {
    (!(key ^ (1 << 63))).cast_signed()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn more_credits_have_the_smaller_key() {
        let credits = [i64::MIN, -3, -1, 0, 1, 8, i64::MAX];
        for pair in credits.windows(2) {
            assert!(by_credits(pair[1]) < by_credits(pair[0]), "{pair:?}");
        }
        assert!(
            credits
                .iter()
                .all(|&credits| credits_of(by_credits(credits)) == credits)
        );
    }
}
