//! What a node's document says of the node's place in the network: its NIs, routes and port, in any form of document.

use std::net::IpAddr;

use lnet_types::{Net, Nid};

use crate::lint::Input;
use crate::lint::node::{Ni, Node};
use crate::lint::source::{LintError, Source};

/// A local NI of a document.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct OwnNi {
    /// The net.
    pub net: Net,
    /// The NID from the document or from the address of the interface; `None` if neither is known.
    pub nid: Option<Nid>,
    /// The interface, if the document names one.
    pub interface: Option<String>,
}

impl From<&Ni<'_>> for OwnNi {
    fn from(ni: &Ni<'_>) -> Self {
        Self {
            net: ni.net,
            nid: ni.nid,
            interface: ni.interface.clone(),
        }
    }
}

impl OwnNi {
    /// Returns the IP address of the NID, if it is known and the net has such addresses.
    #[must_use]
    pub fn address(&self) -> Option<IpAddr> {
        self.nid?.ip()
    }
}

/// The place of a node in the network.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Settings {
    /// The local NIs, without loopback, in the order of the document.
    pub nis: Vec<OwnNi>,
    /// The routes: the remote net and the gateway.
    pub routes: Vec<(Net, Nid)>,
    /// The port in options of the kernel module; `None` if the document says none.
    pub port: Option<u16>,
    /// True if the document does not name all nets, so that a missing net proves nothing.
    pub is_partial: bool,
}

/// Reads the settings of a document. What cannot be read is left out; [`lint`](crate::lint::lint) reports it.
///
/// # Errors
///
/// Returns an error if the `interfaces` text is no output of `ip -j addr`.
pub fn settings(input: &Input<'_>) -> Result<Settings, LintError> {
    let source = Source::read(input)?;
    let node = Node::new(&source, 1);
    let nis = node.nis.iter().map(OwnNi::from);
    let routes = node.routes.iter();
    Ok(Settings {
        nis: nis.collect(),
        routes: routes
            .map(|route| (route.show.net, route.show.gateway))
            .collect(),
        port: source.port,
        is_partial: node.is_partial(),
    })
}
