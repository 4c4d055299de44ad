//! The readers of the planner's tables.

use fgr::config::{read_nodes, read_servers, read_udsp};

/// The lists of nodes and servers of a site, and its selection rules: one reader's text is refused or
/// misread by the others without harm.
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

/// A machine file: no panic, and a machine that is taken can be planned.
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

/// More than these are not planned here, because that would only be slow.
const MANY_CLIENTS: usize = 10_000;
