//! The forms of messages: lines, fields, JSON.

#![allow(
    clippy::expect_used,
    clippy::panic,
    reason = "a test fails by panicking, in its helpers too"
)]

mod common;

use lnet_capture::{LNET_PORT, Message, decode_capture, render};

/// The output of `print` for the small capture.
fn printed(mut print: impl FnMut(&mut Vec<u8>, &Message<'_>)) -> String {
    let mut out = Vec::new();
    let (_, read) = decode_capture(common::PING_CAPTURE, &[LNET_PORT], |message| {
        print(&mut out, message);
        Ok(())
    });
    read.expect("the capture is whole");
    String::from_utf8(out).expect("text")
}

#[test]
fn a_line_tells_a_message_from_others() {
    let mut lines = render::LinePrinter::default();
    let text = printed(|out, message| lines.write(out, message).expect("it is written"));
    let lines: Vec<_> = text.lines().collect();
    assert_eq!(
        lines[0],
        "   0.000000 c0   10.1.0.1:1023 -> 10.1.0.2:988    CONNREQ  v1 target 10.1.0.2@tcp"
    );
    assert_eq!(
        lines[4],
        "   0.029643 c0   10.1.0.2@tcp -> 10.1.0.1@tcp     REPLY    48 bytes handle \
         18e9c8d5c777e488.d; features 0x1e seq 2 10.1.0.2@tcp up"
    );
    let longest = lines.iter().map(|line| line.len()).max();
    assert!(longest.is_some_and(|longest| longest <= 140), "{longest:?}");
}

#[test]
fn every_byte_of_a_message_is_shown_once() {
    printed(|_, message| {
        let mut text = Vec::new();
        render::write_fields(&mut text, message).expect("it is written");
        let text = String::from_utf8(text).expect("text");
        let bytes: Vec<u8> = text.lines().flat_map(hex_column).collect();
        assert_eq!(bytes, message.raw, "{text}");
    });
}

fn hex_column(line: &str) -> Vec<u8> {
    let column = line.get(16..line.len().min(39)).unwrap_or_default();
    let byte = |digits| u8::from_str_radix(digits, 16).expect("hex");
    column.split_whitespace().map(byte).collect()
}

#[test]
fn json_is_an_object_a_line() {
    let text = printed(|out, message| render::write_json(out, message).expect("it is written"));
    let objects: Vec<serde_json::Value> = text
        .lines()
        .map(|line| serde_json::from_str(line).expect("JSON"))
        .collect();
    let reply = &objects[4];
    assert_eq!(reply["what"], "REPLY");
    assert_eq!(reply["time"], "1795186760.085489000");
    assert_eq!(reply["handle"], "18e9c8d5c777e488.d");
    assert_eq!(reply["ping"]["nis"][0]["nid"], "10.1.0.2@tcp");
    assert_eq!(
        objects
            .iter()
            .filter(|object| object["what"] == "HELLO")
            .count(),
        6
    );
}
