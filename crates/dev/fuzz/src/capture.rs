//! The reader of packet captures, from the file to the printed message.

#![expect(
    clippy::panic,
    clippy::expect_used,
    reason = "a body says by a panic that a promise is broken"
)]

use std::io;

use lnet_capture::{CaptureError, LNET_PORT, decode_capture, render};

/// A capture file in any format, with any packets: every message can be printed in every form, and
/// no byte is counted twice.
pub fn capture(data: &[u8]) {
    let mut lines = render::LinePrinter::default();
    let mut out = io::sink();
    let (summary, read) = decode_capture(data, &[LNET_PORT], |message| {
        lines.write(&mut out, message)?;
        render::write_fields(&mut out, message)?;
        render::write_json(&mut out, message)
    });
    if let Err(CaptureError::Output(error)) = read {
        panic!("a message cannot be printed: {error}");
    }
    render::write_summary(&mut out, &summary).expect("a summary prints");
    render::write_summary_json(&mut out, &summary).expect("a summary prints");
    let bytes = summary.bytes;
    let captured =
        bytes.decoded + bytes.undecoded + bytes.cut + bytes.before_join + bytes.unaccepted;
    assert!(captured <= data.len() as u64, "{bytes:?} of {}", data.len());
}
