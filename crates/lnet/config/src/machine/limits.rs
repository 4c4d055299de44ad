//! The limit of locked memory of a process, in one of the forms in which a machine states it.
//!
//! ```text
//!   Max locked memory   8388608   8388608   bytes      /proc/PID/limits
//!   LimitMEMLOCK=8M                                    a unit of systemd, `systemctl show`
//!   *  hard  memlock  65536                            limits.conf, in KiB
//!   max locked memory  (kbytes, -l) 8192               `ulimit -a`, in KiB
//! ```

/// Returns the limit in bytes that the last line about a process or a unit states, or else limits.conf. `None` if no line
/// does, and for no limit.
pub(super) fn locked_memory(text: &str) -> Option<u64> {
    let of_process = text.lines().rev().find_map(of_process);
    of_process.unwrap_or_else(|| of_file(text))
}

/// Returns the limit that a line states of a process or a unit, `Some(None)` for no limit.
fn of_process(line: &str) -> Option<Option<u64>> {
    let line = line.trim();
    if let Some(rest) = line.strip_prefix("Max locked memory") {
        return bytes(rest.split_whitespace().next()?, 1);
    }
    if let Some(rest) = line.strip_prefix("max locked memory") {
        return bytes(rest.split_whitespace().last()?, 1024);
    }
    let value = line.strip_prefix("LimitMEMLOCK=")?;
    bytes(value.split(':').next()?, 1)
}

/// The limits of one kind of user in limits.conf; `Some(None)` for no limit.
#[derive(Clone, Copy, Default)]
struct Limits {
    soft: Option<Option<u64>>,
    hard: Option<Option<u64>>,
}

/// Returns the limit that the lines of limits.conf state for the user of the node: the soft one, but no more than the hard
/// one. The user is that of the unit, or else root. The user's own lines count more than those of all users.
fn of_file(text: &str) -> Option<u64> {
    let mut user = text
        .lines()
        .filter_map(|line| line.trim().strip_prefix("User="));
    let user = user.next_back().map_or("root", str::trim);
    let (mut own, mut all) = (Limits::default(), Limits::default());
    for line in text.lines() {
        let mut words = line.split_whitespace();
        let limits = match words.next() {
            Some("*") => &mut all,
            Some(name) if name == user => &mut own,
            _ => continue,
        };
        let kind = words.next();
        let value = words.next().filter(|&item| item == "memlock");
        let value = value.and_then(|_| bytes(words.next()?, 1024));
        if value.is_none() {
            continue;
        }
        if matches!(kind, Some("soft" | "-")) {
            limits.soft = value;
        }
        if matches!(kind, Some("hard" | "-")) {
            limits.hard = value;
        }
    }
    let both = [own.soft.or(all.soft), own.hard.or(all.hard)];
    both.into_iter().flatten().flatten().min()
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
            ("@lustre - memlock 64", None),
            (
                "* soft memlock 64\n* hard memlock unlimited",
                Some(64 << 10),
            ),
            (
                "* hard memlock unlimited\n* soft memlock 64",
                Some(64 << 10),
            ),
            ("* soft memlock 128\n* hard memlock 64", Some(64 << 10)),
            ("* - memlock unlimited\noracle hard memlock 65536", None),
            ("* - memlock 64\nroot - memlock unlimited", None),
            ("root - memlock 128\n* - memlock 64", Some(128 << 10)),
            ("* - memlock 64\n* - memlock 128 # more", Some(128 << 10)),
            (
                "[Service]\nUser=oracle\n* - memlock unlimited\noracle hard memlock 64\nroot - memlock 32",
                Some(64 << 10),
            ),
            ("LimitMEMLOCK=infinity\n* - memlock 64", None),
            ("* soft memlock\n* memlock 64\n; * - memlock 64", None),
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
}
