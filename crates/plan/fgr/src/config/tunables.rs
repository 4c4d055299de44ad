//! Tunables of a net, as `peer_credits=32,credits=1024,peercredits_hiw=16`: those of LNet by their
//! names, all others for the LND.

use std::fmt::Write;
use std::str::FromStr;

use lnet_config::NetConfig;
use lnet_types::Net;

use crate::config::{Site, SiteError};
use crate::input::is_file_name;
use crate::problem::shown;

/// The tunables that every LND has.
const OF_LNET: [&str; 4] = [
    "peer_timeout",
    "peer_credits",
    "peer_buffer_credits",
    "credits",
];

/// Values of the interfaces of a net, by name.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct NetTunables(Vec<(String, u32)>);

impl FromStr for NetTunables {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        let pair = |word: &str| {
            let (name, value) = word.split_once('=')?;
            let is_name = is_file_name(name);
            Some((name.to_owned(), value.parse().ok().filter(|_| is_name)?))
        };
        let pairs = text.split(',').map(|word| {
            let wanted = || format!("'{}' is not NAME=NUMBER", shown(word));
            pair(word.trim()).ok_or_else(wanted)
        });
        Ok(Self(pairs.collect::<Result<_, _>>()?))
    }
}

impl NetTunables {
    /// Gives every interface of a net these values.
    ///
    /// # Errors
    ///
    /// [`SiteError::Tunables`]: a name or value that the LND of the net does not have.
    fn apply(&self, net: &mut NetConfig) -> Result<(), SiteError> {
        let (of_lnet, of_lnd): (Vec<_>, Vec<_>) = self
            .0
            .iter()
            .partition(|(name, _)| OF_LNET.contains(&name.as_str()));
        let mut text = format!(
            "net:\n- net type: {}\n  local NI(s):\n  - interfaces: {{0: i}}\n",
            net.net
        );
        for (key, pairs) in [("tunables", of_lnet), ("lnd tunables", of_lnd)] {
            let pairs: Vec<String> = pairs
                .iter()
                .map(|(name, value)| format!("{name}: {value}"))
                .collect();
            if !pairs.is_empty() {
                // Writing to a String cannot fail.
                let _ = writeln!(text, "    {key}: {{{}}}", pairs.join(", "));
            }
        }
        let refused = |reason: String| SiteError::Tunables {
            net: net.net,
            reason,
        };
        // The user has not seen the document, so the place in it is left out.
        let read = lnet_config::parse(&text).map_err(|error| {
            let problem = error.problem();
            refused(format!("{problem}; {}", problem.help()))
        })?;
        let given = read.nets.into_iter().flat_map(|net| net.nis).next();
        let given = given.ok_or_else(|| refused("none".to_owned()))?;
        for ni in &mut net.nis {
            ni.tunables = given.tunables.clone();
            ni.lnd_tunables = given.lnd_tunables.clone();
        }
        Ok(())
    }
}

impl Site {
    /// Gives the interfaces of all nodes on some nets these tunables.
    ///
    /// # Errors
    ///
    /// [`SiteError::Tunables`]: a name or value that the LND of a net does not have.
    pub fn tune(
        &mut self,
        tunables: &NetTunables,
        is_on: impl Fn(Net) -> bool,
    ) -> Result<(), SiteError> {
        let nets = self
            .classes
            .iter_mut()
            .flat_map(|class| &mut class.config.nets);
        nets.filter(|net| is_on(net.net))
            .try_for_each(|net| tunables.apply(net))
    }
}
