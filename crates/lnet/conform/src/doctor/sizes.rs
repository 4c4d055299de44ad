//! Checks whether messages larger than a packet arrive, in both directions.
//!
//! A program without privileges cannot choose the size of a packet, but TCP sends full segments if
//! it has enough data. Many pings in one write therefore fill whole segments with requests and
//! answers. On a path that loses large packets, one ping is answered and this check stalls. The
//! system reports the sizes of segments and the MTU of the path.

use lnet_types::Nid;
use lnet_wire::{Ctype, KsockHeader};
use sys::TcpFigures;

use super::{Diagnosis, catalogue, reason};
use crate::link::Link;
use crate::node::NodeUnderTest;
use crate::probe::{Probe, SINK_MAX, Stop};

/// Pings in one write. Each has at least 96 bytes, so the last number fills two segments of an MTU
/// of 9000 bytes.
const BURSTS: [usize; 3] = [1, 16, 256];

/// The largest MTU of an Ethernet. Loopback has a larger one, and the system then halves the
/// segments.
const MTU_MAX: u32 = 16_384;

/// TCP's options in each segment, in bytes: timestamps, at most 40 in all.
const OPTIONS_MAX: u32 = 40;

/// Bytes that passed in one burst.
#[derive(Clone, Copy, Default)]
struct Passed {
    there: usize,
    back: usize,
}

pub(super) fn sizes(node: &NodeUnderTest, diagnosis: &mut Diagnosis) {
    let name = "sizes";
    let mut probe = node.probe();
    let mut link = match probe.open(Ctype::CONTROL) {
        Ok(link) => link,
        Err(stop) => return diagnosis.untested(name, reason(stop)),
    };
    let mut passed = Passed::default();
    for burst in BURSTS {
        match fill(&mut probe, &mut link, burst) {
            Ok(now) => passed = now,
            Err(stop) => {
                let figures = link.figures();
                let why = format!("{burst} pings in one write: {}", reason(stop));
                let seen = format!("{}; {why}{}", so_far(passed), direction(figures));
                diagnosis.saw(name, seen.clone());
                let kind = if burst == 1 {
                    &catalogue::UNSTEADY
                } else {
                    &catalogue::LARGE_STALLS
                };
                return diagnosis.found(kind, seen);
            }
        }
    }
    let figures = link.figures();
    diagnosis.saw(name, so_far(passed) + &segments(figures));
    if let Some(figures) = figures {
        check_figures(figures, node.subject().nid, diagnosis);
    }
}

/// Sends `burst` pings in one write and reads all answers.
fn fill(probe: &mut Probe<'_>, link: &mut Link, burst: usize) -> Result<Passed, Stop> {
    let mut bytes = Vec::new();
    for _ in 0..burst {
        let (header, _) = probe.ping_header(SINK_MAX);
        bytes.extend(link.message(KsockHeader::LNET, &header, &[])?);
    }
    link.send(&bytes);
    let mut back = 0;
    for answered in 0..burst {
        let reply = link.reply().map_err(|stop| {
            Stop::failed(format!("{answered} answers came, then {}", reason(stop)))
        })?;
        back += KsockHeader::LEN + reply.header_bytes.len() + reply.payload.len();
    }
    let there = bytes.len();
    Ok(Passed { there, back })
}

fn so_far(Passed { there, back }: Passed) -> String {
    format!("{there} bytes at once to the node and {back} back pass")
}

fn segments(figures: Option<TcpFigures>) -> String {
    figures.map_or_else(String::new, |figures| {
        format!(
            "; segments of {} to the node and {} back, path MTU {}",
            figures.sent_mss, figures.received_mss, figures.path_mtu
        )
    })
}

/// The direction in which data is lost, as far as this side can tell.
fn direction(figures: Option<TcpFigures>) -> String {
    figures.map_or_else(String::new, |figures| {
        let where_lost = if figures.unacknowledged > 0 {
            "the sent data is not acknowledged: the path to the node loses it"
        } else {
            "all sent data is acknowledged: the node or the path back loses it"
        };
        format!(
            "; {where_lost} (segments of {}, path MTU {}, resent {})",
            figures.sent_mss, figures.path_mtu, figures.resent
        )
    })
}

fn check_figures(figures: TcpFigures, nid: Nid, diagnosis: &mut Diagnosis) {
    let TcpFigures {
        sent_mss,
        advertised_mss,
        path_mtu,
        resent,
        ..
    } = figures;
    if resent > 0 {
        let seen = format!("{resent} segments to {nid} were retransmitted");
        diagnosis.found(&catalogue::SEGMENTS_RESENT, seen);
    }
    // The size of the IP and TCP headers, which the advertised segment size excludes.
    let headers = if nid.is_large() { 60 } else { 40 };
    let own = advertised_mss + headers;
    if own > MTU_MAX {
        return;
    }
    if path_mtu < own {
        let seen = format!("the MTU is {own} here and {path_mtu} on the path");
        diagnosis.found(&catalogue::MTU_SHRINKS, seen);
    } else if sent_mss + OPTIONS_MAX < advertised_mss {
        let seen =
            format!("{nid} accepts segments of {sent_mss} bytes, but {advertised_mss} would fit");
        diagnosis.found(&catalogue::MTU_DIFFERS, seen);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const ETHERNET: TcpFigures = TcpFigures {
        sent_mss: 1448,
        received_mss: 1448,
        advertised_mss: 1460,
        path_mtu: 1500,
        unacknowledged: 0,
        resent: 0,
    };

    fn found(figures: TcpFigures) -> Vec<&'static str> {
        let mut diagnosis = Diagnosis::default();
        check_figures(figures, "10.0.0.1@tcp".parse().unwrap(), &mut diagnosis);
        let names = diagnosis.findings.iter().map(|finding| finding.kind.name);
        names.collect()
    }

    #[test]
    fn segments_tell_what_is_wrong_with_a_path() {
        assert_eq!(found(ETHERNET), [""; 0]);
        let loopback = TcpFigures {
            sent_mss: 32_741,
            advertised_mss: 65_483,
            path_mtu: 65_535,
            ..ETHERNET
        };
        assert_eq!(found(loopback), [""; 0]);
        let jumbo = TcpFigures {
            advertised_mss: 8960,
            path_mtu: 9000,
            ..ETHERNET
        };
        assert_eq!(found(jumbo), ["mtu-differs"]);
        let tunnel = TcpFigures {
            sent_mss: 1348,
            path_mtu: 1400,
            ..ETHERNET
        };
        assert_eq!(found(tunnel), ["mtu-shrinks"]);
        let lossy = TcpFigures {
            resent: 2,
            ..ETHERNET
        };
        assert_eq!(found(lossy), ["segments-resent"]);
    }

    #[test]
    fn a_stall_names_the_direction_as_far_as_it_is_known() {
        let stuck = TcpFigures {
            unacknowledged: 3,
            ..ETHERNET
        };
        assert!(direction(Some(stuck)).contains("the path to the node"));
        assert!(direction(Some(ETHERNET)).contains("the path back"));
        assert_eq!(direction(None), "");
    }
}
