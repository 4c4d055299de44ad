//! The virtual LND: connections, queues and timeouts. Its kinds differ in the classes of failures.
//!
//! ```text
//!   transmit ─▶ queue ─(connected, port up)─▶ posted ─▶ completion ─▶ sent
//!                 │                             │
//!                 └── stuck, rejected, dropped  └── no completion in time, flushed, failed ─▶ sent
//! ```

use std::collections::{BTreeMap, VecDeque};
use std::time::Duration;

use lnet_core::{MessageStatus, TxId};
use lnet_types::{Nid, Time};

use super::{
    Action, Actions, CompletionError, ConnectError, Incarnation, LndEvent, LndKind, Message, o2ib,
    sock,
};

/// The differences between the LNDs: the class of each kind of failure.
#[derive(Debug)]
pub(super) struct Classes {
    /// The class of a posted message whose connection the other end closed.
    pub(super) closed: MessageStatus,
    /// The class of a posted message that failed.
    pub(super) completion: fn(CompletionError) -> MessageStatus,
}

/// The driver of one interface.
#[derive(Debug)]
pub struct Lnd {
    classes: &'static Classes,
    timeout: Duration,
    port_up: bool,
    device_ok: bool,
    /// The number of times that the port went down.
    port_downs: u32,
    connections: BTreeMap<Nid, Connection>,
    /// Messages on the wire, in posting order. Their deadlines rise in this order, except that a deadline of the
    /// core's own may be earlier.
    posted: VecDeque<Posted>,
    /// The number of messages in the queues of connections.
    queued: usize,
    /// No message expires before this time. It may be earlier than the earliest deadline, but never later.
    due: Option<Time>,
}

#[derive(Debug, Default)]
struct Connection {
    state: State,
    queue: VecDeque<(Time, Message)>,
}

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
enum State {
    #[default]
    None,
    Connecting,
    Up(Incarnation),
}

#[derive(Clone, Copy, Debug)]
struct Posted {
    tx: TxId,
    peer: Nid,
    deadline: Time,
    port_downs: u32,
}

impl Lnd {
    /// Makes a driver without connections. A message expires after `timeout`.
    #[must_use]
    pub fn new(kind: LndKind, timeout: Duration) -> Self {
        let classes = match kind {
            LndKind::O2ib => &o2ib::CLASSES,
            LndKind::Sock => &sock::CLASSES,
        };
        Self {
            classes,
            timeout,
            port_up: true,
            device_ok: true,
            port_downs: 0,
            connections: BTreeMap::new(),
            posted: VecDeque::new(),
            queued: 0,
            due: None,
        }
    }

    /// Returns the time at which [`Lnd::tick`] must be called; `None` if nothing waits.
    #[must_use]
    pub fn next_deadline(&self) -> Option<Time> {
        self.due
            .filter(|_| self.queued > 0 || !self.posted.is_empty())
    }

    /// Accepts a message of the core that is to be sent.
    pub fn transmit(&mut self, message: Message, now: Time, actions: &mut Actions) {
        if !self.device_ok {
            return end(message.tx, MessageStatus::LocalDropped, actions);
        }
        let deadline = message.deadline.min(now + self.timeout);
        self.note_deadline(deadline);
        let peer = message.peer;
        let connection = self.connections.entry(peer).or_default();
        match connection.state {
            State::Up(incarnation) if self.port_up && connection.queue.is_empty() => {
                self.post(message, deadline, incarnation, actions);
            }
            _ => {
                connection.queue.push_back((deadline, message));
                self.queued += 1;
                self.serve(peer, actions);
            }
        }
    }

    /// Processes an event of the device, of a connection or of a message.
    pub fn event(&mut self, event: LndEvent, now: Time, actions: &mut Actions) {
        // Messages whose deadline has passed end first, because the event must not post them.
        self.tick(now, actions);
        match event {
            LndEvent::DeviceFatal => {
                self.device_ok = false;
                actions.push_back(Action::Fatal(true));
                self.end_all(
                    MessageStatus::LocalDropped,
                    MessageStatus::LocalError,
                    actions,
                );
            }
            LndEvent::DeviceReady => {
                self.device_ok = true;
                actions.push_back(Action::Fatal(!self.port_up));
            }
            LndEvent::PortDown => {
                self.port_up = false;
                self.port_downs += 1;
                actions.push_back(Action::Fatal(true));
            }
            LndEvent::PortUp => self.port_came_up(actions),
            LndEvent::Interrupted => {
                let (queued, posted) =
                    (MessageStatus::LocalInterrupt, MessageStatus::NetworkTimeout);
                self.end_all(queued, posted, actions);
            }
            LndEvent::Connected { peer, incarnation } => {
                self.connected(peer, incarnation, actions);
            }
            LndEvent::ConnectFailed { peer, error } => self.connect_failed(peer, error, actions),
            LndEvent::Closed { peer } => self.break_off(peer, self.classes.closed, actions),
            LndEvent::Completion { tx, result } => self.completed(tx, result, actions),
        }
    }

    /// Ends the messages whose deadline has passed.
    pub fn tick(&mut self, now: Time, actions: &mut Actions) {
        if self.next_deadline().is_none_or(|due| due > now) {
            return;
        }
        self.end_stuck(now, actions);
        while let Some(at) = self.posted.iter().position(|posted| posted.deadline <= now) {
            let Some(posted) = self.posted.remove(at) else {
                break;
            };
            let status = if posted.port_downs == self.port_downs {
                MessageStatus::RemoteTimeout
            } else {
                MessageStatus::NetworkTimeout
            };
            end(posted.tx, status, actions);
            self.tear_down(posted.peer, actions);
        }
        self.due = self.earliest();
    }

    fn note_deadline(&mut self, deadline: Time) {
        self.due = Some(self.due.map_or(deadline, |due| due.min(deadline)));
    }

    fn earliest(&self) -> Option<Time> {
        let queued = self.connections.values();
        let queued = queued.flat_map(|connection| connection.queue.iter().map(|(at, _)| *at));
        queued
            .chain(self.posted.iter().map(|posted| posted.deadline))
            .min()
    }

    fn post(
        &mut self,
        message: Message,
        deadline: Time,
        connection: Incarnation,
        actions: &mut Actions,
    ) {
        self.posted.push_back(Posted {
            tx: message.tx,
            peer: message.peer,
            deadline,
            port_downs: self.port_downs,
        });
        actions.push_back(Action::Post {
            message,
            connection,
        });
    }

    /// Posts the messages that a connection has queued, or sets the connection up.
    fn serve(&mut self, peer: Nid, actions: &mut Actions) {
        if !self.port_up || !self.device_ok {
            return;
        }
        let Some(connection) = self.connections.get_mut(&peer) else {
            return;
        };
        match connection.state {
            State::None if !connection.queue.is_empty() => {
                connection.state = State::Connecting;
                actions.push_back(Action::Connect { peer });
            }
            State::None | State::Connecting => {}
            State::Up(incarnation) => {
                let queue = std::mem::take(&mut connection.queue);
                self.queued -= queue.len();
                for (deadline, message) in queue {
                    self.post(message, deadline, incarnation, actions);
                }
            }
        }
    }

    fn port_came_up(&mut self, actions: &mut Actions) {
        self.port_up = true;
        actions.push_back(Action::Fatal(!self.device_ok));
        let peers: Vec<Nid> = self.connections.keys().copied().collect();
        for peer in peers {
            self.serve(peer, actions);
        }
    }

    fn connected(&mut self, peer: Nid, incarnation: Incarnation, actions: &mut Actions) {
        let connection = self.connections.entry(peer).or_default();
        if connection.state != State::Connecting {
            return;
        }
        connection.state = State::Up(incarnation);
        actions.push_back(Action::Peer {
            nid: peer,
            alive: true,
        });
        self.serve(peer, actions);
    }

    fn connect_failed(&mut self, peer: Nid, error: ConnectError, actions: &mut Actions) {
        let failed = |connection: &&mut Connection| connection.state == State::Connecting;
        let Some(connection) = self.connections.get_mut(&peer).filter(failed) else {
            return;
        };
        connection.state = State::None;
        let queue = std::mem::take(&mut connection.queue);
        self.queued -= queue.len();
        actions.push_back(Action::Peer {
            nid: peer,
            alive: false,
        });
        for (_, message) in queue {
            end(message.tx, connect(error), actions);
        }
    }

    fn completed(&mut self, tx: TxId, result: Result<(), CompletionError>, actions: &mut Actions) {
        let Some(at) = self.posted.iter().position(|posted| posted.tx == tx) else {
            return;
        };
        let Some(posted) = self.posted.remove(at) else {
            return;
        };
        match result {
            Ok(()) => end(tx, MessageStatus::Ok, actions),
            Err(error) => {
                end(tx, (self.classes.completion)(error), actions);
                self.tear_down(posted.peer, actions);
            }
        }
    }

    /// Closes a connection that can no longer be trusted.
    fn tear_down(&mut self, peer: Nid, actions: &mut Actions) {
        actions.push_back(Action::Close { peer });
        self.break_off(peer, MessageStatus::NetworkTimeout, actions);
    }

    /// Handles the end of a connection: its posted messages end, and its queued messages cause a new connection.
    fn break_off(&mut self, peer: Nid, status: MessageStatus, actions: &mut Actions) {
        self.posted.retain(|posted| {
            let stays = posted.peer != peer;
            if !stays {
                end(posted.tx, status, actions);
            }
            stays
        });
        if let Some(connection) = self.connections.get_mut(&peer)
            && matches!(connection.state, State::Up(_))
        {
            connection.state = State::None;
            actions.push_back(Action::Peer {
                nid: peer,
                alive: false,
            });
        }
        self.serve(peer, actions);
    }

    /// Ends all messages, and closes all connections.
    fn end_all(&mut self, queued: MessageStatus, posted: MessageStatus, actions: &mut Actions) {
        for (peer, connection) in std::mem::take(&mut self.connections) {
            if matches!(connection.state, State::Up(_)) {
                actions.push_back(Action::Close { peer });
            }
            for (_, message) in connection.queue {
                end(message.tx, queued, actions);
            }
        }
        self.queued = 0;
        for message in std::mem::take(&mut self.posted) {
            end(message.tx, posted, actions);
        }
    }

    fn end_stuck(&mut self, now: Time, actions: &mut Actions) {
        for connection in self.connections.values_mut() {
            let before = connection.queue.len();
            connection.queue.retain(|(deadline, message)| {
                let stays = *deadline > now;
                if !stays {
                    end(message.tx, MessageStatus::LocalTimeout, actions);
                }
                stays
            });
            self.queued -= before - connection.queue.len();
        }
    }
}

fn end(tx: TxId, status: MessageStatus, actions: &mut Actions) {
    actions.push_back(Action::Sent { tx, status });
}

/// Returns the class of a message that waited for a connection.
fn connect(error: ConnectError) -> MessageStatus {
    match error {
        ConnectError::Rejected | ConnectError::Unreachable => MessageStatus::RemoteDropped,
        ConnectError::NoRoute => MessageStatus::LocalNoRoute,
        ConnectError::Aborted => MessageStatus::LocalAborted,
    }
}
