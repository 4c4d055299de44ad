//! What is wrong with a document by itself.

use lnet_config::{ConfigError, Step};

use crate::catalogue::{FIRST_INTERFACE, IMPORT_REFUSED, Lint, UNKNOWN_KEY};
use crate::finding::Finding;
use crate::node::Node;

/// The document cannot be put in force.
pub(super) fn import_refused(node: &Node<'_>) -> Vec<Finding> {
    let refused = node.source.import_error();
    let told = refused.map(|error| at(node, &IMPORT_REFUSED, error));
    told.into_iter().collect()
}

/// A key that says nothing.
pub(super) fn unknown_key(node: &Node<'_>) -> Vec<Finding> {
    let unknown = node.source.unknown.iter();
    let told = unknown.map(|error| Finding {
        fix: UNKNOWN_KEY.helps.to_owned(),
        ..at(node, &UNKNOWN_KEY, error)
    });
    told.collect()
}

/// A complaint of the reader, at its own place.
fn at(node: &Node<'_>, lint: &'static Lint, error: &ConfigError) -> Finding {
    let problem = error.problem();
    let made = node.finding(lint, &[], problem.to_string(), problem.help());
    Finding {
        line: error.line(),
        column: error.column(),
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
