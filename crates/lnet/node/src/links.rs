//! Watches the link and the address under each NI; sets the NI down when one of them disappears, up when it
//! comes back.
//!
//! A link that is down, or an address that is removed, is a fatal error of its NIs [HEALTH-32]:
//! selection ranks these NIs last, and peers learn that they are down. An
//! address label (`eth0:1`) has the state of its interface.

use std::net::IpAddr;

use lnet_core::{Core, NiId};
use lnet_types::{Nid, Time};
use mio::unix::SourceFd;
use mio::{Interest, Registry, Token};
use sys::{InterfaceAddress, LinkWatch};
use tracing::warn;

use crate::news::NewsLimit;

/// The links under the NIs of a node.
#[derive(Debug, Default)]
pub(crate) struct Links {
    watch: Option<LinkWatch>,
    nis: Vec<LinkedNi>,
    news: NewsLimit,
}

#[derive(Debug)]
struct LinkedNi {
    ni: NiId,
    nid: Nid,
    interface: String,
    /// The NI's address, if the interface has exactly this address. `None` if the interface only owns the
    /// address's network, as `lo` does.
    address: Option<IpAddr>,
    state: State,
    /// True while the port of the RDMA device is not active.
    is_port_down: bool,
}

/// The state of the link and the address under an NI.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum State {
    Up,
    LinkDown,
    AddressGone,
}

impl Links {
    /// Begins to watch. Without a netlink socket, which some sandboxes deny, all links count as up.
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

    /// Begins to watch an NI, if its address belongs to an interface.
    pub(crate) fn add(&mut self, ni: NiId, nid: Nid, system: &[InterfaceAddress]) {
        if let Some(interface) = interface_of(nid, system) {
            let has = |address: &IpAddr| system.iter().any(|known| known.address == *address);
            self.nis.push(LinkedNi {
                ni,
                nid,
                interface: interface.to_owned(),
                address: nid.ip().filter(has),
                state: State::Up,
                is_port_down: false,
            });
        }
    }

    /// Returns the network interface that carries an NI's address.
    pub(crate) fn interface(&self, ni: NiId) -> Option<&str> {
        let linked = self.nis.iter().find(|linked| linked.ni == ni)?;
        Some(&linked.interface)
    }

    /// Forgets a removed NI.
    pub(crate) fn remove(&mut self, ni: NiId) {
        self.nis.retain(|linked| linked.ni != ni);
    }

    /// Reads the notifications from the socket and passes changes on to the core. Returns the NIs that went down.
    pub(crate) fn ready(&mut self, core: &mut Core, now: Time) -> Vec<NiId> {
        let Some(watch) = &self.watch else {
            return Vec::new();
        };
        let mut news = false;
        loop {
            match watch.take_notifications() {
                Ok(true) => news = true,
                Ok(false) => break,
                Err(error) => {
                    warn!(%error, "cannot read changes of links");
                    break;
                }
            }
        }
        match news {
            true => self.refresh(core, now),
            false => Vec::new(),
        }
    }

    /// Queries the state of every link and address and reports changes to the core. Returns the NIs that went down.
    pub(crate) fn refresh(&mut self, core: &mut Core, now: Time) -> Vec<NiId> {
        let mut went_down = Vec::new();
        if self.watch.is_none() {
            return went_down;
        }
        let found = sys::links().and_then(|links| Ok((links, sys::interface_addresses()?)));
        let (links, system) = match found {
            Ok(found) => found,
            Err(error) => {
                warn!(%error, "cannot query the state of links and addresses");
                return went_down;
            }
        };
        for linked in &mut self.nis {
            // An interface that no longer exists counts as down.
            let carrier = links.get(&linked.interface).copied().unwrap_or(false);
            let state = linked.state_with(carrier, &system);
            if state == linked.state {
                continue;
            }
            if linked.state == State::Up {
                went_down.push(linked.ni);
            }
            linked.state = state;
            core.set_ni_fatal(linked.ni, linked.is_down(), now);
            if let Some(left_out) = self.news.admit(now) {
                linked.tell(left_out);
            }
        }
        went_down
    }
}

impl Links {
    /// Passes on that the port of an NI's RDMA device has become inactive, or active.
    pub(crate) fn port_changed(&mut self, ni: NiId, is_down: bool, core: &mut Core, now: Time) {
        let Some(linked) = self.nis.iter_mut().find(|linked| linked.ni == ni) else {
            return;
        };
        linked.is_port_down = is_down;
        core.set_ni_fatal(ni, linked.is_down(), now);
        if let Some(left_out) = self.news.admit(now) {
            let (nid, interface) = (linked.nid, &linked.interface);
            match is_down {
                true => warn!(%nid, interface, left_out, "the port of the RDMA device is down"),
                false => warn!(%nid, interface, left_out, "the port of the RDMA device is active"),
            }
        }
    }
}

impl LinkedNi {
    fn is_down(&self) -> bool {
        self.state != State::Up || self.is_port_down
    }

    fn state_with(&self, carrier: bool, system: &[InterfaceAddress]) -> State {
        let is_here = |known: &InterfaceAddress| {
            let device = known.name.split(':').next();
            Some(known.address) == self.address && device == Some(self.interface.as_str())
        };
        if !carrier {
            State::LinkDown
        } else if self.address.is_some() && !system.iter().any(is_here) {
            State::AddressGone
        } else {
            State::Up
        }
    }

    fn tell(&self, left_out: u64) {
        let what = match self.state {
            State::Up => "an NI is up again: it has a link and an address",
            State::LinkDown => "an NI is down: its link has no carrier or does not exist",
            State::AddressGone => "an NI is down: its address was removed from the interface",
        };
        let (nid, interface) = (self.nid, &self.interface);
        if left_out > 0 {
            warn!(%nid, interface, left_out, "{what}");
        } else {
            warn!(%nid, interface, "{what}");
        }
    }
}

/// Returns the interface with the NID's address, else the interface whose own network contains the address
/// (`lo` for `127.0.0.7`).
fn interface_of(nid: Nid, system: &[InterfaceAddress]) -> Option<&str> {
    let address: IpAddr = nid.ip()?;
    let exact = system.iter().find(|known| known.address == address);
    let found = exact.or_else(|| system.iter().find(|known| known.network_contains(address)))?;
    found.name.split(':').next()
}
