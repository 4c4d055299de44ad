//! The parsers of text that people write.

use lnet_types::Nid;
use lnet_types::expr::NidExpr;

/// What an expression may expand to here; enough to find a wrong count, too little to be slow.
const EXPAND_LIMIT: usize = 1000;

/// A configuration document.
pub fn config_yaml(data: &[u8]) {
    let Ok(text) = str::from_utf8(data) else {
        return;
    };
    match lnet_config::parse(text) {
        Ok(config) => {
            let written = config.to_yaml();
            assert_eq!(lnet_config::parse(&written), Ok(config), "{written}");
        }
        // What people see of a refusal is made of the text that was refused.
        Err(error) => assert!(!error.render("lnet.conf").is_empty()),
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
