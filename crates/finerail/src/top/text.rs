//! Formats numbers in few characters.

use std::time::Duration;

/// Formats a number in at most five characters: `0`, `0.5`, `37`, `999`, `1.2k`, `34k`, `567M`.
pub(super) fn short(value: f64) -> String {
    scaled(value, 1000.0, &["", "k", "M", "G", "T", "P", "E"])
}

/// Formats a number of bytes in powers of 1,024, in at most six characters.
pub(super) fn bytes(value: f64) -> String {
    scaled(value, 1024.0, &["B", "K", "M", "G", "T", "P", "E"])
}

fn scaled(value: f64, step: f64, units: &[&str]) -> String {
    let mut value = value;
    let mut units = units.iter().copied().peekable();
    let mut unit = units.next().unwrap_or_default();
    // A number that would need four digits is written in the next unit.
    while value >= 999.5 && units.peek().is_some() {
        value /= step;
        unit = units.next().unwrap_or_default();
    }
    let is_small = value > 0.0 && value < 9.95;
    if is_small && (!unit.is_empty() && unit != "B" || value < 0.95) {
        let digits = if value < 0.05 {
            "<0.1".to_owned()
        } else {
            format!("{value:.1}")
        };
        return digits + unit;
    }
    format!("{value:.0}{unit}")
}

/// Formats a duration in few characters: `37s`, `5m02s`, `3h07m`, `12d4h`.
pub(super) fn duration(time: Duration) -> String {
    let seconds = time.as_secs();
    let (minutes, hours, days) = (seconds / 60, seconds / 3600, seconds / 86_400);
    match (days, hours, minutes) {
        (0, 0, 0) => format!("{seconds}s"),
        (0, 0, _) => format!("{minutes}m{:02}s", seconds % 60),
        (0, _, _) => format!("{hours}h{:02}m", minutes % 60),
        _ => format!("{days}d{}h", hours % 24),
    }
}

/// Formats a latency: `50us`, `2ms`, `1s`.
pub(super) fn latency(nanos: u64) -> String {
    match nanos {
        0..1_000_000 => format!("{}us", nanos / 1_000),
        1_000_000..1_000_000_000 => format!("{}ms", nanos / 1_000_000),
        _ => format!("{}s", nanos / 1_000_000_000),
    }
}

/// Formats a number with commas: `1,034`.
pub(super) fn grouped(value: usize) -> String {
    let digits = value.to_string();
    let mut text = String::with_capacity(digits.len() + digits.len() / 3);
    for (at, digit) in digits.chars().enumerate() {
        if at > 0 && (digits.len() - at).is_multiple_of(3) {
            text.push(',');
        }
        text.push(digit);
    }
    text
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn numbers_are_short() {
        let texts = [
            0.0, 0.01, 0.5, 1.0, 37.2, 999.4, 999.6, 1234.0, 34_499.0, 5.6e8,
        ]
        .map(short);
        let expected = [
            "0", "<0.1", "0.5", "1", "37", "999", "1.0k", "1.2k", "34k", "560M",
        ];
        assert_eq!(texts, expected);
        let texts = [0.0, 500.0, 1024.0, 10_240.0, 1_048_576.0].map(bytes);
        assert_eq!(texts, ["0B", "500B", "1.0K", "10K", "1.0M"]);
    }

    #[test]
    fn times_are_short() {
        let texts = [0, 59, 61, 3600, 90_000].map(|s| duration(Duration::from_secs(s)));
        assert_eq!(texts, ["0s", "59s", "1m01s", "1h00m", "1d1h"]);
        assert_eq!(
            [5_000, 2_000_000, 50_000_000_000].map(latency),
            ["5us", "2ms", "50s"]
        );
        assert_eq!(
            [0, 999, 1000, 1_234_567].map(grouped),
            ["0", "999", "1,000", "1,234,567"]
        );
    }

    proptest! {
        #[test]
        fn no_number_is_wider_than_its_column(value in 0.0..1e19_f64) {
            prop_assert!(short(value).len() <= 5, "{}", short(value));
            prop_assert!(bytes(value).len() <= 6, "{}", bytes(value));
        }
    }
}
