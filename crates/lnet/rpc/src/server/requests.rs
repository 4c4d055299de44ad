//! What the server does with a request that it could decode: asks the table, then executes or answers it.

use lnet_types::{Nid, Time};
use tracing::{debug, warn};

use super::{Mail, Shared};
use crate::handler::Session;
use crate::proto::{self, ClientId, Outcome, RequestHeader};
use crate::table::{Address, Admission};

impl Shared {
    pub(super) fn request(
        &self,
        header: RequestHeader,
        message: Vec<u8>,
        address: Address,
        now: Time,
    ) {
        let Some(admission) = self.admit(&header, address, now) else {
            return;
        };
        let from = address.process.nid;
        match admission {
            Admission::Execute => self.execute(header, message, address),
            Admission::NewerAttempt => {
                self.counting.repeated.one();
                self.report_attempt(header.client, header.xid);
            }
            Admission::Replay(reply) => {
                self.counting.replayed.one();
                self.note_silent_gateway(header.client, header.xid, now);
                let reply = proto::with_clock(&reply, self.server_clock.show(now)).into();
                self.send_reply(header.client, header.xid, address, reply);
            }
            Admission::Opened(number, displaced) => {
                self.opened(&header, address, number, displaced, now)
            }
            Admission::Connected(session) => {
                let body = proto::encode_session(session, self.options.idle);
                self.answer(&header, address, Outcome::Done, &body);
            }
            Admission::Gone => {
                self.handler.session_ended(header.client);
                self.answer(&header, address, Outcome::Done, &[]);
            }
            Admission::Leaving => self.answer(&header, address, Outcome::Done, &[]),
            Admission::Expired => {
                self.counting.expired.one();
                self.answer(&header, address, Outcome::Busy, &[]);
            }
            Admission::Crowded => {
                if let Some(times) = self.counting.crowded.one(now) {
                    warn!(%from, times, "refuses clients whose NID or router has as many sessions as it may have");
                }
                self.answer(&header, address, Outcome::Busy, &[]);
            }
            Admission::Full => {
                if let Some(times) = self.counting.full.one(now) {
                    warn!(%from, times, "refuses clients: the server is full");
                }
                self.answer(&header, address, Outcome::Busy, &[]);
            }
            Admission::Answer(outcome) => {
                self.count_answer(outcome, from, now);
                self.answer(&header, address, outcome, &[]);
            }
            Admission::Ignore(why) => {
                self.counting.ignored.one();
                debug!(client = %header.client, xid = header.xid, ?why, "ignored");
            }
        }
    }

    /// Asks the table about a request; `None` if the request is dropped.
    fn admit(&self, header: &RequestHeader, address: Address, now: Time) -> Option<Admission> {
        let mut state = self.state();
        if state.answers.has_room(address.payer()) {
            return Some(state.table.admit(header, address, now));
        }
        // An answer would be one more message that waits for this peer. The client asks again.
        if let Some(times) = self.counting.unread.one(now) {
            let from = address.process.nid;
            warn!(%from, times, "drops requests of peers that leave too many answers unacknowledged");
        }
        None
    }

    /// Begins a session. `displaced` is the client whose session ended to make room.
    fn opened(
        &self,
        header: &RequestHeader,
        address: Address,
        number: u64,
        displaced: Option<ClientId>,
        now: Time,
    ) {
        let (client, nid) = (header.client, address.process.nid);
        if let Some(displaced) = displaced {
            if let Some(times) = self.counting.displaced.one(now) {
                warn!(by = %nid, times, "ends sessions that never began a call, to make room");
            }
            self.handler.session_ended(displaced);
        }
        self.handler.session_opened(&Session {
            client,
            nid,
            number,
        });
        let body = proto::encode_session(number, self.options.idle);
        self.answer(header, address, Outcome::Done, &body);
    }

    fn report_attempt(&self, client: ClientId, xid: u64) {
        if let Some(mailbox) = self.state().mailboxes.get_mut(&(client, xid))
            && !mailbox.has_attempt
        {
            mailbox.has_attempt = true;
            let _ended = mailbox.mail.send(Mail::Attempt);
        }
    }

    fn count_answer(&self, outcome: Outcome, from: Nid, now: Time) {
        match outcome {
            Outcome::Busy => {
                if let Some(times) = self.counting.busy.one(now) {
                    warn!(%from, times, "answers \"busy\": a limit is reached");
                }
            }
            Outcome::Refused => {
                if let Some(times) = self.counting.refused.one(now) {
                    warn!(%from, times, "refuses requests that ask for more than the server accepts");
                }
            }
            Outcome::WrongIncarnation | Outcome::UnknownClient => self.counting.voided.one(),
            Outcome::Done => {}
        }
    }
}
