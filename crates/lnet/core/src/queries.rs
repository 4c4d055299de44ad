//! Queries: what a caller asks the core. They change nothing that the core decides.

use std::time::Duration;

use lnet_policy::RuleList;
use lnet_types::{Nid, Time};

use crate::Core;
use crate::fabric::discovery::DiscoveryView;
use crate::fabric::gateways::distance::Distance;
use crate::fabric::gateways::obstacle::NoPath;
use crate::fabric::news::News;
use crate::fabric::own::RoutingState;
use crate::fabric::select::{Choice, Observer, SelectError, SendQuery, Unobserved};
use crate::fabric::watch::{WatchedEvent, Watcher};
use crate::ground::counters::Counters;
use crate::ground::globals::Globals;
use crate::ground::io::{Landing, Place, TxId};
use crate::ground::md::MdHandle;
use crate::traffic::fault::{DelayRule, DropRule, FaultStats};
use crate::traffic::send::tx::{Tx, Work};

impl Core {
    /// Returns the node-wide parameters in force.
    #[must_use]
    pub fn globals(&self) -> &Globals {
        &self.ground().config.globals
    }

    /// Returns whether this node forwards messages for other nodes.
    #[must_use]
    pub fn is_router(&self) -> bool {
        self.ground().config.routing
    }

    /// Returns the node's counters.
    #[must_use]
    pub fn counters(&self) -> &Counters {
        &self.ground().counters
    }

    /// Returns whether no message is in flight except this node's own pings of gateways and for recovery. A clean
    /// shutdown waits for this.
    #[must_use]
    pub fn is_idle(&self) -> bool {
        self.traffic().rx.is_empty() && self.traffic().tx.iter().all(|(_, tx)| self.is_check(tx))
    }

    fn is_check(&self, tx: &Tx) -> bool {
        let md = tx.descriptor().and_then(|md| self.traffic().mds.get(md));
        md.is_some_and(|md| md.owner.is_started_here())
    }

    /// Returns the next hop of the last operation that was started from a descriptor, whether or not it has been sent.
    /// Returns `None` if no response is awaited or tracked.
    #[must_use]
    pub fn next_hop(&self, md: MdHandle) -> Option<Nid> {
        self.traffic().mds.get(md)?.responses.next_hop()
    }

    /// Returns the place where the reply to a GET that is being sent will land; `None` if the message is no GET of a
    /// program. An LND whose network can write to this memory lets the target write its reply there.
    #[must_use]
    pub fn reply_landing(&self, tx: TxId) -> Option<Landing> {
        let Work::Request { md: handle, .. } = self.traffic().tx.get(tx)?.work else {
            return None;
        };
        let md = self.traffic().mds.get(handle)?;
        let landing = Landing {
            place: md.owner.place(handle),
            offset: 0,
            length: md.spec.length,
        };
        matches!(landing.place, Place::Md(_)).then_some(landing)
    }

    /// Returns how often an interface of this node went down, or a gateway lost its last connection, since the node's
    /// start. A program that waits for a reply, which may have been on the lost path, retries when this number grows.
    #[must_use]
    pub fn paths_lost(&self) -> u64 {
        self.fabric().paths_lost
    }

    /// Returns the path that this message would take now.
    ///
    /// # Errors
    ///
    /// The reason why there is no path.
    pub fn choose(&self, query: &SendQuery) -> Result<Choice, SelectError> {
        self.fabric().explain(query, &mut Unobserved)
    }

    /// Returns the path that this message would take now, and reports to `observer` why. The code that selects paths
    /// for sending selects this path, too; nothing is sent and nothing changes.
    ///
    /// # Errors
    ///
    /// The reason why there is no path.
    pub fn explain<O: Observer>(
        &self,
        query: &SendQuery,
        observer: &mut O,
    ) -> Result<Choice, SelectError> {
        self.fabric().explain(query, observer)
    }

    /// Returns the distance to `nid`.
    ///
    /// # Errors
    ///
    /// [`SelectError::NoRoute`] if neither a local net nor a route leads to it.
    pub fn distance(&self, nid: Nid) -> Result<Distance, SelectError> {
        self.fabric().distance(nid)
    }

    /// Returns the reason why no message can go to a NID; `None` if an interface or a live route leads to its net.
    #[must_use]
    pub fn no_path_to(&self, nid: Nid) -> Option<NoPath> {
        self.fabric().no_path_to(nid)
    }

    /// Returns the probable reason why a message to a NID got no answer in time: the faults of the routes to the NID,
    /// or gateways that have not answered the ping in flight. `None` if an interface, or a live route without such a
    /// ping, leads to the net of the NID.
    #[must_use]
    pub fn no_answer_from(&self, nid: Nid) -> Option<NoPath> {
        self.fabric().no_answer_from(nid)
    }

    /// Returns the NID by which this node is known: its first one.
    #[must_use]
    pub fn primary_nid(&self) -> Option<Nid> {
        self.fabric().primary_nid()
    }

    /// Returns whether one of this node's interfaces, loopback included, has this NID.
    #[must_use]
    pub fn owns(&self, nid: Nid) -> bool {
        self.fabric().nis.by_nid(nid).is_some()
    }

    /// Returns the state of routing.
    #[must_use]
    pub fn routing(&self) -> RoutingState {
        self.fabric().routing()
    }

    /// Returns whether this node routes, or will when it has started; false from the moment when it begins to stop.
    #[must_use]
    pub fn is_routing_on(&self) -> bool {
        self.fabric().is_routing_on()
    }

    /// Returns how long a change of routing still takes, at least and at most; `None` if no change is under way. A node
    /// that stops waits for its buffers, so that the two times differ.
    #[must_use]
    pub fn routing_change_left(&self, now: Time) -> Option<(Duration, Duration)> {
        self.fabric().routing_change_left(now)
    }

    /// Returns the state of the discovery of the peer with this NID; `None` if this node never tried to discover the
    /// peer.
    #[must_use]
    pub fn discovery(&self, nid: Nid) -> Option<DiscoveryView> {
        let peer_ni = self
            .fabric()
            .peers
            .by_nid(self.fabric().peers.primary_of(nid))?;
        Some(peer_ni.discovery.as_ref()?.view())
    }

    /// Returns the selection rules, in their order.
    #[must_use]
    pub fn rules(&self) -> &RuleList {
        self.fabric().policies.rules()
    }

    /// Returns how often the rules have changed. If two calls return the same number, the rules did not change between
    /// them.
    #[must_use]
    pub fn rule_changes(&self) -> u64 {
        self.fabric().policies.changes()
    }

    /// Returns the drop rules with their counts, newest first.
    pub fn drop_rules(&self) -> impl Iterator<Item = (&DropRule, FaultStats)> {
        self.traffic().faults.drop_rules()
    }

    /// Returns the delay rules with their counts, newest first.
    pub fn delay_rules(&self) -> impl Iterator<Item = (&DelayRule, FaultStats)> {
        self.traffic().faults.delay_rules()
    }

    /// Takes the news since the last call, oldest first, and the number of news that were left out.
    pub fn take_news(&mut self) -> (Vec<News>, u64) {
        self.upkeep.traffic.fabric.news.take()
    }

    /// Starts to watch: the core keeps events from now on. `successes` includes attempts to send that succeed.
    pub fn watch(&mut self, successes: bool) -> Watcher {
        self.upkeep.traffic.fabric.watch.begin(successes)
    }

    /// Ends a watch.
    pub fn unwatch(&mut self, watcher: Watcher) {
        self.upkeep.traffic.fabric.watch.end(watcher);
    }

    /// Returns the next events of a watcher, oldest first and at most `most`, and how many events before them were
    /// lost.
    pub fn watched(&self, watcher: &mut Watcher, most: usize) -> (Vec<WatchedEvent>, u64) {
        self.fabric().watch.read(watcher, most)
    }
}
