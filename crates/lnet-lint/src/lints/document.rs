//! What is wrong with a document by itself.

use std::fmt::Write as _;

use lnet_config::{ConfigError, Step};

use crate::catalogue::{FIRST_INTERFACE, IMPORT_REFUSED, Lint, UNKNOWN_KEY, UNREADABLE};
use crate::finding::{Finding, Shown};
use crate::node::Node;
use crate::source::{Complaints, Unreadable};

/// Nothing can be said of the document.
pub(super) fn unreadable(node: &Node<'_>) -> Vec<Finding> {
    let told = node.source.unreadable.iter().map(|why| match why {
        Unreadable::Text(error) => Finding {
            fix: UNREADABLE.helps.to_owned(),
            ..at(node, &UNREADABLE, error)
        },
        Unreadable::Options(why) => {
            node.finding(&UNREADABLE, &[], why.clone(), UNREADABLE.helps.to_owned())
        }
    });
    told.collect()
}

/// The document cannot be put in force.
pub(super) fn import_refused(node: &Node<'_>) -> Vec<Finding> {
    told(node, &IMPORT_REFUSED, &node.source.refused)
}

/// A key that says nothing.
pub(super) fn unknown_key(node: &Node<'_>) -> Vec<Finding> {
    let told = told(node, &UNKNOWN_KEY, &node.source.unknown).into_iter();
    let told = told.map(|finding| Finding {
        fix: UNKNOWN_KEY.helps.to_owned(),
        ..finding
    });
    told.collect()
}

/// Complaints of the reader, and with the last how many more there are.
fn told(node: &Node<'_>, lint: &'static Lint, complaints: &Complaints) -> Vec<Finding> {
    let all = complaints.first.iter().map(|error| at(node, lint, error));
    let mut all: Vec<Finding> = all.collect();
    if let Some(last) = all.last_mut().filter(|_| complaints.more > 0) {
        let _infallible = write!(
            last.reason,
            "; {} more like this are not shown",
            complaints.more
        );
    }
    all
}

/// A complaint of the reader, at its own place.
fn at(node: &Node<'_>, lint: &'static Lint, error: &ConfigError) -> Finding {
    let problem = error.problem();
    let made = node.finding(lint, &[], problem.to_string(), problem.help());
    let (text, marked) = error.excerpt();
    Finding {
        line: error.line(),
        column: error.column(),
        key: node.source.key(error),
        shown: Some(Shown::new(text, marked)),
        ..made
    }
}

/// Which interface is the first changes from boot to boot.
pub(super) fn first_interface(node: &Node<'_>) -> Vec<Finding> {
    let told = node.source.unnamed.iter().map(|net| {
        let reason = format!(
            "network {net} names no interface, so that the module takes the first it finds, which changes with the \
             order of interfaces"
        );
        let fix = format!("name it, as in networks={net}(eth0)");
        node.finding(&FIRST_INTERFACE, &[Step::Key("net")], reason, fix)
    });
    told.collect()
}
