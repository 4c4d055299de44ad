//! The handler that executes the calls of a server, and what the server tells it about clients.

use lnet_types::Nid;

use crate::call::Call;
use crate::proto::ClientId;

/// The answer of a handler.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Reply {
    /// 0, or an errno.
    pub status: i32,
    /// At most [`REPLY_BODY_MAX`](crate::REPLY_BODY_MAX) bytes. A longer body is an error of the handler, and
    /// the server answers EMSGSIZE.
    pub body: Vec<u8>,
}

impl Reply {
    /// Makes a reply of success.
    #[must_use]
    pub fn ok(body: Vec<u8>) -> Self {
        Self { status: 0, body }
    }

    /// Makes a reply of failure.
    #[must_use]
    pub fn error(errno: i32, body: Vec<u8>) -> Self {
        Self {
            status: errno,
            body,
        }
    }
}

/// The executor of calls. Several threads call it at once.
pub trait Handler: Send + Sync + 'static {
    /// Executes one call; never a second time for the same call of a session.
    ///
    /// A panic of the handler is not caught, because the state that the handler was changing may be
    /// inconsistent. The panic ends the process if panics abort, as in Finerail's own release builds; otherwise
    /// it ends the worker.
    fn call(&self, call: &mut Call<'_>) -> Reply;

    /// Returns what an earlier life of this server left; called when the server starts. A server that continues
    /// from there answers the calls of the earlier life as if there had been no restart: a call with a kept
    /// reply gets that reply, and a call without one is executed. So a handler that restores must, before it
    /// executes a call that may not be executed twice, keep a durable record of that call.
    fn restore(&self) -> Option<Restored> {
        None
    }

    /// Notes that a client has a session; called before the client receives the answer. A handler that restores
    /// must keep a durable record of the session.
    fn session_opened(&self, session: &Session) {
        let _ = session;
    }

    /// Notes that a client said goodbye or was silent for too long: the handler may free what it keeps for the
    /// client. No call of the client runs when this function is called, and none will run in the same session.
    fn session_ended(&self, client: ClientId) {
        let _ = client;
    }
}

/// The session of a client at a server.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Session {
    /// The client.
    pub client: ClientId,
    /// The NID from which the client opened the session.
    pub nid: Nid,
    /// The number of the session at this server.
    pub number: u64,
}

/// What a server continues from after a restart.
#[derive(Clone, Debug, Default)]
pub struct Restored {
    /// The incarnation that clients know; the server keeps it.
    pub incarnation: u64,
    /// The highest number of a session so far. The server gives new sessions higher numbers.
    pub sessions: u64,
    /// The clients that have a session.
    pub clients: Vec<RestoredClient>,
}

/// A client that has a session.
#[derive(Clone, Debug)]
pub struct RestoredClient {
    /// The session of the client.
    pub session: Session,
    /// The lowest transaction id whose reply the client may still wait for.
    pub lowest: u64,
    /// The calls that were executed, by transaction id, each with the reply that was sent or would have been.
    pub calls: Vec<(u64, Reply)>,
}
