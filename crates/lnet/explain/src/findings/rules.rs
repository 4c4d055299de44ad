//! Findings about rules, parameters and counters.

use lnet_core::Level;
use lnet_policy::Selector;
use lnet_types::Nid;
use lnet_types::expr::Descriptor;

use super::{Context, finding, listed};
use crate::finding::{Code, Finding, Severity};
use crate::health;

/// The shortest LND timeout, in seconds, with which slow tries do not count as failed.
const SHORT_LND_TIMEOUT: u64 = 5;

/// Reports rules that no node applies, that have no effect here, that are not applied, or that do less than they
/// seem to.
pub(super) fn rule_findings(context: &Context<'_>) -> Vec<Finding> {
    let dead = context.node.facts.dead_rules.iter().map(|(index, why)| {
        let text = format!("rule {index} of the node's list has no effect anywhere: {why}");
        let advice = "delete it, or write it as two rules";
        finding(
            Code::RuleDead,
            Severity::Warning,
            format!("rule {index}"),
            text,
            advice,
        )
    });
    let idle = context.policies.rules.iter().filter(|rule| !rule.live);
    let idle = idle.map(|rule| {
        let text = format!("rule {} ({}) {}", rule.index, rule.text, rule.state);
        let advice = "delete it, or correct its expressions";
        let subject = format!("rule {}", rule.index);
        finding(
            Code::RuleWithoutEffect,
            Severity::Warning,
            subject,
            text,
            advice,
        )
    });
    let unapplied = context.policies.unapplied.iter();
    let unapplied = unapplied.filter(|text| text.contains("not applied since"));
    let unapplied = unapplied.map(|text| {
        let advice = "delete the rule and add it again";
        finding(
            Code::RuleNotApplied,
            Severity::Warning,
            "rules",
            text.clone(),
            advice,
        )
    });
    let mut found: Vec<Finding> = dead.chain(idle).chain(unapplied).collect();
    found.extend(pairs(context));
    found.extend(health_off(context));
    found
}

/// Reports rules that are in force but decide nothing about a message to this peer, with the reason.
pub(super) fn cannot_matter(context: &Context<'_>) -> Vec<Finding> {
    let rules = context.policies.rules.iter().filter(|rule| rule.live);
    let told = rules.filter_map(|report| {
        let rule = context.state().rules.get(report.index)?;
        let why = no_choice(context, rule.selector())?;
        let text = format!("rule {} ({rule}) decides nothing here: {why}", report.index);
        let advice = "the rule has no effect for this peer";
        let subject = format!("rule {}", report.index);
        Some(finding(
            Code::RuleWithoutEffect,
            Severity::Note,
            subject,
            text,
            advice,
        ))
    });
    told.collect()
}

/// Returns the reason if a sender to this peer has no choice between the objects that a rule ranks.
fn no_choice(context: &Context<'_>, selector: &Selector) -> Option<String> {
    let to = context.question.to;
    let peer = context.peer();
    let nids: Vec<Nid> = peer.map_or_else(|| vec![to], |peer| peer.nids.clone());
    let discovery = if context.node.facts.discovery {
        ""
    } else {
        ", and discovery is off, so it cannot become so"
    };
    let single = || {
        let is_multi_rail = peer.is_some_and(|peer| peer.multi_rail);
        let listed = peer.is_some() || context.node.facts.single_rail.contains(&to);
        (listed && !is_multi_rail).then(|| {
            format!(
                "peer {to} is not Multi-Rail{discovery}: messages go to the NID that the sender names"
            )
        })
    };
    match selector {
        Selector::Local(Descriptor::Net(net)) | Selector::Remote(Descriptor::Net(net)) => {
            let is_there = nids.iter().any(|nid| net.matches(nid.net()));
            if is_there {
                single()
            } else {
                Some(format!("the peer has no NID on {net}"))
            }
        }
        Selector::Remote(Descriptor::Nid(nid)) if nids.iter().any(|one| nid.matches(*one)) => {
            single()
        }
        Selector::Local(Descriptor::Nid(nid)) => {
            let is_local = nids.iter().any(|one| context.has_net(one.net()));
            let is_there = nids.iter().any(|one| nid.net().matches(one.net()));
            (is_local && !is_there).then(|| format!("the peer has no NID on {}", nid.net()))
        }
        _ => None,
    }
}

/// Reports a pair rule whose source exists but was not chosen as the local NI.
fn pairs(context: &Context<'_>) -> Option<Finding> {
    let contest = context
        .told
        .contests
        .iter()
        .find(|one| one.level == Level::LocalNi)?;
    let winner = crate::watch::nid_of(contest.winner?)?;
    let to = context.question.to;
    let rules = context.state().rules.rules().iter().enumerate();
    let missed = rules.filter_map(|(index, rule)| {
        let is_pair = matches!(rule.selector(), Selector::Pair { .. });
        let sources = context
            .policies
            .values
            .iter()
            .filter(|value| value.rule == index);
        let sources: Vec<_> = sources
            .filter(|value| value.object.contains(&to.to_string()))
            .map(|value| {
                value
                    .value
                    .trim_start_matches("preferred source ")
                    .to_owned()
            })
            .collect();
        let missed = !sources.is_empty() && !sources.contains(&winner.to_string());
        (is_pair && missed).then_some((index, rule, sources))
    });
    let (index, rule, sources) = missed.into_iter().next()?;
    let text = format!(
        "rule {index} ({rule}) prefers {} towards {to}, and {winner} was chosen: the local NI is selected \
         before any preferred list is used",
        listed(sources)
    );
    let advice =
        "to attract traffic to an NI give it a priority: lnetctl udsp add --src NID --priority 0";
    let subject = format!("rule {index}");
    Some(finding(
        Code::PairDoesNotAttract,
        Severity::Note,
        subject,
        text,
        advice,
    ))
}

fn health_off(context: &Context<'_>) -> Option<Finding> {
    let off = context.state().config.globals.health_sensitivity == 0;
    let text = "health_sensitivity is 0: failures do not influence the selection, and no message is resent";
    let advice = "lnetctl set health_sensitivity 100; lnetctl set retry_count 2";
    let made = || {
        finding(
            Code::HealthOff,
            Severity::Warning,
            "health",
            text.to_owned(),
            advice,
        )
    };
    off.then(made)
}

/// Reports timeouts that do not fit together: all tries must fit into the transaction.
pub(super) fn timeouts_misaligned(context: &Context<'_>) -> Vec<Finding> {
    let globals = &context.state().config.globals;
    let whole = globals.transaction_timeout.as_secs();
    let tries = u64::from(globals.retry_count) + 1;
    let derived = globals.lnd_timeout().as_secs();
    let table = |lnd: u64| {
        format!(
            "lnd_timeout {lnd} s × {tries} tries = {} s, transaction_timeout {whole} s, retry_count {}",
            lnd * tries,
            globals.retry_count
        )
    };
    let mut found = Vec::new();
    if derived < SHORT_LND_TIMEOUT {
        let text = format!(
            "{}: an attempt that is only slow counts as failed",
            table(derived)
        );
        let advice =
            "raise transaction_timeout or lower retry_count until an attempt has at least 5 s";
        found.push((Severity::Warning, text, advice));
    }
    let shown = context.node.facts.lnd_timeouts.values().max();
    // Release 2.17.0 itself has 50 s, 2 retries and 150 s.
    let is_stock = |lnd: u64| (whole, tries, lnd) == (150, 3, 50);
    let longest = shown
        .map(|&shown| u64::from(shown))
        .filter(|&lnd| lnd * tries >= whole && !is_stock(lnd));
    if let Some(lnd) = longest {
        let text = format!(
            "{}: the LND waits longer for an attempt than its share of the time, so the last attempts never happen",
            table(lnd)
        );
        let advice = "raise transaction_timeout, or lower the LND's own timeout";
        found.push((Severity::Warning, text, advice));
    }
    let told = found.into_iter().map(|(severity, text, advice)| {
        finding(Code::TimeoutsMisaligned, severity, "timeouts", text, advice)
    });
    told.collect()
}

/// The limit on the NIs and peer NIs whose counters are reported.
const COUNTED_MAX: usize = 32;

/// Reports the failure counters of all local NIs and peer NIs.
pub(super) fn failures_counted(context: &Context<'_>) -> Vec<Finding> {
    let mut counted = health::failures(context.node);
    let told = counted.by_ref().take(COUNTED_MAX);
    let told = told.map(|(nid, local, health, failures)| {
        let failures = failures.iter();
        let failures = listed(failures.map(|(class, count)| format!("{class} {count}")));
        let (side, advice) = if local {
            ("local NI", "check the interface, its cable and its driver")
        } else {
            ("peer NI", "check that node and the network on the path")
        };
        let nid = context.node.label(nid);
        let text = format!(
            "{side} {nid} counted {failures}; its health is {}",
            health.value()
        );
        finding(Code::FailuresCounted, Severity::Note, nid, text, advice)
    });
    let mut told: Vec<Finding> = told.collect();
    let others = counted.count();
    if others > 0 {
        let text = format!("{others} more interfaces have counted failures");
        let advice = "lnetctl peer show -v 3 lists the counters of each";
        let code = Code::FailuresCounted;
        told.push(finding(code, Severity::Note, "others", text, advice));
    }
    told
}
