//! Writing and reading agree.

use proptest::prelude::*;

use super::strategies::{any_config, any_document, cases};
use crate::{Config, Document, parse, read};

proptest! {
    #![proptest_config(cases())]

    #[test]
    fn parsing_what_was_written_gives_the_configuration(config in any_config()) {
        let text = config.to_yaml();
        match parse(&text) {
            Ok(parsed) => prop_assert_eq!(parsed, config),
            Err(error) => prop_assert!(false, "{}\n{text}", error.render("written")),
        }
    }

    #[test]
    fn an_export_imports_and_exports_to_the_same_bytes(config in any_config()) {
        let export = Document::from(&config).exported().to_yaml();
        let imported = parse(&export).map_err(|error| TestCaseError::fail(error.render("export")))?;
        prop_assert_eq!(&imported, &config);
        prop_assert_eq!(Document::from(&imported).exported().to_yaml(), export);
    }

    #[test]
    fn reading_what_was_printed_gives_the_document(document in any_document()) {
        let text = document.to_yaml();
        match read(&text) {
            Ok(reading) => {
                prop_assert_eq!(reading.warnings, []);
                prop_assert_eq!(reading.document, document, "{}", text);
            }
            Err(error) => prop_assert!(false, "{}\n{text}", error.render("printed")),
        }
    }

    #[test]
    fn what_can_be_imported_of_a_document_is_its_configuration(document in any_document()) {
        // Counters and answers are no part of an export.
        let document = Document { statistics: None, replies: Vec::new(), ..document };
        let (config, dead) = document.config();
        prop_assert_eq!(dead, []);
        prop_assert_eq!(parse(&document.to_yaml()), Ok(config));
    }

    #[test]
    fn no_text_makes_the_parser_panic(text in "[a-z0-9:{}\\[\\],&*!|>'\"%@`# \n\t-]{0,60}|.{0,60}") {
        let _ = parse(&text).map_err(|error| error.render("test"));
        let _ = read(&text).map_err(|error| error.render("test"));
    }

    #[test]
    fn no_change_of_a_document_makes_the_parser_panic(
        document in any_document(),
        at in any::<prop::sample::Index>(),
        put in "[a-z0-9:{}\\[\\],&*!|>'\"%@`# \n\t-]|.",
    ) {
        let mut text = document.to_yaml();
        let at = at.index(text.len() + 1);
        let at = (0..=at).rev().find(|&at| text.is_char_boundary(at)).unwrap();
        text.insert_str(at, &put);
        let _ = parse(&text).map_err(|error| error.render("test"));
        let _ = read(&text).map_err(|error| error.render("test"));
    }
}

#[test]
fn layout_is_that_of_a_backup() {
    let source = r#"net:
-     net type: tcp
      local NI(s):
      -     interfaces:
                  0: eth0
            tunables:
                  peer_timeout: 180
                  peer_credits: 8
                  peer_buffer_credits: 0
                  credits: 256
            lnd tunables:
                  conns_per_peer: 1
                  timeout: 49
                  tos: 4
            CPT: "[0]"
      -     nid: 10.0.0.2@tcp
            interfaces:
                  0: eth1
route:
-     net: tcp5
      gateway: 10.1.0.3@tcp
      hop: 1
      priority: 2
peer:
-     primary nid: 10.1.0.2@tcp
      Multi-Rail: true
      peer ni:
      -     nid: 10.1.0.2@tcp
      -     nid: 10.2.0.2@tcp1
routing:
    enable: 1
buffers:
    tiny: 2048
    small: 16384
    large: 1024
global:
    numa_range: 0
    max_interfaces: 200
    discovery: 1
    drop_asym_route: 0
    retry_count: 2
    transaction_timeout: 150
    health_sensitivity: 100
    router_sensitivity: 100
    response_tracking: 3
    recovery_limit: 0
    max_recovery_ping_interval: 900
"#;
    assert_eq!(parse(source).unwrap().to_yaml(), source);
}

#[test]
fn nothing_is_written_for_nothing() {
    assert_eq!(Config::default().to_yaml(), "");
}
