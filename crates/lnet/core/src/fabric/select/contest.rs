//! Chooses the best of several items by criteria in a fixed order.
//!
//! A contender has one key for each criterion, and lower keys are better. The order of the keys is the order of
//! preference. The first key in which two contenders differ names the criterion that decided. The order exists only in
//! the keys; reports to an observer are derived from them.

use smallvec::SmallVec;

use crate::fabric::select::observe::{Criterion, Level, Observer, Subject};
use crate::ground::health::Health;

/// An item to choose, with the keys by which contenders are compared.
#[derive(Clone, Copy, Debug)]
pub(super) struct Contender<T, const N: usize> {
    pub(super) item: T,
    pub(super) key: [u64; N],
}

/// Which contender wins if all keys are equal.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Ties {
    First,
    Last,
}

/// The criteria of a level, in their order.
#[derive(Clone, Copy, Debug)]
pub(super) struct Contest<const N: usize> {
    pub(super) level: Level,
    pub(super) criteria: [Criterion; N],
    pub(super) ties: Ties,
}

impl<const N: usize> Contest<N> {
    /// Returns the best contender. `subject` names an item for the observer; it is not called if nothing is observed.
    #[inline]
    pub(super) fn best<T: Copy, O: Observer>(
        &self,
        contenders: impl Iterator<Item = Contender<T, N>>,
        subject: impl Fn(T) -> Subject,
        observer: &mut O,
    ) -> Option<Contender<T, N>> {
        let mut best: Option<Contender<T, N>> = None;
        // The contender that would win without `best`. Only an observer needs it, so it is kept only for one.
        let mut second: Option<Contender<T, N>> = None;
        for contender in contenders {
            if O::WATCHES {
                self.announce(subject(contender.item), &contender.key, observer);
            }
            let Some(champion) = best else {
                best = Some(contender);
                continue;
            };
            let wins = self.beats(&contender.key, &champion.key);
            let (winner, loser) = if wins {
                (contender, champion)
            } else {
                (champion, contender)
            };
            if O::WATCHES {
                let by = self.decided_by(&winner.key, &loser.key);
                let (lost, to) = (subject(loser.item), subject(winner.item));
                observer.eliminated(self.level, lost, to, by);
                // A champion that lost was better than every earlier runner-up.
                let ahead = |second: &Contender<T, N>| wins || self.beats(&loser.key, &second.key);
                if second.as_ref().is_none_or(ahead) {
                    second = Some(loser);
                }
            }
            best = Some(winner);
        }
        if O::WATCHES
            && let Some(best) = &best
        {
            let next =
                second.map(|next| (subject(next.item), self.decided_by(&best.key, &next.key)));
            observer.chosen(self.level, subject(best.item), next);
        }
        best
    }

    /// Returns whether the later contender beats the earlier one.
    #[inline]
    fn beats(&self, later: &[u64; N], earlier: &[u64; N]) -> bool {
        match self.ties {
            Ties::First => later < earlier,
            Ties::Last => later <= earlier,
        }
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

/// Returns the key of a health value.
pub(super) fn by_health(health: Health) -> u64 {
    u64::from(Health::MAX.value() - health.value())
}

/// Returns the key of a number of credits, which may be negative. More credits give a smaller key.
pub(super) fn by_credits(credits: i64) -> u64 {
    !credits.cast_unsigned() ^ (1 << 63)
}

/// Returns the credits that a key stands for.
pub(super) fn credits_of(key: u64) -> i64 {
    (!(key ^ (1 << 63))).cast_signed()
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::super::observe::{Classification, Exclusion};
    use super::*;

    /// The last choice, with the runner-up.
    #[derive(Default)]
    struct Chosen(Option<Subject>, Option<(Subject, Criterion)>);

    impl Observer for Chosen {
        fn classified(&mut self, _: &Classification) {}
        fn candidate(&mut self, _: Level, _: Subject, _: &[(Criterion, i64)]) {}
        fn excluded(&mut self, _: Level, _: Subject, _: Exclusion) {}
        fn eliminated(&mut self, _: Level, _: Subject, _: Subject, _: Criterion) {}
        fn chosen(&mut self, _: Level, winner: Subject, next: Option<(Subject, Criterion)>) {
            *self = Self(Some(winner), next);
        }
    }

    fn held(keys: &[(u32, [u64; 2])], ties: Ties) -> Chosen {
        let contest = Contest {
            level: Level::Net,
            criteria: [Criterion::Hops, Criterion::Sequence],
            ties,
        };
        let contenders = keys.iter().map(|&(item, key)| Contender { item, key });
        let subject = |item| Subject::Net(lnet_types::Net::tcp(item as u16));
        let mut chosen = Chosen::default();
        let _best = contest.best(contenders, subject, &mut chosen);
        chosen
    }

    proptest! {
        #[test]
        fn the_runner_up_is_who_wins_without_the_winner(
            keys in proptest::collection::vec([0..3_u64, 0..3_u64], 1..8),
            last in any::<bool>(),
        ) {
            let ties = if last { Ties::Last } else { Ties::First };
            let mut keys: Vec<_> = (0..).zip(keys).collect();
            let Chosen(winner, next) = held(&keys, ties);
            keys.retain(|&(item, _)| held(&[(item, [0, 0])], ties).0 != winner);
            prop_assert_eq!(next.map(|(subject, _)| subject), held(&keys, ties).0);
        }
    }

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
