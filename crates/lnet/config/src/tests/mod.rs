//! Tests that read documents and write them back.

mod catalogue;
mod diff;
mod modprobe;
mod parameters;
mod read;
mod reference;
mod reject;
mod reject_entries;
mod round_trip;
mod show;
mod strategies;
mod survey;

/// The text that the user sees for a rejected document.
fn rejection(source: &str) -> String {
    crate::parse(source).unwrap_err().render("lnet.conf")
}
