//! Messages and summaries as text: one line for each message, every field with its bytes, or JSON.
//!
//! The functions write to the caller's writer and return its errors, such as that of a closed pipe.

mod fields;
pub mod json;
mod line;
mod rdma;
mod summary;

use std::fmt;

use lnet_wire::{Handle, NiStatus, PingFeatures};

pub use fields::write_fields;
pub use json::write_json;
pub use line::LinePrinter;
pub use summary::{write_summary, write_summary_json};

/// A wire handle as LNet's logs print it: both words in hex, with a point between them.
struct HandleText(Handle);

impl fmt::Display for HandleText {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.0 {
            Handle::NONE => f.write_str("none"),
            Handle { interface, object } => write!(f, "{interface:x}.{object:x}"),
        }
    }
}

/// An interface status by name.
struct StatusText(NiStatus);

impl fmt::Display for StatusText {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.0 {
            NiStatus::UP => f.write_str("up"),
            NiStatus::DOWN => f.write_str("down"),
            NiStatus::INVALID => f.write_str("invalid"),
            NiStatus(number) => write!(f, "{number:#010x}"),
        }
    }
}

/// Feature bits by name, unknown ones as a number.
struct FeaturesText(PingFeatures);

impl fmt::Display for FeaturesText {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:#x}", self.0.bits())?;
        for (index, (name, _)) in self.0.iter_names().enumerate() {
            let separator = if index == 0 { ' ' } else { '|' };
            write!(f, "{separator}{name}")?;
        }
        Ok(())
    }
}
