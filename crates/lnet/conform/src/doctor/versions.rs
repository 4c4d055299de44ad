//! Determines which releases fit the node's behaviour, because no release sends its version.

use lnet_wire::{Connreq, ConnreqVersion, Ctype, HelloVersion, PingFeatures};

use super::Diagnosis;
use super::ping::Answers;
use crate::node::NodeUnderTest;
use crate::probe::{hello_of, request_of};

pub(super) fn versions(node: &NodeUnderTest, answers: Option<&Answers>, diagnosis: &mut Diagnosis) {
    let request = reads_request_2(node);
    // 2.15 reads the request and not the HELLO; older releases read neither.
    let hello = request && reads_hello_4(node);
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

/// The releases with this behaviour.
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

/// Releases from 2.15 on read requests with large NIDs.
fn reads_request_2(node: &NodeUnderTest) -> bool {
    let mut probe = node.probe();
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

/// Releases from 2.16 on read HELLOs with large NIDs.
fn reads_hello_4(node: &NodeUnderTest) -> bool {
    let mut probe = node.probe();
    let mut ours = probe.hello(Ctype::CONTROL);
    ours.version = HelloVersion::V4;
    let answer = probe.handshake(&ours);
    answer.is_ok_and(|(_, heard)| heard.hello.version == HelloVersion::V4)
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
