//! Mistakes in the text of a document.

use std::fmt::Write as _;

use lnet_config::{ConfigError, Step};
use lnet_types::LndType;

use crate::lint::catalogue::{
    FIRST_INTERFACE, IMPORT_REFUSED, Lint, OPTION_MISTAKEN, Severity, UNKNOWN_KEY, UNREADABLE,
};
use crate::lint::finding::{Finding, Shown};
use crate::lint::node::Node;
use crate::lint::source::{Complaints, Unreadable};

/// Reports a document that cannot be read.
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

/// Reports the reasons why the document cannot be imported.
pub(super) fn import_refused(node: &Node<'_>) -> Vec<Finding> {
    told(node, &IMPORT_REFUSED, &node.source.refused)
}

/// Reports keys that are not known.
pub(super) fn unknown_key(node: &Node<'_>) -> Vec<Finding> {
    let told = told(node, &UNKNOWN_KEY, &node.source.unknown).into_iter();
    let told = told.map(|finding| Finding {
        fix: UNKNOWN_KEY.helps.to_owned(),
        ..finding
    });
    told.collect()
}

/// Returns findings for the first errors of the reader. The last finding tells the number of the others.
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

/// Returns a finding for an error of the reader, at the error's place.
fn at(node: &Node<'_>, lint: &'static Lint, error: &ConfigError) -> Finding {
    let problem = error.problem();
    let help = problem.help();
    // The excerpt says where.
    let fix = if help == "here" {
        lint.helps.to_owned()
    } else {
        help
    };
    let made = node.finding(lint, &[], problem.to_string(), fix);
    let (text, marked) = error.excerpt();
    Finding {
        line: error.line(),
        column: error.column(),
        key: node.source.key(error),
        shown: Some(Shown::new(text, marked)),
        ..made
    }
}

/// Reports options that their modules do not take.
pub(super) fn option_mistaken(node: &Node<'_>) -> Vec<Finding> {
    let told = node.source.mistakes.iter().map(|one| {
        let fix = OPTION_MISTAKEN.helps.to_owned();
        let made = node.finding(
            &OPTION_MISTAKEN,
            &[Step::Key(&one.name)],
            one.text.clone(),
            fix,
        );
        match one.stops_module {
            true => made.with_severity(Severity::Error),
            false => made,
        }
    });
    told.collect()
}

/// Reports nets without a named interface: which interface is the first may change from boot to boot.
pub(super) fn first_interface(node: &Node<'_>) -> Vec<Finding> {
    let told = node.source.unnamed.iter().map(|net| {
        let reason = format!(
            "network {net} names no interface, so the module takes the first interface that it finds, which changes with \
             the order of interfaces"
        );
        let example = if net.lnd == LndType::O2IB { "ib0" } else { "eth0" };
        let fix = format!("name it, as in networks={net}({example})");
        node.finding(&FIRST_INTERFACE, &[Step::Key("net")], reason, fix)
    });
    told.collect()
}
