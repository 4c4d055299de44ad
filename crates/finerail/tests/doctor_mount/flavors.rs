//! Rules of security: those that concern this machine, and what they keep it from.

use serde_json::Value;

use crate::world::{OST0, World, expect};

/// A site with these rules: flags of the marker, the file system or target, and the text.
fn ruled(rules: &[(u32, &str, &str)]) -> World {
    World::with(|world| {
        for (flags, of, text) in rules {
            world.rule(*flags, of, text);
        }
    })
}

#[test]
fn rule_for_clients_and_the_mdt_leaves_open_whether_this_machine_mounts() {
    for text in ["default=krb5i", "srpc.flavor.tcp.cli2mdt=skpi"] {
        let mut world = ruled(&[(1, "fs1", text)]);
        world.more = vec!["--targets", "--json"];
        let document: Value = serde_json::from_str(&world.run(text).expect_code(1).out).unwrap();
        assert_eq!(document["mounts"], Value::Null, "{text}");
        assert_eq!(document["findings"][0]["name"], "flavor-needed", "{text}");
        assert_eq!(document["security_rules"][0], text);
        // The MDT would refuse a connect.
        assert_eq!(document["targets"][0]["connects"], serde_json::json!([]));
        expect("flavor-needed", ruled(&[(1, "fs1", text)]));
    }
}

#[test]
fn rule_for_osts_leaves_the_mount_and_the_mdt_is_asked() {
    for (of, text) in [("fs1", "default.cli2ost=ska"), (OST0, "tcp=krb5p")] {
        let ended = ruled(&[(1, of, text)]).run(text).expect_code(1);
        let first = ended.out.lines().next().unwrap();
        assert!(
            first.starts_with("fs1: this machine can mount it, but"),
            "{first}"
        );
        assert!(first.ends_with("[flavor-needed]"), "{first}");
        assert!(ended.out.contains("serves, Lustre 2.17.0"), "{}", ended.out);
    }
}

#[test]
fn rule_for_others_is_no_reason_to_refuse() {
    for rules in [
        &[(1, "fs1", "default.mdt2ost=ska")][..],
        &[(1, "fs1", "default.mdt2mdt=krb5i")],
        &[(1, "fs1", "tcp9=krb5i")],
        &[(1, "fs1", "default=krb5i"), (1, "fs1", "tcp=null")],
        &[(5, "fs1", "default=krb5i"), (1, "fs1", "default=null")],
        &[(5, "fs1", "default=krb5i")],
    ] {
        let ended = ruled(rules).run("a rule for others").expect_code(0);
        assert!(ended.out.contains("all 3 targets serve"), "{}", ended.out);
    }
}

#[test]
fn flavor_that_the_check_does_not_speak_is_not_known() {
    for text in ["default=plain", "default.upward=krb5i"] {
        expect("flavor-unclear", ruled(&[(1, "fs1", text)]));
    }
}
