//! Discovers a peer and waits until discovery has ended.

use std::time::{Duration, Instant};

use lnet_core::{DiscoveryView, Errno, PeerState, PeerView};
use lnet_types::Nid;

use crate::node::{Node, NodeError};
use crate::ping::PingError;
use crate::queue::WaitError;

/// The first pause between two looks at the state of a discovery. Each further pause is twice as long, up to
/// [`LONGEST_PAUSE`]. Polling is needed because no event reports the end of a discovery: the core also
/// discovers peers for its own messages.
const FIRST_PAUSE: Duration = Duration::from_micros(200);
const LONGEST_PAUSE: Duration = Duration::from_millis(20);

impl Node {
    /// Discovers the peer with this NID and waits until discovery ends. Pings the peer even if its NIDs are
    /// known; pushes this node's NIDs to the peer if it is Multi-Rail. Returns what this node knows of the peer
    /// afterwards.
    ///
    /// # Errors
    ///
    /// [`PingError::DiscoveryOff`]; [`PingError::Failed`] with `EINVAL` if `target` is loopback. Other errors: no answer in
    /// time, no path to the peer.
    pub fn discover(&self, target: Nid, timeout: Duration) -> Result<PeerView, PingError> {
        let failed = |errno| PingError::failed(target, errno);
        if !self.look(|engine| engine.core().globals().discovery) {
            return Err(PingError::DiscoveryOff);
        }
        let begun = Instant::now();
        // No event arrives in this queue. It is needed because a node with `Progress::Caller` runs only while a
        // caller waits.
        let queue = self.event_queue();
        let started = self.with_engine(|engine, now| engine.core_mut().discover(target, now));
        started.map_err(failed)?;
        let mut pause = FIRST_PAUSE;
        while self
            .discovery(target)
            .is_some_and(|view| is_under_way(&view))
        {
            if begun.elapsed() >= timeout {
                return Err(self.with_cause(PingError::timed_out(target, timeout)));
            }
            if let Err(WaitError::Closed) = queue.wait(Some(pause)) {
                return Err(PingError::Node(NodeError::ShutDown));
            }
            pause = (pause * 2).min(LONGEST_PAUSE);
        }
        match self.discovery(target).map(|view| view.failure) {
            Some(Some(errno)) => Err(self.with_cause(failed(errno))),
            _ => self
                .with_engine(|engine, _| engine.core().peer_with(target))
                .ok_or(failed(Errno::ENOENT)),
        }
    }

    fn discovery(&self, target: Nid) -> Option<DiscoveryView> {
        self.with_engine(|engine, _| engine.core().discovery(target))
    }
}

fn is_under_way(view: &DiscoveryView) -> bool {
    view.state.contains(PeerState::DISCOVERING)
}
