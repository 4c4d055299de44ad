//! The JSON forms of single values.

use std::fmt::Display;
use std::str::FromStr;
use std::time::Duration;

use lnet_types::Time;
use serde::de::{Deserialize, Deserializer, Error};
use serde::ser::{Serialize, Serializer};

use crate::{Errno, Health, PeerState};

/// A value by its text.
pub(super) mod one {
    use super::*;

    pub(in super::super) fn serialize<T: Display, S: Serializer>(
        value: &T,
        to: S,
    ) -> Result<S::Ok, S::Error> {
        to.collect_str(value)
    }

    pub(in super::super) fn deserialize<'de, T, D>(from: D) -> Result<T, D::Error>
    where
        T: FromStr<Err: Display>,
        D: Deserializer<'de>,
    {
        let text = String::deserialize(from)?;
        text.parse().map_err(D::Error::custom)
    }
}

/// A value by its text, or null.
pub(super) mod maybe {
    use super::*;

    pub(in super::super) fn serialize<T: Display, S: Serializer>(
        value: &Option<T>,
        to: S,
    ) -> Result<S::Ok, S::Error> {
        value.as_ref().map(ToString::to_string).serialize(to)
    }

    pub(in super::super) fn deserialize<'de, T, D>(from: D) -> Result<Option<T>, D::Error>
    where
        T: FromStr<Err: Display>,
        D: Deserializer<'de>,
    {
        let text = Option::<String>::deserialize(from)?;
        text.map(|text| text.parse().map_err(D::Error::custom))
            .transpose()
    }
}

/// Values by their texts.
pub(super) mod many {
    use super::*;

    pub(in super::super) fn serialize<T: Display, S: Serializer>(
        values: &[T],
        to: S,
    ) -> Result<S::Ok, S::Error> {
        to.collect_seq(values.iter().map(ToString::to_string))
    }

    pub(in super::super) fn deserialize<'de, T, D>(from: D) -> Result<Vec<T>, D::Error>
    where
        T: FromStr<Err: Display>,
        D: Deserializer<'de>,
    {
        let texts = Vec::<String>::deserialize(from)?;
        let parsed = texts
            .iter()
            .map(|text| text.parse().map_err(D::Error::custom));
        parsed.collect()
    }
}

/// A value as a number, with the conversions in both directions.
macro_rules! by_number {
    ($(#[$doc:meta])* $name:ident, $type:ty, $number:ty, $to:expr, $from:expr) => {
        $(#[$doc])*
        pub(crate) mod $name {
            use super::*;

            pub(crate) fn serialize<S: Serializer>(
                value: &$type,
                to: S,
            ) -> Result<S::Ok, S::Error> {
                let number: fn(&$type) -> $number = $to;
                number(value).serialize(to)
            }

            pub(crate) fn deserialize<'de, D: Deserializer<'de>>(
                from: D,
            ) -> Result<$type, D::Error> {
                let value: fn($number) -> Option<$type> = $from;
                value(<$number>::deserialize(from)?).ok_or_else(|| D::Error::custom("out of range"))
            }
        }
    };
}

by_number!(
    /// A duration in nanoseconds.
    span, Duration, u64, nanoseconds, |value| Some(Duration::from_nanos(value))
);
by_number!(
    /// A duration in nanoseconds, or null.
    maybe_span,
    Option<Duration>,
    Option<u64>,
    |value| value.as_ref().map(nanoseconds),
    |value| Some(value.map(Duration::from_nanos))
);
by_number!(
    /// A time in nanoseconds.
    time, Time, u64, |value| value.as_nanos(), |value| Some(Time::from_nanos(value))
);
by_number!(
    /// A time in nanoseconds, or null.
    maybe_time,
    Option<Time>,
    Option<u64>,
    |value| value.map(Time::as_nanos),
    |value| Some(value.map(Time::from_nanos))
);
by_number!(
    /// A health, 0 to 1000.
    health, Health, u16, |value| value.value(), Health::new
);
by_number!(
    /// The state bits of a peer.
    peer_state, PeerState, u32, |value| value.bits(), PeerState::from_bits
);
by_number!(
    /// An errno, or null.
    maybe_errno,
    Option<Errno>,
    Option<i32>,
    |value| value.map(|errno| errno.0),
    |value| Some(value.map(Errno))
);

fn nanoseconds(span: &Duration) -> u64 {
    u64::try_from(span.as_nanos()).unwrap_or(u64::MAX)
}
