//! The lines of `ibnetdiscover`: nodes with their ports, without a view on what they mean.

use std::collections::BTreeMap;
use std::fmt;

use crate::input::{fits, is_file_name};
use crate::problem::{InputError, Problems, shown};

/// The type of a node.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum ItemKind {
    Switch,
    Adapter,
    Router,
}

/// Width and speed of a link.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) struct Rate {
    pub(super) width: u8,
    speed: &'static str,
    lane: f64,
}

impl Rate {
    /// GB/s in one direction: the data rate of a lane, without coding, times the width.
    pub(super) fn capacity(self) -> f64 {
        f64::from(self.width) * self.lane
    }

    /// Reads `4xEDR`.
    fn parse(word: &str) -> Option<Self> {
        const LANES: [(&str, f64); 9] = [
            ("SDR", 0.25),
            ("DDR", 0.5),
            ("QDR", 1.0),
            ("FDR10", 1.289),
            ("FDR", 1.705),
            ("EDR", 3.125),
            ("HDR", 6.25),
            ("NDR", 12.5),
            ("XDR", 25.0),
        ];
        let (width, speed) = word.split_once('x')?;
        let width = width.parse().ok().filter(|&width| width > 0)?;
        let &(speed, lane) = LANES.iter().find(|(name, _)| *name == speed)?;
        Some(Self { width, speed, lane })
    }
}

impl fmt::Display for Rate {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}x{}", self.width, self.speed)
    }
}

/// A port with its link.
#[derive(Clone, Copy, Debug)]
pub(super) struct Port {
    pub(super) number: u16,
    /// Index of the node at the other end.
    pub(super) peer: usize,
    pub(super) rate: Rate,
}

/// A node.
#[derive(Debug)]
pub(super) struct Item {
    pub(super) kind: ItemKind,
    /// `S-0002c903…` or `H-0002c903…`.
    pub(super) guid: String,
    pub(super) description: String,
    pub(super) ports: Vec<Port>,
}

impl Item {
    /// Returns the description, or the GUID if there is none.
    pub(super) fn title(&self) -> String {
        match self.description.as_str() {
            "" => shown(&self.guid),
            text => shown(text),
        }
    }
}

/// The nodes of a listing, in its order.
#[derive(Debug, Default)]
pub(super) struct Listing {
    pub(super) items: Vec<Item>,
}

impl Listing {
    /// Reads a listing.
    ///
    /// # Errors
    ///
    /// Every line of another form, GUIDs that occur twice, links to nodes that are not listed.
    pub(super) fn read(file: &str, text: &str) -> Result<Self, InputError> {
        let mut problems = Problems::new(file);
        let mut reader = Reader::default();
        let readable = fits(&mut problems, text);
        for (line, content) in (1..).zip(text.lines()).take_while(|_| readable) {
            reader.line(line, content, &mut problems);
        }
        let listing = reader.linked(&mut problems);
        problems.into_result(listing)
    }
}

/// A port whose peer is not looked up yet.
struct Unlinked {
    line: u32,
    item: usize,
    number: u16,
    peer: String,
    rate: Rate,
}

#[derive(Default)]
struct Reader {
    items: Vec<Item>,
    by_guid: BTreeMap<String, usize>,
    ports: Vec<Unlinked>,
}

impl Reader {
    fn line(&mut self, line: u32, content: &str, problems: &mut Problems) {
        let content = content.trim();
        if content.is_empty() || content.starts_with('#') || is_heading(content) {
            return;
        }
        let (data, comment) = content.split_once('#').unwrap_or((content, ""));
        let taken = match data.split_whitespace().next() {
            Some("Switch") => self.item(ItemKind::Switch, data, comment),
            Some("Ca") => self.adapter(data, comment),
            Some("Rt") => self.item(ItemKind::Router, data, comment),
            Some(word) if word.starts_with('[') => self.port(line, data, comment),
            _ => None,
        };
        if taken.is_none() {
            let wanted = "a Switch, Ca or Rt with its number of ports, a new GUID and a description, or a port";
            problems.value(line, "line", content, wanted);
        }
    }

    fn item(&mut self, kind: ItemKind, data: &str, comment: &str) -> Option<()> {
        let _ports: u16 = data.split_whitespace().nth(1)?.parse().ok()?;
        let guid = quoted(data)?.to_owned();
        let description = quoted(comment)?.trim().to_owned();
        let index = self.items.len();
        if self.by_guid.insert(guid.clone(), index).is_some() {
            return None;
        }
        self.items.push(Item {
            kind,
            guid,
            description,
            ports: Vec::new(),
        });
        Some(())
    }

    fn adapter(&mut self, data: &str, comment: &str) -> Option<()> {
        // A GUID names a host without another name.
        is_file_name(quoted(data)?).then_some(())?;
        self.item(ItemKind::Adapter, data, comment)
    }

    fn port(&mut self, line: u32, data: &str, comment: &str) -> Option<()> {
        let (number, _) = data.strip_prefix('[')?.split_once(']')?;
        let after = comment.rsplit_once('"').map_or(comment, |(_, after)| after);
        self.ports.push(Unlinked {
            line,
            item: self.items.len().checked_sub(1)?,
            number: number.trim().parse().ok()?,
            peer: quoted(data)?.to_owned(),
            rate: after.split_whitespace().find_map(Rate::parse)?,
        });
        Some(())
    }

    fn linked(mut self, problems: &mut Problems) -> Listing {
        for port in self.ports {
            let Some(&peer) = self.by_guid.get(&port.peer) else {
                problems.value(port.line, "peer", &port.peer, "a node of the listing");
                continue;
            };
            self.items[port.item].ports.push(Port {
                number: port.number,
                peer,
                rate: port.rate,
            });
        }
        Listing { items: self.items }
    }
}

/// Decides whether a line is a key such as `vendid`, or a heading of the grouped form (`-g`).
fn is_heading(content: &str) -> bool {
    const KEYS: [&str; 6] = [
        "vendid",
        "devid",
        "sysimgguid",
        "switchguid",
        "caguid",
        "rtguid",
    ];
    const HEADINGS: [&str; 6] = ["Non-Chassis", "Chassis", "Spine", "Line", "Slot", "SRBD"];
    let key = content.split('=').next().unwrap_or_default();
    let word = content.split_whitespace().next().unwrap_or_default();
    KEYS.contains(&key) || HEADINGS.contains(&word)
}

/// Returns the text between the first two quotes.
fn quoted(text: &str) -> Option<&str> {
    text.split_once('"')?
        .1
        .split_once('"')
        .map(|(inside, _)| inside)
}
