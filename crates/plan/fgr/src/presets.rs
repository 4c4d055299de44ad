//! Models of large machines of today. Their sizes are public, everything else is assumed, and every
//! assumption is a warning of the machine, so that it accompanies every result.
//!
//! | Preset | Public | Assumed |
//! |---|---|---|
//! | `frontier` | 74 groups of 32 switches, 9,408 nodes, 160 LNet routers | nets, places, links |
//! | `aurora` | 166 racks of 64 blades | routers at all, nets, places, links |
//! | `fugaku` | 24×23×24×2×3×2, 158,976 nodes | 828 routers: one of 192 nodes |
//! | `el-capitan` | 11,136 nodes, two a blade (blocksandfiles.com, 2021-02-23) | a group a rack, routers, nets, links |
//! | `lumi` | 2,978 GPU and 2,048 CPU nodes (doi 10.5281/zenodo.10683366) | a group a rack, routers, nets, links |
//! | `perlmutter` | 1,792 GPU nodes with 4 NICs, 3,072 CPU nodes with 1, a group a cabinet (docs.nersc.gov) | 24 gateways as routers, nets, links |

use lnet_types::{LndType, Net};

use crate::input::{ClientDraft, Draft, ModuleDraft, NodeDraft};
use crate::machine::{Client, Details, Machine, Origin, Role};
use crate::problem::{InputError, Place, Problem, Reason};
use crate::rates::{Known, RateSource, RateSources};
use crate::topology::{
    Dimension, Dragonfly, DragonflySize, Fabric, Grid, Routing, Tie, TopologyError, Vertex,
};

/// The names of the presets.
pub const PRESETS: [&str; 6] = [
    "frontier",
    "aurora",
    "fugaku",
    "el-capitan",
    "lumi",
    "perlmutter",
];

/// Number of the first net. The other nets have the following numbers.
const FIRST_NET: u16 = 201;

/// GB/s of a Slingshot link in one direction.
const SLINGSHOT: f64 = 25.0;

/// Its source.
const SLINGSHOT_SOURCE: &str = "a port of Slingshot has 200 Gbit/s (arXiv 2008.08886)";

/// GB/s of a Tofu link in one direction.
const TOFU: f64 = 6.8;

/// Its source.
const TOFU_SOURCE: &str = "a link has 6.8 GB/s (The Tofu Interconnect D, CLUSTER 2018)";

/// Makes a model of the named machine; `None` if the name is not in [`PRESETS`].
///
/// # Errors
///
/// None: the sizes are valid constants. The return type is that of all machine descriptions.
#[must_use]
pub fn preset(name: &str) -> Option<Result<Machine, InputError>> {
    let (described, routers) = match name {
        "frontier" => (frontier(), (160, 10)),
        "aurora" => (aurora(), (128, 8)),
        "fugaku" => (fugaku(), (828, 1)),
        "el-capitan" => (el_capitan(), (160, 10)),
        "lumi" => (lumi(), (64, 8)),
        "perlmutter" => (perlmutter(), (24, 4)),
        _ => return None,
    };
    Some(
        described
            .map_err(|e| rejection(name, &e))
            .and_then(|like| like.machine(name, routers)),
    )
}

/// A machine without routers.
struct Like {
    fabric: Fabric,
    /// The vertex of each client, by number.
    clients: Vec<Vertex>,
    assumptions: Vec<&'static str>,
    /// Who published the rate of a link.
    links: &'static str,
}

fn frontier() -> Result<Like, TopologyError> {
    // Four nodes per switch: 128 nodes in a group of 32 switches.
    let fabric = dragonfly(74, 4)?;
    Ok(Like {
        fabric,
        clients: (0..9_408).map(|node| Vertex(node / 4)).collect(),
        assumptions: vec![
            "Frontier-like: 74 groups of 32 switches, 128 nodes a group, the last group half full",
            "each node is attached to one switch; the real ones have four ports on several",
            "4 links of 25 GB/s between each two groups, minimal routing",
            "160 routers on 10 nets, one router a module, evenly over the groups",
        ],
        links: SLINGSHOT_SOURCE,
    })
}

fn aurora() -> Result<Like, TopologyError> {
    let fabric = dragonfly(166, 2)?;
    Ok(Like {
        fabric,
        clients: (0..10_624).map(|blade| Vertex(blade / 2)).collect(),
        assumptions: vec![
            "Aurora-like: a group for each of 166 racks, 64 blades on 32 switches",
            "each blade is attached to one switch; the real ones have eight ports",
            "2 links of 25 GB/s between each two groups, minimal routing",
            "128 LNet routers on 8 nets are a scenario: the real storage is DAOS, without routers",
        ],
        links: SLINGSHOT_SOURCE,
    })
}

/// Nodes of a cabinet of a Cray EX machine with two nodes a blade, and with four: 8 chassis of 8
/// blades. A cabinet is a group.
const CABINET: [u32; 2] = [128, 256];

/// The switches of nodes in cabinets: `pairs` nodes with two a blade, then `quads` with four a blade,
/// whose cabinets have half of the switches.
fn cabinets(pairs: u32, quads: u32) -> Vec<Vertex> {
    const SWITCHES: u32 = 32;
    let first = pairs.div_ceil(CABINET[0]);
    let of_pairs = (0..pairs).map(|node| Vertex(node / 4));
    let of_quads = (0..quads).map(|node| {
        let (group, inside) = (first + node / CABINET[1], node % CABINET[1]);
        Vertex(group * SWITCHES + inside / 16)
    });
    of_pairs.chain(of_quads).collect()
}

fn el_capitan() -> Result<Like, TopologyError> {
    // 11,136 nodes fill 87 cabinets.
    Ok(Like {
        fabric: dragonfly(87, 2)?,
        clients: cabinets(11_136, 0),
        assumptions: vec![
            "El-Capitan-like: 11,136 nodes as reported, two nodes a blade (blocksandfiles.com, 2021-02-23), so 87 \
             cabinets, each a group of 32 switches",
            "each node is attached to one switch; the real ones have four ports of 25 GB/s on several",
            "2 links of 25 GB/s between each two groups, minimal routing",
            "160 LNet routers on 10 nets are a scenario",
        ],
        links: SLINGSHOT_SOURCE,
    })
}

fn lumi() -> Result<Like, TopologyError> {
    Ok(Like {
        fabric: dragonfly(32, 4)?,
        clients: cabinets(2_978, 2_048),
        assumptions: vec![
            "LUMI-like: 2,978 GPU and 2,048 CPU nodes (doi 10.5281/zenodo.10683366), two and four a blade, each \
             cabinet a group: 24 and 8",
            "each node is attached to one switch; GPU nodes have four ports of 25 GB/s on several",
            "4 links of 25 GB/s between each two groups, minimal routing; CPU groups use 16 of 32 switches",
            "64 LNet routers on 8 nets are a scenario",
        ],
        links: SLINGSHOT_SOURCE,
    })
}

fn perlmutter() -> Result<Like, TopologyError> {
    Ok(Like {
        fabric: dragonfly(26, 4)?,
        clients: cabinets(1_792, 3_072),
        assumptions: vec![
            "Perlmutter-like: 1,792 GPU nodes with 4 NICs and 3,072 CPU nodes with 1, two and four a blade, each \
             cabinet a group (docs.nersc.gov/systems/perlmutter/architecture): 14 and 12 groups by these numbers",
            "each node is attached to one switch; GPU nodes have four ports of 25 GB/s on several",
            "4 links of 25 GB/s between each two groups, minimal routing; CPU groups use 16 of 32 switches",
            "24 LNet routers on 4 nets are a scenario of as many gateway nodes",
        ],
        links: SLINGSHOT_SOURCE,
    })
}

fn dragonfly(groups: u16, links_per_pair: u16) -> Result<Fabric, TopologyError> {
    let size = DragonflySize {
        groups,
        switches: 32,
        links_per_pair,
        local_capacity: SLINGSHOT,
        global_capacity: SLINGSHOT,
        local_cost: 1,
        global_cost: 2,
    };
    Ok(Fabric::Dragonfly(Dragonfly::new(size)?, Routing::Minimal))
}

fn fugaku() -> Result<Like, TopologyError> {
    // A unit of twelve has a ring of three along Y and lines along X and Z, which are as short as
    // rings.
    let sizes = [
        ("x", 24),
        ("y", 23),
        ("z", 24),
        ("a", 2),
        ("b", 3),
        ("c", 2),
    ];
    let dimensions = sizes.map(|(name, size)| Dimension {
        name: name.to_owned(),
        size,
        wrap: size > 2,
        cost: 1,
        capacity: vec![TOFU],
    });
    let fabric = Fabric::Grid(Grid::new(dimensions.to_vec())?, Tie::Split);
    Ok(Like {
        clients: (0..fabric.vertices()).map(Vertex).collect(),
        fabric,
        assumptions: vec![
            "Fugaku-like: every node computes; links of 6.8 GB/s, dimension-ordered routing",
            "828 routers on one net, one of 192 nodes by number; the real number is not known",
        ],
        links: TOFU_SOURCE,
    })
}

impl Like {
    /// Adds `routers` routers on `nets` nets, spread evenly over the vertices in order.
    fn machine(self, name: &str, (routers, nets): (u32, u32)) -> Result<Machine, InputError> {
        let place = place(name);
        let first_id = self.clients.len() as u32;
        let vertices = u64::from(self.fabric.vertices());
        let modules = (0..routers).map(|router| {
            // Nets take turns, so that each of them is spread over the whole machine.
            let (group, index) = (router % nets, router / nets);
            let vertex = u64::from(router) * vertices / u64::from(routers);
            ModuleDraft {
                group: format!("G{}", group + 1),
                role: Role::Data,
                sub_group: 1,
                // There are at most 828 routers.
                index: index as u16 + 1,
                blade: format!("r{router}"),
                cabinet: format!("r{router}"),
                nodes: vec![NodeDraft {
                    id: first_id + router,
                    vertex: Vertex(vertex as u32),
                    net: Net::new(LndType::O2IB, FIRST_NET + group as u16),
                }],
                place: place.clone(),
            }
        });
        let clients = (0..).zip(&self.clients).map(|(id, &vertex)| ClientDraft {
            client: Client {
                id,
                name: None,
                vertex,
            },
            place: place.clone(),
        });
        let warnings = self.assumptions.iter().map(|assumption| Problem {
            place: place.clone(),
            reason: Reason::Assumed((*assumption).to_owned()),
        });
        Draft {
            name: format!("{name}-like"),
            origin: Origin::Assumed,
            clients: clients.collect(),
            modules: modules.collect(),
            footprint: None,
            details: Details::default(),
            rates: RateSources {
                links: RateSource::new(Known::Published, self.links),
                ..RateSources::default()
            },
            warnings: warnings.collect(),
            fabric: self.fabric,
            place,
        }
        .check()
    }
}

fn place(name: &str) -> Place {
    Place {
        file: format!("preset {name}").into(),
        line: 1,
    }
}

fn rejection(name: &str, error: &TopologyError) -> InputError {
    InputError(vec![Problem {
        place: place(name),
        reason: Reason::Fabric(error.to_string()),
    }])
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;

    use super::*;
    use crate::evaluate::{Evaluation, Gateways};
    use crate::{Metric, Options, Policy, assign};

    #[test]
    fn every_preset_has_the_published_size_and_says_what_it_assumes() {
        let sizes = [
            ("frontier", 9_408, 160),
            ("aurora", 10_624, 128),
            ("fugaku", 158_976, 828),
            ("el-capitan", 11_136, 160),
            ("lumi", 5_026, 64),
            ("perlmutter", 4_864, 24),
        ];
        for (name, clients, routers) in sizes {
            let machine = preset(name).unwrap().unwrap();
            assert_eq!(machine.clients.len(), clients, "{name}");
            assert_eq!(machine.routers.len(), routers, "{name}");
            assert_eq!(machine.origin, Origin::Assumed);
            assert!(machine.warnings.len() >= 2, "{name}");
        }
        assert!(preset("other").is_none());
    }

    #[test]
    fn every_cabinet_is_within_the_fabric_and_holds_its_nodes() {
        let of = |name: &str| preset(name).unwrap().unwrap();
        let groups = |name: &str| -> BTreeMap<u32, u32> {
            let mut counts = BTreeMap::new();
            for client in of(name).clients {
                *counts.entry(client.vertex.0 / 32).or_default() += 1;
            }
            counts
        };
        assert!(groups("el-capitan").values().all(|&count| count == 128));
        assert_eq!(groups("el-capitan").len(), 87);
        let perlmutter = groups("perlmutter");
        assert_eq!(
            (perlmutter[&13], perlmutter[&14], perlmutter.len()),
            (128, 256, 26)
        );
        let lumi = groups("lumi");
        assert_eq!(
            (lumi[&23], lumi[&24], lumi.len()),
            (2_978 - 23 * 128, 256, 32)
        );
    }

    #[test]
    fn the_dragonfly_presets_are_planned_without_unserved_pairs() {
        for name in ["frontier", "aurora", "el-capitan", "lumi", "perlmutter"] {
            let machine = preset(name).unwrap().unwrap();
            let by = Metric::Hops;
            let plan = assign(&machine, Policy::Nearest { by }, &Options::default()).unwrap();
            let figures = Evaluation::new(&machine, &plan, Gateways::Primary);
            assert_eq!(figures.unserved, 0, "{name}");
            assert!(figures.hops.max <= 3.0, "{name}");
        }
    }
}
