//! The JSON in a text with other lines, such as `limits.conf`, a unit of systemd, or the output of `ulimit -a`.

/// Returns the text with empty lines in place of those that belong to no array, so that other lines keep their numbers.
pub(super) fn without_others(text: &str) -> String {
    let mut json = String::with_capacity(text.len() + 1);
    let mut place = Place::default();
    for line in text.lines() {
        if place.depth > 0 || begins(line) {
            place.pass(line);
            json.push_str(line);
        }
        json.push('\n');
    }
    json
}

/// Returns true for a line that begins an array. The name of a section of a unit stands between brackets, too.
pub(super) fn begins(line: &str) -> bool {
    let after = line.trim_start().strip_prefix('[');
    after.is_some_and(|after| !after.starts_with(|one: char| one.is_ascii_alphabetic()))
}

/// A place in JSON: how many arrays and objects are open, and whether a string is.
#[derive(Default)]
struct Place {
    depth: usize,
    in_string: bool,
}

impl Place {
    /// Goes to the end of a line.
    fn pass(&mut self, line: &str) {
        let mut is_escaped = false;
        for byte in line.bytes() {
            match byte {
                _ if is_escaped => is_escaped = false,
                b'\\' => is_escaped = self.in_string,
                b'"' => self.in_string = !self.in_string,
                b'[' | b'{' if !self.in_string => self.depth += 1,
                b']' | b'}' if !self.in_string => self.depth = self.depth.saturating_sub(1),
                _ => {}
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::super::Machine;

    #[test]
    fn other_lines_behind_json_are_left_out() {
        let json = "[{\"ifname\":\"eth0\",\n\"flags\":[\"UP\"],\n  \"link\":\"a=[\\\"b\"\n}]\n";
        let ulimit = "real-time non-blocking time  (microseconds, -R) unlimited\n\
                      open files                          (-n) 1024\n\
                      max locked memory           (kbytes, -l) 64\n";
        let unit = "; a comment\n[Unit]\nDescription=x\n[Service]\nExecStart=/usr/bin/finerail node \\\n  \
                    --config [/etc/x.yaml]\nLimitMEMLOCK=64K\n[X-Other Section]\n";
        let process =
            "Limit  Soft Limit  Hard Limit  Units\nMax locked memory  65536  65536  bytes\n";
        let file = "# comment\n* soft nofile 1024\n* soft memlock 64\n* hard memlock 65536\n";
        let alone = Machine::parse(json).unwrap();
        assert_eq!(alone.interfaces.len(), 1);
        for others in [ulimit, unit, process, file] {
            for text in [format!("{json}{others}"), format!("{json}{others}[]\n")] {
                let machine = Machine::parse(&text).unwrap();
                assert_eq!(machine.interfaces, alone.interfaces, "{text}");
                assert_eq!(machine.locked_memory, Some(64 << 10), "{text}");
                assert_eq!(machine.rdma.is_some(), text.ends_with("[]\n"), "{text}");
            }
        }
    }

    #[test]
    fn the_text_of_an_administrator_is_read() {
        let text = "[{\"ifname\":\"eth0\"}]\n* soft nofile 1024\n* hard memlock 65536\n";
        let machine = Machine::parse(text).unwrap();
        assert_eq!(machine.interfaces.len(), 1);
        assert_eq!(machine.locked_memory, Some(64 << 20));
    }

    #[test]
    fn an_error_in_json_behind_other_lines_has_its_own_line() {
        let text = "[{\"ifname\":\"eth0\"}]\n* soft nofile 1024\n[{\"ifname\":1}]\n";
        let error = Machine::parse(text).unwrap_err();
        let source = std::error::Error::source(&error).unwrap().to_string();
        assert!(source.contains("line 3"), "{source}");
        assert!(Machine::parse("[{\"ifname\":\"eth0\"\n* soft nofile 1024\n").is_err());
    }
}
