//! Commands that change a node's configuration. Each command is a small document to import.
//!
//! The documents are written as JSON, which is also YAML. In JSON, text from a command line can only become a
//! value, never structure.

use std::io::ErrorKind;
use std::ops::RangeInclusive;
use std::path::Path;

use lnet_config::modprobe::{ConvertDefaults, Dialect, ModuleOptions, OptionKind};
use lnet_config::{Ip2Nets, Parameter, PeerConfig, PeerListError};
use lnet_dlc::protocol::{ImportMode, Request, Section, Show};
use lnet_types::expr::NidList;
use serde_json::{Map, Value, json};

use super::args::{
    ImportArgs, NetAddArgs, NetDelArgs, PeerAddArgs, PeerDelArgs, RouteAddArgs, RouteDelArgs,
    SetArgs,
};
use super::routing;
use super::talk::{Failed, Talk};
use crate::common::{complaint, read_standard_input, read_text};

const ENOENT: i32 = 2;
const EINVAL: i32 = 22;
/// The error number of `lnetctl` for a rejected parameter.
const ENODATA: i32 = 61;

/// Parameters of the `buffers` section.
const BUFFERS: [&str; 3] = ["tiny_buffers", "small_buffers", "large_buffers"];

/// The only parameter that is not a number.
const PROFILE: &str = "profile";

pub(super) fn set(args: &SetArgs, talk: &mut Talk) -> Result<(), Failed> {
    let name = args.name.as_str();
    let others = ["routing", "recovery_interval", PROFILE];
    let is_known =
        Parameter::named(name).is_some() || others.contains(&name) || BUFFERS.contains(&name);
    if !is_known {
        return Err(Failed::unknown(name));
    }
    let cannot = |what: String| Failed::block("add", name, -ENODATA, what);
    let number = args.value.parse::<i64>().ok();
    let value = match number {
        Some(number) if name != PROFILE => json!(number),
        _ => json!(args.value),
    };
    let document = match name {
        "routing" => json!({ "routing": { "enable": value } }),
        _ if BUFFERS.contains(&name) => {
            let pool = name.trim_end_matches("_buffers");
            json!({ "buffers": { pool: value } })
        }
        _ => json!({ "global": { name: value } }),
    };
    if args.wait && name != "routing" {
        return Err(Failed::plain("--wait goes with routing only"));
    }
    // The blocks are those of kernels, which give no reason.
    if number.is_none() && name != PROFILE {
        if let Err(failed) = check(name, &document.to_string()) {
            explain(failed);
        }
        return Err(cannot(format!("cannot parse {name} value")));
    }
    import(talk, &document, ImportMode::Add).map_err(|failed| match failed {
        Failed::Blocks(_) => {
            explain(failed);
            let words = name.replace('_', " ");
            cannot(format!("cannot configure {words}: Invalid argument"))
        }
        other => other,
    })?;
    if args.wait {
        routing::wait(talk)?;
    }
    Ok(())
}

/// Says on standard error why a document was rejected.
fn explain(failed: Failed) {
    if let Failed::Blocks(failures) = failed {
        for failure in failures {
            complaint(&failure.descr);
        }
    }
}

pub(super) fn net_add(args: &NetAddArgs, talk: &mut Talk) -> Result<(), Failed> {
    if args.auth_key.is_some() || args.traffic_class.is_some() {
        let what = "--auth-key and --traffic-class are for kfi networks, which are not supported";
        return Err(Failed::plain(what));
    }
    check_settings(args)?;
    if let Some(rules) = &args.ip2net {
        return net_add_by_address(rules, args, talk);
    }
    let mut nis = Vec::new();
    let net = match (&args.net, &args.nid) {
        (Some(_), Some(_)) => return Err(Failed::plain("--net is invalid with --nid option")),
        (None, None) => {
            let what = "missing mandatory parameters in NI config: 'network'";
            return Err(Failed::plain(what));
        }
        (Some(_), None) if args.interfaces.is_empty() => {
            let what = "creating a local NI needs at least one interface";
            return Err(Failed::plain(what));
        }
        (Some(net), None) => {
            let named = |name: &String| json!({ "interfaces": { "0": name } });
            nis.extend(args.interfaces.iter().map(named));
            net.clone()
        }
        (None, Some(nid)) => {
            nis.push(json!({ "nid": nid }));
            net_of(nid)?
        }
    };
    if net.parse::<lnet_types::Net>().is_err() {
        return Err(Failed::block("add", "net", -ENOENT, "cannot parse net"));
    }
    let settings = settings(args);
    for ni in nis.iter_mut().filter_map(Value::as_object_mut) {
        ni.extend(settings.clone());
    }
    let document = json!({ "net": [{ "net type": net, "local NI(s)": nis }] });
    import(talk, &document, ImportMode::Add)
}

/// Adds nets by the rules of the module's option `ip2nets`, each with the settings of the arguments.
fn net_add_by_address(rules: &str, args: &NetAddArgs, talk: &mut Talk) -> Result<(), Failed> {
    let unusable = |what: String| Failed::block("add", "ip2nets", -EINVAL, what);
    let mut options = ModuleOptions::default();
    options
        .add_value(OptionKind::Ip2Nets, rules, Dialect::Kernel)
        .map_err(|error| Failed::Place(error.render("--ip2net")))?;
    let settings = settings(args);
    let mut entries = Vec::new();
    // Each entry by itself: unlike the module, lnetctl gives a network the interfaces of the first rule only.
    for entry in options.ip2nets {
        let one = ModuleOptions {
            ip2nets: vec![entry],
            ..ModuleOptions::default()
        };
        let (config, left_out) = one
            .to_config(&ConvertDefaults::default())
            .map_err(|error| unusable(error.to_string()))?;
        if let Some(lost) = left_out.iter().find(|one| one.has_effect) {
            return Err(unusable(lost.to_string()));
        }
        entries.extend(
            config
                .ip2nets
                .iter()
                .map(|rule| ip2nets_entry(rule, &settings)),
        );
    }
    let yaml = format!(r#"{{"ip2nets":[{}]}}"#, entries.join(","));
    import_text(talk, "ip2nets", yaml, ImportMode::Add)
}

/// Returns an entry of `ip2nets`. Its first key must be the net, but a JSON map has its keys in alphabetical
/// order, so the entry is put together as text.
fn ip2nets_entry(rule: &Ip2Nets, settings: &Map<String, Value>) -> String {
    let names = rule.interfaces.iter().map(|name| json!(name));
    let patterns = rule
        .patterns
        .iter()
        .map(|pattern| json!(pattern.to_string()));
    let mut rest = settings.clone();
    rest.insert("interfaces".to_owned(), numbered(names));
    rest.insert("ip-range".to_owned(), numbered(patterns));
    let rest = Value::from(rest).to_string();
    let net = json!(rule.net.to_string());
    format!(r#"{{"net-spec":{net},{}"#, rest.trim_start_matches('{'))
}

fn numbered(values: impl Iterator<Item = Value>) -> Value {
    let pairs = values
        .enumerate()
        .map(|(at, value)| (at.to_string(), value));
    Value::Object(pairs.collect())
}

/// Rejects the settings that `lnetctl` itself rejects, with the same texts.
fn check_settings(args: &NetAddArgs) -> Result<(), Failed> {
    let refused = |what: &str| Failed::block("add", "ni", -EINVAL, what);
    let is_within = |text: &Option<String>, range: RangeInclusive<i64>| {
        let value = text.as_deref().map(str::parse);
        value.is_none_or(|value| value.is_ok_and(|value| range.contains(&value)))
    };
    if args.interfaces.iter().any(String::is_empty) {
        return Err(refused("bad interface list"));
    }
    if !is_within(&args.conns_per_peer, -1..=127) {
        let what = "invalid conns-per-peer value (valid range 0-127)";
        return Err(refused(what));
    }
    if !is_within(&args.tos, -1..=255) {
        return Err(refused("Invalid ToS argument"));
    }
    Ok(())
}

fn settings(args: &NetAddArgs) -> Map<String, Value> {
    let map = |pairs: &[(&str, &Option<String>)]| {
        let given = pairs.iter().filter_map(|(key, value)| {
            let value = value.as_ref()?;
            Some(((*key).to_owned(), number(value)))
        });
        given.collect::<Map<String, Value>>()
    };
    let tunables = map(&[
        ("peer_timeout", &args.peer_timeout),
        ("peer_credits", &args.peer_credits),
        ("peer_buffer_credits", &args.peer_buffer_credits),
        ("credits", &args.credits),
    ]);
    let lnd = map(&[("conns_per_peer", &args.conns_per_peer), ("tos", &args.tos)]);
    let mut settings = Map::new();
    if !tunables.is_empty() {
        settings.insert("tunables".to_owned(), tunables.into());
    }
    if !lnd.is_empty() {
        settings.insert("lnd tunables".to_owned(), lnd.into());
    }
    if let Some(cpt) = &args.cpt {
        settings.insert("CPT".to_owned(), cpt.clone().into());
    }
    settings
}

/// Converts a text to a number if possible. The parser of the document rejects any other text.
fn number(text: &str) -> Value {
    text.parse::<i64>()
        .map_or_else(|_| text.into(), Value::from)
}

pub(super) fn net_del(args: &NetDelArgs, talk: &mut Talk) -> Result<(), Failed> {
    let (net, nis) = match (&args.net, &args.nid) {
        (_, Some(nid)) => (net_of(nid)?, vec![json!({ "nid": nid })]),
        (Some(net), None) if net == "lo" => {
            return Err(Failed::block("del", "net", -EINVAL, "cannot del network"));
        }
        (Some(net), None) if args.interfaces.is_empty() => (net.clone(), all_of(net, talk)?),
        (Some(net), None) => {
            let named = |name: &String| json!({ "interfaces": { "0": name } });
            (net.clone(), args.interfaces.iter().map(named).collect())
        }
        (None, None) => {
            let what = "missing mandatory parameters in NI config: 'network'";
            return Err(Failed::plain(what));
        }
    };
    let document = json!({ "net": [{ "net type": net, "local NI(s)": nis }] });
    import(talk, &document, ImportMode::Del)
}

/// Returns the interfaces of a net.
fn all_of(net: &str, talk: &mut Talk) -> Result<Vec<Value>, Failed> {
    let request = Request::Show(Show {
        net: Some(net.to_owned()),
        ..Show::all(Section::Net, 0)
    });
    let unknown = || Failed::block("del", "net", -EINVAL, "cannot del network");
    let shown = talk.dlc()?.request(&request).map_err(|_| unknown())?;
    let document = lnet_config::read(&shown).map_err(|_| unknown())?.document;
    let nis = document.nets.iter().flat_map(|net| &net.nis);
    let nids = nis.filter_map(|ni| ni.config.nid);
    Ok(nids.map(|nid| json!({ "nid": nid.to_string() })).collect())
}

fn net_of(nid: &str) -> Result<String, Failed> {
    let net = nid.split_once('@').map(|(_, net)| net.to_owned());
    net.ok_or_else(|| Failed::block("add", "net", -EINVAL, "bad NID list"))
}

pub(super) fn route_add(args: &RouteAddArgs, talk: &mut Talk) -> Result<(), Failed> {
    let (net, gateway) = net_and_gateway(args.net.as_deref(), args.gateway.as_deref())?;
    check_gateway("add", gateway)?;
    if gateway
        .split_once('@')
        .is_some_and(|(_, local)| is_same_net(local, net))
    {
        let what = "invalid settings for route creation";
        return Err(Failed::block("add", "route", -EINVAL, what));
    }
    if args
        .health_sensitivity
        .as_deref()
        .is_some_and(|value| value != "1")
    {
        let what = "health_sensitivity of a route is deprecated: it is 1";
        return Err(Failed::block("add", "route", -EINVAL, what));
    }
    let mut route = json!({ "net": net, "gateway": gateway });
    // As in documents, -1 is an undefined hop count.
    if let Some(hop) = args.hop.as_deref().filter(|hop| *hop != "-1") {
        let hop = hop.parse().ok().filter(|hop| (1..=255).contains(hop));
        let what = "invalid hop count must be between 1 and 255";
        let hop: i64 = hop.ok_or_else(|| Failed::block("add", "route", -EINVAL, what))?;
        route["hop"] = hop.into();
    }
    if let Some(priority) = &args.priority {
        let what = "invalid priority, must not be negative";
        let priority: Option<u32> = priority.parse().ok();
        let priority = priority.ok_or_else(|| Failed::block("add", "route", -EINVAL, what))?;
        route["priority"] = priority.into();
    }
    import(talk, &json!({ "route": [route] }), ImportMode::Add)
}

pub(super) fn route_del(args: &RouteDelArgs, talk: &mut Talk) -> Result<(), Failed> {
    let (net, gateway) = net_and_gateway(args.net.as_deref(), args.gateway.as_deref())?;
    check_gateway("del", gateway)?;
    let document = json!({ "route": [{ "net": net, "gateway": gateway }] });
    import(talk, &document, ImportMode::Del)
}

fn net_and_gateway<'a>(
    net: Option<&'a str>,
    gateway: Option<&'a str>,
) -> Result<(&'a str, &'a str), Failed> {
    match (net, gateway) {
        (Some(net), Some(gateway)) => Ok((net, gateway)),
        (Some(_), None) => Err(Failed::plain("missing mandatory parameters:'gateway'")),
        (None, Some(_)) => Err(Failed::plain("missing mandatory parameters:'net'")),
        (None, None) => Err(Failed::plain(
            "missing mandatory parameters:'net , gateway'",
        )),
    }
}

fn is_same_net(left: &str, right: &str) -> bool {
    let [left, right] = [left, right].map(|text| text.parse::<lnet_types::Net>().ok());
    left.is_some() && left == right
}

fn check_gateway(verb: &str, gateway: &str) -> Result<(), Failed> {
    if gateway.contains('@') && gateway.parse::<NidList>().is_ok() {
        return Ok(());
    }
    let what = "Unable to parse nidlist: no valid NIDs in string";
    Err(Failed::block(verb, "route", -EINVAL, what))
}

pub(super) fn peer_add(args: &PeerAddArgs, talk: &mut Talk) -> Result<(), Failed> {
    let peer = peer(
        args.prim_nid.as_deref(),
        args.nid.as_deref(),
        "add",
        !args.non_mr,
    )?;
    let nids: Vec<Value> = peer
        .nids
        .iter()
        .map(|nid| json!({ "nid": nid.to_string() }))
        .collect();
    let primary = peer.nids.first().map(ToString::to_string);
    let entry = json!({
        "primary nid": primary,
        "Multi-Rail": peer.multi_rail,
        "peer ni": nids,
    });
    import(talk, &json!({ "peer": [entry] }), ImportMode::Add)?;
    match primary.filter(|_| args.lock_prim) {
        Some(nid) => talk.print(&Request::SetPeerState {
            nid,
            set: LOCK_PRIMARY,
            clear: 0,
        }),
        None => Ok(()),
    }
}

/// The bit of a peer's state that locks its primary NID.
// [PEER-20]
const LOCK_PRIMARY: u32 = 1 << 20;

pub(super) fn peer_del(args: &PeerDelArgs, talk: &mut Talk) -> Result<(), Failed> {
    let peer = peer(args.prim_nid.as_deref(), args.nid.as_deref(), "del", true)?;
    let primary = peer.nids.first().map(ToString::to_string);
    let mut entry = json!({ "primary nid": primary });
    // Without NIDs, or with the primary one among them, the whole peer is deleted.
    if let Some(list) = &args.nid {
        let named: NidList = list.parse().map_err(|error| bad_nids("del", &error))?;
        let named = named
            .expand(PeerConfig::MAX_NIDS)
            .map_err(|error| bad_nids("del", &error))?;
        let nids = named.iter().map(|nid| json!({ "nid": nid.to_string() }));
        entry["peer ni"] = nids.collect();
    }
    if let Some(nid) = primary.filter(|_| args.force) {
        // If the peer does not exist, the deletion below reports it.
        let _unlocked = talk.print(&Request::SetPeerState {
            nid,
            set: 0,
            clear: LOCK_PRIMARY,
        });
    }
    import(talk, &json!({ "peer": [entry] }), ImportMode::Del)
}

fn peer(
    primary: Option<&str>,
    nids: Option<&str>,
    verb: &str,
    multi_rail: bool,
) -> Result<PeerConfig, Failed> {
    let peer = PeerConfig::from_lists(primary, nids.unwrap_or(""), multi_rail);
    peer.map_err(|error| match error {
        PeerListError::NoPrimary => Failed::Plain(error.to_string()),
        other => bad_nids(verb, &other),
    })
}

fn bad_nids(verb: &str, error: &dyn std::fmt::Display) -> Failed {
    Failed::block(verb, "peer", -EINVAL, error.to_string())
}

pub(super) fn import_file(args: &ImportArgs, talk: &mut Talk) -> Result<(), Failed> {
    if args.file.is_none() && talk.in_session {
        let what = "import needs a file here: standard input has the commands";
        return Err(Failed::plain(what));
    }
    let (name, text) = read(args.file.as_deref())?;
    if args.exec {
        return execute(&name, &text, talk);
    }
    if args.show {
        return show_named(&name, &text, talk);
    }
    let mode = match (args.del, args.strict) {
        (true, _) => ImportMode::Del,
        (false, true) => ImportMode::Add,
        (false, false) => ImportMode::Complete,
    };
    // An error in the text itself is reported here, because here its line is known.
    let checked = match mode {
        ImportMode::Del => lnet_config::read(&text).map(drop),
        ImportMode::Add | ImportMode::Complete | ImportMode::Replace => {
            lnet_config::parse(&text).map(drop)
        }
    };
    checked.map_err(|error| Failed::Place(error.render(&name)))?;
    talk.remark(&Request::Import {
        yaml: text,
        mode,
        partial: args.partial,
        dry_run: args.dry_run,
    })
}

/// `import --exec`: carries out pings and discoveries.
fn execute(name: &str, text: &str, talk: &mut Talk) -> Result<(), Failed> {
    let requests = lnet_config::Request::parse(text);
    for request in requests.map_err(|error| Failed::Place(error.render(name)))? {
        let (nids, discover) = match request {
            lnet_config::Request::Ping(nids) => (nids, false),
            lnet_config::Request::Discover(nids) => (nids, true),
        };
        talk.print(&Request::Ping {
            nids: nids.iter().map(ToString::to_string).collect(),
            source: None,
            timeout: super::DISCOVERY_SECONDS,
            discover,
        })?;
    }
    Ok(())
}

/// `import --show`: shows those sections of the node that the document contains.
fn show_named(name: &str, text: &str, talk: &mut Talk) -> Result<(), Failed> {
    let reading = lnet_config::read(text).map_err(|error| Failed::Place(error.render(name)))?;
    let document = reading.document;
    let sections = [
        (Section::Net, !document.nets.is_empty()),
        (Section::Route, !document.routes.is_empty()),
        (Section::Peer, !document.peers.is_empty()),
        (Section::Routing, document.routing.is_some()),
        (
            Section::Global,
            document.globals != lnet_config::Globals::default(),
        ),
        (Section::Udsp, !document.udsp.is_empty()),
    ];
    for (section, _) in sections.into_iter().filter(|(_, named)| *named) {
        talk.print(&Request::Show(Show::all(section, 2)))?;
    }
    Ok(())
}

fn read(path: Option<&Path>) -> Result<(String, String), Failed> {
    let (name, text) = match path {
        None => ("standard input".to_owned(), read_standard_input()),
        Some(path) => (path.display().to_string(), read_text(path)),
    };
    match text {
        Ok(text) => Ok((name, text)),
        Err(error) if error.kind() == ErrorKind::InvalidData => Err(Failed::Place(format!(
            "{name} is not text: YAML is written in UTF-8"
        ))),
        Err(error) if path.is_none() => Err(error.into()),
        Err(error) => Err(Failed::unreadable(&name, &error)),
    }
}

/// Checks a document that was made from arguments. The error names the argument, not the document or the place
/// in it.
fn check(entity: &str, yaml: &str) -> Result<(), Failed> {
    lnet_config::parse(yaml).map(|_| ()).map_err(|error| {
        let problem = error.problem();
        Failed::block(
            "add",
            entity,
            -EINVAL,
            format!("{problem}; {}", problem.help()),
        )
    })
}

fn import(talk: &mut Talk, document: &Value, mode: ImportMode) -> Result<(), Failed> {
    let sections = document.as_object().into_iter().flat_map(Map::keys);
    let entity = sections.last().map_or("import", String::as_str);
    import_text(talk, entity, document.to_string(), mode)
}

fn import_text(
    talk: &mut Talk,
    entity: &str,
    yaml: String,
    mode: ImportMode,
) -> Result<(), Failed> {
    if mode == ImportMode::Add {
        check(entity, &yaml)?;
    }
    talk.print(&Request::Import {
        yaml,
        mode,
        partial: false,
        dry_run: false,
    })
}
