//! The built-in scenarios. The first lines of each explain what it shows and what to observe.

/// A built-in scenario.
#[derive(Clone, Copy, Debug)]
pub struct Builtin {
    /// The name.
    pub name: &'static str,
    /// The YAML document.
    pub text: &'static str,
}

/// All built-in scenarios, in the best order for reading.
pub const BUILTIN: [Builtin; 8] = [
    Builtin {
        name: "failing-rail",
        text: include_str!("../../../scenarios/failing-rail.yaml"),
    },
    Builtin {
        name: "flapping-router",
        text: include_str!("../../../scenarios/flapping-router.yaml"),
    },
    Builtin {
        name: "partition",
        text: include_str!("../../../scenarios/partition.yaml"),
    },
    Builtin {
        name: "dragonfly",
        text: include_str!("../../../scenarios/dragonfly.yaml"),
    },
    Builtin {
        name: "dragonfly-optimised",
        text: include_str!("../../../scenarios/dragonfly-optimised.yaml"),
    },
    Builtin {
        name: "opa-mlx",
        text: include_str!("../../../scenarios/opa-mlx.yaml"),
    },
    Builtin {
        name: "preferred-pairs",
        text: include_str!("../../../scenarios/preferred-pairs.yaml"),
    },
    Builtin {
        name: "all-faults",
        text: include_str!("../../../scenarios/all-faults.yaml"),
    },
];
