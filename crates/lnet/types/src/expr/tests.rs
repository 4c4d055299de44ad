//! Expressions: the tables of the grammar, and agreement of match, expand, print and parse.

use std::net::IpAddr;

use proptest::prelude::*;

use super::{AddressExpr, Descriptor, NetExpr, NidExpr, NidList, NumberExpr, ParseExprError};
use crate::{LndType, Net, Nid};

fn net(text: &str) -> NetExpr {
    text.parse().unwrap()
}

fn nid(text: &str) -> NidExpr {
    text.parse().unwrap()
}

fn rejection<T: std::str::FromStr<Err = ParseExprError>>(text: &str) -> String {
    text.parse::<T>().err().unwrap().to_string()
}

fn expand(text: &str, limit: usize) -> Vec<String> {
    nid(text)
        .expand(limit)
        .unwrap()
        .iter()
        .map(Nid::to_string)
        .collect()
}

#[test]
fn bare_name_is_number_zero_but_not_equal_to_it() {
    for text in ["tcp", "tcp0"] {
        assert!(net(text).matches(Net::tcp(0)));
        assert!(!net(text).matches(Net::tcp(1)));
        assert_eq!(net(text).to_string(), text);
    }
    assert_ne!(net("tcp"), net("tcp0"));
}

#[test]
fn star_covers_every_network_of_one_type() {
    assert!(net("tcp*").matches(Net::tcp(0)));
    assert!(net("tcp*").matches(Net::tcp(65535)));
    assert!(!net("tcp*").matches("o2ib".parse().unwrap()));
    assert!(!net("tcp*").matches(Net::ANY));
}

#[test]
fn every_type_name_takes_numbers_except_loopback() {
    for name in [
        "elan", "tcp", "gm", "ptl", "o2ib", "cib", "openib", "iib", "ra", "vib", "mx", "gni",
        "gip", "ptlf", "kfi", "tofu", "efa", "bxi3f", "<77>",
    ] {
        let expr = net(&format!("{name}[1-5]"));
        assert!(expr.matches(format!("{name}3").parse().unwrap()), "{name}");
    }
    assert!(net("lo").matches(Net::LO));
    for text in ["lo0", "lo*", "lo[0-1]"] {
        assert_eq!(
            rejection::<NetExpr>(text),
            "the loopback network takes no number; write lo (at character 3)"
        );
    }
}

#[test]
fn the_type_decides_the_form_of_the_address() {
    for name in ["tcp", "o2ib", "gip", "efa"] {
        assert!(
            format!("*.*.*.*@{name}").parse::<NidExpr>().is_ok(),
            "{name}"
        );
        assert!(format!("*@{name}").parse::<NidExpr>().is_err(), "{name}");
    }
    for name in ["gni", "ptlf", "kfi", "bxi3f", "lo"] {
        assert!(format!("*@{name}").parse::<NidExpr>().is_ok(), "{name}");
        assert!(
            format!("*.*.*.*@{name}").parse::<NidExpr>().is_err(),
            "{name}"
        );
    }
}

#[test]
fn expressions_are_built_from_parts_only_where_a_text_could_say_them() {
    let numbers = |max| NumberExpr::any(max);
    let quad = |max| AddressExpr::Quad(std::array::from_fn(|_| numbers(max)));
    let number = AddressExpr::Number(numbers(NumberExpr::ADDRESS_MAX));
    let tcp = NetExpr::new(LndType::TCP, Some(numbers(NumberExpr::NET_MAX))).unwrap();
    assert_eq!(tcp, net("tcp*"));
    assert_eq!(NetExpr::new(LndType::TCP, Some(numbers(255))), None);
    assert_eq!(
        NetExpr::new(LndType::LO, Some(numbers(NumberExpr::NET_MAX))),
        None
    );
    assert_eq!(NetExpr::new(LndType::ANY, None), None);
    assert_eq!(
        NidExpr::new(quad(255), tcp.clone()),
        Some(nid("*.*.*.*@tcp*"))
    );
    assert_eq!(NidExpr::new(quad(65535), tcp.clone()), None);
    assert_eq!(NidExpr::new(number.clone(), tcp), None);
    assert_eq!(NidExpr::new(number, net("kfi")), Some(nid("*@kfi")));
    assert_eq!(NidExpr::new(quad(255), net("kfi")), None);
}

#[test]
fn stride_counts_from_the_lower_bound() {
    assert_eq!(
        expand("10.0.0.[1-10/2]@o2ib1", 10),
        [
            "10.0.0.1@o2ib1",
            "10.0.0.3@o2ib1",
            "10.0.0.5@o2ib1",
            "10.0.0.7@o2ib1",
            "10.0.0.9@o2ib1"
        ]
    );
}

#[test]
fn numbers_are_c_literals_with_blanks_behind_them() {
    assert_eq!(nid("0x0a.010.[1 -3 ,5 ].0@tcp"), nid("10.8.[1-3,5].0@tcp"));
    assert_eq!(net("tcp[0-8 /2]"), net("tcp[0-8/2]"));
}

#[test]
fn ipv6_prefix_covers_its_addresses_only() {
    let expr = nid("fd00:1::5/64@tcp");
    assert_eq!(expr.to_string(), "fd00:1::/64@tcp");
    assert!(expr.matches("fd00:1::77@tcp".parse().unwrap()));
    assert!(!expr.matches("fd00:2::77@tcp".parse().unwrap()));
    assert!(!expr.matches("fd00:1::77@tcp1".parse().unwrap()));
    assert!(nid("::/0@tcp").matches("fd00::1@tcp".parse().unwrap()));
}

#[test]
fn small_and_large_addresses_never_match_each_other() {
    assert!(!nid("*.*.*.*@tcp").matches("fd00::1@tcp".parse().unwrap()));
    assert!(!nid("::/0@tcp").matches("10.0.0.1@tcp".parse().unwrap()));
    assert!(!nid("*@gni").matches("fd00::1@gni".parse().unwrap()));
}

#[test]
fn wildcard_nid_is_matched_by_nothing() {
    for text in ["*.*.*.*@tcp*", "*@gni*", "::/0@tcp"] {
        assert!(!nid(text).matches(Nid::ANY), "{text}");
        assert!(!nid(text).address().matches(Nid::ANY), "{text}");
    }
}

#[test]
fn address_patterns_stand_alone() {
    let covers = |pattern: &str, address: &str| {
        let address: IpAddr = address.parse().unwrap();
        pattern.parse::<AddressExpr>().unwrap().matches_ip(address)
    };
    assert!(covers("192.168.[1-2].*", "192.168.2.77"));
    assert!(!covers("192.168.[1-2].*", "192.168.3.77"));
    assert!(covers("fd00::/16", "fd00:1::"));
    assert!(!covers("5", "0.0.0.5"));
}

#[test]
fn descriptor_is_a_net_or_a_nid() {
    assert!(matches!("tcp3".parse(), Ok(Descriptor::Net(_))));
    assert!(matches!("5@gni".parse(), Ok(Descriptor::Nid(_))));
    for text in ["tcp", "kfi", "5@gni", "10.1.0.[2-4/2]@tcp1"] {
        assert_eq!(text.parse::<Descriptor>().unwrap().to_string(), text);
    }
}

#[test]
fn printing_is_canonical() {
    for (written, printed) in [
        ("10.1.0.[0-255]@tcp", "10.1.0.*@tcp"),
        ("[7]@gni", "7@gni"),
        ("[7-7/3]@gni", "7@gni"),
        ("[1,3-5]@gni", "[1,3-5]@gni"),
        ("[*]@gni[0-65535]", "*@gni*"),
        ("[*,3]@gni", "[*,3]@gni"),
        ("0.0.0.0@tcp[1,3]", "0.0.0.0@tcp[1,3]"),
        ("FD00::0/128@tcp", "fd00::@tcp"),
    ] {
        assert_eq!(nid(written).to_string(), printed);
    }
}

#[test]
fn nets_are_rejected_with_the_place_and_what_would_be_right() {
    for (text, message) in [
        (
            "",
            "no network type begins here; write one such as tcp or o2ib (at character 1)",
        ),
        (
            "foo1",
            "no network type begins here; write one such as tcp or o2ib (at character 1)",
        ),
        (
            "tcp65536",
            "65536 is too large; the maximum is 65535 (at character 4)",
        ),
        (
            "tcp*[1-2]",
            "a list cannot follow a number or '*'; write the list alone, such as tcp[2-3] (at character 5)",
        ),
        (
            "tcp1[2-3]",
            "a list cannot follow a number or '*'; write the list alone, such as tcp[2-3] (at character 5)",
        ),
        (
            "tcp[2-1]",
            "the range 2-1 runs backwards; write 1-2 (at character 5)",
        ),
        ("tcp[1-9/0]", "a stride is at least 1 (at character 5)"),
        ("tcp[1-9/x]", "a number belongs here (at character 9)"),
        ("tcp[1-9", "',' or ']' belongs here (at character 8)"),
        ("tcp[]", "a number or '*' belongs here (at character 5)"),
        ("tcp[1,]", "a number or '*' belongs here (at character 7)"),
        ("tcp[1/2]", "',' or ']' belongs here (at character 6)"),
        ("tcp[*-2]", "',' or ']' belongs here (at character 6)"),
        ("tcpx", "a number, '*' or '[' belongs here (at character 4)"),
        (
            "tcp-1",
            "a number, '*' or '[' belongs here (at character 4)",
        ),
        ("tcp1.2", "unexpected text (at character 5)"),
        (
            "tcp08",
            "'08' is not a number; write decimal, 0x and hexadecimal, or 0 and octal digits (at character 4)",
        ),
        (
            "tcp0x",
            "'0x' is not a number; write decimal, 0x and hexadecimal, or 0 and octal digits (at character 4)",
        ),
    ] {
        assert_eq!(rejection::<NetExpr>(text), message, "{text}");
    }
}

#[test]
fn nids_are_rejected_with_the_place_and_what_would_be_right() {
    for (text, message) in [
        (
            "10.0.0.1",
            "a NID expression is ADDRESS@NETWORK, such as 10.0.0.[1-4]@tcp (at character 9)",
        ),
        (
            "*@tcp",
            "an address here has four elements; for every address write *.*.*.* (at character 1)",
        ),
        (
            "10.0.0.0.1@tcp",
            "an address here has four elements; for every address write *.*.*.* (at character 1)",
        ),
        (
            "10.0..1@tcp",
            "a number, '*' or '[' belongs here (at character 6)",
        ),
        (
            "10.0.0.[1-256]@tcp",
            "256 is too large; the maximum is 255 (at character 11)",
        ),
        (
            "10.0.0.1@foo",
            "no network type begins here; write one such as tcp or o2ib (at character 10)",
        ),
        (
            "4294967296@gni",
            "4294967296 is too large; the maximum is 4294967295 (at character 1)",
        ),
        (
            "fd00::g@tcp",
            "'fd00::g' is not an IPv6 address (at character 1)",
        ),
        (
            "fd00::/129@tcp",
            "'129' is not a prefix length (0 to 128) (at character 8)",
        ),
        (
            "fd00::/+9@tcp",
            "'+9' is not a prefix length (0 to 128) (at character 8)",
        ),
    ] {
        assert_eq!(rejection::<NidExpr>(text), message, "{text}");
    }
}

#[test]
fn lists_are_split_at_commas_and_blanks_outside_brackets() {
    let list: NidList = "10.20.0.[1-2]@o2ib1, 10.20.0.[7,9]@o2ib1\n5@gni"
        .parse()
        .unwrap();
    let nids: Vec<_> = list.expand(8).unwrap().iter().map(Nid::to_string).collect();
    assert_eq!(
        nids,
        [
            "10.20.0.1@o2ib1",
            "10.20.0.2@o2ib1",
            "10.20.0.7@o2ib1",
            "10.20.0.9@o2ib1",
            "5@gni"
        ]
    );
    assert!(list.matches("5@gni".parse().unwrap()));
    assert_eq!(list.to_string().parse::<NidList>().unwrap(), list);
}

#[test]
fn list_errors_count_from_the_start_of_the_list() {
    assert_eq!(
        rejection::<NidList>("5@gni, [2-1]@gni"),
        "the range 2-1 runs backwards; write 1-2 (at character 9)"
    );
    assert_eq!(
        rejection::<NidList>(" , "),
        "the list of NIDs is empty (at character 1)"
    );
}

#[test]
fn lists_are_limited() {
    let list = |exprs: usize| "1@gni,".repeat(exprs).parse::<NidList>();
    assert_eq!(
        list(NidList::MAX_EXPRS).unwrap().exprs().len(),
        NidList::MAX_EXPRS
    );
    assert_eq!(
        list(NidList::MAX_EXPRS + 1).unwrap_err().offset,
        6 * NidList::MAX_EXPRS
    );
}

#[test]
fn list_expands_a_repeated_nid_once() {
    let list: NidList = "[1-3]@gni [2-4]@gni".parse().unwrap();
    assert_eq!(list.expand(6).unwrap().len(), 4);
}

#[test]
fn expansion_beyond_the_limit_names_the_count() {
    let error = nid("10.0.*.*@tcp").expand(128).unwrap_err();
    assert_eq!(error.to_string(), "65536 values, the limit is 128");
    assert_eq!(net("tcp*").expand(128).unwrap_err().count, 65536);
    assert_eq!(nid("::/0@tcp*").expand(128).unwrap_err().count, u128::MAX);
    let list: NidList = "[1-2]@gni [3-4]@gni".parse().unwrap();
    assert_eq!(
        list.expand(3).unwrap_err().to_string(),
        "4 values, the limit is 3"
    );
}

#[test]
fn sets_of_numbers_stand_alone() {
    let numbers: NumberExpr = "[0,2-4]".parse().unwrap();
    assert_eq!(numbers.expand(4), Ok(vec![0, 2, 3, 4]));
    assert_eq!(numbers.expand(3).unwrap_err().count, 4);
    assert_eq!(
        rejection::<NumberExpr>("[1-0]"),
        "the range 1-0 runs backwards; write 0-1 (at character 2)"
    );
}

#[test]
fn overlapping_ranges_expand_to_each_value_once() {
    assert_eq!(
        expand("[1-3,2-4]@gni", 6),
        ["1@gni", "2@gni", "3@gni", "4@gni"]
    );
}

/// Text of a number expression up to `max`, most of the time a small one.
fn number_text(max: u32) -> impl Strategy<Value = String> {
    let number = prop_oneof![0..=max.min(9), 0..=max];
    let range = (number.clone(), number.clone(), 1..20u32)
        .prop_map(|(a, b, stride)| format!("{}-{}/{stride}", a.min(b), a.max(b)));
    let item = prop_oneof![
        number.clone().prop_map(|number| number.to_string()),
        range,
        Just("*".to_owned())
    ];
    prop_oneof![
        Just("*".to_owned()),
        number.prop_map(|number| number.to_string()),
        prop::collection::vec(item, 1..4).prop_map(|items| format!("[{}]", items.join(","))),
    ]
}

fn nid_text() -> impl Strategy<Value = String> {
    let octet = || number_text(255);
    let quad =
        (octet(), octet(), octet(), octet()).prop_map(|(a, b, c, d)| format!("{a}.{b}.{c}.{d}"));
    let v6 = (any::<u128>(), 0..=128u8)
        .prop_map(|(address, prefix)| format!("{}/{prefix}", std::net::Ipv6Addr::from(address)));
    let number = number_text(u32::MAX);
    let quad_net = prop::sample::select(vec!["tcp", "o2ib", "gip", "efa"]);
    let number_net = prop::sample::select(vec!["gni", "kfi", "ptlf", "bxi3f", "<99>"]);
    let numbers = || prop_oneof![Just(String::new()), number_text(65535)];
    prop_oneof![
        (prop_oneof![quad, v6], quad_net, numbers())
            .prop_map(|(a, net, n)| format!("{a}@{net}{n}")),
        (number, number_net, numbers()).prop_map(|(a, net, n)| format!("{a}@{net}{n}")),
    ]
}

proptest! {
    #[test]
    fn parsing_the_print_gives_the_expression(text in nid_text()) {
        let expr = nid(&text);
        prop_assert_eq!(nid(&expr.to_string()), expr.clone());
        prop_assert_eq!(net(&expr.net().to_string()), expr.net().clone());
        let descriptor: Descriptor = text.parse().unwrap();
        prop_assert_eq!(descriptor.to_string(), expr.to_string());
    }

    #[test]
    fn whatever_expands_matches(text in nid_text()) {
        let expr = nid(&text);
        if let Ok(nids) = expr.expand(2000) {
            prop_assert!(!nids.is_empty());
            prop_assert!(nids.is_sorted_by(|a, b| a < b));
            for nid in nids {
                prop_assert!(expr.matches(nid), "{} against {}", nid, expr);
            }
        }
    }

    #[test]
    fn whatever_matches_is_in_the_expansion(text in number_text(300), probe in 0..=300u32) {
        let expr = nid(&format!("{text}@kfi"));
        let probe = Nid::from_number("kfi".parse().unwrap(), probe);
        if let Ok(nids) = expr.expand(2000) {
            prop_assert_eq!(nids.contains(&probe), expr.matches(probe));
        }
    }

    #[test]
    fn a_concrete_nid_is_an_expression_that_matches_only_itself(bits in any::<u32>(), other in any::<u32>()) {
        let (a, b) = (Nid::from_number(Net::tcp(3), bits), Nid::from_number(Net::tcp(3), other));
        let expr = nid(&a.to_string());
        prop_assert!(expr.matches(a));
        prop_assert_eq!(expr.matches(b), a == b);
        prop_assert_eq!(expr.expand(1), Ok(vec![a]));
    }

    #[test]
    fn no_text_makes_the_parsers_panic(text in "[0-9a-z.,:/@*<> \\[\\]-]{0,30}|.{0,20}") {
        let _ = (text.parse::<Descriptor>(), text.parse::<NidList>(), text.parse::<AddressExpr>());
    }

    #[test]
    fn errors_point_into_the_text(text in "(tcp|gni|o2ib)?[0-9*,/@\\[\\].-]{0,12}") {
        if let Err(error) = text.parse::<Descriptor>() {
            prop_assert!(error.offset <= text.len());
        }
    }
}
