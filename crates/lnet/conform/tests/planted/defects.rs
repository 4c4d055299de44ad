//! The planted defects: the wrong behaviour of the node, and the checks that must fail.

use crate::proxy::{Defect, Place, Unit};

/// A node that sends something wrong.
pub(crate) const fn says(
    name: &'static str,
    fails: &'static [&'static str],
    said: fn(Unit, Place, &mut Vec<u8>),
) -> Defect {
    Defect {
        name,
        fails,
        said,
        heard: |_| {},
        ends: |_, _| true,
        hears_end: true,
    }
}

/// A node that misreads its input.
const fn hears(
    name: &'static str,
    fails: &'static [&'static str],
    heard: fn(&mut Vec<u8>),
) -> Defect {
    Defect {
        heard,
        ..says(name, fails, |_, _, _| {})
    }
}

/// A node that keeps connections open.
const fn keeps(
    name: &'static str,
    fails: &'static [&'static str],
    ends: fn(Unit, Place) -> bool,
) -> Defect {
    Defect {
        ends,
        ..says(name, fails, |_, _, _| {})
    }
}

/// Not a defect: the behaviour of kernels with connections from unprivileged ports.
pub(crate) const OTHER_PROCESS_ON_BULK_OUT: Defect =
    hears("another process a connection", &[], |bytes| {
        in_hello(bytes, |hello| {
            if u32_at(hello, 48) == 3 {
                hello[24] ^= 1;
            }
        });
    });

pub(crate) const HANDSHAKES: &[Defect] = &[
    says(
        "answers in another version",
        &["hello-version"],
        |unit, _, bytes| {
            if unit == Unit::Hello && u32_at(bytes, 48) != NONE {
                bytes[4] = 2;
            }
        },
    ),
    says(
        "answers big-endian",
        &["hello-order", "hello-big-endian"],
        |unit, _, bytes| {
            if unit == Unit::Hello {
                turn(bytes, &[4, 4, 8, 8, 4, 4, 8, 8, 4, 4]);
            }
        },
    ),
    says(
        "says that it has another NID",
        &["hello-source"],
        |unit, _, bytes| {
            if unit == Unit::Hello && u32_at(bytes, 48) != NONE {
                bytes[8] ^= 1;
            }
        },
    ),
    says(
        "says that it is another process",
        &["hello-source"],
        |unit, _, bytes| {
            if unit == Unit::Hello {
                bytes[24] ^= 1;
            }
        },
    ),
    says(
        "does not echo the process",
        &["hello-echo"],
        |unit, _, bytes| {
            if unit == Unit::Hello {
                bytes[28] = 0;
            }
        },
    ),
    says(
        "does not echo the incarnation",
        &["hello-echo"],
        |unit, _, bytes| {
            if unit == Unit::Hello {
                bytes[40] = 0;
            }
        },
    ),
    says(
        "has an incarnation a connection",
        &["incarnation"],
        |unit, place, bytes| {
            if unit == Unit::Hello {
                bytes[36] = place.connection as u8;
            }
        },
    ),
    says(
        "does not invert bulk types",
        &["type-bulk-in", "type-bulk-out"],
        |unit, _, bytes| {
            if unit == Unit::Hello && u32_at(bytes, 48) != NONE {
                bytes[48] = [0, 1, 3, 2][bytes[48] as usize];
            }
        },
    ),
    says(
        "answers CONTROL with ANY",
        &["type-control"],
        |unit, _, bytes| {
            if unit == Unit::Hello && bytes[48] == 1 {
                bytes[48] = 0;
            }
        },
    ),
    hears(
        "does not know version 2",
        &["hello-v2", "frame-checksum"],
        |bytes| {
            in_hello(bytes, |hello| {
                if hello[4] == 2 {
                    hello[4] = 77;
                }
            });
        },
    ),
    hears("takes 15 addresses", &["hello-addresses"], |bytes| {
        in_hello(bytes, |hello| {
            if hello[52] == 16 {
                hello[52] = 17;
            }
        });
    }),
    hears(
        "wants to be the destination",
        &["hello-destination"],
        |bytes| {
            in_hello(bytes, |hello| {
                if hello[8..16] == hello[16..24] {
                    hello[0] ^= 1;
                }
            });
        },
    ),
    hears(
        "knows no other byte order",
        &["hello-big-endian"],
        |bytes| {
            if bytes.len() > 17 && bytes[16..18] == [0x45, 0x72] {
                bytes[16] = 0;
            }
        },
    ),
    hears(
        "wants a handshake in one piece",
        &["hello-pieces"],
        |bytes| {
            if bytes.len() < 16 && !bytes.starts_with(b"cirE") {
                bytes.clear();
            }
        },
    ),
    hears(
        "closes on a request of version 2",
        &["request-v2"],
        |bytes| {
            if bytes.len() > 28 && bytes[..8] == [0, 0x71, 0xCE, 0xAC, 2, 0, 0, 0] {
                bytes[0] = 1;
            }
        },
    ),
];

/// Checks that expect a close without an answer.
const SILENT: &[&str] = &[
    "request-junk",
    "request-other-nid",
    "request-loopback",
    "hello-magic",
    "hello-17-addresses",
    "hello-zero-address",
    "hello-any",
    "hello-type",
    "request-silent",
    "hello-short",
];

pub(crate) const REJECTIONS: &[Defect] = &[
    says(
        "does not say that it rejects a request",
        &["request-lnet-magic", "request-version"],
        |unit, _, bytes| {
            if unit == Unit::Rejection {
                bytes.clear();
            }
        },
    ),
    says(
        "does not say that it rejects a version",
        &["hello-version-unknown", "dial-crossing"],
        |unit, _, bytes| {
            if unit == Unit::Hello && u32_at(bytes, 48) == NONE {
                bytes.clear();
            }
        },
    ),
    says(
        "rejects a version with a type",
        &["hello-version-unknown", "dial-crossing"],
        |unit, _, bytes| {
            if unit == Unit::Hello && u32_at(bytes, 48) == NONE {
                bytes[48..52].copy_from_slice(&[1, 0, 0, 0]);
            }
        },
    ),
    says("gives reasons", SILENT, |unit, _, bytes| {
        if unit == Unit::SilentEnd {
            bytes.extend(*b"no such interface");
        }
    }),
    keeps("keeps what it rejects", SILENT, |unit, _| {
        unit != Unit::SilentEnd
    }),
];

pub(crate) const FRAMES: &[Defect] = &[
    says("sends checksums", &["frame-fields"], |unit, _, bytes| {
        if unit == Unit::Message {
            bytes[4] = 1;
        }
    }),
    says(
        "asks for acknowledgements of small messages",
        &["frame-fields"],
        |unit, _, bytes| {
            if unit == Unit::Message {
                bytes[8] = 9;
            }
        },
    ),
    says(
        "acknowledges what did not ask",
        &["frame-fields"],
        |unit, _, bytes| {
            if unit == Unit::Message {
                bytes[16] = 9;
            }
        },
    ),
    hears("does not know keepalives", &["frame-noop"], |bytes| {
        in_frame(bytes, 0xC0, |frame| {
            if frame[8..24] == [0, 0, 0, 0, 0, 0, 0, 0, 1, 0, 0, 0, 0, 0, 0, 0] {
                frame[0] = 0xC3;
            }
        });
    }),
    hears(
        "passes over undefined frames",
        &["frame-type", "siblings-error"],
        |bytes| {
            if bytes.first() == Some(&0xC2) {
                bytes.clear();
            }
        },
    ),
    hears("does not look at checksums", &["frame-checksum"], |bytes| {
        in_frame(bytes, 0xC0, |frame| frame[4..8].fill(0));
    }),
    hears(
        "passes over unknown acknowledgements",
        &["frame-ack-unknown"],
        |bytes| {
            in_frame(bytes, 0xC0, |frame| {
                if frame[16] == 77 {
                    frame[16] = 0;
                }
            });
        },
    ),
    hears(
        "passes over a second cookie",
        &["frame-ack-keepalive"],
        |bytes| {
            in_frame(bytes, 0xC0, |frame| {
                if frame[8] == 77 {
                    frame[8] = 0;
                }
            });
        },
    ),
    Defect {
        hears_end: false,
        ..says(
            "waits for the rest of a frame",
            &["frame-cut", "siblings-end"],
            |_, _, _| {},
        )
    },
    says("acknowledges twice", &["zero-copy"], |unit, _, bytes| {
        if unit == Unit::Noop && bytes[16] > 1 {
            bytes.extend_from_within(..);
        }
    }),
    says("does not acknowledge", &["zero-copy"], |unit, _, bytes| {
        if unit == Unit::Noop && bytes[16] > 1 {
            bytes.clear();
        }
    }),
    keeps(
        "keeps siblings",
        &[
            "message-too-long",
            "siblings-error",
            "siblings-end",
            "restart",
        ],
        |_, place| place.ctype != BULK_IN,
    ),
];

pub(crate) const MESSAGES: &[Defect] = &[
    says("changes handles", &["reply-handle"], |unit, _, bytes| {
        if is_message(unit, bytes, REPLY) {
            bytes[71] ^= 0x40;
        }
    }),
    says("answers twice", &["reply-once"], |unit, _, bytes| {
        if is_message(unit, bytes, REPLY) {
            bytes.extend_from_within(..);
        }
    }),
    says(
        "answers from another NID",
        &["reply-addresses"],
        |unit, _, bytes| {
            if is_message(unit, bytes, REPLY) {
                bytes[32] ^= 1;
            }
        },
    ),
    says(
        "answers another process",
        &["reply-addresses"],
        |unit, _, bytes| {
            if is_message(unit, bytes, REPLY) {
                bytes[40] ^= 1;
            }
        },
    ),
    says(
        "leaves bytes uncleared",
        &["reply-reserved"],
        |unit, _, bytes| {
            if is_message(unit, bytes, REPLY) {
                bytes[90] = 1;
            }
        },
    ),
    hears(
        "passes over undefined messages",
        &["message-type"],
        |bytes| {
            swallow_message(bytes, |frame| frame[48] == 7);
        },
    ),
    hears("passes over HELLO messages", &["message-hello"], |bytes| {
        swallow_message(bytes, |frame| frame[48] == 4);
    }),
    hears(
        "ignores the payload of a GET",
        &["message-get-payload"],
        |bytes| {
            swallow_message(bytes, |frame| frame[48] == GET && frame[52] != 0);
        },
    ),
    hears("takes longer messages", &["message-too-long"], |bytes| {
        swallow_message(bytes, |frame| frame[54] == 0x10 && frame[52] == 1);
    }),
    hears(
        "passes over messages for neighbours",
        &["destination-same-net"],
        |bytes| {
            swallow_message(bytes, |frame| frame[24..32] == frame[32..40]);
        },
    ),
    hears(
        "answers for others",
        &["destination-foreign-net"],
        |bytes| {
            in_message(bytes, |frame| {
                if frame[28..30] == [0xFE, 0xFF] {
                    frame[24..32].copy_from_slice(&[2, 0, 0, 127, 0, 0, 2, 0]);
                }
            });
        },
    ),
    hears("acknowledges what it drops", &["put-no-match"], |bytes| {
        in_message(bytes, |frame| {
            if frame[48] == PUT && frame[88] == 63 && frame[56..72] != [0xFF; 16] {
                frame[88] = 0;
            }
        });
    }),
    hears(
        "counts portals modulo 64",
        &["put-portal", "get-portal"],
        |bytes| {
            in_message(bytes, |frame| {
                let at = if frame[48] == PUT { 88 } else { 80 };
                if frame[at] == 64 {
                    frame[at] = 0;
                }
            });
        },
    ),
    hears("closes on an unknown ACK", &["ack-unknown"], |bytes| {
        in_message(bytes, |frame| {
            if frame[48] == ACK {
                frame[48] = 7;
            }
        });
    }),
    hears("closes on an unknown REPLY", &["reply-unknown"], |bytes| {
        in_message(bytes, |frame| {
            if frame[48] == REPLY {
                frame[48] = 7;
            }
        });
    }),
];

pub(crate) const PINGS: &[Defect] = &[
    says(
        "has another magic number in its info",
        &[
            "ping-valid",
            "ping-size",
            "ping-nid",
            "ping-pid",
            "ping-status",
            "ping-features",
            "ping-sequence",
        ],
        |unit, _, bytes| in_info(unit, bytes, |info| info[0] ^= 1),
    ),
    says("gives no status", &["ping-valid"], |unit, _, bytes| {
        in_info(unit, bytes, |info| info[4] &= !2);
    }),
    says(
        "does not begin with 0@lo",
        &["ping-valid"],
        |unit, _, bytes| {
            in_info(unit, bytes, |info| info[22] = 2);
        },
    ),
    says(
        "does not name the NID that is asked",
        &["ping-nid"],
        |unit, _, bytes| {
            in_info(unit, bytes, |info| {
                if let Some(address) = info.get_mut(32) {
                    *address ^= 0x80;
                }
            });
        },
    ),
    says(
        "names another process in its info",
        &["ping-pid"],
        |unit, _, bytes| {
            in_info(unit, bytes, |info| info[8] ^= 1);
        },
    ),
    says("invents a status", &["ping-status"], |unit, _, bytes| {
        in_info(unit, bytes, |info| {
            if let Some(status) = info.get_mut(40) {
                *status ^= 1;
            }
        });
    }),
    says("sets BASE", &["ping-features"], |unit, _, bytes| {
        in_info(unit, bytes, |info| info[4] |= 1);
    }),
    says(
        "has discovery without Multi-Rail",
        &["ping-features"],
        |unit, _, bytes| {
            in_info(unit, bytes, |info| info[4] &= !8);
        },
    ),
    says(
        "sends more than its info",
        &["ping-size", "ping-cut"],
        |unit, _, bytes| {
            if is_message(unit, bytes, REPLY) {
                bytes[52] += 16;
                bytes.extend([0; 16]);
            }
        },
    ),
    hears("does not look at the room", &["ping-cut"], |bytes| {
        in_message(bytes, |frame| {
            if frame[48] == GET && frame[88..90] == [32, 0] {
                frame[88] = 255;
            }
        });
    }),
    hears("answers with nothing", &["ping-reply"], |bytes| {
        in_message(bytes, |frame| {
            if frame[48] == GET && frame[88..90] == [0x10, 1] {
                frame[88..90].fill(0);
            }
        });
    }),
    says("counts from 0", &["ping-sequence"], |unit, _, bytes| {
        in_info(unit, bytes, |info| info[24..28].fill(0));
    }),
    says("counts down", &["ping-sequence"], |unit, place, bytes| {
        in_info(unit, bytes, |info| {
            info[25] = 0xFF - place.connection as u8 % 0xFF
        });
    }),
    hears("does not look at match bits", &["ping-bits"], |bytes| {
        in_message(bytes, |frame| {
            if frame[48] == GET && frame[72] == 0x5A {
                frame[72..80].copy_from_slice(&[0, 0, 0, 0, 0, 0, 0, 0x80]);
            }
        });
    }),
    says(
        "does not acknowledge pushes",
        &["push-ack", "push-again", "push-malformed"],
        |unit, _, bytes| {
            if is_message(unit, bytes, ACK) {
                bytes.clear();
            }
        },
    ),
    says(
        "accepts nothing of a push",
        &["push-ack", "push-again", "push-malformed"],
        |unit, _, bytes| {
            if is_message(unit, bytes, ACK) {
                bytes[80] = 0;
            }
        },
    ),
    says("takes one push", &["push-again"], |unit, place, bytes| {
        if is_message(unit, bytes, ACK) && place.message == 1 {
            bytes.clear();
        }
    }),
    hears(
        "acknowledges what wants no ACK",
        &["push-no-ack"],
        |bytes| {
            in_message(bytes, |frame| {
                if frame[48] == PUT && frame[88] == 0 && frame[56..72] == [0xFF; 16] {
                    frame[56] = 1;
                }
            });
        },
    ),
    hears("closes on a malformed push", &["push-malformed"], |bytes| {
        in_message(bytes, |frame| {
            if frame[48] == PUT && frame[88] == 0 && frame.get(96) == Some(&(0x67 ^ 0xFF)) {
                frame[48] = 7;
            }
        });
    }),
];

const NONE: u32 = u32::MAX;
const BULK_IN: u32 = 2;
const ACK: u8 = 0;
const PUT: u8 = 1;
const GET: u8 = 2;
const REPLY: u8 = 3;

fn u32_at(bytes: &[u8], at: usize) -> u32 {
    u32::from_le_bytes(bytes[at..at + 4].try_into().unwrap())
}

fn is_message(unit: Unit, bytes: &[u8], kind: u8) -> bool {
    unit == Unit::Message && bytes[48] == kind
}

/// Changes the ping info of a REPLY that contains at least its first entry.
fn in_info(unit: Unit, bytes: &mut [u8], alter: impl Fn(&mut [u8])) {
    let is_info = is_message(unit, bytes, REPLY) && bytes.len() >= 96 + 32;
    if is_info {
        alter(&mut bytes[96..]);
    }
}

/// Changes a little-endian HELLO after a request of version 1.
fn in_hello(bytes: &mut [u8], alter: fn(&mut [u8])) {
    if bytes.len() >= 16 + 56 && bytes[16..20] == [0x63, 0x69, 0x72, 0x45] {
        alter(&mut bytes[16..]);
    }
}

/// Changes a frame of this type at the beginning of the input.
fn in_frame(bytes: &mut [u8], kind: u8, alter: fn(&mut [u8])) {
    if bytes.len() >= 24 && bytes[..4] == [kind, 0, 0, 0] {
        alter(bytes);
    }
}

/// Changes a message at the beginning of the input.
fn in_message(bytes: &mut [u8], alter: fn(&mut [u8])) {
    if bytes.len() >= 96 {
        in_frame(bytes, 0xC1, alter);
    }
}

/// Removes a message.
fn swallow_message(bytes: &mut Vec<u8>, unwanted: fn(&[u8]) -> bool) {
    if bytes.len() >= 96 && bytes[0] == 0xC1 && unwanted(bytes) {
        bytes.clear();
    }
}

fn turn(bytes: &mut [u8], widths: &[usize]) {
    let mut rest = bytes;
    for &width in widths {
        let (field, behind) = rest.split_at_mut(width);
        field.reverse();
        rest = behind;
    }
}
