//! The catalogue of cases (sections 7.5 to 7.7 of lnet-selection), each a test that carries its ID.
//! `coverage` checks that no case is missing.

mod config;
mod converter;
mod coverage;
mod peers;
mod rules;

use crate::Config;

/// The configuration of a document that is right.
fn config_of(source: &str) -> Config {
    crate::parse(source).unwrap_or_else(|error| panic!("{}", error.render("test")))
}

/// What is wrong with a document, in one line.
fn refusal(source: &str) -> String {
    crate::parse(source).unwrap_err().problem().to_string()
}
