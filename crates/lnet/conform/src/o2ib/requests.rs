//! Connection requests: what a node accepts, and what it rejects with which reason.

use lnet_types::Nid;
use lnet_wire::o2ib::{
    Body, FRAGMENTS_MAX, MESSAGE_MAX, Message, Parameters, REJECTION_LEN, Rejection,
    RejectionReason, VERSION,
};

use super::link::Answer;
use super::probe::{Probe, encode, with};
use crate::probe::{Stop, ensure, equal};

/// Less than most nodes accept, so that the node has to take it over.
const SMALL_DEPTH: u16 = 2;
const SMALL_FRAGMENTS: u16 = 17;

/// A version that never existed.
const VERSION_UNKNOWN: u16 = 0x13;

/// The place of the version in a message.
const VERSION_AT: usize = 4;

pub(super) fn ends(probe: &mut Probe<'_>) -> Result<(), Stop> {
    let (conn, data) = probe.connect()?;
    let found = connack(&data)?.0.envelope;
    equal("the source", &found.source, &probe.nid())?;
    let due = probe.request().envelope;
    equal("the destination", &found.destination, &due.source)?;
    let (found, due) = (found.destination_incarnation, due.source_incarnation);
    equal("the incarnation of the destination", &found, &due)?;
    probe.ping(conn).map(drop)
}

pub(super) fn parameters(probe: &mut Probe<'_>) -> Result<(), Stop> {
    // The first connection teaches the node the checker's incarnation, and the checker what the node accepts.
    probe.open()?;
    let most = probe.node.parameters;
    let small = Parameters {
        queue_depth: SMALL_DEPTH.min(most.queue_depth),
        fragments: SMALL_FRAGMENTS.min(most.fragments),
        ..most
    };
    let (conn, data) = probe.accepted(&with(&probe.request(), small))?;
    let found = connack(&data)?.1;
    let is_less = (1..=small.queue_depth).contains(&found.queue_depth)
        && (1..=small.fragments).contains(&found.fragments)
        && found.message_size as usize <= MESSAGE_MAX;
    ensure(is_less, || {
        format!("the CONNACK has {found:?}, which exceeds {small:?}")
    })?;
    probe.ping(conn).map(drop)
}

pub(super) fn incarnation(probe: &mut Probe<'_>) -> Result<(), Stop> {
    let first = incarnation_of_node(probe)?;
    let second = incarnation_of_node(probe)?;
    ensure(first != 0, || "the incarnation is 0".to_owned())?;
    equal("the incarnation on a second connection", &second, &first)
}

pub(super) fn known(probe: &mut Probe<'_>) -> Result<(), Stop> {
    let known = incarnation_of_node(probe)?;
    let (conn, _) = probe.accepted(&to(probe, known))?;
    probe.ping(conn).map(drop)
}

pub(super) fn stale(probe: &mut Probe<'_>) -> Result<(), Stop> {
    let known = incarnation_of_node(probe)?;
    let request = to(probe, known.wrapping_add(1));
    let rejection = probe.rejection(&request)?;
    equal("the reason", &rejection.reason, &RejectionReason::ConnStale)?;
    equal(
        "the incarnation in the rejection",
        &rejection.incarnation,
        &known,
    )
}

pub(super) fn junk(probe: &mut Probe<'_>) -> Result<(), Stop> {
    let mut request = encode(&probe.request())?;
    request
        .iter_mut()
        .take(VERSION_AT)
        .for_each(|byte| *byte = !*byte);
    fatal(&probe.rejection_of(&request)?)
}

pub(super) fn version(probe: &mut Probe<'_>) -> Result<(), Stop> {
    let mut request = encode(&probe.request())?;
    let field = request.get_mut(VERSION_AT..VERSION_AT + 2);
    if let Some(field) = field {
        field.copy_from_slice(&VERSION_UNKNOWN.to_le_bytes());
    }
    let rejection = probe.rejection_of(&request)?;
    fatal(&rejection)?;
    equal("the version in the rejection", &rejection.version, &VERSION)
}

pub(super) fn other_nid(probe: &mut Probe<'_>) -> Result<(), Stop> {
    let request = to_nobody(probe);
    fatal(&probe.rejection(&request)?)
}

pub(super) fn kind(probe: &mut Probe<'_>) -> Result<(), Stop> {
    let mut request = probe.request();
    if let Body::Connreq(parameters) = request.body {
        request.body = Body::Connack(parameters);
    }
    fatal(&probe.rejection(&request)?)
}

pub(super) fn depth(probe: &mut Probe<'_>) -> Result<(), Stop> {
    let rejection = too_deep(probe)?;
    equal(
        "the reason",
        &rejection.reason,
        &RejectionReason::MsgQueueSize,
    )?;
    let offered = rejection.parameters.queue_depth;
    ensure((1..u16::MAX).contains(&offered), || {
        format!("the rejection offers a queue depth of {offered}")
    })
}

pub(super) fn fragments(probe: &mut Probe<'_>) -> Result<(), Stop> {
    let fragments = FRAGMENTS_MAX + 1;
    let request = with(
        &probe.request(),
        Parameters {
            fragments,
            ..probe.node.parameters
        },
    );
    let rejection = probe.rejection(&request)?;
    equal("the reason", &rejection.reason, &RejectionReason::RdmaFrags)?;
    let offered = rejection.parameters.fragments;
    ensure((1..fragments).contains(&offered), || {
        format!("the rejection offers {offered} fragments")
    })
}

pub(super) fn size(probe: &mut Probe<'_>) -> Result<(), Stop> {
    let message_size = MESSAGE_MAX as u32 + 1;
    let request = with(
        &probe.request(),
        Parameters {
            message_size,
            ..probe.node.parameters
        },
    );
    fatal(&probe.rejection(&request)?)
}

pub(super) fn order(probe: &mut Probe<'_>) -> Result<(), Stop> {
    let request = with(&to_nobody(probe), DEEP);
    fatal(&probe.rejection(&request)?)
}

pub(super) fn offered(probe: &mut Probe<'_>) -> Result<(), Stop> {
    let parameters = too_deep(probe)?.parameters;
    let request = with(&probe.request(), parameters);
    match probe.dial(&request)?.1 {
        Answer::Accepted(_) => Ok(()),
        _ => Err(Stop::failed(format!(
            "the node rejects {parameters:?}, which its rejection offers"
        ))),
    }
}

pub(super) fn rejection(probe: &mut Probe<'_>) -> Result<(), Stop> {
    let known = incarnation_of_node(probe)?;
    let request = with(&probe.request(), DEEP);
    let Answer::Rejected(data) = probe.dial(&request)?.1 else {
        return Err(Stop::failed(
            "the node does not reject a queue depth of 65535",
        ));
    };
    ensure(data.len() >= REJECTION_LEN, || {
        format!("the rejection has {} bytes", data.len())
    })?;
    let found = Rejection::decode(&data).map_err(|error| Stop::failed(error.to_string()))?;
    equal("the version", &found.version, &VERSION)?;
    equal("the incarnation", &found.incarnation, &known)?;
    let size = found.parameters.message_size as usize;
    equal("the message size", &size, &MESSAGE_MAX)
}

pub(super) fn restart(probe: &mut Probe<'_>) -> Result<(), Stop> {
    let older = probe.open()?;
    probe.node.incarnation += 1;
    let request = probe.request();
    let rejection = probe.rejection(&request)?;
    equal("the reason", &rejection.reason, &RejectionReason::ConnStale)?;
    probe.closes(older)?;
    match probe.dial(&request)?.1 {
        Answer::Accepted(_) => Ok(()),
        _ => Err(Stop::failed(
            "the second request with the new incarnation is rejected, too",
        )),
    }
}

/// The deepest queue that a request can ask for. No node accepts more than 254.
const DEEP: Parameters = Parameters {
    queue_depth: u16::MAX,
    fragments: FRAGMENTS_MAX,
    message_size: MESSAGE_MAX as u32,
};

fn too_deep(probe: &mut Probe<'_>) -> Result<Rejection, Stop> {
    let request = with(&probe.request(), DEEP);
    probe.rejection(&request)
}

fn incarnation_of_node(probe: &mut Probe<'_>) -> Result<u64, Stop> {
    let conn = probe.open()?;
    Ok(probe.link(conn)?.incarnation)
}

/// A request that names an incarnation of the node.
fn to(probe: &Probe<'_>, known: u64) -> Message<'static> {
    Message {
        envelope: probe.envelope(known),
        ..probe.request()
    }
}

/// A request for the NID of the highest address of the network, which no interface has.
fn to_nobody(probe: &Probe<'_>) -> Message<'static> {
    let mut request = probe.request();
    let nobody = Nid::from_ip(probe.nid().net(), [255; 4].into());
    request.envelope.destination = nobody;
    request
}

fn connack(data: &[u8]) -> Result<(Message<'_>, Parameters), Stop> {
    let message = Message::decode(data)
        .map_err(|error| Stop::failed(format!("the private data of the reply: {error}")))?;
    match message.body {
        Body::Connack(parameters) => Ok((message, parameters)),
        other => Err(Stop::failed(format!(
            "the private data of the reply is a {:?}",
            other.kind()
        ))),
    }
}

fn fatal(rejection: &Rejection) -> Result<(), Stop> {
    equal("the reason", &rejection.reason, &RejectionReason::Fatal)
}
