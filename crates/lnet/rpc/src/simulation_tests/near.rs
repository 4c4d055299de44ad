//! The simulated nodes of the clients: match entries for bulk, messages that land in them, and memory on its
//! way back.
//!
//! ```text
//!          PUT ── landing ── landed: ACK
//!   open ───────────────────────────────────────────▶ unlinked or cancelled ──▶ gone
//!                                                       │ what is landing        what has not landed
//!                                                       ▼ may still land         by now is cut off
//! ```

use std::time::Duration;

use bytes::Bytes;
use lnet_node::Memory;

use super::{DEADLINE, Defect, Happening, Key, Operation, Piece, World};
use crate::memory::CallMemory;

/// The memory that is lent to an attempt.
pub(super) struct Loan {
    pub(super) call: Key,
    attempt: u32,
    memory: Memory,
    landing: u32,
    state: State,
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum State {
    Open,
    /// The entry matches nothing any more, and is freed when nothing is landing in it.
    Unlinked,
    /// The entry matches nothing any more, and is freed soon; messages that are landing are cut off.
    Cancelled,
}

impl World {
    /// Attaches memory and returns its match bits.
    pub(super) fn lend(&mut self, call: Key, attempt: u32, memory: Memory) -> u64 {
        self.count += 1;
        let loan = Loan {
            call,
            attempt,
            memory,
            landing: 0,
            state: State::Open,
        };
        self.loans.insert(self.count, loan);
        self.lent.insert(self.count, call);
        self.count
    }

    pub(super) fn cancel_bulk(&mut self, call: Key) {
        for bits in self.bits_of(call, |state| state != State::Cancelled) {
            let is_stuck = self.draw(100) < self.weather.stuck;
            let Some(loan) = self.loans.get_mut(&bits) else {
                continue;
            };
            loan.state = State::Cancelled;
            let after = match (is_stuck, loan.landing) {
                (true, _) => DEADLINE * 2,
                (false, 0) => Duration::ZERO,
                (false, _) => self.draw_ms(50),
            };
            self.at(after, Happening::LetGo { bits });
        }
    }

    pub(super) fn unlink_bulk(&mut self, call: Key) {
        for bits in self.bits_of(call, |state| state == State::Open) {
            if let Some(loan) = self.loans.get_mut(&bits) {
                loan.state = State::Unlinked;
                if loan.landing == 0 {
                    self.at(Duration::ZERO, Happening::LetGo { bits });
                }
            }
        }
    }

    /// Handles a message of a transfer that has come to the client's node.
    pub(super) fn piece(&mut self, piece: Piece) {
        let open = self.loans.get_mut(&piece.bits);
        let Some(loan) = open.filter(|loan| loan.state == State::Open) else {
            self.seen.late += 1;
            return self.write_late(&piece);
        };
        let (call, attempt) = (loan.call, loan.attempt);
        match (&piece.operation, &mut loan.memory) {
            (Operation::Put(data), Memory::Sink(room)) => {
                // The first half lands now, the rest later.
                write(room, piece.offset, &data[..data.len() / 2]);
                loan.landing += 1;
                let slow = if self.draw(5) == 0 { 4000 } else { 20 };
                let duration = self.draw_ms(slow);
                self.at(duration, Happening::Landed(piece));
            }
            (Operation::Get { len }, Memory::Source(data)) => {
                let from = piece.offset as usize;
                let data = data.slice(from..from + *len as usize);
                self.sign_of_life(call, attempt);
                self.answer(&piece, &data);
            }
            _ => {}
        }
    }

    /// Completes the payload of a PUT; if the memory has been given back, the payload is cut off.
    pub(super) fn landed(&mut self, piece: &Piece) {
        let Operation::Put(data) = &piece.operation else {
            return;
        };
        let Some(loan) = self.loans.get_mut(&piece.bits) else {
            self.seen.cut += 1;
            if self.weather.defect == Some(Defect::AcknowledgesCut) {
                self.answer(piece, data);
            }
            return self.write_late(piece);
        };
        if let Memory::Sink(room) = &mut loan.memory {
            write(room, piece.offset, data);
        }
        loan.landing -= 1;
        let is_last = loan.landing == 0 && loan.state != State::Open;
        let (call, attempt) = (loan.call, loan.attempt);
        self.sign_of_life(call, attempt);
        self.answer(piece, data);
        if is_last {
            self.let_go(piece.bits);
        }
    }

    /// Handles the last event of a descriptor: the call has the memory again.
    pub(super) fn let_go(&mut self, bits: u64) {
        let Some(loan) = self.loans.remove(&bits) else {
            return;
        };
        let (client, xid) = loan.call;
        if let Some(call) = self.clients[usize::from(client)].calls.get_mut(&xid) {
            if let Memory::Sink(room) = &loan.memory {
                call.given_back = Some(room.clone());
            }
            call.memory.came_back(loan.memory);
            self.wake(client, Duration::ZERO);
        }
    }

    fn answer(&mut self, piece: &Piece, data: &Bytes) {
        let (tag, incarnation) = (piece.tag, piece.incarnation);
        self.carry(|| Happening::Answer {
            tag,
            incarnation,
            data: data.clone(),
        });
    }

    fn bits_of(&self, call: Key, which: impl Fn(State) -> bool) -> Vec<u64> {
        let loans = self.loans.iter();
        loans
            .filter(|(_, loan)| loan.call == call && which(loan.state))
            .map(|(&bits, _)| bits)
            .collect()
    }

    /// Writes a late payload to where the memory is now: the defect that is planted on purpose.
    fn write_late(&mut self, piece: &Piece) {
        let call = self.lent.get(&piece.bits).copied();
        let (Some(Defect::WritesLate), Operation::Put(data), Some(call)) =
            (self.weather.defect, &piece.operation, call)
        else {
            return;
        };
        for (of, _, bytes) in &mut self.returned {
            if *of == call {
                write(bytes, piece.offset, data);
            }
        }
        let lent = self.loans.values_mut().filter(|loan| loan.call == call);
        for loan in lent {
            if let Memory::Sink(room) = &mut loan.memory {
                write(room, piece.offset, data);
            }
        }
        let owner = self.clients[usize::from(call.0)].calls.get_mut(&call.1);
        if let Some(CallMemory::Here(room)) = owner.map(|owner| &mut owner.memory) {
            write(room, piece.offset, data);
        }
    }
}

fn write(room: &mut [u8], offset: u32, data: &[u8]) {
    let from = (offset as usize).min(room.len());
    let room = &mut room[from..];
    let length = data.len().min(room.len());
    room[..length].copy_from_slice(&data[..length]);
}
