//! Messages that are copied directly from and to clients' memory.
//!
//! A copy is part of its client's turn, like reading and writing its socket: at most one chunk, in the
//! daemon's only thread, so that other clients do not wait longer than for a stream.

use tracing::{debug, info, warn};
use zoid_proto::Status;
use zoid_proto::fwd::{
    Caps, Data, Event, Frame, FrameHeader, FrameType, Grant, Hello, Place, Places, RecvReply,
};

use super::clients::SLICE;
use super::{Daemon, random_number};
use crate::client::{CopyDirection, Failed, Failure, Memory, Moved, Named, Obstacle, Violation};
use crate::failpoint;
use crate::options::ClientMemory;
use crate::zbmi::{Departure, Errno, GrantId};

/// The most copies per turn, so that a list of many small parts does not starve other clients.
const COPIES: usize = 16;

impl Daemon {
    /// Returns the number for a client to store, if its memory may be accessible.
    pub(super) fn reach(&mut self, key: usize, hello: &Hello) -> Option<u64> {
        let client = self.clients.get_mut(key)?;
        let wanted = self.options.client_memory != ClientMemory::Off;
        if !wanted || !client.stream.is_local() {
            return None;
        }
        let found = match hello.caps.contains(Caps::CLIENT_MEMORY) {
            false => Err(Obstacle::NotOffered),
            true => random_number()
                .map_err(|_| Obstacle::Kernel)
                .and_then(|number| Memory::of(&client.stream, number)),
        };
        match found {
            Ok(memory) => Some(client.memory.insert(memory).number()),
            Err(obstacle) => {
                self.use_stream(key, obstacle);
                None
            }
        }
    }

    /// Sends the client the number to store.
    pub(super) fn push_mark(&mut self, key: usize, mark: Option<u64>) {
        if let Some(number) = mark {
            let header = FrameHeader::new(FrameType::EVENT, 0);
            self.push(key, header, &Frame::Event(Event::Mark(number)));
        }
    }

    /// Counts and logs an obstacle; the client uses the stream.
    fn use_stream(&mut self, key: usize, obstacle: Obstacle) {
        let first = self.counters.count_obstacle(obstacle);
        let (reason, advice) = (obstacle.name(), obstacle.advice());
        match self.options.client_memory {
            _ if !first => debug!(key, reason, "a client's messages use the stream"),
            ClientMemory::On if obstacle != Obstacle::Declined => {
                warn!(
                    reason,
                    "a client's messages use the stream instead of being copied: {advice}; further \
                     clients like it are counted only"
                );
            }
            _ => info!(reason, "a client's messages use the stream: {advice}"),
        }
    }

    /// Handles PLACES.
    pub(super) fn places(
        &mut self,
        key: usize,
        header: &FrameHeader,
        places: &Places<'_>,
    ) -> Result<(), Violation> {
        let Some(client) = self.clients.get_mut(key) else {
            return Ok(());
        };
        match client.places(places)? {
            Named::Nothing | Named::Copy => {}
            Named::Proven => debug!(
                key,
                request = header.request,
                "a client's memory is accessible"
            ),
            Named::Unproven(obstacle) => self.use_stream(key, obstacle),
            Named::Stream(failed) => self.copy_failed(key, failed),
        }
        Ok(())
    }

    /// Copies for a client, for one turn. Returns the number of bytes.
    pub(super) fn copy(&mut self, key: usize) -> usize {
        let mut bytes = 0;
        for _ in 0..COPIES {
            let Some(client) = self.clients.get_mut(key).filter(|client| !client.closing) else {
                break;
            };
            let Some(step) = client.memory.as_mut().and_then(Memory::step) else {
                break;
            };
            match step {
                Ok(moved) => {
                    bytes += moved.bytes;
                    self.copied(key, moved);
                }
                Err(failed) => self.copy_failed(key, failed),
            }
            if bytes >= SLICE {
                break;
            }
        }
        bytes
    }

    fn copied(&mut self, key: usize, moved: Moved) {
        let (now, grant) = (self.now(), GrantId(moved.grant));
        self.counters.copied_bytes += moved.bytes as u64;
        let place = match moved.way {
            CopyDirection::In => failpoint::Place::AmidArrival,
            CopyDirection::Out => failpoint::Place::AmidDelivery,
        };
        self.options.failpoints.pass(place);
        let Some(client) = self.clients.get_mut(key) else {
            return;
        };
        // A client with accessible memory is alive, even if it sends nothing.
        client.heard = now;
        let Some((request, total)) = moved.complete else {
            return self.engine.transfer_progressed(now, grant);
        };
        self.counters.copies += 1;
        match moved.way {
            CopyDirection::In => {
                client.copied(moved.grant);
                self.engine.transfer_arrived(now, grant);
            }
            CopyDirection::Out => {
                self.engine.transfer_progressed(now, grant);
                let end = Data {
                    grant: moved.grant,
                    offset: total,
                };
                let header = FrameHeader::new(FrameType::DATA, request);
                self.push(key, header, &Frame::Data(end));
            }
        }
        self.pump();
    }

    /// Handles a failed copy: the stream is used, or the operation fails.
    fn copy_failed(&mut self, key: usize, failed: Failed) {
        match failed.why {
            Failure::Gone => {
                debug!(key, "a client died during a copy");
                self.lose(key, Departure::Broken);
            }
            Failure::Obstacle(obstacle) => {
                if obstacle != Obstacle::Declined
                    && let Some(client) = self.clients.get_mut(key)
                    && let Some(memory) = &mut client.memory
                {
                    memory.stop_copying(obstacle);
                }
                self.use_stream(key, obstacle);
                self.stream_instead(key, failed);
            }
            Failure::Fault => self.fault(key, &failed),
        }
    }

    /// Moves the message by the stream, from its start.
    // [FWD-44]
    fn stream_instead(&mut self, key: usize, failed: Failed) {
        let (grant, message) = (failed.grant, failed.message);
        let Some(client) = self.clients.get_mut(key) else {
            return;
        };
        match failed.way {
            CopyDirection::In => {
                client.ask_places(grant, false);
                let place = Place::Stream;
                let header = FrameHeader::new(FrameType::GRANT, message.request);
                self.push(key, header, &Frame::Grant(Grant { grant, place }));
            }
            CopyDirection::Out => {
                let (spans, total) = (message.spans, message.total);
                client.output.deliver(grant, message.request, spans, total);
                self.enqueue(key);
            }
        }
    }

    /// Fails an operation whose memory does not exist. For the server the transfer counts as aborted, or as
    /// not accepted.
    // [FWD-45]
    fn fault(&mut self, key: usize, failed: &Failed) {
        let (now, grant) = (self.now(), GrantId(failed.grant));
        let request = failed.message.request;
        self.counters.faults += 1;
        debug!(key, request, "a client named memory that it does not have");
        let Some(client) = self.clients.get_mut(key) else {
            return;
        };
        if client.stop(failed.grant).is_err() {
            return self.lose(key, Departure::Broken);
        }
        match failed.way {
            CopyDirection::In => {
                client.faulty = Some(request);
                self.engine.transfer_aborted(now, grant);
                self.pump();
                if let Some(client) = self.clients.get_mut(key) {
                    client.faulty = None;
                }
            }
            CopyDirection::Out => {
                client.requests.remove(&request);
                let header =
                    FrameHeader::new(FrameType::RECV_REPLY, request).with_status(Status::FAULT);
                self.push(key, header, &Frame::RecvReply(RecvReply::NOTHING));
                let result = Err(Errno::ConnectionReset);
                self.engine.transfer_acknowledged(now, grant, result);
                self.pump();
            }
        }
    }
}
