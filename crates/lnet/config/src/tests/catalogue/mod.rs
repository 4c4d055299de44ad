//! The catalogue of cases, `docs/configuration-cases.md`. Each is a test that carries its
//! ID; `coverage` checks that no case is missing.

mod config;
mod converter;
mod coverage;
mod peers;
mod rules;

use crate::Config;

/// The configuration of a valid document.
fn config_of(source: &str) -> Config {
    crate::parse(source).unwrap_or_else(|error| panic!("{}", error.render("test")))
}

/// The problem of a document, on one line.
fn rejection(source: &str) -> String {
    crate::parse(source).unwrap_err().problem().to_string()
}
