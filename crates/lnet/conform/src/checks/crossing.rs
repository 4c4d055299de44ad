//! Dials of both ends that cross.
//!
//! ```text
//!  checker                              node
//!     BULK_OUT, with a ping  ─────────▶   knows a peer that it has no connection to send on
//!     accepts                ◀─────────   dials CONTROL, and answers the ping there
//!     dials CONTROL          ─────────▶   NONE: it has one of this type, which it has just dialled
//!     pings on the first     ─────────▶   answers: the end of the second closed nothing else
//! ```
//!
//! A kernel node never dials a peer that it knows only by connections of the peer: the rule does not apply then.

use std::time::{Duration, Instant};

use lnet_types::ProcessId;
use lnet_wire::{Ctype, KsockHeader, PING_BUFFER_MIN};
use socket2::Socket;

use crate::link::{HeardHello, Link};
use crate::node::listen;
use crate::probe::{Probe, Stop, ensure, hello_of};

/// The time between two pings: a node that could not dial a peer drops what it has for the peer, and waits.
const AGAIN: Duration = Duration::from_secs(1);

/// Two dials that are further apart do not cross: a node may take the second for a further connection. Below the second
/// that our own node takes.
const APART: Duration = Duration::from_millis(500);

pub(super) fn dials(probe: &mut Probe<'_>) -> Result<(), Stop> {
    probe.need_siblings()?;
    let own = probe.subject().own_address();
    let listener = listen(own)
        .map_err(|error| Stop::NotApplicable(format!("cannot listen on {own}: {error}")))?;
    // A node dials only peers with the process id of a node.
    probe.me.pid = ProcessId::LUSTRE_PID;
    let mut bulk = probe.open(Ctype::BULK_OUT)?;
    let (mut first, asked) = dialled(probe, &listener, &mut bulk)?;
    let dialled_at = Instant::now();
    let ctype = asked.hello.ctype;
    first.send(&hello_of(&asked.hello.reply(
        probe.me.nid,
        probe.incarnation,
        ctype,
    )));
    // Its dial is complete: it answers the ping there.
    first.reply()?;
    let mut second = probe.dial(&probe.hello(ctype))?;
    let answer = second.hello()?.hello.ctype;
    if dialled_at.elapsed() > APART {
        return Err(Stop::NotApplicable(format!(
            "the two dials did not cross: the second was complete after {:.1} s",
            dialled_at.elapsed().as_secs_f64()
        )));
    }
    ensure(answer == Ctype::NONE, || {
        format!(
            "a connection that crosses one of the node's own is answered with {answer}, not with NONE"
        )
    })?;
    drop(second);
    probe.still_answers(&mut first)
}

/// Pings the node on its BULK_IN until the node dials the checker. Returns the connection with the node's HELLO.
fn dialled(
    probe: &mut Probe<'_>,
    listener: &Socket,
    bulk: &mut Link,
) -> Result<(Link, HeardHello), Stop> {
    let mut ping_at = Instant::now();
    while !probe.is_over() {
        if Instant::now() >= ping_at {
            let (ping, _) = probe.ping_header(PING_BUFFER_MIN);
            bulk.send_message(KsockHeader::LNET, &ping, &[])?;
            ping_at += AGAIN;
        }
        if let Ok((socket, _)) = listener.accept() {
            let mut link = probe.accepted(socket.into());
            link.request()?;
            let asked = link.hello()?;
            return Ok((link, asked));
        }
        if bulk.is_ready() {
            return Err(Stop::NotApplicable(
                "the node answers on the connection that there is, and dials none".to_owned(),
            ));
        }
    }
    Err(Stop::NotApplicable(
        "the node dials no peer that it was not told of, as kernel nodes do".to_owned(),
    ))
}
