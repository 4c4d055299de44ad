//! The compiled part of the Python package `finerail`.
//!
//! ```text
//!  Python ── node ──────▶ lnet-node, lnet-noded      Put and Get, ping, discovery
//!         ── explain ───▶ lnet-explain               why this path
//!         ── site ──────▶ lnet-site                  what is wrong in a site
//!         ── plan ──────▶ fgr                        plans as NumPy arrays
//!         ── capture ───▶ lnet-capture               the messages of a capture
//!         ── control ───▶ lnet-dlc                   a running node
//!         ── doctor ────▶ lnet-conform               what keeps this machine from a node
//! ```
//!
//! This crate holds no logic: it converts values, releases the interpreter's lock while a call waits, and lets Ctrl-C
//! end each wait (module `wait`). Structures become dictionaries with the keys of `--json`.

mod capture;
mod control;
mod doctor;
mod explain;
mod failure;
mod node;
mod plan;
mod site;
mod wait;

use pyo3::prelude::*;

#[pymodule]
mod _finerail {
    #[pymodule_export]
    use crate::capture::{Capture, capture};
    #[pymodule_export]
    use crate::control::Control;
    #[pymodule_export]
    use crate::doctor::doctor;
    #[pymodule_export]
    use crate::explain::{explain, explain_state};
    #[pymodule_export]
    use crate::failure::{Error, NoAnswer};
    #[pymodule_export]
    use crate::node::{Inbox, Message, Node, Window};
    #[pymodule_export]
    use crate::plan::{Machine, Plan};
    #[pymodule_export]
    use crate::site::{is_wanted, site_check, site_reach};

    use super::*;

    #[pymodule_init]
    fn init(module: &Bound<'_, PyModule>) -> PyResult<()> {
        module.add("__version__", env!("CARGO_PKG_VERSION"))
    }
}
