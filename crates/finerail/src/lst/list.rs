//! Lists the contents of a session: `show_session`, `list_group`, `list_batch`.

use lnet_selftest::console::{Batch, BatchState, Session, State};
use lnet_types::Nid;

use super::host::Output;

/// Arguments of `lst list_group`.
#[derive(clap::Args)]
pub(super) struct ListGroupArgs {
    #[command(flatten)]
    which: Which,
    /// The groups; without any, print the names of all groups
    #[arg(value_name = "NAME")]
    names: Vec<String>,
}

/// Arguments of `lst list_batch`.
#[derive(clap::Args)]
pub(super) struct ListBatchArgs {
    #[command(flatten)]
    which: Which,
    /// Only this test of the batch, counted from 1
    #[arg(
        short,
        long,
        value_name = "NUMBER",
        default_value_t = 0,
        hide_default_value = true
    )]
    test: usize,
    /// List the nodes of servers
    #[arg(short, long, conflicts_with = "client")]
    server: bool,
    /// List the nodes of clients
    #[arg(short, long)]
    client: bool,
    /// The batch; without it, print the names of all batches
    #[arg(value_name = "NAME")]
    name: Option<String>,
}

/// The states of the nodes to list.
#[derive(clap::Args)]
struct Which {
    /// Nodes in the session
    #[arg(short, long)]
    active: bool,
    /// Nodes in sessions of other consoles
    #[arg(short, long)]
    busy: bool,
    /// Nodes that do not answer
    #[arg(short, long)]
    down: bool,
    /// Nodes that answer and are in no session
    #[arg(short, long)]
    unknown: bool,
    /// All nodes
    #[arg(short = 'A', long)]
    all: bool,
}

impl Which {
    fn states(&self) -> Vec<State> {
        let asked = [self.active, self.busy, self.down, self.unknown];
        let states = State::ALL.into_iter().zip(asked);
        let asked = states.filter(|(_, is_asked)| *is_asked || self.all);
        asked.map(|(state, _)| state).collect()
    }
}

/// The heading above counts of nodes. The column of names has none.
const HEAD: &str = "\tACTIVE\tBUSY\tDOWN\tUNKNOWN\tTOTAL";

pub(super) fn session(session: &Session, out: &mut Output<'_>) -> anyhow::Result<bool> {
    let nodes: Vec<Nid> = session.nodes().collect();
    out.out(format_args!(
        "SESSION: {} ID: {} FEATURES: 1 TIMEOUT: {} FORCE: {}",
        session.name,
        session.id,
        session.timeout_s,
        if session.force { "Yes" } else { "No" }
    ))?;
    out.out(HEAD)?;
    out.out(counts("nodes", session, &nodes))?;
    Ok(true)
}

pub(super) fn groups(
    args: &ListGroupArgs,
    session: &Session,
    out: &mut Output<'_>,
) -> anyhow::Result<bool> {
    if args.names.is_empty() {
        for (number, group) in (1..).zip(&session.groups) {
            out.out(format_args!("{number}) {}", group.name))?;
        }
        out.out(format_args!("Total {} groups", session.groups.len()))?;
        return Ok(true);
    }
    let states = args.which.states();
    for name in &args.names {
        let nodes = &session.group(name)?.nodes;
        if states.is_empty() {
            out.out(HEAD)?;
            out.out(counts(name, session, nodes))?;
        } else {
            of_states(session, nodes, &states, out)?;
        }
    }
    Ok(true)
}

pub(super) fn batches(
    args: &ListBatchArgs,
    session: &Session,
    out: &mut Output<'_>,
) -> anyhow::Result<bool> {
    let Some(name) = &args.name else {
        for batch in &session.batches {
            out.out(&batch.name)?;
        }
        return Ok(true);
    };
    let batch = session.batch(name)?;
    let mut states = args.which.states();
    if args.server || args.client {
        if states.is_empty() {
            states = State::ALL.to_vec();
        }
        let nodes = session.parties(name, args.test, args.client)?;
        of_states(session, &nodes, &states, out)?;
        return Ok(true);
    }
    if args.test == 0 {
        // The tool prints the number of the state.
        let state = match batch.state {
            BatchState::Idle => 176,
            BatchState::Running => 177,
        };
        out.out(format_args!(
            "Batch: {name} Tests: {} State: {state}",
            batch.tests.len()
        ))?;
        parties(session, batch, 0, out)?;
    }
    let all = (1..).zip(&batch.tests);
    for (number, test) in all.filter(|(number, _)| args.test == 0 || args.test == *number) {
        let repeat = test.repeat.map_or(-1, i64::from);
        out.out(format_args!(
            "\tTest {number}({}) (loop: {repeat}, concurrency: {})",
            test.kind.name(),
            test.concurrency
        ))?;
        parties(session, batch, number, out)?;
    }
    Ok(true)
}

fn parties(
    session: &Session,
    batch: &Batch,
    test: usize,
    out: &mut Output<'_>,
) -> anyhow::Result<()> {
    out.out(HEAD)?;
    for (name, is_client) in [("client", true), ("server", false)] {
        let nodes = session.parties(&batch.name, test, is_client)?;
        out.out(counts(name, session, &nodes))?;
    }
    Ok(())
}

fn counts(name: &str, session: &Session, nodes: &[Nid]) -> String {
    let of = |state| {
        nodes
            .iter()
            .filter(|&&nid| session.state(nid) == state)
            .count()
    };
    let [active, busy, down, unknown] = State::ALL.map(of);
    format!(
        "{name}\t{active}\t{busy}\t{down}\t{unknown}\t{}",
        nodes.len()
    )
}

fn of_states(
    session: &Session,
    nodes: &[Nid],
    states: &[State],
    out: &mut Output<'_>,
) -> anyhow::Result<()> {
    let mut total = 0;
    for &nid in nodes {
        let state = session.state(nid);
        if states.contains(&state) {
            total += 1;
            out.out(format_args!("{nid} {}", state.name()))?;
        }
    }
    out.out(format_args!("Total {total} nodes"))?;
    Ok(())
}
