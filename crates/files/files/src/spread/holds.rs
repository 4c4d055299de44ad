//! Files that are held for a client: at each gateway that may get an operation on them.

use crate::spread::Spread;
use crate::spread::drive::Job;
use crate::spread::health::State;
use crate::spread::order::Mode;
use crate::spread::table::{Id, Identity};
use crate::{Caller, Data, Errno, Handle, Reply, Request};

impl Spread {
    /// Holds a file at the gateway that gets its operations. If several gateways get them, holds the file at the others
    /// too, as far as they are up and know the file: a file that such a gateway does not hold may be stale there.
    pub(crate) fn hold(
        &self,
        caller: &Caller,
        request: &Request,
        (_, identity): (Id, Identity),
    ) -> Result<Reply, Errno> {
        let order = self.order(request, Some(identity));
        let reply = self.drive(&order, &mut Job::new(caller, request, Data::None))?;
        if matches!(self.inner.options.mode, Mode::Stripe | Mode::LoadBalance) {
            self.at_each_up(|gateway| {
                let _held = self.attempt(gateway, &mut Job::new(caller, request, Data::None));
            });
        }
        Ok(reply)
    }

    /// Renews the holds at each gateway that is up, with the files that the gateway knows. A gateway that was restarted
    /// gets to know a file again with the next operation on it.
    pub(crate) fn renew(&self, caller: &Caller, request: &Request) -> Reply {
        let Request::Renew {
            holder,
            held,
            released,
        } = request
        else {
            return Reply::Done;
        };
        self.at_each_up(|gateway| {
            let request = Request::Renew {
                holder: *holder,
                held: self.known_at(gateway, held),
                released: self.known_at(gateway, released),
            };
            // A gateway without an answer is noticed by the next operation that needs the gateway.
            let _renewed = self.inner.gateways[gateway].call(caller, &request, Data::None);
        });
        Reply::Done
    }

    fn at_each_up(&self, act: impl Fn(usize) + Sync) {
        let act = &act;
        let mut parts: Vec<crate::spread::Part<'_>> = Vec::new();
        for (gateway, at) in self.inner.gateways.iter().enumerate() {
            if at.state() == State::Up {
                parts.push(Box::new(move || act(gateway)));
            }
        }
        self.inner.surroundings.together(parts);
    }

    fn known_at(&self, gateway: usize, handles: &[Handle]) -> Vec<Handle> {
        let mut table = self.table();
        let known = |&handle: &Handle| {
            let (id, _) = table.find(handle).ok()?;
            table.at_gateway(id, gateway)
        };
        handles.iter().filter_map(known).collect()
    }
}
