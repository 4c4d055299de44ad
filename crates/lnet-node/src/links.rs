//! Which NI stands on which link, and what becomes of it when the link goes down or comes back.
//!
//! A link that is down is a fatal error of its NIs (work item W4 of lnet-selection, section 3.10): they
//! rank last, and peers are told that they are down. An address label (`eth0:1`) shares the fate of
//! its interface.

use std::net::IpAddr;

use lnet_core::{Core, NiId};
use lnet_types::{Nid, Time};
use mio::unix::SourceFd;
use mio::{Interest, Registry, Token};
use sys::{InterfaceAddress, LinkWatch};
use tracing::{info, warn};

/// The links under the NIs of a node.
#[derive(Debug, Default)]
pub(crate) struct Links {
    watch: Option<LinkWatch>,
    nis: Vec<LinkedNi>,
}

#[derive(Debug)]
struct LinkedNi {
    ni: NiId,
    nid: Nid,
    interface: String,
    up: bool,
}

impl Links {
    /// Begins to watch. Without a netlink socket, which some sandboxes refuse, links count as up.
    pub(crate) fn watch(&mut self, registry: &Registry, token: Token) {
        let watch = LinkWatch::open().and_then(|watch| {
            let fd = std::os::fd::AsRawFd::as_raw_fd(&watch);
            registry.register(&mut SourceFd(&fd), token, Interest::READABLE)?;
            Ok(watch)
        });
        match watch {
            Ok(watch) => self.watch = Some(watch),
            Err(error) => warn!(%error, "links cannot be watched: every interface counts as up"),
        }
    }

    /// Takes an NI under observation, if its address stands on an interface.
    pub(crate) fn add(&mut self, ni: NiId, nid: Nid, system: &[InterfaceAddress]) {
        if let Some(interface) = interface_of(nid, system) {
            self.nis.push(LinkedNi {
                ni,
                nid,
                interface: interface.to_owned(),
                up: true,
            });
        }
    }

    /// The interface on which an NI's address stands.
    pub(crate) fn interface(&self, ni: NiId) -> Option<&str> {
        let linked = self.nis.iter().find(|linked| linked.ni == ni)?;
        Some(&linked.interface)
    }

    /// Forgets an NI that is gone.
    pub(crate) fn remove(&mut self, ni: NiId) {
        self.nis.retain(|linked| linked.ni != ni);
    }

    /// Takes the news off the socket and passes them on.
    pub(crate) fn ready(&mut self, core: &mut Core, now: Time) {
        let Some(watch) = &self.watch else { return };
        let mut news = false;
        loop {
            match watch.heard() {
                Ok(true) => news = true,
                Ok(false) => break,
                Err(error) => {
                    warn!(%error, "cannot read news of links");
                    break;
                }
            }
        }
        if news {
            self.refresh(core, now);
        }
    }

    /// Asks for the state of every link and tells the core of those that changed.
    pub(crate) fn refresh(&mut self, core: &mut Core, now: Time) {
        if self.watch.is_none() {
            return;
        }
        let links = match sys::links() {
            Ok(links) => links,
            Err(error) => {
                warn!(%error, "cannot ask for the state of links");
                return;
            }
        };
        for linked in &mut self.nis {
            // An interface that is gone is down.
            let up = links.get(&linked.interface).copied().unwrap_or(false);
            if up != linked.up {
                linked.up = up;
                core.set_ni_fatal(linked.ni, !up, now);
                info!(nid = %linked.nid, interface = linked.interface, up, "link changed");
            }
        }
    }
}

/// The interface with the NID's address, else the one whose own network holds it (`127.0.0.7` stands on
/// `lo`).
fn interface_of(nid: Nid, system: &[InterfaceAddress]) -> Option<&str> {
    let address: IpAddr = nid.ip()?;
    let exact = system.iter().find(|known| known.address == address);
    let found = exact.or_else(|| system.iter().find(|known| known.network_contains(address)))?;
    found.name.split(':').next()
}
