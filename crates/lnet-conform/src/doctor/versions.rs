//! Which releases fit what the node understands. No release says its number on the wire.

use lnet_wire::{Connreq, ConnreqVersion, Ctype, HelloVersion, PingFeatures};

use super::Diagnosis;
use super::ping::Answers;
use crate::meeting::Meeting;
use crate::probe::{hello_of, request_of};

pub(super) fn versions(meeting: &Meeting, answers: Option<&Answers>, diagnosis: &mut Diagnosis) {
    let request = reads_request_2(meeting);
    // 2.15 reads the request and not the HELLO; older ones need not be asked.
    let hello = request && reads_hello_4(meeting);
    let features = answers.map_or(PingFeatures::empty(), |answers| answers.features);
    let seen = format!(
        "connection request {}, HELLO {}, features {:#04x}: {}",
        if request { 2 } else { 1 },
        if hello { 4 } else { 3 },
        features.bits(),
        fitting(request, hello, features)
    );
    diagnosis.saw("release", seen);
}

/// The releases that behave so (sections 6.4 and 17).
const fn fitting(request: bool, hello: bool, features: PingFeatures) -> &'static str {
    if features.contains(PingFeatures::METADATA) {
        "fits 2.17 or later"
    } else if hello {
        "fits 2.16 or later, or Finerail"
    } else if request {
        "fits 2.15"
    } else {
        "fits 2.14 or earlier"
    }
}

/// Requests with large NIDs are read from 2.15 on.
fn reads_request_2(meeting: &Meeting) -> bool {
    let mut probe = meeting.probe();
    let ours = probe.hello(Ctype::CONTROL);
    let Ok(mut link) = probe.connect() else {
        return false;
    };
    let request = Connreq {
        version: ConnreqVersion::V2,
        target: probe.nid(),
    };
    link.send(&[request_of(&request), hello_of(&ours)].concat());
    link.hello().is_ok()
}

/// HELLOs with large NIDs are read from 2.16 on.
fn reads_hello_4(meeting: &Meeting) -> bool {
    let mut probe = meeting.probe();
    let mut ours = probe.hello(Ctype::CONTROL);
    ours.version = HelloVersion::V4;
    let met = probe.meet(&ours);
    met.is_ok_and(|(_, heard)| heard.hello.version == HelloVersion::V4)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_generation_is_told_by_what_it_reads() {
        let of = |request, hello, features| {
            fitting(request, hello, PingFeatures::from_bits_retain(features))
        };
        assert_eq!(of(false, false, 0x1E), "fits 2.14 or earlier");
        assert_eq!(of(true, false, 0x1E), "fits 2.15");
        assert_eq!(of(true, true, 0x1E), "fits 2.16 or later, or Finerail");
        assert_eq!(of(true, true, 0x9E), "fits 2.17 or later");
    }
}
