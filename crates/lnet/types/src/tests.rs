//! Text and wire forms of networks, NIDs and process ids.

use std::net::IpAddr;

use proptest::prelude::*;

use crate::{LndType, Net, Nid, ParseNetError, ParseNidError, ParseProcessIdError, ProcessId};

fn nid(text: &str) -> Nid {
    text.parse().unwrap()
}

/// Every value of the type: known and unknown LND types, both sizes, the wildcard.
fn any_nid() -> impl Strategy<Value = Nid> {
    let net = (0..=254u8, any::<u16>()).prop_map(|(lnd, number)| match LndType(lnd) {
        LndType::LO => Net::LO,
        lnd => Net::new(lnd, number),
    });
    prop_oneof![
        10 => (net.clone(), any::<u32>()).prop_map(|(net, address)| Nid::from_number(net, address)),
        10 => (net, any::<u128>())
            .prop_map(|(net, address)| Nid::from_ip(net, IpAddr::V6(address.into()))),
        1 => Just(Nid::ANY),
    ]
}

#[test]
fn nid4_is_type_number_and_address() {
    for (text, value) in [
        ("192.168.1.10@tcp", 0x0002_0000_C0A8_010A),
        ("10.0.0.1@tcp5", 0x0002_0005_0A00_0001),
        ("0@lo", 0x0009_0000_0000_0000),
    ] {
        assert_eq!(nid(text).to_nid4(), Some(value), "{text}");
        assert_eq!(Nid::from_nid4(value), Some(nid(text)), "{text}");
    }
}

#[test]
fn ipv6_nid_has_the_bytes_of_the_example() {
    let mut bytes = [0; 20];
    (bytes[0], bytes[1], bytes[4], bytes[19]) = (12, 2, 0xFD, 1);
    assert_eq!(nid("fd00::1@tcp").to_wire(), bytes);
    assert_eq!(Nid::from_wire(bytes), Some(nid("fd00::1@tcp")));
}

#[test]
fn large_nid_has_no_nid4_form() {
    assert_eq!(nid("fd00::1@tcp").to_nid4(), None);
}

#[test]
fn sizes_other_than_0_and_12_are_rejected() {
    for size in (1..=255u8).filter(|&size| size != 12) {
        let mut bytes = nid("10.0.0.1@tcp").to_wire();
        bytes[0] = size;
        assert_eq!(Nid::from_wire(bytes), None, "size {size}");
    }
}

#[test]
fn padding_behind_a_small_address_must_be_zero() {
    let mut bytes = nid("10.0.0.1@tcp").to_wire();
    bytes[19] = 1;
    assert_eq!(Nid::from_wire(bytes), None);
}

// [LARGE-5] [TYPE-2]
#[test]
fn type_byte_ff_is_the_wildcard_in_every_form() {
    let mut bytes = [0; 20];
    bytes[1] = 0xFF;
    assert_eq!(Nid::from_wire(bytes), Some(Nid::ANY));
    assert_eq!(Nid::from_nid4(0x00FF_0000_0000_0000), Some(Nid::ANY));
    assert_eq!(Nid::from_nid4(u64::MAX), Some(Nid::ANY));
    assert_eq!(Nid::from_number(Net::new(LndType::ANY, 0), 7), Nid::ANY);
    assert_eq!(Nid::from_ip(Net::ANY, "::1".parse().unwrap()), Nid::ANY);
}

#[test]
fn nid4_with_a_non_zero_top_byte_is_rejected() {
    assert_eq!(Nid::from_nid4(0x0102_0000_0A00_0001), None);
}

#[test]
fn number_zero_is_not_printed() {
    assert_eq!("tcp0".parse::<Net>().unwrap(), Net::tcp(0));
    assert_eq!(Net::tcp(0).to_string(), "tcp");
    assert_eq!(Net::tcp(7).to_string(), "tcp7");
}

#[test]
fn the_longest_type_name_wins() {
    assert_eq!("ptlf3".parse::<Net>().unwrap(), Net::new(LndType(15), 3));
    assert_eq!("ptl3".parse::<Net>().unwrap(), Net::new(LndType(4), 3));
}

#[test]
fn unknown_types_print_in_angle_brackets_and_parse_back() {
    assert_eq!(Net::new(LndType(23), 5).to_string(), "<23>5");
    assert_eq!("<23>5".parse::<Net>().unwrap(), Net::new(LndType(23), 5));
    assert_eq!(nid("77@<23>5").to_string(), "77@<23>5");
}

#[test]
fn texts_that_are_not_networks_are_rejected_with_the_reason() {
    for text in ["", "foo", "TCP", "<255>", "<256>", "<tcp>", "<23"] {
        let error = text.parse::<Net>().unwrap_err();
        assert!(
            matches!(error, ParseNetError::UnknownType(_)),
            "{text}: {error}"
        );
    }
    for text in ["tcp65536", "tcpx", "tcp-1", "tcp+1", "tcp 1", "o2ib1.5"] {
        let error = text.parse::<Net>().unwrap_err();
        assert!(
            matches!(error, ParseNetError::BadNumber(_)),
            "{text}: {error}"
        );
    }
    assert_eq!("lo1".parse::<Net>(), Err(ParseNetError::NumberedLoopback));
}

#[test]
fn texts_that_are_not_nids_are_rejected_with_the_reason() {
    for text in [
        "10.0.0@tcp",
        "10.0.0.256@tcp",
        "7@tcp",
        "10.0.0.1@gni",
        "fd00::g@tcp",
        "@tcp",
        "+1@gni",
    ] {
        let error = text.parse::<Nid>().unwrap_err();
        assert!(
            matches!(error, ParseNidError::BadAddress { .. }),
            "{text}: {error}"
        );
    }
    assert!(matches!(
        "10.0.0.1".parse::<Nid>(),
        Err(ParseNidError::MissingAt(_))
    ));
    assert!(matches!(
        "10.0.0.1@*".parse::<Nid>(),
        Err(ParseNidError::AddressOnAnyNet(_))
    ));
}

#[test]
fn texts_that_are_not_processes_are_rejected_with_the_reason() {
    let parse = |text: &str| text.parse::<ProcessId>().unwrap_err();
    assert!(matches!(
        parse("10.0.0.1@tcp"),
        ParseProcessIdError::MissingDash(_)
    ));
    assert!(matches!(
        parse("x-10.0.0.1@tcp"),
        ParseProcessIdError::BadPid(_)
    ));
    assert!(matches!(
        parse("+1-10.0.0.1@tcp"),
        ParseProcessIdError::BadPid(_)
    ));
    assert!(matches!(parse("-0@lo"), ParseProcessIdError::BadPid(_)));
    assert!(matches!(parse("12345-tcp"), ParseProcessIdError::Nid(_)));
}

proptest! {
    #[test]
    fn nid_text_round_trips(nid in any_nid()) {
        prop_assert_eq!(nid.to_string().parse::<Nid>().unwrap(), nid);
    }

    #[test]
    fn net_text_round_trips(nid in any_nid()) {
        prop_assert_eq!(nid.net().to_string().parse::<Net>().unwrap(), nid.net());
    }

    #[test]
    fn process_text_round_trips(nid in any_nid(), pid in any::<u32>()) {
        let process = ProcessId { nid, pid };
        prop_assert_eq!(process.to_string().parse::<ProcessId>().unwrap(), process);
    }

    #[test]
    fn wire_form_round_trips(nid in any_nid()) {
        prop_assert_eq!(Nid::from_wire(nid.to_wire()), Some(nid));
    }

    #[test]
    fn whatever_is_taken_from_the_wire_is_canonical(bytes in any::<[u8; 20]>()) {
        if let Some(nid) = Nid::from_wire(bytes) {
            prop_assert!(nid.to_wire() == bytes || nid == Nid::ANY);
        }
    }

    #[test]
    fn nid4_round_trips_where_it_exists(nid in any_nid()) {
        match nid.to_nid4() {
            Some(value) => prop_assert_eq!(Nid::from_nid4(value), Some(nid)),
            None => prop_assert!(nid.is_large()),
        }
    }

    #[test]
    fn order_is_the_order_of_the_wire_bytes(a in any_nid(), b in any_nid()) {
        prop_assert_eq!(a.cmp(&b), a.to_wire().cmp(&b.to_wire()));
    }

    #[test]
    fn order_of_small_nids_is_the_order_of_their_numbers(a in any_nid(), b in any_nid()) {
        if let (Some(x), Some(y)) = (a.to_nid4(), b.to_nid4()) {
            prop_assert_eq!(a.cmp(&b), x.cmp(&y));
        }
    }

    #[test]
    fn no_text_makes_the_parsers_panic(text in ".{0,40}") {
        let _ = (text.parse::<Nid>(), text.parse::<Net>(), text.parse::<ProcessId>());
    }
}
