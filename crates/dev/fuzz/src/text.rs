//! The parsers of text that people write.

use lnet_config::modprobe::{ConvertDefaults, Dialect, ModuleOptions};
use lnet_types::Nid;
use lnet_types::expr::NidExpr;

/// The limit of expansions: large enough to find a wrong count, small enough to be fast.
const EXPAND_LIMIT: usize = 1000;

/// A configuration document.
pub fn config_yaml(data: &[u8]) {
    let Ok(text) = str::from_utf8(data) else {
        return;
    };
    let survey = lnet_config::survey(text);
    for error in survey.iter().flat_map(|survey| &survey.rejected) {
        assert!(!error.render("lnet.conf").is_empty());
    }
    match lnet_config::parse(text) {
        Ok(config) => {
            assert!(survey.is_ok_and(|survey| survey.rejected.is_empty()));
            let written = config.to_yaml();
            assert_eq!(lnet_config::parse(&written), Ok(config), "{written}");
        }
        // The text of an error contains part of the rejected document.
        Err(error) => assert!(!error.render("lnet.conf").is_empty()),
    }
}

/// Any output of lnetctl.
pub fn config_shown(data: &[u8]) {
    let Ok(text) = str::from_utf8(data) else {
        return;
    };
    match lnet_config::read(text) {
        Ok(reading) => {
            let written = reading.document.to_yaml();
            // Several answers are printed as several documents.
            if reading.document.replies.is_empty() {
                let again = lnet_config::read(&written).map(|reading| reading.document);
                assert_eq!(again, Ok(reading.document), "{written}");
            }
            for warning in &reading.warnings {
                assert!(!warning.render_warning("export").is_empty());
            }
        }
        Err(error) => assert!(!error.render("export").is_empty()),
    }
}

/// Options of the kernel module, as a file or as values.
pub fn module_options(data: &[u8]) {
    let Ok(text) = str::from_utf8(data) else {
        return;
    };
    for dialect in [Dialect::Kernel, Dialect::Converter] {
        let mut options = ModuleOptions::default();
        if let Err(error) = options.add_text(text, dialect) {
            assert!(!error.render("lnet.conf").is_empty());
            continue;
        }
        if let Ok((config, _)) = options.to_config(&ConvertDefaults::default()) {
            let _yaml = config.to_yaml();
        }
        // Values of other modules may contain both kinds of quotes.
        options.others.clear();
        if let Ok(written) = options.to_modprobe() {
            assert_eq!(
                ModuleOptions::parse(&written, dialect),
                Ok(options),
                "{written}"
            );
        }
    }
}

/// A NID expression.
pub fn nid_expression(data: &[u8]) {
    let Ok(text) = str::from_utf8(data) else {
        return;
    };
    if let Ok(nid) = text.parse::<Nid>() {
        assert_eq!(
            nid.to_string().parse(),
            Ok(nid),
            "a NID prints as it parses"
        );
    }
    let Ok(expression) = text.parse::<NidExpr>() else {
        return;
    };
    assert_eq!(
        expression.to_string().parse(),
        Ok(expression.clone()),
        "canonical form parses"
    );
    if let Ok(nids) = expression.expand(EXPAND_LIMIT) {
        assert!(nids.len() <= EXPAND_LIMIT);
        assert!(
            nids.iter().all(|&nid| expression.matches(nid)),
            "it matches what it expands to"
        );
    }
}
