//! What the library has to say, on standard error, for programs that have no other way to hear it.
//!
//! `FINERAIL_LOG` says how much: `error`, `warn`, `info`, `debug`, or a filter such as
//! `zoid=debug,warn`. Without it nothing is said, as a library should not write to a program's
//! output unasked.

use std::sync::Once;

use tracing_subscriber::EnvFilter;

/// The variable, which is that of the command line, too.
const VARIABLE: &str = "FINERAIL_LOG";

/// Begins, with the first call, if the environment asks for it.
pub(crate) fn begin() {
    static FIRST: Once = Once::new();
    FIRST.call_once(|| {
        let Ok(filter) = std::env::var(VARIABLE) else {
            return;
        };
        // What is wrong with a filter, it says itself; a program that listens already keeps its own.
        let _own = tracing_subscriber::fmt()
            .with_env_filter(EnvFilter::new(filter))
            .with_writer(std::io::stderr)
            .with_ansi(false)
            .try_init();
    });
}
