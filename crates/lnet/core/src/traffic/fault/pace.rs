//! The pace of a rule: which of the matching messages it hits.

use std::time::Duration;

use lnet_types::{SplitMix64, Time};

/// Which of the messages that match a rule the rule hits.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Pace {
    /// One message of every block of this many, at a random place in the block. With 2, the first message of all is
    /// hit, too.
    Rate(u32),
    /// One message in every span of this length: the first one after a random point in the span.
    Interval(Duration),
    /// Each message, with a probability of one half.
    HalfOfAll,
}

/// The random numbers of the rules.
#[derive(Debug)]
pub(in crate::traffic) struct Draw(SplitMix64);

impl Draw {
    pub(crate) fn new(seed: u64) -> Self {
        Self(SplitMix64::new(seed))
    }

    /// Returns a number below `limit`; 0 if `limit` is 0.
    pub(in crate::traffic) fn below(&mut self, limit: u64) -> u64 {
        self.0.number().checked_rem(limit).unwrap_or(0)
    }
}

/// The position of a rule in its present block of messages or span of time.
#[derive(Debug, Default)]
pub(super) struct Beat {
    seen: u32,
    hit: Option<u32>,
    /// End of the present span, and the time from which the next message is hit; `None` after the hit.
    span: Option<(Time, Option<Time>)>,
}

impl Beat {
    /// Notes one more matching message, and returns whether the rule hits it.
    pub(super) fn strikes(&mut self, pace: Pace, now: Time, draw: &mut Draw) -> bool {
        match pace {
            Pace::Rate(block) => self.strikes_at_rate(block, draw),
            Pace::Interval(length) => self.strikes_in_span(length, now, draw),
            Pace::HalfOfAll => draw.below(2) == 0,
        }
    }

    // [FAULT-3]
    fn strikes_at_rate(&mut self, block: u32, draw: &mut Draw) -> bool {
        let first = self.hit.is_none();
        let hit = *self.hit.get_or_insert_with(|| match (first, block) {
            (true, 2) => 0,
            _ => draw.below(block.into()) as u32,
        });
        let strikes = self.seen == hit;
        self.seen += 1;
        if self.seen >= block {
            self.seen = 0;
            self.hit = Some(draw.below(block.into()) as u32);
        }
        strikes
    }

    fn strikes_in_span(&mut self, length: Duration, now: Time, draw: &mut Draw) -> bool {
        let nanos = u64::try_from(length.as_nanos()).unwrap_or(u64::MAX);
        if self.span.is_none_or(|(end, _)| now >= end) {
            let from = now + Duration::from_nanos(draw.below(nanos));
            let start = self.span.map_or(now, |(end, _)| end);
            // Spans follow each other without a gap. Spans in which no message came are skipped.
            let end = if start + length > now {
                start + length
            } else {
                now + length
            };
            self.span = Some((end, Some(from.min(end))));
        }
        let Some((_, from)) = &mut self.span else {
            return false;
        };
        from.take_if(|from| now >= *from).is_some()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    // [FAULT-3]
    #[test]
    fn one_of_every_block_is_struck() {
        let mut draw = Draw::new(1);
        for block in [1, 2, 3, 10] {
            let mut beat = Beat::default();
            let mut strikes = || beat.strikes(Pace::Rate(block), Time::ZERO, &mut draw);
            for _ in 0..50 {
                let struck = (0..block).filter(|_| strikes()).count();
                assert_eq!(struck, 1, "{block}");
            }
        }
    }

    #[test]
    fn rate_two_strikes_the_very_first() {
        for seed in 0..20 {
            let mut beat = Beat::default();
            assert!(beat.strikes(Pace::Rate(2), Time::ZERO, &mut Draw::new(seed)));
        }
    }

    #[test]
    fn at_most_one_in_every_span_is_struck() {
        let mut draw = Draw::new(1);
        let mut beat = Beat::default();
        let pace = Pace::Interval(Duration::from_secs(10));
        let struck: Vec<u64> = (0..100)
            .filter(|&second| beat.strikes(pace, Time::from_secs(second), &mut draw))
            .collect();
        assert!((8..=10).contains(&struck.len()), "{struck:?}");
        for span in 0..10 {
            let within = struck.iter().filter(|&&second| second / 10 == span).count();
            assert!(within <= 1, "{struck:?}");
        }
    }
}
