//! Compares a kernel's message with our node's message, field by field.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt;
use std::net::Ipv4Addr;

use crate::layout::Message;

/// A field in which our node's value may differ from the kernel's.
pub(crate) struct Difference {
    pub(crate) message: &'static str,
    pub(crate) field: &'static str,
    pub(crate) allowed: Allowed,
    pub(crate) reason: &'static str,
}

/// The values that are allowed in such a field.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Allowed {
    /// Any value.
    Any,
    /// Any value that stays the same while the node runs.
    Constant,
    /// Any value that never repeats.
    Fresh,
}

/// All fields that may differ. Every other byte must be equal.
pub(crate) const MAY_DIFFER: [Difference; 7] = [
    Difference {
        message: "HELLO",
        field: "source incarnation",
        allowed: Allowed::Constant,
        reason: "the moment at which the interface started (HELLO-18)",
    },
    Difference {
        message: "GET",
        field: "handle interface",
        allowed: Allowed::Constant,
        reason: "names one life of the initiator, which alone reads it (TYPE-8)",
    },
    Difference {
        message: "GET",
        field: "handle object",
        allowed: Allowed::Fresh,
        reason: "names the initiator's descriptor, which alone reads it (TYPE-8)",
    },
    Difference {
        message: "PUT",
        field: "handle interface",
        allowed: Allowed::Constant,
        reason: "names one life of the initiator, which alone reads it (TYPE-8)",
    },
    Difference {
        message: "PUT",
        field: "handle object",
        allowed: Allowed::Fresh,
        reason: "names the initiator's descriptor, which alone reads it (TYPE-8)",
    },
    Difference {
        message: "PUT",
        field: "info sequence",
        allowed: Allowed::Any,
        reason: "counts how often the sender rebuilt its information (PING-9)",
    },
    Difference {
        message: "REPLY",
        field: "info sequence",
        allowed: Allowed::Any,
        reason: "counts how often the sender rebuilt its information (PING-9)",
    },
];

/// A field that should be equal but is not.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Mismatch {
    pub(crate) message: &'static str,
    pub(crate) field: &'static str,
    /// The captured value, in hexadecimal.
    pub(crate) kernel: String,
    pub(crate) ours: String,
    pub(crate) rule: Option<(Allowed, &'static str)>,
}

impl fmt::Display for Mismatch {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self {
            message,
            field,
            kernel,
            ours,
            rule,
        } = self;
        write!(f, "{message}, {field}: kernel {kernel}, ours {ours}")?;
        match rule {
            Some((allowed, reason)) => write!(f, ", allowed {allowed:02x?}: {reason}"),
            None => Ok(()),
        }
    }
}

/// The comparison of the messages that one node sends while it runs.
#[derive(Debug, Default)]
pub(crate) struct Comparator {
    /// Our node. Messages that it forwards for others must be equal in every byte. `None` if it forwards nothing.
    node: Option<Ipv4Addr>,
    constants: BTreeMap<(&'static str, &'static str), Vec<u8>>,
    seen: BTreeSet<(&'static str, &'static str, Vec<u8>)>,
}

impl Comparator {
    /// Returns a comparator for the messages of `node`.
    pub(crate) fn of(node: Ipv4Addr) -> Self {
        Self {
            node: Some(node),
            ..Self::default()
        }
    }

    /// Returns the differences between a kernel's message and our node's.
    pub(crate) fn compare(&mut self, kernel: &Message, ours: &Message) -> Vec<Mismatch> {
        let name = kernel.name();
        let whole = |field, kernel: String, ours: String| Mismatch {
            message: name,
            field,
            kernel,
            ours,
            rule: None,
        };
        if name != ours.name() {
            return vec![whole("name", name.to_owned(), ours.name().to_owned())];
        }
        let is_passed_on = self.node.is_some_and(|node| kernel.is_passed_on_by(node));
        let mut wrong = Vec::new();
        if kernel.0.len() != ours.0.len() {
            let length = |message: &Message| format!("{} bytes", message.0.len());
            wrong.push(whole("length", length(kernel), length(ours)));
        }
        for field in kernel.fields() {
            let part = |message: &Message| {
                message
                    .0
                    .get(field.range.clone())
                    .unwrap_or_default()
                    .to_vec()
            };
            let rule = MAY_DIFFER
                .iter()
                .find(|rule| rule.message == name && rule.field == field.name)
                .filter(|_| !is_passed_on);
            wrong.extend(self.field(name, field.name, rule, [part(kernel), part(ours)]));
        }
        wrong
    }

    fn field(
        &mut self,
        message: &'static str,
        field: &'static str,
        rule: Option<&Difference>,
        [kernel, ours]: [Vec<u8>; 2],
    ) -> Option<Mismatch> {
        let fits = match rule.map(|rule| rule.allowed) {
            None => kernel == ours,
            Some(Allowed::Any) => ours.len() == kernel.len(),
            Some(Allowed::Fresh) => self.seen.insert((message, field, ours.clone())),
            Some(Allowed::Constant) => {
                let known = self.constants.entry((message, field));
                *known.or_insert_with(|| ours.clone()) == ours
            }
        };
        (!fits).then(|| Mismatch {
            message,
            field,
            kernel: format!("{kernel:02x?}"),
            ours: format!("{ours:02x?}"),
            rule: rule.map(|rule| (rule.allowed, rule.reason)),
        })
    }
}
