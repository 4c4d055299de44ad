//! Sources of settings, and rejected values.

use std::io::Write;

use super::*;

fn file(text: &str) -> tempfile::NamedTempFile {
    let mut file = tempfile::NamedTempFile::new().unwrap();
    file.write_all(text.as_bytes()).unwrap();
    file
}

fn environment(pairs: &[(&str, &str)]) -> BTreeMap<String, String> {
    let owned = |(name, value): &(&str, &str)| ((*name).to_owned(), (*value).to_owned());
    pairs.iter().map(owned).collect()
}

#[test]
fn r02_to_r05_the_defaults_are_the_designs() {
    let mut options = Options::default();
    assert_eq!(options.total, 536_870_912);
    assert_eq!(options.unexpected, 1_048_576);
    assert_eq!(options.max_unexpected, 8192);
    assert_eq!(options.max_expected, 134_217_728);
    assert!(options.check().unwrap().is_empty());
}

// [ZOID-65]
#[test]
fn the_daemon_spins_for_as_long_as_it_is_told_but_not_past_its_signs_of_life() {
    let mut options = Options::default();
    assert_eq!(options.spin, Duration::ZERO);
    options.set("--spin-us", "spin-us", "50").unwrap();
    assert_eq!(options.spin, Duration::from_micros(50));
    options.set("--spin-us", "spin-us", "5000000").unwrap();
    assert_eq!(options.spin, SPIN_MAX);
    assert!(options.set("--spin-us", "spin-us", "-1").is_err());
}

// [BOUND-5]
#[test]
fn later_sources_win_over_earlier_ones() {
    let mut options = Options::default();
    let file = file("# ours\ntotal = 64M\nunexp = 2M # two\n\nmax-expected=1M\n");
    options.read_file(file.path()).unwrap();
    assert_eq!((options.total, options.unexpected), (64 << 20, 2 << 20));
    let variables = [
        ("ZBMI_SHM_SIZE_TOTAL", "32M"),
        ("ZOID_MAX_UNEXPECTED_MSG", "4k"),
    ];
    options.read_environment(&environment(&variables)).unwrap();
    assert_eq!((options.total, options.max_unexpected), (32 << 20, 4096));
    options.set("--total", "total", "16M").unwrap();
    assert_eq!((options.total, options.unexpected), (16 << 20, 2 << 20));
    assert_eq!(options.max_expected, 1 << 20);
}

// [BOUND-7]
#[test]
fn a_bad_line_is_named_by_file_and_line() {
    let mut options = Options::default();
    let file = file("total = 64M\nunexp 2M\n");
    let text = options.read_file(file.path()).unwrap_err().to_string();
    assert!(
        text.contains(":2: \"unexp 2M\" is not `name = value`"),
        "{text}"
    );
}

#[test]
fn an_unknown_setting_is_answered_with_the_known_ones() {
    let mut options = Options::default();
    let text = options.set("here", "totl", "1").unwrap_err().to_string();
    assert!(
        text.starts_with("here: there is no setting \"totl\""),
        "{text}"
    );
    assert!(text.contains("total, unexp"), "{text}");
}

#[test]
fn job_weights_are_pairs_with_each_job_once() {
    let mut options = Options::default();
    assert!(options.job_weights.is_empty());
    options.set("test", "job-weights", "7:2, 9:4,").unwrap();
    assert_eq!(options.job_weights, BTreeMap::from([(7, 2), (9, 4)]));
    for bad in ["7", "7:0", "7:1,7:2", ":", "7:x", "-1:2", "7:4294967296"] {
        assert!(options.set("test", "job-weights", bad).is_err(), "{bad}");
    }
    options.set("test", "job-weights", "").unwrap();
    assert!(options.job_weights.is_empty());
}

#[test]
fn a_group_has_a_name_or_a_number() {
    let mut options = Options::default();
    for (text, group) in [("root", Some(0)), ("4711", Some(4711)), ("", None)] {
        options.set("test", "group", text).unwrap();
        assert_eq!(options.group, group, "{text}");
    }
    let text = options.set("test", "group", "no such group").unwrap_err();
    assert!(text.to_string().contains("is not a group"), "{text}");
}

#[test]
fn huge_pages_are_named_by_size() {
    for (text, pages) in [
        ("auto", HugePages::Auto),
        ("2M", HugePages::Huge2M),
        ("1G", HugePages::Huge1G),
        ("off", HugePages::Off),
    ] {
        let mut options = Options::default();
        options.set("test", "hugepages", text).unwrap();
        assert_eq!(options.huge_pages, pages);
        assert!(options.set("test", "hugepages", "on").is_err());
    }
}

#[test]
fn every_setting_refuses_nonsense_and_none_panics() {
    let free_text = ["directory", "socket"];
    for (name, _) in SETTINGS {
        let mut options = Options::default();
        let error = options.set("test", name, "not/a value").is_err();
        assert_eq!(error, !free_text.contains(&name), "{name}");
    }
}

// [BOUND-7]
#[test]
fn refuses_contradictions() {
    let check = |pairs: &[(&str, &str)]| {
        let mut options = Options::default();
        for (name, value) in pairs {
            options.set("test", name, value).unwrap();
        }
        options.check()
    };
    assert!(check(&[("total", "1M"), ("unexp", "1M")]).is_err());
    assert!(check(&[("unexp", "4k"), ("max-unexpected", "8k")]).is_err());
    assert!(check(&[("unexp-share", "0")]).is_err());
    assert!(check(&[("heartbeat-ms", "0")]).is_err());
    assert!(check(&[("total", "17179869183G")]).is_err());
    // Accepted, with a remark.
    let remarks = check(&[("max-expected", "1G")]).unwrap();
    assert!(remarks[0].contains("temporary buffer"), "{remarks:?}");
}

#[test]
fn a_small_total_alone_is_no_reason_for_a_remark() {
    let mut options = Options::default();
    options.set("test", "total", "64M").unwrap();
    assert_eq!(options.check().unwrap(), [""; 0]);
}

// [BOUND-7]
#[test]
fn a_total_of_broken_pages_is_rounded_up_and_said() {
    let mut options = Options::default();
    options.set("test", "total", "536870913").unwrap();
    let remarks = options.check().unwrap();
    assert_eq!(options.total, 536_875_008);
    assert!(remarks[0].contains("rounded up"), "{remarks:?}");
}
