//! The switches of a fabric, and the links between them.

use super::document::FabricText;
use crate::cores::plan::{Speed, SwitchLink, World};

/// The limit on the switches: more than any machine has.
pub(super) const SWITCHES_MAX: u32 = 4096;

/// Adds the switches of a shape to an empty world. The switches of a star are added with its nets.
pub(super) fn build(world: &mut World, shape: FabricText, speed: Speed) {
    let mut join = |a: u32, b: u32| {
        world.links.push(SwitchLink { a, b, speed });
        world.link_names.push(format!("link {a}-{b}"));
    };
    match shape {
        FabricText::Star => {}
        FabricText::Dragonfly { groups, switches } => {
            for group in 0..groups {
                let first = group * switches;
                for a in 0..switches {
                    (a + 1..switches).for_each(|b| join(first + a, first + b));
                }
            }
            for group in 0..groups {
                for other in group + 1..groups {
                    let towards = |from: u32, to: u32| {
                        from * switches + ((to + groups - from) % groups - 1) % switches
                    };
                    join(towards(group, other), towards(other, group));
                }
            }
            world.switches = groups * switches;
        }
        FabricText::FatTree { leaves, spines } => {
            for leaf in 0..leaves {
                (0..spines).for_each(|spine| join(leaf, leaves + spine));
            }
            world.switches = leaves + spines;
        }
    }
}

/// Returns the number of switches of a shape; `None` if there are too many, or none although the shape needs some.
pub(super) fn switches(shape: FabricText) -> Option<u32> {
    let count = match shape {
        FabricText::Star => return Some(0),
        FabricText::Dragonfly { groups, switches } => groups.checked_mul(switches)?,
        FabricText::FatTree { leaves, spines } if leaves > 0 => leaves.checked_add(spines)?,
        FabricText::FatTree { .. } => 0,
    };
    (1..=SWITCHES_MAX).contains(&count).then_some(count)
}
