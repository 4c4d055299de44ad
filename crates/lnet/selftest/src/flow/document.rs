//! The file format of flows.

use std::collections::BTreeMap;
use std::time::Duration;

use lnet_types::Nid;
use lnet_types::expr::NidList;
use serde::Deserialize;
use thiserror::Error;

use super::FlowSpec;
use crate::console::parse_size;
use crate::load::Work;
use crate::pattern::Check;

/// Why a file of flows is not valid.
#[derive(Debug, Error)]
pub enum FlowError {
    /// The file is not a document of this format.
    #[error("{0}")]
    Yaml(String),
    /// The file is longer than any description of flows.
    #[error("more than {FILE_MAX} bytes")]
    TooLong,
    /// A flow is not valid: its name, and what is wrong.
    #[error("flow {0}: {1}")]
    Flow(String, String),
    /// The file has no flows.
    #[error("no flows")]
    Empty,
    /// The file has more flows than the limit.
    #[error("{0} flows, more than {FLOWS_MAX}")]
    TooMany(usize),
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Document {
    seconds: Option<f64>,
    count: Option<u64>,
    flows: Vec<FlowText>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct FlowText {
    name: String,
    to: Texts,
    #[serde(default)]
    mix: MixText,
    #[serde(default)]
    sizes: Sizes,
    check: Option<String>,
    concurrency: Option<u32>,
    rate: Option<u32>,
    seconds: Option<f64>,
    count: Option<u64>,
    on_error: Option<OnError>,
    timeout: Option<f64>,
}

#[derive(Deserialize)]
#[serde(untagged)]
enum Texts {
    One(String),
    Many(Vec<String>),
}

#[derive(Deserialize)]
#[serde(untagged)]
enum Sizes {
    Number(u32),
    One(String),
    Weighted(BTreeMap<String, u32>),
}

impl Default for Sizes {
    fn default() -> Self {
        Self::One("1M".to_owned())
    }
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct MixText {
    #[serde(default)]
    read: u32,
    #[serde(default)]
    write: u32,
    #[serde(default)]
    ping: u32,
}

impl Default for MixText {
    fn default() -> Self {
        Self {
            read: 1,
            write: 0,
            ping: 0,
        }
    }
}

#[derive(Deserialize)]
#[serde(rename_all = "lowercase")]
enum OnError {
    Stop,
    Count,
}

/// The limit of the length of a file, in bytes.
pub(crate) const FILE_MAX: usize = 1 << 20;
/// The limit of flows in a file.
const FLOWS_MAX: usize = 64;
/// The limit of servers of a flow.
const SERVERS_MAX: usize = 4096;
/// The limit of RPCs of a flow under way.
const UNITS_MAX: u64 = 1 << 16;
/// The limit of the duration of a flow, in seconds: a year.
const SECONDS_MAX: f64 = 366.0 * 86_400.0;
/// The timeout of an RPC, if the flow names none.
const TIMEOUT: Duration = Duration::from_secs(64);

/// Parses a file of flows.
///
/// # Errors
///
/// [`FlowError`] names the flow, or the place in the document.
pub fn parse(text: &str) -> Result<Vec<FlowSpec>, FlowError> {
    if text.len() > FILE_MAX {
        return Err(FlowError::TooLong);
    }
    let document: Document =
        serde_saphyr::from_str(text).map_err(|error| FlowError::Yaml(error.to_string()))?;
    match document.flows.len() {
        0 => return Err(FlowError::Empty),
        count if count > FLOWS_MAX => return Err(FlowError::TooMany(count)),
        _ => {}
    }
    let one = |flow: &FlowText| {
        let spec = flow.spec(&document);
        spec.map_err(|what| FlowError::Flow(flow.name.escape_debug().to_string(), what))
    };
    document.flows.iter().map(one).collect()
}

impl FlowText {
    fn spec(&self, document: &Document) -> Result<FlowSpec, String> {
        let servers = self.servers()?;
        let mix = [self.mix.read, self.mix.write, self.mix.ping];
        if mix.iter().all(|weight| *weight == 0) {
            return Err("mix has no weight above 0".to_owned());
        }
        let concurrency = self.concurrency.unwrap_or(1);
        if concurrency == 0 || u64::from(concurrency) * servers.len() as u64 > UNITS_MAX {
            return Err(format!("concurrency is 1 to {UNITS_MAX} over all servers"));
        }
        if self.rate == Some(0) {
            return Err("rate is at least 1".to_owned());
        }
        let name = self.check.as_deref().unwrap_or("none");
        let check = Check::of_name(name)
            .ok_or_else(|| format!("check is none, simple, full or discard, not '{name}'"))?;
        let own = self.seconds.is_some() || self.count.is_some();
        let (limit, count) = if own {
            (self.seconds, self.count)
        } else {
            (document.seconds, document.count)
        };
        Ok(FlowSpec {
            name: self.name.escape_debug().to_string(),
            servers,
            mix,
            sizes: self.sizes()?,
            check,
            concurrency,
            rate: self.rate,
            count,
            duration: limit.map(|limit| seconds("seconds", limit)).transpose()?,
            stop_on_error: matches!(self.on_error, Some(OnError::Stop)),
            timeout: match self.timeout {
                Some(timeout) => seconds("timeout", timeout)?,
                None => TIMEOUT,
            },
        })
    }

    fn servers(&self) -> Result<Vec<Nid>, String> {
        let texts = match &self.to {
            Texts::One(text) => std::slice::from_ref(text),
            Texts::Many(texts) => texts,
        };
        let mut servers = Vec::new();
        for text in texts {
            let list: NidList = text.parse().map_err(|error| format!("'{text}': {error}"))?;
            let left = SERVERS_MAX.saturating_sub(servers.len());
            let more = list
                .expand(left)
                .map_err(|error| format!("'{text}': {error}"))?;
            servers.extend(more);
        }
        if servers.is_empty() {
            return Err("to names no server".to_owned());
        }
        Ok(servers)
    }

    fn sizes(&self) -> Result<Vec<(u32, u32)>, String> {
        let sizes = match &self.sizes {
            Sizes::Number(size) => vec![(size.to_string(), 1)],
            Sizes::One(size) => vec![(size.clone(), 1)],
            Sizes::Weighted(sizes) => sizes
                .iter()
                .map(|(text, weight)| (text.clone(), *weight))
                .collect(),
        };
        if sizes.iter().all(|(_, weight)| *weight == 0) {
            return Err("sizes has no weight above 0".to_owned());
        }
        let one = |(text, weight): &(String, u32)| {
            let size = parse_size(text).map_err(|error| error.to_string())?;
            match Work::bulk(1, 1, size) {
                Some(_) => Ok((size, *weight)),
                None => Err(format!("a size of {text} is not between 1 byte and 1M")),
            }
        };
        sizes.iter().map(one).collect()
    }
}

fn seconds(name: &str, value: f64) -> Result<Duration, String> {
    let is_good = value > 0.0 && value <= SECONDS_MAX;
    if is_good {
        Ok(Duration::from_secs_f64(value))
    } else {
        Err(format!("{name} is a time above 0 of at most a year"))
    }
}
