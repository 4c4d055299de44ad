//! Extracts the part of a session's command that can be repeated in user space.
//!
//! ```text
//!  lnetctl net add … ; modprobe lnet_selftest ; lnetctl net show -v 4 | grep nid
//!  ───── ours ──────   ──── left out ────────   ─────────── ours ─────────────
//! ```
//!
//! A part is left out if it needs a kernel (`lst`, `dmesg`, `modprobe`, other commands of `lctl`), or if it is about
//! the machine and not about LNet (`ip`, `ss`, `date`). Our part is `lnetctl`, three commands of `lctl`, and the
//! shell's processing of their output.

/// The part of a command that is repeated.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct Repeated {
    pub(crate) command: String,
    /// Whether something was left out, so that only the documents in the output can be compared.
    pub(crate) in_part: bool,
    /// Whether a part at the end was left out, so that the exit code belongs to this part.
    pub(crate) foreign_end: bool,
}

/// Returns the part that can be repeated; `None` if there is none.
pub(crate) fn repeated(command: &str) -> Option<Repeated> {
    let parts = parts(command);
    let is_ours: Vec<bool> = parts.iter().map(|part| is_ours(part)).collect();
    let kept: Vec<String> = parts
        .iter()
        .zip(&is_ours)
        .filter(|(_, ours)| **ours)
        .map(|(part, _)| without_limits(part))
        .collect();
    let lnet = |part: &String| part.contains("lnetctl") || part.contains("lctl");
    // A here-document ends with a line of its own.
    let command = kept.join("; ").replace("\nE; ", "\nE\n");
    kept.iter().any(lnet).then(|| Repeated {
        command,
        in_part: is_ours.contains(&false),
        foreign_end: is_ours.last() == Some(&false),
    })
}

/// Splits a command at semicolons. A loop is one part, and a semicolon in quotes does not count.
fn parts(command: &str) -> Vec<String> {
    let mut parts = vec![String::new()];
    let mut quote = None;
    let mut escaped = false;
    for character in command.chars() {
        match (character, quote) {
            _ if escaped => {}
            ('"' | '\'', None) => quote = Some(character),
            (_, Some(open)) if open == character => quote = None,
            _ => {}
        }
        escaped = character == '\\' && !escaped;
        let open = parts.last_mut().map_or("", |part| part.as_str());
        let in_loop = open.trim_start().starts_with("for ") && !open.contains("; done");
        let in_document = open.contains("<<E") && !open.ends_with("\nE");
        let is_end = character == ';' || character == '\n' && open.ends_with("\nE");
        if is_end && quote.is_none() && !in_loop && !in_document {
            parts.push(String::new());
        } else if let Some(part) = parts.last_mut() {
            part.push(character);
        }
    }
    parts.retain(|part| !part.trim().is_empty());
    parts
}

/// Returns whether a pipeline has only our programs and filters of text.
fn is_ours(part: &str) -> bool {
    // Loops that wait, and functions, belong to the tests of changes in time.
    let in_time = ["sleep", "$(", "date", " & ", "samp", "/sys/", "/proc/"];
    if in_time.iter().any(|word| part.contains(word)) {
        return false;
    }
    let part = without_limits(part);
    let words: Vec<&str> = part.split_whitespace().collect();
    let is_lctl = |word: &str| ["list_nids", "which_nid", "ping"].contains(&word);
    match words.as_slice() {
        ["lctl", word, ..] => is_lctl(word),
        [first, ..] => ["lnetctl", "true", "printf", "echo", "cat", "sed", "for"].contains(first),
        [] => false,
    }
}

/// Removes `time` and `timeout`: durations are not compared, and every command here has a limit anyway.
fn without_limits(part: &str) -> String {
    let part = part.trim();
    if let Some(rest) = part.strip_prefix("time ") {
        return without_limits(rest);
    }
    let limited = part
        .strip_prefix("timeout ")
        .and_then(|rest| rest.split_once(' '));
    match limited {
        Some((_, rest)) => without_limits(rest),
        None => part.to_owned(),
    }
}

#[test]
fn what_needs_a_kernel_is_left_out_of_a_command() {
    let all = |command: &str| repeated(command).unwrap();
    let whole = all("lnetctl ping 10.1.0.2@tcp; timeout 3 lnetctl net show | grep -E \"a;b\"");
    let expected = "lnetctl ping 10.1.0.2@tcp; lnetctl net show | grep -E \"a;b\"";
    assert_eq!(whole.command, expected);
    assert!(!whole.in_part && !whole.foreign_end);
    let part = all("modprobe lnet; time lnetctl stats show; dmesg | tail -3");
    assert_eq!(part.command, "lnetctl stats show");
    assert!(part.in_part && part.foreign_end);
    let ended = all("lctl --net tcp conn_list; lnetctl stats show");
    assert!(ended.in_part && !ended.foreign_end);
    let looped = all("for i in 1 2; do lnetctl ping a; done | grep -c x; lctl ping b");
    assert_eq!(
        looped.command,
        "for i in 1 2; do lnetctl ping a; done | grep -c x; lctl ping b"
    );
    assert_eq!(
        repeated("for i in 1 2; do lnetctl ping a; sleep 3; done; dmesg"),
        None
    );
    assert_eq!(repeated("modprobe lnet_selftest"), None);
    assert_eq!(repeated("lctl get_param -n routers nis peers 2>&1"), None);
    let document = "cat > i.yaml <<E\nudsp:\n    - idx: 0; x\nE\nlnetctl import i.yaml; echo rc=$?";
    assert_eq!(parts(document).len(), 3);
    assert_eq!(all(document).command, document);
}
