//! What `lnetctl` says of a change that fails (sections 6.5 and 11.12 of lnet-selection).

use lnet_config::Change;
use lnet_control::Failure;
use lnet_core::ConfigError;

use crate::change::ChangeError;
use crate::setup::StartError;

const ENOENT: i32 = 2;
const EIO: i32 = 5;
const EEXIST: i32 = 17;
const ENODEV: i32 = 19;
const EINVAL: i32 = 22;
const ENETDOWN: i32 = 100;
const EHOSTUNREACH: i32 = 113;

/// A change that was refused, in the tool's words, and behind them in ours where those say more.
pub(super) fn of_error(change: &Change, error: &ChangeError) -> Failure {
    let (errno, known) = known(change, error);
    let descr = match known {
        Some(known) => known.to_owned(),
        None => error.to_string(),
    };
    of_change(change, errno, &descr)
}

/// The error block of a change.
fn of_change(change: &Change, errno: i32, descr: &str) -> Failure {
    let (verb, entity) = subject(change);
    Failure {
        verb: verb.to_owned(),
        entity: entity.to_owned(),
        errno,
        descr: descr.to_owned(),
        seq_no: None,
    }
}

/// A dry run that cannot be made.
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

/// The errno, and the tool's text where it has one for this.
fn known(change: &Change, error: &ChangeError) -> (i32, Option<&'static str>) {
    let (_, entity) = subject(change);
    match (entity, error) {
        (_, ChangeError::NoNet(_)) => (-EINVAL, Some("cannot del network")),
        (_, ChangeError::NoNi(_)) => (-ENODEV, Some("cannot del LNet NI")),
        (_, ChangeError::Interface(StartError::NotTcp(_))) => {
            (-EINVAL, Some("LND type not supported"))
        }
        (_, ChangeError::Interface(StartError::Core(ConfigError::DuplicateNid(_)))) => {
            (-EEXIST, Some("cannot add LNet NI"))
        }
        (_, ChangeError::Interface(StartError::NoInterface { .. })) => (-ENETDOWN, None),
        (_, ChangeError::Interface(_)) => (-EINVAL, None),
        ("route", ChangeError::Core(error)) => route(error),
        (_, ChangeError::Core(error)) => (-error.errno().0.abs(), None),
        (_, ChangeError::Rule(error)) => (error.lnetctl_errno(), None),
    }
}

fn route(error: &ConfigError) -> (i32, Option<&'static str>) {
    match error {
        ConfigError::GatewayNotLocal(_) => (
            -EHOSTUNREACH,
            Some("No interface configured on the same net as gateway"),
        ),
        ConfigError::UnknownRoute { .. } => (-ENOENT, Some("failed to delete route")),
        ConfigError::DuplicateRoute { .. } => (-EEXIST, None),
        ConfigError::InvalidNid(_) | ConfigError::NotRemote(_) => {
            (-EINVAL, Some("invalid settings for route creation"))
        }
        other => (-other.errno().0.abs(), None),
    }
}
