//! Checks what the wire protocol prescribes for connections, from outside: by the bytes of
//! the handshakes, and by what both ends show at the end of a run.

use std::net::IpAddr;

use lnet_tcp::ConnectionView;
use lnet_types::Nid;
use lnet_wire::{Connreq, Ctype, Hello};

use crate::stacks::line::{End, Line, Stage};

/// The limit on the recorded bytes. It is enough for a connection request and a HELLO without addresses in every
/// version.
pub(crate) const HEAD_MAX: usize = 128;

/// Checks the first answer of an acceptor. Returns true if the answer is the rejection of a race.
///
/// If two dials cross, the dial of the higher NID survives [SET-5]: an acceptor that is dialling a peer with
/// a lower NID answers `NONE`. It may answer `NONE`, too, if its own dial has made a connection of that type [SET-14]. An acceptor has no other reason for this answer. The type of the answer is the
/// inverse of the type that was asked for [HELLO-9]. On the virtual network the order of NIDs is the order of
/// addresses.
pub(crate) fn check_answer<'a>(
    line: &Line,
    lines: impl Iterator<Item = &'a Line> + Clone,
) -> Result<bool, String> {
    let [asker, answerer] = &line.ends;
    let asked = asked(&asker.head);
    let Some((asked, answer)) = asked.zip(ctype(&answerer.head)) else {
        return Ok(false);
    };
    let (from, to) = (asker.address.ip(), answerer.address.ip());
    let of_acceptor = lines.filter(|other| {
        let [dialler, target] = &other.ends;
        dialler.machine == answerer.machine
            && (dialler.address.ip(), target.address.ip()) == (to, from)
    });
    let is_race = from < to && of_acceptor.clone().any(is_dialling);
    if answer == Ctype::NONE {
        let is_made = of_acceptor.clone().any(|line| has_made(line, asked));
        return if is_race || is_made {
            Ok(true)
        } else {
            Err(format!("{to} rejects {from} for no reason"))
        };
    }
    if is_race && of_acceptor.clone().any(is_surely_dialling) {
        return Err(format!(
            "{to} accepts {from}, which has the lower NID, while it dials it"
        ));
    }
    if Some(answer) != asked.inverse() {
        return Err(format!("{to} answers {asked:?} of {from} with {answer:?}"));
    }
    Ok(false)
}

/// Returns true if the dialler has not read the answer.
fn is_dialling(line: &Line) -> bool {
    let [dialler, target] = &line.ends;
    let answer = Hello::needed(&target.head).unwrap_or(usize::MAX);
    dialler.open && dialler.took < answer as u64
}

/// Returns true if the dialler has not read the answer and cannot know that there will be none.
fn is_surely_dialling(line: &Line) -> bool {
    let End { ended, reset, .. } = line.ends[0];
    is_dialling(line) && !ended && !reset && !matches!(line.stage, Stage::Failed(_))
}

/// Returns true if the dialler has read the answer, and the connection has the type that its acceptor would ask for.
fn has_made(line: &Line, asked: Ctype) -> bool {
    let [dialler, _] = &line.ends;
    let own = self::asked(&dialler.head).and_then(Ctype::inverse);
    dialler.open && !is_dialling(line) && own == Some(asked)
}

fn asked(head: &[u8]) -> Option<Ctype> {
    let request = Connreq::needed(head).ok()?;
    ctype(head.get(request..)?)
}

fn ctype(hello: &[u8]) -> Option<Ctype> {
    Some(Hello::decode(hello).ok()?.hello.ctype)
}

/// Returns what is wrong with the connections between nodes. Each node is given with its NIDs and its connections.
///
/// Both ends know the same connections, with inverse types. Two nodes with a connection have one of each type,
/// and neither has dialled a type twice. Two connections of one type exist only if one end had lost a
/// connection that the other still had.
pub(crate) fn mismatch(nodes: &[(&[Nid], Vec<ConnectionView>)]) -> Option<String> {
    for (index, (nids, own)) in nodes.iter().enumerate() {
        for (peer_nids, theirs) in nodes.iter().skip(index + 1) {
            for nid in *nids {
                let neighbours = peer_nids.iter().filter(|peer| peer.net() == nid.net());
                let mut pairs = neighbours.filter_map(|peer| nid.ip().zip(peer.ip()));
                let wrong = pairs.find_map(|(one, other)| {
                    between(&select(own, one, other), &select(theirs, other, one))
                        .map(|what| format!("{one} and {other}: {what}"))
                });
                if wrong.is_some() {
                    return wrong;
                }
            }
        }
    }
    None
}

fn select(views: &[ConnectionView], local: IpAddr, remote: IpAddr) -> Vec<ConnectionView> {
    let on = |view: &&ConnectionView| view.local.ip() == local && view.remote.ip() == remote;
    views.iter().filter(on).copied().collect()
}

fn between(own: &[ConnectionView], theirs: &[ConnectionView]) -> Option<String> {
    let (count, other_count) = (own.len(), theirs.len());
    let known = |view: &ConnectionView| {
        theirs.iter().any(|other| {
            (other.local, other.remote, other.dialled) == (view.remote, view.local, !view.dialled)
                && Some(other.ctype) == view.ctype.inverse()
        })
    };
    if count != other_count {
        return Some(format!(
            "{count} connections at one end, {other_count} at the other"
        ));
    }
    if let Some(view) = own.iter().find(|view| !known(view)) {
        return Some(format!("only one end knows {view:?}"));
    }
    if count == 0 {
        return None;
    }
    [Ctype::CONTROL, Ctype::BULK_IN, Ctype::BULK_OUT]
        .into_iter()
        .find_map(|ctype| {
            let of = |dialled: bool| {
                let of_type = own.iter().filter(|link| link.ctype == ctype);
                of_type.filter(|link| link.dialled == dialled).count()
            };
            let (dialled, accepted) = (of(true), of(false));
            let wrong = dialled + accepted == 0 || dialled > 1 || accepted > 1;
            wrong.then(|| format!("{dialled} {ctype:?} dialled, {accepted} accepted"))
        })
}
