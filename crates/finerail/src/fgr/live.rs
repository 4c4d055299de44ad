//! `finerail fgr diff --live`: running nodes, compared with a plan and changed into it step by step.
//!
//! ```text
//!   control sockets ── configurations ──▶ differences ── --apply ──▶ routers, servers, clients in the safe order:
//!                                                                    commands, then compared again, node by node
//! ```
//!
//! A node that is as planned gets no command. The same command therefore continues a roll-out that ended early.

use std::collections::{BTreeMap, BTreeSet};
use std::io::{self, Write as _};
use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::time::Duration;

use anyhow::{Context, anyhow, bail, ensure};
use fgr::check::{Finding, Step, rollout};
use fgr::config::{Class, Site, SiteNode, nids};
use fgr::diff::{Difference, differences};
use lnet_config::Config;
use lnet_dlc::protocol::Request;
use lnet_dlc::{Dlc, DlcError};

use super::diff::write_node;
use super::output::counted;
use crate::common::{NEGATIVE, print_bytes};
use crate::ctl;

/// How long a node may take to answer.
const PATIENCE: Duration = Duration::from_secs(10);

/// The most letters of the names of nodes that were not given.
const NAMES_MAX: usize = 200;

/// What happens to nodes that differ from the plan.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum Live {
    /// Their differences are printed.
    Show,
    /// They are changed, if an order of steps loses no message.
    Apply,
    /// They are changed in any case.
    ApplyDespiteLosses,
}

/// Most losses that are named.
const LOSSES_MAX: usize = 50;

/// A running node and what the plan says of it.
struct Node<'a> {
    socket: &'a Path,
    node: &'a SiteNode,
    class: &'a Class,
    planned: Config,
    running: Config,
}

impl Node<'_> {
    fn differences(&self) -> Vec<Difference> {
        differences(&self.planned, &self.running)
    }

    fn is_in(&self, step: &Step) -> bool {
        let class = step.class.as_ref();
        self.class.role == step.role && class.is_none_or(|class| *class == self.class.name)
    }

    fn name(&self) -> String {
        format!("{} ({})", self.node.name, self.class.name)
    }
}

/// Compares the nodes at these control sockets with the plan. Changes them into it if `how` says so.
/// Peers are compared if `with_peers`.
pub(super) fn run(
    plan: &Site,
    with_peers: bool,
    sockets: &[PathBuf],
    how: Live,
) -> anyhow::Result<ExitCode> {
    let mut running = Vec::new();
    for socket in sockets {
        running.push((socket.as_path(), configuration(socket)?));
    }
    let by_nid = plan.nodes_by_nid(running.iter().flat_map(|(_, config)| nids(config)));
    let mut nodes = BTreeMap::new();
    for (socket, running) in running {
        let found = nids(&running)
            .into_iter()
            .find_map(|nid| by_nid.get(&nid).copied());
        let Some(node) = found else {
            bail!(
                "{}: the plan has no node with one of its NIDs",
                socket.display()
            );
        };
        let class = plan.class_of(node);
        let live = Node {
            socket,
            node,
            class,
            planned: plan.plan_of(node, with_peers),
            running,
        };
        let earlier = nodes.insert(node.name.as_str(), live);
        ensure!(
            earlier.is_none(),
            "{}: {} is given twice",
            socket.display(),
            node.name
        );
    }
    tell_others(plan, &nodes)?;
    let mut nodes: Vec<Node<'_>> = nodes.into_values().collect();
    match how {
        Live::Show => show(&nodes),
        Live::Apply => roll_out(plan, &mut nodes, false),
        Live::ApplyDespiteLosses => roll_out(plan, &mut nodes, true),
    }
}

/// Names the nodes of the plan that were not given: nothing is known of them, and they get no command.
fn tell_others(plan: &Site, given: &BTreeMap<&str, Node<'_>>) -> io::Result<()> {
    let all = plan.nodes.iter().map(|node| node.name.as_str());
    let others: Vec<&str> = all.filter(|name| !given.contains_key(name)).collect();
    if others.is_empty() {
        return Ok(());
    }
    let (count, of) = (others.len(), plan.nodes.len());
    let names = lnet_site::fold(others);
    let names = match names.char_indices().nth(NAMES_MAX) {
        Some((at, _)) => format!("{}…", &names[..at]),
        None => names,
    };
    writeln!(
        io::stderr(),
        "note: {count} of the {of} nodes of the plan were not given: they are not looked at, and count as planned: {names}"
    )
}

/// Reads the whole configuration of a node. A backup lacks the NIDs of interfaces with names.
fn configuration(socket: &Path) -> anyhow::Result<Config> {
    let mut text = String::new();
    let mut read = || {
        let mut node = Dlc::connect_within(socket, PATIENCE)?;
        text = node.request(&Request::Export { backup: false })?;
        Ok::<_, DlcError>(())
    };
    let name = socket.display();
    read().with_context(|| format!("cannot read the node at {name}"))?;
    let reading = lnet_config::read(&text);
    let reading = reading.map_err(|error| anyhow!("{}", error.render(&name.to_string())))?;
    Ok(reading.document.config().0)
}

fn show(nodes: &[Node<'_>]) -> anyhow::Result<ExitCode> {
    let (mut text, mut differs) = (String::new(), false);
    for live in nodes {
        differs |= write_node(&live.name(), live.differences(), &mut text)?;
    }
    print_bytes(text.as_bytes(), &mut io::stdout())?;
    Ok(exit_code(differs))
}

fn exit_code(differs: bool) -> ExitCode {
    match differs {
        true => ExitCode::from(NEGATIVE),
        false => ExitCode::SUCCESS,
    }
}

/// The nodes as they run now, as a site. Those that were not given count as being as planned, so that what the given
/// ones would lose on the way to them is seen.
fn running_site(plan: &Site, nodes: &[Node<'_>]) -> Site {
    let mut site = Site {
        classes: plan.classes.clone(),
        ..Site::default()
    };
    let given: BTreeSet<&str> = nodes.iter().map(|live| live.node.name.as_str()).collect();
    let others = plan.nodes.iter();
    site.nodes = others
        .filter(|node| !given.contains(node.name.as_str()))
        .cloned()
        .collect();
    for live in nodes {
        site.nodes.push(SiteNode {
            class: site.classes.len(),
            ..live.node.clone()
        });
        site.classes.push(Class {
            name: live.node.name.clone(),
            role: live.class.role,
            rules: live.running.rules.rules().to_vec(),
            config: live.running.clone(),
        });
    }
    site
}

/// Refuses steps during which messages are lost, and names the losses. With `despite_losses` only names them.
fn check_losses(losses: &[Finding], despite_losses: bool) -> anyhow::Result<()> {
    let shown = losses.iter().take(LOSSES_MAX);
    for loss in shown {
        writeln!(io::stderr(), "warning: during the roll-out: {loss}")?;
    }
    if let Some(more @ 1..) = losses.len().checked_sub(LOSSES_MAX) {
        writeln!(
            io::stderr(),
            "warning: during the roll-out: and {more} more"
        )?;
    }
    ensure!(
        losses.is_empty() || despite_losses,
        "no order of steps is free of losses, so no node was changed; --despite-losses changes the nodes all the same"
    );
    Ok(())
}

fn roll_out(plan: &Site, nodes: &mut [Node<'_>], despite_losses: bool) -> anyhow::Result<ExitCode> {
    let order = rollout(&running_site(plan, nodes), plan);
    check_losses(&order.open, despite_losses)?;
    let mut differs = false;
    for (number, step) in (1..).zip(&order.steps) {
        let (mut count, mut as_planned) = (0, 0);
        for live in nodes.iter_mut().filter(|live| live.is_in(step)) {
            change(live)?;
            count += 1;
        }
        // A node of the step may have changed while the others did.
        for live in nodes.iter_mut().filter(|live| live.is_in(step)) {
            live.running = configuration(live.socket)?;
            commands_are_done(live)?;
            match without_command(live) {
                None => as_planned += 1,
                Some(what) => writeln!(io::stdout(), "{}: {what}", live.name())?,
            }
        }
        differs |= as_planned < count;
        if count == 0 && step.class.is_some() {
            continue;
        }
        let role = step.role.name();
        let all = match as_planned {
            1 => format!("1 {role} is"),
            _ => format!("{as_planned} {role}s are"),
        };
        writeln!(
            io::stdout(),
            "step {number}: {all} as planned{}",
            if as_planned < count {
                format!(", of {count}")
            } else {
                String::new()
            }
        )?;
    }
    Ok(exit_code(differs))
}

/// Carries out the commands for one node and compares the node again.
fn change(live: &mut Node<'_>) -> anyhow::Result<()> {
    let commands: Vec<String> = live
        .differences()
        .into_iter()
        .flat_map(|found| found.commands)
        .collect();
    for command in &commands {
        let words: Vec<String> = command.split_whitespace().map(str::to_owned).collect();
        let code = ctl::carry_out_on(live.socket, PATIENCE, &words)?;
        ensure!(
            code == 0,
            "{}: '{command}' failed; repair this, and run the command again to continue",
            live.name()
        );
    }
    if !commands.is_empty() {
        live.running = configuration(live.socket)?;
        commands_are_done(live)?;
        let count = counted(commands.len(), "command");
        writeln!(io::stdout(), "{}: {count}", live.name())?;
    }
    Ok(())
}

/// Fails if a command is left that would change the node.
fn commands_are_done(live: &Node<'_>) -> anyhow::Result<()> {
    let found = live.differences();
    match found.iter().find(|found| !found.commands.is_empty()) {
        None => Ok(()),
        Some(left) => bail!(
            "{}: {} after all commands; run the command again to continue",
            live.name(),
            left.what
        ),
    }
}

/// Returns a difference that no command removes.
fn without_command(live: &Node<'_>) -> Option<String> {
    let mut found = live.differences().into_iter();
    let left = found.find(|found| !found.is_left_alone)?;
    Some(left.what)
}

#[cfg(test)]
mod tests {
    use fgr::check::{Finding, rollout};
    use fgr::config::{Site, Timing};

    use super::{check_losses, running_site};

    #[test]
    fn nodes_that_are_not_given_count_as_planned() {
        let text = "site: a\ngroups:\n  - {nodes: 'c[1-2]', role: client, on: [{net: tcp, first: 10.0.0.1, interface: e, rate: 1}]}\n  \
                    - {nodes: s1, role: server, on: [{net: tcp, first: 10.0.0.9, interface: e, rate: 1}]}\n";
        let plan: Site = fgr::chain::read_chain("a", text)
            .unwrap()
            .site(Timing::PLANNED);
        let running = running_site(&plan, &[]);
        assert_eq!(running.nodes, plan.nodes);
        let order = rollout(&running, &plan);
        assert_eq!(order.open, []);
    }

    #[test]
    fn steps_with_losses_are_refused_unless_they_are_wanted() {
        let loss = Finding::NoBackup {
            class: "client-001".to_owned(),
            net: lnet_types::Net::tcp(1),
        };
        assert!(check_losses(&[], false).is_ok());
        let refused = check_losses(std::slice::from_ref(&loss), false)
            .unwrap_err()
            .to_string();
        assert!(refused.contains("--despite-losses"), "{refused}");
        assert!(check_losses(&[loss], true).is_ok());
    }
}
