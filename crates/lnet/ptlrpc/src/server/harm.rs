//! What a check must never send.

use std::collections::BTreeSet;

use crate::body::{Body, flags};
use crate::client::Service;
use crate::message::Message;
use crate::opcode::{opc, opcode_name};
use crate::text::Text;

/// What may be asked of each kind of target.
const ALLOWED: [(Service, &[u32]); 3] = [
    (
        Service::Mgs,
        &[
            opc::MGS_CONNECT,
            opc::MGS_DISCONNECT,
            opc::LLOG_CREATE,
            opc::LLOG_READ_HEADER,
            opc::LLOG_NEXT_BLOCK,
            opc::MGS_CONFIG_READ,
        ],
    ),
    (
        Service::Mdt,
        &[
            opc::MDS_CONNECT,
            opc::MDS_DISCONNECT,
            opc::OBD_PING,
            opc::MDS_STATFS,
        ],
    ),
    (
        Service::Ost,
        &[
            opc::OST_CONNECT,
            opc::OST_DISCONNECT,
            opc::OBD_PING,
            opc::OST_STATFS,
        ],
    ),
];

/// The one set of flags of each connect.
const MGS_FLAGS: u64 = 0x0000_0110_0000_0020;
const TARGET_FLAGS: u64 = 0x0001_0010_4000_0021;

/// What was seen so far.
#[derive(Debug, Default)]
pub(super) struct Harm {
    seen: Vec<String>,
    /// By the connection: its name before it has a handle.
    xids: BTreeSet<(String, u64)>,
    opened: BTreeSet<String>,
}

impl Harm {
    pub(super) fn seen(&self) -> &[String] {
        &self.seen
    }

    pub(super) fn note(&mut self, what: impl Into<String>) {
        self.seen.push(what.into());
    }

    /// A request to a portal that is none of the three.
    pub(super) fn look_at_portal(&mut self, portal: u32) {
        let known = ALLOWED
            .iter()
            .any(|(service, _)| service.request_portal() == portal);
        if !known {
            self.note(format!("a request to portal {portal}"));
        }
    }

    // [PTLRPC-20] [PTLRPC-21]
    pub(super) fn look(
        &mut self,
        service: Service,
        xid: u64,
        message: &Message<'_>,
        body: &Body<'_>,
    ) {
        let opcode = body.opc();
        let name = opcode_name(opcode).unwrap_or("?");
        let allowed = ALLOWED.iter().find(|(of, _)| *of == service);
        let is_allowed = allowed.is_some_and(|(_, allowed)| allowed.contains(&opcode));
        let is_resent = body.flags() == flags::RESENT;
        let client = match body.handle() {
            0 => name_of(message, 2),
            handle => handle.to_string(),
        };
        let rules = [
            (is_allowed, "is not among the operations that are harmless"),
            (body.is_request(), "is no request"),
            (body.timeout() != 0, "has the timeout 0"),
            (body.transno() == 0, "has a transaction number"),
            (body.conn_cnt() != 0, "has the generation 0"),
            (body.flags() & !flags::RESENT == 0, "has flags"),
            (message.flags() == 0, "asks for early replies"),
            (
                message.flavor().0 & 0xf_ffff == 0,
                "has another flavor than null",
            ),
            (
                xid != 0 && xid.is_multiple_of(64),
                "has an xid with low bits",
            ),
            (
                self.xids.insert((client, xid)) || is_resent,
                "has an xid that was used before",
            ),
            (
                body.job().bytes() == b"finerail-doctor",
                "hides who sends it",
            ),
        ];
        for (_, what) in rules.iter().filter(|(holds, _)| !holds) {
            self.note(format!("{name} {what}"));
        }
        match opcode {
            opc::MGS_CONNECT | opc::MDS_CONNECT | opc::OST_CONNECT => {
                self.look_at_connect(service, message, body);
            }
            opc::LLOG_CREATE => self.look_at_name(message),
            opc::MGS_CONFIG_READ => self.look_at_table(message),
            opc::LLOG_NEXT_BLOCK => {
                let at = message.buffer(1).and_then(|view| view.u64(40));
                if at.is_none_or(|at| !at.is_multiple_of(8192)) {
                    self.note("LLOG_NEXT_BLOCK begins inside of a block");
                }
            }
            _ => {}
        }
    }

    fn look_at_connect(&mut self, service: Service, message: &Message<'_>, body: &Body<'_>) {
        let data = message.buffer(4).and_then(|view| view.u64(0));
        let wanted = match service {
            Service::Mgs => MGS_FLAGS,
            Service::Mdt | Service::Ost => TARGET_FLAGS,
        };
        let rest = message.buffer(4).map(|view| view.part(12, 180));
        let is_zero = rest.is_some_and(|rest| rest.bytes().iter().all(|byte| *byte == 0));
        let uuid = name_of(message, 2);
        let rules = [
            (
                data == Some(wanted),
                "asks for other flags than the harmless ones",
            ),
            (is_zero, "asks for more than flags"),
            (uuid.len() == 36, "has a client's name that is no UUID"),
            (
                name_of(message, 1) != uuid,
                "has the target's name as its own",
            ),
            (
                message.buffer(3).and_then(|view| view.u64(0)) > Some(0),
                "has no handle",
            ),
            (body.op_flags() == 0x20, "is not an initial one"),
            (body.handle() == 0, "names a handle of the server"),
        ];
        for (_, what) in rules.iter().filter(|(holds, _)| !holds) {
            self.note(format!("a connect {what}"));
        }
    }

    /// An MGS takes the sizes of the room as they are: others than those of every client can end it.
    fn look_at_table(&mut self, message: &Message<'_>) {
        let name = name_of(message, 1);
        let asked = message.buffer(1).unwrap_or(crate::view::View::little(&[]));
        let fs = name.strip_suffix("-cliir").unwrap_or_default();
        let rules = [
            (asked.bytes().len() == 80, "has another length"),
            (
                self.opened.contains(&format!("{fs}-client")),
                "reads before the log is open",
            ),
            (asked.u64(64) > Some(0), "begins before the table"),
            (asked.u16(72) == Some(2), "reads another table"),
            (asked.u8(74) == Some(20), "asks for other NIDs"),
            (
                (asked.u8(75), asked.u32(76)) == (Some(12), Some(256)),
                "has another room",
            ),
        ];
        for (_, what) in rules.iter().filter(|(holds, _)| !holds) {
            self.note(format!("MGS_CONFIG_READ {what}"));
        }
    }

    /// Opening a name that is no client's log can make the MGS write one.
    fn look_at_name(&mut self, message: &Message<'_>) {
        let name = name_of(message, 2);
        let may_open = match name.rsplit_once('-') {
            Some((_, "client")) => true,
            Some((fs, "sptlrpc")) => self.opened.contains(&format!("{fs}-client")),
            _ => false,
        };
        if !may_open {
            self.note(format!("LLOG_CREATE opens '{name}'"));
        }
        self.opened.insert(name);
    }
}

/// Returns the name in a buffer; empty if there is none.
pub(super) fn name_of(message: &Message<'_>, index: usize) -> String {
    let bytes = message.buffer(index).map(|view| view.bytes());
    Text::new(bytes.unwrap_or_default()).to_string()
}
