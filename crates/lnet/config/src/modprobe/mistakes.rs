//! Options that a module does not know or does not take.
//!
//! The kernel ignores an unknown option with one line in its log, and does not load a module that is given a value of the
//! wrong kind.

use super::{ModuleOptions, OtherOption};

/// Options of modules that are numbers, from the manual of the file system.
const NUMBERS: [(&str, &[&str]); 3] = [
    (
        "lnet",
        &[
            "accept_backlog",
            "accept_port",
            "accept_port_bulk",
            "accept_timeout",
            "auto_down",
            "avoid_asym_router_failure",
            "check_routers_before_use",
            "dead_router_check_interval",
            "large_router_buffers",
            "live_router_check_interval",
            "local_nid_dist_zero",
            "peer_buffer_credits",
            "router_ping_timeout",
            "router_sensitivity_percentage",
            "small_router_buffers",
            "tiny_router_buffers",
        ],
    ),
    (
        "ksocklnd",
        &[
            "conns_per_peer",
            "credits",
            "eager_ack",
            "enable_csum",
            "keepalive",
            "keepalive_count",
            "keepalive_idle",
            "keepalive_intvl",
            "max_reconnectms",
            "min_bulk",
            "min_reconnectms",
            "nagle",
            "nconnds",
            "nconnds_max",
            "nscheds",
            "peer_buffer_credits",
            "peer_credits",
            "peer_timeout",
            "rx_buffer_size",
            "sock_timeout",
            "tos",
            "tx_buffer_size",
            "typed_conns",
            "zc_min_payload",
        ],
    ),
    (
        "ko2iblnd",
        &[
            "cksum",
            "concurrent_sends",
            "conns_per_peer",
            "credits",
            "dev_failover",
            "fmr_cache",
            "fmr_flush_trigger",
            "fmr_pool_size",
            "ib_mtu",
            "keepalive",
            "map_on_demand",
            "nscheds",
            "ntx",
            "peer_buffer_credits",
            "peer_credits",
            "peer_credits_hiw",
            "peer_timeout",
            "require_privileged_port",
            "retry_count",
            "rnr_retry_count",
            "service",
            "timeout",
            "tos",
            "use_privileged_port",
            "wrq_sge",
        ],
    ),
];

/// Options of `lnet` that are words.
const WORDS: [&str; 5] = ["accept", "forwarding", "ip2nets", "networks", "routes"];

/// The values of `accept`.
const ACCEPT: [&str; 3] = ["all", "none", "secure"];

/// An option that its module does not know or does not take.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Mistake {
    /// The name of the option.
    pub name: String,
    /// The option with its value, and what is wrong.
    pub text: String,
    /// True if the module does not start with the option; false if the module ignores the option.
    pub stops_module: bool,
}

impl ModuleOptions {
    /// Returns the options that their modules do not take: names that differ from a known one by a slip of the keyboard,
    /// and values of the wrong kind.
    #[must_use]
    pub fn mistakes(&self) -> Vec<Mistake> {
        self.others
            .iter()
            .filter_map(OtherOption::mistake)
            .collect()
    }
}

impl OtherOption {
    fn mistake(&self) -> Option<Mistake> {
        let Self {
            module,
            name,
            value,
        } = self;
        let (_, numbers) = NUMBERS.iter().find(|(known, _)| known == module)?;
        let words = WORDS.iter().filter(|_| module == "lnet");
        let mut known = numbers.iter().chain(words).copied();
        let wrong = |why: String, stops_module| {
            Some(Mistake {
                name: name.clone(),
                text: self.told(&why),
                stops_module,
            })
        };
        if !known.clone().any(|one| one == name) {
            let meant = known.find(|one| is_slip(name, one))?;
            return wrong(format!("{module} has no such option, but {meant}"), false);
        }
        if module == "lnet" && name == "accept" && !ACCEPT.contains(&value.as_str()) {
            return wrong("the values are secure, all and none".to_owned(), true);
        }
        if !numbers.contains(&name.as_str()) {
            return None;
        }
        let Some(number) = c_number(value) else {
            return wrong(
                "the value is no number, and the module does not load".to_owned(),
                true,
            );
        };
        let is_port = module == "lnet" && name.starts_with("accept_port");
        if is_port && !(1..=i64::from(u16::MAX)).contains(&number) {
            return wrong("a port is a number from 1 to 65535".to_owned(), true);
        }
        None
    }
}

/// Returns whether a name is a known one with a slip of the keyboard: a letter that is missing, too much, wrong or
/// exchanged with the next, in long names two of these.
fn is_slip(name: &str, known: &str) -> bool {
    let slips = if known.len() < 8 { 1 } else { 2 };
    known.len() > 3 && strsim::osa_distance(name, known) <= slips
}

/// Returns a number as kernels read it: decimal, `0x` and hexadecimal, or `0` and octal, within 32 bits.
pub(super) fn c_number(value: &str) -> Option<i64> {
    let (sign, digits) = match value.strip_prefix('-') {
        Some(digits) => (-1, digits),
        None => (1, value),
    };
    let lower = digits.to_ascii_lowercase();
    let (radix, digits) = match lower.strip_prefix("0x") {
        Some(digits) => (16, digits),
        None if lower.len() > 1 && lower.starts_with('0') => (8, &lower[1..]),
        None => (10, lower.as_str()),
    };
    if !digits.bytes().all(|byte| byte.is_ascii_alphanumeric()) {
        return None;
    }
    let number = i64::from_str_radix(digits, radix).ok()?;
    Some(sign * number)
        .filter(|number| (i64::from(i32::MIN)..=i64::from(u32::MAX)).contains(number))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::modprobe::Dialect;

    fn mistakes(options: &str) -> Vec<(String, bool)> {
        let options = ModuleOptions::parse(&format!("options {options}\n"), Dialect::Kernel);
        let mistakes = options.unwrap().mistakes().into_iter();
        mistakes.map(|one| (one.text, one.stops_module)).collect()
    }

    #[test]
    fn slips_and_values_of_the_wrong_kind_are_mistakes() {
        for (options, says, stops) in [
            ("lnet network=tcp(eth0)", "but networks", false),
            (
                "lnet networks=tcp(eth0) acept_port=6988",
                "but accept_port",
                false,
            ),
            ("lnet accept_prot=6988", "but accept_port", false),
            ("lnet accept_port=70000", "from 1 to 65535", true),
            ("lnet accept_port=0", "from 1 to 65535", true),
            ("lnet accept_port=abc", "no number", true),
            ("lnet accept_port=99999999999", "no number", true),
            ("lnet accept=secured", "secure, all and none", true),
            ("ksocklnd credits=abc", "no number", true),
            ("ko2iblnd map_on_demnad=1", "but map_on_demand", false),
        ] {
            let found = mistakes(options);
            assert_eq!(found.len(), 1, "{options}: {found:?}");
            assert!(
                found[0].0.contains(says) && found[0].1 == stops,
                "{found:?}"
            );
        }
        for right in [
            "lnet networks=tcp(eth0) accept_port=0x1b4c accept=all",
            "lnet accept_port=988 a_new_option=1",
            "ksocklnd credits=256 nonblk_zcack=1 tos=-1 skip_mr_route_setup=1",
            "ko2iblnd-opa peer_credits=abc",
            "ost oss_num_threads=abc",
        ] {
            assert_eq!(mistakes(right), [], "{right}");
        }
    }

    #[test]
    fn numbers_are_read_as_kernels_do() {
        for (text, number) in [
            ("988", Some(988)),
            ("0x1b4c", Some(6988)),
            ("010", Some(8)),
            ("0", Some(0)),
            ("-1", Some(-1)),
            ("08", None),
            ("", None),
            ("+1", None),
            ("--1", None),
            ("4294967296", None),
        ] {
            assert_eq!(c_number(text), number, "{text}");
        }
    }
}
