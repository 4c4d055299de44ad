//! Logging to standard error, for programs that have no logger of their own.
//!
//! `FINERAIL_LOG` sets the level: `error`, `warn`, `info`, `debug`, or a filter such as `zoid=debug,warn`.
//! Without the variable only [`WAITING`] is written, because a library must not write to a program's output
//! unasked; but a program that stands still must be told why.

use std::sync::Once;

use tracing_subscriber::filter::{LevelFilter, Targets};
use tracing_subscriber::prelude::*;

/// The variable; the command line uses the same one.
const VARIABLE: &str = "FINERAIL_LOG";

/// What is written without the variable: that a server waits for its daemon.
const WAITING: &str = "off,zoid::waiting=warn";

/// Starts logging in the first call.
// [CABI-25]
pub(crate) fn begin() {
    static FIRST: Once = Once::new();
    FIRST.call_once(|| {
        let filter = std::env::var(VARIABLE).unwrap_or_else(|_| WAITING.to_owned());
        let parsed: Result<Targets, _> = filter.parse();
        let bad = parsed.as_ref().err().map(ToString::to_string);
        let lines = tracing_subscriber::fmt::layer()
            .with_writer(std::io::stderr)
            .with_ansi(false);
        // A program that has a subscriber keeps its own.
        let own = tracing_subscriber::registry()
            .with(parsed.unwrap_or_else(|_| Targets::new().with_default(LevelFilter::WARN)))
            .with(lines)
            .try_init();
        if let (Ok(()), Some(error)) = (own, bad) {
            tracing::warn!(filter, error, "cannot read the log filter; using 'warn'");
        }
    });
}
