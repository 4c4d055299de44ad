//! `udsp`: selection rules.

use lnet_dlc::protocol::{Request, RuleChange, Section, Show, UdspRule};
use lnet_policy::{Priority, parse_index};

use super::args::{UdspAddArgs, UdspCommand, UdspDelArgs};
use super::talk::{Failed, Talk};

pub(super) fn carry_out(command: &UdspCommand, talk: &mut Talk) -> Result<(), Failed> {
    match command {
        UdspCommand::Add(args) => add(args, talk),
        UdspCommand::Del(args) => delete(args, talk),
        UdspCommand::Show(args) => {
            let idx = args.idx;
            let show = Show::all(Section::Udsp, 0);
            talk.watch(&args.watch, &Request::Show(Show { idx, ..show }))
        }
    }
}

/// Adds a rule. The node changes its list in one step, so a sender uses the rules from before or from after the
/// change.
fn add(args: &UdspAddArgs, talk: &mut Talk) -> Result<(), Failed> {
    let idx = args.idx.as_deref().map(index).transpose()?;
    let rule = UdspRule {
        src: args.src.clone(),
        dst: args.dst.clone(),
        rte: args.rte.clone(),
        priority: args.priority.as_deref().map(priority).transpose()?,
    };
    if [&rule.src, &rule.dst, &rule.rte]
        .into_iter()
        .flatten()
        .any(|text| is_ipv6(text))
    {
        let what = "IPv6 addresses are not accepted here, as in lnetctl; an import accepts them";
        return Err(Failed::block("add", "udsp", -EINVAL, what));
    }
    talk.print(&Request::Rule(RuleChange::Add { rule, idx }))
}

const EINVAL: i32 = 22;

/// Returns whether a NID expression has an IPv6 address, which contains colons; a net alone has none.
fn is_ipv6(descriptor: &str) -> bool {
    let address = descriptor.split_once('@').map(|(address, _)| address);
    address.is_some_and(|address| address.contains(':'))
}

fn delete(args: &UdspDelArgs, talk: &mut Talk) -> Result<(), Failed> {
    let idx = match (&args.idx, args.all) {
        (Some(_), true) => return Err(Failed::plain("Cannot combine --all with --idx")),
        (None, false) => return Err(Failed::plain("Must specify --idx or --all")),
        (Some(text), false) => Some(index(text)?),
        (None, true) => None,
    };
    talk.print(&Request::Rule(RuleChange::Del { idx }))
}

fn priority(text: &str) -> Result<u32, Failed> {
    let priority = text.parse().ok().and_then(Priority::new);
    let priority = priority.ok_or_else(|| Failed::Plain(format!("Invalid priority \"{text}\"")))?;
    Ok(priority.value())
}

fn index(text: &str) -> Result<u32, Failed> {
    let index = parse_index(text).map_err(|error| Failed::Plain(error.to_string()))?;
    u32::try_from(index).map_err(|_| Failed::Plain(format!("Invalid index \"{text}\"")))
}
