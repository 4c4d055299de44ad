//! The fate of a message between a client and a server, given what is down and what the sender
//! knows to be down.
//!
//! ```text
//!   sender ──route──▶ gateway's NI │ NI on the receiver's net ──▶ receiver
//!     │                 works?     │        works?                  │ accepts it from this NI?
//!     └ takes the best of the routes that it believes usable        └ answers the same way back
//! ```
//!
//! The response takes the router of the request. It arrives if the request
//! arrived: the interfaces are the same, and the sender has the route.

use lnet_types::{Net, Nid};

use crate::check::index::{Index, Party, State, discovers};
use crate::check::{Direction, Loss};

/// The gateways that messages of one direction may take.
pub(super) struct Passages {
    /// The gateways; empty if the sender knows no usable route.
    pub(super) gateways: Vec<Nid>,
    /// Net of a usable gateway that the sender does not take because it is not on the net of the
    /// source NID.
    pub(super) elsewhere: Option<Net>,
}

/// A client and a server, and the NIDs with which they communicate.
pub(super) struct Conversation<'a> {
    pub(super) client: &'a Party<'a>,
    pub(super) server: &'a Party<'a>,
    /// The server's net.
    pub(super) net: Net,
    /// Net of the client's source NID, by which the server knows the client.
    pub(super) session: Net,
    /// Gateways that the client's rules prefer.
    pub(super) by_client: &'a [Nid],
    /// Gateways that the server's rules prefer.
    pub(super) by_server: &'a [Nid],
}

impl Conversation<'_> {
    /// Returns sender, receiver, the receiver's net, the sender's net, and the gateways that the
    /// sender prefers.
    fn ends(&self, direction: Direction) -> (&Party<'_>, &Party<'_>, Net, Net, &[Nid]) {
        let (client, server) = (self.client, self.server);
        match direction {
            Direction::Requests => (client, server, self.net, self.session, self.by_client),
            Direction::ServerStarted => (server, client, self.session, self.net, self.by_server),
        }
    }

    /// Returns the gateways of messages if the sender believes `state` to be down.
    pub(super) fn passages(
        &self,
        index: &Index<'_>,
        direction: Direction,
        view: &State,
    ) -> Passages {
        let (from, _, target, source, preferred) = self.ends(direction);
        let best = |source| index.best(from, target, source, preferred, view);
        let mut passages = Passages {
            gateways: best(Some(source)),
            elsewhere: None,
        };
        // Messages that a server starts always come from the NID to which the client sent its
        // request.
        if passages.gateways.is_empty() && direction == Direction::Requests {
            let others = best(None);
            match discovers(from.class) {
                true => passages.gateways = others,
                false => passages.elsewhere = others.first().map(|gateway| gateway.net()),
            }
        }
        passages
    }

    /// Returns why messages by at least some of the gateways are lost if `state` is down.
    pub(super) fn loss(
        &self,
        index: &Index<'_>,
        direction: Direction,
        passages: &Passages,
        real: &State,
    ) -> Option<Loss> {
        let (_, to, target, session, _) = self.ends(direction);
        if passages.gateways.is_empty() {
            return Some(match passages.elsewhere {
                Some(other) => Loss::SourceKept { session, other },
                None => Loss::NoRoute,
            });
        }
        let mut gateways = passages.gateways.iter();
        gateways.find_map(|&gateway| loss(index, gateway, to, target, real))
    }
}

fn loss(
    index: &Index<'_>,
    gateway: Nid,
    to: &Party<'_>,
    target: Net,
    real: &State,
) -> Option<Loss> {
    let router = index.router(gateway)?;
    let name = || router.name.to_owned();
    let sender = router.nid_on(target);
    let Some(sender) = sender.filter(|&nid| index.works(nid, real)) else {
        return Some(Loss::NotForwarded { router: name() });
    };
    if !index.works(gateway, real) {
        return Some(Loss::NotForwarded { router: name() });
    }
    if !index.accepts(to, gateway.net(), sender) {
        return Some(Loss::Dropped {
            by: to.class.name.clone(),
            router: name(),
            sender,
        });
    }
    None
}
