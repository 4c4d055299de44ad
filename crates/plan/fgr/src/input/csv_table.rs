//! Tables with commas. Only this module uses the CSV parser.
//!
//! Fields may be quoted, lines may end with a carriage return, and a byte order mark may come
//! first. White space around fields is removed. Empty lines and lines that begin with `#` are
//! comments.

use std::io::{self, Read};

use csv::{ByteRecord, ReaderBuilder, Terminator};

use crate::input::fits;
use crate::problem::{Problems, Reason};

/// Most bytes of a table that is read as a stream: the lines of some millions of nodes.
const MAX_STREAM_BYTES: u64 = 1 << 30;

/// The layout of the lines of a table.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Layout {
    /// The first line is one of these headers. The other lines have as many fields as the header.
    Header(&'static [&'static str]),
    /// There is no header line. The layout names the fields of each line.
    Columns(&'static str),
}

/// The lines of a table, each with its number and with as many fields as the header.
#[derive(Debug, Default)]
pub(crate) struct Table {
    pub(crate) rows: Vec<(u32, Vec<String>)>,
}

impl Table {
    /// Reads a table with one of these headers. Reports another header, and every line that does
    /// not match the header.
    pub(crate) fn read(
        problems: &mut Problems,
        text: &str,
        headers: &'static [&'static str],
    ) -> Self {
        let mut table = Self::default();
        if fits(problems, text) {
            read_rows(
                problems,
                text.as_bytes(),
                Layout::Header(headers),
                |_, line, fields| {
                    let fields = fields.iter().map(|&field| field.to_owned());
                    table.rows.push((line, fields.collect()));
                },
            );
        }
        table
    }
}

/// Reads a table line by line: calls `row` with the number and the fields of each line that matches
/// the layout, and reports the other lines. Keeps one line in memory.
pub(crate) fn read_rows(
    problems: &mut Problems,
    input: impl Read,
    layout: Layout,
    mut row: impl FnMut(&mut Problems, u32, &[&str]),
) {
    let mut builder = ReaderBuilder::new();
    let builder = builder
        .has_headers(false)
        .flexible(true)
        .comment(Some(b'#'));
    let mut reader = builder
        .terminator(Terminator::Any(b'\n'))
        .from_reader(Lines::new(input));
    let mut known = match layout {
        Layout::Header(_) => None,
        Layout::Columns(columns) => Some(columns),
    };
    let mut record = ByteRecord::new();
    loop {
        match reader.read_byte_record(&mut record) {
            Ok(true) => {}
            Ok(false) => break,
            Err(error) => {
                let line = number(reader.position().line());
                problems.value(line, "line", &error.to_string(), "a line of CSV");
                break;
            }
        }
        // The parser's position is behind the record, which may span several lines.
        let inside = record.as_slice().iter().filter(|&&byte| byte == b'\n');
        let line = number(
            reader
                .position()
                .line()
                .saturating_sub(1 + inside.count() as u64),
        );
        let fields: Result<Vec<&str>, _> = record.iter().map(str::from_utf8).collect();
        let Ok(fields) = fields else {
            let found = String::from_utf8_lossy(record.as_slice()).into_owned();
            problems.value(line, "line", &found, "text in UTF-8");
            continue;
        };
        let fields: Vec<&str> = fields.into_iter().map(str::trim).collect();
        match (known, layout) {
            _ if is_comment(&fields) => {}
            (Some(columns), _) if columns.split(',').count() == fields.len() => {
                row(problems, line, &fields);
            }
            (Some(layout), _) => {
                let (found, expected) = (fields.len(), layout.split(',').count());
                let reason = Reason::Columns {
                    found,
                    expected,
                    layout,
                };
                problems.add(line, reason);
            }
            (None, Layout::Columns(_)) => {}
            (None, Layout::Header(headers)) => {
                let first = fields.join(",");
                known = headers.iter().copied().find(|header| *header == first);
                if known.is_none() {
                    problems.value(line, "header", &first, &headers.join(" or "));
                    return;
                }
            }
        }
    }
    if let (None, Layout::Header(headers)) = (known, layout) {
        problems.value(1, "header", "", &headers.join(" or "));
    }
}

fn is_comment(fields: &[&str]) -> bool {
    matches!(fields, [""]) || fields.first().is_some_and(|first| first.starts_with('#'))
}

fn number(line: u64) -> u32 {
    u32::try_from(line.max(1)).unwrap_or(u32::MAX)
}

/// The bytes of a text, normalised so that the parser counts lines as an editor does: without a
/// byte order mark, and with a line feed alone at the end of every line.
struct Lines<R> {
    input: R,
    buffer: Box<[u8]>,
    /// The part of the buffer that was not passed on yet.
    rest: std::ops::Range<usize>,
    /// Bytes read so far.
    bytes: u64,
    /// Whether the last byte was a carriage return that was not passed on yet.
    held: bool,
    /// The last byte that was passed on, if any.
    last: Option<u8>,
}

impl<R: Read> Lines<R> {
    fn new(input: R) -> Self {
        Self {
            input,
            buffer: vec![0; 1 << 16].into_boxed_slice(),
            rest: 0..0,
            bytes: 0,
            held: false,
            last: None,
        }
    }

    /// Reads until there are bytes to pass on. Returns false at the end of the input.
    fn fill(&mut self) -> io::Result<bool> {
        const MARK: &[u8] = b"\xEF\xBB\xBF";
        let mut end = 0;
        // The mark may arrive in parts.
        while end < MARK.len() {
            let count = self.input.read(&mut self.buffer[end..])?;
            if count == 0 {
                break;
            }
            end += count;
            if self.bytes > 0 {
                break;
            }
        }
        let skipped = match self.bytes == 0 && self.buffer[..end].starts_with(MARK) {
            true => MARK.len(),
            false => 0,
        };
        self.bytes += end as u64;
        if self.bytes > MAX_STREAM_BYTES {
            let limit = format!("more than {MAX_STREAM_BYTES} bytes");
            return Err(io::Error::new(io::ErrorKind::FileTooLarge, limit));
        }
        self.rest = skipped..end;
        Ok(end > 0)
    }

    /// Returns the next byte of the text.
    fn next(&mut self) -> Option<u8> {
        loop {
            let byte = self.buffer[self.rest.clone()].first().copied()?;
            if self.held && byte != b'\n' {
                self.held = false;
                return Some(b'\r');
            }
            self.rest.start += 1;
            self.held = byte == b'\r';
            if !self.held {
                return Some(byte);
            }
        }
    }
}

impl<R: Read> Read for Lines<R> {
    fn read(&mut self, out: &mut [u8]) -> io::Result<usize> {
        let mut count = 0;
        while count < out.len() {
            match self.next() {
                Some(byte) => {
                    out[count] = byte;
                    self.last = Some(byte);
                    count += 1;
                }
                None if count > 0 => break,
                None if self.fill()? => {}
                None => {
                    // The last line ends with a line feed, too.
                    if self.last.is_some_and(|last| last != b'\n') {
                        out[count] = b'\n';
                        self.last = Some(b'\n');
                        count += 1;
                    }
                    break;
                }
            }
        }
        Ok(count)
    }
}

#[cfg(test)]
mod tests {
    use std::io::Read;

    use super::{Layout, read_rows};
    use crate::problem::Problems;

    /// Returns one byte per call.
    struct Slow<'a>(&'a [u8]);

    impl Read for Slow<'_> {
        fn read(&mut self, out: &mut [u8]) -> std::io::Result<usize> {
            let Some((&first, rest)) = self.0.split_first() else {
                return Ok(0);
            };
            self.0 = rest;
            out[0] = first;
            Ok(1)
        }
    }

    fn rows(text: &str) -> (Vec<(u32, String)>, Vec<u32>) {
        let read = |input: &mut dyn Read| {
            let mut problems = Problems::new("t");
            let mut rows = Vec::new();
            read_rows(
                &mut problems,
                input,
                Layout::Header(&["a,b"]),
                |_, line, fields| {
                    rows.push((line, fields.join("|")));
                },
            );
            let wrong: Vec<u32> = problems.found.iter().map(|p| p.place.line).collect();
            (rows, wrong)
        };
        let whole = read(&mut text.as_bytes());
        assert_eq!(
            read(&mut Slow(text.as_bytes())),
            whole,
            "{text:?} in pieces"
        );
        whole
    }

    #[test]
    fn lines_are_numbered_as_an_editor_numbers_them() {
        let lines = [
            "a,b",
            "",
            "1,2",
            "# note, \"x",
            "3",
            "\"4\n5\",6",
            " ,",
            "7 , 8",
        ];
        let expected = [(3, "1|2"), (6, "4\n5|6"), (8, "|"), (9, "7|8")];
        let expected: Vec<(u32, String)> = expected.map(|(n, s)| (n, s.to_owned())).to_vec();
        for (mark, end) in [
            ("", "\n"),
            ("\u{feff}", "\n"),
            ("", "\r\n"),
            ("\u{feff}", "\r\n"),
        ] {
            let text = format!("{mark}{}", lines.join(end));
            let text = if end == "\n" {
                text
            } else {
                text.replace("4\n5", "4\r\n5")
            };
            assert_eq!(rows(&text), (expected.clone(), vec![5]), "{text:?}");
            assert_eq!(rows(&(text + end)), (expected.clone(), vec![5]));
        }
    }

    #[test]
    fn another_header_and_a_missing_header_are_rejected() {
        assert_eq!(rows("b,a\n1,2\n"), (Vec::new(), vec![1]));
        assert_eq!(rows(""), (Vec::new(), vec![1]));
        assert_eq!(rows("\r"), (Vec::new(), vec![1]));
    }
}
