//! `udsp`: selection rules (section 4.7 of lnet-selection).

use lnet_control::{Request, Section, Show};
use lnet_dlc::DlcError;
use lnet_policy::{Action, PolicyError, Priority, Profile, Rule, RuleText, parse_index};

use super::args::{UdspAddArgs, UdspCommand, UdspDelArgs};
use super::show;
use super::talk::{Failed, Talk};

const EINVAL: i32 = 22;

pub(super) fn carry_out(command: &UdspCommand, talk: &mut Talk) -> Result<(), Failed> {
    match command {
        UdspCommand::Add(args) => add(args, talk),
        UdspCommand::Del(args) => delete(args, talk),
        UdspCommand::Show(args) => {
            let idx = args.idx;
            let show = show(Section::Udsp, 0);
            talk.watch(&args.watch, &Request::Show(Show { idx, ..show }))
        }
    }
}

/// The list is fetched, changed and put back as one: a sender sees the rules before or after, and what
/// another client changes meanwhile is kept.
fn add(args: &UdspAddArgs, talk: &mut Talk) -> Result<(), Failed> {
    let index = args.idx.as_deref().map(index).transpose()?;
    let rule = rule(args)?;
    let added = talk.dlc()?.change_all_rules(|rules| {
        rules
            .add(rule.clone(), index)
            .map(|_| ())
            .map_err(|error| refused("add", &error))
    });
    added.map_err(|failed| match failed {
        // The rule that was added has something that no rule block can say.
        Failed::Node(DlcError::Block(error)) => {
            Failed::block("add", "udsp", -EINVAL, error.to_string())
        }
        other => other,
    })
}

fn delete(args: &UdspDelArgs, talk: &mut Talk) -> Result<(), Failed> {
    let index = match (&args.idx, args.all) {
        (Some(_), true) => return Err(Failed::plain("Cannot combine --all with --idx")),
        (None, false) => return Err(Failed::plain("Must specify --idx or --all")),
        (Some(text), false) => Some(index(text)?),
        (None, true) => None,
    };
    talk.dlc()?.change_all_rules(|rules| match index {
        Some(index) => rules
            .delete(index)
            .map(|_| ())
            .map_err(|error| refused("del", &error)),
        None => {
            rules.clear();
            Ok(())
        }
    })
}

fn rule(args: &UdspAddArgs) -> Result<Rule, Failed> {
    let action = match args.priority.as_deref() {
        None => None,
        Some(text) => Some(Action::Priority(priority(text)?)),
    };
    let text = RuleText {
        src: args.src.as_deref(),
        dst: args.dst.as_deref(),
        rte: args.rte.as_deref(),
        action,
    };
    Rule::from_text(&text, Profile::Design).map_err(|error| refused("add", &error))
}

fn priority(text: &str) -> Result<Priority, Failed> {
    let priority = text.parse().ok().and_then(Priority::new);
    priority.ok_or_else(|| Failed::Plain(format!("Invalid priority \"{text}\"")))
}

fn index(text: &str) -> Result<usize, Failed> {
    parse_index(text).map_err(|error| Failed::Plain(error.to_string()))
}

/// Errors of a deletion stand under `add`, as `lnetctl` has them only by mistake; here under `del`.
fn refused(verb: &str, error: &PolicyError) -> Failed {
    Failed::block(verb, "udsp", error.lnetctl_errno(), error.to_string())
}
