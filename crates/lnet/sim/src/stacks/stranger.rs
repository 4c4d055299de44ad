//! Hostile machines: they speak the LND's protocol correctly, and attack the layers above.
//!
//! A thief gets handles, because nodes send it requests, and answers nothing. A forger answers in the thief's
//! place, in its own name and in the thief's name, and sends many unwanted messages.

use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use lnd::{Disposition, Failure, NiId, RxId, TxId, Upper};
use lnet_tcp::{Destination, Job, Readiness, SendRequest, Socklnd, Source, Staging};
use lnet_types::{Nid, ProcessId, Time};
use lnet_wire::{Ack, Body, Handle as WireHandle, Header, Put, Reply};

use crate::stacks::driver::Drive;
use crate::stacks::node::{PORTAL, lnd, serve};
use crate::stacks::plan::{Plan, Program};
use crate::stacks::port::{Handle, Port, Shared};

/// The handles that the thieves of a world have got.
pub(crate) type Loot = Arc<Mutex<Vec<Stolen>>>;

/// The handle of a node that waits for a response.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Stolen {
    victim: Nid,
    thief: Nid,
    body: Body,
    length: u32,
}

/// A hostile machine.
pub(crate) struct Stranger {
    lnd: Socklnd<Port>,
    side: Side,
    /// The time of the next attack, and the number of attacks that remain.
    attack_at: Time,
    attacks_left: u32,
    victims: Vec<Nid>,
    next_tx: u64,
}

/// The upper side of the LND.
struct Side {
    own: Nid,
    steals: bool,
    loot: Loot,
}

/// The number of a forger's attacks, and the time between them: six seconds in all.
const ATTACKS: u32 = 120;
const ATTACK_GAP: Duration = Duration::from_millis(50);

/// The number of unwanted messages in one attack.
const FLOOD: u32 = 20;

/// The number of its only interface.
const NI: NiId = NiId(1);

impl Stranger {
    pub(crate) fn boot(
        plan: &Plan,
        machine: u32,
        life: u32,
        fabric: &Shared,
        loot: &Loot,
        now: Time,
    ) -> Option<Self> {
        let spec = plan.machines.get(machine as usize)?;
        let own = *spec.nids.first()?;
        let mut lnd = lnd(plan, machine, life, fabric);
        serve(&mut lnd, NI, own, life).ok()?;
        let nodes = plan
            .machines
            .iter()
            .filter(|machine| machine.program.is_node());
        let reachable = nodes.flat_map(|machine| machine.nids.iter().copied());
        Some(Self {
            lnd,
            side: Side {
                own,
                steals: spec.program == Program::Thief,
                loot: Arc::clone(loot),
            },
            attack_at: now,
            attacks_left: if spec.program == Program::Forger {
                ATTACKS
            } else {
                0
            },
            victims: reachable.filter(|nid| nid.net() == own.net()).collect(),
            next_tx: 0,
        })
    }

    fn attack(&mut self, now: Time) {
        self.attacks_left -= 1;
        self.attack_at = now + ATTACK_GAP;
        let loot = self
            .side
            .loot
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
            .clone();
        let own = self.side.own;
        for stolen in loot {
            for source in [own, stolen.thief] {
                self.forge(&stolen, source, now);
            }
        }
        let unwanted = Body::Put(Put {
            ack_wmd: WireHandle::NONE,
            match_bits: u64::MAX,
            hdr_data: 0,
            ptl_index: PORTAL,
            offset: 0,
        });
        let victims = self.victims.clone();
        for victim in (0..FLOOD).zip(victims.iter().cycle()).map(|(_, nid)| *nid) {
            self.send(victim, own, unwanted, 0, now);
        }
    }

    fn forge(&mut self, stolen: &Stolen, source: Nid, now: Time) {
        let (body, length) = match stolen.body {
            Body::Get(get) => {
                let dst_wmd = get.return_wmd;
                (Body::Reply(Reply { dst_wmd }), stolen.length)
            }
            Body::Put(put) => {
                let ack = Ack {
                    dst_wmd: put.ack_wmd,
                    match_bits: put.match_bits,
                    mlength: stolen.length,
                };
                (Body::Ack(ack), 0)
            }
            Body::Ack(_) | Body::Reply(_) => return,
        };
        self.send(stolen.victim, source, body, length, now);
    }

    fn send(&mut self, victim: Nid, source: Nid, body: Body, length: u32, now: Time) {
        self.next_tx += 1;
        let header = Header {
            dest_nid: victim,
            src_nid: source,
            dest_pid: ProcessId::LUSTRE_PID,
            src_pid: ProcessId::LUSTRE_PID,
            payload_length: length,
            body,
        };
        let payload = (length > 0).then(|| Source::Shared(vec![0x5A; length as usize].into()));
        let request = SendRequest {
            tx: TxId(self.next_tx),
            ni: NI,
            to: ProcessId::lustre(victim),
            header,
            payload,
            deadline: now + Duration::from_secs(1),
        };
        self.lnd.send(request, now, &mut self.side);
    }
}

impl Upper for Side {
    type Destination = Destination;
    type Payload = Source;

    fn header(
        &mut self,
        _: NiId,
        _: ProcessId,
        header: &Header,
        _: Time,
    ) -> Disposition<Destination> {
        let wanted = match header.body {
            Body::Get(get) if get.ptl_index == PORTAL => Some(get.sink_length),
            Body::Put(put) if put.ptl_index == PORTAL && put.ack_wmd != WireHandle::NONE => {
                Some(header.payload_length)
            }
            _ => None,
        };
        if let Some(length) = wanted.filter(|_| self.steals) {
            let stolen = Stolen {
                victim: header.src_nid,
                thief: self.own,
                body: header.body,
                length,
            };
            self.loot
                .lock()
                .unwrap_or_else(PoisonError::into_inner)
                .push(stolen);
        }
        Disposition::Drop
    }

    fn received(&mut self, _: RxId, _: Result<(), Failure>, _: Time) {}

    fn sent(&mut self, _: TxId, _: Result<(), Failure>, _: Time) {}

    fn peer_changed(&mut self, _: NiId, _: ProcessId, _: bool, _: Option<u64>, _: Time) {}
}

impl Drive for Stranger {
    fn ready(&mut self, slot: usize, readiness: Readiness, now: Time) {
        self.lnd.ready(slot, readiness, now, &mut self.side);
    }

    fn tick(&mut self, now: Time) {
        self.lnd.tick(now, &mut self.side);
        if self.attacks_left > 0 && self.attack_at <= now {
            self.attack(now);
        }
    }

    fn decide(&mut self, _: Time) -> bool {
        false
    }

    fn next_job(&mut self, now: Time) -> Option<Job<Handle>> {
        self.lnd.next_job(now, &mut self.side)
    }

    fn finish(&mut self, job: Job<Handle>, staging: &mut Staging, now: Time) {
        self.lnd.finish(job, staging, now, &mut self.side);
    }

    fn has_work(&self) -> bool {
        self.lnd.has_work()
    }

    fn next_deadline(&self) -> Option<Time> {
        let attack = (self.attacks_left > 0).then_some(self.attack_at);
        [self.lnd.next_deadline(), attack]
            .into_iter()
            .flatten()
            .min()
    }
}
