//! Nodes as text, and questions about them.

#![allow(dead_code, reason = "each test binary uses its own part")]
#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    reason = "a test fails by panicking, in its helpers too"
)]

use lnet_core::UsedPaths;
use lnet_explain::{Explanation, Node, Question, Settings, Source, explain, import};
use lnet_policy::Profile;

/// Returns the node that a text describes.
pub(crate) fn node_in(text: &str, profile: Profile, used_paths: UsedPaths) -> Node {
    let settings = Settings {
        profile: Some(profile),
        used_paths,
        machine: None,
    };
    let source = Source { name: "node", text };
    import(&[source], &settings).unwrap().node
}

/// Returns the node that a text describes, in the default profile.
pub(crate) fn node(text: &str) -> Node {
    node_in(text, Profile::Design, UsedPaths::Pair)
}

/// Returns a question about one message to `to`.
pub(crate) fn ask(to: &str) -> Question {
    Question {
        to: to.parse().unwrap(),
        from: None,
        size: 0,
        sends: 1,
    }
}

/// Returns the explanation of one message to `to`.
pub(crate) fn told(node: &Node, to: &str) -> Explanation {
    explain(node, &ask(to)).unwrap()
}
