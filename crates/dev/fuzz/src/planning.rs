//! The readers of the planner's tables.

use fgr::config::{read_nodes, read_servers, read_udsp};
use fgr::import::{self, Assumed, Shape};
use lnet_types::Net;

/// The lists of nodes and servers of a site, and its selection rules. Text of another format is
/// rejected or misread without harm.
pub fn site_lists(data: &[u8]) {
    let Ok(text) = str::from_utf8(data) else {
        return;
    };
    let lines = text.lines().count();
    let complaints = [
        read_nodes("nodes.csv", text.as_bytes()).err(),
        read_servers("servers.csv", text).err(),
        read_udsp("rules", text).err(),
    ];
    for problem in complaints.into_iter().flatten().flat_map(|error| error.0) {
        assert!(
            (1..=lines.max(1)).contains(&(problem.place.line as usize)),
            "{problem}"
        );
    }
    if let Ok(nodes) = read_nodes("nodes.csv", text.as_bytes()) {
        assert!(
            nodes
                .iter()
                .all(|node| !node.nids.is_empty() && !node.name.contains('/'))
        );
    }
    if let Ok(rules) = read_udsp("rules", text) {
        let written: String = rules
            .iter()
            .map(|rule| format!("lnetctl udsp add {rule}\n"))
            .collect();
        assert_eq!(read_udsp("rules", &written), Ok(rules), "{written}");
    }
}

/// A machine file: no panic, and an accepted machine can be planned.
pub fn machine_file(data: &[u8]) {
    let Ok(text) = str::from_utf8(data) else {
        return;
    };
    let Ok(machine) = fgr::read_machine("machine.yaml", text) else {
        return;
    };
    if machine.clients.len() > MANY_CLIENTS {
        return;
    }
    let policy = fgr::Policy::Nearest {
        by: fgr::Metric::Cost,
    };
    let plan = fgr::assign(&machine, policy, &fgr::Options::default());
    assert!(plan.is_ok(), "{plan:?}");
}

/// Larger inputs are not planned, because that would only be slow.
const MANY_CLIENTS: usize = 10_000;

/// Files of sites: Slurm's `topology.conf` and host lists, `ibnetdiscover`, lists of a dragonfly,
/// tables of nodes, modules and routers. No panic; errors point into the text; the reader of
/// machine files accepts a file that is made of a topology, or rejects it for its size.
pub fn site_topologies(data: &[u8]) {
    let Ok(text) = str::from_utf8(data) else {
        return;
    };
    let assumed = Assumed {
        capacity: 25.0,
        links_per_pair: 2,
    };
    for shape in [
        import::slurm("topology.conf", text, assumed),
        import::infiniband("fabric.txt", text, 1, assumed),
        import::infiniband("fabric.txt", text, 2, assumed),
        import::dragonfly("list.csv", text, assumed),
        import::node_table("nodes.txt", text, assumed),
    ] {
        if let Some(shape) = taken(text, shape) {
            becomes_a_machine(&shape);
        }
    }
    taken(text, import::read_routers("routers.csv", text));
    taken(text, fgr::read_map("map", text));
    taken(text, fgr::read_node_table("table", text));
    if let Ok(grid) = fgr::topology::titan::grid() {
        taken(
            text,
            fgr::read_modules("modules.csv", text, &grid, fgr::Role::Data),
        );
    }
    if let Ok(names) = fgr::hosts(text) {
        assert!(names.iter().all(|name| !name.is_empty()), "{names:?}");
    }
}

/// The result of a reader; errors must point into the text.
fn taken<T>(text: &str, result: Result<T, fgr::InputError>) -> Option<T> {
    let lines = text.lines().count().max(1);
    match result {
        Ok(value) => Some(value),
        Err(fgr::InputError(problems)) => {
            for problem in &problems {
                assert!(
                    (1..=lines).contains(&(problem.place.line as usize)),
                    "{problem}"
                );
            }
            assert!(!problems.is_empty(), "rejected without a reason");
            None
        }
    }
}

/// A file of a shape whose first node is a router reads as a machine with the other nodes as
/// clients.
fn becomes_a_machine(shape: &Shape) {
    let [first, others @ ..] = &shape.nodes[..] else {
        return;
    };
    let clients = others.iter().filter(|node| node.computes).count();
    let router = import::RouterLine {
        group: "A".to_owned(),
        sub_group: 1,
        blade: "b0".to_owned(),
        node: first.name.clone(),
        net: Net::tcp(1),
        place: fgr::Place {
            file: "routers.csv".into(),
            line: 2,
        },
    };
    let file = shape.machine_file("fuzzed", &[router]);
    assert!(file.is_ok(), "{file:?}");
    let machine = file.and_then(|file| fgr::read_machine("machine.yaml", &file));
    match machine {
        Ok(machine) => assert_eq!(machine.clients.len(), clients),
        Err(error) => {
            let is_size = |problem: &fgr::Problem| {
                matches!(
                    problem.reason,
                    fgr::Reason::Fabric(_) | fgr::Reason::TooLarge(_)
                )
            };
            assert!(clients.is_empty() || error.0.iter().all(is_size), "{error}");
        }
    }
}
