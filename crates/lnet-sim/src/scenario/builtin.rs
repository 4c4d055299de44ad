//! The scenarios that ship. Each says in its first lines what it shows and what to look at.

/// A scenario as it ships.
#[derive(Clone, Copy, Debug)]
pub struct Builtin {
    /// What it is called by.
    pub name: &'static str,
    /// Its document.
    pub text: &'static str,
}

/// All of them, in the order in which they are best read.
pub const BUILTIN: [Builtin; 8] = [
    Builtin {
        name: "failing-rail",
        text: include_str!("../../scenarios/failing-rail.yaml"),
    },
    Builtin {
        name: "flapping-router",
        text: include_str!("../../scenarios/flapping-router.yaml"),
    },
    Builtin {
        name: "partition",
        text: include_str!("../../scenarios/partition.yaml"),
    },
    Builtin {
        name: "dragonfly",
        text: include_str!("../../scenarios/dragonfly.yaml"),
    },
    Builtin {
        name: "dragonfly-optimised",
        text: include_str!("../../scenarios/dragonfly-optimised.yaml"),
    },
    Builtin {
        name: "opa-mlx",
        text: include_str!("../../scenarios/opa-mlx.yaml"),
    },
    Builtin {
        name: "preferred-pairs",
        text: include_str!("../../scenarios/preferred-pairs.yaml"),
    },
    Builtin {
        name: "all-faults",
        text: include_str!("../../scenarios/all-faults.yaml"),
    },
];
