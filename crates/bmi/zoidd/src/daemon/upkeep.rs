//! Periodic work: heartbeats, silent clients, deadlines, draining.

use std::time::Duration;

use tracing::{info, warn};
use zoid_proto::fwd::{Event, Frame, FrameHeader, FrameType};
use zoid_proto::{DaemonState, Status};

use super::{BEAT, Daemon, since_boot};
use crate::error::Error;
use crate::zbmi::{Departure, Time};

/// The number of silent heartbeats after which a client is lost.
const SILENCES: u32 = 3;

/// How long the last replies may take to be written after everything else has ended.
const FLUSH_LIMIT: Duration = Duration::from_secs(1);

impl Daemon {
    /// Does the work that is due.
    pub(super) fn upkeep(&mut self) -> Result<(), Error> {
        let now = self.now();
        if self
            .engine
            .next_deadline()
            .is_some_and(|deadline| deadline <= now)
        {
            self.engine.tick(now);
            self.pump();
        }
        if now.since(self.beaten) < BEAT {
            return Ok(());
        }
        self.beaten = now;
        self.segment.beat(since_boot())?;
        self.look_after_server();
        self.scrapes.forget_idle();
        if self.accept_again {
            self.accept_again = false;
            self.accept(false);
            self.accept(true);
        }
        let unchecked = now.since(self.checked);
        if unchecked >= self.options.heartbeat / 4 {
            self.checked = now;
            if unchecked >= self.options.heartbeat.max(4 * BEAT) {
                self.resume(now, unchecked);
            } else if let Some((standstill, before)) = self.stood_still.take() {
                self.report_standstill(standstill, before);
            }
            self.lost_before = self.engine.counters().clients_lost;
            self.look_after_clients(now);
        }
        Ok(())
    }

    /// Handles a time in which this process did not run because it or its machine was stopped. No client was
    /// asked meanwhile, so silence does not count. Clients time out earlier than the daemon; the next check
    /// shows which of them have left.
    // [DEATH-25]
    fn resume(&mut self, now: Time, standstill: Duration) {
        self.counters.standstills += 1;
        self.stood_still = Some((standstill, self.lost_before));
        for (_, client) in self.clients.iter_mut() {
            client.heard = now;
        }
    }

    /// Reports a standstill; `before` is the number of clients lost before it.
    fn report_standstill(&mut self, standstill: Duration, before: u64) {
        let lost = self.engine.counters().clients_lost - before;
        self.counters.standstill_losses += lost;
        let left = self.clients.len();
        if lost > 0 {
            warn!(
                ?standstill,
                lost, left, "this daemon did not run, and clients have disconnected"
            );
        } else {
            info!(
                ?standstill,
                left, "this daemon did not run; no client has disconnected"
            );
        }
    }

    /// Sends PING to idle clients, and closes the connections of those that never answer.
    // [DEATH-7]
    fn look_after_clients(&mut self, now: Time) {
        let heartbeat = self.options.heartbeat;
        let mut silent = Vec::new();
        let mut idle = Vec::new();
        for (key, client) in self.clients.iter_mut().filter(|(_, client)| !client.quiet) {
            let silence = now.since(client.heard);
            if silence >= heartbeat * SILENCES {
                silent.push(key);
            } else if silence >= heartbeat && now.since(client.pinged) >= heartbeat {
                client.pinged = now;
                idle.push((key, client.peer.is_some()));
            }
        }
        for (key, _) in idle.into_iter().filter(|(_, attached)| *attached) {
            self.push(key, FrameHeader::new(FrameType::PING, 0), &Frame::Ping);
        }
        for key in silent {
            if let Some(left_out) = self.log_limiter.admit("silent", now) {
                warn!(key, left_out, "a client is silent; closing its connection");
            }
            self.counters.silent += 1;
            self.lose(key, Departure::Broken);
        }
    }

    /// Completes what is in flight and accepts nothing new.
    pub(super) fn drain(&mut self) {
        let now = self.now();
        info!("draining");
        self.draining = Some(now);
        self.segment.set_state(DaemonState::DRAINING);
        self.broadcast(Event::Draining, Status::NONE);
        self.engine.drain(now);
        self.pump();
    }

    /// Returns whether everything that can complete has completed.
    pub(super) fn is_over(&self) -> bool {
        let Some(since) = self.draining else {
            return false;
        };
        let lasted = self.now().since(since);
        if lasted >= self.options.drain + FLUSH_LIMIT {
            return true;
        }
        let written = |client: &crate::client::Client| client.output.is_empty();
        self.drained && self.clients.iter().all(|(_, client)| written(client))
    }
}
