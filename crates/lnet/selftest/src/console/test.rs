//! Tests: what a test loads, and which clients load which servers.

use lnet_types::Nid;

use super::ConsoleError;
use crate::load::Work;
use crate::pattern::Check;
use crate::wire::{BULK_MAX, BulkRequest, Params, Service};

/// The operation that a test loads.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kind {
    /// Pings.
    Ping,
    /// Bulk.
    Bulk {
        /// True if the servers fetch, false if they send.
        is_write: bool,
        /// Length of the bulk of each RPC, in bytes.
        len: u32,
        /// How data is checked.
        check: Check,
        /// Where data begins in the first page of the client, in bytes.
        offset: u32,
    },
}

impl Kind {
    /// Returns the name that lists print.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::Ping => "ping",
            Self::Bulk { .. } => "brw",
        }
    }

    pub(super) const fn service(self) -> Service {
        match self {
            Self::Ping => Service::PING,
            Self::Bulk { .. } => Service::BULK,
        }
    }

    pub(super) fn params(self) -> Params {
        match self {
            Self::Ping => Params::Ping { size: 0, flags: 0 },
            Self::Bulk {
                is_write,
                len,
                check,
                offset,
            } => Params::Bytes {
                operation: if is_write { 2 } else { 1 },
                flags: check.flags(),
                len,
                offset,
            },
        }
    }
}

/// The assignment of servers to clients: a block of clients loads a block of servers, the next block of clients
/// the next block of servers.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Distribution {
    /// Clients in a block.
    pub clients: usize,
    /// Servers in a block.
    pub servers: usize,
}

impl Default for Distribution {
    fn default() -> Self {
        Self {
            clients: 1,
            servers: 1,
        }
    }
}

impl Distribution {
    /// Parses a distribution such as `2:1`: clients, then servers.
    ///
    /// # Errors
    ///
    /// The text is not two numbers above 0 with a colon between them.
    pub fn parse(text: &str) -> Result<Self, ConsoleError> {
        let number = |text: &str| text.parse().ok().filter(|number| *number > 0);
        let both = text.split_once(':').and_then(|(clients, servers)| {
            let (clients, servers) = (number(clients)?, number(servers)?);
            Some(Self { clients, servers })
        });
        both.ok_or_else(|| {
            ConsoleError::BadParameter(format!("'{text}' is no distribution such as 1:1 or 4:2"))
        })
    }

    /// Returns the servers of the client at this place in its group. After the last server comes the first.
    #[must_use]
    pub fn servers_of(self, client: usize, servers: &[Nid]) -> Vec<Nid> {
        let first = client / self.clients * self.servers;
        let all = servers.iter().copied().cycle();
        let start = first.checked_rem(servers.len()).unwrap_or(0);
        all.skip(start)
            .take(self.servers.min(servers.len()))
            .collect()
    }
}

/// A test of a batch.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Test {
    /// The operation that the test loads.
    pub kind: Kind,
    /// RPCs of each unit; `None` means without end.
    pub repeat: Option<u32>,
    /// Units for each pair of client and server. A unit has one RPC under way at a time.
    pub concurrency: u32,
    /// True if the first error ends a unit.
    pub stop_on_error: bool,
    /// Which clients load which servers.
    pub distribution: Distribution,
    /// The name of the group of clients.
    pub from: String,
    /// The name of the group of servers.
    pub to: String,
}

/// Parses the name of a test and its parameters: `ping`, or `brw [read|write] [size=4K] [check=full] [off=64]`.
///
/// # Errors
///
/// The name or a parameter is unknown, or a value is out of range.
pub fn parse_parameters(words: &[String]) -> Result<Kind, ConsoleError> {
    let bad = |text: String| Err(ConsoleError::BadParameter(text));
    let Some((name, words)) = words.split_first() else {
        return bad("no test is named: ping or brw".to_owned());
    };
    match name.as_str() {
        "ping" if words.is_empty() => return Ok(Kind::Ping),
        "ping" => return bad(format!("ping has no parameter '{}'", words.join(" "))),
        "brw" => {}
        _ => return bad(format!("there is no test '{name}': ping or brw")),
    }
    let (mut is_write, mut len, mut check, mut offset) = (None, PAGE, Check::None, 0);
    for word in words {
        match word.split_once('=') {
            None if ["read", "r", "write", "w"].contains(&word.as_str()) => {
                let wanted = word.starts_with('w');
                if is_write.replace(wanted) == Some(!wanted) {
                    return bad("brw reads or writes: give a test for each".to_owned());
                }
            }
            Some(("size", size)) => len = parse_size(size)?,
            Some(("off", at)) => offset = parse_size(at)?,
            Some(("check", name)) => match Check::of_name(name) {
                Some(named) => check = named,
                None => {
                    return bad(format!(
                        "check is none, simple, full or discard, not '{name}'"
                    ));
                }
            },
            _ => return bad(format!("brw has no parameter '{word}'")),
        }
    }
    let is_write = is_write.unwrap_or(false);
    let operation = if is_write {
        BulkRequest::WRITE
    } else {
        BulkRequest::READ
    };
    if Work::bulk(operation, check.flags().into(), len).is_none() {
        return bad(format!(
            "a size of {len} is not between 1 and {BULK_MAX} bytes"
        ));
    }
    if offset >= PAGE || offset % 8 != 0 {
        return bad(format!("off={offset} is no multiple of 8 below {PAGE}"));
    }
    Ok(Kind::Bulk {
        is_write,
        len,
        check,
        offset,
    })
}

/// Length of a page in bytes.
const PAGE: u32 = 4096;

/// Parses a size such as `4096`, `4K` or `1M`, in bytes.
///
/// # Errors
///
/// The text has another form, or the size does not fit into 32 bits.
pub(crate) fn parse_size(text: &str) -> Result<u32, ConsoleError> {
    let (number, unit) = match text.strip_suffix(['k', 'K']) {
        Some(number) => (number, 1 << 10),
        None => match text.strip_suffix(['m', 'M']) {
            Some(number) => (number, 1 << 20),
            None => (text, 1_u32),
        },
    };
    let size = number
        .parse()
        .ok()
        .and_then(|number: u32| number.checked_mul(unit));
    size.ok_or_else(|| {
        ConsoleError::BadParameter(format!("'{text}' is no size such as 4096, 4K or 1M"))
    })
}
