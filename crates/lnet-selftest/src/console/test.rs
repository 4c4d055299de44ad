//! Tests: what is loaded, and who loads whom.

use lnet_types::Nid;

use super::ConsoleError;
use crate::load::Work;
use crate::pattern::Check;
use crate::wire::{BULK_MAX, BulkRequest, Params, Service};

/// What a test loads.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kind {
    /// Pings.
    Ping,
    /// Bulk.
    Bulk {
        /// The servers fetch; otherwise they send.
        is_write: bool,
        /// Bytes of each RPC.
        len: u32,
        /// How data is checked.
        check: Check,
        /// Where data begins in the first page of the client.
        offset: u32,
    },
}

impl Kind {
    /// As lists print it.
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

/// Which clients load which servers: so many clients after another load so many servers after another.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Distribution {
    /// Clients in a row.
    pub clients: usize,
    /// Servers in a row.
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
    /// `2:1`.
    ///
    /// # Errors
    ///
    /// Anything else.
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

    /// The servers of the client at this place. The last servers are followed by the first.
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
    /// What it loads.
    pub kind: Kind,
    /// RPCs of each unit; `None` without end.
    pub repeat: Option<u32>,
    /// Units for each client and server.
    pub concurrency: u32,
    /// A unit ends with its first error.
    pub stop_on_error: bool,
    /// Which clients load which servers.
    pub distribution: Distribution,
    /// The group of its clients.
    pub from: String,
    /// The group of its servers.
    pub to: String,
}

/// What stands behind the name of a test: `ping`, or `brw [read|write] [size=4K] [check=full] [off=64]`.
///
/// # Errors
///
/// Another name, an unknown or doubled parameter, a value out of range.
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
    let (mut is_write, mut len, mut check, mut offset) = (false, PAGE, Check::None, 0);
    for word in words {
        match word.split_once('=') {
            None if word == "read" || word == "r" => is_write = false,
            None if word == "write" || word == "w" => is_write = true,
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

/// Bytes of a page (section 11.5).
const PAGE: u32 = 4096;

/// `4096`, `4K`, `1M`.
///
/// # Errors
///
/// Anything else, and what 32 bits do not hold.
pub(crate) fn parse_size(text: &str) -> Result<u32, ConsoleError> {
    let (number, unit) = match text.strip_suffix(['k', 'K']) {
        Some(number) => (number, 1 << 10),
        None => match text.strip_suffix(['m', 'M']) {
            Some(number) => (number, 1 << 20),
            None => (text, 1_u32),
        },
    };
    let size = number.parse().ok().and_then(|it: u32| it.checked_mul(unit));
    size.ok_or_else(|| {
        ConsoleError::BadParameter(format!("'{text}' is no size such as 4096, 4K or 1M"))
    })
}
