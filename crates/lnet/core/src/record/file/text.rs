//! Inputs, answers and outputs as text, one line each.

use std::fmt::Debug;

use lnet_wire::{Body, Header};

use crate::{Answer, EventKind, Input, NiId, Output, Transmit, Verdict};

/// The name of an input, which is that of its call.
#[must_use]
pub fn input_name(input: &Input) -> String {
    let text = format!("{input:?}");
    let end = text.find(|c: char| !c.is_alphanumeric());
    text.get(..end.unwrap_or(text.len()))
        .unwrap_or_default()
        .to_owned()
}

/// An input as text.
#[must_use]
pub fn input_text(input: &Input) -> String {
    match input {
        Input::Header {
            ni, from, header, ..
        } => format!(
            "header on {} from {from}: {}",
            ni_text(*ni),
            header_text(header)
        ),
        Input::Arrived { rx, result, .. } => match result {
            Ok(()) => format!("message rx {:x} has arrived", rx.0),
            Err(status) => format!("message rx {:x} is lost: {}", rx.0, plain(status)),
        },
        Input::Sent { tx, status, .. } => {
            format!("message tx {:x} is sent: {}", tx.0, plain(status))
        }
        Input::SentTryNext {
            tx, status, next, ..
        } => format!(
            "message tx {:x} is sent: {}; next time to try: {next}",
            tx.0,
            plain(status)
        ),
        Input::SentInNoForm { tx, .. } => {
            format!("message tx {:x} cannot be written for its next hop", tx.0)
        }
        Input::PeerNotify {
            ni, peer, alive, ..
        } => {
            let has = if *alive { "connected" } else { "not connected" };
            format!("peer {peer} is {has} on {}", ni_text(*ni))
        }
        Input::PeerIncarnation {
            peer, incarnation, ..
        } => format!("peer {peer} has a connection with incarnation {incarnation}"),
        Input::Put { put, .. } => format!(
            "PUT of md {} to {} portal {} match bits {:#x}",
            put.md.0, put.target, put.portal, put.match_bits
        ),
        Input::Get { get, .. } => format!(
            "GET into md {} from {} portal {} match bits {:#x}",
            get.md.0, get.target, get.portal, get.match_bits
        ),
        Input::MdBind { md } => format!("bind a descriptor of {} bytes", md.length),
        Input::MdAttach { me, md, .. } => {
            format!(
                "attach a descriptor of {} bytes to entry {}",
                md.length, me.0
            )
        }
        Input::MeAttach { me } => format!(
            "attach an entry to portal {} for {} match bits {:#x}",
            me.portal, me.match_id, me.match_bits
        ),
        Input::Tick { .. } => "a timer expires".to_owned(),
        Input::Fill { buffer, bytes } => format!(
            "{} bytes of discovery information in buffer {}",
            bytes.len(),
            buffer.0
        ),
        other => plain(other),
    }
}

/// A value in plain words: `AddRoute { route: Route { net: tcp1, hops: Some(1) } }` is "add route: route net tcp1, hops
/// 1". Names of types that hold something and brackets are left out.
fn plain(value: &impl Debug) -> String {
    let text = format!("{value:?}");
    let mut told = String::new();
    let mut rest = text.as_str();
    while let Some(first) = rest.chars().next() {
        let is_end = |c: char| !c.is_alphanumeric() && !"_.@-".contains(c);
        let (word, behind) = rest.split_at(rest.find(is_end).unwrap_or(rest.len()));
        if word.is_empty() {
            let is_kept = first == ',' || first == ' ' && !told.ends_with(' ');
            told.extend(is_kept.then_some(first));
            rest = rest.get(first.len_utf8()..).unwrap_or_default();
            continue;
        }
        let holds = behind.starts_with('(') || behind.starts_with(" {");
        if told.is_empty() {
            told = words(word) + if holds { ":" } else { "" };
        } else if !(holds && word.starts_with(char::is_uppercase)) {
            told += &words(word);
        }
        rest = behind;
    }
    told.trim_end().to_owned()
}

/// Splits a name of the program into words of lower case.
fn words(name: &str) -> String {
    let mut words = String::new();
    for (at, one) in name.chars().enumerate() {
        if one.is_uppercase() && at > 0 && !words.ends_with(' ') {
            words.push(' ');
        }
        words.extend(
            one.to_lowercase()
                .map(|one| if one == '_' { ' ' } else { one }),
        );
    }
    words
}

/// The return value of a call as text; `None` for an empty one.
#[must_use]
pub fn answer_text(answer: &Answer) -> Option<String> {
    Some(match answer {
        Answer::Nothing => return None,
        Answer::Number(number) => format!("returns {number}"),
        Answer::Refused(why) => format!("rejected: {why}"),
        Answer::Verdict(Verdict::Receive { rx, landing }) => format!(
            "receive {} bytes as rx {:x} into {}",
            landing.length,
            rx.0,
            plain(&landing.place)
        ),
        Answer::Verdict(Verdict::Hold { rx }) => format!("hold as rx {:x}", rx.0),
        Answer::Verdict(Verdict::Drop(reason)) => format!("discard: {}", plain(reason)),
        Answer::Verdict(Verdict::Reject(error)) => format!("close the connection: {error}"),
    })
}

/// An output as text.
#[must_use]
pub fn output_text(output: &Output) -> String {
    match output {
        Output::Transmit(Transmit {
            tx, ni, to, header, ..
        }) => format!(
            "transmit tx {:x} by {} to {to}: {}",
            tx.0,
            ni_text(*ni),
            header_text(header)
        ),
        Output::Resume { rx, landing } => match landing {
            Some(landing) => format!("continue rx {:x}: {} bytes", rx.0, landing.length),
            None => format!("drop rx {:x}", rx.0),
        },
        Output::Cancel { rx } => format!("cancel rx {:x}", rx.0),
        Output::Doubt { nid } => format!("doubt the connections with {nid}"),
        Output::Event(event) => {
            let failed = event.status.err();
            let failed =
                failed.map_or_else(String::new, |errno| format!(" failed with -{}", errno.0));
            let last = if event.unlinked { ", unlinked" } else { "" };
            format!(
                "event {} of md {}{failed}{last}",
                word(event.kind),
                event.md.0
            )
        }
        Output::Gateway { nid, alive } => {
            let now = if *alive { "alive" } else { "dead" };
            format!("gateway {nid} is {now}")
        }
    }
}

fn word(kind: EventKind) -> String {
    format!("{kind:?}").to_uppercase()
}

fn ni_text(ni: NiId) -> String {
    match ni {
        NiId::LOOPBACK => "loopback".to_owned(),
        NiId(number) => format!("NI {number}"),
    }
}

fn header_text(header: &Header) -> String {
    let (source, target) = (header.src_nid, header.dest_nid);
    let length = header.payload_length;
    match &header.body {
        Body::Ack(ack) => format!("ACK {source} to {target}, {} bytes", ack.mlength),
        Body::Reply(_) => format!("REPLY {source} to {target}, {length} bytes"),
        Body::Put(put) => format!(
            "PUT {source} to {target}, {length} bytes, portal {} match bits {:#x}",
            put.ptl_index, put.match_bits
        ),
        Body::Get(get) => format!(
            "GET {source} to {target}, {} bytes, portal {} match bits {:#x}",
            get.sink_length, get.ptl_index, get.match_bits
        ),
    }
}

#[cfg(test)]
mod tests {
    use lnet_types::{Nid, Time};

    use super::*;
    use crate::MessageStatus;

    #[test]
    fn inputs_are_told_without_the_program_s_punctuation() {
        let gateway: Nid = "10.0.0.9@tcp".parse().unwrap();
        let net = "o2ib".parse().unwrap();
        let told = [
            input_text(&Input::RemoveRoute { net, gateway }),
            input_text(&Input::HoldRules {}),
            input_text(&Input::SetRouting {
                enabled: true,
                now: Time::ZERO,
            }),
            plain(&MessageStatus::RemoteTimeout),
        ];
        for text in &told {
            let marks = text.find(['{', '}', '(', ')', '"']);
            assert_eq!(marks, None, "{text}");
            assert_eq!(text.to_lowercase(), *text);
        }
        assert!(
            told[0].starts_with("remove route: net o2ib, gateway "),
            "{}",
            told[0]
        );
        assert_eq!(told[1..2], ["hold rules"]);
        assert_eq!(told[3], "remote timeout");
    }
}
