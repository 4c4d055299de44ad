//! The limit of locked memory of a process, in one of the forms in which a machine states it.
//!
//! ```text
//!   Max locked memory   8388608   8388608   bytes      /proc/PID/limits
//!   LimitMEMLOCK=8M                                    a unit of systemd, `systemctl show`
//!   *  hard  memlock  65536                            limits.conf, in KiB
//!   max locked memory  (kbytes, -l) 8192               `ulimit -a`, in KiB
//! ```

/// Returns the limit in bytes that the last line about it states. `None` if no line does, and for no limit.
pub(super) fn locked_memory(text: &str) -> Option<u64> {
    text.lines().rev().find_map(limit).flatten()
}

/// Returns the text with empty lines in place of those of limits and of units, so that other lines keep their numbers.
pub(super) fn without_limits(text: &str) -> String {
    let kept = |line| if is_foreign(line) { "" } else { line };
    text.lines()
        .map(|line| format!("{}\n", kept(line)))
        .collect()
}

/// Returns the limit that a line states, `Some(None)` for no limit.
fn limit(line: &str) -> Option<Option<u64>> {
    let line = line.trim();
    if let Some(rest) = line.strip_prefix("Max locked memory") {
        return bytes(rest.split_whitespace().next()?, 1);
    }
    if let Some(rest) = line.strip_prefix("max locked memory") {
        return bytes(rest.split_whitespace().last()?, 1024);
    }
    if let Some(value) = line.strip_prefix("LimitMEMLOCK=") {
        return bytes(value.split(':').next()?, 1);
    }
    let mut words = line.split_whitespace().skip(1);
    let is_limit = matches!(words.next()?, "soft" | "hard" | "-") && words.next()? == "memlock";
    if !is_limit || line.starts_with('#') {
        return None;
    }
    bytes(words.next()?, 1024)
}

/// Reads a number of units, which may have a suffix; `Some(None)` for no limit.
fn bytes(text: &str, unit: u64) -> Option<Option<u64>> {
    if matches!(text, "unlimited" | "infinity" | "-1") {
        return Some(None);
    }
    let digits = text.trim_end_matches(|last: char| !last.is_ascii_digit());
    let unit = match text.get(digits.len()..)? {
        "" => unit,
        "K" => 1 << 10,
        "M" => 1 << 20,
        "G" => 1 << 30,
        "T" => 1 << 40,
        _ => return None,
    };
    Some(Some(digits.parse::<u64>().ok()?.saturating_mul(unit)))
}

/// Returns true for a line that stands in no output of `ip` and `rdma`.
fn is_foreign(line: &str) -> bool {
    let is_section = |name: &str| name.bytes().all(|byte| byte.is_ascii_alphabetic());
    let section = line
        .strip_prefix('[')
        .and_then(|line| line.strip_suffix(']'));
    let key = line.split_once('=').map(|(key, _)| key);
    line.starts_with("Max ")
        || line.starts_with("Limit ")
        || line.starts_with('#')
        || limit(line).is_some()
        || section.is_some_and(|name| !name.is_empty() && is_section(name))
        || key.is_some_and(|key| !key.is_empty() && is_section(key))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_limit_is_read_in_each_form() {
        let forms = [
            (
                "Max locked memory         8388608    8388608   bytes",
                Some(8 << 20),
            ),
            ("Max locked memory         unlimited  unlimited bytes", None),
            ("[Service]\nLimitMEMLOCK=8M", Some(8 << 20)),
            ("LimitMEMLOCK=64K:1G", Some(64 << 10)),
            ("LimitMEMLOCK=infinity", None),
            ("LimitMEMLOCK=8388608", Some(8 << 20)),
            ("* hard memlock 65536", Some(64 << 20)),
            ("@lustre - memlock unlimited", None),
            ("# * hard memlock 65536", None),
            (
                "max locked memory           (kbytes, -l) 8192",
                Some(8 << 20),
            ),
            ("LimitNOFILE=1024", None),
            ("LimitMEMLOCK=8 parsecs", None),
            ("LimitMEMLOCK=99999999999999999999", None),
            ("LimitMEMLOCK=9999999999999T", Some(u64::MAX)),
        ];
        for (text, limit) in forms {
            assert_eq!(locked_memory(text), limit, "{text}");
        }
        assert_eq!(
            locked_memory("LimitMEMLOCK=8M\nLimitMEMLOCK=9M\n"),
            Some(9 << 20)
        );
    }

    #[test]
    fn lines_of_a_unit_and_of_limits_are_no_json() {
        let text = "[{\"ifname\":\"a=b\"}]\n[Service]\nLimitMEMLOCK=8M\nMax cpu time  unlimited\n";
        assert_eq!(without_limits(text), "[{\"ifname\":\"a=b\"}]\n\n\n\n");
    }
}
