//! Parses byte counts and times.

use std::time::Duration;

/// Parses a number of bytes: digits, then nothing or `k`, `M`, `G` for 2^10, 2^20, 2^30.
// [BOUND-6]
pub(crate) fn parse_size(text: &str) -> Result<u64, String> {
    let (digits, shift) = match text.as_bytes().last() {
        Some(b'k' | b'K') => (&text[..text.len() - 1], 10),
        Some(b'm' | b'M') => (&text[..text.len() - 1], 20),
        Some(b'g' | b'G') => (&text[..text.len() - 1], 30),
        _ => (text, 0),
    };
    let problem = || "needs a number of bytes, such as 8192, 64k, 512M or 2G".to_owned();
    let count: u64 = digits.parse().map_err(|_| problem())?;
    // `parse` accepts a sign; a size has none.
    if digits.starts_with('+') {
        return Err(problem());
    }
    count.checked_mul(1 << shift).ok_or_else(problem)
}

/// Parses a number of milliseconds below 2^31.
pub(crate) fn parse_milliseconds(text: &str) -> Result<Duration, String> {
    let count: Result<u32, _> = text.parse();
    match count {
        Ok(count) if count <= i32::MAX.unsigned_abs() => Ok(Duration::from_millis(count.into())),
        _ => Err("needs a number of milliseconds below 2^31".to_owned()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    // [BOUND-6]
    #[test]
    fn suffixes_are_binary() {
        assert_eq!(parse_size("0"), Ok(0));
        assert_eq!(parse_size("8192"), Ok(8192));
        assert_eq!(parse_size("64k"), Ok(65_536));
        assert_eq!(parse_size("512M"), Ok(536_870_912));
        assert_eq!(parse_size("2g"), Ok(2_147_483_648));
    }

    #[test]
    fn what_is_no_size_is_refused() {
        for bad in [
            "",
            "k",
            "1kk",
            "-1",
            "+1",
            "1 M",
            "1.5M",
            "ä",
            "1ä",
            "99999999999G",
        ] {
            assert!(parse_size(bad).is_err(), "{bad}");
        }
    }

    #[test]
    fn milliseconds_end_at_31_bits() {
        assert_eq!(parse_milliseconds("2"), Ok(Duration::from_millis(2)));
        assert!(parse_milliseconds("2147483647").is_ok());
        assert!(parse_milliseconds("2147483648").is_err());
        assert!(parse_milliseconds("-1").is_err());
    }
}
