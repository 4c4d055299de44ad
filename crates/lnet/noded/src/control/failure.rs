//! Describes a failed change in the words of `lnetctl`: [CONF-9].

use lnet_config::Change;
use lnet_core::ConfigError;
use lnet_dlc::protocol::Failure;
use lnet_node::InterfaceError;

use crate::change::ChangeError;
use crate::setup::StartError;

const ENOENT: i32 = 2;
const EIO: i32 = 5;
const EEXIST: i32 = 17;
const ENODEV: i32 = 19;
const EINVAL: i32 = 22;
const ENETDOWN: i32 = 100;
const EHOSTUNREACH: i32 = 113;

/// Describes a rejected change in the tool's words. If these fit any error, the error's own text follows them.
pub(super) fn of_error(change: &Change, error: &ChangeError) -> Failure {
    let (errno, words) = words(change, error);
    let descr = match words {
        Words::All(all) => all.to_owned(),
        Words::Begin(begin) => format!("{begin}: {error}"),
        Words::None => error.to_string(),
    };
    of_change(change, errno, &descr)
}

/// The tool's text for an error.
enum Words {
    /// The whole text.
    All(&'static str),
    /// A general beginning, which the error's own text follows.
    Begin(&'static str),
    /// No text: the error's own text stands alone.
    None,
}

/// Returns the error block of a change.
pub(super) fn of_change(change: &Change, errno: i32, descr: &str) -> Failure {
    let (verb, entity) = subject(change);
    Failure {
        verb: verb.to_owned(),
        entity: entity.to_owned(),
        errno,
        descr: descr.to_owned(),
        seq_no: None,
    }
}

/// Returns the error of a dry run that cannot be made.
pub(super) fn of_rehearsal(descr: String) -> Failure {
    Failure {
        verb: "manage".to_owned(),
        entity: "import".to_owned(),
        errno: -EIO,
        descr,
        seq_no: None,
    }
}

fn subject(change: &Change) -> (&'static str, &'static str) {
    match change {
        Change::Globals(_) => ("add", "global"),
        Change::DelRoute { .. } => ("del", "route"),
        Change::AddRoute(_) | Change::SetRoute(_) => ("add", "route"),
        Change::DelPeer { .. } | Change::DelPeerNids { .. } => ("del", "peer"),
        Change::AddPeer(_) | Change::AddPeerNids { .. } => ("add", "peer"),
        Change::DelNi { .. } | Change::DelNet(_) => ("del", "net"),
        Change::AddNet(_) | Change::AddNi { .. } | Change::SetNi { .. } | Change::Ip2Nets(_) => {
            ("add", "net")
        }
        Change::Routing(_) => ("add", "routing"),
        Change::Buffers(_) => ("add", "buffers"),
        Change::DelRule { .. } => ("del", "udsp"),
        Change::AddRule { .. } | Change::SetRule { .. } => ("add", "udsp"),
    }
}

/// Returns the errno, and the tool's text if it has one for this error.
fn words(change: &Change, error: &ChangeError) -> (i32, Words) {
    let subject = subject(change);
    match (subject, error) {
        (_, ChangeError::NoNet(_)) => (-EINVAL, Words::All("cannot del network")),
        (_, ChangeError::NoNi(_)) => (-ENODEV, Words::All("cannot del LNet NI")),
        (_, ChangeError::Interface(error)) => interface(error),
        ((_, "route"), ChangeError::Core(error)) => route(change, error),
        ((_, "peer"), ChangeError::Core(error)) => {
            let words = match subject {
                ("add", _) => "failed to add peer",
                _ => "failed to del peer",
            };
            (-error.errno().0.abs(), Words::Begin(words))
        }
        (_, ChangeError::Core(error)) => (-error.errno().0.abs(), Words::None),
        (_, ChangeError::Rule(error)) => (error.lnetctl_errno(), Words::None),
    }
}

fn interface(error: &StartError) -> (i32, Words) {
    const CANNOT_ADD: &str = "cannot add LNet NI";
    match error {
        StartError::Interface(InterfaceError::NoDriver(_)) => {
            (-EINVAL, Words::All("LND type not supported"))
        }
        StartError::Interface(InterfaceError::Core(ConfigError::DuplicateNid(_))) => {
            (-EEXIST, Words::All(CANNOT_ADD))
        }
        StartError::Ip2Nets(_) => (-EINVAL, Words::None),
        StartError::NoInterface { .. } => (-ENETDOWN, Words::Begin(CANNOT_ADD)),
        _ => (-EINVAL, Words::Begin(CANNOT_ADD)),
    }
}

fn route(change: &Change, error: &ConfigError) -> (i32, Words) {
    const EXISTS: &str = "Route already exists or the specified network is local";
    match error {
        ConfigError::GatewayNotLocal(_) => (
            -EHOSTUNREACH,
            Words::All("No interface configured on the same net as gateway"),
        ),
        ConfigError::UnknownRoute { .. } => (-ENOENT, Words::All("failed to delete route")),
        ConfigError::DuplicateRoute { .. } => (-EEXIST, Words::All(EXISTS)),
        ConfigError::NotRemote(_) if !leads_to_itself(change) => (-EEXIST, Words::All(EXISTS)),
        ConfigError::InvalidNid(_) | ConfigError::NotRemote(_) => {
            (-EINVAL, Words::All("invalid settings for route creation"))
        }
        other => (-other.errno().0.abs(), Words::None),
    }
}

/// Returns whether a route leads to the net of its gateway.
fn leads_to_itself(change: &Change) -> bool {
    match change {
        Change::AddRoute(route) | Change::SetRoute(route) => route.gateway.net() == route.net,
        _ => false,
    }
}
