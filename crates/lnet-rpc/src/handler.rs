//! What executes the calls of a server, and what the server tells of its clients.

use lnet_types::Nid;

use crate::call::Call;
use crate::proto::ClientId;

/// What a handler answers.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Reply {
    /// 0, or an errno.
    pub status: i32,
    /// At most [`REPLY_BODY_MAX`](crate::REPLY_BODY_MAX) bytes; a longer one is an error of the handler and answered as EMSGSIZE.
    pub body: Vec<u8>,
}

impl Reply {
    /// A reply of success.
    #[must_use]
    pub fn ok(body: Vec<u8>) -> Self {
        Self { status: 0, body }
    }

    /// A reply of failure.
    #[must_use]
    pub fn error(errno: i32, body: Vec<u8>) -> Self {
        Self {
            status: errno,
            body,
        }
    }
}

/// Executes calls. Called from several threads at once.
pub trait Handler: Send + Sync + 'static {
    /// Executes one call; never a second time for the same call of a session.
    ///
    /// A handler that panics ends the process where panics abort, as in Finerail's own release builds, and
    /// its worker elsewhere: nothing is caught, because what it was changing is half changed.
    fn call(&self, call: &mut Call<'_>) -> Reply;

    /// What an earlier life of this server left, when the server starts. A server that goes on with it answers calls
    /// of that life as if there had been no restart: what has a reply gets that, what has none is executed. So
    /// whoever restores must keep, before it is executed, each call that may not be executed twice.
    fn restore(&self) -> Option<Restored> {
        None
    }

    /// A client has a session; told before the client is. A server that goes on after a restart must know of it.
    fn client_came(&self, session: &Session) {
        let _ = session;
    }

    /// A client has said goodbye or was silent for too long: whatever is kept for it may go. No call of it
    /// runs when this is called, and none will under the same session.
    fn client_gone(&self, client: ClientId) {
        let _ = client;
    }
}

/// A client's session at a server.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Session {
    /// The client.
    pub client: ClientId,
    /// Where it came from.
    pub nid: Nid,
    /// The number of the session at this server.
    pub number: u64,
}

/// What a server goes on with after a restart.
#[derive(Clone, Debug, Default)]
pub struct Restored {
    /// The incarnation that clients know.
    pub incarnation: u64,
    /// Sessions that the server opens have higher numbers than this.
    pub sessions: u64,
    /// The clients with a session.
    pub clients: Vec<RestoredClient>,
}

/// A client with a session.
#[derive(Clone, Debug)]
pub struct RestoredClient {
    /// Its session.
    pub session: Session,
    /// The client waits for no call with a lower transaction id.
    pub lowest: u64,
    /// Calls that were executed, by transaction id, and what was answered or would have been.
    pub calls: Vec<(u64, Reply)>,
}
