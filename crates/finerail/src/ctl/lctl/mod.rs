//! The commands of `lctl` that concern LNet, for a program that is called as `lctl`.
//!
//! The commands print one NID a line, as scripts expect. The exit code of a failed command is the error number.

pub(crate) mod args;
mod lists;
mod params;

use std::io::{self, Write};

use lnet_config::Reply;
use lnet_dlc::DlcError;
use lnet_dlc::protocol::{Fault, Request, Section};
use lnet_types::{Net, Nid};

use self::args::{LctlArgs, LctlCommand};
use super::args::{RouteAddArgs, RouteDelArgs};
use super::talk::{Failed, Talk, read};
use super::{change, fault};

pub(super) fn carry_out(args: &LctlArgs, talk: &mut Talk) -> Result<(), Failed> {
    let Some(command) = &args.command else {
        return Err(Failed::plain("no command is given"));
    };
    // A network that an earlier line of the session chose holds until another one is chosen.
    let net = args.net.or(talk.net);
    match command {
        LctlCommand::ListNids { which } => {
            let own = own_nids(talk)?;
            let loopback = which.as_ref().map(|_| Nid::LOOPBACK);
            print(loopback.iter().chain(&own))
        }
        LctlCommand::WhichNid { nids } => which_nid(nids, talk),
        LctlCommand::Ping { nid, timeout } => ping(nid, *timeout, talk),
        LctlCommand::Network { what: None, .. } => list_nets(talk),
        LctlCommand::Network {
            what: Some(what), ..
        } => network(what, talk),
        LctlCommand::InterfaceList => lists::interfaces(net, talk),
        LctlCommand::ConnList => lists::connections(net, talk),
        LctlCommand::PeerList => lists::peers(net, talk),
        LctlCommand::AddRoute {
            gateway,
            hops,
            priority,
        } => {
            let args = RouteAddArgs {
                net: Some(lists::named("add_route", net)?.to_string()),
                gateway: Some(gateway.clone()),
                hop: hops.clone(),
                priority: priority.clone(),
                health_sensitivity: None,
            };
            change::route_add(&args, talk)
        }
        LctlCommand::DelRoute { gateway } => {
            let args = RouteDelArgs {
                net: Some(lists::named("del_route", net)?.to_string()),
                gateway: Some(gateway.clone()),
            };
            change::route_del(&args, talk)
        }
        LctlCommand::DeviceList => talk.reach(),
        LctlCommand::DebugKernel { .. } => Err(line(
            "debug_kernel: the node has no debug buffer: it logs to its standard error, see finerail node --log"
                .to_owned(),
            UNSUPPORTED,
        )),
        LctlCommand::NetDrop(command) => fault::on_rules(command, false, talk),
        LctlCommand::NetDelay(command) => fault::on_rules(command, true, talk),
        LctlCommand::ShowRoute => lists::routes(talk),
        LctlCommand::Mark { text } => mark(text, talk),
        LctlCommand::NetDropAdd(rule) => fault::add(rule, false, talk),
        LctlCommand::NetDelayAdd(rule) => fault::add(rule, true, talk),
        LctlCommand::NetDropDel(which) => fault::del(which, false, talk),
        LctlCommand::NetDelayDel(which) => fault::del(which, true, talk),
        LctlCommand::NetDropReset => talk.print(&Request::Fault(Fault::Reset { delay: false })),
        LctlCommand::NetDelayReset => talk.print(&Request::Fault(Fault::Reset { delay: true })),
        LctlCommand::NetDropList => talk.print(&Request::Fault(Fault::Show { delay: false })),
        LctlCommand::NetDelayList => talk.print(&Request::Fault(Fault::Show { delay: true })),
        LctlCommand::ListParam(args) => params::list(args),
        LctlCommand::GetParam(args) => params::get(args, talk),
        LctlCommand::SetParam { quiet, settings } => params::set(settings, *quiet, talk),
    }
}

/// `network up` gives a node without a net the nets of its configuration file, as module parameters do on
/// kernel nodes.
fn network(what: &str, talk: &mut Talk) -> Result<(), Failed> {
    match what {
        "up" | "configure" => talk.print(&Request::Configure {
            large: false,
            all: true,
        }),
        "down" | "unconfigure" => talk.print(&Request::Unconfigure),
        net => match net.parse() {
            Ok(net) => {
                talk.net = Some(net);
                Ok(())
            }
            Err(_) => Err(line(format!("Can't parse network \"{what}\""), INVALID)),
        },
    }
}

fn list_nets(talk: &mut Talk) -> Result<(), Failed> {
    let nets = talk.shown(Section::Net)?.nets;
    let names: String = nets.iter().map(|net| format!("{}\n", net.net)).collect();
    Ok(io::stdout().write_all(names.as_bytes())?)
}

fn mark(words: &[String], talk: &mut Talk) -> Result<(), Failed> {
    let text = if words.is_empty() {
        jiff::Timestamp::now().to_string()
    } else {
        words.join(" ")
    };
    talk.print(&Request::Mark { text })
}

/// Returns an error of one line, with its exit code.
fn line(text: String, code: u8) -> Failed {
    Failed::Line { text, code }
}

/// Prints the node's NID from which the nearest of these NIDs is reached. Of equally near NIDs the first one
/// counts.
fn which_nid(nids: &[String], talk: &mut Talk) -> Result<(), Failed> {
    let own = own_nids(talk)?;
    let routes = talk.shown(Section::Route)?.routes;
    let on = |net: Net| own.iter().find(|own| own.net() == net);
    let mut reached = Vec::new();
    for text in nids {
        let nid: Nid = text.parse().map_err(|_| unusable(text))?;
        let itself = own.iter().find(|own| **own == nid).map(|own| (0, own));
        let direct = itself.or_else(|| on(nid.net()).map(|own| (DIRECT, own)));
        let routed = routes.iter().filter(|route| route.net == nid.net());
        let routed = routed.filter_map(|route| {
            let hops = route.hop.map_or(DIRECT, u32::from);
            Some((DIRECT + hops, on(route.gateway.net())?))
        });
        reached.extend(direct.or_else(|| routed.min_by_key(|(hops, _)| *hops)));
    }
    let nearest = reached.into_iter().min_by_key(|(hops, _)| *hops);
    match nearest {
        Some((_, own)) => print([own].into_iter()),
        None => Err(Failed::Line {
            text: "Can't find any NID that can be reached".to_owned(),
            code: UNREACHABLE,
        }),
    }
}

/// The distance of a NID on one of the node's own nets, in hops.
// [PATH-61]
const DIRECT: u32 = 1;

fn ping(nid: &str, timeout: u32, talk: &mut Talk) -> Result<(), Failed> {
    nid.parse::<Nid>().map_err(|_| unusable(nid))?;
    let request = Request::Ping {
        nids: vec![nid.to_owned()],
        source: None,
        timeout,
        discover: false,
    };
    let answer = talk.dlc()?.request(&request).map_err(|error| match error {
        DlcError::Rejected(failures) => failed(failures),
        other => other.into(),
    })?;
    let replies = read(&answer)?.replies;
    let answered = replies.into_iter().flat_map(|reply| match reply {
        Reply::Ping(peers) => peers,
        _ => Vec::new(),
    });
    let nids: Vec<Nid> = answered.flat_map(|peer| peer.nids).collect();
    writeln!(io::stdout(), "{LUSTRE_PID}-{}", Nid::LOOPBACK)?;
    print(nids.iter())
}

/// The process id that answers on every node. `lctl` prints it before the first NID.
const LUSTRE_PID: u32 = 12345;

/// The exit code for a NID that cannot be reached: EHOSTUNREACH.
const UNREACHABLE: u8 = 113;
/// The exit code for an argument that is not a NID: EINVAL.
const INVALID: u8 = 22;
/// The exit code for what a node in user space does not have: EOPNOTSUPP.
const UNSUPPORTED: u8 = 95;

fn unusable(nid: &str) -> Failed {
    Failed::Line {
        text: format!("Can't parse process id \"{nid}\""),
        code: INVALID,
    }
}

/// Returns the first error of the node as one line, with its number as the exit code.
fn failed(failures: Vec<lnet_dlc::protocol::Failure>) -> Failed {
    let Some(first) = failures.into_iter().next() else {
        return Failed::plain("the node rejects the request without a reason");
    };
    Failed::Line {
        text: first.descr,
        // Error numbers of Linux go up to 133, so they fit.
        code: u8::try_from(first.errno.unsigned_abs()).unwrap_or(u8::MAX),
    }
}

/// Returns the node's NIDs except loopback.
fn own_nids(talk: &mut Talk) -> Result<Vec<Nid>, Failed> {
    let nets = talk.shown(Section::Net)?.nets;
    let nids = nets.iter().flat_map(|net| &net.nis);
    let nids = nids.filter_map(|ni| ni.config.nid);
    Ok(nids.filter(|nid| !nid.is_loopback()).collect())
}

fn print<'a>(nids: impl Iterator<Item = &'a Nid>) -> Result<(), Failed> {
    let lines: String = nids.map(|nid| format!("{nid}\n")).collect();
    Ok(io::stdout().write_all(lines.as_bytes())?)
}
