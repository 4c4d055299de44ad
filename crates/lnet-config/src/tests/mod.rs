//! Documents in, configurations out, and back.

mod catalogue;
mod diff;
mod modprobe;
mod read;
mod reference;
mod refuse;
mod refuse_entries;
mod round_trip;
mod show;
mod strategies;
mod survey;

/// What the user sees of a document that is refused.
fn refusal(source: &str) -> String {
    crate::parse(source).unwrap_err().render("lnet.conf")
}
