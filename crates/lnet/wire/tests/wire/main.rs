//! Tests of `lnet-wire`.

#![expect(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    reason = "clippy knows only functions with #[test] as tests, not their helpers"
)]

mod bad_input;
mod big_endian;
mod examples;
mod hostile;
mod needed;
mod o2ib;
mod ping;
mod published;
mod recorded;
mod round_trips;
mod strategies;
mod zc_ack;

/// Bytes from hex digits, blanks ignored.
pub(crate) fn hex(text: &str) -> Vec<u8> {
    let digits: Vec<u8> = text.bytes().filter(u8::is_ascii_hexdigit).collect();
    assert!(
        digits.len().is_multiple_of(2),
        "an odd number of digits: {text}"
    );
    let byte = |pair: &[u8]| u8::from_str_radix(str::from_utf8(pair).unwrap(), 16).unwrap();
    digits.chunks(2).map(byte).collect()
}
