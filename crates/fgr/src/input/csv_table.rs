//! Tables with commas: the only module that knows the CSV parser.

use csv::{Position, ReaderBuilder, Trim};

use crate::input::fits;
use crate::problem::{Problems, Reason};

/// The lines of a table behind its header, each with its number and as many fields as the header.
/// Fields may stand in quotes, lines may end with a carriage return, a byte order mark may come first,
/// and white space around fields is taken away.
#[derive(Debug, Default)]
pub(crate) struct Table {
    pub(crate) rows: Vec<(u32, Vec<String>)>,
}

impl Table {
    /// Reads a table with one of these headers; complains about another one and about every line that
    /// does not fit it.
    pub(crate) fn read(problems: &mut Problems, text: &str, headers: &[&'static str]) -> Self {
        let mut table = Self::default();
        if !fits(problems, text) {
            return table;
        }
        let text = text.strip_prefix('\u{feff}').unwrap_or(text);
        let mut builder = ReaderBuilder::new();
        let builder = builder.has_headers(false).flexible(true).trim(Trim::All);
        let mut lines = Lines {
            text,
            byte: 0,
            line: 1,
        };
        let mut layout: Option<&'static str> = None;
        for record in builder.from_reader(text.as_bytes()).into_records() {
            let record = match record {
                Ok(record) => record,
                Err(error) => {
                    let line = lines.at(error.position());
                    problems.value(line, "line", &error.to_string(), "a line of CSV");
                    continue;
                }
            };
            let line = lines.at(record.position());
            let fields: Vec<String> = record.iter().map(str::to_owned).collect();
            let Some(header) = layout else {
                let first = fields.join(",");
                layout = headers.iter().copied().find(|header| *header == first);
                if layout.is_none() {
                    problems.value(line, "header", &first, &headers.join(" or "));
                    return table;
                }
                continue;
            };
            let expected = header.split(',').count();
            if fields.len() == expected {
                table.rows.push((line, fields));
            } else {
                let (found, layout) = (fields.len(), header);
                problems.add(
                    line,
                    Reason::Columns {
                        found,
                        expected,
                        layout,
                    },
                );
            }
        }
        if layout.is_none() {
            problems.value(1, "header", "", &headers.join(" or "));
        }
        table
    }
}

/// Counts lines. The parser's own count is one too low behind a carriage return.
struct Lines<'a> {
    text: &'a str,
    byte: usize,
    line: u32,
}

impl Lines<'_> {
    /// The line on which the record at a position begins. Positions must ascend.
    fn at(&mut self, position: Option<&Position>) -> u32 {
        let bytes = self.text.as_bytes();
        let start = position.map_or(self.byte, |position| position.byte() as usize);
        let start = start.clamp(self.byte, bytes.len());
        let ends = bytes[start..]
            .iter()
            .take_while(|&byte| b"\r\n".contains(byte))
            .count();
        let passed = bytes[self.byte..start + ends]
            .iter()
            .filter(|&&byte| byte == b'\n')
            .count();
        self.line = self
            .line
            .saturating_add(u32::try_from(passed).unwrap_or(u32::MAX));
        self.byte = start + ends;
        self.line
    }
}
