//! `fault`: injected faults.

use lnet_dlc::protocol::{Fault, FaultPace, FaultRule, Request};

use super::args::{FaultAddArgs, FaultCommand, FaultDelArgs, FaultRuleCommand, FaultType};
use super::talk::{Failed, Talk};

pub(super) fn carry_out(command: &FaultCommand, talk: &mut Talk) -> Result<(), Failed> {
    let (delay, command) = match command {
        FaultCommand::Drop(command) => (false, command),
        FaultCommand::Delay(command) => (true, command),
        FaultCommand::Show(args) => {
            let delay = args.rule_type == FaultType::Delay;
            return talk.print(&Request::Fault(Fault::Show { delay }));
        }
        FaultCommand::Reset(args) => {
            let delay = args.rule_type == FaultType::Delay;
            return talk.print(&Request::Fault(Fault::Reset { delay }));
        }
    };
    on_rules(command, delay, talk)
}

/// Carries out a command on drop rules, or on delay rules.
pub(super) fn on_rules(
    command: &FaultRuleCommand,
    delay: bool,
    talk: &mut Talk,
) -> Result<(), Failed> {
    match command {
        FaultRuleCommand::Add(args) => add(args, delay, talk),
        FaultRuleCommand::Del(args) => del(args, delay, talk),
        FaultRuleCommand::Reset => talk.print(&Request::Fault(Fault::Reset { delay })),
        FaultRuleCommand::Show => talk.print(&Request::Fault(Fault::Show { delay })),
    }
}

pub(super) fn add(args: &FaultAddArgs, delay: bool, talk: &mut Talk) -> Result<(), Failed> {
    talk.print(&Request::Fault(Fault::Add(rule(args, delay)?)))
}

pub(super) fn del(args: &FaultDelArgs, delay: bool, talk: &mut Talk) -> Result<(), Failed> {
    let (source, dest) = (args.source.clone(), args.dest.clone());
    talk.print(&Request::Fault(Fault::Del {
        delay,
        source,
        dest,
    }))
}

fn rule(args: &FaultAddArgs, delay: bool) -> Result<FaultRule, Failed> {
    if delay != args.latency.is_some() {
        let what = "--latency is for delay rules, and delay rules need it";
        return Err(Failed::plain(what));
    }
    let pace = match (args.rate, args.interval) {
        (Some(messages), _) => FaultPace::Rate(messages),
        (None, Some(seconds)) => FaultPace::Interval(seconds),
        (None, None) => return Err(Failed::plain("--rate or --interval is needed")),
    };
    Ok(FaultRule {
        source: args.source.clone(),
        dest: args.dest.clone(),
        pace,
        random_interval: args.random,
        all: args.drop_all,
        messages: args.messages.clone(),
        portal: args.portal,
        local_nid: args.local_nid.clone(),
        errors: args.errors.clone(),
        delay: args.latency,
    })
}
