//! Bodies of messages, one structure for each layout.

use super::codec::Codec;
use super::{FEATURE_BULK_LEN, Name, Service, SessionId};

/// The body of a message.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Body {
    /// Makes a session.
    MakeRequest(MakeRequest),
    /// The result of [`Self::MakeRequest`].
    MakeReply(MakeReply),
    /// Ends a session.
    RemoveRequest(RemoveRequest),
    /// The result of [`Self::RemoveRequest`].
    RemoveReply(SessionReply),
    /// Runs, stops or queries a batch.
    BatchRequest(BatchRequest),
    /// The state of the batch.
    BatchReply(BatchReply),
    /// Asks for counters.
    StatRequest(StatRequest),
    /// The counters.
    StatReply(StatReply),
    /// Adds a test to a batch.
    TestRequest(TestRequest),
    /// The result of [`Self::TestRequest`].
    TestReply(SessionReply),
    /// Asks which session a node has.
    DebugRequest(DebugRequest),
    /// The session that the node has.
    DebugReply(DebugReply),
    /// Asks for a transfer of bulk.
    BulkRequest(BulkRequest),
    /// The result of the transfer: 0, or an errno.
    BulkReply(u32),
    /// Asks for an answer, to test the path.
    PingRequest(PingRequest),
    /// The answer to a ping.
    PingReply(PingReply),
    /// A request that no known node sends.
    JoinRequest(JoinRequest),
    /// A reply that no known node sends.
    JoinReply(JoinReply),
}

impl Body {
    /// Returns an empty body of this message type; `None` for a type that does not exist.
    pub(super) fn of_type(kind: u32) -> Option<Self> {
        Some(match kind {
            0 => Self::MakeRequest(MakeRequest::default()),
            1 => Self::MakeReply(MakeReply::default()),
            2 => Self::RemoveRequest(RemoveRequest::default()),
            3 => Self::RemoveReply(SessionReply::default()),
            4 => Self::BatchRequest(BatchRequest::default()),
            5 => Self::BatchReply(BatchReply::default()),
            6 => Self::StatRequest(StatRequest::default()),
            7 => Self::StatReply(StatReply::default()),
            8 => Self::TestRequest(TestRequest::default()),
            9 => Self::TestReply(SessionReply::default()),
            10 => Self::DebugRequest(DebugRequest::default()),
            11 => Self::DebugReply(DebugReply::default()),
            12 => Self::BulkRequest(BulkRequest::default()),
            13 => Self::BulkReply(0),
            14 => Self::PingRequest(PingRequest::default()),
            15 => Self::PingReply(PingReply::default()),
            16 => Self::JoinRequest(JoinRequest::default()),
            17 => Self::JoinReply(JoinReply::default()),
            _ => return None,
        })
    }

    /// Returns the message type.
    #[must_use]
    pub const fn message_type(&self) -> u32 {
        match self {
            Self::MakeRequest(_) => 0,
            Self::MakeReply(_) => 1,
            Self::RemoveRequest(_) => 2,
            Self::RemoveReply(_) => 3,
            Self::BatchRequest(_) => 4,
            Self::BatchReply(_) => 5,
            Self::StatRequest(_) => 6,
            Self::StatReply(_) => 7,
            Self::TestRequest(_) => 8,
            Self::TestReply(_) => 9,
            Self::DebugRequest(_) => 10,
            Self::DebugReply(_) => 11,
            Self::BulkRequest(_) => 12,
            Self::BulkReply(_) => 13,
            Self::PingRequest(_) => 14,
            Self::PingReply(_) => 15,
            Self::JoinRequest(_) => 16,
            Self::JoinReply(_) => 17,
        }
    }

    /// Returns the service that a request is for; `None` for a reply, and for JOIN, which has no service.
    #[must_use]
    pub const fn service(&self) -> Option<Service> {
        Some(match self {
            Self::MakeRequest(_) => Service::MAKE_SESSION,
            Self::RemoveRequest(_) => Service::REMOVE_SESSION,
            Self::BatchRequest(_) => Service::BATCH,
            Self::StatRequest(_) => Service::STAT,
            Self::TestRequest(_) => Service::TEST,
            Self::DebugRequest(_) => Service::DEBUG,
            Self::BulkRequest(_) => Service::BULK,
            Self::PingRequest(_) => Service::PING,
            _ => return None,
        })
    }

    /// Returns the match bits for the reply to this request; `None` for a reply.
    #[must_use]
    pub const fn reply_id(&self) -> Option<u64> {
        Some(match self {
            Self::MakeRequest(request) => request.reply_id,
            Self::RemoveRequest(request) => request.reply_id,
            Self::BatchRequest(request) => request.reply_id,
            Self::StatRequest(request) => request.reply_id,
            Self::TestRequest(request) => request.reply_id,
            Self::DebugRequest(request) => request.reply_id,
            Self::BulkRequest(request) => request.reply_id,
            Self::PingRequest(request) => request.reply_id,
            Self::JoinRequest(request) => request.reply_id,
            _ => return None,
        })
    }

    /// Sets the match bits of the reply and of the bulk in a request.
    pub(crate) fn set_ids(&mut self, reply_id: u64, bulk: Option<u64>) {
        match self {
            Self::MakeRequest(request) => request.reply_id = reply_id,
            Self::RemoveRequest(request) => request.reply_id = reply_id,
            Self::BatchRequest(request) => request.reply_id = reply_id,
            Self::StatRequest(request) => request.reply_id = reply_id,
            Self::DebugRequest(request) => request.reply_id = reply_id,
            Self::PingRequest(request) => request.reply_id = reply_id,
            Self::JoinRequest(request) => request.reply_id = reply_id,
            Self::TestRequest(request) => {
                request.reply_id = reply_id;
                request.bulk_id = bulk.unwrap_or(0);
            }
            Self::BulkRequest(request) => {
                request.reply_id = reply_id;
                request.bulk_id = bulk.unwrap_or(0);
            }
            _ => {}
        }
    }

    /// Returns the status of a reply, which is a positive errno or 0; `None` for a request.
    #[must_use]
    pub const fn status(&self) -> Option<u32> {
        Some(match self {
            Self::MakeReply(reply) => reply.status,
            Self::RemoveReply(reply) | Self::TestReply(reply) => reply.status,
            Self::BatchReply(reply) => reply.status,
            Self::StatReply(reply) => reply.status,
            Self::DebugReply(reply) => reply.status,
            Self::BulkReply(status) => *status,
            Self::PingReply(reply) => reply.status,
            Self::JoinReply(reply) => reply.status,
            _ => return None,
        })
    }

    pub(super) fn fields(&mut self, features: u32, codec: &mut impl Codec) {
        match self {
            Self::MakeRequest(body) => body.fields(codec),
            Self::MakeReply(body) => body.fields(codec),
            Self::RemoveRequest(body) => body.fields(codec),
            Self::RemoveReply(body) | Self::TestReply(body) => body.fields(codec),
            Self::BatchRequest(body) => body.fields(codec),
            Self::BatchReply(body) => body.fields(codec),
            Self::StatRequest(body) => body.fields(codec),
            Self::StatReply(body) => body.fields(codec),
            Self::TestRequest(body) => body.fields(features, codec),
            Self::DebugRequest(body) => body.fields(codec),
            Self::DebugReply(body) => body.fields(codec),
            Self::BulkRequest(body) => body.fields(codec),
            Self::BulkReply(status) => codec.u32(status),
            Self::PingRequest(body) => body.fields(codec),
            Self::PingReply(body) => body.fields(codec),
            Self::JoinRequest(body) => body.fields(codec),
            Self::JoinReply(body) => body.fields(codec),
        }
    }
}

impl Default for SessionId {
    fn default() -> Self {
        Self::NONE
    }
}

impl Default for Name {
    fn default() -> Self {
        Self::EMPTY
    }
}

impl Name {
    fn fields(&mut self, codec: &mut impl Codec) {
        codec.bytes(&mut self.0);
    }
}

/// Makes a session, or joins the one that has this id.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct MakeRequest {
    /// Match bits of the reply.
    pub reply_id: u64,
    /// The id of the session.
    pub session: SessionId,
    /// If not 0, this session replaces another one.
    pub force: u32,
    /// The name of the session.
    pub name: Name,
}

impl MakeRequest {
    fn fields(&mut self, codec: &mut impl Codec) {
        codec.u64(&mut self.reply_id);
        self.session.fields(codec);
        codec.u32(&mut self.force);
        self.name.fields(codec);
    }
}

/// The answer to [`MakeRequest`]: the session that the node has now.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct MakeReply {
    /// 0, or an errno.
    pub status: u32,
    /// The session that the node has.
    pub session: SessionId,
    /// Seconds without framework RPCs after which the session ends.
    pub timeout: u32,
    /// The name of the session that prevents this one. Has no meaning if the status is 0.
    pub name: Name,
}

impl MakeReply {
    fn fields(&mut self, codec: &mut impl Codec) {
        codec.u32(&mut self.status);
        self.session.fields(codec);
        codec.u32(&mut self.timeout);
        self.name.fields(codec);
    }
}

/// Ends a session.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct RemoveRequest {
    /// Match bits of the reply.
    pub reply_id: u64,
    /// The id of the session.
    pub session: SessionId,
}

impl RemoveRequest {
    fn fields(&mut self, codec: &mut impl Codec) {
        codec.u64(&mut self.reply_id);
        self.session.fields(codec);
    }
}

/// The answer to [`RemoveRequest`] and [`TestRequest`].
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct SessionReply {
    /// 0, or an errno.
    pub status: u32,
    /// The session that the node has.
    pub session: SessionId,
}

impl SessionReply {
    fn fields(&mut self, codec: &mut impl Codec) {
        codec.u32(&mut self.status);
        self.session.fields(codec);
    }
}

/// Runs, stops or queries a batch.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct BatchRequest {
    /// Match bits of the reply.
    pub reply_id: u64,
    /// The id of the session.
    pub session: SessionId,
    /// The number of the batch.
    pub batch: u64,
    /// [`Self::RUN`], [`Self::STOP`] or [`Self::QUERY`].
    pub operation: u32,
    /// A test of the batch, from 1, or 0 for the whole batch.
    pub test: u32,
    /// With [`Self::STOP`]: not 0 aborts the RPCs that are under way.
    pub argument: u32,
}

impl BatchRequest {
    /// Runs the batch.
    pub const RUN: u32 = 1;
    /// Stops the batch.
    pub const STOP: u32 = 2;
    /// Asks whether the batch runs.
    pub const QUERY: u32 = 3;

    fn fields(&mut self, codec: &mut impl Codec) {
        codec.u64(&mut self.reply_id);
        self.session.fields(codec);
        codec.u64(&mut self.batch);
        codec.u32(&mut self.operation);
        codec.u32(&mut self.test);
        codec.u32(&mut self.argument);
    }
}

/// The state of a batch.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct BatchReply {
    /// 0, or an errno.
    pub status: u32,
    /// The session that the node has.
    pub session: SessionId,
    /// Tests at this client that run.
    pub active: u32,
    /// Always 0.
    pub time: u32,
}

impl BatchReply {
    fn fields(&mut self, codec: &mut impl Codec) {
        codec.u32(&mut self.status);
        self.session.fields(codec);
        codec.u32(&mut self.active);
        codec.u32(&mut self.time);
    }
}

/// Asks for counters.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct StatRequest {
    /// Match bits of the reply.
    pub reply_id: u64,
    /// The id of the session.
    pub session: SessionId,
    /// 0; ignored by the receiver.
    pub kind: u32,
}

impl StatRequest {
    fn fields(&mut self, codec: &mut impl Codec) {
        codec.u64(&mut self.reply_id);
        self.session.fields(codec);
        codec.u32(&mut self.kind);
    }
}

/// Counters of a node.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct StatReply {
    /// 0, or an errno.
    pub status: u32,
    /// The session that the node has.
    pub session: SessionId,
    /// Counters of the session.
    pub framework: FrameworkCounters,
    /// Counters of selftest since it began.
    pub rpc: RpcCounters,
    /// Counters of LNet since it began.
    pub lnet: LnetCounters,
}

/// The counters of a session.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct FrameworkCounters {
    /// Age of the session, in milliseconds.
    pub running_ms: u32,
    /// Batches in which a test runs.
    pub active_batches: u32,
    /// Sessions that ended while a test of them still had RPCs under way.
    pub zombie_sessions: u32,
    /// Bulk RPCs of the session's tests that failed.
    pub bulk_errors: u32,
    /// Pings of the session's tests that failed.
    pub ping_errors: u32,
}

/// The counters of selftest.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct RpcCounters {
    /// RPCs of this node that failed, and RPCs whose reply this node could not send.
    pub errors: u32,
    /// RPCs that this node began.
    pub sent: u32,
    /// RPCs that other nodes sent to this node.
    pub received: u32,
    /// RPCs that other nodes sent to this node and that it dropped.
    pub dropped: u32,
    /// RPCs that this node began and that expired without an answer.
    pub expired: u32,
    /// Bytes that this node fetched as a server.
    pub bulk_get: u64,
    /// Bytes that this node sent as a server.
    pub bulk_put: u64,
}

/// The counters of LNet.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct LnetCounters {
    /// Messages that are under way now.
    pub msgs_alloc: u32,
    /// The highest number of messages that were under way at once.
    pub msgs_max: u32,
    /// Errors.
    pub errors: u32,
    /// Messages sent.
    pub send_count: u32,
    /// Messages received.
    pub recv_count: u32,
    /// Messages routed.
    pub route_count: u32,
    /// Messages dropped.
    pub drop_count: u32,
    /// Payload sent, in bytes.
    pub send_length: u64,
    /// Payload received, in bytes.
    pub recv_length: u64,
    /// Payload routed, in bytes.
    pub route_length: u64,
    /// Payload dropped, in bytes.
    pub drop_length: u64,
}

impl StatReply {
    fn fields(&mut self, codec: &mut impl Codec) {
        codec.u32(&mut self.status);
        self.session.fields(codec);
        let framework = &mut self.framework;
        codec.u32(&mut framework.running_ms);
        codec.u32(&mut framework.active_batches);
        codec.u32(&mut framework.zombie_sessions);
        codec.u32(&mut framework.bulk_errors);
        codec.u32(&mut framework.ping_errors);
        let rpc = &mut self.rpc;
        codec.u32(&mut rpc.errors);
        codec.u32(&mut rpc.sent);
        codec.u32(&mut rpc.received);
        codec.u32(&mut rpc.dropped);
        codec.u32(&mut rpc.expired);
        codec.u64(&mut rpc.bulk_get);
        codec.u64(&mut rpc.bulk_put);
        self.lnet.fields(codec);
    }
}

impl LnetCounters {
    fn fields(&mut self, codec: &mut impl Codec) {
        codec.u32(&mut self.msgs_alloc);
        codec.u32(&mut self.msgs_max);
        codec.u32(&mut self.errors);
        codec.u32(&mut self.send_count);
        codec.u32(&mut self.recv_count);
        codec.u32(&mut self.route_count);
        codec.u32(&mut self.drop_count);
        codec.u64(&mut self.send_length);
        codec.u64(&mut self.recv_length);
        codec.u64(&mut self.route_length);
        codec.u64(&mut self.drop_length);
    }
}

/// Adds a test to a batch, at a client or at a server of the test.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct TestRequest {
    /// Match bits of the reply.
    pub reply_id: u64,
    /// Match bits of the list of destinations; 0 at a server.
    pub bulk_id: u64,
    /// The id of the session.
    pub session: SessionId,
    /// The number of the batch. The first test of a batch begins the batch.
    pub batch: u64,
    /// The service that the test loads.
    pub service: u32,
    /// At a client: RPCs of each unit, one after another; a negative number means without end. At a server:
    /// request buffers that the console asks for.
    pub repeat: i32,
    /// Units for each destination. A unit has one RPC under way at a time.
    pub concurrency: u32,
    /// If not 0, this node is a client of the test; otherwise a server.
    pub is_client: u8,
    /// If not 0, the first error ends a unit.
    pub stop_on_error: u8,
    /// Entries in the list of destinations; 0 at a server.
    pub destinations: u32,
    /// The parameters of each RPC.
    pub params: Params,
}

impl TestRequest {
    fn fields(&mut self, features: u32, codec: &mut impl Codec) {
        codec.u64(&mut self.reply_id);
        codec.u64(&mut self.bulk_id);
        self.session.fields(codec);
        codec.u64(&mut self.batch);
        codec.u32(&mut self.service);
        codec.i32(&mut self.repeat);
        codec.u32(&mut self.concurrency);
        codec.u8(&mut self.is_client);
        codec.u8(&mut self.stop_on_error);
        codec.u32(&mut self.destinations);
        self.params.fields(self.service, features, codec);
    }
}

/// The parameters of each RPC of a test. Their layout depends on the service and on the features.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Params {
    /// Parameters of a service that the protocol description does not name.
    Other([u8; 12]),
    /// A ping; kernel consoles send zeros.
    Ping {
        /// Has no meaning.
        size: u32,
        /// Has no meaning.
        flags: u32,
    },
    /// Bulk in pages of 4096 bytes, without [`FEATURE_BULK_LEN`].
    Pages {
        /// The operation: 1 read, 2 write.
        operation: u32,
        /// Length of the bulk, in pages.
        pages: u32,
        /// The flag of the check, see [`Check`](crate::pattern::Check).
        flags: u32,
    },
    /// Bulk in bytes.
    Bytes {
        /// The operation: 1 read, 2 write.
        operation: u16,
        /// The flag of the check, see [`Check`](crate::pattern::Check).
        flags: u16,
        /// Length of the bulk, in bytes.
        len: u32,
        /// Where the bulk begins in the first page of the client, in bytes.
        offset: u32,
    },
}

impl Default for Params {
    fn default() -> Self {
        Self::Other([0; 12])
    }
}

impl Params {
    fn fields(&mut self, service: u32, features: u32, codec: &mut impl Codec) {
        // A reader has no layout yet, so choose one. A writer has a layout, which stays.
        if matches!(self, Self::Other(_)) {
            *self = match (Service(service), features & FEATURE_BULK_LEN) {
                (Service::PING, _) => Self::Ping { size: 0, flags: 0 },
                (Service::BULK, 0) => Self::Pages {
                    operation: 0,
                    pages: 0,
                    flags: 0,
                },
                (Service::BULK, _) => Self::Bytes {
                    operation: 0,
                    flags: 0,
                    len: 0,
                    offset: 0,
                },
                _ => *self,
            };
        }
        match self {
            Self::Other(bytes) => codec.bytes(bytes),
            Self::Ping { size, flags } => [size, flags]
                .into_iter()
                .for_each(|number| codec.u32(number)),
            Self::Pages {
                operation,
                pages,
                flags,
            } => [operation, pages, flags]
                .into_iter()
                .for_each(|number| codec.u32(number)),
            Self::Bytes {
                operation,
                flags,
                len,
                offset,
            } => {
                codec.u16(operation);
                codec.u16(flags);
                codec.u32(len);
                codec.u32(offset);
            }
        }
    }
}

/// Asks which session a node has.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct DebugRequest {
    /// Match bits of the reply.
    pub reply_id: u64,
    /// The id of the sender's session.
    pub session: SessionId,
    /// 0; ignored by the receiver.
    pub flags: u32,
}

impl DebugRequest {
    fn fields(&mut self, codec: &mut impl Codec) {
        codec.u64(&mut self.reply_id);
        self.session.fields(codec);
        codec.u32(&mut self.flags);
    }
}

/// The session that a node has.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct DebugReply {
    /// 0, or an errno.
    pub status: u32,
    /// The id of the session.
    pub session: SessionId,
    /// Seconds without framework RPCs after which the session ends.
    pub timeout: u32,
    /// The number of batches of the session.
    pub batches: u32,
    /// The name of the session.
    pub name: Name,
}

impl DebugReply {
    fn fields(&mut self, codec: &mut impl Codec) {
        codec.u32(&mut self.status);
        self.session.fields(codec);
        codec.u32(&mut self.timeout);
        codec.u32(&mut self.batches);
        self.name.fields(codec);
    }
}

/// Asks for a transfer of bulk.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct BulkRequest {
    /// Match bits of the reply.
    pub reply_id: u64,
    /// Match bits of the bulk.
    pub bulk_id: u64,
    /// The operation: [`Self::READ`] or [`Self::WRITE`].
    pub operation: u32,
    /// Length of the bulk, in bytes.
    pub len: u32,
    /// The flag of the check.
    pub flags: u32,
}

impl BulkRequest {
    /// Read: the server puts.
    pub const READ: u32 = 1;
    /// Write: the server gets.
    pub const WRITE: u32 = 2;

    fn fields(&mut self, codec: &mut impl Codec) {
        codec.u64(&mut self.reply_id);
        codec.u64(&mut self.bulk_id);
        codec.u32(&mut self.operation);
        codec.u32(&mut self.len);
        codec.u32(&mut self.flags);
    }
}

/// Asks for an answer, to test the path.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct PingRequest {
    /// Match bits of the reply.
    pub reply_id: u64,
    /// The magic word, [`super::PING_MAGIC`].
    pub magic: u32,
    /// The number of this ping in its test.
    pub sequence: u32,
    /// The time at which the ping was sent: whole seconds since 1970.
    pub seconds: u64,
    /// The rest of that time, in nanoseconds.
    pub nanoseconds: u64,
}

impl PingRequest {
    fn fields(&mut self, codec: &mut impl Codec) {
        codec.u64(&mut self.reply_id);
        codec.u32(&mut self.magic);
        codec.u32(&mut self.sequence);
        codec.u64(&mut self.seconds);
        codec.u64(&mut self.nanoseconds);
    }
}

/// The answer to a ping.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct PingReply {
    /// 0, or an errno.
    pub status: u32,
    /// The magic word of the request.
    pub magic: u32,
    /// The number of the ping, from the request.
    pub sequence: u32,
}

impl PingReply {
    fn fields(&mut self, codec: &mut impl Codec) {
        codec.u32(&mut self.status);
        codec.u32(&mut self.magic);
        codec.u32(&mut self.sequence);
    }
}

/// A request to join a session. No known node sends it.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct JoinRequest {
    /// Match bits of the reply.
    pub reply_id: u64,
    /// The id of the session.
    pub session: SessionId,
    /// The name of a group.
    pub group: Name,
}

impl JoinRequest {
    fn fields(&mut self, codec: &mut impl Codec) {
        codec.u64(&mut self.reply_id);
        self.session.fields(codec);
        self.group.fields(codec);
    }
}

/// The answer to [`JoinRequest`]. No known node sends it.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct JoinReply {
    /// 0, or an errno.
    pub status: u32,
    /// The id of the session.
    pub session: SessionId,
    /// Seconds without framework RPCs after which the session ends.
    pub timeout: u32,
    /// The name of the session.
    pub name: Name,
}

impl JoinReply {
    fn fields(&mut self, codec: &mut impl Codec) {
        codec.u32(&mut self.status);
        self.session.fields(codec);
        codec.u32(&mut self.timeout);
        self.name.fields(codec);
    }
}
