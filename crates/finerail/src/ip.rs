//! What `ip` of iproute2 says of this machine: its interfaces, and the route to an address.

use std::io::Read;
use std::net::IpAddr;
use std::process::{Command, Stdio};

use anyhow::{Context, bail};
use serde::Deserialize;

/// The most bytes that are read of an output. A machine with 10,000 addresses prints less.
const OUTPUT_MAX: u64 = 16 << 20;

/// The way of packets to an address, as the routing table has it.
#[derive(Clone, Debug, Deserialize, PartialEq, Eq)]
pub(crate) struct RouteTo {
    /// The interface.
    pub(crate) dev: String,
    /// The next router; `None` in the subnet of the interface.
    pub(crate) gateway: Option<IpAddr>,
    /// The source address that the system would take.
    pub(crate) prefsrc: Option<IpAddr>,
}

/// Returns the interfaces of this machine as `ip -j addr` prints them.
///
/// # Errors
///
/// `ip` is not installed or fails.
pub(crate) fn addresses() -> anyhow::Result<String> {
    output(&["-j", "addr"])
}

/// Returns the route to an address. With `from`, the route of packets with this source address.
///
/// # Errors
///
/// `ip` is not installed, or there is no route.
pub(crate) fn route_to(to: IpAddr, from: Option<IpAddr>) -> anyhow::Result<RouteTo> {
    let (to, from) = (to.to_string(), from.map(|from| from.to_string()));
    let mut words = vec!["-j", "route", "get", &to];
    if let Some(from) = &from {
        words.extend(["from", from]);
    }
    let text = output(&words)?;
    let routes: Vec<RouteTo> = serde_json::from_str(&text)
        .with_context(|| format!("cannot read what `ip {}` prints", words.join(" ")))?;
    let first = routes.into_iter().next();
    first.with_context(|| format!("this machine has no route to {to}"))
}

fn output(words: &[&str]) -> anyhow::Result<String> {
    let shown = format!("ip {}", words.join(" "));
    let mut command = Command::new("ip");
    command.args(words).stdin(Stdio::null());
    let child = command
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn();
    let mut child = child.with_context(|| format!("cannot run `{shown}` (iproute2)"))?;
    let (mut text, mut complaint) = (String::new(), String::new());
    if let Some(out) = child.stdout.take() {
        out.take(OUTPUT_MAX).read_to_string(&mut text)?;
    }
    if let Some(err) = child.stderr.take() {
        err.take(OUTPUT_MAX).read_to_string(&mut complaint)?;
    }
    if !child.wait()?.success() {
        bail!("`{shown}` fails: {}", complaint.trim());
    }
    Ok(text)
}
